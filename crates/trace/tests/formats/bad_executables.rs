//! Mistakes in executables and launches, each with its place.

use super::bad_input::{check, program};

/// A trace with an executable of one input `v`, bound to the tensor `x`, and one result `w`.
fn with_launch(body: &str, statements: &str) -> String {
    format!(
        r#"{{"millstream": 1, "tensors": {{"x": {{"dtype": "f32", "shape": [2], "fill": 0}}}},
"executables": {{"j": {{"inputs": {{"v": {{"dtype": "f32", "shape": [2]}}}},
  "program": [{{"op": "add", "in": ["v", "x"], "out": "w"}}{body}],
  "outputs": {{"w": {{}}, "x": {{}}}}}}}},
"program": [{statements}]}}"#
    )
}

#[test]
fn malformed_executables() {
    let body = |statement: &str, parts: &[&str]| {
        check(&with_launch(&format!(", {statement}"), ""), parts);
    };
    body(r#"«{"read": "x"}»"#, &["'read' is not allowed in an executable", "no host wait"]);
    body(r#"«{"synchronize": "s"}»"#, &["'synchronize' is not allowed in an executable"]);
    body(r#"«{"launch": "j"}»"#, &["cannot launch another one, or itself"]);
    body(r#"{"release": «"x"»}"#, &["cannot release 'x', a tensor of the trace"]);
    body(r#"{"release": «"v"»}"#, &["cannot release 'v', its input"]);
    body(r#"{"op": "f", "out": «"x"»}"#, &["choose another name"]);
    body(r#"{"op": "f", "in": «"u"»}"#, &["unknown tensor 'u'"]);

    let declared = |fields: &str, parts: &[&str]| {
        check(
            &format!(r#"{{"millstream": 1, "executables": {{"j": {fields}}}, "program": []}}"#),
            parts,
        );
    };
    declared("«{}»", &["'program' is missing in an executable"]);
    declared(r#"{"program": [], «"input"»: {}}"#, &["unknown field 'input'", "'inputs'"]);
    let dtype = r#"{"inputs": {"v": «{"shape": [2]}»}, "program": []}"#;
    declared(dtype, &["'dtype' is missing in an input"]);
    let shape = r#"{"inputs": {"v": «{"dtype": "f32"}»}, "program": []}"#;
    declared(shape, &["'shape' is missing in an input"]);
    let fill = r#"{"inputs": {"v": {"dtype": "f32", "shape": [2], «"fill"»: 0}}, "program": []}"#;
    declared(fill, &["unknown field 'fill' in an input"]);
    declared(r#"{"program": [], "outputs": {«"w"»: {}}}"#, &["unknown tensor 'w'"]);
    let huge = r#"{"inputs": {"v": {"dtype": "f32", "shape": «[4294967296, 4294967296]»}},
        "program": []}"#;
    declared(huge, &["memory"]);

    let scalar = |argument: &str, parts: &[&str]| {
        let fields = format!(
            r#"{{"scalars": {{"rate": 1}}, "program": [{{"op": "f", "attrs": {{"a": {argument}}}}}]}}"#
        );
        declared(&fields, parts);
    };
    scalar(r#"«"$rat"»"#, &["the executable has no scalar 'rat'", "did you mean 'rate'"]);
    scalar(r#"«"$"»"#, &["the executable has no scalar ''", "declare it"]);
    let text = r#"{"scalars": {"rate": «"fast"»}, "program": []}"#;
    declared(text, &["expected a number, got a string"]);
    let list = r#"{"scalars": {"rate": «[1]»}, "program": []}"#;
    declared(list, &["expected a number, got a list"]);
    let budget = |of: &str| format!(r#"{{"program": [], "remat": {{{of}}}}}"#);
    declared(&budget(r#"«"cpu:x"»: "1KiB""#), &["invalid device"]);
    declared(&budget(r#""cpu:0": «"much"»"#), &["expected one such as 512MiB", "'much'"]);
    declared(&budget(r#""cpu:0": «1024»"#), &["expected a number of bytes, as in \"512MiB\""]);
}

#[test]
fn malformed_launches() {
    let launch = |fields: &str, parts: &[&str]| {
        check(&with_launch("", &format!(r#"{{"launch": "j"{fields}}}"#)), parts);
    };
    check(&with_launch("", r#"«{"launch": "j"}»"#), &["the input 'v' of 'j' is not given"]);
    launch(r#", "in": «{}»"#, &["the input 'v' of 'j' is not given", r#""in": { "v": "#]);
    launch(r#", "in": {"v": «"y"»}"#, &["unknown tensor 'y'"]);
    launch(r#", "in": {«"V"»: "x"}"#, &["'j' has no input 'V'", "did you mean 'v'"]);
    launch(r#", "in": {«"other"»: "x"}"#, &["'j' has no input 'other'", "its inputs: v"]);
    launch(r#", "in": «["x"]»"#, &["expected tensors, by input, got a list"]);
    launch(r#", "in": {"v": "x"}, "scalars": {«"rate"»: 1}"#, &["'j' has no scalar 'rate'"]);
    launch(r#", "in": {"v": "x"}, "out": {«"u"»: "t"}"#, &["'j' has no output 'u'"]);
    launch(r#", "in": {"v": "x"}, "out": {"w": «"x"»}"#, &["there is a tensor 'x' already"]);
    launch(r#", "in": {"v": "x"}, "out": {"w": "t"}, "into": {«"w"»: "x"}"#, &["not both"]);
    launch(
        r#", "in": {"v": "x"}, "into": {«"x"»: "x"}"#,
        &["is a tensor that the launch is given"],
    );
    launch(r#", "in": {"v": "x"}, "into": {"w": «"t"»}"#, &["unknown tensor 't'"]);
    launch(r#", "in": {"v": "x"}, "stream": «"s"»"#, &["unknown stream 's'"]);
}

/// Traces of before executables had parameters are told what to write.
#[test]
fn jobs_have_become_executables() {
    check(
        r#"{"millstream": 1, «"jobs"»: {"j": {"program": []}}, "program": [{"job": "j"}]}"#,
        &["jobs have become executables", "rename 'jobs' to 'executables'", "\"launch\": NAME"],
    );
    program(r#"«{"job": "step"}»"#, &["jobs have become executables", "\"launch\": NAME"]);
}
