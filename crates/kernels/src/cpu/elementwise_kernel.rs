//! The kernels of elementwise ops: a bound call, the traversal of its operands, and the form that
//! is prepared once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Result, ensure};
use millstream_types::{DType, Layout};
use smallvec::SmallVec;

use super::call_layouts::{CallLayouts, unlocated};
use super::copy::convert;
use super::elementwise::{Bind, Bound, BoundInput, CallArgs};
use super::function::MAX_INPUTS;
use super::memory::{Extent, Temporary, byte_count, is_contiguous};
use super::row_plan::{OPERANDS, OUT, RowPlan};
use super::strided::{Address, BLOCK, broadcast_step, broadcasts};
use super::traversal::{Order, Traversal};
use crate::context::{KernelCtx, RawTensor, Threads};
use crate::prepared::{KernelSpec, PreparedKernel};
use crate::registry::Kernel;

/// The kernel of an elementwise op.
#[derive(Clone, Copy)]
pub(crate) struct ElementwiseKernel(pub(crate) Bind);

type Tensors<'a> = SmallVec<[RawTensor<'a>; OPERANDS]>;

type Addresses = SmallVec<[*mut u8; OPERANDS]>;

impl Kernel for ElementwiseKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let operands = (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<Tensors<'_>>>();
        let operands = operands?;
        let addresses: Addresses = operands.iter().map(|o| o.data).collect();
        let bound = (self.0)(&CallArgs { operands: &operands, attrs: ctx.attrs() })?;
        let plan = Plan::new(bound, &operands)?;
        if plan.copies(&addresses).next().is_some() {
            return run_on_copies(ctx, bound, &operands, plan.copies(&addresses));
        }
        // SAFETY: operands of the call; the context guarantees the rest.
        unsafe { plan.run(&addresses, ctx.threads()) }
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        let operands: Tensors<'_> = call.operands.iter().map(unlocated).collect();
        let bound = (self.0)(&CallArgs { operands: &operands, attrs: call.attrs }).ok()?;
        let plan = Plan::new(bound, &operands).ok()?;
        Some(Arc::new(PreparedElementwise { kernel: *self, plan, call: CallLayouts::of(call) }))
    }
}

/// Runs a call with copies of these operands, which overlap the output: inputs are read in full
/// before the output is written.
fn run_on_copies(
    ctx: &KernelCtx<'_>,
    bound: Bound,
    operands: &[RawTensor<'_>],
    overlapping: impl Iterator<Item = usize>,
) -> Result<()> {
    let copy = |k: usize| Ok((k, Temporary::new(operands[k].dtype, operands[k].shape)?));
    let mut copies = overlapping.map(copy).collect::<Result<Vec<(usize, Temporary)>>>()?;
    let mut operands = Tensors::from_slice(operands);
    for (k, copy) in &mut copies {
        let copy = copy.tensor();
        // SAFETY: an operand of the call, and memory that the copy owns.
        unsafe { convert(ctx, operands[*k], copy) }?;
        operands[*k] = copy;
    }
    let addresses: Addresses = operands.iter().map(|o| o.data).collect();
    // SAFETY: operands of the call and copies of them; the context guarantees the rest.
    unsafe { Plan::new(bound, &operands)?.run(&addresses, ctx.threads()) }
}

/// A call of an elementwise op, with everything but the addresses of its operands.
struct PreparedElementwise {
    kernel: ElementwiseKernel,
    plan: Plan,
    call: CallLayouts,
}

impl PreparedKernel for PreparedElementwise {
    unsafe fn run(&self, operands: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        self.call.check(operands)?;
        // SAFETY: guaranteed by the caller; no operands overlap in the first case.
        unsafe {
            match self.plan.copies(operands).next() {
                None => self.plan.run(operands, threads),
                Some(_) => self.call.run(&self.kernel, operands, threads),
            }
        }
    }
}

/// The execution of a bound call on operands with known layouts.
struct Plan {
    rows: RowPlan,
    traversal: Traversal<OPERANDS>,
    /// The input tensors.
    extents: [Extent; MAX_INPUTS],
    /// The bytes of the output.
    bytes: usize,
    /// The number of input tensors.
    inputs: usize,
    /// The position of the output among the call's operands.
    out: usize,
    bound_divides: bool,
    common: DType,
}

impl Plan {
    fn new(bound: Bound, operands: &[RawTensor<'_>]) -> Result<Plan> {
        let used = &bound.inputs[..bound.function.inputs()];
        let inputs = used.iter().filter(|i| matches!(i, BoundInput::Tensor { .. })).count();
        let out = if operands.len() > inputs { inputs } else { 0 };
        let to = operands[out];
        let contiguous = is_contiguous(&to);
        let overlaps =
            || Layout::strided(to.shape, to.strides, 0).map_or(true, |l| l.may_overlap_itself());
        ensure!(
            contiguous || !overlaps(),
            "{to:?} names elements twice: schema and kernel disagree"
        );
        let mut dtypes = [to.dtype; OPERANDS];
        let mut steps = [0; OPERANDS];
        let mut extents = [Extent::default(); MAX_INPUTS];
        steps[OUT] = to.dtype.size();
        let mut one_row = contiguous;
        for (k, x) in operands[..inputs].iter().enumerate() {
            ensure!(
                broadcasts(x.shape, to.shape),
                "{x:?} does not broadcast to {:?}: schema and kernel disagree",
                to.shape
            );
            dtypes[k] = x.dtype;
            extents[k] = Extent::of(x, &to);
            if x.shape == to.shape && is_contiguous(x) {
                steps[k] = x.dtype.size();
            } else {
                one_row &= x.numel() == 1;
            }
        }
        let traversal = if one_row {
            Traversal::one_row(to.numel(), steps)
        } else {
            let rank = to.shape.len();
            let step = |dim| {
                std::array::from_fn(|k| match k {
                    OUT => broadcast_step(&to, rank, dim),
                    _ if k < inputs => broadcast_step(&operands[k], rank, dim),
                    _ => 0,
                })
            };
            Traversal::new(to.shape, step, Order::Any)
        };
        let rows = RowPlan::new(bound, dtypes, traversal.steps());
        Ok(Plan {
            rows,
            traversal,
            extents,
            bytes: byte_count(&to),
            inputs,
            out,
            bound_divides: bound.divides,
            common: bound.common,
        })
    }

    /// Returns the inputs at these addresses that overlap the output without being the output.
    fn copies<'a>(&'a self, addresses: &'a [*mut u8]) -> impl Iterator<Item = usize> + 'a {
        let out = addresses[self.out];
        (0..self.inputs).filter(move |&k| self.extents[k].clashes(addresses[k], out, self.bytes))
    }

    /// Computes the output.
    ///
    /// # Errors
    /// A divisor is zero where that is an error.
    ///
    /// # Safety
    /// The operands at these addresses, of the layouts that the plan was made for, are valid and
    /// aligned; nothing else writes them or reads the output; and [`Plan::copies`] returns none.
    unsafe fn run(&self, addresses: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        let mut data = [Address(addresses[self.out]); OPERANDS];
        for (to, &from) in data.iter_mut().zip(&addresses[..self.inputs]) {
            *to = Address(from);
        }
        let count = self.traversal.count();
        let zero = AtomicBool::new(false);
        Threads::for_each(threads, count.div_ceil(BLOCK), |block| {
            self.traversal.rows(block * BLOCK, (block + 1) * BLOCK, |row| {
                let data = std::array::from_fn(|k| data[k].0.wrapping_add(row.offsets[k]));
                // SAFETY: a row of the operands; blocks cover disjoint elements of the output.
                if unsafe { self.rows.run(&data, row.length) } {
                    zero.store(true, Relaxed);
                }
            });
        });
        ensure!(!self.bound_divides || !zero.into_inner(), "{} divided by zero", self.common);
        Ok(())
    }
}
