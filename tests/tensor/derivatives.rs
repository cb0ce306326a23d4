//! The table of derivatives, against PyTorch's gradients and against differences of results.
//!
//! `tools/reference/gradients.py` makes the file of cases.
//!
//! Long because all comparisons share the cases and the lists of exceptions.

use std::collections::{BTreeMap, BTreeSet};

use millstream::*;
use millstream_testing::machine::inline;
use safetensors::SafeTensors;
use serde_json::Value;

const FILE: &[u8] = include_bytes!("gradients.safetensors");

/// What PyTorch can differentiate, and the table of derivatives cannot yet.
const NOT_YET: &[&str] = &["grid_sampler_2d_backward", "grid_sampler_3d_backward"];

/// Ops whose gradient is computed by an op without a derivative.
const NO_SECOND: &[&str] = &["grid_sampler_2d", "grid_sampler_3d", "roi_align", "segment_reduce"];

/// Ops whose gradient is not that of their results: the cases do not fix their random numbers, or,
/// for the loss of alignments, the gradient holds for probabilities that add to 1.
const NOT_COMPARED: &[&str] = &["cast", "_ctc_loss"];

/// Ops for whose first operand PyTorch has no derivative, either.
const OF_SECOND_ALONE: &[&str] = &["igamma", "igammac", "special_zeta"];

/// Ops that read one triangle of a matrix. Their gradients are those of the whole matrix, whose
/// elements change in pairs.
const SYMMETRIC: &[&str] = &["linalg_cholesky_ex", "_linalg_eigh"];

/// The gradient of a result.
struct Seed {
    output: usize,
    tensor: Tensor,
    /// Whether the result's sign is open: the tensor has weights w of the loss Σ w |result|² / 2.
    is_open: bool,
}

/// The numbers whose sum is differentiated a second time, and the gradients of each input.
type Second = (Vec<f64>, Vec<Option<Vec<f64>>>);

struct Case {
    op: String,
    attrs: Attrs,
    inputs: Vec<Tensor>,
    seeds: Vec<Seed>,
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
        seeds: seeds
            .map(|(k, v)| Seed {
                output: k.parse().unwrap(),
                tensor: tensor(m, data, v),
                is_open: v.get("open").is_some(),
            })
            .collect(),
        gradients: gradients.collect(),
    }
}

/// Returns the elements, a complex one as its two parts.
fn numbers(x: &Tensor) -> Vec<f64> {
    match x.dtype() {
        DType::C128 => x.contiguous().unwrap().view_as_real().unwrap().to_vec().unwrap(),
        _ => x.to_vec().unwrap(),
    }
}

/// Returns the tensor of these elements, a complex one of their pairs.
fn of_numbers(m: &Machine, like: &Tensor, numbers: &[f64]) -> Tensor {
    let bytes = numbers.iter().flat_map(|v| v.to_ne_bytes()).collect();
    let spec = TensorSpec::contiguous(like.dtype(), like.shape()).unwrap();
    m.upload(&m.current_stream().unwrap(), spec, bytes).unwrap()
}

impl Case {
    fn is_leaf(&self, input: usize) -> bool {
        let is_inexact = matches!(self.inputs[input].dtype(), DType::F64 | DType::C128);
        is_inexact && !(input == 0 && OF_SECOND_ALONE.contains(&self.op.as_str()))
    }

    /// Makes the call on copies of the inputs, so that ops in place leave the inputs.
    fn call(&self, m: &Machine, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let copies: Vec<Tensor> = inputs.iter().map(|x| x.copy()).collect::<Result<_>>()?;
        let given: Vec<&Tensor> = copies.iter().collect();
        m.call(&self.op, &given).attrs(self.attrs.clone()).run()
    }

    fn gradients(&self, m: &Machine) -> Result<Vec<Option<Vec<f64>>>> {
        let mut leaves = Vec::new();
        for (k, input) in self.inputs.iter().enumerate() {
            let own = input.copy()?;
            leaves.push(if self.is_leaf(k) { own.with_grad()? } else { own });
        }
        let tape = m.tape();
        let results = self.call(m, &leaves)?;
        let given: Vec<Tensor> = self
            .seeds
            .iter()
            .map(|seed| match seed.is_open {
                true => no_grad(|| results[seed.output].mul(&seed.tensor)),
                false => Ok(seed.tensor.clone()),
            })
            .collect::<Result<_>>()?;
        let results = self.seeds.iter().map(|seed| &results[seed.output]);
        tape.backward_from(&results.zip(&given).collect::<Vec<_>>(), false)?;
        Ok(leaves.iter().map(|leaf| leaf.grad().map(|g| numbers(&g))).collect())
    }

    /// Returns the parts of the loss: each result times its seed.
    fn losses(&self, m: &Machine, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let results = self.call(m, inputs)?;
        let loss = |seed: &Seed| {
            let result = &results[seed.output];
            match (seed.is_open, result.dtype().is_complex()) {
                (true, true) => {
                    let parts = result.view_as_real()?;
                    parts.mul(&parts)?.mul(&seed.tensor.unsqueeze(-1)?)?.mul(0.5)
                }
                (true, false) => result.mul(result)?.mul(&seed.tensor)?.mul(0.5),
                (false, true) => result.view_as_real()?.mul(&seed.tensor.view_as_real()?),
                (false, false) => result.mul(&seed.tensor),
            }
        };
        self.seeds.iter().map(loss).collect()
    }

    fn loss(&self, m: &Machine, inputs: &[Tensor]) -> Result<Vec<f64>> {
        Ok(self.losses(m, inputs)?.iter().flat_map(numbers).collect())
    }

    /// Returns the gradients of the inputs that are leaves times weights, all of them added, and
    /// the gradients of that sum. None if it is constant.
    fn second(&self, m: &Machine, inputs: &[Tensor], is_wanted: bool) -> Result<Second> {
        let mut own = Vec::new();
        for (k, input) in inputs.iter().enumerate() {
            let copy = input.copy()?;
            own.push(if self.is_leaf(k) { copy.with_grad()? } else { copy });
        }
        let leaves: Vec<&Tensor> = own.iter().filter(|x| x.requires_grad()).collect();
        let tape = m.tape();
        let mut loss: Option<Tensor> = None;
        for part in self.losses(m, &own)? {
            let part = part.sum(..)?;
            loss = Some(match loss {
                Some(sum) => sum.add(&part)?,
                None => part,
            });
        }
        let first = tape.gradients(&loss.unwrap(), &leaves)?;
        let mut terms = Vec::new();
        let mut sum: Option<Tensor> = None;
        for gradient in first.iter().flatten() {
            let parts = match gradient.dtype().is_complex() {
                true => gradient.contiguous()?.view_as_real()?,
                false => gradient.clone(),
            };
            let weights: Vec<f64> = (0..parts.numel()).map(|k| (1.3 * k as f64).cos()).collect();
            let term = parts.mul(&Tensor::from_slice(&weights, parts.shape(), m)?)?;
            terms.extend(numbers(&term));
            let term = term.sum(..)?;
            sum = Some(match sum {
                Some(sum) => sum.add(&term)?,
                None => term,
            });
        }
        let gradients = match sum.filter(|_| is_wanted).map(|sum| tape.gradients(&sum, &leaves)) {
            Some(Err(error)) if error.to_string().contains("depends on no tensor") => Vec::new(),
            Some(gradients) => gradients?,
            None => Vec::new(),
        };
        let mut of_leaves = gradients.into_iter();
        let listed = own.iter().map(|x| match x.requires_grad() {
            true => of_leaves.next().flatten().map(|g| numbers(&g)),
            false => None,
        });
        Ok((terms, listed.collect()))
    }

    fn is_complex(&self) -> bool {
        self.inputs.iter().any(|x| x.dtype().is_complex())
    }

    /// Returns the numbers of an input that a difference changes, with their signs: one, or in a
    /// matrix of which one triangle is read that and its counterpart. None for the imaginary part
    /// of a Hermitian matrix's diagonal.
    fn moved(&self, input: usize, at: usize) -> Option<Vec<(usize, f64)>> {
        if !SYMMETRIC.contains(&self.op.as_str()) {
            return Some(vec![(at, 1.0)]);
        }
        let x = &self.inputs[input];
        let parts = if x.dtype().is_complex() { 2 } else { 1 };
        let (element, part, n) = (at / parts, at % parts, x.shape()[x.rank() - 1]);
        let (matrix, row, column) = (element / (n * n), element / n % n, element % n);
        let other = (matrix * n * n + column * n + row) * parts + part;
        match (at == other, part) {
            (true, 1) => None,
            (true, _) => Some(vec![(at, 1.0)]),
            (false, _) => Some(vec![(at, 1.0), (other, 1.0 - 2.0 * part as f64)]),
        }
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
        if NOT_YET.contains(&case.op.as_str()) {
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
            // PyTorch's Bessel functions lose half of the digits.
            let tolerance = if case.op.contains("_bessel_") { 1e-6 } else { 1e-9 };
            if let Some(difference) = difference(got.as_ref(), expected, tolerance) {
                wrong.push(format!("{}: input {k}: {difference}", case.name()));
            }
        }
    }
    let shown = wrong[..wrong.len().min(60)].join("\n");
    assert!(wrong.is_empty(), "{} wrong:\n{shown}", wrong.len());
}

/// Compares gradients with central differences, and counts.
#[derive(Default)]
struct Differences {
    /// How many cases of each op have been compared, those of complex numbers apart.
    done: BTreeMap<(String, bool), usize>,
    wrong: Vec<String>,
    compared: usize,
    skipped: usize,
}

impl Differences {
    /// Returns the case of a value if it is one of its op's first two with few and finite inputs.
    fn next(&self, m: &Machine, data: &[u8], value: &Value) -> Option<Case> {
        let op = value["op"].as_str().unwrap();
        if NOT_YET.contains(&op) || NOT_COMPARED.contains(&op) {
            return None;
        }
        let case = case(m, data, value);
        let leaves = (0..case.inputs.len()).filter(|&k| case.is_leaf(k));
        let all: Vec<f64> = leaves.flat_map(|k| numbers(&case.inputs[k])).collect();
        let done = self.done.get(&(op.to_owned(), case.is_complex()));
        let is_next = done.is_none_or(|&done| done < 2) && (2..=40).contains(&all.len());
        (is_next && all.iter().all(|v| v.is_finite())).then_some(case)
    }

    /// Compares the gradients of a case with differences of the numbers whose sum is
    /// differentiated. Where differences of two widths, or of two sides, do not agree, there is no
    /// derivative.
    fn compare(
        &mut self,
        m: &Machine,
        case: &Case,
        gradients: &[Option<Vec<f64>>],
        terms: impl Fn(&[Tensor]) -> Vec<f64>,
    ) {
        const STEP: f64 = 1e-5;
        *self.done.entry((case.op.clone(), case.is_complex())).or_default() += 1;
        let middle = terms(&case.inputs);
        for k in (0..case.inputs.len()).filter(|&k| case.is_leaf(k)) {
            let (Some(_), input) = (&case.gradients[k], &case.inputs[k]) else { continue };
            let elements = numbers(input);
            let zeros = vec![0.0; elements.len()];
            let got = gradients[k].as_ref().unwrap_or(&zeros);
            for at in 0..got.len() {
                let Some(pair) = case.moved(k, at) else { continue };
                let side = |step: f64| {
                    let mut moved = elements.clone();
                    pair.iter().for_each(|&(at, sign)| moved[at] += sign * step);
                    let mut inputs = case.inputs.clone();
                    inputs[k] = of_numbers(m, input, &moved);
                    terms(&inputs)
                };
                // Before they are added, as large numbers beside them would swallow differences.
                let slope = |above: &[f64], below: &[f64], width: f64| -> f64 {
                    above.iter().zip(below).map(|(a, b)| a - b).sum::<f64>() / width
                };
                let (above, below) = (side(STEP), side(-STEP));
                let wide = slope(&above, &below, 2.0 * STEP);
                let narrow = slope(&side(STEP / 4.0), &side(-STEP / 4.0), STEP / 2.0);
                let sides = (slope(&above, &middle, STEP), slope(&middle, &below, STEP));
                if !near(wide, narrow, 1e-5) || !near(sides.0, sides.1, 1e-2) {
                    self.skipped += 1;
                    continue;
                }
                self.compared += 1;
                let got: f64 = pair.iter().map(|&(at, sign)| sign * got[at]).sum();
                if !near(got, narrow, 1e-4) {
                    let text = format!("{}: input {k}[{at}]: {narrow}, got {got}", case.name());
                    self.wrong.push(text);
                }
            }
        }
    }

    fn finish(self, ops: usize) {
        let Differences { done, wrong, compared, skipped } = self;
        let shown = wrong[..wrong.len().min(60)].join("\n");
        assert!(wrong.is_empty(), "{} wrong:\n{shown}", wrong.len());
        assert!(done.len() > ops, "{} ops", done.len());
        assert!(compared > 15 * skipped, "{compared} compared, {skipped} skipped");
    }
}

#[test]
fn gradients_are_differences_of_results() {
    let m = inline();
    let (cases, data) = file();
    let mut differences = Differences::default();
    for value in cases["cases"].as_array().unwrap() {
        let Some(case) = differences.next(&m, &data, value) else { continue };
        let Ok(gradients) = case.gradients(&m) else { continue };
        differences.compare(&m, &case, &gradients, |x| case.loss(&m, x).unwrap());
    }
    differences.finish(300);
}

/// Formulas are calls of ops with derivatives, so gradients have gradients. Two tests, as it takes
/// as long as all others together: the ops before `m` and those after it have no op in common.
#[test]
fn gradients_of_gradients_are_differences_of_gradients() {
    compare_second(|op| op < "m", 130);
}

#[test]
fn gradients_of_gradients_are_differences_of_gradients_from_m_on() {
    compare_second(|op| op >= "m", 130);
}

/// Compares the gradients of gradients of some ops, which are more than `ops`.
fn compare_second(is_in: impl Fn(&str) -> bool, ops: usize) {
    let m = inline();
    let (cases, data) = file();
    let mut differences = Differences::default();
    let all = cases["cases"].as_array().unwrap().iter();
    for value in all.filter(|case| is_in(case["op"].as_str().unwrap())) {
        let Some(case) = differences.next(&m, &data, value) else { continue };
        match case.second(&m, &case.inputs, true) {
            Ok((_, gradients)) if !NO_SECOND.contains(&case.op.as_str()) => {
                differences
                    .compare(&m, &case, &gradients, |x| case.second(&m, x, false).unwrap().0);
            }
            Ok(_) => differences.wrong.push(format!("{} has a second derivative", case.op)),
            Err(error) if NO_SECOND.contains(&case.op.as_str()) => {
                assert!(error.to_string().contains("has no derivative"), "{error}");
            }
            Err(error) => differences.wrong.push(format!("{}: {error}", case.name())),
        }
    }
    differences.finish(ops);
}

/// Ops whose gradients are not in the file: programs have no derivative; for the others the
/// reference cases have none that is finite and differentiable.
const WITHOUT_CASES: &[&str] = &["closure", "fused", "multi_tensor", "scrub"];

/// Ops without a derivative, which a backward pass refuses by name: PyTorch has none.
const NONE_IN_PYTORCH: &[&str] = &[
    "_ctc_loss_backward",
    "geqrf",
    "hash_tensor",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
    "segment_reduce_backward",
    "special_airy_ai",
    "special_chebyshev_polynomial_t",
    "special_chebyshev_polynomial_u",
    "special_chebyshev_polynomial_v",
    "special_chebyshev_polynomial_w",
    "special_hermite_polynomial_h",
    "special_hermite_polynomial_he",
    "special_laguerre_polynomial_l",
    "special_legendre_polynomial_p",
    "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
    "special_shifted_chebyshev_polynomial_t",
    "special_shifted_chebyshev_polynomial_u",
    "special_shifted_chebyshev_polynomial_v",
    "special_shifted_chebyshev_polynomial_w",
    "special_spherical_bessel_j0",
    "unique",
];

fn has_case(cases: &Value, op: &str) -> bool {
    cases["cases"].as_array().unwrap().iter().any(|case| case["op"] == op)
}

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
    let differentiated: Vec<&&str> =
        NONE_IN_PYTORCH.iter().filter(|op| has_case(&cases, op)).collect();
    assert!(differentiated.is_empty(), "PyTorch has derivatives of {differentiated:?}");
    let without = WITHOUT_CASES.iter().chain(NONE_IN_PYTORCH).chain(NOT_YET);
    known.extend(without.map(|&op| op.to_owned()));
    let families = millstream::ops::families();
    let (collectives, others) = families.split_last().unwrap();
    assert_eq!(collectives.0, "Collectives");
    let ops = others.iter().flat_map(|(_, ops)| ops).map(|op| op.name());
    let missing: Vec<&str> = ops.filter(|op| !known.contains(*op)).collect();
    assert!(missing.is_empty(), "run tools/reference/gradients.py: {missing:?}");
}
