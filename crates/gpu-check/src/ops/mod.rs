//! Every op with a kernel for the device against PyTorch's values: the reference files, through the
//! harness that checks the host's kernels, and on the tests' stand-in this device's. Where their
//! small tensors do not reach, the host's kernel is the reference ([`large`]).

pub mod large;
mod rig;

pub use rig::run;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use millstream::ep::Backend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::kernels::KernelCtx;
use millstream::kernels::cuda::{Compiled, compiled};
use millstream_testing::kernels::reference::File;

use super::Setting;
use super::fixture::{caught, quietly};
use super::section::{LACKS, Section};

/// The cases of each file if only a few are to run.
const FEW: usize = 3;

/// The number of failures after which the part ends: a lost device fails every call.
const FAILURES: usize = 100;

/// Compiling kernels takes most of the time, so as many threads as this check cases.
const THREADS: usize = 16;

/// A case: what it is called, and its check.
type Check<'a> = (String, Box<dyn Fn() -> Result<(), String> + Send + Sync + 'a>);

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    let folder = &setting.reference;
    if !folder.is_dir() {
        section.skipped.push(format!(
            "all: there is no folder {}; --reference names the reference files of a checkout, \
             crates/kernels/tests/reference",
            folder.display()
        ));
        return Ok(());
    }
    let (files, large) = (File::read_all(folder)?, large::cases(setting.seed));
    // Each case allocates and frees: in a stream's order neither waits.
    let config = CudaConfig { stream_ordered: true, ..CudaConfig::default() };
    let device = CudaBackend::new(config).open(setting.device)?;
    let kernels = millstream::kernels::standard();
    let run = &|op: &str, ctx: &KernelCtx<'_>| rig::run(&kernels, &device, op, ctx);
    let mut checks: Vec<Check<'_>> = Vec::new();
    for (file, number, op) in order(&files, setting.quick) {
        checks.push((format!("{op}: {}", file.name), Box::new(move || file.check(number, run))));
    }
    for case in large.iter().filter(|_| !setting.quick) {
        checks.push((case.to_string(), Box::new(move || case.check(run))));
    }
    quietly(|| check_all(&checks, section));
    let Compiled { kernels, seconds, waited } = compiled();
    let what = format!("{kernels} kernels compiled, those in the cache on disk aside");
    let how = format!("the time of all threads together; calls waited {waited:.1} s for it");
    section.measure(setting.real, what, (seconds, "s"), None, how);
    Ok(())
}

/// Returns the cases so that each op has its first case before any has its second: a check that is
/// cut short has seen every op.
fn order(files: &[File], quick: bool) -> Vec<(&File, usize, &str)> {
    let mut rounds: HashMap<&str, usize> = HashMap::new();
    let mut all = Vec::new();
    for file in files {
        let step = if quick { file.calls().count().div_ceil(FEW).max(1) } else { 1 };
        for (number, op) in file.calls().step_by(step) {
            let round = rounds.entry(op).or_default();
            all.push((*round, (file, number, op)));
            *round += 1;
        }
    }
    all.sort_by_key(|(round, _)| *round);
    all.into_iter().map(|(_, case)| case).collect()
}

/// Runs the checks on several threads.
fn check_all(checks: &[Check<'_>], section: &mut Section) {
    let (next, section) = (AtomicUsize::new(0), Mutex::new((section, HashMap::new())));
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(THREADS));
    let work = || {
        while let Some((what, check)) = checks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = caught(check).flatten();
            let mut locked = section.lock().unwrap_or_else(PoisonError::into_inner);
            let (section, skipped) = &mut *locked;
            match outcome {
                Err(why) if LACKS.iter().any(|lacks| why.contains(lacks)) => {
                    skip(section, skipped, what, &why);
                }
                outcome => section.check(what, outcome.err()),
            }
            let left = || {
                let left = checks.len().saturating_sub(next.load(Ordering::Relaxed));
                format!("{left} of {} cases were not run", checks.len())
            };
            if section.failed.len() >= FAILURES {
                section.cut = Some(format!("after {FAILURES} failures {}", left()));
            }
            if section.cut.is_some() || section.is_over(left) {
                break;
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

/// Notes a case that the device's kernels do not support; cases of one op with one reason together.
fn skip(
    section: &mut Section,
    skipped: &mut HashMap<String, (usize, usize)>,
    what: &str,
    why: &str,
) {
    let reason = LACKS.iter().find_map(|lacks| why.find(lacks)).map_or(why, |at| &why[at..]);
    let line = format!("{what}: {reason}");
    let (at, count) = skipped.entry(line.clone()).or_insert((section.skipped.len(), 0));
    *count += 1;
    match *count {
        1 => section.skipped.push(line),
        count => section.skipped[*at] = format!("{line} ({count} cases)"),
    }
}
