//! The chores of the repository. `xtask` builds this program and forwards to it.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `binary` | builds the binary `millstream` |
//! | `ci` | every check of the project |
//! | `count` | counts instructions of calls and lines, which may not grow |
//! | `docs` | writes the pages that are generated from the code |
//! | `layering`, `layers`, `folders` | checks which crate and which folder depends on which |
//! | `source` | Rust sources as text |
//! | `traps` | reintroduces known mistakes and requires that tests find them |

#![deny(missing_docs)]

mod binary;
mod ci;
mod count;
mod docs;
mod folders;
mod layering;
mod layers;
mod slow_tests;
mod source;
mod traps;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The rule for the names that are not here.
const FORWARDED: &str = "The commands of `millstream`, such as `verify`, are forwarded to it; \
    `run-trace` is its `run`. After `--release`, which comes first, programs are built optimised, \
    as they always are for `bench` and `gpu-check`.";

/// The chores of Millstream's repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version, after_help = FORWARDED)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks that crates and folders depend on one another as the tables of layers say.
    Layering,
    /// Counts instructions of calls, matches over all kinds, and lines: none may grow.
    Count(count::Arguments),
    /// Runs the quick checks of the project, or all.
    Ci(ci::Arguments),
    /// Reintroduces known mistakes, one at a time, and requires that a test finds each.
    Traps(traps::Arguments),
    /// Writes docs/instructions.md and docs/ops.md from the code.
    Docs(docs::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Layering => layering::run(),
        Command::Count(arguments) => count::run(&arguments),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Traps(arguments) => traps::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
