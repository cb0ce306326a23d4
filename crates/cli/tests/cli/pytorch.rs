//! The comparison with PyTorch: its helper on the host, where PyTorch is installed, and the
//! handling of its answers anywhere.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{command, root, stand_in_is_found};

/// Returns the Python that `MILLSTREAM_PYTHON` names, or `python3`, if it has PyTorch.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("MILLSTREAM_PYTHON").unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python.into());
    }
    println!("skipped: {} has no torch; MILLSTREAM_PYTHON names another", python.display());
    None
}

/// Returns PyTorch's part of the report of a check on the stand-in with this Python; none without
/// the stand-in.
fn part(python: &Path, program: &str) -> Option<Value> {
    if !stand_in_is_found() {
        return None;
    }
    let out = tempfile::tempdir().unwrap();
    let arguments = ["gpu-check", "--on-stand-in", "--only", "pytorch"];
    let mut command = command(&root(), &arguments);
    command.arg("--python").arg(python).arg("--out").arg(out.path()).arg(program);
    let output = command.output().unwrap();
    let report = fs::read_to_string(out.path().join("report.json"));
    let report = report.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    Some(serde_json::from_str::<Value>(&report).unwrap()["parts"][0].clone())
}

/// Replayed programs give the recorded results: also of complex numbers, kept operands, lists of
/// fractions, overlapping inputs, random ops and resized results.
#[test]
fn programs_are_replayed() {
    let Some(python) = python() else { return };
    let mut command = Command::new(python);
    command.arg(root().join("tools/replay.py")).args(["--device", "cpu"]).current_dir(root());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut requests = child.stdin.take().unwrap();
    let programs = [
        "saved_for_backward",
        "inplace_chains",
        "recycled",
        "lost_numbers",
        "autocast",
        "complex_numbers",
        "fraction_lists",
        "kept_operands",
        "numbers_in_memory",
        "overlapping_views",
        "random_ops",
        "written_results",
    ];
    for name in programs {
        let path = format!("tests/traces/own/{name}/et.json.gz");
        writeln!(requests, "{}\n{}", json!({ "load": path }), json!({ "run": 2 })).unwrap();
    }
    writeln!(requests, "{}", json!({ "graph": 1 })).unwrap();
    writeln!(requests, "{}", json!({ "load": "there/is/none.json" })).unwrap();
    drop(requests);
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(answers[0]["torch"].is_string(), "{}", answers[0]);
    for (name, pair) in programs.iter().zip(answers[1..].chunks(2)) {
        let outputs =
            pair[0]["outputs"].as_object().unwrap_or_else(|| panic!("{name}: {}", pair[0]));
        assert!(outputs.len() > 3 && outputs.values().all(Value::is_null), "{name}: {outputs:?}");
        assert_eq!(pair[1]["wall"].as_array().unwrap().len(), 2, "{name}: {}", pair[1]);
    }
    let [.., graph, last] = &answers[..] else { panic!("{answers:?}") };
    assert!(graph["error"].as_str().unwrap().contains("only CUDA devices have graphs"), "{graph}");
    assert!(last["error"].as_str().unwrap().contains("none.json"), "{last}");
}

/// On CUDA, attention and its gradient are the ops that autograd calls there, one call each.
#[test]
fn attention_on_cuda() {
    let Some(python) = python() else { return };
    let mut command = Command::new(python);
    command.arg("crates/cli/tests/cli/attention.py").current_dir(root());
    command.args(["examples/pytorch/transformer_encoder_train/et.json.gz", "tools/replay.py"]);
    let output = command.output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let shown = || format!("{answers:#?}\n{}", String::from_utf8_lossy(&output.stderr));
    let ops = ["flash", "efficient", "efficient", "cudnn", "cudnn"];
    assert_eq!(answers.len(), ops.len() + 1, "{}", shown());
    for (k, (answer, op)) in answers.iter().zip(ops).enumerate() {
        let names =
            ["", "_backward.default"].map(|of| format!("_scaled_dot_product_{op}_attention{of}"));
        // A mask is aligned once, for both.
        let aligned = if k == 2 { &["constant_pad_nd", "narrow"][..] } else { &[] };
        let names: Vec<&str> =
            aligned.iter().copied().chain(names.iter().map(String::as_str)).collect();
        assert_eq!(answer["ops"], json!(names), "{}", shown());
        let host = "aten::_scaled_dot_product_flash_attention_for_cpu";
        assert_eq!(
            answer["calls"],
            json!({ host: 1, format!("{host}_backward"): 1 }),
            "{}",
            shown()
        );
        assert_eq!(answer["kept"], json!(15), "{}", shown());
    }
    let refused = answers[5]["refused"].as_str().unwrap_or_else(|| panic!("{}", shown()));
    assert!(refused.contains("was not recorded"), "{refused}");
}

/// The machine and PyTorch make the same calls. Nothing is measured on the stand-in, which is no
/// GPU.
#[test]
fn both_run_in_turns() {
    let Some(python) = python() else { return };
    let Some(part) = part(&python, "tests/traces/own/small_numbers") else { return };
    assert_eq!((&part["passed"], &part["skipped"]), (&json!(1), &json!([])), "{part}");
    assert_eq!(part["measured"][0]["value"], json!(null), "{part}");
}

/// A program that cannot be compared is skipped, and the report gives the reason.
#[test]
fn incomparable_programs_are_skipped() {
    let here = r#"{"torch": "2", "device": "a fake"}"#;
    for (answers, why) in [
        (vec![r#"{"absent": "No module named 'torch'"}"#], "No module named 'torch'"),
        (vec![], "did not answer"),
        (vec![here, r#"{"error": "no such op"}"#], "PyTorch: no such op"),
        (vec![here], "PyTorch's process has ended"),
        (
            vec![here, r#"{"calls": {"aten::x": 3}, "outputs": {}, "views": 0}"#],
            "times, the machine",
        ),
        (
            vec![here, r#"{"calls": {}, "outputs": {"out/y": "off by 1"}, "views": 0}"#],
            "out/y is not what was recorded: off by 1",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fake = folder.path().join("python");
        let mut script = "#!/bin/sh\n".to_owned();
        for (k, answer) in answers.iter().enumerate() {
            let wait = if k > 0 { "read request\n" } else { "" };
            script += &format!("{wait}cat <<'END'\n{answer}\nEND\n");
        }
        fs::write(&fake, script).unwrap();
        fs::set_permissions(&fake, PermissionsExt::from_mode(0o755)).unwrap();
        let Some(part) = part(&fake, "tests/traces/own/small_numbers") else { return };
        let skipped = part["skipped"][0].as_str().unwrap_or_else(|| panic!("{why}: {part}"));
        assert!(skipped.contains(why), "{why}: {skipped}");
        assert_eq!((&part["passed"], &part["failed"]), (&json!(0), &json!([])), "{part}");
    }
}
