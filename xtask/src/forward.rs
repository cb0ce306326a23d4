//! Forwards the product's commands to the binary `millstream`, which cargo builds first.
//!
//! A command is built with the features that it needs and no others, so the first
//! `cargo xtask run-trace` after a clone does not wait for the benchmarks and the GPU's checks.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// The name of a command here, its name in `millstream`, and the features that it needs.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("run-trace", "run", "cuda"),
    ("run", "run", "cuda"),
    ("simulate", "simulate", "cuda"),
    ("verify", "verify", "cuda"),
    ("convert", "convert", "cuda"),
    ("profile", "profile", "cuda"),
    ("compare", "compare", "cuda"),
    ("what-if", "what-if", "cuda"),
    ("coverage", "coverage", "cuda"),
    ("schema", "schema", "cuda"),
    ("record-help", "record-help", "cuda"),
    ("bench", "bench", "cuda,bench"),
    ("gpu-check", "gpu-check", "cuda,gpu-check"),
];

/// The exit status for a command that does not exist, as clap uses it.
const UNKNOWN_COMMAND: u8 = 2;

/// Runs the command that `arguments` begins with, and returns its exit status.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    let name = arguments.first().map_or(OsStr::new(""), OsString::as_os_str);
    let Some((_, command, features)) = COMMANDS.iter().find(|(known, ..)| name == *known) else {
        let known: Vec<&str> = COMMANDS.iter().map(|(known, ..)| *known).collect();
        eprintln!(
            "error: there is no command '{}'; forwarded to `millstream` are {}; the chores are \
             listed by `cargo xtask --help`",
            name.to_string_lossy(),
            known.join(", ")
        );
        return ExitCode::from(UNKNOWN_COMMAND);
    };
    let status = binary(features)
        .and_then(|binary| {
            let mut forwarded = Command::new(&binary);
            forwarded.arg(command).args(&arguments[1..]);
            forwarded.status().with_context(|| format!("cannot run {}", binary.display()))
        })
        .map(|status| status.code());
    match status {
        // A command that a signal ended has no exit status.
        Ok(code) => ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds `millstream` with these features and returns its path.
pub(crate) fn binary(features: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--release", "--quiet", "--package", "millstream-cli"])
        .args(["--no-default-features", "--features", features])
        .current_dir(root);
    let status = build.status().context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "millstream could not be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(root
        .join(target)
        .join("release")
        .join(format!("millstream{}", std::env::consts::EXE_SUFFIX)))
}
