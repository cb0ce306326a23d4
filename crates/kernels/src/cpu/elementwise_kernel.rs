//! The kernels of elementwise ops: a bound call, the traversal of its operands, and the form that
//! is prepared once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};

use super::call_layouts::{CallLayouts, unlocated};
use super::complex;
use super::copy::convert;
use super::elementwise::{Bind, Bound, BoundInput, CallArgs};
use super::elementwise_tiles::Tiles;
use super::function::MAX_INPUTS;
use super::memory::{Extent, Temporary, byte_count, overlaps_itself};
use super::row_plan::{OPERANDS, OUT, RowPlan};
use super::strided::{Address, BLOCK, broadcast_step, broadcasts};
use super::traversal::{Order, Traversal};
use crate::context::{KernelCtx, RawTensor, Threads};
use crate::prepared::{KernelSpec, PreparedKernel};
use crate::registry::Kernel;

/// The kernel of an elementwise op.
#[derive(Clone, Copy)]
pub(crate) struct ElementwiseKernel {
    real: Bind,
    /// That of calls with complex operands.
    complex: Option<Bind>,
}

impl ElementwiseKernel {
    /// Returns the kernel of an op whose calls without complex operands `real` binds.
    pub(crate) fn new(op: &str, real: Bind) -> ElementwiseKernel {
        ElementwiseKernel { real, complex: complex::bind_of(op) }
    }

    fn bind(&self, args: &CallArgs<'_>) -> Result<Bound> {
        if !args.operands.iter().any(|x| x.dtype.is_complex()) {
            return (self.real)(args);
        }
        let bind = self.complex.context("complex operands: schema and kernel disagree")?;
        bind(args)
    }
}

impl Kernel for ElementwiseKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let count = ctx.operands();
        ensure!((1..=OPERANDS).contains(&count), "{count} operands: schema and kernel disagree");
        // Those past the last are not used.
        let nth = |k: usize| ctx.nth(k.min(count - 1));
        let operands: [_; OPERANDS] = [nth(0), nth(1), nth(2), nth(3)];
        let operands = &operands[..count];
        let bound = self.bind(&CallArgs { operands, attrs: ctx.attrs() })?;
        let plan = Plan::new(bound, operands)?;
        let address = |k: usize| operands[k].data;
        if plan.copies(address).next().is_some() {
            return run_on_copies(ctx, bound, operands, plan.copies(address));
        }
        // SAFETY: operands of the call; the context guarantees the rest.
        unsafe { plan.run(address, ctx.threads()) }
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        let operands: Vec<RawTensor<'_>> =
            call.operands.iter().map(|spec| unlocated(spec)).collect();
        let bound = self.bind(&CallArgs { operands: &operands, attrs: call.attrs }).ok()?;
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
    let mut operands = operands.to_vec();
    for (k, copy) in &mut copies {
        let copy = copy.tensor();
        // SAFETY: an operand of the call, and memory that the copy owns.
        unsafe { convert(ctx, operands[*k], copy) }?;
        operands[*k] = copy;
    }
    // SAFETY: operands of the call and copies of them; the context guarantees the rest.
    unsafe { Plan::new(bound, &operands)?.run(|k| operands[k].data, ctx.threads()) }
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
            match self.plan.copies(|k| operands[k]).next() {
                None => self.plan.run(|k| operands[k], threads),
                Some(_) => self.call.run(&self.kernel, operands, threads),
            }
        }
    }
}

/// The elements in the order in which they are computed.
enum Visit {
    /// One row of this many elements.
    Row(usize),
    /// The rows of a traversal.
    Rows(Box<Traversal<OPERANDS>>),
    /// The rows of tiles, with copies of transposed inputs.
    Tiles(Box<Tiles>),
}

/// The execution of a bound call on operands with known layouts.
struct Plan {
    rows: RowPlan,
    visit: Visit,
    /// The input tensors.
    extents: [Extent; MAX_INPUTS],
    /// The bytes of the output.
    bytes: usize,
    /// The number of input tensors.
    inputs: usize,
    /// The position of the output among the call's operands.
    out: usize,
}

impl Plan {
    #[inline(always)]
    fn new(bound: Bound, operands: &[RawTensor<'_>]) -> Result<Plan> {
        let used = &bound.inputs[..bound.function.inputs()];
        let inputs = used.iter().filter(|i| matches!(i, BoundInput::Tensor { .. })).count();
        let out = if operands.len() > inputs { inputs } else { 0 };
        let to = &operands[out];
        let mut dtypes = [to.dtype; OPERANDS];
        let mut steps = [0; OPERANDS];
        let mut extents = [Extent::default(); MAX_INPUTS];
        let mut one_row = to.is_contiguous();
        ensure!(!overlaps_itself(to), "{to:?} names elements twice: schema and kernel disagree");
        steps[OUT] = to.dtype.size();
        for (k, x) in operands[..inputs].iter().enumerate() {
            dtypes[k] = x.dtype;
            extents[k] = Extent::of(x, to);
            if x.shape == to.shape && x.is_contiguous() {
                steps[k] = x.dtype.size();
            } else {
                one_row &= x.numel() == 1;
                ensure!(
                    broadcasts(x.shape, to.shape),
                    "{x:?} does not broadcast to {:?}: schema and kernel disagree",
                    to.shape
                );
            }
        }
        let visit = if one_row {
            Visit::Row(to.numel())
        } else {
            let traversal = traversal(&operands[..inputs], to);
            match Tiles::new(&traversal, dtypes, inputs) {
                Some(tiles) => {
                    steps = tiles.steps();
                    Visit::Tiles(Box::new(tiles))
                }
                None => {
                    steps = traversal.steps();
                    Visit::Rows(Box::new(traversal))
                }
            }
        };
        let rows = RowPlan::new(bound, dtypes, steps);
        Ok(Plan { rows, visit, extents, bytes: byte_count(to), inputs, out })
    }

    /// Returns the inputs that overlap the output without being the output.
    #[inline]
    fn copies(&self, address: impl Fn(usize) -> *mut u8) -> impl Iterator<Item = usize> {
        let out = address(self.out);
        (0..self.inputs).filter(move |&k| self.extents[k].clashes(address(k), out, self.bytes))
    }

    /// Computes the output.
    ///
    /// # Errors
    /// A divisor is zero where that is an error.
    ///
    /// # Safety
    /// The operands at these addresses, of the layouts that the plan was made for, are valid and
    /// aligned; nothing else writes them or reads the output; and [`Plan::copies`] returns none.
    #[inline]
    unsafe fn run(
        &self,
        address: impl Fn(usize) -> *mut u8,
        threads: Option<&Threads>,
    ) -> Result<()> {
        let mut data = [address(self.out); OPERANDS];
        for (k, to) in data.iter_mut().enumerate().take(self.inputs) {
            *to = address(k);
        }
        let zero = match self.visit {
            // SAFETY: guaranteed by the caller.
            Visit::Row(count) if count <= BLOCK => unsafe { self.rows.run(&data, count) },
            // SAFETY: guaranteed by the caller.
            _ => unsafe { self.run_blocks(data.map(Address), threads) },
        };
        ensure!(!zero, "{} divided by zero", self.rows.common());
        Ok(())
    }

    /// Computes the output in blocks, on several threads. Returns whether a divisor was zero.
    ///
    /// # Safety
    /// That of [`Plan::run`].
    unsafe fn run_blocks(&self, data: [Address; OPERANDS], threads: Option<&Threads>) -> bool {
        let zero = AtomicBool::new(false);
        let row_at = |data: &[*mut u8; OPERANDS], count: usize| {
            // SAFETY: a row of the operands, or of copies of inputs; rows cover disjoint elements
            // of the output.
            if unsafe { self.rows.run(data, count) } {
                zero.store(true, Relaxed);
            }
        };
        let row = |offsets: [usize; OPERANDS], count: usize| {
            row_at(&std::array::from_fn(|k| data[k].0.wrapping_add(offsets[k])), count);
        };
        let blocks = |count: usize, block: &(dyn Fn(usize, usize) + Sync)| {
            Threads::for_each(threads, count.div_ceil(BLOCK), |k| {
                block(k * BLOCK, count.min((k + 1) * BLOCK));
            });
        };
        match &self.visit {
            Visit::Row(count) => blocks(*count, &|from, to| {
                row(self.rows.steps().map(|step| step * from), to - from);
            }),
            Visit::Rows(traversal) => blocks(traversal.count(), &|from, to| {
                traversal.rows(from, to, |part| row(part.offsets, part.length));
            }),
            // SAFETY: guaranteed by the caller; inputs do not overlap the output.
            Visit::Tiles(tiles) => unsafe { tiles.for_each_row(data, threads, row_at) },
        }
        zero.into_inner()
    }
}

/// Returns the traversal of inputs that broadcast to the output.
fn traversal(inputs: &[RawTensor<'_>], out: &RawTensor<'_>) -> Traversal<OPERANDS> {
    let rank = out.shape.len();
    let step = |dim| {
        let mut steps = [0; OPERANDS];
        steps[OUT] = broadcast_step(out, rank, dim);
        for (step, x) in steps.iter_mut().zip(inputs) {
            *step = broadcast_step(x, rank, dim);
        }
        steps
    };
    Traversal::new(out.shape, step, Order::Any)
}
