//! Composite ops as calls of a machine, against PyTorch's results and gradients.
//!
//! `tools/reference/composites.py` makes the file of cases.

use std::collections::BTreeSet;

use millstream::ops::{CallSpec, Op, OutputSpec, composite};
use millstream::*;
use millstream_testing::machine::inline;
use serde_json::Value;

const FILE: &str = include_str!("composites.json");

/// Composites whose results are as long as the data says: their schemas infer the greatest length.
const OF_DATA: &[&str] = &["_pdist_forward", "nms", "tril_indices", "triu_indices"];

fn cases() -> Vec<Value> {
    serde_json::from_str(FILE).unwrap()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Bool(v) => f64::from(u8::from(*v)),
        Value::String(text) => text.parse().unwrap(),
        other => other.as_f64().unwrap(),
    }
}

fn values(value: &Value) -> Vec<f64> {
    value["values"].as_array().unwrap().iter().map(number).collect()
}

fn attrs(case: &Value) -> Attrs {
    let mut attrs = Attrs::new();
    for (name, value) in case["attrs"].as_object().unwrap() {
        let value = match value {
            Value::Bool(v) => AttrValue::Bool(*v),
            Value::Number(v) => AttrValue::Int(v.as_i64().unwrap()),
            Value::String(v) => AttrValue::Str(v.clone()),
            Value::Array(list) => {
                AttrValue::Ints(list.iter().map(|v| v.as_i64().unwrap()).collect())
            }
            Value::Object(object) => match object.get("dtype") {
                Some(dtype) => AttrValue::DType(dtype.as_str().unwrap().parse().unwrap()),
                None => AttrValue::Float(number(&object["float"])),
            },
            Value::Null => panic!("an argument without a value"),
        };
        attrs.set(name.clone(), value);
    }
    attrs
}

fn tensor(m: &Machine, value: &Value) -> Tensor {
    let shape = value["shape"].as_array().unwrap();
    let shape: Vec<usize> = shape.iter().map(|v| v.as_u64().unwrap() as usize).collect();
    let dtype: DType = value["dtype"].as_str().unwrap().parse().unwrap();
    let tensor = Tensor::from_slice(&values(value), &shape[..], m).unwrap();
    tensor.cast(dtype).unwrap()
}

fn elements(x: &Tensor) -> Vec<f64> {
    x.cast(DType::F64).unwrap().to_vec().unwrap()
}

fn are_near(a: &[f64], b: &[f64]) -> bool {
    let near = |(a, b): (&f64, &f64)| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-7 * (1.0 + b.abs())
    };
    a.len() == b.len() && a.iter().zip(b).all(near)
}

fn call(m: &Machine, case: &Value, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let given: Vec<&Tensor> = inputs.iter().collect();
    m.call(case["op"].as_str().unwrap(), &given).attrs(attrs(case)).run()
}

fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn results_are_pytorchs() {
    let m = inline();
    let mut wrong = Vec::new();
    for case in cases() {
        let inputs: Vec<Tensor> =
            case["inputs"].as_array().unwrap().iter().map(|v| tensor(&m, v)).collect();
        let made = match call(&m, &case, &inputs) {
            Ok(made) => made,
            Err(e) => {
                wrong.push(e.to_string());
                continue;
            }
        };
        for (k, expected) in case["results"].as_array().unwrap().iter().enumerate() {
            let shape: Vec<u64> = made[k].shape().iter().map(|&d| d as u64).collect();
            let is_right = expected["shape"] == serde_json::json!(shape)
                && expected["dtype"].as_str() == Some(made[k].dtype().name())
                && are_near(&elements(&made[k]), &values(expected));
            if !is_right {
                let op = &case["op"];
                wrong.push(format!("{op} {k}: {} {:?}, not {expected}", made[k], made[k].dtype()));
            }
        }
    }
    none(wrong);
}

#[test]
fn gradients_are_pytorchs() {
    let m = inline();
    let mut wrong = Vec::new();
    for case in cases() {
        let expected = case["gradients"].as_array().unwrap();
        let op = case["op"].as_str().unwrap();
        if expected.iter().all(Value::is_null) {
            continue;
        }
        let inputs = case["inputs"].as_array().unwrap().iter().zip(expected);
        let leaf = |(value, gradient): (&Value, &Value)| match gradient.is_null() {
            true => tensor(&m, value),
            false => tensor(&m, value).with_grad().unwrap(),
        };
        let inputs: Vec<Tensor> = inputs.map(leaf).collect();
        let tape = m.tape();
        let differentiated = || -> Result<()> {
            let made = call(&m, &case, &inputs)?;
            let results = case["differentiated"].as_array().unwrap().iter();
            let made: Vec<&Tensor> = results.map(|k| &made[k.as_u64().unwrap() as usize]).collect();
            let seeds: Vec<Tensor> = made
                .iter()
                .map(|x| {
                    let seed = |k: usize| 1.0 + (k % 5) as f64 / 4.0;
                    let all: Vec<f64> = (0..x.numel()).map(seed).collect();
                    Tensor::from_slice(&all, x.shape(), &m)
                })
                .collect::<Result<_>>()?;
            tape.backward_from(&made.into_iter().zip(&seeds).collect::<Vec<_>>(), false)
        };
        if let Err(e) = differentiated() {
            wrong.push(format!("{op}: {e}"));
            continue;
        }
        for (k, (input, expected)) in inputs.iter().zip(expected).enumerate() {
            if expected.is_null() {
                continue;
            }
            let none = || vec![0.0; input.numel()];
            let found = input.grad().map_or_else(none, |g| elements(&g));
            if !are_near(&found, &values(expected)) {
                wrong.push(format!("{op} {k}: {found:?}, not {expected}"));
            }
        }
    }
    none(wrong);
}

/// A recorder's calls of a composite give a machine's results, to the bit.
#[test]
fn recorded_calls_give_the_same() {
    let m = inline();
    let mut wrong = Vec::new();
    for case in cases() {
        let op = case["op"].as_str().unwrap();
        if OF_DATA.contains(&op) {
            continue;
        }
        // Some ops change their inputs.
        let inputs = || -> Vec<Tensor> {
            case["inputs"].as_array().unwrap().iter().map(|v| tensor(&m, v)).collect()
        };
        let expected: Vec<Vec<f64>> =
            call(&m, &case, &inputs()).unwrap().iter().map(elements).collect();
        let inputs = inputs();
        let launched = || -> Result<Vec<Vec<f64>>> {
            let mut r = m.recorder();
            let formals = inputs.iter().enumerate();
            let formals: Vec<RecordedTensor> = formals
                .map(|(k, x)| r.input(&format!("x{k}"), x.spec().clone()))
                .collect::<Result<_>>()?;
            let made = r.call(op, &formals).attrs(attrs(&case)).run()?;
            for (k, y) in made.iter().enumerate() {
                r.output(&format!("y{k}"), y)?;
            }
            let f = r.finish()?.compile()?;
            let mut launch = f.launch();
            for (k, x) in inputs.iter().enumerate() {
                launch = launch.input(&format!("x{k}"), x);
            }
            let launched = launch.run()?;
            (0..made.len()).map(|k| launched.output(&format!("y{k}")).map(elements)).collect()
        };
        match launched() {
            Ok(found) if format!("{found:?}") == format!("{expected:?}") => {}
            Ok(found) => wrong.push(format!("{op}: {found:?}, not {expected:?}")),
            Err(e) => wrong.push(format!("{op}: {e}")),
        }
    }
    none(wrong);
}

/// The schema of a composite infers the results that a machine returns.
#[test]
fn schemas_infer_the_results() {
    let m = inline();
    let mut wrong = Vec::new();
    for case in cases() {
        let op = case["op"].as_str().unwrap();
        let inputs: Vec<Tensor> =
            case["inputs"].as_array().unwrap().iter().map(|v| tensor(&m, v)).collect();
        let specs: Vec<TensorSpec> = inputs.iter().map(|x| x.spec().clone()).collect();
        let (composite, attrs) = (composite::find(op).unwrap(), attrs(&case));
        let signature = composite.check(CallSpec { inputs: &specs, attrs: &attrs }).unwrap();
        let made = call(&m, &case, &inputs).unwrap();
        let expected = made.iter().map(|x| x.spec().brief()).collect::<Vec<_>>();
        let outputs = signature.outputs.iter().map(|output| match output {
            OutputSpec::Fresh(spec) => spec.brief(),
            OutputSpec::View { of, layout, dtype } => {
                let dtype = dtype.unwrap_or(specs[*of].dtype);
                TensorSpec::new(dtype, layout.clone()).unwrap().brief()
            }
            OutputSpec::Same(k) => specs[*k].brief(),
            OutputSpec::Bounded(bound) => format!("up to {}", bound.brief()),
        });
        let outputs: Vec<String> = outputs.collect();
        if outputs != expected && !OF_DATA.contains(&op) {
            wrong.push(format!("{op}: {outputs:?}, not {expected:?}"));
        }
    }
    none(wrong);
}

#[test]
fn every_composite_has_a_case() {
    let cases = cases();
    let known: BTreeSet<&str> = cases.iter().map(|case| case["op"].as_str().unwrap()).collect();
    let ops: BTreeSet<&str> =
        composite::families().flat_map(|(_, ops)| ops).map(|op| op.name).collect();
    assert_eq!(ops.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
    let registry = millstream::ops::standard();
    assert!(ops.iter().all(|op| registry.id(op).is_err()), "a composite has the name of an op");
}

#[test]
fn errors_name_the_composite_and_the_place() {
    let m = inline();
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &m).unwrap();
    let y = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &m).unwrap();
    let error = m.call("logaddexp", &[&x, &y]).run().unwrap_err().to_string();
    assert!(error.contains("logaddexp: its call of 'maximum'"), "{error}");
    assert!(error.contains("composites.rs:"), "{error}");
    let error = m.call("logaddexp", &[&x]).run().unwrap_err().to_string();
    assert!(error.contains("logaddexp: expected 2 operand(s) (x, y), got 1"), "{error}");
    let error = m.call("logadexp", &[&x]).run().unwrap_err().to_string();
    assert!(error.contains("did you mean 'logaddexp'?"), "{error}");
    let error = m.prepare("logaddexp", &[&x, &x], Attrs::new()).unwrap_err().to_string();
    assert!(error.contains("it is a composite") && error.contains("cannot be prepared"), "{error}");
    let error = m.call("glu", &[&x]).attr("axis", 0).run().unwrap_err().to_string();
    assert!(error.contains("glu") && error.contains("axis"), "{error}");
}

/// A traced function replays the calls of a composite.
#[test]
fn captures_hold_the_calls() {
    let m = inline();
    let inner = m.clone();
    let step = m.traced(move |inputs, _| inner.call("logaddexp", &[&inputs[0]; 2]).run());
    for k in 0..4 {
        let x = Tensor::from_slice(&[k as f32], 1, &m).unwrap();
        let y = step.call(&[&x]).run().unwrap();
        let expected = k as f32 + std::f32::consts::LN_2;
        assert!((y[0].to_vec::<f32>().unwrap()[0] - expected).abs() < 1e-6);
    }
    assert_eq!(step.report().replays, 3);
}

#[test]
fn results_are_written_to_given_tensors() {
    let m = inline();
    let x = Tensor::from_slice(&[3.0f32, 4.0], 2, &m).unwrap();
    let out = Tensor::zeros(2, DType::F32, &m).unwrap();
    let made = m.call("hypot", &[&x, &x]).out(&[&out]).run().unwrap();
    assert_eq!(made.len(), 1);
    assert!((out.to_vec::<f32>().unwrap()[0] - 18f32.sqrt()).abs() < 1e-6);
}
