//! The methods of ops, and their options.
//!
//! A file for each family of ops, made by `cargo xtask docs` from the schemas in `crates/ops`.
//! The crate exports the options as `options`.

mod arith;
mod collective;
mod compare;
mod complex;
mod concat;
mod conv;
mod copy;
mod counting;
mod dropout;
mod embedding;
mod fft;
mod fused;
mod grid;
mod index;
mod linalg;
mod matmul;
mod norm;
mod pointwise;
mod random;
mod rearrange;
mod reduce;
mod softmax;
mod sort;
mod special;
mod ternary;
mod views;

pub use arith::{Add, Div, Sub};
pub use collective::{
    Allgather, Allreduce, Alltoall, Barrier, Broadcast, GatherTo, Recv, Reduce, ReduceScatter,
    ScatterFrom, Send,
};
pub use conv::{
    AvgPool2d, AvgPool3d, Col2im, Conv1d, Conv2d, Conv3d, Convolution, Im2col, MaxPool2d,
    MaxPool3dWithIndices,
};
pub use copy::{Cast, Copy};
pub use counting::{Bincount, Histc, Histogram, Mode, NonzeroStatic, Searchsorted, Unique};
pub use dropout::Dropout;
pub use embedding::{Embedding, LstmLayer, ScaledDotProductAttention};
pub use fft::{FftC2c, FftC2r, FftR2c};
pub use grid::{
    CtcLoss, GridSampler2d, GridSampler3d, SegmentReduce, UpsampleBicubic2d, UpsampleBilinear2d,
    UpsampleLinear1d, UpsampleNearest1d, UpsampleNearest2d, UpsampleNearest3d, UpsampleTrilinear3d,
};
pub use index::{IndexAdd, IndexPut, IndexReduce, Put, ScatterMean, ScatterReduce, ScatterSum};
pub use linalg::{
    CholeskyInverse, CholeskySolve, LinalgCholeskyEx, LinalgEig, LinalgEigh, LinalgInvEx,
    LinalgLdlFactorEx, LinalgLdlSolve, LinalgLstsq, LinalgLuFactorEx, LinalgLuSolve, LinalgPinv,
    LinalgQr, LinalgSolveTriangular, LinalgSvd, LuUnpack, Ormqr,
};
pub use matmul::{Addbmm, Addmm, Addmv, Addr, Baddbmm};
pub use norm::{BatchNorm, LayerNorm};
pub use pointwise::{
    Celu, Elu, Gelu, Hardshrink, Hardtanh, LeakyRelu, Logit, NanToNum, Softplus, Softshrink,
};
pub use random::{Bernoulli, Exponential, Normal, Randint, Uniform};
pub use rearrange::{ConstantPadNd, DiagEmbed, Rot90};
pub use reduce::{
    All, Amax, Amin, Aminmax, Any, Argmax, Argmin, Cdist, Cumprod, Cumsum, Dist, HashTensor,
    LinalgVectorNorm, Logsumexp, Max, Mean, Min, Nansum, Pdist, Prod, Std, StdMean, Sum, Var,
    VarMean,
};
pub use softmax::{
    BinaryCrossEntropy, BinaryCrossEntropyWithLogits, HuberLoss, MseLoss, MultiMarginLoss,
    MultilabelMarginLoss, NllLoss, SmoothL1Loss, SoftMarginLoss,
};
pub use sort::{Argsort, Kthvalue, Median, Nanmedian, Sort, Topk};
pub use special::Polygamma;
pub use ternary::{Addcdiv, Addcmul};
pub use views::{AsStrided, Diagonal};
