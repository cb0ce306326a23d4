//! The command line as its users see it, but for [profiles](../profile/main.rs).

#[cfg(feature = "bench")]
mod bench;
mod cuda;
mod execution_traces;
mod files;
mod help;
mod lists_of_ranks;
mod messages;
mod mpi;
mod outputs;
mod pytorch;
mod ranks_page;
mod simulate;
mod verify;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the folder of the native traces among the examples.
fn examples() -> PathBuf {
    root().join("examples/traces")
}

/// Returns the command in a folder, so that messages contain no other path.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.args(arguments).current_dir(folder).env_remove("RUST_BACKTRACE").env("COLUMNS", "100");
    command
}

/// Runs the command in a folder.
fn millstream(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().expect("not killed by a signal")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns a message in one line, however it is wrapped.
fn message(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether the loader finds the stand-in for CUDA, as in tests of the whole workspace.
fn stand_in_is_found() -> bool {
    let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let stand_in = |folder: &str| {
        folder.contains("cuda-standin") && Path::new(folder).join("libcuda.so.1").exists()
    };
    let found = path.split(':').any(stand_in);
    if !found {
        println!("skipped: the stand-in is not in the search path; use cargo test --workspace");
    }
    found
}

/// The launchers of MPI, each with the arguments that let it start more processes than there are
/// cores, as any user. Without the last one, Open MPI sleeps for a second after a failure.
const LAUNCHERS: &[(&str, &[&str])] = &[
    (
        "mpirun.openmpi",
        &["--allow-run-as-root", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "0"],
    ),
    ("mpirun.mpich", &[]),
];

/// Returns the launchers that are there.
fn launchers() -> Vec<(&'static str, &'static [&'static str])> {
    let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let (found, missing): (Vec<_>, Vec<_>) =
        LAUNCHERS.iter().copied().partition(|(name, _)| is_there(name));
    missing.iter().for_each(|(name, _)| println!("skipped: there is no {name}"));
    let is_required = std::env::var_os("MILLSTREAM_REQUIRE_MPI").is_some();
    assert!(!found.is_empty() || !is_required, "no launcher of MPI was found");
    found
}
