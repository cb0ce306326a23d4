//! `cargo xtask COMMAND`: builds the program that has the command, and runs it.
//!
//! The commands of the product belong to the binary `millstream` (crates/cli), all others to the
//! chores of the repository (`chores`). This program needs nothing but the standard library, and a
//! command is built with the features that it needs and no others, because the first
//! `cargo xtask run-trace` after a clone waits for all of it. For the same reason it is built
//! without optimisation, but for the commands that measure, or with
//! `cargo xtask --release COMMAND`.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `binary` | builds a program |
//! | `chores` | the program of the chores, a binary of its own |

#![deny(missing_docs)]

mod binary;

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

/// The name of a command here, its name in `millstream`, and the features that it needs.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("run-trace", "run", "cuda"),
    ("run", "run", "cuda"),
    ("simulate", "simulate", "cuda,explore"),
    ("verify", "verify", "cuda,nsys"),
    ("convert", "convert", "cuda"),
    ("profile", "profile", "cuda,nsys"),
    ("compare", "compare", "cuda,nsys"),
    ("what-if", "what-if", "cuda,nsys,explore"),
    ("coverage", "coverage", "cuda"),
    ("schema", "schema", "cuda"),
    ("record-help", "record-help", "cuda"),
    ("bench", "bench", "cuda,bench"),
    ("gpu-check", "gpu-check", "cuda,gpu-check"),
];

/// Commands whose figures are worth nothing without optimisation.
const MEASURING: &[&str] = &["bench", "gpu-check"];

/// What the chores take.
const CHORES: &[&str] =
    &["layering", "count", "ci", "traps", "docs", "help", "", "-h", "--help", "-V", "--version"];

/// The exit status for a command that does not exist, as clap uses it.
const UNKNOWN_COMMAND: u8 = 2;

/// Runs the command that the arguments begin with, and returns its exit status.
fn run(arguments: &[OsString]) -> Result<ExitCode, String> {
    let (release, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == "--release" => (true, rest),
        _ => (false, arguments),
    };
    let name = arguments.first().map_or(OsStr::new(""), OsString::as_os_str);
    let optimized = release || MEASURING.iter().any(|measuring| name == *measuring);
    let product = COMMANDS.iter().find(|(known, ..)| name == *known);
    let program = match product {
        Some((.., features)) => binary::millstream(features, optimized)?,
        None if CHORES.iter().any(|chore| name == *chore) => {
            binary::build("xtask", "chores", "chores", optimized)?
        }
        None => {
            let known: Vec<&str> = COMMANDS.iter().map(|(known, ..)| *known).collect();
            eprintln!(
                "error: there is no command '{}'; forwarded to `millstream` are {}; the chores are \
                 listed by `cargo xtask --help`",
                name.to_string_lossy(),
                known.join(", ")
            );
            return Ok(ExitCode::from(UNKNOWN_COMMAND));
        }
    };
    let mut forwarded = Command::new(&program);
    match product {
        Some((_, command, _)) => forwarded.arg(command).args(&arguments[1..]),
        None => forwarded.args(arguments),
    };
    let status =
        forwarded.status().map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    // A command that a signal ended has no exit status.
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
