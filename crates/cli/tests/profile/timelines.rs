//! Timelines of other programs, as the commands show them.

use crate::pages::{folder_with_examples, quotes};
use crate::{examples, message, millstream, succeeds};

fn example(name: &str) -> String {
    examples().join("timelines").join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_page_on_timelines_quotes_what_the_commands_print() {
    assert_eq!(quotes("timelines.md", folder_with_examples().path()), 2);
}

/// The race of a program on two streams, recorded with the stacks of Python.
#[test]
fn a_race_is_told_in_the_words_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(example("race.json")).unwrap();
    let function = |name: &str, from: u32, lasts: u32| {
        format!(
            r#"{{"ph":"X","cat":"python_function","name":"{name}","pid":1,"tid":1,
"ts":{from},"dur":{lasts},"args":{{}}}},"#
        )
    };
    let functions = [
        function("train.py(31): step", 0, 40),
        function("model.py(10): forward", 0, 12),
        function("model.py(14): side", 18, 15),
        function("torch/nn/functional.py(1500): relu", 0, 10),
        function("<built-in method neg of type object at 0x1>", 19, 11),
    ];
    let begin = "\"traceEvents\": [";
    let text = text.replace(begin, &format!("{begin}{}", functions.concat()));
    std::fs::write(folder.path().join("k.json"), text).unwrap();
    let nodes = example("race-et.json");
    let verify = ["verify", "k.json", "--trace", &nodes, "--report", "report.json"];
    let output = millstream(folder.path(), &verify);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap());
    let report = std::fs::read(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["verdict"], "race");
    let race = &report["races"][0];
    assert_eq!(race["repair"]["text"], "s8.wait_stream(s7)");
    assert_eq!(race["repair"]["before"], "aten::neg");
    assert_eq!(race["earlier"]["stack"][1], "model.py(10): forward");
}

#[test]
fn a_timeline_has_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("two-streams.json");
    let all = ["--html", "t.html", "--profile", "t.pftrace"];
    succeeds(folder.path(), &[&["profile", &file][..], &all].concat());
    let summary = |file: &str| succeeds(folder.path(), &["profile", file, "--summary"]);
    for made in ["t.html", "t.pftrace"] {
        assert_eq!(summary(made), summary(&file));
    }
    let compared = succeeds(folder.path(), &["compare", &file, "t.pftrace"]);
    assert!(compared.contains("the same instructions on the same streams"), "{compared}");
}

#[test]
fn options_of_timelines_need_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = example("two-streams.json");
    succeeds(folder.path(), &["profile", &file, "--profile", "t.pftrace"]);
    let output = millstream(folder.path(), &["profile", "t.pftrace", "--within", "step"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected =
        "error: t.pftrace: it is no timeline of another program's, which --within is for\n";
    assert_eq!(error, expected);
    let output = millstream(folder.path(), &["profile", &file, "--within", "none"]);
    let error = message(&output.stderr);
    assert!(error.contains("it has no range 'none' of that number; it has step"), "{error}");
}

/// PyTorch's names of ops are those of a run, with a namespace.
#[test]
fn ops_of_pytorch_are_those_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let op = |name: &str, ts: u32| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::{name}","pid":1,"tid":1,"ts":{ts},"dur":9,"args":{{"Ev Idx":{ts}}}}}"#
        )
    };
    let events = [op("add_", 0), op("matmul", 10)].join(",");
    let timeline = format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}]}}"#);
    std::fs::write(folder.path().join("kineto.json"), timeline).unwrap();
    let trace = r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "shape": [2, 2], "fill": 1}},
"program": [{"op": "add_", "in": ["x", "x"]}, {"op": "matmul", "in": ["x", "x"], "out": "y"}]}"#;
    std::fs::write(folder.path().join("t.json"), trace).unwrap();
    succeeds(folder.path(), &["run", "t.json", "--profile", "run.pftrace"]);
    let compared = succeeds(folder.path(), &["compare", "kineto.json", "run.pftrace"]);
    for name in ["add_", "matmul"] {
        let rows: Vec<&str> = compared.lines().filter(|line| line.contains(name)).collect();
        let is_of_both = |row: &&&str| row.starts_with('│') && !row.contains("new");
        assert!(!compared.contains("aten::"), "{compared}");
        assert_eq!(rows.iter().filter(is_of_both).count(), 1, "{compared}");
    }
    for (file, given, meant) in
        [("kineto.json", "matmul", "aten::matmul"), ("run.pftrace", "aten::matmul", "matmul")]
    {
        let change = format!("{given}=x0.5");
        let output = millstream(folder.path(), &["what-if", file, "--op", &change]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&format!("did you mean '{meant}'?")), "{error}");
    }
}
