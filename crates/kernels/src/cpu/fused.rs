//! The kernel of `fused`: a program of elementwise calls, run step by step on pieces of its
//! operands that fit into the first-level cache.
//!
//! Each step is the bound call of its op, on rows as in the op's own kernel. Results of steps are
//! stored in registers, buffers in the steps' dtypes, so they are rounded as tensors are. A step
//! without dimensions, in a program over tensors, is computed once for each block of elements.
//!
//! Long because a plan and the places of its values belong together.

use std::mem::MaybeUninit;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use millstream_ops::fused::{MAX_INPUTS, Program, Step, Value};
use millstream_types::{DType, Layout, TensorSpec};
use smallvec::SmallVec;

use super::call_layouts::{CallLayouts, unlocated};
use super::copy::{convert, convert_row};
use super::elementwise::{BoundInput, CallArgs};
use super::function;
use super::memory::{Extent, Temporary, byte_count, overlaps_itself};
use super::row_plan::{OPERANDS, OUT, RowPlan};
use super::strided::{Address, BLOCK, StridedRow, broadcast_step, broadcasts};
use super::traversal::{Order, Traversal};
use crate::context::{KernelCtx, RawTensor, Threads};
use crate::prepared::{KernelSpec, PreparedKernel};
use crate::registry::Kernel;

/// The number of elements of a piece.
const PIECE: usize = 512;

/// The number of registers that programs have without an allocation.
const FEW: usize = 8;

/// The operands of the traversal: the inputs, and the output at [`LAST`].
pub(super) const ALL: usize = MAX_INPUTS + 1;

/// The place of the output in the traversal.
pub(super) const LAST: usize = MAX_INPUTS;

/// Room for a piece of any dtype.
type Register = MaybeUninit<[u64; PIECE]>;

/// The kernel of `fused`.
#[derive(Clone, Copy)]
pub(crate) struct FusedKernel;

impl Kernel for FusedKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let operands = (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<Vec<_>>>()?;
        let program = Program::of(ctx.attrs())?;
        let plan = FusedPlan::new(&program, &operands)?;
        let addresses: SmallVec<[*mut u8; ALL]> = operands.iter().map(|o| o.data).collect();
        if !plan.clashes(&addresses) {
            // SAFETY: operands of the call; the context guarantees the rest.
            unsafe { plan.run(&addresses, ctx.threads()) };
            return Ok(());
        }
        // The result is computed in other memory, since its own is part of an input.
        let Some((out, inputs)) = operands.split_last() else { bail!("no operands") };
        let mut result = Temporary::new(out.dtype, out.shape)?;
        let mut operands = inputs.to_vec();
        operands.push(result.tensor());
        let plan = FusedPlan::new(&program, &operands)?;
        let addresses: SmallVec<[*mut u8; ALL]> = operands.iter().map(|o| o.data).collect();
        // SAFETY: operands of the call, and memory that the result owns. The output does not
        // overlap itself, as the plan has checked.
        unsafe {
            plan.run(&addresses, ctx.threads());
            convert(ctx, result.tensor(), *out)
        }
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        let operands: Vec<RawTensor<'_>> =
            call.operands.iter().map(|spec| unlocated(spec)).collect();
        let plan = FusedPlan::new(&Program::of(call.attrs).ok()?, &operands).ok()?;
        Some(Arc::new(PreparedFused { plan, call: CallLayouts::of(call) }))
    }
}

struct PreparedFused {
    plan: FusedPlan,
    call: CallLayouts,
}

impl PreparedKernel for PreparedFused {
    unsafe fn run(&self, operands: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        self.call.check(operands)?;
        // SAFETY: guaranteed by the caller; no operands overlap in the second case.
        unsafe {
            if self.plan.clashes(operands) {
                return self.call.run(&FusedKernel, operands, threads);
            }
            self.plan.run(operands, threads);
        }
        Ok(())
    }
}

/// The place of an operand of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// An operand of the traversal.
    Operand(usize),
    Register(usize),
}

/// A value that a step reads.
#[derive(Clone, Copy)]
struct Source {
    place: Place,
    /// Whether it is one element for all elements of the output.
    is_single: bool,
}

/// A step on pieces.
struct StepPlan {
    call: StepCall,
    /// Input tensors in order, and the output at [`OUT`].
    places: [Place; OPERANDS],
    steps: [usize; OPERANDS],
    /// The number of input tensors.
    inputs: usize,
}

enum StepCall {
    Function(Box<RowPlan>),
    /// `cast`: a conversion between these dtypes.
    Cast {
        from: DType,
        to: DType,
    },
}

/// A program on operands with known layouts.
pub(super) struct FusedPlan {
    /// The steps without dimensions, and then the others.
    steps: Vec<StepPlan>,
    /// The number of steps without dimensions.
    once: usize,
    traversal: Traversal<ALL>,
    registers: usize,
    /// The inputs, the bytes of the output, and its position.
    extents: Vec<Extent>,
    bytes: usize,
}

impl FusedPlan {
    fn new(program: &Program, operands: &[RawTensor<'_>]) -> Result<FusedPlan> {
        let Some((out, inputs)) = operands.split_last() else { bail!("no operands") };
        FusedPlan::of(program, inputs, out)
    }

    /// Returns the plan of a program on inputs, to an output; one that changes inputs in place has
    /// the first of these as output.
    pub(super) fn of(
        program: &Program,
        inputs: &[RawTensor<'_>],
        out: &RawTensor<'_>,
    ) -> Result<FusedPlan> {
        let specs = inputs.iter().map(spec).collect::<Result<Vec<_>>>()?;
        let results = program.infer(&specs)?;
        let last = results.last().context("a program has a step")?;
        let is_new = program.makes_result();
        let fits = (last.dtype == out.dtype || !is_new) && last.shape() == out.shape;
        ensure!(fits && !overlaps_itself(out), "{out:?}: schema and kernel disagree");
        for x in inputs {
            ensure!(broadcasts(x.shape, out.shape), "{x:?} to {out:?}: schema and kernel disagree");
        }
        let traversal = traversal(inputs, out);
        let is_single = |k: usize| !out.shape.is_empty() && results[k].layout.rank() == 0;
        let singles: Vec<bool> = (0..results.len()).map(is_single).collect();
        let (places, registers) = registers(program, &singles);
        let (mut steps, mut others) = (Vec::with_capacity(results.len()), Vec::new());
        for (k, step) in program.steps().iter().enumerate() {
            let step = &step.out_of_place(results[k].dtype);
            let tensors = step.operand_specs(&specs, &results[..k]);
            let source = |operand: &Value| match *operand {
                Value::Input(input) => Source { place: Place::Operand(input), is_single: false },
                Value::Step(step) => Source { place: places[step], is_single: singles[step] },
            };
            let sources: SmallVec<[Source; OPERANDS]> = step.operands.iter().map(source).collect();
            let to = if singles[k] { &mut steps } else { &mut others };
            let plan = StepPlan::new(step, &tensors, &results[k], &sources, places[k], &traversal)?;
            to.push(plan);
        }
        let once = steps.len();
        steps.append(&mut others);
        let extents = inputs.iter().map(|x| Extent::of(x, out)).collect();
        let bytes = byte_count(out);
        Ok(FusedPlan { steps, once, traversal, registers, extents, bytes })
    }

    /// Returns the traversal of the output, whose steps are those of the inputs, and then of the
    /// output at [`LAST`].
    pub(super) fn traversal(&self) -> &Traversal<ALL> {
        &self.traversal
    }

    /// Returns the number of blocks of elements.
    pub(super) fn blocks(&self) -> usize {
        self.traversal.count().div_ceil(BLOCK)
    }

    /// Returns whether an input overlaps the output without being the output.
    fn clashes(&self, addresses: &[*mut u8]) -> bool {
        let out = addresses[self.extents.len()];
        let mut inputs = self.extents.iter().zip(addresses);
        inputs.any(|(extent, &input)| extent.clashes(input, out, self.bytes))
    }

    /// Computes the output.
    ///
    /// # Safety
    /// The operands at these addresses, of the layouts that the plan was made for, are valid and
    /// aligned; nothing else writes them or reads the output; and they do not clash.
    unsafe fn run(&self, addresses: &[*mut u8], threads: Option<&Threads>) {
        let inputs = self.extents.len();
        let mut data = [Address(addresses[inputs]); ALL];
        for (to, &from) in data.iter_mut().zip(&addresses[..inputs]) {
            *to = Address(from);
        }
        // SAFETY: guaranteed by the caller; blocks cover disjoint elements of the output.
        Threads::for_each(threads, self.blocks(), |block| unsafe { self.run_block(&data, block) });
    }

    /// Computes a block of elements.
    ///
    /// # Safety
    /// As for [`FusedPlan::run`]: at `data` begin the inputs, and the output at [`LAST`]. Nothing
    /// else computes this block.
    pub(super) unsafe fn run_block(&self, data: &[Address; ALL], block: usize) {
        let mut few = [Register::uninit(); FEW];
        let mut many = Vec::new();
        let registers = if self.registers <= FEW {
            &mut few[..]
        } else {
            many.resize(self.registers, Register::uninit());
            &mut many[..]
        };
        let (once, each) = self.steps.split_at(self.once);
        // SAFETY: operands of one element, and registers.
        unsafe { run_steps(once, data.map(|x| x.0), 0, 1, registers.as_mut_ptr()) };
        self.traversal.rows(block * BLOCK, (block + 1) * BLOCK, |row| {
            let data = std::array::from_fn(|k| data[k].0.wrapping_add(row.offsets[k]));
            for at in (0..row.length).step_by(PIECE) {
                let n = PIECE.min(row.length - at);
                // SAFETY: `n` elements of a row of the operands, from number `at` on.
                unsafe { run_steps(each, data, at, n, registers.as_mut_ptr()) };
            }
        });
    }
}

/// Runs steps on `n` elements from number `at` on.
///
/// # Safety
/// At `data` begin rows of the operands, as in [`FusedPlan::run`], with so many elements. Registers
/// have room for [`PIECE`] elements; those that a step reads were written.
unsafe fn run_steps(
    steps: &[StepPlan],
    data: [*mut u8; ALL],
    at: usize,
    n: usize,
    registers: *mut Register,
) {
    for step in steps {
        let locate = |k: usize| match step.places[k] {
            Place::Operand(operand) => data[operand].wrapping_add(at * step.steps[k]),
            Place::Register(register) => registers.wrapping_add(register).cast(),
        };
        let mut pieces = [locate(OUT); OPERANDS];
        for (k, piece) in pieces.iter_mut().enumerate().take(step.inputs) {
            *piece = locate(k);
        }
        // SAFETY: guaranteed by the caller; a step writes nothing that it reads, but in place.
        unsafe { step.run(&pieces, n) };
    }
}

impl StepPlan {
    fn new(
        step: &Step,
        tensors: &[TensorSpec],
        result: &TensorSpec,
        sources: &[Source],
        to: Place,
        traversal: &Traversal<ALL>,
    ) -> Result<StepPlan> {
        let mut operands: Vec<RawTensor<'_>> = tensors.iter().map(unlocated).collect();
        operands.push(unlocated(result));
        let inputs = sources.len();
        let mut places = [to; OPERANDS];
        let mut dtypes = [result.dtype; OPERANDS];
        ensure!(inputs <= function::MAX_INPUTS, "{step}: {inputs} tensors");
        for k in 0..inputs {
            (places[k], dtypes[k]) = (sources[k].place, tensors[k].dtype);
        }
        let steps = std::array::from_fn(|k| match places[k] {
            Place::Operand(operand) => traversal.steps()[operand],
            Place::Register(_) if k < inputs && sources[k].is_single => 0,
            Place::Register(_) => dtypes[k].size(),
        });
        let call = if step.op == "cast" {
            StepCall::Cast { from: dtypes[0], to: result.dtype }
        } else {
            let bind = super::bind_of(&step.op).with_context(|| format!("{step}: no kernel"))?;
            let bound = bind(&CallArgs { operands: &operands, attrs: &step.attrs })?;
            let used = &bound.inputs[..bound.function.inputs()];
            let read = used.iter().filter(|i| matches!(i, BoundInput::Tensor { .. })).count();
            ensure!(read == inputs && !bound.divides, "{step}: schema and kernel disagree");
            StepCall::Function(Box::new(RowPlan::new(bound, dtypes, steps)))
        };
        Ok(StepPlan { call, places, steps, inputs })
    }

    /// # Safety
    /// At `data` begin `count` elements of each operand, aligned and valid for reads, and for
    /// writes of the output, which is an input or does not overlap it.
    unsafe fn run(&self, data: &[*mut u8; OPERANDS], count: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match &self.call {
                StepCall::Function(rows) => {
                    rows.run(data, count);
                }
                StepCall::Cast { from, to } => {
                    let from = StridedRow::new(data[0], self.steps[0], count, *from);
                    convert_row(&from, &StridedRow::new(data[OUT], self.steps[OUT], count, *to));
                }
            }
        }
    }
}

/// Returns the place of each step's result, and the number of registers. A register is used again
/// after the last step that reads it, but that of a single element, which is computed first. The
/// result of a step in place is where its value is.
fn registers(program: &Program, singles: &[bool]) -> (Vec<Place>, usize) {
    let steps = program.steps();
    let mut last_use = vec![0; steps.len()];
    for (k, step) in steps.iter().enumerate() {
        for operand in &step.operands {
            if let Value::Step(of) = *operand {
                last_use[of] = k;
            }
        }
    }
    // The step until which each register is in use.
    let mut until: Vec<usize> = Vec::new();
    let mut places = Vec::with_capacity(steps.len());
    for (k, step) in steps.iter().enumerate() {
        match step.target() {
            Some(Value::Input(input)) => {
                places.push(Place::Operand(input));
                continue;
            }
            Some(Value::Step(of)) => {
                places.push(places[of]);
                continue;
            }
            None if k + 1 == steps.len() => {
                places.push(Place::Operand(LAST));
                break;
            }
            None => {}
        }
        let last = if singles[k] { usize::MAX } else { last_use[k] };
        let free = until.iter().position(|&until| until < k && !singles[k]);
        let register = free.unwrap_or(until.len());
        match until.get_mut(register) {
            Some(until) => *until = last,
            None => until.push(last),
        }
        places.push(Place::Register(register));
    }
    (places, until.len())
}

fn spec(x: &RawTensor<'_>) -> Result<TensorSpec> {
    Ok(TensorSpec::new(x.dtype, Layout::strided(x.shape, x.strides, 0)?)?)
}

fn traversal(inputs: &[RawTensor<'_>], out: &RawTensor<'_>) -> Traversal<ALL> {
    let dense = |x: &RawTensor<'_>| x.shape == out.shape && x.is_contiguous();
    if dense(out) && inputs.iter().all(|x| dense(x) || x.numel() == 1) {
        let mut steps = [0; ALL];
        steps[LAST] = out.dtype.size();
        for (step, x) in steps.iter_mut().zip(inputs).filter(|(_, x)| dense(x)) {
            *step = x.dtype.size();
        }
        return Traversal::one_row(out.numel(), steps);
    }
    let rank = out.shape.len();
    let step = |dim| {
        let mut steps = [0; ALL];
        steps[LAST] = broadcast_step(out, rank, dim);
        for (step, x) in steps.iter_mut().zip(inputs) {
            *step = broadcast_step(x, rank, dim);
        }
        steps
    };
    Traversal::new(out.shape, step, Order::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_used_again() {
        let program = |text: &str| {
            let program = Program::parse(text).unwrap();
            registers(&program, &vec![false; program.steps().len()])
        };
        let (places, count) = program("neg(%0);neg(#0);neg(#1);add(#2,%0)");
        let expected = [0, 1, 0].map(Place::Register);
        assert_eq!((&places[..3], count), (&expected[..], 2));
        assert_eq!(places[3], Place::Operand(LAST));
        let (places, count) = program("neg(%0);neg(#0);neg(#1);neg(#2);add(#3,#0)");
        let expected = [0, 1, 2, 1].map(Place::Register);
        assert_eq!((&places[..4], count), (&expected[..], 3));
        assert_eq!(program("neg(%0)"), (vec![Place::Operand(LAST)], 0));
        let (places, count) = program("neg(%1);mul_(#0,%1);add_(%0,#0);neg(%0);mul_(%0,#3)");
        let (own, first) = (Place::Operand(0), Place::Register(0));
        assert_eq!((places, count), (vec![first, first, own, first, own], 1));
    }
}
