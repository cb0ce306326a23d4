//! Millstream's command line: `cargo xtask COMMAND`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `run_trace` | runs traces and checks what they give |
//! | `simulate` | runs programs under many schedules |
//! | `verify` | proves lists and traces, or shows what is wrong with them |
//! | `coverage` | says which nodes of execution traces can be executed |
//! | `schema` | prints the JSON Schema of traces |
//! | `docs` | writes the pages that are made from the code |
//! | `bench` | measures the machine |
//! | `layering`, `layers` | checks which crate depends on which |
//! | `ci` | every check of the project |
//! | `traps` | puts known mistakes back in and sees tests find them |
//! | `show` | tables, snippets of errors, reports |

#![deny(missing_docs)]

mod bench;
mod ci;
mod coverage;
mod docs;
mod gpu_check;
mod layering;
mod layers;
mod run_trace;
mod schema;
mod show;
mod simulate;
mod traps;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Millstream: runs traces and looks after the repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs traces and compares what they give with what they expect.
    RunTrace(run_trace::Arguments),
    /// Runs programs under many schedules, each chosen by a seed, and compares what they give.
    Simulate(simulate::Arguments),
    /// Proves of lists and traces that nothing races and no wait is for ever, or shows where not.
    Verify(verify::Arguments),
    /// Says which nodes of execution traces can be executed, and why others cannot.
    Coverage(coverage::Arguments),
    /// Checks everything that needs a real GPU, and writes a report.
    GpuCheck(gpu_check::Arguments),
    /// Tells how to record a PyTorch program with all that a run here needs.
    RecordHelp,
    /// Prints the JSON Schema of traces.
    Schema,
    /// Checks that the crates depend on one another as the table of layers says.
    Layering,
    /// Runs the quick checks of the project, or all.
    Ci(ci::Arguments),
    /// Puts known mistakes back in, one at a time, and sees a test find each.
    Traps(traps::Arguments),
    /// Measures the machine.
    #[command(subcommand)]
    Bench(Bench),
    /// Writes docs/instructions.md and docs/ops.md from the code.
    Docs(docs::Arguments),
}

#[derive(Subcommand)]
enum Bench {
    /// What the machine costs per instruction.
    Engine(bench::EngineArgs),
    /// What memory and events cost, beside allocators of the host's.
    Memory(bench::MemoryArgs),
    /// What proving a list costs.
    Verify(bench::VerifyArgs),
}

/// Bad input, or a device that is not there. Clap ends with the same status.
const BAD_INPUT: u8 = 2;

/// Prints docs/record.md.
fn record_help() -> anyhow::Result<()> {
    match io::stdout().lock().write_all(include_bytes!("../../docs/record.md")) {
        // A reader that has gone away has seen what it wanted.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::RunTrace(arguments) => return run_trace::run(&arguments),
        Command::Simulate(arguments) => return simulate::run(&arguments),
        Command::Verify(arguments) => return verify::run(&arguments),
        Command::Coverage(arguments) => return coverage::run(&arguments),
        Command::GpuCheck(arguments) => return gpu_check::run(&arguments),
        Command::RecordHelp => record_help(),
        Command::Schema => schema::run(),
        Command::Layering => layering::run(),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Traps(arguments) => traps::run(&arguments),
        Command::Bench(Bench::Engine(arguments)) => bench::engine(&arguments),
        Command::Bench(Bench::Memory(arguments)) => bench::memory(&arguments),
        Command::Bench(Bench::Verify(arguments)) => bench::verify_lists(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
