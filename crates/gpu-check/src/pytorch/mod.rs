//! Measures recorded programs on the machine and in eager PyTorch, alternately on the same device,
//! and both as CUDA graphs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use millstream::DeviceId;
use millstream_bench::pytorch::{self, Helper, Plan, Script};
use millstream_runner::{RunError, RunOptions, Taken, Timed};
use millstream_trace::{Entry, Imported, expand};

use super::Setting;
use super::programs::{not_run, read};
use super::section::{Section, median};

/// The least share of PyTorch's speed; the second holds for programs in which PyTorch's device
/// waits for the host.
const TARGETS: [f64; 2] = [1.0, 2.0];

/// The share of its time after which a dispatch-bound program has made its last call.
const DISPATCH_BOUND: f64 = 0.9;

const ROUNDS: usize = 5;

/// The seconds of PyTorch that a round is to take, and its least and greatest number of runs.
const ROUND: (f64, f64, f64) = (0.1, 3.0, 100.0);

/// The medians of the rounds, in seconds.
struct Found {
    runs: usize,
    theirs: f64,
    their_calls: f64,
    between_events: f64,
    ours: f64,
    our_calls: f64,
}

/// The figures of the calls one by one, and as graphs or the reason why there are none.
type Both = (Found, Result<Found, String>);

/// A way to run a program the given number of times.
type Run<'a> = &'a mut dyn FnMut(usize) -> Result<Times, Unfit>;

/// The seconds of each run: until the device has completed everything, until the last call was
/// made, and between two events on the stream.
type Times = [Vec<f64>; 3];

/// The reason why there are no figures of a program.
enum Unfit {
    /// The machine does not run it.
    Failed(RunError),
    /// The machine and PyTorch do not run the same calls.
    Incomparable(anyhow::Error),
}

impl From<RunError> for Unfit {
    fn from(error: RunError) -> Unfit {
        Unfit::Failed(error)
    }
}

impl From<anyhow::Error> for Unfit {
    fn from(error: anyhow::Error) -> Unfit {
        Unfit::Incomparable(error)
    }
}

pub(super) fn measure(setting: &Setting, section: &mut Section) -> Result<()> {
    if section.is_over(|| "all programs".to_owned()) {
        return Ok(());
    }
    // PyTorch does not know the stand-in.
    let device = match setting.real {
        true => DeviceId::cuda(setting.device).to_string(),
        false => "cpu".to_owned(),
    };
    let replay = (&*setting.python, Script::Replay);
    let started = Helper::start(replay, &["--device", &device], &setting.out, section.left())?;
    let mut helper = match started {
        Ok(helper) => helper,
        Err(why) => {
            section.skipped.push(format!("no python with torch and CUDA: {why}"));
            return Ok(());
        }
    };
    section.notes.push(helper.what.clone());
    let entries = expand(setting.programs.iter().filter(|place| place.exists()))?;
    for (done, entry) in entries.iter().enumerate() {
        if section.is_over(|| not_run(done, entries.len())) {
            break;
        }
        let path = match entry {
            Entry::Trace(path) => path,
            Entry::Ranks { folder, .. } => {
                section.skipped.push(format!("{}: it has several ranks", folder.display()));
                continue;
            }
            Entry::Skipped { .. } => continue,
        };
        match compare(setting, path, &mut helper, section.left()) {
            Err(Unfit::Incomparable(why)) => {
                section.skipped.push(format!("{}: {why:#}", path.display()));
            }
            Err(Unfit::Failed(why)) => {
                section.check(&path.display().to_string(), Some(why.to_string()));
            }
            Ok(found) => {
                section.passed += 1;
                note(setting, path, &found, section);
            }
        }
    }
    Ok(())
}

fn note(setting: &Setting, path: &Path, (found, as_graph): &Both, section: &mut Section) {
    let bound = found.their_calls >= DISPATCH_BOUND * found.theirs;
    let what = path.display().to_string();
    let of = if bound { "PyTorch's speed, which waits for the host" } else { "PyTorch's speed" };
    let share = (found.theirs / found.ours, "");
    let target = Some(TARGETS[usize::from(bound)]);
    section.measure(setting.real, &what, share, target, found.how(of));
    let what = format!("{what}, as a graph");
    match as_graph {
        Ok(found) => {
            let (share, how) = ((found.theirs / found.ours, ""), found.how("PyTorch's CUDAGraph"));
            section.measure(setting.real, what, share, Some(TARGETS[0]), how);
        }
        Err(why) => section.unmeasured(what, why),
    }
}

impl Found {
    fn how(&self, of: &str) -> String {
        format!(
            "of {of}; PyTorch {:.3} ms (calls made after {:.3}, {:.3} between events), machine \
             {:.3} ms (calls made after {:.3}); medians of {ROUNDS} rounds of {} runs in turns",
            self.theirs * 1e3,
            self.their_calls * 1e3,
            self.between_events * 1e3,
            self.ours * 1e3,
            self.our_calls * 1e3,
            self.runs
        )
    }
}

/// Runs both alternately.
fn compare(
    setting: &Setting,
    path: &Path,
    helper: &mut Helper,
    left: Duration,
) -> Result<Both, Unfit> {
    let program = read(path)?;
    let imported = program.imported.as_deref().context("no execution trace of PyTorch's")?;
    let plan = helper.load(path, &imported.executed, left)?;
    same(imported, &plan)?;
    let device = DeviceId::cuda(setting.device);
    let mut timed = Timed::new(&program, &RunOptions::default().device(device))?;
    let found =
        in_turns(setting, &mut |times| Ok(helper.run(times, left).map(theirs)?), &mut |times| {
            ours(times, || timed.run())
        })?;
    if !setting.real {
        return Ok((found, Err("no GPU".to_owned())));
    }
    if let Err(why) = timed.compile() {
        return Ok((found, Err(why.to_string())));
    }
    let as_graph = in_turns(
        setting,
        &mut |times| Ok(helper.run_graph(times, left).map(theirs)?),
        &mut |times| ours(times, || timed.launch()),
    );
    let reason = timed.graphs().into_iter().find_map(|status| status.reason);
    let as_graph = match (as_graph, reason) {
        (Ok(found), None) => Ok(found),
        (Ok(_), Some(reason)) => Err(format!("the machine makes its calls one by one: {reason}")),
        (Err(Unfit::Failed(why)), _) => return Err(Unfit::Failed(why)),
        (Err(Unfit::Incomparable(why)), _) => Err(format!("{why:#}")),
    };
    Ok((found, as_graph))
}

/// Measures two ways to run a program in turns. The first runs of each warm up.
fn in_turns(setting: &Setting, theirs: Run<'_>, ours: Run<'_>) -> Result<Found, Unfit> {
    let [mut warm, ..] = theirs(3)?;
    ours(3)?;
    let (round, least, most) = ROUND;
    let (rounds, runs) = match setting.real && !setting.quick {
        true => (ROUNDS, (round / median(&mut warm)).clamp(least, most) as usize),
        false => (1, 1),
    };
    let mut all: [Vec<f64>; 6] = Default::default();
    for _ in 0..rounds {
        let both = theirs(runs)?.into_iter().chain(ours(runs)?);
        for (all, mut row) in all.iter_mut().zip(both) {
            all.push(median(&mut row));
        }
    }
    let [theirs, their_calls, between_events, ours, our_calls, _] =
        all.each_mut().map(|values| median(values));
    Ok(Found { runs, theirs, their_calls, between_events, ours, our_calls })
}

fn theirs(taken: pytorch::Taken) -> Times {
    [taken.wall, taken.issued, taken.device]
}

fn ours(times: usize, mut run: impl FnMut() -> Result<Taken, RunError>) -> Result<Times, Unfit> {
    let taken = (0..times).map(|_| run()).collect::<Result<Vec<_>, RunError>>()?;
    let seconds = |of: fn(&Taken) -> Duration| {
        taken.iter().map(|taken| of(taken).as_secs_f64()).collect::<Vec<f64>>()
    };
    Ok([seconds(|taken| taken.wall), seconds(|taken| taken.issued), Vec::new()])
}

/// Checks that both run the same calls, and that PyTorch's replay gives the recorded results.
fn same(imported: &Imported, plan: &Plan) -> Result<()> {
    if let Some(skipped) = imported.skipped.first() {
        bail!("the machine leaves out node {} ({}): {}", skipped.node, skipped.op, skipped.reason);
    }
    if let Some((name, why)) = plan.outputs.iter().find_map(|(n, why)| Some((n, why.as_ref()?))) {
        bail!("replayed, {name} is not what was recorded: {why}");
    }
    let all: usize = plan.calls.values().sum();
    let names = plan.calls.keys().chain(imported.executed.keys());
    for name in names {
        let [theirs, ours] = [&plan.calls, &imported.executed]
            .map(|calls| calls.get(name).copied().unwrap_or_default());
        ensure!(theirs == ours, "PyTorch calls {name} {theirs} times, the machine {ours} times");
    }
    // PyTorch did not make these views when it recorded, so the comparison allows only few of them.
    ensure!(plan.views * 10 <= all, "{} views that no node makes, {all} calls", plan.views);
    Ok(())
}
