//! Joint loops over operands that broadcast to one shape.

use anyhow::{Result, ensure};
use millstream_types::DType;
use millstream_types::layout::numel;

use super::strided::{Address, StridedRow, broadcast_step, broadcasts};
use super::traversal::{Order, Traversal};
use crate::context::{KernelCtx, RawTensor, Threads};

/// The traversal of `N` operands in the shape that they broadcast to, without their addresses.
pub(crate) struct LoopPlan<const N: usize> {
    traversal: Traversal<N>,
    dtypes: [DType; N],
}

impl<const N: usize> LoopPlan<N> {
    /// # Errors
    /// Fails if an operand does not broadcast to `shape`.
    pub(crate) fn new(
        shape: &[usize],
        operands: &[RawTensor<'_>; N],
        order: Order,
    ) -> Result<LoopPlan<N>> {
        for operand in operands {
            ensure!(
                broadcasts(operand.shape, shape),
                "{operand:?} does not broadcast to {shape:?}: schema and kernel disagree"
            );
        }
        let dtypes = operands.each_ref().map(|o| o.dtype);
        let traversal = if operands.iter().all(|o| o.shape == shape && o.is_contiguous()) {
            Traversal::one_row(numel(shape), dtypes.map(DType::size))
        } else {
            let step = |k| std::array::from_fn(|i| broadcast_step(&operands[i], shape.len(), k));
            Traversal::new(shape, step, order)
        };
        Ok(LoopPlan { traversal, dtypes })
    }

    /// Returns the traversal.
    pub(crate) fn traversal(&self) -> &Traversal<N> {
        &self.traversal
    }

    /// Divides the elements into blocks of `block` in the order of the traversal, and calls `rows`
    /// for every row of every block, with a state that `init` makes from the number of the block.
    /// Blocks run in parallel, the rows of one block in order.
    ///
    /// # Safety
    /// The operands at these addresses are those of the current kernel call or memory that it alone
    /// uses, valid and aligned; nothing is stored to an operand that overlaps itself or partly
    /// overlaps another.
    pub(crate) unsafe fn for_each_at<S>(
        &self,
        data: [Address; N],
        threads: Option<&Threads>,
        block: usize,
        init: impl Fn(usize) -> S + Sync + Send,
        rows: impl Fn(&mut S, &[StridedRow; N]) + Sync + Send,
    ) {
        let traversal = &self.traversal;
        Threads::for_each(threads, traversal.count().div_ceil(block), |number| {
            let mut state = init(number);
            traversal.rows(number * block, (number + 1) * block, |row| {
                let row = std::array::from_fn(|i| {
                    let data = data[i].0.wrapping_add(row.offsets[i]);
                    // SAFETY: the row lies in the operand, whose elements are valid as the caller
                    // guarantees. Blocks cover disjoint elements of an operand that is stored to.
                    unsafe { StridedRow::new(data, row.steps[i], row.length, self.dtypes[i]) }
                });
                rows(&mut state, &row);
            });
        });
    }
}

/// A joint loop over `N` operands in the shape that they broadcast to.
pub(crate) struct Loop<const N: usize> {
    plan: LoopPlan<N>,
    data: [Address; N],
}

impl<const N: usize> Loop<N> {
    /// # Safety
    /// The contract of [`LoopPlan::for_each_at`] holds for the operands.
    ///
    /// # Errors
    /// Fails if an operand does not broadcast to `shape`.
    pub(crate) unsafe fn new(
        shape: &[usize],
        operands: [RawTensor<'_>; N],
        order: Order,
    ) -> Result<Loop<N>> {
        let plan = LoopPlan::new(shape, &operands, order)?;
        Ok(Loop { plan, data: operands.map(|o| Address(o.data)) })
    }

    /// As [`LoopPlan::for_each_at`], on the threads of a call.
    pub(crate) fn for_each<S>(
        &self,
        ctx: &KernelCtx<'_>,
        block: usize,
        init: impl Fn(usize) -> S + Sync + Send,
        rows: impl Fn(&mut S, &[StridedRow; N]) + Sync + Send,
    ) {
        // SAFETY: the contract of `new`.
        unsafe { self.plan.for_each_at(self.data, ctx.threads(), block, init, rows) };
    }
}
