//! `run`: runs traces and compares their outputs with the expected ones.
//!
//! Exit status 0: all ran and matched. 1: an output differs, or a run failed. 2: bad input, or an
//! absent device. The status of several traces is the worst of theirs.

mod arguments;
mod one;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use millstream_profile::{add_ranges, measured};
use millstream_trace::{Entry, TraceError, expand};

pub(crate) use arguments::{Arguments, number, size};
pub(crate) use one::Ran;

use crate::BAD_INPUT;
use crate::show::{memory, report, snippet, tables};
use millstream_terminal::file::write;

/// The result of a trace, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Matched,
    Differs,
    BadInput,
}

/// Runs all traces that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let status = match all(arguments) {
        Ok(status) => status,
        Err(error) => {
            snippet::print(&error);
            Status::BadInput
        }
    };
    ExitCode::from(match status {
        Status::Matched => 0,
        Status::Differs => 1,
        Status::BadInput => BAD_INPUT,
    })
}

fn all(arguments: &Arguments) -> Result<Status, TraceError> {
    let problem = |message: String| TraceError::of_file("run", message);
    let options = arguments.options().map_err(problem)?;
    options.probe().map_err(|e| problem(format!("--device {}: {e}", arguments.device)))?;
    let outputs = [&arguments.emit, &arguments.report];
    if outputs.iter().all(|path| path.as_deref() == Some(Path::new("-"))) {
        return Err(problem(
            "--emit - and --report - cannot both write to standard output".to_owned(),
        ));
    }
    let mut programs = Vec::new();
    for entry in expand(&arguments.paths)? {
        match entry {
            Entry::Skipped { path, reason } => {
                eprintln!("skipping {}: {reason}", path.display());
            }
            program => programs.push(program),
        }
    }
    if programs.is_empty() {
        return Err(problem("there is no trace to run".to_owned()));
    }
    let lists: usize = programs.iter().map(count).sum();
    if arguments.emit.is_some() && lists > 1 {
        let message = format!("--emit writes one list, and {lists} programs are given");
        return Err(problem(message));
    }
    if arguments.outputs.any() && lists > 1 {
        let message = format!("a profile is that of one program, and {lists} are given");
        return Err(problem(message));
    }
    let loading = arguments.loading();
    let mut all = Vec::new();
    let mut worst = Status::Matched;
    for program in &programs {
        let status = match one::run(program, &options, &loading) {
            Ok(ran) => {
                let status = finish(&ran, arguments, programs.len() == 1);
                all.push(ran);
                status
            }
            Err(error) => {
                error.errors.iter().for_each(snippet::print);
                if error.runtime { Status::Differs } else { Status::BadInput }
            }
        };
        worst = worst.max(status);
    }
    if programs.len() > 1 {
        show(arguments, |out, terminal| tables::print_summary(&all, out, terminal));
        let failed = programs.len() - all.iter().filter(|ran| ran.ok()).count();
        if failed > 0 {
            eprintln!("{failed} of {} programs failed or gave other results", programs.len());
        }
    }
    if let Some(path) = &arguments.report {
        let lines: anyhow::Result<String> = all.iter().map(report::line).collect();
        let lines = lines.map_err(|e| problem(format!("cannot write the report: {e}")))?;
        write(path, &lines).map_err(problem)?;
    }
    Ok(worst)
}

fn count(entry: &Entry) -> usize {
    match entry {
        Entry::Ranks { ranks, .. } => ranks.len(),
        _ => 1,
    }
}

/// Shows the results of a program, and writes its list.
fn finish(ran: &Ran, arguments: &Arguments, alone: bool) -> Status {
    for failure in ran.ranks.iter().flat_map(|rank| &rank.failures) {
        snippet::print(failure);
    }
    if alone || !ran.ok() {
        show(arguments, |out, terminal| tables::print(ran, out, terminal));
    }
    if arguments.memory {
        show(arguments, |out, terminal| memory::print(ran, out, terminal));
    }
    if arguments.certificate {
        for (k, rank) in ran.ranks.iter().enumerate() {
            let name = ran.name(k, &ran.trace);
            let hash = rank.certificate().unwrap_or_default();
            show(arguments, |out, _| writeln!(out, "certificate {hash} {name}"));
        }
    }
    if let Some(times) = ran.ranks.first().and_then(|rank| rank.times.as_ref()) {
        let mut profile = measured(&ran.trace, times);
        let imported = ran.ranges();
        add_ranges(&mut profile, times, imported);
        if let Err(message) = arguments.outputs.write(&profile) {
            snippet::print(&TraceError::of_file("run", message));
            return Status::BadInput;
        }
        if arguments.outputs.has_summary() {
            let outputs = &arguments.outputs;
            show(arguments, |out, terminal| outputs.print_summary(&profile, out, terminal));
        }
    }
    if let (Some(path), Some(rank)) = (&arguments.emit, ran.ranks.first())
        && let Some(text) = one::list_text(rank)
        && let Err(message) = write(path, &text)
    {
        snippet::print(&TraceError::of_file("run", message));
        return Status::BadInput;
    }
    if ran.ok() { Status::Matched } else { Status::Differs }
}

/// Prints to standard output, or to standard error if standard output is reserved for data.
fn show(arguments: &Arguments, print: impl FnOnce(&mut dyn Write, bool) -> io::Result<()>) {
    let given = [&arguments.emit, &arguments.report];
    let piped = given.iter().any(|path| path.as_deref() == Some(Path::new("-")))
        || arguments.outputs.uses_stdout();
    let shown = match piped {
        true => print(&mut io::stderr().lock(), io::stderr().is_terminal()),
        false => print(&mut io::stdout().lock(), io::stdout().is_terminal()),
    };
    // A closed pipe is no error.
    drop(shown);
}
