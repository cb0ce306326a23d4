//! Invalid files are refused with a span, without a panic and without a large allocation.

use millstream_trace::{ErrorKind, LoadOptions, TraceError, load_bytes};

fn fails(text: &str) -> TraceError {
    match load_bytes("t.json", text.as_bytes(), None, &LoadOptions::default()) {
        Ok(program) => panic!("accepted: {program:?}"),
        Err(error) => error,
    }
}

/// Loads a text in which `«` and `»` enclose the expected span of the error, and checks that the
/// message contains all parts.
#[track_caller]
pub(super) fn check(marked: &str, parts: &[&str]) {
    let start = marked.find('«').expect("a mark");
    let text = marked.replace(['«', '»'], "");
    let end = marked.find('»').expect("a closing mark") - '«'.len_utf8();
    let error = fails(&text);
    let span = error.span().expect("a span");
    assert_eq!(&text[span.range()], &text[start..end], "{error}");
    let line = 1 + text[..start].matches('\n').count() as u32;
    assert_eq!(span.line, line, "{error}");
    let excerpt = error.excerpt().expect("an excerpt");
    assert_eq!(excerpt.line, line);
    assert!(excerpt.text.get(excerpt.span.clone()).is_some(), "{excerpt:?}");
    let shown = error.to_string();
    assert!(shown.starts_with(&format!("t.json:{line}:{}: ", span.column)), "{shown}");
    for part in parts {
        assert!(shown.contains(part), "{shown:?} lacks {part:?}");
    }
}

/// Checks a program of these statements, with the declarations of [`with_program`].
#[track_caller]
pub(super) fn program(statements: &str, parts: &[&str]) {
    check(&with_program(statements, "{}"), parts);
}

fn with_program(statements: &str, outputs: &str) -> String {
    format!(
        r#"{{"millstream": 1, "streams": {{"alpha": {{}}, "beta": {{}}}},
"tensors": {{"left": {{"dtype": "f32", "shape": [2], "fill": 0}},
  "right": {{"dtype": "f32", "shape": [2], "fill": 0}}}},
"executables": {{"step": {{"program": [{{"op": "add_", "in": ["left", "right"]}}]}}}},
"program": [{statements}], "outputs": {outputs}}}"#
    )
}

#[track_caller]
fn tensor(body: &str, parts: &[&str]) {
    check(&format!("{{\"millstream\": 1, \"tensors\": {{\n  {body}}}, \"program\": []}}"), parts);
}

#[test]
fn text_that_is_not_json() {
    for (text, part) in [
        ("", "empty"),
        (" \n ", "empty"),
        ("hello", "not valid JSON"),
        (r#"{"millstream": 1, "program": ["#, "ends too early"),
        (r#"{"millstream": 1, "program": [] "#, "ends too early"),
        (r#"{"millstream": 1, "program": []} x"#, "trailing characters"),
        (r#"{"millstream": 1, "program": [],}"#, "key must be a string"),
        (r#"{"millstream": 1, "program": [nan]}"#, "expected ident"),
        ("[]", "expected a trace, which is an object, got a list"),
        ("7", "got a number"),
    ] {
        let error = fails(text);
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert!(error.span().is_some(), "{text}");
    }
    let error = fails("{\"millstream\": 1,\n \"program\": [{\"op\": \"add\", \"in\": [1 2]}]}");
    assert_eq!(error.span().map(|p| (p.line, p.column)), Some((2, 37)), "{error}");
}

#[test]
fn text_that_is_not_utf8() {
    let bytes = b"{\"millstream\": 1,\n \"name\": \"\xff\"}";
    let error = load_bytes("t.json", bytes, None, &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("t.json:2:11: byte 28 is not UTF-8"), "{error}");
}

#[test]
fn wrong_versions() {
    check(r#"{"millstream": «3», "program": [], "new": 1}"#, &["version 3", "newer", "version 2"]);
    check(r#"{"millstream": «0», "program": []}"#, &["version 0"]);
    check(r#"{"millstream": «"1"», "program": []}"#, &["an integer", "a string"]);
    check(r#"{"millstream": «1.5», "program": []}"#, &["an integer", "1.5"]);
    check(r#"«{"milstream": 1, "program": []}»"#, &["no 'millstream'", "'milstream'"]);
    check(r#"«{"nodes": []}»"#, &["no 'millstream'", "begin it with"]);
}

#[test]
fn a_million_levels_of_nesting() {
    let open = "[".repeat(1_000_000);
    let close = "]".repeat(1_000_000);
    let objects = "{\"body\":".repeat(1_000_000) + "1" + &"}".repeat(1_000_000);
    for text in [
        open.clone(),
        format!("{open}{close}"),
        format!(r#"{{"millstream": 1, "program": {open}{close}}}"#),
        format!(r#"{{"millstream": 1, "program": {open}"#),
        format!(r#"{{"millstream": 1, "program": [{objects}]}}"#),
        format!(r#"{{"millstream": {objects}, "program": []}}"#),
        format!(
            r#"{{"millstream": 1, "program": [],
                "tensors": {{"x": {{"dtype": "f32", "values": {open}{close}}}}}}}"#
        ),
        format!(
            r#"{{"millstream": 1, "program": [{{"op": "f", "attrs": {{"a": {open}{close}}}}}]}}"#
        ),
    ] {
        assert!(fails(&text).span().is_some());
    }
    let section = "{\"critical_section\": [], \"body\": [";
    let deep = section.repeat(1000) + &"]}".repeat(1000);
    let error = fails(&with_program(&deep, "{}"));
    assert!(error.to_string().contains("more than 8 deep"), "{error}");
}

#[test]
fn shapes_and_strides_larger_than_any_memory() {
    tensor(r#""x": {"dtype": "f32", "fill": 0, "shape": «[1152921504606846976]»}"#, &["memory"]);
    tensor(r#""x": {"dtype": "f32", "fill": 0, "shape": «[1073741824, 1073741824]»}"#, &["memory"]);
    tensor(r#""x": {"dtype": "f64", "fill": 0, "shape": «[70368744177664]»}"#, &["memory"]);
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2], "strides": [«-1»]}"#,
        &["strides", "non-negative", "-1"],
    );
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2, 2],
            "strides": «[18446744073709551615, 1]»}"#,
        &["memory"],
    );
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2], "strides": [«18446744073709551616»]}"#,
        &["strides", "18446744073709551616"],
    );
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2], "strides": «[1, 1]»}"#,
        &["2 strides"],
    );
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2], "strides": [3], "storage": «3»}"#,
        &["reaches over 4", "has 3"],
    );
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2], "offset": 2, "storage": «3»}"#,
        &["reaches over 4"],
    );
    tensor(
        r#""x": {"dtype": "f32", "fill": 0, "shape": [2], "storage": «9223372036854775808»}"#,
        &["memory"],
    );
    tensor(
        r#""x": {"dtype": "f32", "shape": [2], "strides": «[0]», "values": [1, 2]}"#,
        &["share their memory"],
    );
    let many = vec!["1"; 65].join(",");
    tensor(&format!(r#""x": {{"dtype": "f32", "fill": 0, "shape": «[{many}]»}}"#), &["64"]);
}

#[test]
fn a_large_valid_tensor_costs_nothing_until_it_is_materialized() {
    let text = r#"{"millstream": 1, "program": [], "tensors": {
        "x": {"dtype": "f32", "shape": [35184372088832], "fill": 1}}}"#;
    let program = load_bytes("t.json", text.as_bytes(), None, &LoadOptions::default()).unwrap();
    let error = program.tensors[0].materialize().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.to_string().starts_with("t.json:2:9: 140737488355328 bytes"), "{error}");
}

#[test]
fn shapes_that_are_not_numbers() {
    for (shape, part) in [
        ("«\"nan\"»", "got a string"),
        ("«\"2\"»", "got a string"),
        ("«1.5»", "1.5"),
        ("«null»", "null"),
        ("«[1]»", "a list"),
        ("«1e400»", "1e400"),
    ] {
        tensor(
            &format!(r#""x": {{"dtype": "f32", "fill": 0, "shape": [{shape}]}}"#),
            &["shape", part],
        );
    }
    tensor(r#""x": {"dtype": "f32", "fill": 0, "shape": «"[2]"»}"#, &["a list of integers"]);
    let error = fails(
        r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "fill": 0, "shape": [NaN]}}}"#,
    );
    assert_eq!(error.span().map(|p| p.column), Some(74), "{error}");
}

#[test]
fn unknown_names() {
    program(r#"{"op": "add", "in": ["left", «"rigth"»]}"#, &["unknown tensor", "'right'"]);
    program(r#"{"op": "f", "in": "left", "stream": «"alhpa"»}"#, &["unknown stream", "'alpha'"]);
    program(r#"{"record": "e", "stream": «"gamma"»}"#, &["unknown stream 'gamma'"]);
    program(r#"{"launch": «"stpe"»}"#, &["unknown executable 'stpe'", "'step'"]);
    program(r#"«{"relase": "left"}»"#, &["unknown statement 'relase'", "'release'"]);
    program(r#"«{"frobnicate": "left"}»"#, &["unknown statement", "critical_section"]);
    program(r#"«{}»"#, &["empty statement"]);
    program(r#"{"op": "f", «"strem"»: "alpha"}"#, &["unknown field 'strem'", "'stream'"]);
    program(r#"{"op": "f", «"xyz"»: 1}"#, &["unknown field 'xyz'", "known here: op, in, out"]);
    tensor(r#""x": {"dtype": «"f33"», "shape": [1], "fill": 0}"#, &["unknown dtype", "'f32'"]);
    tensor(
        r#""x": {"dtype": "f32", "shape": [1], «"storag"»: 0}"#,
        &["'storag' in a tensor", "'storage'"],
    );
    tensor(r#""x": {"dtype": "f32", "device": «"CPU:0"», "shape": [1], "fill": 0}"#, &["cpu:0"]);
    check(
        r#"{"millstream": 1, "streams": {"a": {"type": «"Compute"»}}, "program": []}"#,
        &["invalid stream type", "as in compute"],
    );
    check(
        r#"{"millstream": 1, "streams": {"a": {"mode": «"in-ordr"»}}, "program": []}"#,
        &["unknown stream mode", "'in-order'"],
    );
    check(r#"{"millstream": 1, «"progam"»: []}"#, &["unknown field", "'program'"]);
    check(&with_program("", r#"{«"lef"»: {}}"#), &["unknown tensor", "'left'"]);
}

#[test]
fn duplicate_names() {
    tensor(
        "\"x\": {\"dtype\": \"f32\", \"shape\": [1], \"fill\": 0},\n  «\"x\"»: {}",
        &["duplicate key 'x'"],
    );
    tensor(
        "\"x\": {\"dtype\": \"f32\", \"shape\": [1], \"fill\": 0},\n  «\"\\u0078\"»: {}",
        &["duplicate key 'x'"],
    );
    let many: String = (0..50).map(|n| format!("\"s{n}\": {{}}, ")).collect();
    check(
        &format!(r#"{{"millstream": 1, "streams": {{{many}«"s7"»: {{}}}}, "program": []}}"#),
        &["duplicate key 's7'"],
    );
    check(r#"{"millstream": 1, "program": [], «"program"»: []}"#, &["duplicate key 'program'"]);
    check(&with_program("", r#"{"left": {}, «"left"»: {}}"#), &["duplicate key 'left'"]);
    program(r#"{"op": "f", "in": [], «"in"»: []}"#, &["duplicate key 'in'"]);
    program(r#"{"op": "f", "attrs": {"k": 1, «"k"»: 2}}"#, &["duplicate key 'k'"]);
    program(r#"{"op": "f", "out": «"left"»}"#, &["there is a tensor 'left' already, from 2:"]);
    program(r#"{"op": "f", "out": ["p", «"p"»]}"#, &["there is a tensor 'p' already"]);
    program(r#"{"op": "f", "out": «""»}"#, &["cannot be empty"]);
    tensor(r#"«""»: {}"#, &["cannot be empty"]);
    check(
        r#"{"millstream": 1, "streams": {"a": {"index": 1}, "b": {"index": «1»}}, "program": []}"#,
        &["index 1"],
    );
}

#[test]
fn uses_before_definition_and_after_release() {
    program(r#"{"read": «"t"»}, {"op": "f", "out": "t"}"#, &["unknown tensor 't'"]);
    program(r#"{"release": "left"}, {"read": «"left"»}"#, &["'left' was released at 5:"]);
    program(r#"{"release": ["left", «"left"»]}"#, &["released at"]);
    program(
        r#"{"release": "left"}, {"launch": «"step"»}"#,
        &["'step' is bound to the tensor 'left', released at 5:"],
    );
    check(&with_program(r#"{"release": "left"}"#, r#"{«"left"»: {}}"#), &["was released"]);
    program(r#"{"wait": «"e"», "stream": "beta"}"#, &["records the event 'e'"]);
    program(
        r#"{"wait": «"e"», "stream": "beta"}, {"record": "e", "stream": "alpha"}"#,
        &["no statement before this records"],
    );
    program(
        r#"{"record": "ready", "stream": "alpha"}, {"wait": «"raedy"», "stream": "beta"}"#,
        &["'ready'"],
    );
}

#[test]
fn malformed_statements() {
    program(r#"«{"record": "e"}»"#, &["'stream' is missing in a record"]);
    program(r#"«{"critical_section": "left"}»"#, &["'body' is missing"]);
    program(r#"{"stream_wait": «{"from": "alpha"}»}"#, &["'to' is missing in a stream_wait"]);
    program(r#"«7»"#, &["a statement, which is an object", "a number"]);
    program(r#"{"barrier": «1»}"#, &["expected true"]);
    program(r#"{"op": «3»}"#, &["an op's name", "a number"]);
    program(r#"{"op": "f", "in": «3»}"#, &["the name of a tensor", "a number"]);
    program(r#"{"op": "f", "out": "p", "into": «"left"»}"#, &["not both"]);
    program(r#"{"op": "f", "attrs": {"k": «{}»}}"#, &["expected a number", "an object"]);
    program(r#"{"op": "f", "attrs": {"k": «[[1]]»}}"#, &["a list of lists"]);
    program(r#"{"op": "f", "attrs": {"k": «9223372036854775808»}}"#, &["64 bits"]);
    program(
        r#"{"critical_section": "left", "body": [{"release": «"left"»}]}"#,
        &["held by the critical section"],
    );
    program(
        r#"{"critical_section": "left", "body": [{"critical_section": «"left"», "body": []}]}"#,
        &["held already"],
    );
    check(r#"{"millstream": 1, "streams": «{}», "instructions": []}"#, &["has its own streams"]);
    check(r#"{"millstream": 1, "program": [], "instructions": «[]»}"#, &["not both"]);
    check(r#"{"millstream": 1, "instructions": [«7»]}"#, &["instruction in its text form"]);
    check(r#"«{"millstream": 1}»"#, &["neither 'program' nor 'instructions'"]);
    check(
        r#"{"millstream": 1, "program": [], "default_tolerance": {"rtol": «-1»}}"#,
        &["non-negative", "-1"],
    );
}

#[test]
fn more_items_than_the_bound() {
    let options = LoadOptions { max_items: 50, ..LoadOptions::default() };
    let text = format!(r#"{{"millstream": 1, "instructions": [{}""]}}"#, r#""","#.repeat(60));
    let error = load_bytes("t.json", text.as_bytes(), None, &options).unwrap_err();
    assert!(error.to_string().contains("more than 50 items"), "{error}");
    let values = format!(
        r#"{{"millstream": 1, "program": [],
        "tensors": {{"x": {{"dtype": "u8", "values": [{}0]}}}}}}"#,
        "0,".repeat(1000)
    );
    let program = load_bytes("t.json", values.as_bytes(), None, &options).unwrap();
    assert_eq!(program.tensors[0].spec.shape(), [1001]);
}

#[test]
fn a_long_line_is_cut_in_the_excerpt() {
    let notes = "é".repeat(5000);
    let text = format!(r#"{{"millstream": 1, "note": "{notes}", "progam": [], "x": "{notes}"}}"#);
    let error = fails(&text);
    let excerpt = error.excerpt().unwrap();
    assert!(excerpt.text.len() < 400, "{}", excerpt.text.len());
    assert_eq!(&excerpt.text[excerpt.span.clone()], "\"progam\"");
    assert_eq!(error.span().map(|p| p.column), Some(5031), "{error}");
}
