//! Selections whose result lengths depend on data.
//!
//! `masked_select(x, mask)` returns, as one dimension, the elements of x where the mask is true, in
//! row-major order of the shape that both broadcast to. `nonzero(x)` returns the index of each
//! nonzero element of x as a row, in row-major order.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.masked_select.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html>.

use smallvec::SmallVec;

use millstream_types::{Access, DType, Result, TensorSpec};

use crate::broadcast::broadcast;
use crate::def::{Def, arg, refused};
use crate::schema::{CallSpec, OutputSpec, Signature};

/// The number of mask elements that are counted as one block. The workspace holds a count for each
/// block.
pub const SELECT_BLOCK: usize = 1 << 14;

pub(crate) const OPS: &[Def] = &[MASKED_SELECT, NONZERO];

const NONZERO: Def = Def::new(
    "nonzero",
    "the indices of the nonzero elements, a row for each",
    &[arg("x", "any shape")],
    &[],
    |call| {
        let x = &call.inputs[0];
        let bound = TensorSpec::contiguous(DType::I64, &[x.numel(), x.layout.rank()])?;
        Ok(Signature {
            accesses: SmallVec::from_elem(Access::Read, 1),
            outputs: SmallVec::from_iter([OutputSpec::Bounded(bound)]),
            workspace: 0,
        })
    },
)
.complex()
.unsigned();

const MASKED_SELECT: Def = Def::new(
    "masked_select",
    "the elements of x where the mask is true, in row-major order",
    &[arg("x", "any shape"), arg("mask", "bool; a shape that broadcasts with x")],
    &[],
    rule,
)
.complex()
.unsigned();

fn rule(call: CallSpec<'_>) -> Result<Signature> {
    let (x, mask) = (&call.inputs[0], &call.inputs[1]);
    if mask.dtype != DType::Bool {
        return Err(refused(
            "masked_select",
            format!("expected a bool mask, got {}", mask.brief()),
        ));
    }
    let shape = broadcast(x.shape(), mask.shape())?;
    // Checked as a shape, so that the number of elements does not overflow.
    let bound = TensorSpec::contiguous(x.dtype, &shape)?.numel();
    Ok(Signature {
        accesses: SmallVec::from_elem(Access::Read, 2),
        outputs: SmallVec::from_iter([OutputSpec::Bounded(TensorSpec::contiguous(
            x.dtype,
            &[bound],
        )?)]),
        workspace: (bound.div_ceil(SELECT_BLOCK) + 1) * size_of::<u64>(),
    })
}
