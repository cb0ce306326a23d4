//! Runs a program of statements.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_instructions::{Body as Line, InstructionList};
use millstream_trace::{Program, ValueRef};
use millstream_types::{Error, Failure, StreamType, TensorId, TensorSpec};
use millstream_vm::{DriverKind, Machine, Range, Tensor, with_origin};

use crate::dry_run::Subject;
use crate::error::{RunError, distinct, placed};
use crate::execution::Execution;
use crate::executor::Executor;
use crate::lower::Lowered;
use crate::measure::Before;
use crate::names::{names, stream_names};
use crate::options::{Progress, RunOptions};
use crate::outputs::{Read, compare, recheck};
use crate::replay::Replayed;
use crate::report::{OutputReport, RunReport};
use crate::{dry_run, executables, recorded, replay, upload};

/// The results of one run.
pub(crate) struct Round {
    pub(crate) reads: Vec<Read>,
    pub(crate) wall: Duration,
    /// The time that reading the outputs took, beside `wall`.
    pub(crate) reading: Duration,
    pub(crate) failures: Vec<Error>,
}

/// Runs a program as often as the options say, up to the first failure. `round` runs it once, and
/// is told whether that is the first time. Returns the failed instructions of the last run.
pub(crate) fn rounds(
    machine: &Machine,
    program: &Program,
    options: &RunOptions,
    report: &mut RunReport,
    mut round: impl FnMut(bool, &mut RunReport) -> Result<Round, RunError>,
) -> Result<Vec<Arc<Failure>>, RunError> {
    let mut failed = Vec::new();
    for repeat in 0..options.repeat.max(1) {
        let round = match round(repeat == 0, report) {
            Ok(round) => round,
            Err(error) if error.runtime => {
                report.failures.extend(error.errors);
                if report.outputs.is_empty() {
                    let unread = program.outputs.iter().map(|o| OutputReport::unread(&o.name));
                    report.outputs = unread.collect();
                }
                break;
            }
            Err(error) => return Err(error),
        };
        report.walls.push(round.wall);
        report.readings.push(round.reading);
        if repeat == 0 {
            compare(program, round.reads, report);
        } else {
            recheck(report, &round.reads, repeat, options.replay);
        }
        let (noted, _) = machine.failures();
        failed.clone_from(&noted);
        let noted = noted.into_iter().map(Error::of);
        let all = round.failures.into_iter().chain(noted);
        let place = program.source.span(0..0);
        let placed = all.map(|e| placed(program, place, &e));
        report.failures = distinct(report.failures.drain(..).chain(placed));
        if !report.failures.is_empty() {
            break;
        }
    }
    report.schedule = machine.schedule().map_err(|e| RunError::whole(program, &e))?;
    Ok(failed)
}

/// The place of a round among all.
#[derive(Clone, Copy)]
struct Which {
    first: bool,
    /// Whether a list that is known without a run may stand for the run's.
    known_list: bool,
}

/// Runs a lowered program as often as the options say.
pub(crate) fn run(
    machine: &Machine,
    program: &Arc<Program>,
    lowered: &Lowered,
    options: &RunOptions,
) -> Result<RunReport, RunError> {
    let mut report = RunReport {
        trace: program.source.name().to_owned(),
        imported: program.imported.as_deref().cloned(),
        ..RunReport::default()
    };
    let replayed = match options.replay {
        true => Some(replay::compile(machine, program, lowered, options, true)?),
        false => None,
    };
    let failed = rounds(machine, program, options, &mut report, |first, report| {
        // A list that is to be emitted is that of the run itself.
        let which = Which { first, known_list: !(first && options.emit) };
        round(machine, program, lowered, options, (which, &replayed), report)
    })?;
    report.failed = failed;
    name_outputs(&mut report);
    for (key, name) in stream_names(program, options) {
        let named = report.streams.iter_mut().filter(|stream| stream.key == key);
        named.for_each(|stream| stream.name = Some(name.to_owned()));
    }
    let used = match &replayed {
        Some(replayed) => compute_streams(replayed.executable.list()),
        None => report.streams.iter().filter(|s| s.key.ty == StreamType::COMPUTE).count(),
    };
    let most = if program.spread { options.compute_streams } else { 1 };
    report.compute_streams = [used as u32, most];
    let list = report.list.as_ref().or(report.times.as_ref().map(|times| &times.list));
    report.names = list.map(|list| names(program, options, list)).unwrap_or_default();
    if let Some(replayed) = replayed {
        (report.graphs, report.remat) = (replayed.executable.graphs(), replayed.remat);
    }
    Ok(report)
}

/// Returns the number of compute streams with instructions of a list.
fn compute_streams(list: &InstructionList) -> usize {
    let used = list.instructions.iter().filter_map(|i| i.body.at()).map(|at| at.stream.index());
    let is_compute = |stream: &usize| list.streams[*stream].key.ty == StreamType::COMPUTE;
    used.filter(is_compute).collect::<HashSet<usize>>().len()
}

fn round(
    machine: &Machine,
    program: &Arc<Program>,
    lowered: &Lowered,
    options: &RunOptions,
    (which, replayed): (Which, &Option<Replayed>),
    report: &mut RunReport,
) -> Result<Round, RunError> {
    let Which { first, known_list } = which;
    let whole = |e: Error| RunError::whole(program, &e);
    let device =
        |k: usize| program.tensors[k].device.clone().unwrap_or_else(|| options.device.clone());
    let executor = Executor::new(machine);
    let mut execution = Execution::new(executor, program, lowered, lowered.main.events);
    execution.declare_streams()?;
    let kept = replayed.as_ref().map(|replayed| &replayed.tensors);
    let earlier = kept.and_then(OnceCell::get).map_or(&[][..], Vec::as_slice);
    let tensors = upload::again(machine, program, device, earlier)?;
    // A second set of tensors could take more memory than there is.
    if let Some(kept) = kept.filter(|_| options.memory_limit.is_none()) {
        kept.get_or_init(|| tensors.clone());
    }
    if replayed.is_none() {
        execution.executor.executables =
            executables::compile(machine, program, lowered, options, Some(&tensors))?;
    }
    if let Some(faults) = &options.faults {
        // The program's tensors are complete: faults strike the program itself.
        machine.synchronize().map_err(whole)?;
        faults.resume();
    }
    let profile = options.profile;
    // A profile has a list, so one round needs no recording of its own.
    let record = first && options.emit && !profile;
    let named = || -> Vec<(&str, &Tensor)> {
        program.tensors.iter().zip(&tensors).map(|(t, made)| (t.name.as_str(), made)).collect()
    };
    if record {
        machine.start_recording(&named()).map_err(whole)?;
    }
    // A list that is known without a run need not be recorded, which costs time.
    let known = match profile && known_list && replayed.is_none() {
        true => known_list_of(program, lowered, options)?,
        false => None,
    };
    let profiling = match (profile, &known) {
        (false, _) => None,
        (true, None) => Some(machine.profile(&named()).map_err(whole)?),
        (true, Some(_)) => Some(machine.profile_times().map_err(whole)?),
    };
    let before = Before::of(machine).map_err(whole)?;
    let range = machine.range(Range::PROGRAM);
    let start = Instant::now();
    let mut execution = execution.with_progress(options.progress.as_ref());
    let executed = options.cancellable(|| match replayed {
        Some(replayed) => {
            let launched = replay::launch(&replayed.executable, program, &tensors, &mut execution);
            options.progress.iter().for_each(Progress::call);
            launched
        }
        None => {
            for (value, tensor) in (0..).zip(tensors) {
                execution.set(ValueRef(value), tensor);
            }
            execution.hold_tensors(&options.device, |_| true)?;
            execution.run(&lowered.main)?;
            execution.gather_outputs()
        }
    });
    // A simulated run has no time, and the wait would be a step of it.
    if options.machine.driver != DriverKind::Simulated && executed.is_ok() {
        // A wait that cannot end is reported by the reads, or by the wait after them.
        let _ = machine.settle();
    }
    let wall = start.elapsed();
    drop(range);
    let reads_outputs = machine.range(Range::READING);
    let begun = Instant::now();
    let read = match executed {
        Ok(()) => read_all(program, &mut execution),
        Err(error) => Err(error),
    };
    if first {
        report.reads = std::mem::take(&mut execution.reads);
        before.measure(machine, report).map_err(whole)?;
    }
    let reads = read?;
    let reading = begun.elapsed();
    drop(reads_outputs);
    if record {
        let list = machine.finish_recording().map_err(whole)?;
        let compiled = replayed.as_ref().and_then(|replayed| replayed.list.clone());
        report.list = Some(compiled.unwrap_or(list));
    }
    if let Some(profiling) = profiling {
        let times = match known {
            None => profiling.finish().map(Some),
            Some(list) => profiling.finish_with(list),
        };
        let Some(times) = times.map_err(whole)? else {
            // The run has emitted another list than the dry run: it waited for memory.
            let which = Which { known_list: false, ..which };
            return self::round(machine, program, lowered, options, (which, replayed), report);
        };
        if first && options.emit {
            let compiled = replayed.as_ref().and_then(|replayed| replayed.list.clone());
            report.list = Some(compiled.unwrap_or_else(|| times.list.clone()));
        }
        recorded::keep(machine, times, report);
    }
    // Waits for instructions that no output depends on: their failures and their time count.
    match machine.synchronize() {
        Err(e) if is_stuck(&e) => {
            report.stuck = Some(machine.progress().map_err(whole)?);
            execution.executor.failures.push(e);
        }
        Err(e) if e.failure().is_none() => return Err(whole(e)),
        _ => {}
    }
    // Memory that is freed last is given out first, so the next launch finds its outputs there.
    for output in program.outputs.iter().rev() {
        drop(output.value.and_then(|value| execution.take(value)));
    }
    Ok(Round { reads, wall, reading, failures: execution.executor.failures })
}

/// Returns the list of a program, if a dry run gives that of its first run on a machine.
fn known_list_of(
    program: &Arc<Program>,
    lowered: &Lowered,
    options: &RunOptions,
) -> Result<Option<InstructionList>, RunError> {
    if options.memory_limit.is_some() {
        return Ok(None);
    }
    dry_run::list(Subject { program, lowered, options })
}

/// Returns whether a wait ended because nothing could move. Outputs that do not depend on it are
/// read.
fn is_stuck(error: &Error) -> bool {
    matches!(error.without_place(), Error::Stuck { .. })
}

fn read_all(program: &Program, execution: &mut Execution<'_>) -> Result<Vec<Read>, RunError> {
    let mut reads = Vec::with_capacity(program.outputs.len());
    for output in &program.outputs {
        let place = output.site.span();
        let at = |e: Error| RunError::at(program, place, &e);
        let Some(tensor) = output.value.and_then(|v| execution.get(v)) else {
            let message = format!("the output '{}' was not made", output.name);
            return Err(at(Error::Internal { message }));
        };
        reads.push(match with_origin(&program.origin(place), || tensor.read()) {
            Ok(bytes) => {
                let spec = tensor.spec();
                Some((TensorSpec::contiguous(spec.dtype, spec.shape()).map_err(at)?, bytes))
            }
            Err(e) if e.failure().is_some() || is_stuck(&e) => {
                execution.executor.failures.push(e);
                None
            }
            Err(e) => return Err(at(e)),
        });
    }
    Ok(reads)
}

/// Sets the outputs' tensors in the list: their reads are the last ones.
fn name_outputs(report: &mut RunReport) {
    let Some(list) = &report.list else { return };
    let tensors = reads(list);
    let last = tensors.len().saturating_sub(report.outputs.len());
    for (output, tensor) in report.outputs.iter_mut().zip(&tensors[last..]) {
        output.tensor = Some(*tensor);
    }
}

fn reads(list: &InstructionList) -> Vec<TensorId> {
    let read = |body: &Line| match body {
        Line::SyncRead { operand, .. } => Some(operand.tensor),
        _ => None,
    };
    list.instructions.iter().filter_map(|i| read(&i.body)).collect()
}
