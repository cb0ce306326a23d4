//! The methods of ops, and their options.
//!
//! A file for each family of ops, made by `cargo xtask docs` from the schemas in `crates/ops`.
//! The crate exports the options as `options`.

mod arithmetic;
mod collectives;
mod comparison;
mod complex;
mod concatenation;
mod convolution;
mod copies;
mod counting;
mod dropout;
mod embedding;
mod flips;
mod fourier;
mod fused;
mod grids;
mod indexing;
mod linear;
mod matrix;
mod normalisation;
mod pointwise;
mod random;
mod reductions;
mod softmax;
mod sorting;
mod special;
mod ternary;
mod views;

pub use arithmetic::{Add, Div, Sub};
pub use collectives::{
    Allgather, Allreduce, Alltoall, Barrier, Broadcast, GatherTo, Recv, Reduce, ReduceScatter,
    ScatterFrom, Send,
};
pub use convolution::{AvgPool2d, Conv1d, Conv2d, Conv3d, Convolution, MaxPool2d};
pub use copies::{Cast, Copy};
pub use counting::{Histc, Mode, NonzeroStatic, Searchsorted, Unique};
pub use dropout::Dropout;
pub use embedding::{Embedding, ScaledDotProductAttention};
pub use flips::ConstantPadNd;
pub use fourier::{FftC2c, FftC2r, FftR2c};
pub use grids::{CtcLoss, GridSampler2d, GridSampler3d, SegmentReduce};
pub use indexing::{IndexAdd, IndexPut, ScatterReduce};
pub use linear::{
    LinalgCholeskyEx, LinalgEig, LinalgEigh, LinalgInvEx, LinalgLdlFactorEx, LinalgLdlSolve,
    LinalgLstsq, LinalgLuFactorEx, LinalgLuSolve, LinalgQr, LinalgSolveTriangular, LinalgSvd,
    LuUnpack, Ormqr,
};
pub use matrix::{Addmm, Baddbmm};
pub use normalisation::{BatchNorm, LayerNorm};
pub use pointwise::{
    Elu, Gelu, Hardshrink, Hardtanh, LeakyRelu, Logit, NanToNum, Softplus, Softshrink,
};
pub use random::{Bernoulli, Exponential, Normal, Randint, Uniform};
pub use reductions::{
    All, Amax, Amin, Any, Argmax, Argmin, Cumprod, Cumsum, HashTensor, LinalgVectorNorm, Logsumexp,
    Max, Mean, Min, Prod, Std, Sum, Var,
};
pub use softmax::{
    BinaryCrossEntropy, BinaryCrossEntropyWithLogits, HuberLoss, MseLoss, NllLoss, SmoothL1Loss,
};
pub use sorting::{Argsort, Sort, Topk};
pub use special::Polygamma;
pub use ternary::{Addcdiv, Addcmul};
pub use views::{AsStrided, Diagonal};
