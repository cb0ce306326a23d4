//! The kernel of `multi_tensor`: a plan of `fused` for each set, whose blocks threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, bail};
use millstream_ops::multi_tensor::Sets;
use millstream_types::{Attrs, DType};
use smallvec::SmallVec;

use super::call_layouts::{CallLayouts, unlocated};
use super::fused::{ALL, FusedPlan, LAST};
use super::memory::byte_count;
use super::strided::{Address, BLOCK, StridedRow};
use crate::context::{KernelCtx, RawTensor, Threads};
use crate::plan_cache::PlanCache;
use crate::prepared::{KernelSpec, PreparedKernel};
use crate::registry::Kernel;

/// The kernel of `multi_tensor`.
#[derive(Default)]
pub(crate) struct MultiTensorKernel(PlanCache<MultiPlan>);

impl Kernel for MultiTensorKernel {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let operands = || (0..ctx.operands()).map(|k| ctx.nth(k));
        let plan = || MultiPlan::new(ctx.attrs(), &operands().collect::<Vec<_>>());
        let plan = match self.0.get(ctx, (0, 1), || plan().ok()) {
            Some(plan) => plan,
            None => Arc::new(plan()?),
        };
        let addresses: Vec<*mut u8> = operands().map(|x| x.data).collect();
        // SAFETY: operands of the call; the context guarantees the rest.
        unsafe { plan.run(&addresses, ctx.threads()) }
    }

    fn prepare(&self, call: KernelSpec<'_>) -> Option<Arc<dyn PreparedKernel>> {
        let operands: Vec<RawTensor<'_>> =
            call.operands.iter().map(|spec| unlocated(spec)).collect();
        let plan = MultiPlan::new(call.attrs, &operands).ok()?;
        Some(Arc::new(PreparedMulti { plan, call: CallLayouts::of(call) }))
    }
}

struct PreparedMulti {
    plan: MultiPlan,
    call: CallLayouts,
}

impl PreparedKernel for PreparedMulti {
    unsafe fn run(&self, operands: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        self.call.check(operands)?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.plan.run(operands, threads) }
    }
}

/// Returns the places among the operands that a set's inputs, and its result if it is new, have.
pub(crate) fn places(sets: &Sets, tensors: usize, set: usize) -> Vec<usize> {
    let inputs = (0..sets.program.inputs()).map(|k| sets.operand(set, k));
    inputs.chain(sets.program.makes_result().then_some(tensors + set)).collect()
}

/// Returns the number of tensors that a call takes; its other operands are results.
pub(crate) fn tensors(attrs: &Attrs, operands: usize) -> Result<(Sets, usize)> {
    // A program with results has one for each set, behind the tensors.
    let sets = Sets::of(attrs, operands)?;
    if !sets.program.makes_result() {
        return Ok((sets, operands));
    }
    let tensors = operands.checked_sub(sets.count).context("schema and kernel disagree")?;
    Ok((Sets::of(attrs, tensors)?, tensors))
}

/// Checks that tensors that are written share no byte with others. Takes the first address of each
/// operand, its bytes, and whether it is written.
///
/// # Errors
/// Two share a byte.
pub(crate) fn check_apart(operands: impl Iterator<Item = (usize, usize, bool)>) -> Result<()> {
    match overlap(operands) {
        None => Ok(()),
        Some((one, other)) => bail!(
            "tensors {one} and {other} share memory, and one is written: expected tensors apart \
             from one another; pass a copy, or make two calls"
        ),
    }
}

/// Returns two operands that share a byte, of which one is written. Takes the first address of each
/// operand, its bytes, and whether it is written.
pub(crate) fn overlap(
    operands: impl Iterator<Item = (usize, usize, bool)>,
) -> Option<(usize, usize)> {
    let nonempty = operands.enumerate().filter(|(_, (_, bytes, _))| *bytes > 0);
    let mut all: SmallVec<[(usize, usize, bool, usize); 8]> =
        nonempty.map(|(k, (at, bytes, written))| (at, at + bytes, written, k)).collect();
    all.sort_unstable();
    // The ends of the operands so far, and of those that are written, with their places.
    let (mut of_any, mut of_written) = ((0, 0), (0, 0));
    for (from, to, written, k) in all {
        let before = if written { of_any } else { of_written };
        if from < before.0 {
            return Some((before.1, k));
        }
        of_any = of_any.max((to, k));
        if written {
            of_written = of_written.max((to, k));
        }
    }
    None
}

/// A call on operands with known layouts.
struct MultiPlan {
    sets: Vec<SetPlan>,
    /// The number of blocks of elements of each set and those before it.
    ends: Vec<usize>,
    /// The bytes of each operand, and whether the call writes it.
    operands: Vec<(usize, bool)>,
    /// The element that keeps all tensors as they are.
    unless: Option<(usize, DType)>,
    /// The element that is set where a first tensor has an element that is not finite.
    found: Option<usize>,
}

struct SetPlan {
    plan: FusedPlan,
    /// The places of the inputs, and of the result if it is new, among the operands.
    places: Vec<usize>,
    /// The dtype of the first input.
    first: DType,
}

impl MultiPlan {
    fn new(attrs: &Attrs, operands: &[RawTensor<'_>]) -> Result<MultiPlan> {
        let (sets, tensors) = tensors(attrs, operands.len())?;
        let written = sets.program.written();
        let mut bytes: Vec<(usize, bool)> =
            operands.iter().map(|x| (byte_count(x), false)).collect();
        bytes[tensors..].iter_mut().for_each(|(_, written)| *written = true);
        let (mut plans, mut ends) = (Vec::with_capacity(sets.count), Vec::new());
        for set in 0..sets.count {
            let places = places(&sets, tensors, set);
            let all: Vec<RawTensor<'_>> = places.iter().map(|&k| operands[k]).collect();
            let inputs = &all[..sets.program.inputs()];
            let out = match written.first() {
                Some(&k) => &inputs[k],
                None => all.last().context("no result: schema and kernel disagree")?,
            };
            let plan = FusedPlan::of(&sets.program, inputs, out)?;
            written.iter().for_each(|&k| bytes[places[k]].1 = true);
            ends.push(ends.last().copied().unwrap_or(0) + plan.blocks());
            plans.push(SetPlan { plan, places, first: inputs[0].dtype });
        }
        if let Some(found) = sets.found {
            bytes[found].1 = true;
        }
        let unless = sets.unless.map(|k| (k, operands[k].dtype));
        Ok(MultiPlan { sets: plans, ends, operands: bytes, unless, found: sets.found })
    }

    /// Runs the program for all sets.
    ///
    /// # Errors
    /// A tensor that is written shares memory with another.
    ///
    /// # Safety
    /// The operands at these addresses, of the layouts that the plan was made for, are valid and
    /// aligned; nothing else writes them, or reads those that are written.
    unsafe fn run(&self, addresses: &[*mut u8], threads: Option<&Threads>) -> Result<()> {
        let operands = addresses.iter().zip(&self.operands);
        check_apart(operands.map(|(at, (bytes, written))| (at.addr(), *bytes, *written)))?;
        if let Some((k, dtype)) = self.unless {
            let mut element = 0.0f64;
            // SAFETY: an operand of one element.
            unsafe { StridedRow::new(addresses[k], 0, 1, dtype).load_to(0, &raw mut element, 1) };
            if element != 0.0 {
                return Ok(());
            }
        }
        let infinite = AtomicBool::new(false);
        let addresses: Vec<Address> = addresses.iter().map(|&x| Address(x)).collect();
        Threads::for_each(threads, self.ends.last().copied().unwrap_or(0), |number| {
            let set = self.ends.partition_point(|end| *end <= number);
            let before = set.checked_sub(1).map_or(0, |before| self.ends[before]);
            let (SetPlan { plan, places, first }, block) = (&self.sets[set], number - before);
            let mut data = [addresses[places[0]]; ALL];
            for (to, &from) in data.iter_mut().zip(places) {
                *to = addresses[from];
            }
            // Without a new result, nothing is at the last place.
            data[LAST] = addresses[places[places.len() - 1]];
            if self.found.is_some() {
                plan.traversal().rows(block * BLOCK, (block + 1) * BLOCK, |row| {
                    let at = data[0].0.wrapping_add(row.offsets[0]);
                    // SAFETY: a row of the first input.
                    let row = unsafe { StridedRow::new(at, row.steps[0], row.length, *first) };
                    if !is_finite(row) {
                        infinite.store(true, Relaxed);
                    }
                });
            }
            // SAFETY: guaranteed by the caller; the tensors that are written are apart from all
            // others, and blocks cover disjoint elements.
            unsafe { plan.run_block(&data, block) };
        });
        if let Some(found) = self.found.filter(|_| infinite.into_inner()) {
            // SAFETY: an operand of one f32, which nothing else uses.
            unsafe { addresses[found].0.cast::<f32>().write(1.0) };
        }
        Ok(())
    }
}

/// Returns whether all elements of a row are finite.
fn is_finite(row: StridedRow) -> bool {
    // Every dtype of floats fits into f64, with its infinities.
    let mut chunk = [0.0f64; 256];
    (0..row.len()).step_by(chunk.len()).all(|at| {
        let n = chunk.len().min(row.len() - at);
        row.load(at, &mut chunk[..n]);
        chunk[..n].iter().all(|v| v.is_finite())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_operands_share_no_memory() {
        let check = |all: &[(usize, usize, bool)]| check_apart(all.iter().copied());
        check(&[(0, 8, true), (8, 8, false), (8, 8, false), (12, 4, false), (16, 4, true)])
            .unwrap();
        check(&[(0, 8, true), (4, 0, true)]).unwrap();
        for wrong in [
            [(0, 8, true), (4, 8, false), (99, 4, true)],
            [(4, 8, false), (0, 32, false), (16, 4, true)],
            [(4, 8, false), (0, 32, true), (16, 4, false)],
        ] {
            let error = check(&wrong).unwrap_err().to_string();
            assert!(error.contains("share memory"), "{error}");
        }
    }
}
