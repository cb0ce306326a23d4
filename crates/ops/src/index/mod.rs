//! Elements picked and placed by index.
//!
//! | op | result |
//! |---|---|
//! | `gather(x, index; dim)` | x at the index along a dimension, elsewhere at the same place |
//! | `scatter(x, index, src; dim)` | x with src put where `gather` would read |
//! | `scatter(x, index; dim, value)` | the same with one value |
//! | `scatter_add(x, index, src; dim)` | x with src added there |
//! | `index_select(x, index; dim)` | those slices of a dimension |
//! | `index_add(x, index, source; dim, alpha=1)` | x with alpha · source added to those slices |
//! | `index(x, indices...; absent)` | `x[i, j, ...]`, as in NumPy |
//! | `index_put(x, values, indices...; absent, accumulate=false)` | x, `x[i, j, ...]` set or added to |
//! | `select_backward(grad; input_sizes, dim, index)` | zeros, and grad where `select` looks |
//! | `slice_backward(grad; input_sizes, dim, start, end, step)` | the same for `slice` |
//! | `diagonal_backward(grad; input_sizes, offset, dim1, dim2)` | the same for `diagonal` |
//!
//! `scatter_`, `scatter_add_`, `index_add_` and `index_put_` are the same in place. Indices are i64 or i32; the
//! kernel checks them, since they are data. Only `index` and `index_put` count negative ones from
//! the end. Where an element is named more than once, the last in row-major order of the index
//! stays, and sums are added in that order, so that results are the same in every run.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `along` | one index for each element, along a dimension |
//! | `slices` | one index for each slice of a dimension |
//! | `advanced` | indices of several dimensions at once, and masks |
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
mod along;
mod backward;
mod slices;

pub use advanced::{Plan, listed, plan};

pub(crate) const OPS: &[Def] = &[
    along::GATHER,
    along::SCATTER,
    along::SCATTER_,
    along::SCATTER_ADD,
    along::SCATTER_ADD_,
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

/// Refuses an index of another dtype than i64 and i32.
fn check_index(op: &str, index: &TensorSpec) -> Result<()> {
    match index.dtype {
        DType::I64 | DType::I32 => Ok(()),
        _ => Err(refused(op, format!("expected an index of i64 or i32, got {}", index.brief()))),
    }
}

/// The shape, in which a tensor of no dimensions has one, of length 1.
fn raised(x: &TensorSpec) -> Dims {
    if x.layout.rank() == 0 { Dims::from_elem(1, 1) } else { Dims::from_slice(x.shape()) }
}

/// A call that changes its first tensor in place and reads the others.
fn in_place(op: &str, inputs: &[TensorSpec]) -> Result<Signature> {
    let x = &inputs[0];
    if x.layout.may_overlap_itself() {
        let message = format!("{x} names elements more than once and cannot be changed in place");
        return Err(refused(op, message));
    }
    let mut accesses = SmallVec::from_elem(Access::Read, inputs.len());
    accesses[0] = Access::ReadWrite;
    Ok(Signature { accesses, outputs: SmallVec::from_iter([OutputSpec::Same(0)]), workspace: 0 })
}
