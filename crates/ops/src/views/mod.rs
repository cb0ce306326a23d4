//! Views: other layouts of the same storage. They have no kernel.
//!
//! | op | result |
//! |---|---|
//! | `transpose(x; dim0, dim1)` | two dimensions exchanged |
//! | `t(x)` | the two dimensions of a matrix exchanged |
//! | `permute(x; dims)` | the dimensions permuted |
//! | `squeeze(x; dim)`, `unsqueeze(x; dim)` | dimensions of length 1 removed, added |
//! | `expand(x; size)` | dimensions of length 1 repeated |
//! | `alias(x)`, `detach(x)` | all of x |
//! | `slice(x; dim=0, start=0, end, step=1)` | every step-th element of a range of one dimension |
//! | `narrow(x; dim, start, length)` | a range of one dimension |
//! | `select(x; dim, index)` | one element of a dimension |
//! | `diagonal(x; offset=0, dim1=0, dim2=1)` | the diagonals of two dimensions |
//! | `unfold(x; dimension, size, step)` | all windows of a dimension |
//! | `view(x; size)` | the same elements in row-major order in another shape |
//! | `reshape(x; shape)` | as `view`, or a new tensor where strides do not allow a view |
//! | `as_strided(x; size, stride, storage_offset)` | any part of the storage of x |
//! | `split(x; split_size, dim=0)`, `chunk(x; chunks, dim=0)` | parts of equal length |
//! | `split_with_sizes(x; split_sizes, dim=0)` | parts of given lengths |
//! | `unbind(x; dim=0)` | each element of a dimension |
//!
//! `slice` counts negative bounds from the end and clamps bounds out of range. `view` and `reshape`
//! accept one length of -1 and compute it from the others. The builder of a program checks that a
//! view by `as_strided` lies within the storage, which the schema does not know.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `dims` | dimensions exchanged, added, removed, repeated |
//! | `range` | ranges and windows of dimensions, diagonals |
//! | `shape` | other shapes |
//! | `split` | several views of one tensor |
//!
//! Source: <https://docs.pytorch.org/docs/stable/tensor_view.html>.

use crate::def::Def;

pub(crate) mod dims;
pub(crate) mod range;
mod shape;
mod split;

pub use range::{diagonal, narrow, select, slice};
pub use shape::view_strides;

pub(crate) const OPS: &[Def] = &[
    dims::TRANSPOSE,
    dims::T,
    dims::PERMUTE,
    dims::SQUEEZE,
    dims::UNSQUEEZE,
    dims::EXPAND,
    dims::ALIAS,
    dims::DETACH,
    range::SLICE,
    range::NARROW,
    range::SELECT,
    range::DIAGONAL,
    range::UNFOLD,
    shape::VIEW,
    shape::RESHAPE,
    shape::AS_STRIDED,
    split::SPLIT,
    split::CHUNK,
    split::SPLIT_WITH_SIZES,
    split::UNBIND,
];
