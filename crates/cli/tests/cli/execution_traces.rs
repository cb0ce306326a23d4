//! Execution traces on the command line: which run, and which are refused, with the messages.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{millstream, root, text};

/// Returns the folder of the transformer's training step that the README begins with.
fn example() -> PathBuf {
    root().join("examples/pytorch/transformer_encoder_train")
}

/// Returns the folder of a program with Python numbers, which the format loses.
fn with_numbers() -> PathBuf {
    root().join("tests/traces/pytorch/kv_cache_decode")
}

/// Returns a copy of a program, to be changed.
fn copy(of: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(of).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// Returns the message with which a changed copy is refused, with status 2.
fn refused(arguments: &[&str], change: impl FnOnce(&Path)) -> String {
    let folder = copy(&with_numbers());
    change(folder.path());
    let all: Vec<&str> = ["run", "et.json.gz"].iter().chain(arguments).copied().collect();
    let output = millstream(folder.path(), &all);
    let errors = text(&output.stderr).to_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("error: ") && !errors.contains("panicked"), "{errors}");
    errors
}

#[test]
fn the_first_command_of_the_readme_shows_every_output() {
    let output = millstream(&example(), &["run", ".", "-v"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    for part in ["et.json.gz: ok", "out/loss", "max abs", "tolerance"] {
        assert!(shown.contains(part), "no '{part}' in\n{shown}");
    }
    assert!(!shown.contains("NOTE"), "{shown}");
}

/// The factor is that of one processor.
#[test]
fn the_recorded_time_of_pytorch_stands_beside_the_own() {
    let folder = copy(&with_numbers());
    let meta = folder.path().join("meta.json");
    let recorded: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&meta).unwrap()).unwrap();
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let own = info.lines().find_map(|line| line.strip_prefix("model name\t: "));
    for (on, beside, after) in [
        (
            own.unwrap_or("none"),
            "; PyTorch 1.50 ms, here ",
            if own.is_some() { " ×)\n" } else { "\n" },
        ),
        ("Another CPU", "; PyTorch 1.50 ms on Another CPU, here ", "s\n"),
        ("", "; PyTorch 1.50 ms on another computer, here ", "s\n"),
    ] {
        let mut recorded = recorded.clone();
        recorded["eager"] = serde_json::json!({ "seconds": 0.0015, "on": on });
        fs::write(&meta, recorded.to_string()).unwrap();
        let output = millstream(folder.path(), &["run", "et.json.gz"]);
        let shown = text(&output.stdout);
        assert!(shown.contains(" outputs match; ") && shown.contains(beside), "{shown}");
        assert!(shown.lines().next().unwrap().ends_with(after.trim_end()), "{shown}");
    }
}

#[test]
fn a_report_says_what_an_import_made_up() {
    let folder = copy(&example());
    fs::remove_file(folder.path().join("tensors.safetensors")).unwrap();
    let output = millstream(
        folder.path(),
        &["run", "et.json.gz", "--structural", "--device", "sim", "--report", "r.json"],
    );
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("NOTE: ") && shown.contains("with unknown elements"), "{shown}");
    let report = fs::read_to_string(folder.path().join("r.json")).unwrap();
    assert!(report.contains(r#""remarks":[""#), "{report}");
}

#[test]
fn broken_files_are_refused_with_the_node() {
    let remove =
        |name: &'static str| move |folder: &Path| fs::remove_file(folder.join(name)).unwrap();
    let write = |name: &'static str, content: &'static [u8]| {
        move |folder: &Path| fs::write(folder.join(name), content).unwrap()
    };
    for (errors, parts) in [
        (refused(&[], remove("tensors.safetensors")), &["node ", "(bind:in/", "no such file"][..]),
        (refused(&[], remove("bindings.json")), &["node ", "there is no bindings.json"]),
        (
            refused(&[], remove("consts.json")),
            &["node ", "(aten::", "a number that the trace lost"],
        ),
        (refused(&[], write("bindings.json", b"[]")), &["bindings.json"]),
        (refused(&[], write("tensors.safetensors", &[0xff; 40])), &["node ", "safetensors"]),
        (refused(&[], write("et.json.gz", &[0x1f, 0x8b, 8, 0])), &["et.json.gz", "gzip"]),
        (
            refused(&[], write("et.json.gz", b"{\"schema\": \"9.9.9\", \"nodes\": []}")),
            &["9.9.9", "1.1.1"],
        ),
        (refused(&["--missing-scalar", "x"], |_| ()), &["--missing-scalar", "expected a number"]),
    ] {
        for part in parts {
            assert!(errors.contains(part), "no '{part}' in\n{errors}");
        }
    }
}

#[test]
fn lost_numbers_take_the_given_value() {
    let folder = copy(&with_numbers());
    fs::remove_file(folder.path().join("consts.json")).unwrap();
    let output = millstream(folder.path(), &["run", "et.json.gz", "--missing-scalar", "-0.25"]);
    let shown = text(&output.stdout);
    // The program runs, and differs from the results that PyTorch computed with the right numbers.
    assert_eq!(output.status.code(), Some(1), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("that the trace lost: substituted"), "{shown}");
}

#[test]
fn own_random_numbers_are_not_compared() {
    let root = root().join("tests/traces/own/random_ops");
    let folder = copy(&root);
    let path = folder.path().join("consts.json");
    let consts: Vec<serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let numbers: Vec<_> = consts.into_iter().filter(|entry| entry.get("arg").is_some()).collect();
    fs::write(&path, serde_json::to_string(&numbers).unwrap()).unwrap();
    let output = millstream(folder.path(), &["run", "et.json.gz"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--random SEED"), "{}", text(&output.stderr));
    let run = |seed| {
        let output = millstream(folder.path(), &["run", "et.json.gz", "--random", seed]);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
        assert!(shown.contains("NOT COMPARED") && shown.contains("out/hidden"), "{shown}");
        shown.lines().find(|line| line.starts_with("out/noise = ")).unwrap().to_owned()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn coverage_counts_nodes() {
    let output = millstream(&example(), &["coverage", ".", "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["ops"], line["executed"]);
    assert!(line["ops"].as_u64() > Some(100), "{line}");

    let empty = tempfile::tempdir().unwrap();
    let output = millstream(empty.path(), &["coverage", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no execution trace"));
}
