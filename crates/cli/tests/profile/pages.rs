//! Pages of docs/ whose outputs are those of their commands.
//!
//! A block that begins with `$ millstream` quotes what the command prints. The commands of a page
//! run one after another in one folder, in which `examples` is the repository's. A quoted `…`
//! stands for anything. `MILLSTREAM_BLESS=1` writes the outputs of blocks without one.

use std::path::Path;
use std::process::Command;

use crate::examples;

/// Returns a folder with the repository's examples.
pub(super) fn folder_with_examples() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = examples().canonicalize().unwrap();
    std::os::unix::fs::symlink(examples, folder.path().join("examples")).unwrap();
    folder
}

/// Runs a command, and returns its standard output and standard error in the order of a terminal.
fn prints(folder: &Path, arguments: &[&str]) -> String {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command.current_dir(folder).args(arguments).env("COLUMNS", "80");
    let mut child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    // The command has the writers of the pipe, which ends with them.
    drop(command);
    let printed = std::io::read_to_string(reader).unwrap();
    child.wait().unwrap();
    printed
}

/// Returns a text in which only words count: widths of columns depend on times.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let rules = |line: &String| !line.chars().any(|c| "┌╞└├".contains(c));
    lines.filter(rules).collect::<Vec<_>>().join("\n")
}

/// Compares the blocks of a page with what their commands print. Returns how many there are.
#[track_caller]
pub(super) fn quotes(page: &str, folder: &Path) -> usize {
    let path = examples().join("../docs").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut made = String::new();
    let mut compared = 0;
    // The README's blocks say that they are no Rust, as its example is compiled.
    let fence = if text.contains("```console\n$ ") { "```console" } else { "```" };
    for (k, part) in text.split(&format!("{fence}\n$ millstream ")).enumerate() {
        if k == 0 {
            made.push_str(part);
            continue;
        }
        let (block, after) = part.split_once("\n```").unwrap();
        let (command, quoted) = block.split_once('\n').unwrap_or((block, ""));
        let arguments: Vec<&str> = command.split(' ').filter(|a| !a.is_empty()).collect();
        let printed = prints(folder, &arguments);
        compared += 1;
        let bless = std::env::var_os("MILLSTREAM_BLESS").is_some() && !quoted.contains('…');
        let quoted = match bless {
            true => printed.trim_end(),
            false => quoted,
        };
        made += &format!("{fence}\n$ millstream {command}\n{quoted}\n```{after}");
        let mut rest = plain(&printed);
        for part in quoted.split('…').map(plain).filter(|part| !part.trim().is_empty()) {
            let found = rest.find(part.trim());
            let Some(at) = found else {
                panic!("{page}: {command}\nthe page:\n{part}\nprinted:\n{printed}")
            };
            rest = rest.split_off(at + part.trim().len());
        }
        if !quoted.contains('…') {
            assert_eq!(quoted.trim_end(), printed.trim_end(), "{page}: {command}");
        }
    }
    if std::env::var_os("MILLSTREAM_BLESS").is_some() && made != text {
        std::fs::write(&path, made).unwrap();
    }
    compared
}

#[test]
fn the_page_on_profiles_quotes_what_its_commands_print() {
    assert_eq!(quotes("profile.md", folder_with_examples().path()), 3);
}

#[test]
fn the_page_on_predictions_quotes_what_its_commands_print() {
    assert_eq!(quotes("what-if.md", folder_with_examples().path()), 7);
}

#[test]
fn the_page_on_simulation_quotes_what_its_commands_print() {
    let folder = folder_with_examples();
    assert_eq!(quotes("simulate.md", folder.path()), 4);
    let page = std::fs::read_to_string(examples().join("../docs/simulate.md")).unwrap();
    let (_, program) = page.split_once("```json\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let failing = std::fs::read_to_string(folder.path().join("failing.json")).unwrap();
    assert_eq!(failing.trim_end(), program.trim_end());
}

#[test]
fn the_tutorial_quotes_what_its_commands_print() {
    let folder = folder_with_examples();
    // The file that the reader writes.
    let page = std::fs::read_to_string(examples().join("../docs/tutorial.md")).unwrap();
    let (_, rest) = page.split_once("```json\n{ \"assign\"").unwrap();
    let (rules, _) = rest.split_once("```").unwrap();
    std::fs::write(folder.path().join("moves.json"), format!("{{ \"assign\"{rules}")).unwrap();
    assert_eq!(quotes("tutorial.md", folder.path()), 6);
}

#[test]
fn the_readme_quotes_what_its_commands_print() {
    assert_eq!(quotes("../README.md", folder_with_examples().path()), 2);
}
