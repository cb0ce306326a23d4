//! The chores as contributors run them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(program: &str, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).output().unwrap()
}

#[test]
fn docs_are_written_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let docs = |arguments: &[&str]| {
        let mut all = vec!["docs", "--folder", "pages", "--methods", "methods"];
        all.extend(arguments);
        let output = run(env!("CARGO_BIN_EXE_chores"), folder.path(), &all);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, errors) = docs(&["--check"]);
    assert_eq!(status, Some(1), "there is no page yet");
    assert!(errors.contains("cannot read pages/instructions.md"), "{errors}");
    assert_eq!(docs(&[]).0, Some(0));
    let files = ["pages/instructions.md", "methods/reduce.rs", "methods/of_no_family.rs"];
    let read = || files.map(|file| fs::read(folder.path().join(file)).ok());
    let written = read();
    files.iter().for_each(|file| fs::write(folder.path().join(file), "old").unwrap());
    let (status, errors) = docs(&["--check"]);
    assert_eq!(status, Some(1));
    let named: Vec<_> = errors.lines().filter_map(|line| line.split(" is ").next()).collect();
    assert_eq!(named, [&*format!("error: {}", files[0]), files[1], files[2]], "{errors}");
    assert_eq!(docs(&[]).0, Some(0));
    assert_eq!(read(), written);
    assert!(written[..2].iter().all(Option::is_some) && written[2].is_none());
}

#[cfg(unix)]
#[test]
fn commands_that_measure_are_optimised_and_others_on_demand() {
    let target = tempfile::tempdir().unwrap();
    let profile = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        // `echo` prints what cargo would be given, and builds nothing that could run.
        command.args(arguments).env("CARGO", "echo").env("CARGO_TARGET_DIR", target.path());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let given = String::from_utf8(output.stdout).unwrap();
        let mut words = given.split_whitespace().skip_while(|word| *word != "--profile");
        words.nth(1).expect("a profile").to_owned()
    };
    assert_eq!(profile(&["run-trace", "add.json"]), "unoptimized");
    assert_eq!(profile(&["--release", "run-trace", "add.json"]), "release");
    assert_eq!(profile(&["bench", "calls"]), "release");
    assert_eq!(profile(&["layering"]), "unoptimized");
    assert_eq!(profile(&["--release", "layering"]), "release");
}

#[test]
fn an_unknown_command_lists_the_known_ones() {
    let output = run(env!("CARGO_BIN_EXE_xtask"), Path::new("."), &["run-trase", "add.json"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("there is no command 'run-trase'"), "{message}");
    assert!(message.contains("run-trace") && message.contains("gpu-check"), "{message}");
}
