//! Inputs without a file: elements that hints define, probes of outputs, and random elements.

use millstream_trace::{Data, EtOptions, Mismatch, Program};
use millstream_types::{DType, TensorSpec};

use crate::execution_traces::{Folder, file, refuses, standard};

/// Returns a trace of relu whose tensors have no file, with this `meta.json`.
fn trace(meta: &str) -> Folder {
    let folder = Folder::new(&file("1.1.1", &standard()));
    folder.without("tensors.safetensors");
    folder.with("meta.json", meta.as_bytes());
    folder
}

const HINT: &str = r#""init": {"x": {"dist": "uniform", "lo": 1, "hi": 2}}"#;

fn floats(program: &Program) -> Vec<f32> {
    let bytes = program.tensors[0].materialize().unwrap();
    bytes.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn a_hint_defines_an_input_and_a_probe_checks_an_output() {
    let probe = |mean: f64| {
        format!(
            r#"{{{HINT}, "tolerance": {{"rtol": 0.0, "atol": 1}}, "probe": {{"y": {{"mean": {mean},
            "rms": 2, "max_abs": 3, "atol": 0.001, "samples": [[5, 3]]}}}}}}"#
        )
    };
    let program = trace(&probe(11.0 / 6.0)).load().unwrap();
    assert!(matches!(program.tensors[0].data, Data::Hint(_)));
    assert!(floats(&program).iter().all(|x| (1.0..2.0).contains(x)));
    assert_eq!(program.imported.as_ref().unwrap().diagnostics(), Vec::<String>::new());
    let spec = TensorSpec::contiguous(DType::F32, &[2, 3]).unwrap();
    let output = &program.outputs[0];
    let compare = |values: [f32; 6]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        output.compare(&bytes, &spec).unwrap()
    };
    let right = compare([1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
    // The root mean square is 2.04; all else is right.
    assert_eq!((right.mismatches, right.atol), (1, 0.001), "{right:?}");
    assert!(matches!(right.first, Some(Mismatch::Fact { .. })), "{right:?}");
    let wrong = compare([1.0, 1.0, 1.0, 2.0, 3.0, f32::NAN]);
    assert_eq!((wrong.ok, wrong.mismatches), (false, 4), "{wrong:?}");
}

#[test]
fn a_hint_of_another_kind_of_number_is_none() {
    let folder = trace(r#"{"init": {"x": {"dist": "randint", "lo": 0, "hi": 9}}}"#);
    refuses(&folder, &["node 2", "tensors.safetensors"]);
}

#[test]
fn random_inputs_are_asked_for_and_compare_nothing() {
    let folder = trace("{}");
    refuses(&folder, &["node 2", "tensors.safetensors"]);
    let random = |seed| EtOptions { random_inputs: Some(seed), ..EtOptions::default() };
    let first = folder.load_as(random(1)).unwrap();
    assert_ne!(floats(&first), floats(&folder.load_as(random(2)).unwrap()));
    assert_eq!(floats(&first), floats(&folder.load_as(random(1)).unwrap()));
    assert!(first.outputs[0].expected.is_none() && first.outputs[0].probe.is_none());
    let said = first.imported.unwrap().diagnostics();
    assert_eq!(said, ["RANDOM ELEMENTS in 1 tensor: no output was compared"]);
    // A hint is no random input.
    let hinted = trace(&format!("{{{HINT}}}")).load_as(random(1)).unwrap();
    assert_eq!(hinted.imported.unwrap().random_inputs, 0);
}
