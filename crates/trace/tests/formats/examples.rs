//! Every example loads, conforms to the JSON Schema, and has the content that its name announces.

use std::path::PathBuf;

use millstream_trace::{
    Action, Body, Data, Entry, LoadOptions, Program, Results, Statement, Target, Tensor, Tolerance,
    ValueRef, compare, expand, load, load_bytes, schema,
};
use millstream_types::{DeviceId, StreamType, TensorSpec};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces")
}

fn example(name: &str) -> Program {
    load(folder().join(name), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn all() -> Vec<PathBuf> {
    let entries = expand([folder()]).unwrap();
    let paths = entries.into_iter().map(|entry| match entry {
        Entry::Trace(path) => path,
        other => panic!("{other:?}"),
    });
    let paths: Vec<_> = paths.collect();
    assert!(paths.len() >= 15, "{paths:?}");
    paths
}

fn statements(program: &Program) -> &[Statement] {
    match &program.body {
        Body::Statements(block) => &block.statements,
        Body::Instructions(_) => panic!("expected statements"),
    }
}

#[test]
fn examples_conform_to_the_schema() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let placed = folder().join("../placement");
    let placed = ["mesh.json", "mesh_executable.json", "two_layers.json"].map(|f| placed.join(f));
    for path in all().into_iter().chain(placed) {
        let trace = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let faults: Vec<String> =
            validator.iter_errors(&trace).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
    }
}

#[test]
fn schema_and_loader_agree() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let tensor = |body: &str| format!(r#"{{"millstream":1,"tensors":{{{body}}},"program":[]}}"#);
    for (text, fits) in [
        (r#"{"millstream": 1, "program": []}"#.to_owned(), true),
        (r#"{"millstream": 1, "instructions": ["a line"]}"#.to_owned(), true),
        (r#"{"millstream": 2, "program": []}"#.to_owned(), true),
        (r#"{"millstream": 3, "program": []}"#.to_owned(), false),
        (r#"{"program": []}"#.to_owned(), false),
        (r#"{"millstream": 1}"#.to_owned(), false),
        (r#"{"millstream": 1, "program": [], "instructions": []}"#.to_owned(), false),
        (r#"{"millstream": 1, "program": [], "stream": {}}"#.to_owned(), false),
        (r#"{"millstream": 1, "program": [{"barrier": false}]}"#.to_owned(), false),
        (r#"{"millstream": 1, "program": [{"relase": "x"}]}"#.to_owned(), false),
        (
            r#"{"millstream": 1, "streams": {"a": {"type": "CPU"}}, "program": []}"#.to_owned(),
            false,
        ),
        (
            r#"{"millstream": 1, "streams": {"a": {"type": "filter"}}, "program": []}"#.to_owned(),
            true,
        ),
        (tensor(r#""a": {"dtype": "f32", "shape": [1], "fill": "nan"}"#), true),
        (tensor(r#""a": {"dtype": "f32", "values": [[1, 2], [3, "inf"]]}"#), true),
        (tensor(r#""a": {"dtype": "f32", "shape": [2], "normal": {"seed": 1}}"#), true),
        (tensor(r#""a": {"dtype": "f32", "shape": [2], "normal": {}}"#), false),
        (tensor(r#""a": {"dtype": "f32", "shape": [1]}"#), false),
        (tensor(r#""a": {"dtype": "f33", "shape": [1], "fill": 0}"#), false),
        (tensor(r#""a": {"dtype": "f32", "shape": ["1"], "fill": 0}"#), false),
        (tensor(r#""a": {"dtype": "f32", "shape": [-1], "fill": 0}"#), false),
        (tensor(r#""a": {"dtype": "f32", "shape": [1], "fill": [0]}"#), false),
        (tensor(r#""": {"dtype": "f32", "shape": [1], "fill": 0}"#), false),
    ] {
        let trace = serde_json::from_str(&text).unwrap();
        assert_eq!(validator.is_valid(&trace), fits, "{text}");
        let loaded = load_bytes("t", text.as_bytes(), None, &LoadOptions::default());
        assert_eq!(loaded.is_ok(), fits, "{text}: {loaded:?}");
    }
}

#[test]
fn data_of_every_example_can_be_materialized() {
    for path in all() {
        let program = load(&path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        for tensor in &program.tensors {
            let bytes = tensor.materialize().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(bytes.len(), tensor.storage_bytes);
            let same = compare(&bytes, &tensor.spec, &dense(tensor), Tolerance::default());
            assert!(same.ok, "{}: {same:?}", tensor.name);
        }
    }
}

/// Returns the tensor's elements in a dense layout.
fn dense(tensor: &Tensor) -> Vec<u8> {
    let spec = TensorSpec::contiguous(tensor.spec.dtype, tensor.spec.shape()).unwrap();
    let storage_bytes = spec.span_bytes();
    Tensor { spec, storage_bytes, ..tensor.clone() }.materialize().unwrap()
}

#[test]
fn a_program_is_resolved() {
    let program = example("diamond.json");
    assert_eq!(program.name.as_deref(), Some("diamond"));
    assert!(program.names_streams());
    let keys = program.stream_keys(&DeviceId::sim(1)).unwrap();
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["sim:1 compute 0", "sim:1 compute 1", "sim:1 compute 2", "sim:1 compute 3"]);
    let Action::Call(call) = &statements(&program)[3].action else { panic!("expected a call") };
    let name = |v: &ValueRef| program.value(*v).name.as_str();
    assert_eq!(call.op, "add");
    assert_eq!(call.inputs.iter().map(name).collect::<Vec<_>>(), ["l", "r"]);
    let Results::New(out) = &call.results else { panic!("expected new results") };
    assert_eq!(program.outputs[2].value, Some(out[0]));
    let span = statements(&program)[3].span;
    assert!(program.source.text()[span.range()].starts_with(r#"{ "op": "add""#));
    assert_eq!((span.line, span.column), (14, 5));
    assert!(program.origin(span).to_string().ends_with("diamond.json:14"));
    assert!(!example("add.json").names_streams());
}

#[test]
fn a_name_defined_again_is_another_value() {
    let program = example("release.json");
    let out = |n: usize| match &statements(&program)[n].action {
        Action::Call(call) => call.results.clone(),
        other => panic!("{other:?}"),
    };
    assert_ne!(out(0), out(3));
}

#[test]
fn streams_have_devices_and_types() {
    let program = example("sim-copies.json");
    let types: Vec<_> = program.streams.iter().map(|s| s.ty).collect();
    assert_eq!(types, [StreamType::HOST2DEVICE, StreamType::COMPUTE, StreamType::DEVICE2HOST]);
    assert!(program.streams.iter().all(|s| s.device == Some(DeviceId::sim(0))));
    assert_eq!(program.tensors[0].device, Some(DeviceId::cpu(0)));
}

#[test]
fn executables_and_sections_are_resolved() {
    let program = example("executable.json");
    let step = &program.executables[0];
    let names = |values: &[ValueRef]| -> Vec<String> {
        values.iter().map(|v| program.value(*v).name.clone()).collect()
    };
    let inputs: Vec<_> = step.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!((inputs, names(&step.bound)), (vec!["left", "right"], vec!["total".to_owned()]));
    assert_eq!(step.inputs[0].spec.shape(), [3]);
    assert_eq!(step.block.events, ["made"]);
    let launches: Vec<_> = statements(&program)
        .iter()
        .filter_map(|s| match &s.action {
            Action::Launch(launch) => Some((&**launch, names(&launch.inputs))),
            _ => None,
        })
        .collect();
    assert_eq!(launches.len(), 3);
    assert_eq!(launches[1].1, ["s", "x"]);
    let target = |k: usize| match launches[k].0.outputs[0] {
        Some(Target::New(value)) => format!("new {}", program.value(value).name),
        Some(Target::Into(value)) => format!("into {}", program.value(value).name),
        None => "none".to_owned(),
    };
    assert_eq!([target(0), target(1), target(2)], ["new s", "into result", "none"]);
    assert!(launches[0].0.stream.is_some() && launches[2].0.stream.is_none());
    let program = example("critical-section.json");
    let Action::CriticalSection { tensors, body } = &statements(&program)[1].action else {
        panic!("expected a critical section");
    };
    assert_eq!((tensors.len(), body.len()), (1, 2));
}

#[test]
fn strided_tensors_have_the_declared_layout() {
    let program = example("views.json");
    let columns = &program.tensors[2];
    let bytes = columns.materialize().unwrap();
    let ints: Vec<i32> =
        bytes.chunks_exact(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect();
    assert_eq!(ints, [0, 1, 3, 0, 2, 4]);
    assert!(matches!(columns.data, Data::Values(_)));
}

#[test]
fn the_trace_in_the_documentation_loads() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace-format.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let blocks = text.split("```json\n").skip(1).map(|b| b.split("```").next().unwrap());
    let whole: Vec<&str> = blocks.filter(|b| b.starts_with("{\n  \"millstream\"")).collect();
    assert_eq!(whole.len(), 1);
    load_bytes("docs", whole[0].as_bytes(), None, &LoadOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
}
