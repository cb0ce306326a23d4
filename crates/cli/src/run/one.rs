//! Runs one program: a trace, or the traces of several ranks.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_files::{Console, Outputs};
use millstream_instructions::text::print_list;
use millstream_profile::Spread;
use millstream_runner::{
    Loading, Progress, RunError, RunOptions, RunReport, assignment, load, program_hash, run_ranks,
};
use millstream_trace::{Body, Entry, ListRank, Program, Statement, TraceError, output_line};

use crate::show::report::Repeat;

use super::processes::Processes;

/// The results of a program.
pub(crate) struct Ran {
    /// The file, or the folder of the ranks.
    pub(crate) trace: String,
    /// One report for each rank.
    pub(crate) ranks: Vec<RunReport>,
    /// The rank of the only report, if other processes have run the others.
    pub(crate) rank: Option<usize>,
    /// The streams of its ops, if they are wanted.
    pub(super) assignment: Option<String>,
    /// What repeats, if the run was recorded.
    pub(crate) repeats: Option<Vec<Repeat>>,
    /// The number of ranks.
    pub(super) count: usize,
    /// The hash of the program that all ranks read, if it names ranks.
    program: Option<String>,
}

impl Ran {
    /// Returns whether every rank ran and matched.
    pub(crate) fn ok(&self) -> bool {
        self.ranks.iter().all(RunReport::ok)
    }

    /// Returns the list of one of its reports as text. That of one of several ranks begins with the
    /// rank.
    pub(super) fn list_text(&self, index: usize) -> Option<String> {
        let text = list_text(self.ranks.get(index)?)?;
        if self.count == 1 {
            return Some(text);
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (rank, ranks) = (number(self.rank.unwrap_or(index)), number(self.count));
        let rank = ListRank { rank, ranks, program: self.program.clone() };
        Some(format!("{rank}\n{text}"))
    }

    /// Returns the labels of an imported program, with the nodes that they cover.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let imported = self.ranks.first().and_then(|rank| rank.imported.as_ref());
        let labels = imported.map_or(&[][..], |imported| &imported.labels);
        labels.iter().map(|label| (label.name.as_str(), label.first, label.last))
    }

    /// Returns the median and the spread of a time of its runs: in each, that of the slowest rank.
    pub(crate) fn spread(&self, of: impl Fn(&RunReport) -> &[Duration]) -> Option<Spread> {
        let runs = self.ranks.iter().map(|rank| of(rank).len()).min().unwrap_or(0);
        let slowest = |run: usize| self.ranks.iter().map(|rank| of(rank)[run]).max();
        let slowest = (0..runs).filter_map(slowest);
        Spread::of(slowest.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the name of an output or stream, with its rank if there are several.
    pub(crate) fn name(&self, rank: usize, name: &str) -> String {
        match (self.ranks.len(), self.rank) {
            (1, None) => name.to_owned(),
            (_, of_process) => format!("rank{}/{name}", of_process.unwrap_or(rank)),
        }
    }
}

/// Loads, checks and runs a program.
pub(crate) fn run(
    entry: &Entry,
    options: &RunOptions,
    loading: &Loading,
    outputs: &Outputs,
    emits_assignment: bool,
) -> Result<Ran, RunError> {
    let (Entry::Ranks { folder: name, .. }
    | Entry::Trace(name)
    | Entry::Skipped { path: name, .. }) = entry;
    let files = entry.paths();
    let programs = files
        .iter()
        .enumerate()
        .map(|(rank, path)| load(path, &loading.of_rank(rank, files.len()), options).map(Arc::new));
    let programs = programs.collect::<Result<Vec<_>, RunError>>()?;
    let beside = programs.iter().flat_map(|program| program.files());
    outputs.refuse(beside).map_err(|e| TraceError::of_file("run", e.to_string()))?;
    let assignment = match (emits_assignment, &programs[..]) {
        (true, [program]) => Some(assignment(program, options)?),
        _ => None,
    };
    let program = programs.first().and_then(|program| program_hash(program));
    let (options, bar) = with_progress(options, &programs);
    let ranks = run_ranks(programs, &options);
    bar.finish_and_clear();
    let trace = match name == Path::new("-") {
        true => "standard input".to_owned(),
        false => name.display().to_string(),
    };
    let (rank, repeats, count) = (None, None, files.len());
    Ok(Ran { trace, ranks: ranks?, assignment, rank, repeats, count, program })
}

/// Loads, checks and runs the program of this process's rank.
pub(crate) fn run_rank(
    entry: &Entry,
    options: &RunOptions,
    loading: &Loading,
    processes: &Processes,
) -> Result<Ran, RunError> {
    let ran = load_and_run_rank(entry, options, loading, processes);
    processes.end_program();
    ran
}

fn load_and_run_rank(
    entry: &Entry,
    options: &RunOptions,
    loading: &Loading,
    processes: &Processes,
) -> Result<Ran, RunError> {
    let loading = loading.of_rank(processes.rank(), processes.ranks());
    let program = match processes
        .own(entry)
        .map_err(RunError::from)
        .and_then(|path| load(path, &loading, options))
    {
        Ok(program) => Arc::new(program),
        Err(error) => {
            processes.agree(false);
            return Err(error);
        }
    };
    let trace = match entry {
        Entry::Ranks { folder, .. } => folder.display().to_string(),
        Entry::Trace(path) | Entry::Skipped { path, .. } => path.display().to_string(),
    };
    let agree = |own| processes.agree(own);
    let hash = program_hash(&program);
    let report = millstream_runner::run_rank(program, options, processes.communicator(), agree)?;
    let (rank, count) = (Some(processes.rank()), processes.ranks());
    let (assignment, repeats, ranks) = (None, None, vec![report]);
    Ok(Ran { trace, ranks, rank, assignment, repeats, count, program: hash })
}

/// How long a run takes before it shows its progress.
const UNSHOWN: Duration = Duration::from_millis(500);

/// Adds a progress bar, which shows on a terminal once the run has taken some time.
fn with_progress(options: &RunOptions, programs: &[Arc<Program>]) -> (RunOptions, ProgressBar) {
    let steps: u64 = programs.iter().map(|p| steps(p, options)).sum();
    let total = steps * u64::from(options.repeat);
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    let (moving, shown) = (bar.clone(), bar.downgrade());
    // On a thread of its own: all calls of a program may wait for one, whose kernel is compiled.
    let show = move || {
        thread::park_timeout(UNSHOWN);
        if let Some(bar) = shown.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(UNSHOWN);
        }
    };
    if Console::Err.is_terminal() {
        // Without the thread there is no bar.
        drop(thread::Builder::new().name("ms-progress".to_owned()).spawn(show));
    }
    let progress = move || moving.inc(1);
    (options.clone().progress(Progress::new(progress)), bar)
}

/// Returns the number of times that a run of the program calls its progress function: once for
/// each statement, or once in all if it is launched as an executable.
fn steps(program: &Program, options: &RunOptions) -> u64 {
    match &program.body {
        Body::Statements(block) if !options.replay => {
            Statement::each(&block.statements).count() as u64
        }
        Body::Statements(_) | Body::Instructions(_) => 1,
    }
}

/// Returns the list of a run as text, with the program's names of streams and tensors, and the
/// tensors of the outputs.
fn list_text(report: &RunReport) -> Option<String> {
    let list = report.list.as_ref()?;
    let mut text = print_list(list);
    let streams = report.names.streams.iter().map(|(id, name)| ("stream", id.to_string(), name));
    let tensors = report.names.tensors.iter().map(|(id, name)| ("tensor", id.to_string(), name));
    for (what, id, name) in streams.chain(tensors) {
        text += &format!("# {what} {id} is {}\n", serde_json::Value::from(name.as_str()));
    }
    for output in &report.outputs {
        if let Some(tensor) = output.tensor {
            text += &output_line(&output.name, &tensor.to_string());
        }
    }
    Some(text)
}
