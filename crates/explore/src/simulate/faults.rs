//! Simulated runs with a fault of a device or a cancellation. The seed chooses kind and position.
//!
//! The list of instructions alone decides which outputs a failure may reach: the accesses of each
//! instruction are followed. The machine's own record of poison is not consulted, so that each
//! finds the other's mistakes.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_ep::faults::{Fault, FaultPlan};
use millstream_instructions::{Body, Class, InstructionList, Kind};
use millstream_trace::TraceError;
use millstream_types::overdue::StreamProgress;
use millstream_types::{Failure, TensorId};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::simulate::{Finding, Simulator, Trial, compare_faulty, same};
use millstream_runner::{RunError, RunReport, Steps};
use millstream_vm::Cancellation;

impl Simulator {
    /// Runs the program with the schedule and the fault that the seed chooses. Outputs that no
    /// failure reaches must equal the inline driver's; outputs that one reaches must be missing.
    ///
    /// # Errors
    /// As [`Simulator::seed`].
    pub fn seed_with_fault(&self, seed: u64, keep_log: bool) -> Result<Trial, RunError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Differs from the generator streams of the schedule and of the random program.
        rng.set_stream(2);
        // One more than there are kinds of faults: the last number cancels the program instead.
        let kind = rng.next_u32() as usize % (Fault::ALL.len() + 1);
        let Some(&fault) = Fault::ALL.get(kind) else {
            return self.seed_cancelled(seed, rng.next_u32(), keep_log);
        };
        let run = |plan: FaultPlan, keep_log| {
            let steps = Steps { seed, keep_log, ..Steps::default() };
            self.prepared.run_with(&self.simulated(steps).faults(plan))
        };
        let hangs = fault == Fault::NeverCompletes;
        // One thread runs everything, so a host kernel that never ends would block the whole run.
        let paused = |plan: FaultPlan| {
            if hangs { plan.paused().for_asynchronous_devices() } else { plan.paused() }
        };
        let healthy = paused(FaultPlan::new());
        run(healthy.clone(), false)?;
        let positions = healthy.count(fault.site());
        if positions == 0 {
            return self.seed(seed, keep_log);
        }
        let at = 1 + u64::from(rng.next_u32()) % positions;
        let plan = paused(FaultPlan::once(fault, at));
        let ran = match run(plan.clone(), keep_log) {
            // A call that needs memory of a lost device is refused, and the refusal ends the
            // program.
            Err(_) if fault == Fault::DeviceLost => {
                return Ok(Trial { schedule: None, finding: None });
            }
            ran => ran?,
        };
        let found = match hangs && plan.triggered() > 0 {
            true => self.check_stuck_run(&ran),
            false => self.check_run(&ran),
        };
        let finding =
            found.map(|found| Finding::Fault(format!("{fault:?} at {at} of {positions}: {found}")));
        Ok(Trial { schedule: ran.schedule, finding })
    }

    /// As [`Simulator::seed_with_fault`], with all statements cancelled before a chosen step.
    fn seed_cancelled(&self, seed: u64, chosen: u32, keep_log: bool) -> Result<Trial, RunError> {
        let run = |cancel_at: Option<u64>, keep_log| {
            let options = self.simulated(Steps { seed, keep_log, cancel_at });
            self.prepared.run_with(&options.cancellation(Cancellation::new()))
        };
        let steps = run(None, false)?.schedule.map_or(0, |schedule| schedule.steps);
        let at = 1 + u64::from(chosen) % (steps + 1);
        let ran = run(Some(at), keep_log)?;
        let found = self.check_run(&ran).or_else(|| {
            let (list, inline) = (ran.list.as_ref()?, self.inline.list.as_ref()?);
            (!same(list, inline)).then(|| "the list depends on the cancellation".to_owned())
        });
        let describe =
            |found| Finding::Fault(format!("cancelled before step {at} of {steps}: {found}"));
        Ok(Trial { schedule: ran.schedule, finding: found.map(describe) })
    }

    /// Checks a run in which one stream never completes. Outputs that do not depend on the stream
    /// must be right; the others must be missing, with an error that says that nothing can move.
    fn check_stuck_run(&self, ran: &RunReport) -> Option<String> {
        let proceeds = |e: &&TraceError| !e.to_string().contains("nothing can move");
        let wrong = compare_faulty(ran, &self.inline)
            .or_else(|| ran.failures.iter().find(proceeds).map(|e| e.to_string()));
        if wrong.is_some() {
            return wrong;
        }
        // A run that was abandoned has no list.
        let first = first_causes(ran.list.as_ref()?, ran.stuck.as_ref()?);
        match first.as_slice() {
            [_] => None,
            several => {
                Some(format!("one stream never completes, but several are stuck: {several:?}"))
            }
        }
    }

    fn check_run(&self, ran: &RunReport) -> Option<String> {
        let wrong = compare_faulty(ran, &self.inline);
        if wrong.is_some() {
            return wrong;
        }
        // A run that was abandoned has no list, and the program's list does not contain the
        // failures within launches.
        let list = ran.list.as_ref()?;
        if list.instructions.iter().any(|i| i.body.list().is_some()) {
            return None;
        }
        let (tainted, reads) = tainted(list, ran);
        for (output, failed_itself) in ran.outputs.iter().zip(last(&reads, ran.outputs.len())) {
            let reached = output.tensor.is_some_and(|t| tainted.contains(&t));
            match (output.spec.is_some(), reached, failed_itself) {
                (true, false, _) | (false, true, _) | (false, _, true) => {}
                (true, true, _) => {
                    return Some(format!("a failure should have reached '{}'", output.name));
                }
                (false, false, false) => {
                    return Some(format!("no failure could reach '{}'", output.name));
                }
            }
        }
        None
    }
}

/// Returns the stuck streams that do not wait for another stuck stream.
fn first_causes(list: &InstructionList, progress: &[StreamProgress]) -> Vec<String> {
    let keys: Vec<String> = list.streams.iter().map(|s| s.key.to_string()).collect();
    let of = |stream: usize| progress.iter().find(|p| p.stream == keys[stream]);
    let is_stuck = |stream: usize, seq: u64| of(stream).is_some_and(|p| p.completed < seq);
    let mut barrier = None;
    let mut first = Vec::new();
    let mut seen = vec![false; keys.len()];
    for instruction in &list.instructions {
        let body = &instruction.body;
        let Some(at) = body.at() else { continue };
        let stream = at.stream.index();
        // The record of a `StreamWait` takes a point on the awaited stream.
        if let Body::StreamWait { until, .. } = body
            && is_stuck(until.stream.index(), until.seq)
            && !std::mem::replace(&mut seen[until.stream.index()], true)
            && barrier.is_none()
        {
            first.push(keys[until.stream.index()].clone());
        }
        if is_stuck(stream, at.seq) && !std::mem::replace(&mut seen[stream], true) {
            let waits = match body.until() {
                Some(until) => is_stuck(until.stream.index(), until.seq),
                None => body.class() == Class::Fences && seen.iter().filter(|s| **s).count() > 1,
            };
            if !waits && barrier.is_none() {
                first.push(keys[stream].clone());
            }
        }
        if body.class() == Class::Fences && is_stuck(stream, at.seq) {
            // Everything later waits for the barrier.
            barrier = Some(at);
        }
    }
    first
}

/// Returns the reads of the outputs, which come last.
fn last(reads: &[bool], outputs: usize) -> &[bool] {
    &reads[reads.len().saturating_sub(outputs)..]
}

/// Returns the tensors that a failure reaches, and for each read whether it failed itself.
fn tainted(list: &InstructionList, ran: &RunReport) -> (HashSet<TensorId>, Vec<bool>) {
    // Records and waits only order, so their failures lose no data.
    let loses_data = |f: &&Arc<Failure>| {
        f.instruction == Kind::SyncRead.name() || f.operands.iter().any(|o| o.access.writes())
    };
    let failed: HashSet<(&str, u64)> =
        ran.failed.iter().filter(loses_data).map(|f| (f.stream.as_str(), f.seq)).collect();
    let keys: Vec<String> = list.streams.iter().map(|s| s.key.to_string()).collect();
    let mut storage: std::collections::HashMap<TensorId, TensorId> = Default::default();
    let mut tainted: HashSet<TensorId> = HashSet::new();
    let mut reads = Vec::new();
    for instruction in &list.instructions {
        let body = &instruction.body;
        if let Some((tensor, _)) = body.begins() {
            let base = match body.view_of() {
                Some(of) => storage.get(&of).copied().unwrap_or(of),
                None => tensor,
            };
            storage.insert(tensor, base);
            if base == tensor {
                tainted.remove(&tensor);
            }
        }
        let base = |t: TensorId| storage.get(&t).copied().unwrap_or(t);
        let itself = body
            .at()
            .is_some_and(|at| failed.contains(&(keys[at.stream.index()].as_str(), at.seq)));
        if body.kind() == Kind::SyncRead {
            reads.push(itself);
        }
        if body.class() != Class::Computes {
            continue;
        }
        let operands = body.operands();
        let skipped =
            operands.iter().any(|o| o.access.reads() && tainted.contains(&base(o.tensor)));
        for operand in operands.iter().filter(|o| o.access.writes()) {
            if itself || skipped {
                tainted.insert(base(operand.tensor));
            } else if !operand.access.reads() {
                tainted.remove(&base(operand.tensor));
            }
        }
    }
    // Views share the fate of their base.
    let views: Vec<TensorId> =
        storage.iter().filter(|(_, base)| tainted.contains(base)).map(|(t, _)| *t).collect();
    tainted.extend(views);
    (tainted, reads)
}
