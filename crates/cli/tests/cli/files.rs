//! Files in and out: lists that run, saved outputs, standard input, and files that are not
//! overwritten.

use std::fs;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::{command, millstream, root};

const TRACE: &str = r#"{"millstream": 1,
"tensors": {"x": {"dtype": "f32", "shape": [2, 2], "values": [1, 2, 3, 4]}},
"program": [{"op": "mul", "in": "x", "out": "y", "attrs": {"other": 3}}, {"read": "y"},
            {"op": "add_", "in": ["x", "y"]}],
"outputs": {"y": {"values": [3, 6, 9, 12]}, "x": {}}}"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.json"), TRACE).unwrap();
    folder
}

fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    millstream(folder.path(), arguments)
}

/// Returns the standard output of a command that succeeds.
fn shown(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the errors of a command that is refused as bad input.
fn refused(folder: &TempDir, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn lists_run_with_inputs_from_elsewhere() {
    let folder = folder();
    let emitted = ["run", "t.json", "-v", "--emit", "list.txt", "--save-outputs", "y.safetensors"];
    let text = shown(&folder, &emitted);
    assert!(text.contains("t.json:3: y, f32[2,2] = 3.0 6.0 9.0 12.0"), "{text}");
    assert!(text.starts_with("t.json: ran; 1 of 2 compared"), "{text}");

    let text = shown(&folder, &["run", "list.txt", "--inputs", "t.json"]);
    assert!(text.starts_with("list.txt: ran; 1 of 2 compared"), "{text}");
    assert!(text.contains("x = 4.0 8.0 12.0 16.0"), "{text}");
    // The outputs saved hold the tensor `x` as well, which is 4, 8, 12, 16 now.
    let text = shown(&folder, &["run", "list.txt", "--inputs", "y.safetensors"]);
    assert!(text.starts_with("list.txt: ran; 0 of 2 compared"), "{text}");
    assert!(text.contains("x = 16.0 32.0 48.0 64.0"), "{text}");
    shown(&folder, &["run", "list.txt", "--random-inputs", "1"]);
    let text = shown(&folder, &["simulate", "list.txt", "--inputs", "t.json", "--device", "cpu"]);
    assert!(text.contains("100 seeds"), "{text}");

    let text = refused(&folder, &["run", "list.txt"]);
    assert!(text.contains("list.txt:4:1: the list needs 'x', which is f32[2,2]"), "{text}");
    let text = refused(&folder, &["run", "t.json", "--inputs", "y.safetensors"]);
    assert!(text.contains("a trace has its own inputs"), "{text}");
    let list = fs::read_to_string(folder.path().join("list.txt")).unwrap();
    fs::write(folder.path().join("bad.txt"), list.replacen("OpCall", "OpCal", 1)).unwrap();
    let text = refused(&folder, &["run", "bad.txt", "--inputs", "t.json"]);
    assert!(text.contains("did you mean 'OpCall'"), "{text}");
    fs::write(folder.path().join("wide.txt"), list.replace("f32[2,2]", "f32[2,3]")).unwrap();
    let text = refused(&folder, &["run", "wide.txt", "--inputs", "y.safetensors"]);
    assert!(text.contains("f32[2,3], and y.safetensors holds f32[2,2]"), "{text}");
}

#[test]
fn files_that_are_read_are_not_overwritten() {
    let folder = folder();
    fs::create_dir(folder.path().join("below")).unwrap();
    for path in ["t.json", "./t.json", "below/../t.json"] {
        let text = refused(&folder, &["run", "t.json", "--save-outputs", path]);
        assert!(text.contains("would overwrite a file that is read"), "{text}");
    }
    let sidecar = TRACE.replace(r#""values": [1, 2, 3, 4]"#, r#""file": "x.st", "key": "x""#);
    shown(&folder, &["run", "t.json", "--save-outputs", "x.st"]);
    fs::write(folder.path().join("s.json"), sidecar).unwrap();
    let text = refused(&folder, &["run", "s.json", "--report", "x.st"]);
    assert!(text.contains("--report x.st would overwrite"), "{text}");
    let text = refused(&folder, &["run", "t.json", "--report", "o", "--emit", "./o"]);
    assert!(text.contains("--report and --emit cannot both write to"), "{text}");
    let text = refused(&folder, &["verify", "t.json", "--report", "t.json"]);
    assert!(text.contains("would overwrite"), "{text}");
    let text = refused(&folder, &["simulate", "t.json", "--seed", "1", "--log", "t.json"]);
    assert!(text.contains("would overwrite"), "{text}");
    assert_eq!(fs::read_to_string(folder.path().join("t.json")).unwrap(), TRACE);
}

#[test]
fn a_trace_is_read_from_standard_input() {
    let folder = folder();
    let trace = fs::File::open(folder.path().join("t.json")).unwrap();
    let output = command(folder.path(), &["run", "-"]).stdin(trace).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"standard input: ran; 1 of 2 compared"));
    let mut child = command(folder.path(), &["run", "-"]);
    let output = child.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("standard input") && text.contains("the file is empty"), "{text}");
}

/// A full disk is an error of every command, also where only its tables are lost.
#[cfg(target_os = "linux")]
#[test]
fn full_disks_are_errors() {
    let folder = folder();
    let commands: [&[&str]; 4] =
        [&["run", "t.json"], &["verify", "t.json"], &["simulate", "t.json"], &["schema"]];
    for arguments in commands {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(folder.path(), arguments).stdout(full).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text.contains("No space left"), "{arguments:?}: {text}");
    }
    let text = refused(&folder, &["run", "t.json", "--save-outputs", "/dev/full"]);
    assert!(text.contains("cannot write /dev/full"), "{text}");
}

/// A folder with one trace stands for it, wherever a command takes a trace.
#[test]
fn folders_stand_for_their_trace() {
    let folder = folder();
    fs::create_dir(folder.path().join("step")).unwrap();
    fs::rename(folder.path().join("t.json"), folder.path().join("step/t.json")).unwrap();
    shown(&folder, &["run", "step", "--emit", "list.txt"]);
    let text = shown(&folder, &["run", "list.txt", "--inputs", "step"]);
    assert!(text.starts_with("list.txt: ran; 1 of 2 compared"), "{text}");
    shown(&folder, &["convert", "step", "converted.json"]);
    shown(&folder, &["compare", "step", "converted.json"]);
    let text =
        refused(&folder, &["run", "list.txt", "--inputs", "step", "--report", "step/t.json"]);
    assert!(text.contains("would overwrite"), "{text}");
    fs::copy(folder.path().join("step/t.json"), folder.path().join("step/u.json")).unwrap();
    for arguments in [["convert", "step", "x.json"], ["compare", "step", "converted.json"]] {
        let text = refused(&folder, &arguments);
        assert!(text.contains("it holds 2 traces; expected one"), "{text}");
    }
}

/// A recorded program, converted to a native trace, gives PyTorch's results.
#[test]
fn recorded_programs_become_native_traces() {
    let folder = folder();
    let recorded = root().join("tests/traces/pytorch");
    for name in ["views_inplace_alias", "dtypes_mixed"] {
        let trace = recorded.join(name).join("et.json.gz");
        let trace = trace.to_str().unwrap();
        shown(&folder, &["convert", trace, "native.json"]);
        let text = shown(
            &folder,
            &["run", "native.json", "--compute-streams", "3", "--assign", "round-robin"],
        );
        assert!(text.starts_with("native.json: ok, "), "{name}: {text}");
        let native = fs::read_to_string(folder.path().join("native.json")).unwrap();
        assert!(native.contains("\"note\": \"node "), "{name}");
    }
    let text = refused(&folder, &["convert", "t.json", "./t.json"]);
    assert!(text.contains("would overwrite"), "{text}");
}

#[test]
fn ops_go_to_the_streams_that_a_file_assigns() {
    let folder = folder();
    let assign = |text: &str| fs::write(folder.path().join("a.json"), text).unwrap();
    let streams = || {
        let report = shown(&folder, &["run", "t.json", "--assign", "a.json", "--report", "-"]);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["ok"], true);
        report["streams"].as_array().unwrap().iter().map(|s| s.to_string()).collect::<Vec<_>>()
    };
    assign(
        r#"{"note": "by hand", "streams": {"side": {"device": "cpu", "index": 5}},
"assign": [{"op": ["mul", "add_"], "stream": 2}, {"at": 4, "stream": "side"}]}"#,
    );
    let both = streams();
    assert!(both.iter().any(|s| s.contains("compute 2")), "{both:?}");
    assert!(both.iter().any(|s| s.contains("compute 5")), "{both:?}");
    // What is written is what was in force.
    let written = ["run", "t.json", "--assign", "a.json", "--emit-assign", "b.json"];
    shown(&folder, &written);
    let text = fs::read_to_string(folder.path().join("b.json")).unwrap();
    assert!(text.contains(r#"{ "at": 3, "op": "mul", "stream": 2 }"#), "{text}");
    assert!(text.contains(r#"{ "at": 4, "op": "add_", "stream": "side" }"#), "{text}");
    let again = ["run", "t.json", "--assign", "b.json", "--emit-assign", "c.json"];
    shown(&folder, &again);
    assert_eq!(text, fs::read_to_string(folder.path().join("c.json")).unwrap());
    shown(&folder, &["simulate", "t.json", "--assign", "a.json", "--device", "cpu"]);

    assign(
        r#"{"assign": [{"op": "mul", "stream": "nowhere"}, {"at": [9, 3], "stream": 1},
{"op": "sub", "stream": 1}, {"stream": 1}, {"op": "mul"}, {"op": "mul", "stream": 99999999}]}"#,
    );
    let text = refused(&folder, &["run", "t.json", "--assign", "a.json"]);
    for part in [
        "a.json:1:37: unknown stream 'nowhere'",
        "a.json:1:56: the first place is behind the last",
        "a.json:2:1: the rule holds for no call",
        "a.json:2:29: the rule names neither an op nor a place",
        "a.json:2:44: 'stream' is missing in a rule",
        "a.json:2:83: a compute stream has an index below 1024, and this is 99999999",
    ] {
        assert!(text.contains(part), "{text}");
    }
    shown(&folder, &["run", "t.json", "--emit", "l.txt"]);
    assign(r#"{"assign": []}"#);
    let arguments = ["run", "l.txt", "--inputs", "t.json", "--assign", "a.json"];
    assert!(refused(&folder, &arguments).contains("a list of instructions has its streams in it"));
}
