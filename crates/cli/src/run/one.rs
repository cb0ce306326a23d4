//! Runs one program: a trace, or the traces of several ranks.

use std::fmt::Write;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use millstream_instructions::text::print_list;
use millstream_runner::{Progress, RunError, RunOptions, RunReport, run_ranks};
use millstream_trace::{Action, Body, Entry, LoadOptions, Program, Statement, load};

/// The results of a program.
pub(crate) struct Ran {
    /// The file, or the folder of the ranks.
    pub(crate) trace: String,
    /// One report for each rank.
    pub(crate) ranks: Vec<RunReport>,
}

impl Ran {
    /// Returns whether every rank ran and matched.
    pub(crate) fn ok(&self) -> bool {
        self.ranks.iter().all(RunReport::ok)
    }

    /// Returns the labels of an imported program, with the nodes that they cover.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let imported = self.ranks.first().and_then(|rank| rank.imported.as_ref());
        let labels = imported.map_or(&[][..], |imported| &imported.labels);
        labels.iter().map(|label| (label.name.as_str(), label.first, label.last))
    }

    /// Returns the name of an output or stream, with its rank if there are several.
    pub(crate) fn name(&self, rank: usize, name: &str) -> String {
        match self.ranks.len() {
            1 => name.to_owned(),
            _ => format!("rank{rank}/{name}"),
        }
    }
}

/// Loads, checks and runs a program.
pub(crate) fn run(
    entry: &Entry,
    options: &RunOptions,
    loading: &LoadOptions,
) -> Result<Ran, RunError> {
    let (name, paths) = match entry {
        Entry::Ranks { folder, ranks } => (folder, ranks.as_slice()),
        Entry::Trace(path) | Entry::Skipped { path, .. } => (path, std::slice::from_ref(path)),
    };
    let programs = paths.iter().map(|path| Ok(Arc::new(load(path, loading)?)));
    let programs = programs.collect::<Result<Vec<_>, RunError>>()?;
    let (options, bar) = with_progress(options, &programs);
    let ranks = run_ranks(programs, &options);
    bar.finish_and_clear();
    Ok(Ran { trace: name.display().to_string(), ranks: ranks? })
}

/// Adds a progress bar if standard error is a terminal. The bar shows only for long runs.
fn with_progress(options: &RunOptions, programs: &[Arc<Program>]) -> (RunOptions, ProgressBar) {
    let steps: u64 = programs.iter().map(|p| steps(p)).sum();
    let bar = ProgressBar::new(steps * u64::from(options.repeat));
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed}, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    let moving = bar.clone();
    (options.clone().progress(Progress::new(move || moving.inc(1))), bar)
}

/// Returns the number of times that a run of the program calls its progress function.
fn steps(program: &Program) -> u64 {
    fn count(statements: &[Statement]) -> u64 {
        let one = |s: &Statement| match &s.action {
            Action::CriticalSection { body, .. } => 1 + count(body),
            _ => 1,
        };
        statements.iter().map(one).sum()
    }
    match &program.body {
        Body::Statements(block) => count(&block.statements),
        Body::Instructions(_) => program.outputs.len() as u64,
    }
}

/// Returns the list of a run as text, with the tensors of the outputs.
pub(super) fn list_text(report: &RunReport) -> Option<String> {
    let list = report.list.as_ref()?;
    let mut text = print_list(list);
    for output in &report.outputs {
        if let Some(tensor) = output.tensor {
            let _ = writeln!(text, "# output {:?} is {tensor}", output.name);
        }
    }
    Some(text)
}
