//! Gather, scatter and indexing.
//!
//! | op | result |
//! |---|---|
//! | `gather(x, index; dim)` | x at the index along a dimension |
//! | `scatter(x, index, src; dim)` | x with src written where `gather` would read |
//! | `scatter(x, index; dim, value)` | the same with one value |
//! | `scatter_add(x, index, src; dim)` | x with src added there |
//! | `scatter_reduce(x, index, src; dim, reduce, include_self)` | x combined with src there |
//! | `index_select(x, index; dim)` | the slices at the index along a dimension |
//! | `index_add(x, index, source; dim, alpha=1)` | x with alpha · source added to those slices |
//! | `index(x, indices...; absent)` | `x[i, j, ...]`, as in NumPy |
//! | `index_put(x, values, indices...; absent, accumulate)` | x, `x[i, j, ...]` set or added to |
//! | `select_backward(grad; input_sizes, dim, index)` | zeros, with grad where `select` reads |
//! | `slice_backward(grad; input_sizes, dim, start, end, step)` | the same for `slice` |
//! | `diagonal_backward(grad; input_sizes, offset, dim1, dim2)` | the same for `diagonal` |
//!
//! `scatter_`, `scatter_add_`, `index_add_` and `index_put_` are the in-place forms. Indices are
//! i64 or i32. The kernel checks them, since they are data. Only `index` and `index_put` accept
//! negative ones, which count from the end. If several indices name one element, the last write in
//! row-major order of the index wins, and sums are added in that order; results are therefore the
//! same in every run.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `elements` | gather and scatter: an index for each element along a dimension |
//! | `slices` | index_select and index_add: an index for each slice of a dimension |
//! | `advanced` | index and index_put: indices of several dimensions, and masks |
//! | `backward` | gradients of views |
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.gather.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.scatter_.html>,
//! <https://numpy.org/doc/stable/user/basics.indexing.html#advanced-indexing>.

use millstream_types::{Access, DType, Dims, Result, TensorSpec};
use smallvec::SmallVec;

use crate::def::{Def, refused};
use crate::schema::{OutputSpec, Signature};

mod advanced;
mod backward;
mod elements;
mod slices;

pub use advanced::{Plan, indexed_dims, plan};
pub use elements::REDUCTIONS;

pub(crate) const OPS: &[Def] = &[
    elements::GATHER,
    elements::SCATTER,
    elements::SCATTER_,
    elements::SCATTER_ADD,
    elements::SCATTER_ADD_,
    elements::SCATTER_REDUCE,
    slices::INDEX_SELECT,
    slices::INDEX_ADD,
    slices::INDEX_ADD_,
    advanced::INDEX,
    advanced::INDEX_PUT,
    advanced::INDEX_PUT_,
    backward::SELECT_BACKWARD,
    backward::SLICE_BACKWARD,
    backward::DIAGONAL_BACKWARD,
];

/// Checks that an index is i64 or i32. As in PyTorch, one without elements may have any dtype.
fn check_index(op: &str, index: &TensorSpec) -> Result<()> {
    match index.dtype {
        _ if index.numel() == 0 => Ok(()),
        DType::I64 | DType::I32 => Ok(()),
        _ => Err(refused(op, format!("expected an index of i64 or i32, got {}", index.brief()))),
    }
}

/// Returns the shape, with one dimension of length 1 for a tensor without dimensions.
fn raised(x: &TensorSpec) -> Dims {
    if x.layout.rank() == 0 { Dims::from_elem(1, 1) } else { Dims::from_slice(x.shape()) }
}

/// Returns the signature of a call that changes its first tensor in place and reads the others.
fn in_place(op: &str, inputs: &[TensorSpec]) -> Result<Signature> {
    let x = &inputs[0];
    if x.layout.may_overlap_itself() {
        let message =
            format!("{x} has overlapping elements and cannot be changed in place; pass a copy");
        return Err(refused(op, message));
    }
    let mut accesses = SmallVec::from_elem(Access::Read, inputs.len());
    accesses[0] = Access::ReadWrite;
    Ok(Signature { accesses, outputs: SmallVec::from_iter([OutputSpec::Same(0)]), workspace: 0 })
}
