//! Executables that traces declare: eager, replayed, and refused with their places.

use millstream::instructions::passes::Pass;
use millstream::instructions::text::{parse_list, print_list};
use millstream::{DeviceId, DriverKind};
use millstream_runner::{RunOptions, certificate, prepare, run};

use millstream_trace::{LoadOptions, load_bytes};

use super::files::{example, folder, parse};
use super::run_trace::{assert_ok, bytes, ways};

/// Each example gives its outputs in every way to run, and the same bytes as one compiled program,
/// with all passes and with none.
#[test]
fn launches_are_replayed_within_the_whole_program() {
    for name in ["executable.json", "launch-bound.json"] {
        let program = example(name);
        let first = run(program.clone(), &RunOptions::default()).unwrap();
        assert_ok(&first);
        for way in ways() {
            for passes in [Pass::ALL.as_slice(), &[]] {
                let options = way.clone().replay(true).passes(passes).repeat(2);
                let report = run(program.clone(), &options.emit(true)).unwrap();
                assert_ok(&report);
                assert_eq!(bytes(&report), bytes(&first), "{name} {way:?}");
                // The program is one launch, whose list is flat.
                let list = report.list.as_ref().unwrap();
                assert_eq!(list.executables.len(), 1);
                assert!(list.executables[0].executables.is_empty());
                let again = parse_list(&print_list(list)).unwrap();
                assert_eq!(certificate(&again), report.certificate().unwrap());
            }
        }
    }
}

/// A launch counts as one instruction of the program, whatever it holds.
#[test]
fn a_launch_is_one_instruction() {
    let report = run(example("executable.json"), &RunOptions::default()).unwrap();
    let count = |kind: &str| {
        report.instructions.iter().filter(|(k, _)| k.name() == kind).map(|(_, n)| *n).sum::<u64>()
    };
    assert_eq!((count("LazyJobLauncher"), count("OpCall")), (3, 1), "{:?}", report.instructions);
}

/// An output that is an input is the tensor that the launch is given: unused, it lives on.
#[test]
fn an_unused_output_that_is_an_input_lives_on() {
    let text = r#"{"millstream": 1,
"tensors": {
  "x": {"dtype": "f32", "shape": [2], "fill": 1}, "w": {"dtype": "f32", "shape": [2], "fill": 2}},
"executables": {"step": {"inputs": {"a": {"dtype": "f32", "shape": [2]}},
  "program": [
    {"op": "add_", "in": ["a", "w"], "out": "b"}, {"op": "add_", "in": ["w", "a"], "out": "v"}],
  "outputs": {"b": {}, "v": {}}}},
"program": [{"launch": "step", "in": {"a": "x"}}, {"launch": "step", "in": {"a": "x"}}],
"outputs": {"x": {"fill": 8}, "w": {"fill": 13}}}"#;
    let report = run(parse(text), &RunOptions::default()).unwrap();
    assert!(report.ok(), "{report:?}");
}

/// Returns a program with an executable of this body, and this statement in line 12.
fn with_launch(body: &str, statement: &str) -> String {
    format!(
        r#"{{"millstream": 1, "streams": {{"s": {{}}}}, "tensors": {{
"x": {{"dtype": "f32", "shape": [4], "fill": 1}}, "n": {{"dtype": "i64", "shape": [4], "fill": 1}},
"m": {{"dtype": "f32", "shape": [3], "fill": 1}}, "z": {{"dtype": "f32", "shape": [4], "fill": 1}},
"far": {{"dtype": "f32", "shape": [4], "fill": 1, "device": "sim:0"}}}},
"executables": {{"step": {{"inputs": {{"a": {{"dtype": "f32", "shape": [4]}},
"b": {{"dtype": "f32", "shape": [2]}}}}, "program": [
{body}}}}},
"program": [{{"op": "slice", "in": "x", "out": "head", "attrs": {{"end": 2}}}},
{{"op": "slice", "in": "x", "out": "tail", "attrs": {{"start": 2}}}},
{{"op": "slice", "in": "x", "out": "odd", "attrs": {{"step": 2}}}},
{statement}]}}"#
    )
}

#[track_caller]
fn refused(text: &str, line: u32, part: &str) {
    let error = prepare(parse(text), &RunOptions::default()).err().expect(part);
    let shown = error.to_string();
    assert!(!error.runtime && shown.starts_with(&format!("t.json:{line}:")), "{shown}");
    assert!(shown.contains(part), "{shown}");
}

/// Mistakes in launches are found before anything runs, with their places.
#[test]
fn wrong_tensors_are_refused_at_the_launch() {
    let body = r#"{"op": "add_", "in": ["b", "b"]}, {"op": "neg", "in": "a", "out": "y"},
{"op": "slice", "in": "y", "out": "part", "attrs": {"end": 2}}],
"outputs": {"y": {}, "part": {}, "b": {}}"#;
    let launch = |a: &str, b: &str, more: &str, part: &str| {
        let inputs = format!(r#"{{"a": "{a}", "b": "{b}"}}"#);
        let statement = format!(r#"{{"launch": "step", "in": {inputs}{more}}}"#);
        refused(&with_launch(body, &statement), 13, part);
    };
    launch("n", "head", "", "\"a\" was recorded as f32[4] on cpu:0, and is given as i64[4]");
    launch("m", "head", "", "and is given as f32[3]");
    launch("far", "head", "", "on sim:0");
    launch("x", "odd", "", "\"b\" was recorded as f32[2]");
    launch("x", "head", "", "\"a\" and \"b\" share memory, and the list writes one of them");
    launch("z", "tail", r#", "into": {"part": "head"}"#, "unknown output 'part'");
    launch("z", "tail", r#", "into": {"y": "m"}"#, "\"y\" was recorded as f32[4]");
    launch("z", "tail", r#", "stream": "s""#, "expected one of type lazy-job");
}

fn workspace_example() -> String {
    std::fs::read_to_string(folder().join("executable_workspace.json")).unwrap()
}

/// Memory of the program that no launch can compute in is refused at the launch, with the numbers.
#[test]
fn wrong_workspaces_are_refused_at_the_launch() {
    let text = workspace_example();
    let launch = |from: &str, to: &str, part: &str| {
        assert!(text.contains(from), "{from}");
        let changed = text.replace(from, to);
        let line = changed.lines().position(|line| line.contains("\"workspace\"")).unwrap() + 1;
        refused(&changed, line as u32, part);
    };
    launch("[2048]", "[500]", "expected at least 512 bytes on cpu:0, got 500");
    launch("\"u8\"", "\"f32\"", "a contiguous tensor of u8 at a multiple of 512 bytes");
    launch(r#"["memory"]"#, r#"["memory", "memory"]"#, "one tensor for each device with private");
    launch(r#"["memory"]"#, r#"["x"]"#, "expected a contiguous tensor of u8");
    let far = r#""fill": 0, "device": "sim:0" }"#;
    launch(r#""fill": 0 }"#, far, "512 bytes on cpu:0, got u8[2048] on sim:0");
    let unknown = text.replace(r#"["memory"]"#, r#"["memori"]"#);
    let options = LoadOptions::default();
    let error = load_bytes("t.json", unknown.as_bytes(), None, &options).unwrap_err().to_string();
    assert!(error.contains("memori") && error.contains("did you mean 'memory'"), "{error}");
    // A formal within it.
    let overlapping = r#"{"millstream": 1, "tensors": {
"memory": {"dtype": "u8", "shape": [2048], "fill": 1}},
"executables": {"step": {"inputs": {"v": {"dtype": "u8", "shape": [1024]}},
"program": [{"op": "flip", "in": "v", "out": "a", "attrs": {"dims": [0]}},
{"op": "flip", "in": "a", "out": "y", "attrs": {"dims": [0]}}], "outputs": {"y": {}}}},
"program": [{"op": "slice", "in": "memory", "out": "x", "attrs": {"end": 1024}},
{"launch": "step", "in": {"v": "x"}, "workspace": "memory"}], "outputs": {}}"#;
    refused(overlapping, 7, "bytes 0..1024 of a storage of which \"v\" uses 0..1024");
}

/// Launches that share a workspace give the bits of launches with memory of their own.
#[test]
fn launches_compute_in_memory_of_the_program() {
    let text = workspace_example();
    let mut own = text.clone();
    for given in [r#", "workspace": ["memory"]"#, r#", "workspace": "memory""#] {
        own = own.replace(given, "");
    }
    let own = parse(&own.replace(r#", "workspace": ["part"]"#, ""));
    let own = run(own, &RunOptions::default()).unwrap();
    for way in ways() {
        for way in [way.clone(), way.replay(true)] {
            let report = run(parse(&text), &way.repeat(2)).unwrap();
            assert_ok(&report);
            assert_eq!(bytes(&report), bytes(&own));
        }
    }
}

/// Mistakes in the statements and outputs of an executable are found with their places.
#[test]
fn wrong_executables_are_refused() {
    let body = |body: &str, line: u32, part: &str| {
        refused(&with_launch(body, r#"{"read": "x"}"#), line, part);
    };
    body(r#"{"op": "neg", "in": "a"}, {"op": "neg", "in": ["a", "b"]}]"#, 7, "neg");
    body(r#"{"op": "masked_select", "in": ["a", "a"]}]"#, 7, "masked_select");
    let output = |fields: &str, part: &str| {
        let neg = r#"{"op": "neg", "in": "a", "out": "y"}]"#;
        body(&format!(r#"{neg}, "outputs": {{"y": {fields}}}"#), 7, part);
    };
    output(r#"{"shape": [5]}"#, "the output 'y' is f32[4], and the trace says [5]");
    output(r#"{"dtype": "f16"}"#, "and the trace says f16");
    output(r#"{"device": "sim:0"}"#, "the output 'y' is on cpu:0, and the trace says sim:0");
}

/// A tensor whose shape depends on data is compared with the input when it is known.
#[test]
fn a_shape_from_data_is_checked_at_the_launch() {
    let text = |shape: u32| {
        format!(
            r#"{{"millstream": 1, "tensors": {{
"x": {{"dtype": "f32", "values": [1, 2, 3]}}, "mask": {{"dtype": "bool", "values": [1, 0, 1]}}}},
"executables": {{"negated": {{"inputs": {{"v": {{"dtype": "f32", "shape": [{shape}]}}}},
"program": [{{"op": "neg", "in": "v", "out": "y"}}], "outputs": {{"y": {{}}}}}}}},
"program": [{{"op": "masked_select", "in": ["x", "mask"], "out": "some"}},
{{"launch": "negated", "in": {{"v": "some"}}, "out": {{"y": "y"}}}}],
"outputs": {{"y": {{"values": [-1, -3]}}}}}}"#
        )
    };
    assert_ok(&run(parse(&text(2)), &RunOptions::default()).unwrap());
    let error = run(parse(&text(3)), &RunOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("t.json:6:") && error.contains("is given as f32[2]"), "{error}");
}

/// Executables run on the device of the run, and those with streams on several devices.
#[test]
fn executables_are_compiled_for_the_device_of_the_run() {
    for driver in [DriverKind::Inline, DriverKind::Threaded, DriverKind::Simulated] {
        let options = RunOptions::default().device(DeviceId::sim(1)).repeat(2);
        let options = options.machine(|config| config.driver(driver));
        let report = run(example("executable.json"), &options).unwrap();
        assert_ok(&report);
        assert!(report.streams.iter().any(|s| s.key.device == DeviceId::sim(1)));
    }
}
