//! `simulate`: runs programs under many schedules, each chosen by a seed.
//!
//! Exit status 0: every seed gave the inline driver's results. 1: some seed did not, or the program
//! does not give the results that its trace expects. 2: bad input.

mod arguments;
mod planted;
mod ranks;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use millstream_explore::predict::{Model, predict as prediction};
use millstream_explore::simulate::{
    Finding, Simulator, Sweep, Trial, random_options, random_program, shrink, sweep,
};
use millstream_files::{Console, OutputError, Outputs, eprintln};
use millstream_instructions::InstructionList;
use millstream_runner::{Loading, Names, RunError, RunOptions, load};
use millstream_trace::{Entry, Program, TraceError, expand, input_files, write};
use millstream_vm::Cancellation;
use serde_json::json;

pub(crate) use arguments::Arguments;

use crate::profile::rename;
use crate::show::snippet;
use crate::{BAD_INPUT, FAILURE, SUCCESS};

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    match all(arguments) {
        Ok(true) => SUCCESS,
        Ok(false) => FAILURE,
        Err(error) => {
            error.errors.iter().for_each(snippet::print);
            if error.runtime { FAILURE } else { BAD_INPUT }
        }
    }
}

fn wrong(error: OutputError) -> RunError {
    problem(error)
}

fn problem(message: impl Into<String>) -> RunError {
    TraceError::of_file("simulate", message.into()).into()
}

fn all(arguments: &Arguments) -> Result<bool, RunError> {
    let options = arguments.options().map_err(problem)?;
    let outputs = outputs(arguments)?;
    let is_right = match &arguments.path {
        Some(path) => programs(arguments, path, &options, &outputs)?,
        None => random(arguments, &random_options(&options), &outputs)?,
    };
    outputs.finish().map_err(wrong)?;
    Ok(is_right)
}

/// Returns the files that the arguments name for data.
fn outputs(arguments: &Arguments) -> Result<Outputs, RunError> {
    let own = [
        ("--log", arguments.log.as_deref()),
        ("--save", arguments.save.as_deref()),
        ("--report", arguments.report.as_deref()),
    ];
    let outputs = Outputs::new(own.into_iter().chain(arguments.outputs.files()));
    let outputs = outputs.map_err(wrong)?;
    let read = [&arguments.path, &arguments.model, &arguments.inputs];
    let read = read.into_iter().flatten().chain(arguments.assign.files());
    outputs.refuse(read.flat_map(input_files)).map_err(wrong)?;
    outputs.prepare().map_err(wrong)?;
    Ok(outputs)
}

/// Runs all programs that a path stands for under many seeds.
fn programs(
    arguments: &Arguments,
    path: &Path,
    options: &RunOptions,
    outputs: &Outputs,
) -> Result<bool, RunError> {
    let mut entries = Vec::new();
    for entry in expand([path])? {
        match (entry, arguments.ranks) {
            (Entry::Skipped { path, reason }, _) => {
                eprintln!("skipping {}: {reason}", path.display());
            }
            (entry, Some(count)) => entries.push(entry.on_ranks(count)?),
            (entry, None) => entries.push(entry),
        }
    }
    let at = path.display();
    match (entries.len(), arguments.of_one_program()) {
        (0, _) => return Err(problem(format!("{at} holds no trace to simulate"))),
        (2.., Some(option)) => {
            let count = entries.len();
            let message = format!("{option} is for one program, and {at} holds {count}");
            return Err(problem(message));
        }
        _ => {}
    }
    let mut is_right = true;
    for entry in &entries {
        is_right &= match entry {
            Entry::Ranks { folder, ranks } => {
                ranks::run(arguments, folder, ranks, options, outputs)?
            }
            Entry::Trace(path) | Entry::Skipped { path, .. } => {
                trace(arguments, path, options, outputs)?
            }
        };
    }
    Ok(is_right)
}

/// Runs one program under many seeds.
fn trace(
    arguments: &Arguments,
    path: &Path,
    options: &RunOptions,
    outputs: &Outputs,
) -> Result<bool, RunError> {
    let assign = arguments.assign.files().cloned().collect();
    let loading = Loading { inputs: arguments.inputs.clone(), assign, ..Loading::default() };
    let program = Arc::new(load(path, &loading, options)?);
    outputs.refuse(program.files()).map_err(wrong)?;
    let simulator = Simulator::new(program, options, arguments.without.is_none())?;
    let inline = simulator.inline();
    inline.failures.iter().for_each(snippet::print);
    let wrong = inline.outputs.iter().filter(|o| !o.ok()).map(|o| o.name.as_str());
    let wrong: Vec<&str> = wrong.collect();
    if !wrong.is_empty() {
        eprintln!(
            "differs from the trace's expected values under every driver: {}",
            wrong.join(", ")
        );
    }
    if let Some(path) = &arguments.model {
        let list = inline.list.as_ref().ok_or_else(|| problem("the program has no list"))?;
        predict(arguments, path, (list, &inline.names), outputs)?;
    }
    if !arguments.runs_seeds() {
        return Ok(inline.ok());
    }
    let (tried, seconds) = seeds(arguments, |seed| {
        let trial = arguments.trial(&simulator, seed)?;
        write_log(outputs, &trial);
        Ok(trial)
    })?;
    let name = path.display().to_string();
    report(arguments, &name, &tried, seconds, outputs);
    if let Some((seed, finding)) = tried.found {
        shrink_and_report(
            arguments,
            simulator.program().clone(),
            options,
            (seed, finding),
            outputs,
        )?;
        return Ok(false);
    }
    Ok(inline.ok())
}

/// Runs a random program for each seed.
fn random(
    arguments: &Arguments,
    options: &RunOptions,
    outputs: &Outputs,
) -> Result<bool, RunError> {
    let (tried, seconds) = seeds(arguments, |seed| {
        let simulator = Simulator::random(seed, options, arguments.without.is_none())?;
        let trial = arguments.trial(&simulator, seed)?;
        write_log(outputs, &trial);
        Ok(trial)
    })?;
    report(arguments, "random programs", &tried, seconds, outputs);
    if let Some((seed, finding)) = tried.found {
        shrink_and_report(arguments, random_program(seed)?, options, (seed, finding), outputs)?;
        return Ok(false);
    }
    Ok(true)
}

fn seeds(
    arguments: &Arguments,
    trial: impl Fn(u64) -> Result<Trial, RunError> + Sync,
) -> Result<(Sweep, f64), RunError> {
    let range = arguments.range();
    let bar = match Console::Err.is_terminal() {
        true => ProgressBar::new(range.end - range.start),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed}, {eta} left")
    {
        bar.set_style(style);
    }
    let start = Instant::now();
    let cancellation = crate::cancellation();
    let trial = |seed| match cancellation.as_ref().is_some_and(Cancellation::is_cancelled) {
        true => Err(problem("cancelled")),
        false => trial(seed),
    };
    let tried = sweep(range, arguments.threads(), trial, || bar.inc(1));
    bar.finish_and_clear();
    Ok((tried?, start.elapsed().as_secs_f64()))
}

/// Returns a name in the current folder that no file has.
fn unused() -> PathBuf {
    let numbered = (2..).map(|n| PathBuf::from(format!("failing-{n}.json")));
    let mut names = std::iter::once(PathBuf::from("failing.json")).chain(numbered);
    names.find(|name| !name.exists()).unwrap_or_default()
}

fn write_log(outputs: &Outputs, trial: &Trial) {
    if let Some(log) = trial.schedule.as_ref().and_then(|s| s.log.as_ref()) {
        outputs.write("--log", || Ok(log));
    }
}

/// Prints the summary of all seeds.
fn report(arguments: &Arguments, name: &str, tried: &Sweep, seconds: f64, outputs: &Outputs) {
    let Sweep { seeds, steps, hash, found } = tried;
    outputs.write("--report", || {
        let found = found.as_ref();
        let found = found.map(|(seed, why)| json!({ "seed": seed, "why": why.to_string() }));
        let result =
            json!({ "name": name, "seeds": seeds, "steps": steps, "hash": hash, "found": found });
        Ok(format!("{result}\n"))
    });
    let seeds = match arguments.seed {
        Some(seed) => format!("seed {seed}"),
        None => format!("{seeds} seeds"),
    };
    let time = if Console::Err.is_terminal() { format!(", {seconds:.1} s") } else { String::new() };
    let mut text = format!("{name}: {seeds}, {steps} steps{time}\nlog hash {hash}\n");
    if found.is_none() {
        text.push_str(match arguments.faults {
            true => "faults reached only the data that depends on them; all else is the inline driver's\n",
            false => "all results are the inline driver's; the checker accepts every list\n",
        });
    }
    outputs.show(|out, _| out.write_all(text.as_bytes()));
}

/// Reads a cost model from a file.
pub(crate) fn read_model(path: &Path) -> Result<Model, String> {
    let at = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {at}: {e}"))?;
    Model::parse(&text).map_err(|e| format!("{at}: {e}"))
}

/// Predicts the time of a list, and prints it.
fn predict(
    arguments: &Arguments,
    path: &Path,
    (list, names): (&InstructionList, &Names),
    outputs: &Outputs,
) -> Result<(), RunError> {
    let model = read_model(path).map_err(problem)?;
    let title = arguments.path.as_ref().map_or_else(String::new, |p| p.display().to_string());
    let mut profile = prediction(&title, list, &model).map_err(problem)?;
    rename(&mut profile, list, names);
    outputs.show(|out, terminal| {
        writeln!(out, "for {}:", model.name)?;
        arguments.outputs.print_summary(&profile, out, terminal)
    });
    arguments.outputs.write(&profile, outputs);
    Ok(())
}

/// Shrinks a failing program, writes it to a file and prints the command that repeats the failure.
fn shrink_and_report(
    arguments: &Arguments,
    program: Arc<Program>,
    options: &RunOptions,
    (seed, finding): (u64, Finding),
    outputs: &Outputs,
) -> Result<(), RunError> {
    eprintln!("seed {seed}: {finding}");
    if arguments.faults {
        // A fault is named by its position, and a smaller program has other positions.
        return Ok(());
    }
    let small = shrink(program, options, arguments.without.is_none(), seed, finding);
    let text = write(&small.program)?;
    let save = arguments.save.clone().unwrap_or_else(unused);
    match arguments.save {
        Some(_) => outputs.write("--save", || Ok(text)),
        None => {
            let chosen = Outputs::new([("--save", Some(&*save))]).map_err(wrong)?;
            chosen.write("--save", || Ok(text));
            chosen.finish().map_err(wrong)?;
        }
    }
    eprintln!(
        "after {} smaller programs, a locally minimal one fails: {}",
        small.tried, small.finding
    );
    let mut command = format!("millstream simulate {}", save.display());
    if !arguments.random {
        command += &format!(" --device {}", arguments.device);
    }
    if arguments.compute_streams != 1 {
        command += &format!(" --compute-streams {}", arguments.compute_streams);
    }
    command += &arguments.assign.arguments();
    command += &options.memory_limit.map_or_else(String::new, |m| format!(" --memory-limit {m}"));
    command += &arguments.without.map_or_else(String::new, |w| format!(" --without {}", w.name()));
    eprintln!("{command} --seed {}", small.seed);
    Ok(())
}
