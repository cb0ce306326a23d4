//! Help, completions and manual pages, made from the command line itself.

use std::fs;
use std::process::Command;

fn millstream(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_millstream")).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the subcommands that a help lists.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    // The lines of a long description are indented more.
    let names = lines.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|c| *c != "help").collect()
}

/// Every command shows an example, and every example of this program names a command of it.
#[test]
fn every_command_has_an_example() {
    let help = millstream(&["--help"]);
    let mut commands: Vec<Vec<&str>> = subcommands(&help).into_iter().map(|c| vec![c]).collect();
    assert!(commands.len() > 5, "{help}");
    while let Some(command) = commands.pop() {
        let mut arguments = command.clone();
        arguments.push("--help");
        let help = millstream(&arguments);
        let inner: Vec<String> = subcommands(&help).into_iter().map(str::to_owned).collect();
        if !inner.is_empty() {
            for name in inner {
                let help = millstream(&[command[0], &name, "--help"]);
                let example = help.split("Example:\n").nth(1).and_then(|text| text.lines().next());
                let shown = format!("millstream {} {name}", command[0]);
                assert!(example.is_some_and(|line| line.contains(&shown)), "{command:?} {name}");
            }
            continue;
        }
        let mut parts = help.split("Example:\n").skip(1).chain(help.split("Examples:\n").skip(1));
        let example = parts.next();
        let example = example.unwrap_or_else(|| panic!("{command:?} has no example"));
        assert!(example.contains(&format!("millstream {}", command[0])), "{example}");
    }
}

/// The help fits the terminal: no line is longer than `COLUMNS`.
#[test]
fn help_is_as_wide_as_the_terminal() {
    for command in ["run", "verify", "simulate", "what-if"] {
        let mut help = Command::new(env!("CARGO_BIN_EXE_millstream"));
        let help = help.args([command, "-h"]).env("COLUMNS", "80").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let (help, examples) = help.split_once("\nExample").unwrap();
        let long = help.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{command}");
        assert!(help.lines().count() > 20 && examples.contains(command));
    }
}

#[test]
fn the_version_names_the_commit() {
    let text = millstream(&["--version"]);
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    // Sources without a clone of their own have no commit.
    let is_clone = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).filter(|_| is_clone);
    let expected = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    assert_eq!(text, format!("millstream {}{expected}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn shells_and_the_manual_know_all_options() {
    for shell in ["bash", "zsh", "fish"] {
        let text = millstream(&["completions", shell]);
        assert!(text.contains("compute-streams") && text.contains("simulate"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    millstream(&["man", folder.path().to_str().unwrap()]);
    let page = fs::read_to_string(folder.path().join("millstream-run.1")).unwrap();
    assert!(page.contains("save\\-outputs"), "{page}");
}
