//! The binary `millstream`: runs, proves, explores and describes programs.
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

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use millstream_files::{OutputError, write};

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

/// The exit status for bad input and absent devices. Clap uses it for wrong arguments.
const BAD_INPUT: u8 = 2;

/// Prints docs/record.md.
fn record_help() -> anyhow::Result<()> {
    let text = include_bytes!("../../../docs/record.md");
    write(Path::new("-"), text).context("cannot write to standard output")
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
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
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            show::snippet::print_message(&format!("{error:#}"));
            let is_output = error.downcast_ref::<OutputError>().is_some();
            if is_output { ExitCode::from(BAD_INPUT) } else { ExitCode::FAILURE }
        }
    }
}
