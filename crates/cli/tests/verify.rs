//! `verify` as its users see it: exit statuses, counterexamples, repairs, reports.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn millstream(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
        .current_dir(folder)
        .env("COLUMNS", "100")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn examples() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces")
}

const LIST: &str = "# two streams
millstream-list 1
stream s0 sim:0 compute 0 in-order
stream s1 sim:0 compute 1 in-order
arena a0 sim:0
external %0 \"x\" f32[4,4] in 64 bytes of a0
external %1 \"y\" f32[4,4] in 64 bytes of a0

OpCall s0:1 fill (%0 write) # train.py:7
StreamWaitEvent s1:1 until s0:1 by-host
OpCall s1:2 copy (%0 read, %1 write) # train.py:8
";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.txt"), LIST).unwrap();
    let bad: String =
        LIST.lines().filter(|l| !l.contains("Wait")).map(|l| format!("{l}\n")).collect();
    fs::write(folder.path().join("bad.txt"), bad).unwrap();
    folder
}

#[test]
fn a_proven_list() {
    let folder = folder();
    let output = millstream(folder.path(), &["verify", "good.txt", "--waits"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    insta::assert_snapshot!("verify_proven", text(&output.stdout));
}

#[test]
fn a_counterexample_and_its_repair() {
    let folder = folder();
    let output = millstream(folder.path(), &["verify", "bad.txt", "--json", "report.json"]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("verify_refused", text(&output.stderr));
    assert_eq!(text(&output.stdout), "not proven: 1 violation, in 2 instructions\n");
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    insta::assert_snapshot!("verify_json", serde_json::to_string_pretty(&report).unwrap());
    // The wait that the report proposes, inserted at the proposed line, repairs the list.
    let repair = &report["violations"][0]["repair"];
    let bad = fs::read_to_string(folder.path().join("bad.txt")).unwrap();
    let mut lines: Vec<&str> = bad.lines().collect();
    let before = repair["before_line"].as_u64().unwrap() as usize - 1;
    lines.insert(before, repair["text"].as_str().unwrap());
    fs::write(folder.path().join("repaired.txt"), lines.join("\n")).unwrap();
    let output = millstream(folder.path(), &["verify", "repaired.txt"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn folders_and_traces() {
    let folder = folder();
    fs::copy(examples().join("diamond.json"), folder.path().join("diamond.json")).unwrap();
    let list = serde_json::json!({
        "millstream": 1,
        "tensors": {"x": {"dtype": "f32", "shape": [4, 4], "fill": 0},
                    "y": {"dtype": "f32", "shape": [4, 4], "fill": 0}},
        "instructions": LIST.lines().filter(|l| !l.is_empty()).collect::<Vec<_>>(),
    });
    fs::write(folder.path().join("list.json"), list.to_string()).unwrap();
    let output =
        millstream(folder.path(), &["verify", ".", "--compute-streams", "4", "--report", "-"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let reports: Vec<Value> =
        text(&output.stdout).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let proven: Vec<(&str, bool)> = reports
        .iter()
        .map(|r| (r["list"].as_str().unwrap(), r["proven"].as_bool().unwrap()))
        .collect();
    let expected = [
        ("./bad.txt", false),
        ("./good.txt", true),
        ("./diamond.json", true),
        ("./list.json", true),
    ];
    assert_eq!(proven, expected, "{}", text(&output.stderr));
    let waits = reports[1]["waits"].as_array().unwrap();
    assert_eq!((&waits[0]["line"], &waits[0]["needed"]), (&10.into(), &true.into()));
}

#[test]
fn bad_input() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("word.txt", "millstream-list 1\nFrobnicate s0:1\n");
    write("none.json", "{}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    for (path, said) in [
        ("word.txt", "word.txt:2:1: unknown instruction 'Frobnicate'"),
        ("none.json", "no Millstream trace"),
        ("missing.txt", "missing.txt"),
        ("empty", "there is nothing to verify"),
    ] {
        let output = millstream(folder.path(), &["verify", path]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{path}: {errors}");
        assert!(errors.contains(said), "{path}: {errors}");
        assert_eq!(text(&output.stdout), "", "{path}");
    }
}
