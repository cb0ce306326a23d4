//! The commands of the binary `millstream`: they run, prove, explore and describe programs. The
//! Python package runs the same commands, and holds their output and their errors in memory.
//!
//! # Contract
//! Exit status 0: success. 1: a program failed, or its results differ. 2: bad input, an absent
//! device, or a file that cannot be written. 3: `verify` could not decide. Results go to standard
//! output, errors to standard error; a closed pipe is no error.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `run` | runs traces and compares their outputs |
//! | `simulate` | runs programs under many schedules |
//! | `verify` | proves lists and traces, or shows a counterexample |
//! | `convert` | writes traces as native ones |
//! | `profile` | shows profiles, and compares two |
//! | `what_if` | predicts a recorded run with changes |
//! | `coverage` | counts the nodes of execution traces that can be executed |
//! | `manual` | completions for shells, pages for `man` |
//! | `schema` | prints the JSON Schema of traces |
//! | `show` | tables, snippets of errors, reports |
//!
//! `simulate` and `what_if` are behind the feature `explore`; `bench` and `gpu-check` are crates of
//! their own behind features of these names.

#![deny(missing_docs)]

mod assign;
mod convert;
mod coverage;
mod manual;
mod profile;
mod run;
mod schema;
mod show;
#[cfg(feature = "explore")]
mod simulate;
mod verify;
#[cfg(feature = "explore")]
mod what_if;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::{Parser, Subcommand};
use millstream_files::console::{self, Held, Problem};
use millstream_files::{Console, OutputError, write};
use millstream_terminal::table::is_coloured;
use millstream_vm::Cancellation;

/// A virtual machine for asynchronous devices: runs, proves and explores programs.
#[derive(Parser)]
#[command(name = "millstream", bin_name = "millstream", version = VERSION, after_help = FILES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The version with the commit, as far as the build could find it.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("MILLSTREAM_COMMIT"));

/// The rules for all outputs, which no option repeats.
const FILES: &str = "\
    Files: a command checks all files that it is to write before it runs. It makes missing \
    folders, refuses to overwrite a file that it reads, and replaces a file whole or not at all.";

#[derive(Subcommand)]
enum Command {
    /// Runs traces and compares their outputs with the expected ones.
    Run(run::Arguments),
    /// Runs programs in orders that seeds choose, and compares the results.
    #[cfg(feature = "explore")]
    Simulate(simulate::Arguments),
    /// Proves that lists and traces have no race and no deadlock, or prints a counterexample.
    Verify(verify::Arguments),
    /// Writes a trace, such as a recorded PyTorch program, as a native one, to be edited.
    Convert(convert::Arguments),
    /// Shows a profile that a run has written, and writes it in other forms.
    Profile(profile::Arguments),
    /// Compares two profiles, lists or traces: times, waits, instructions.
    Compare(profile::Compare),
    /// Predicts what a recorded run would take with other streams, times, or without a wait.
    #[cfg(feature = "explore")]
    WhatIf(what_if::Arguments),
    /// Counts the nodes of execution traces that can be executed, with the reasons of the others.
    Coverage(coverage::Arguments),
    /// Prints completions for a shell.
    Completions(manual::Completions),
    /// Writes manual pages.
    Man(manual::Man),
    /// Explains how to record a PyTorch program with everything that a run needs.
    #[command(after_help = "Example:\n  millstream record-help | less")]
    RecordHelp,
    /// Prints the JSON Schema of traces.
    #[command(after_help = "Example:\n  millstream schema > millstream.schema.json")]
    Schema,
    /// Measures the machine.
    #[cfg(feature = "bench")]
    #[command(subcommand)]
    Bench(millstream_bench::Command),
    /// Checks everything that needs a real GPU, and writes a report.
    #[cfg(feature = "gpu-check")]
    GpuCheck(millstream_gpu_check::Arguments),
}

/// The exit statuses of all commands. Clap uses that of bad input for wrong arguments.
const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;
const BAD_INPUT: u8 = 2;

thread_local! {
    /// The cancellation of the held command of this thread.
    static CANCELLATION: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

/// Runs the command that the arguments name, the first of which is the program's name, and returns
/// its exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    execute(arguments.command)
}

/// Runs a command as [`run`], and returns its status and its output. Cancelled, it makes no further
/// call and ends soon.
pub fn hold(
    arguments: impl IntoIterator<Item = OsString>,
    cancellation: &Cancellation,
) -> (u8, Held) {
    let outer = CANCELLATION.replace(Some(cancellation.clone()));
    let held = console::hold(|| run(arguments));
    CANCELLATION.set(outer);
    held
}

/// Returns the cancellation of this thread's command.
fn cancellation() -> Option<Cancellation> {
    CANCELLATION.with_borrow(Option::clone)
}

/// Prints Clap's error of the arguments, its help or the version.
fn refuse(error: &clap::Error) -> u8 {
    let mut console = if error.use_stderr() { Console::Err } else { Console::Out };
    let text = error.render();
    // A closed pipe is no error.
    drop(match is_coloured(console.is_terminal()) {
        true => write!(console, "{}", text.ansi()),
        false => write!(console, "{text}"),
    });
    if error.use_stderr() {
        let text = text.to_string();
        let message = text.trim_start_matches("error: ").trim_end().to_owned();
        console::keep(Problem { message, ..Problem::default() });
    }
    u8::try_from(error.exit_code()).unwrap_or(BAD_INPUT)
}

/// Prints docs/record.md.
fn record_help() -> anyhow::Result<()> {
    let text = include_bytes!("../../../docs/record.md");
    write(Path::new("-"), text).context("cannot write to standard output")
}

fn execute(command: Command) -> u8 {
    let result = match command {
        Command::Run(arguments) => return run::run(&arguments),
        #[cfg(feature = "explore")]
        Command::Simulate(arguments) => return simulate::run(&arguments),
        Command::Verify(arguments) => return verify::run(&arguments),
        Command::Convert(arguments) => return convert::run(&arguments),
        Command::Profile(arguments) => return profile::run(&arguments),
        Command::Compare(arguments) => return profile::run_compare(&arguments),
        #[cfg(feature = "explore")]
        Command::WhatIf(arguments) => return what_if::run(&arguments),
        Command::Coverage(arguments) => return coverage::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
        Command::RecordHelp => record_help(),
        Command::Schema => schema::run(),
        #[cfg(feature = "bench")]
        Command::Bench(command) => millstream_bench::run(&command),
        #[cfg(feature = "gpu-check")]
        Command::GpuCheck(arguments) => return millstream_gpu_check::run(&arguments),
    };
    match result {
        Ok(()) => SUCCESS,
        Err(error) => {
            show::snippet::print_message(&format!("{error:#}"));
            let is_output = error.downcast_ref::<OutputError>().is_some();
            if is_output { BAD_INPUT } else { FAILURE }
        }
    }
}
