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
mod distances;
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
mod recurrent;
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
pub use convolution::{
    AvgPool2d, AvgPool3d, Col2im, Conv1d, Conv2d, Conv3d, Convolution, Im2col, MaxPool2d,
    MaxPool3dWithIndices,
};
pub use copies::{Cast, Copy};
pub use counting::{Bincount, Histc, Mode, NonzeroStatic, Searchsorted, Unique};
pub use distances::{Cdist, Dist, Pdist};
pub use dropout::Dropout;
pub use embedding::{Embedding, ScaledDotProductAttention};
pub use flips::{ConstantPadNd, DiagEmbed, Rot90};
pub use fourier::{FftC2c, FftC2r, FftR2c};
pub use grids::{
    CtcLoss, GridSampler2d, GridSampler3d, SegmentReduce, UpsampleBicubic2d, UpsampleBilinear2d,
    UpsampleLinear1d, UpsampleNearest1d, UpsampleNearest2d, UpsampleNearest3d, UpsampleTrilinear3d,
};
pub use indexing::{IndexAdd, IndexPut, IndexReduce, Put, ScatterMean, ScatterReduce, ScatterSum};
pub use linear::{
    CholeskyInverse, CholeskySolve, LinalgCholeskyEx, LinalgEig, LinalgEigh, LinalgInvEx,
    LinalgLdlFactorEx, LinalgLdlSolve, LinalgLstsq, LinalgLuFactorEx, LinalgLuSolve, LinalgPinv,
    LinalgQr, LinalgSolveTriangular, LinalgSvd, LuUnpack, Ormqr,
};
pub use matrix::{Addbmm, Addmm, Addmv, Addr, Baddbmm};
pub use normalisation::{BatchNorm, LayerNorm};
pub use pointwise::{
    Celu, Elu, Gelu, Hardshrink, Hardtanh, LeakyRelu, Logit, NanToNum, Softplus, Softshrink,
};
pub use random::{Bernoulli, Exponential, Normal, Randint, Uniform};
pub use recurrent::LstmLayer;
pub use reductions::{
    All, Amax, Amin, Aminmax, Any, Argmax, Argmin, Cumprod, Cumsum, HashTensor, LinalgVectorNorm,
    Logsumexp, Max, Mean, Min, Nansum, Prod, Std, StdMean, Sum, Var, VarMean,
};
pub use softmax::{
    BinaryCrossEntropy, BinaryCrossEntropyWithLogits, HuberLoss, MseLoss, MultiMarginLoss,
    MultilabelMarginLoss, NllLoss, SmoothL1Loss, SoftMarginLoss,
};
pub use sorting::{Argsort, Kthvalue, Median, Nanmedian, Sort, Topk};
pub use special::Polygamma;
pub use ternary::{Addcdiv, Addcmul};
pub use views::{AsStrided, Diagonal};
