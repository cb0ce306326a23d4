//! Literal elements, and the comparison of results.

use millstream_trace::{
    Comparison, LoadOptions, Mismatch, Program, Tolerance, compare, load_bytes,
};
use millstream_types::{DType, Layout, TensorSpec};

fn read(text: &str) -> millstream_trace::Result<Program> {
    load_bytes("t.json", text.as_bytes(), None, &LoadOptions::default())
}

fn tensor(body: &str) -> millstream_trace::Result<Program> {
    read(&format!(r#"{{"millstream": 1, "program": [], "tensors": {{"x": {body}}}}}"#))
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

#[test]
fn values_are_read() {
    for (body, shape, values) in [
        (r#"{"dtype": "f32", "values": [1, 2.5, -3e1]}"#, &[3][..], &[1.0, 2.5, -30.0][..]),
        (r#"{"dtype": "f32", "values": [[1, 2], [3, 4]]}"#, &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
        (
            r#"{"dtype": "f32", "shape": [2, 2], "values": [1, 2, 3, 4]}"#,
            &[2, 2],
            &[1., 2., 3., 4.],
        ),
        (r#"{"dtype": "f32", "values": 7}"#, &[], &[7.0]),
        (r#"{"dtype": "f32", "values": ["inf", "-inf"]}"#, &[2], &[f32::INFINITY, -f32::INFINITY]),
        (r#"{"dtype": "f32", "values": [[], []]}"#, &[2, 0], &[]),
        (r#"{"dtype": "f32", "shape": [2, 0, 3], "values": []}"#, &[2, 0, 3], &[]),
        (r#"{"dtype": "f32", "shape": [2], "fill": 0.1}"#, &[2], &[0.1, 0.1]),
    ] {
        let program = tensor(body).unwrap_or_else(|e| panic!("{e}"));
        let tensor = &program.tensors[0];
        assert_eq!(tensor.spec.shape(), shape, "{body}");
        assert_eq!(f32s(&tensor.materialize().unwrap()), values, "{body}");
    }
    let program = tensor(r#"{"dtype": "f32", "values": ["nan"]}"#).unwrap();
    assert!(f32s(&program.tensors[0].materialize().unwrap())[0].is_nan());
}

#[test]
fn values_that_do_not_fit() {
    for (body, parts) in [
        (r#"{"dtype": "f32", "values": [[1, 2], [3]]}"#, ["2 and 1 elements", ""]),
        (r#"{"dtype": "f32", "values": [[1], 2]}"#, ["expected a list", "a number"]),
        (r#"{"dtype": "f32", "values": [1, [2]]}"#, ["expected a number", "a list"]),
        (r#"{"dtype": "f32", "shape": [3], "values": [1, 2]}"#, ["[3]", "got 2"]),
        (r#"{"dtype": "f32", "shape": [2, 2], "values": [[1, 2, 3, 4]]}"#, ["[2, 2]", "[1, 4]"]),
        (r#"{"dtype": "f32", "values": [1, "x"]}"#, ["a string", "expected a number"]),
        (r#"{"dtype": "f32", "values": [1, {}]}"#, ["map", "expected a number"]),
        (r#"{"dtype": "u8", "values": [1, 256]}"#, ["256", "0 to 255"]),
        (r#"{"dtype": "i8", "values": [1.5]}"#, ["1.5", "-128 to 127"]),
        (r#"{"dtype": "f16", "values": [1e6]}"#, ["out of range", "f16"]),
        (r#"{"dtype": "bool", "values": [2]}"#, ["true or false", "2"]),
        (r#"{"dtype": "f32", "values": [true]}"#, ["a number for f32", "true"]),
        (r#"{"dtype": "i32", "shape": [1], "fill": "nan"}"#, ["an integer", "NaN"]),
        (r#"{"dtype": "f32", "shape": [1], "fill": [1]}"#, ["one number", "a list"]),
        (r#"{"dtype": "f32", "shape": [1]}"#, ["no elements", "'fill'"]),
        (r#"{"shape": [1], "fill": 1}"#, ["'dtype' is missing", ""]),
        (r#"{"dtype": "f32", "fill": 1}"#, ["'shape' is missing", ""]),
        (r#"{"dtype": "f32", "shape": [1], "random": {}}"#, ["'seed' is missing", ""]),
        (r#"{"dtype": "f32", "shape": [1], "random": {"seed": -1}}"#, ["for 'seed'", "-1"]),
        (r#"{"dtype": "f32", "shape": [1], "random": {"seed": 1, "low": 2}}"#, ["low < high", ""]),
        (r#"{"dtype": "f16", "shape": [1], "random": {"seed": 1, "high": 1e9}}"#, ["f16", "range"]),
        (r#"{"dtype": "i32", "shape": [1], "random": {"seed": 1}}"#, ["'high' is missing", ""]),
        (r#"{"dtype": "u8", "shape": [1], "random": {"seed": 1, "high": 257}}"#, ["u8", "257"]),
        (r#"{"dtype": "i32", "shape": [1], "normal": {"seed": 1}}"#, ["cannot be i32", ""]),
        (
            r#"{"dtype": "f32", "shape": [1], "normal": {"seed": 1, "std": -1}}"#,
            ["non-negative", ""],
        ),
    ] {
        let error = tensor(body).expect_err(body).to_string();
        assert!(error.starts_with("t.json:1:"), "{error}");
        assert!(parts.iter().all(|p| error.contains(p)), "{body}: {error}");
    }
    let error = tensor("{\"dtype\": \"u8\", \"values\": [\n[1, 2],\n[3, 256]]}").unwrap_err();
    let span = error.span().unwrap();
    assert_eq!((span.line, span.column, span.len), (3, 5, 3), "{error}");
}

#[test]
fn bounds_of_random_elements_are_kept() {
    for (dtype, range) in
        [("u8", r#""low": 250, "high": 256"#), ("i8", r#""low": -128, "high": 128"#)]
    {
        let body =
            format!(r#"{{"dtype": "{dtype}", "shape": [1000], "random": {{"seed": 3, {range}}}}}"#);
        let made = tensor(&body).unwrap().tensors[0].materialize().unwrap();
        let distinct: std::collections::BTreeSet<u8> = made.iter().copied().collect();
        match dtype {
            "u8" => assert!(distinct.into_iter().eq(250..=255)),
            _ => assert!(distinct.len() > 200),
        }
    }
}

fn f32_vector(n: usize) -> TensorSpec {
    TensorSpec::contiguous(DType::F32, &[n]).unwrap()
}

#[test]
fn tolerances() {
    let run = |a: f32, e: f32, rtol, atol| -> Comparison {
        let tolerance = Tolerance { rtol, atol };
        compare(&bytes(&[a]), &f32_vector(1), &bytes(&[e]), tolerance)
    };
    assert!(run(1.25, 1.0, Some(0.25), Some(0.0)).ok);
    assert!(!run(1.25, 1.0, Some(0.24), Some(0.0)).ok);
    assert!(run(0.5, 0.0, Some(9.0), Some(0.5)).ok);
    assert!(!run(0.5, 0.0, Some(9.0), Some(0.4)).ok);
    assert!(run(1.000_005, 1.0, None, None).ok);
    assert!(!run(1.0001, 1.0, None, None).ok);
    assert!(run(f32::NAN, f32::NAN, None, None).ok);
    assert!(!run(f32::NAN, 1.0, Some(9.0), Some(9.0)).ok);
    assert!(!run(1.0, f32::NAN, Some(9.0), Some(9.0)).ok);
    assert!(run(f32::INFINITY, f32::INFINITY, None, None).ok);
    assert!(!run(f32::NEG_INFINITY, f32::INFINITY, Some(9.0), Some(9.0)).ok);
    assert!(!run(1e30, f32::INFINITY, Some(9.0), Some(9.0)).ok);
    let far = run(3.0, 2.0, Some(0.1), Some(0.0));
    assert_eq!((far.max_abs, far.max_rel, far.mismatches), (1.0, 0.5, 1));
    assert_eq!(run(1.0, 0.0, None, None).max_rel, f64::INFINITY);
}

#[test]
fn integers_are_exact_and_mismatches_have_an_index() {
    let spec = TensorSpec::new(DType::I8, Layout::strided(&[2, 2], &[1, 2], 0).unwrap()).unwrap();
    let actual = [1u8, 3, 2, 250];
    let loose = Tolerance { rtol: Some(1.0), atol: Some(100.0) };
    assert!(compare(&actual, &spec, &[1, 2, 3, 250], loose).ok);
    let off = compare(&actual, &spec, &[1, 2, 4, 251], loose);
    assert_eq!((off.ok, off.mismatches, off.max_abs), (false, 2, 1.0));
    assert_eq!(off.first.unwrap().to_string(), "at [1, 0] expected 4, got 3");
    let short = compare(&actual[..2], &spec, &[1, 2, 3, 250], loose);
    assert_eq!((short.ok, short.mismatches), (false, 2));
}

#[test]
fn outputs_check_dtype_and_shape() {
    let program = read(
        r#"{"millstream": 1, "default_tolerance": {"rtol": 0, "atol": 0.5},
        "tensors": {"x": {"dtype": "f32", "shape": [2], "fill": 0}}, "program": [],
        "outputs": {"x": {"values": [1, 2], "atol": 0.25}}}"#,
    )
    .unwrap();
    let output = &program.outputs[0];
    assert_eq!(output.tolerance, Tolerance { rtol: Some(0.0), atol: Some(0.25) });
    assert!(output.compare(&bytes(&[1.25, 2.0]), &f32_vector(2)).unwrap().ok);
    assert!(!output.compare(&bytes(&[1.5, 2.0]), &f32_vector(2)).unwrap().ok);
    let wrong = output.compare(&bytes(&[1.0; 3]), &f32_vector(3)).unwrap();
    assert!(matches!(wrong.first, Some(Mismatch::Shape { .. })) && !wrong.ok);
    let program = read(
        r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "shape": [2], "fill": 0}},
        "program": [], "outputs": {"x": {"dtype": "f64"}}}"#,
    )
    .unwrap();
    let wrong = program.outputs[0].compare(&bytes(&[0.0; 2]), &f32_vector(2)).unwrap();
    assert_eq!(wrong.first.unwrap().to_string(), "expected f64, got f32");
    let program = read(
        r#"{"millstream": 1, "tensors": {"x": {"dtype": "f32", "shape": [2], "fill": 0}},
        "program": [], "outputs": {"x": {}}}"#,
    )
    .unwrap();
    assert!(program.outputs[0].compare(&bytes(&[5.0; 2]), &f32_vector(2)).unwrap().ok);
}

#[test]
fn arguments_keep_their_types() {
    use millstream_trace::{Action, Body};
    use millstream_types::AttrValue;
    let program = read(
        r#"{"millstream": 1, "program": [{"op": "f", "attrs": {"a": 1, "b": 1.0, "c": true,
        "d": "f16", "e": [1, -2], "f": [1, 2.5], "g": [], "h": "-inf",
        "i": ["nan"], "j": -0.0}}]}"#,
    )
    .unwrap();
    let Body::Statements(block) = &program.body else { panic!("expected statements") };
    let Action::Call(call) = &block.statements[0].action else { panic!("expected a call") };
    for (name, value) in [
        ("a", AttrValue::Int(1)),
        ("b", AttrValue::Float(1.0)),
        ("c", AttrValue::Bool(true)),
        ("d", AttrValue::Str("f16".to_owned())),
        ("e", AttrValue::Ints(vec![1, -2])),
        ("f", AttrValue::Floats(vec![1.0, 2.5])),
        ("g", AttrValue::Ints(vec![])),
        ("h", AttrValue::Float(f64::NEG_INFINITY)),
        ("i", AttrValue::Floats(vec![f64::NAN])),
        ("j", AttrValue::Float(-0.0)),
    ] {
        assert_eq!(call.attrs.get(name), Some(&value), "{name}");
    }
}

#[test]
fn lines_of_a_list_have_spans() {
    use millstream_trace::Body;
    let program =
        read("{\"millstream\": 1, \"instructions\": [\n  \"one\",\n  \"t\\\"wo\"\n]}").unwrap();
    let Body::Instructions(lines) = &program.body else { panic!("expected instructions") };
    let seen: Vec<_> = lines.iter().map(|l| (&*l.text, l.span.line, l.span.column)).collect();
    assert_eq!(seen, [("one", 2, 3), ("t\"wo", 3, 3)]);
}

#[test]
fn streams_without_an_index_get_free_indices() {
    use millstream_types::DeviceId;
    let program = read(
        r#"{"millstream": 1, "program": [], "streams": {"a": {}, "b": {"index": 0}, "c": {},
        "d": {"device": "sim:0"}, "e": {"type": "ccl"}, "f": {"device": "cpu:0", "index": 5}}}"#,
    )
    .unwrap();
    let keys = program.stream_keys(&DeviceId::cpu(0)).unwrap();
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    let cpu = |n: u32| format!("cpu:0 compute {n}");
    assert_eq!(
        keys,
        [cpu(1), cpu(0), cpu(2), "sim:0 compute 0".to_owned(), "cpu:0 ccl 0".to_owned(), cpu(5)]
    );
    let program = read(
        r#"{"millstream": 1, "program": [],
        "streams": {"a": {"index": 0}, "b": {"device": "cpu:0", "index": 0}}}"#,
    )
    .unwrap();
    assert!(program.stream_keys(&DeviceId::sim(0)).is_ok());
    let error = program.stream_keys(&DeviceId::cpu(0)).unwrap_err();
    assert!(error.to_string().contains("two streams are cpu:0 compute 0"), "{error}");
}
