//! `run`: runs traces and compares their outputs with the expected ones.
//!
//! Exit status 0: all ran and matched. 1: an output differs, or a run failed. 2: bad input, an
//! absent device or library, or a file that could not be written. The status of several traces, and
//! of several processes, is the worst of theirs.

mod arguments;
mod beside;
mod one;
mod processes;

use std::path::{Path, PathBuf};

use millstream_comm::CommError;
use millstream_files::{Console, Outputs, eprintln};
use millstream_profile::{Profile, Runs, add_ranges, measured, merged, name_places};
use millstream_runner::RunReport;
use millstream_trace::{Entry, TraceError, expand, input_files};

#[cfg(feature = "explore")]
pub(crate) use arguments::size;
pub(crate) use arguments::{Arguments, Sync, number};
pub(crate) use one::Ran;
use processes::Processes;

use crate::BAD_INPUT;
use crate::profile::rename;
use crate::show::tables::Detail;
use crate::show::{memory, report, snippet, tables, values};

/// The result of a trace, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Matched,
    Differs,
    BadInput,
}

/// Runs all traces that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    let fails = |error: &TraceError| {
        snippet::print(error);
        Status::BadInput
    };
    let processes = match Processes::connect() {
        Ok(processes) => processes,
        Err(error) => {
            fails(&TraceError::of_file("run", error.to_string()));
            return BAD_INPUT;
        }
    };
    if let Some((processes, longest)) = processes.as_ref().zip(arguments.watchdog) {
        processes.limit_pause(longest);
    }
    let status = all(arguments, processes.as_ref()).unwrap_or_else(|error| fails(&error));
    let status = match status {
        Status::Matched => 0,
        Status::Differs => 1,
        Status::BadInput => BAD_INPUT,
    };
    let Some(processes) = processes else { return status };
    let worst = processes.greatest(status).unwrap_or_else(|error: CommError| {
        fails(&TraceError::of_file("run", error.to_string()));
        status.max(1)
    });
    processes.finish();
    worst
}

fn all(arguments: &Arguments, processes: Option<&Processes>) -> Result<Status, TraceError> {
    // Of several processes the first alone prints, and writes files other than lists.
    let is_first = processes.is_none_or(|processes| processes.rank() == 0);
    let problem = |message: String| TraceError::of_file("run", message);
    let options = arguments.options().map_err(problem)?;
    options.probe().map_err(|e| problem(format!("--device {}: {e}", arguments.device)))?;
    let loading = arguments.loading();
    let mut programs = Vec::new();
    for entry in expand(&arguments.paths)? {
        match entry {
            Entry::Skipped { path, reason } => {
                eprintln!("skipping {}: {reason}", path.display());
            }
            program => programs.push(match arguments.ranks.filter(|_| processes.is_none()) {
                Some(count) => program.on_ranks(count)?,
                None => program,
            }),
        }
    }
    if let (Some(count), Some(processes)) = (arguments.ranks, processes)
        && processes.ranks() != count as usize
    {
        let started = processes.ranks();
        let message =
            format!("--ranks is {count}, and the launcher has started {started} processes");
        return Err(problem(message));
    }
    if programs.is_empty() {
        return Err(no_trace(&arguments.paths, "no trace and no list to run"));
    }
    let count = |entry: &Entry| if processes.is_some() { 1 } else { entry.paths().len() };
    let lists: usize = programs.iter().map(count).sum();
    let ranks = processes.map_or(lists, Processes::ranks);
    if let Some(path) = &arguments.emit {
        if programs.len() > 1 {
            let count = programs.len();
            let message = format!("--emit writes the lists of one program, and {count} are given");
            return Err(problem(message));
        }
        if ranks > 1 && path == Path::new("-") {
            let message = format!("--emit -: the program has {ranks} ranks, and a list for each");
            return Err(problem(format!("{message}; name a folder")));
        }
    }
    if arguments.outputs.any() && programs.len() > 1 {
        let count = programs.len();
        return Err(problem(format!("a profile is that of one program, and {count} are given")));
    }
    if arguments.emit_assign.is_some() && lists > 1 {
        let message = "--emit-assign writes the streams of one program";
        return Err(problem(format!("{message}, and {lists} are given")));
    }
    if arguments.save_outputs.is_some() && programs.len() > 1 {
        let message = "--save-outputs writes the outputs of one program";
        return Err(problem(format!("{message}, and {} are given", programs.len())));
    }
    let outputs = arguments.files(ranks).map_err(|e| problem(e.into()))?;
    let read = arguments.paths.iter().map(AsRef::as_ref).chain(loading.files());
    outputs.refuse(read.flat_map(input_files)).map_err(|e| problem(e.into()))?;
    if is_first {
        outputs.prepare().map_err(|e| problem(e.into()))?;
    }
    let mut all = Vec::new();
    let mut worst = Status::Matched;
    for program in &programs {
        let emits = arguments.emit_assign.is_some();
        let ran = match processes {
            Some(processes) => one::run_rank(program, &options, &loading, processes),
            None => one::run(program, &options, &loading, &outputs, emits),
        };
        let status = match ran {
            Ok(mut ran) => {
                let detail = match (programs.len(), arguments.verbose) {
                    (1, true) => Detail::Tables,
                    (1, false) => Detail::Values,
                    _ => Detail::Differences,
                };
                match is_first {
                    true => finish(&mut ran, arguments, &outputs, detail),
                    false => finish_quietly(&ran, &outputs),
                }
                let status = if ran.ok() { Status::Matched } else { Status::Differs };
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
    if programs.len() > 1 && is_first {
        if arguments.verbose {
            outputs.show(|out, terminal| tables::print_summary(&all, out, terminal));
        }
        let failed = programs.len() - all.iter().filter(|ran| ran.ok()).count();
        if failed > 0 {
            eprintln!("{failed} of {} programs failed or gave other results", programs.len());
        }
    }
    if is_first {
        outputs.write("--report", || {
            let lines = all.iter().map(|ran| report::line(ran, arguments.report_elements));
            lines.collect::<anyhow::Result<String>>().map_err(|e| e.to_string())
        });
    }
    outputs.finish().map_err(|e| problem(e.into()))?;
    Ok(worst)
}

/// Returns the error about paths that hold nothing of this kind.
pub(crate) fn no_trace(paths: &[PathBuf], kind: &str) -> TraceError {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let help = "a trace is a .json or .json.gz file; examples/ has some";
    TraceError::of_file(paths.join(", "), format!("it holds {kind}")).help(help)
}

/// Returns the profile of a run, of all its ranks together.
fn profile_of(ran: &Ran) -> Option<Profile> {
    let mut ranks = Vec::new();
    for rank in &ran.ranks {
        let times = rank.times.as_ref()?;
        let mut profile = measured(&ran.trace, times);
        rename(&mut profile, &times.list, &rank.names);
        add_ranges(&mut profile, ran.ranges());
        if let Some(imported) = &rank.imported {
            name_places(&mut profile, |node| imported.places.get(&node).map(|place| &**place));
        }
        profile.runs = runs(rank);
        ranks.push((times.began, profile));
    }
    match ranks.len() {
        0 => None,
        1 => ranks.pop().map(|(_, profile)| profile),
        _ => Some(merged(&ran.trace, ranks)),
    }
}

/// Returns the times of all repeats; of a single one the profile has them.
fn runs(report: &RunReport) -> Runs {
    let mut runs = Runs::default();
    for run in report.recorded.iter().filter(|_| report.recorded.len() > 1) {
        let before = runs.totals.len();
        runs.totals.push(run.program);
        for (name, time) in &run.ops {
            let times = runs.ops.entry(name.clone()).or_default();
            times.resize(before, 0);
            times.push(*time);
        }
    }
    let count = runs.totals.len();
    runs.ops.values_mut().for_each(|times| times.resize(count, 0));
    runs
}

/// Shows what has failed on a rank that prints nothing else, and writes its list.
fn finish_quietly(ran: &Ran, outputs: &Outputs) {
    ran.ranks.iter().flat_map(|rank| &rank.failures).for_each(snippet::print);
    write_lists(ran, outputs);
    if !ran.ok() {
        // Standard error is the last channel: a failure to write to it cannot be reported.
        let terminal = Console::Err.is_terminal();
        drop(tables::print(ran, Detail::Differences, &mut Console::Err, terminal));
    }
}

/// Writes the list of a program to a file, or those of its ranks to a folder.
fn write_lists(ran: &Ran, outputs: &Outputs) {
    for k in 0..ran.ranks.len() {
        let Some(text) = ran.list_text(k) else { continue };
        match ran.count {
            1 => outputs.write("--emit", || Ok(text)),
            _ => outputs.write_in("--emit", &list_name(ran.rank.unwrap_or(k)), text),
        }
    }
}

/// Returns the name of the file with a rank's list.
fn list_name(rank: usize) -> String {
    format!("rank{rank}.txt")
}

/// Shows the results of a program, and writes its list and its outputs.
fn finish(ran: &mut Ran, arguments: &Arguments, outputs: &Outputs, detail: Detail) {
    ran.ranks.iter().flat_map(|rank| &rank.failures).for_each(snippet::print);
    outputs.show(|out, terminal| tables::print(ran, detail, out, terminal));
    if arguments.memory {
        outputs.show(|out, terminal| memory::print(ran, out, terminal));
    }
    if arguments.certificate {
        for (k, rank) in ran.ranks.iter().enumerate() {
            let name = ran.name(k, &ran.trace);
            let hash = rank.certificate().unwrap_or_default();
            outputs.show(|out, _| writeln!(out, "certificate {hash} {name}"));
        }
    }
    if let Some(mut profile) = profile_of(ran) {
        if let ([rank], Ok(options)) = (&ran.ranks[..], arguments.options())
            && arguments.outputs.has_page()
        {
            profile.recorded = beside::recorded(Path::new(&rank.trace));
            profile.peak =
                beside::rates(&options.machine).ok().filter(|_| arguments.device == "cpu");
        }
        ran.repeats = arguments.report.is_some().then(|| report::repeats(&profile));
        arguments.outputs.write(&profile, outputs);
        if arguments.outputs.has_summary() {
            let forms = &arguments.outputs;
            outputs.show(|out, terminal| forms.print_summary(&profile, out, terminal));
        }
    }
    write_lists(ran, outputs);
    if let Some(text) = &ran.assignment {
        outputs.write("--emit-assign", || Ok(text));
    }
    outputs.write("--save-outputs", || values::safetensors(ran));
}
