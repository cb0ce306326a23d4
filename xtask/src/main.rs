//! Millstream's command line: `cargo xtask COMMAND`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `run_trace` | runs traces and checks what they give |
//! | `schema` | prints the JSON Schema of traces |
//! | `docs` | writes the pages that are made from the code |
//! | `bench` | measures the machine |
//! | `layering`, `layers` | checks which crate depends on which |
//! | `show` | tables, snippets of errors, reports |

#![deny(missing_docs)]

mod bench;
mod docs;
mod layering;
mod layers;
mod run_trace;
mod schema;
mod show;

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
    /// Prints the JSON Schema of traces.
    Schema,
    /// Checks that the crates depend on one another as the table of layers says.
    Layering,
    /// Measures the machine.
    #[command(subcommand)]
    Bench(Bench),
    /// Writes docs/instructions.md from the table of instructions.
    Docs(docs::Arguments),
}

#[derive(Subcommand)]
enum Bench {
    /// What the machine costs per instruction.
    Engine(bench::EngineArgs),
}

/// Bad input, or a device that is not there. Clap ends with the same status.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::RunTrace(arguments) => return run_trace::run(&arguments),
        Command::Schema => schema::run(),
        Command::Layering => layering::run(),
        Command::Bench(Bench::Engine(arguments)) => bench::engine(&arguments),
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
