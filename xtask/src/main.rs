//! The chores of the repository: `cargo xtask COMMAND`.
//!
//! The commands of the product belong to the binary `millstream` (crates/cli). Their names here
//! build that binary and forward to it.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `ci` | every check of the project |
//! | `count` | counts instructions of calls and lines, which may not grow |
//! | `docs` | writes the pages that are generated from the code |
//! | `forward` | builds and runs the binary `millstream` |
//! | `layering`, `layers`, `folders` | checks which crate and which folder depends on which |
//! | `source` | Rust sources as text |
//! | `traps` | reintroduces known mistakes and requires that tests find them |

#![deny(missing_docs)]

mod ci;
mod count;
mod docs;
mod folders;
mod forward;
mod layering;
mod layers;
mod source;
mod traps;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of Millstream's repository, and the commands of the binary `millstream`.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version)]
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
    /// `run-trace`, `simulate`, `what-if`, `verify`, `coverage`, `schema`, `record-help`, `bench`
    /// and `gpu-check`: forwarded to `millstream`, where `run-trace` is called `run`.
    #[command(external_subcommand)]
    Product(Vec<OsString>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Layering => layering::run(),
        Command::Count(arguments) => count::run(&arguments),
        Command::Ci(arguments) => ci::run(&arguments),
        Command::Traps(arguments) => traps::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Product(arguments) => return forward::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
