//! The patches of `tests/traps` apply to the sources, and docs/correctness.md names each of them.
//! `cargo xtask traps` applies them and checks that a test finds each.

use std::fs;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Appends the text of all Rust files below a folder.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_trap_applies_and_is_documented() {
    let mut tests = String::new();
    for folder in ["tests", "crates", "src"] {
        sources(&root().join(folder), &mut tests);
    }
    let page = fs::read_to_string(root().join("docs/correctness.md")).unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(root().join("tests/traps")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        count += 1;
        let mut check = Command::new("git");
        check.args(["apply", "--check"]).arg(&path).current_dir(root());
        let check = check.output().expect("git can be run");
        if !check.status.success() {
            let message = String::from_utf8_lossy(&check.stderr).trim().to_owned();
            wrong.push(format!("{name}: adapt the patch to the present sources: {message}"));
        }
        let test = text.lines().find_map(|l| l.strip_prefix("Test: ")).unwrap_or_default();
        let filter = test.split([' ', ':']).rfind(|part| !part.is_empty());
        if !filter.is_some_and(|f| tests.contains(f)) {
            wrong.push(format!("{name}: no test has the name {test:?}"));
        }
        if !text.starts_with("Trap: ") {
            wrong.push(format!("{name}: the first line does not begin with 'Trap: '"));
        }
        if !page.contains(&format!("`{name}`")) {
            wrong.push(format!("{name}: not in docs/correctness.md"));
        }
    }
    assert!(count > 20, "only {count} traps found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The tests and commands that the page names exist.
#[test]
fn the_page_names_existing_tests_and_commands() {
    let page = fs::read_to_string(root().join("docs/correctness.md")).unwrap();
    let source = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (chores, cli) = (source("xtask/src/chores.rs"), source("crates/cli/src/main.rs"));
    let forwarded = source("xtask/src/main.rs");
    let has = |commands: &str, name: &str| {
        commands.to_lowercase().contains(&format!("command::{}", name.replace('-', "")))
    };
    let words: Vec<&str> = page.split([' ', '`', '\n', '(', ')', '|']).collect();
    let mut wrong = Vec::new();
    for found in words.windows(3) {
        let exists = match found {
            ["--test", test, _] => {
                let at = |folder: &Path| {
                    folder.join(format!("tests/{test}.rs")).exists()
                        || folder.join(format!("tests/{test}/main.rs")).exists()
                };
                let crates = fs::read_dir(root().join("crates")).unwrap();
                at(root()) || crates.into_iter().any(|c| at(&c.unwrap().path()))
            }
            ["xtask", command, _] => {
                has(&chores, command) || forwarded.contains(&format!("(\"{command}\", "))
            }
            ["millstream", command, _] if !command.is_empty() => has(&cli, command),
            ["fuzz", "run", target] => {
                root().join(format!("fuzz/fuzz_targets/{target}.rs")).exists()
            }
            _ => true,
        };
        if !exists {
            wrong.push(found.join(" "));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/correctness.md names missing tests or commands: {}",
        wrong.join(", ")
    );
}
