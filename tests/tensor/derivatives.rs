//! The table of derivatives, against PyTorch's gradients and against differences of results.
//!
//! `tools/reference/gradients.py` makes the file of cases.

use std::collections::BTreeSet;

use millstream::*;
use millstream_testing::machine::inline;
use safetensors::SafeTensors;
use serde_json::Value;

const FILE: &[u8] = include_bytes!("gradients.safetensors");

/// What PyTorch can differentiate, and this table cannot: gradients, and `digamma`, whose
/// derivative no op computes.
const NO_RULE: &[&str] = &[
    "_adaptive_avg_pool2d_backward",
    "avg_pool2d_backward",
    "binary_cross_entropy_backward",
    "convolution_backward",
    "diagonal_backward",
    "digamma",
    "digamma_",
    "elu_backward",
    "embedding_dense_backward",
    "gelu_backward",
    "hardshrink_backward",
    "hardswish_backward",
    "huber_loss_backward",
    "leaky_relu_backward",
    "log_sigmoid_backward",
    "max_pool2d_with_indices_backward",
    "native_dropout_backward",
    "select_backward",
    "slice_backward",
    "smooth_l1_loss_backward",
    "softplus_backward",
    "softshrink_backward",
];

/// Ops whose results are not f64, or whose random numbers the cases do not fix.
const NOT_COMPARED: &[&str] = &["cast"];

struct Case {
    op: String,
    attrs: Attrs,
    inputs: Vec<Tensor>,
    seeds: Vec<(usize, Tensor)>,
    gradients: Vec<Option<Vec<f64>>>,
}

fn file() -> (Value, Vec<u8>) {
    let file = SafeTensors::deserialize(FILE).unwrap();
    let cases = serde_json::from_slice(file.tensor("cases").unwrap().data()).unwrap();
    (cases, file.tensor("data").unwrap().data().to_vec())
}

fn attr(value: &Value) -> AttrValue {
    let number = |v: &Value| v.as_str().unwrap().parse::<f64>().unwrap();
    match value {
        Value::Bool(v) => AttrValue::Bool(*v),
        Value::Number(v) => AttrValue::Int(v.as_i64().unwrap()),
        Value::String(v) => AttrValue::Str(v.clone()),
        Value::Array(list) => AttrValue::Ints(list.iter().map(|v| v.as_i64().unwrap()).collect()),
        Value::Object(object) => match object.get("dtype") {
            Some(dtype) => AttrValue::DType(dtype.as_str().unwrap().parse().unwrap()),
            None => AttrValue::Float(number(&object["float"])),
        },
        Value::Null => panic!("an argument without a value"),
    }
}

fn slice<'a>(data: &'a [u8], place: &Value) -> &'a [u8] {
    let at = |k: usize| place[k].as_u64().unwrap() as usize;
    &data[at(0)..at(0) + at(1)]
}

fn tensor(m: &Machine, data: &[u8], value: &Value) -> Tensor {
    let shape: Vec<usize> =
        value["shape"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect();
    let dtype = value["dtype"].as_str().unwrap().parse().unwrap();
    let spec = TensorSpec::contiguous(dtype, &shape).unwrap();
    let stream = m.current_stream().unwrap();
    m.upload(&stream, spec, slice(data, &value["data"]).to_vec()).unwrap()
}

fn case(m: &Machine, data: &[u8], value: &Value) -> Case {
    let mut attrs = Attrs::new();
    for (name, argument) in value["attrs"].as_object().unwrap() {
        attrs.set(name.clone(), attr(argument));
    }
    let list = |name: &str| value[name].as_array().unwrap();
    let gradients = list("gradients").iter().map(|g| match g {
        Value::Null => None,
        place => Some(f64::from_bytes(slice(data, place))),
    });
    let seeds = value["seeds"].as_object().unwrap().iter();
    Case {
        op: value["op"].as_str().unwrap().to_owned(),
        attrs,
        inputs: list("inputs").iter().map(|v| tensor(m, data, v)).collect(),
        seeds: seeds.map(|(k, v)| (k.parse().unwrap(), tensor(m, data, v))).collect(),
        gradients: gradients.collect(),
    }
}

impl Case {
    /// Makes the call on copies of the inputs, so that ops in place leave the inputs.
    fn call(&self, m: &Machine, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let copies: Vec<Tensor> = inputs.iter().map(|x| x.copy()).collect::<Result<_>>()?;
        let given: Vec<&Tensor> = copies.iter().collect();
        m.call(&self.op, &given).attrs(self.attrs.clone()).run()
    }

    fn gradients(&self, m: &Machine) -> Result<Vec<Option<Vec<f64>>>> {
        let mut leaves = Vec::new();
        for input in &self.inputs {
            let own = input.copy()?;
            leaves.push(if own.dtype() == DType::F64 { own.with_grad()? } else { own });
        }
        let tape = m.tape();
        let results = self.call(m, &leaves)?;
        let from: Vec<(&Tensor, &Tensor)> =
            self.seeds.iter().map(|(k, seed)| (&results[*k], seed)).collect();
        tape.backward_from(&from, false)?;
        leaves.iter().map(|leaf| leaf.grad().map(|g| g.to_vec()).transpose()).collect()
    }

    /// Returns the sum of the results times their seeds.
    fn loss(&self, m: &Machine, inputs: &[Tensor]) -> Result<f64> {
        let results = self.call(m, inputs)?;
        let mut loss = 0.0;
        for (k, seed) in &self.seeds {
            loss += (&results[*k] * seed)?.sum(..)?.item::<f64>()?;
        }
        Ok(loss)
    }

    fn name(&self) -> String {
        let shapes: Vec<String> = self.inputs.iter().map(|x| x.spec().brief()).collect();
        format!("{}({}; {})", self.op, shapes.join(", "), self.attrs)
    }
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * b.abs().max(1.0)
}

/// Returns what differs between gradients; one that is left out counts as zeros.
fn difference(got: Option<&Vec<f64>>, expected: &[f64], tolerance: f64) -> Option<String> {
    let zeros = vec![0.0; expected.len()];
    let got = got.unwrap_or(&zeros);
    let agree = got.len() == expected.len()
        && got.iter().zip(expected).all(|(a, b)| near(*a, *b, tolerance));
    (!agree).then(|| format!("expected {expected:?}, got {got:?}"))
}

#[test]
fn gradients_are_those_of_pytorch() {
    let m = inline();
    let (cases, data) = file();
    let mut wrong = Vec::new();
    for value in cases["cases"].as_array().unwrap() {
        let case = case(&m, &data, value);
        if NO_RULE.contains(&case.op.as_str()) {
            let error = case.gradients(&m).unwrap_err().to_string();
            assert!(error.contains("has no derivative"), "{error}");
            continue;
        }
        let got = match case.gradients(&m) {
            Ok(got) => got,
            Err(error) => {
                wrong.push(format!("{}: {error}", case.name()));
                continue;
            }
        };
        for (k, (got, expected)) in got.iter().zip(&case.gradients).enumerate() {
            let Some(expected) = expected else { continue };
            if let Some(difference) = difference(got.as_ref(), expected, 1e-9) {
                wrong.push(format!("{}: input {k}: {difference}", case.name()));
            }
        }
    }
    let shown = wrong[..wrong.len().min(60)].join("\n");
    assert!(wrong.is_empty(), "{} wrong:\n{shown}", wrong.len());
}

/// Central differences of each op's first case with few and finite inputs. Where differences of two
/// widths do not agree, there is no derivative.
#[test]
fn gradients_are_differences_of_results() {
    const STEP: f64 = 1e-5;
    let m = inline();
    let (cases, data) = file();
    let mut done = BTreeSet::new();
    let mut wrong = Vec::new();
    let (mut compared, mut skipped) = (0, 0);
    for value in cases["cases"].as_array().unwrap() {
        let op = value["op"].as_str().unwrap();
        if NO_RULE.contains(&op) || NOT_COMPARED.contains(&op) || done.contains(op) {
            continue;
        }
        let case = case(&m, &data, value);
        let is_float = |x: &&Tensor| x.dtype() == DType::F64;
        let all: Vec<f64> =
            case.inputs.iter().filter(is_float).flat_map(|x| x.to_vec::<f64>().unwrap()).collect();
        if all.len() > 40 || all.iter().any(|v| !v.is_finite()) {
            continue;
        }
        let Ok(gradients) = case.gradients(&m) else { continue };
        done.insert(op.to_owned());
        for (k, input) in case.inputs.iter().enumerate().filter(|(_, x)| is_float(x)) {
            if case.gradients[k].is_none() {
                continue;
            }
            let elements = input.to_vec::<f64>().unwrap();
            let slope = |at: usize, width: f64| {
                let side = |step: f64| {
                    let mut moved = elements.clone();
                    moved[at] += step;
                    let mut inputs = case.inputs.clone();
                    inputs[k] = Tensor::from_slice(&moved, input.shape(), &m).unwrap();
                    case.loss(&m, &inputs).unwrap()
                };
                (side(width) - side(-width)) / (2.0 * width)
            };
            let zeros = vec![0.0; elements.len()];
            let got = gradients[k].as_ref().unwrap_or(&zeros);
            for (at, &got) in got.iter().enumerate() {
                let (wide, narrow) = (slope(at, STEP), slope(at, STEP / 4.0));
                if !near(wide, narrow, 1e-5) {
                    skipped += 1;
                    continue;
                }
                compared += 1;
                if !near(got, narrow, 1e-4) {
                    wrong.push(format!("{}: input {k}[{at}]: {narrow}, got {got}", case.name()));
                }
            }
        }
    }
    assert!(done.len() > 190, "{} ops", done.len());
    assert!(compared > 15 * skipped, "{compared} compared, {skipped} skipped");
    let shown = wrong[..wrong.len().min(60)].join("\n");
    assert!(wrong.is_empty(), "{} wrong:\n{shown}", wrong.len());
}

/// Ops whose gradients are not in the file: collectives and `fused` have no derivative; for the
/// others the reference cases have none that is finite and differentiable.
const WITHOUT_CASES: &[&str] = &["closure", "fused", "scrub"];

/// Ops without a derivative so far, which a backward pass refuses by name, and ops of integers.
const WITHOUT_DERIVATIVE: &[&str] = &[
    "complex",
    "polar",
    "conj_physical",
    "view_as_real",
    "view_as_complex",
    "_fft_c2c",
    "_fft_r2c",
    "_fft_c2r",
    "linalg_eig",
    "gcd",
    "lcm",
    "nextafter",
    "i0",
    "special_i0e",
    "special_i1",
    "special_i1e",
    "special_bessel_j0",
    "special_bessel_j1",
    "special_bessel_y0",
    "special_bessel_y1",
    "special_modified_bessel_i0",
    "special_modified_bessel_i1",
    "special_modified_bessel_k0",
    "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
    "special_spherical_bessel_j0",
    "special_airy_ai",
    "special_erfcx",
    "special_log_ndtr",
    "special_ndtri",
    "polygamma",
    "special_zeta",
    "igamma",
    "igammac",
    "special_chebyshev_polynomial_t",
    "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v",
    "special_chebyshev_polynomial_w",
    "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u",
    "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w",
    "special_hermite_polynomial_h",
    "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p",
    "frexp",
    "logcumsumexp",
    "cummax",
    "cummin",
    "linalg_cholesky_ex",
    "linalg_lu_factor_ex",
    "lu_unpack",
    "linalg_lu_solve",
    "linalg_solve_triangular",
    "linalg_inv_ex",
    "linalg_qr",
    "geqrf",
    "linalg_householder_product",
    "ormqr",
    "_linalg_svd",
    "_linalg_eigh",
    "linalg_matrix_exp",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
    "linalg_lstsq",
    "searchsorted",
    "histc",
    "unique",
    "mode",
    "nonzero_static",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
    "segment_reduce",
    "segment_reduce_backward",
    "fractional_max_pool",
    "_ctc_loss",
    "_ctc_loss_backward",
];

#[test]
fn every_op_has_a_case_or_no_gradient() {
    let (cases, _) = file();
    let mut known: BTreeSet<String> = cases["cases"]
        .as_array()
        .unwrap()
        .iter()
        .chain(cases["without"].as_array().unwrap())
        .map(|case| case["op"].as_str().or(case.as_str()).unwrap().to_owned())
        .collect();
    let without = WITHOUT_CASES.iter().chain(WITHOUT_DERIVATIVE);
    known.extend(without.map(|&op| op.to_owned()));
    let families = millstream::ops::families();
    let (collectives, others) = families.split_last().unwrap();
    assert_eq!(collectives.0, "Collectives");
    let ops = others.iter().flat_map(|(_, ops)| ops).map(|op| op.name());
    let missing: Vec<&str> = ops.filter(|op| !known.contains(*op)).collect();
    assert!(missing.is_empty(), "run tools/reference/gradients.py: {missing:?}");
}
