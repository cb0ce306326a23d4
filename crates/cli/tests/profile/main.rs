//! Profiles of runs, as the commands write them.

mod browser;
mod forms;
mod launches;
mod page;
mod pages;
mod perfetto;
mod replay;
mod timelines;
mod what_if;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the folder of the examples.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Runs the command in a folder, with a width of 100 columns.
#[track_caller]
fn millstream(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.current_dir(folder).args(arguments).env("COLUMNS", "100").output().unwrap()
}

/// Runs the command, which succeeds, and returns its standard output.
#[track_caller]
fn succeeds(folder: &Path, arguments: &[&str]) -> String {
    let output = millstream(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}\n{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a message in one line, however it is wrapped.
fn message(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the path of the program that the tests of pages record: a training step of a
/// transformer.
fn transformer() -> String {
    examples().join("pytorch/transformer_encoder_train").to_str().unwrap().to_owned()
}
