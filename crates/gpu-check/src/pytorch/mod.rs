//! Measures recorded programs on the machine and in eager PyTorch, alternately on the same device.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use millstream::DeviceId;
use millstream_bench::pytorch::{Helper, Plan, Script};
use millstream_runner::{RunError, RunOptions, Taken, Timed};
use millstream_trace::{Entry, Imported, expand};

use super::Setting;
use super::programs::read;
use super::section::{Section, Time, median};

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

pub(super) fn measure(setting: &Setting, time: &Time, section: &mut Section) -> Result<()> {
    // PyTorch does not know the stand-in.
    let device = match setting.real {
        true => DeviceId::cuda(setting.device).to_string(),
        false => "cpu".to_owned(),
    };
    let replay = (&*setting.python, Script::Replay);
    let mut helper = match Helper::start(replay, &["--device", &device], &setting.out, time.left())?
    {
        Ok(helper) => helper,
        Err(why) => {
            section.skipped.push(format!("no python with torch and CUDA: {why}"));
            return Ok(());
        }
    };
    section.notes.push(helper.what.clone());
    let entries = expand(setting.programs.iter().filter(|place| place.exists()))?;
    for (done, entry) in entries.iter().enumerate() {
        if time.is_up() {
            let left = entries.len() - done;
            section.cut = Some(format!("{left} of {} programs were not run", entries.len()));
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
        match compare(setting, path, &mut helper, time) {
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

fn note(setting: &Setting, path: &Path, found: &Found, section: &mut Section) {
    let bound = found.their_calls >= DISPATCH_BOUND * found.theirs;
    let how = format!(
        "of PyTorch's speed{}; PyTorch {:.3} ms (calls made after {:.3}, {:.3} between events), machine \
         {:.3} ms (calls made after {:.3}); medians of {ROUNDS} rounds of {} runs in turns",
        if bound { ", which waits for the host" } else { "" },
        found.theirs * 1e3,
        found.their_calls * 1e3,
        found.between_events * 1e3,
        found.ours * 1e3,
        found.our_calls * 1e3,
        found.runs
    );
    let (what, target) = (path.display().to_string(), TARGETS[usize::from(bound)]);
    section.measure(setting.real, what, (found.theirs / found.ours, ""), Some(target), how);
}

/// Runs both alternately.
fn compare(
    setting: &Setting,
    path: &Path,
    helper: &mut Helper,
    time: &Time,
) -> Result<Found, Unfit> {
    let program = read(path)?;
    let imported = program.imported.as_deref().context("no execution trace of PyTorch's")?;
    let plan = helper.load(path, &imported.executed, time.left())?;
    same(imported, &plan)?;
    let device = DeviceId::cuda(setting.device);
    let timed = Timed::new(&program, &RunOptions::default().device(device))?;
    // The first runs warm up.
    let warm = helper.run(3, time.left())?;
    for _ in 0..3 {
        timed.run()?;
    }
    let (round, least, most) = ROUND;
    let (rounds, runs) = match setting.real && !setting.quick {
        true => (ROUNDS, (round / median(&mut warm.wall.clone())).clamp(least, most) as usize),
        false => (1, 1),
    };
    let mut all: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        let mut theirs = helper.run(runs, time.left())?;
        let ours: Vec<_> = (0..runs).map(|_| timed.run()).collect::<Result<_, RunError>>()?;
        let seconds = |of: fn(&Taken) -> Duration| {
            ours.iter().map(|taken| of(taken).as_secs_f64()).collect::<Vec<f64>>()
        };
        let rows = [
            &mut theirs.wall,
            &mut theirs.issued,
            &mut theirs.device,
            &mut seconds(|taken| taken.wall),
            &mut seconds(|taken| taken.issued),
        ];
        for (all, row) in all.iter_mut().zip(rows) {
            all.push(median(row));
        }
    }
    let [theirs, their_calls, between_events, ours, our_calls] =
        all.each_mut().map(|values| median(values));
    Ok(Found { runs, theirs, their_calls, between_events, ours, our_calls })
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
