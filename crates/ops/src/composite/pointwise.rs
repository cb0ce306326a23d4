//! Composite functions of one tensor, and their gradients. 16-bit floats are computed in f32.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::{along, positive, wide};
use super::{Calls, Composite, Given, Symbol, op, several, table, wrong};

const X: &[ArgDoc] = &[arg("x", "any shape")];

table! {
    op(
        "celu",
        "x where it is positive, else alpha * (exp(x / alpha) - 1)",
        X,
        CELU,
        |calls, given| {
            let alpha = given.number("alpha", 1.0)?;
            let attrs = Attrs::new().with("alpha", alpha).with("input_scale", 1.0 / alpha);
            calls.one("elu", &[given.tensor("x")?], attrs)
        },
    );
    op("threshold", "x where it is greater than the threshold, or NaN; else the value", X,
        THRESHOLD, threshold);
    op(
        "special_entr",
        "-x * log(x); 0 where x is 0, and minus infinity below",
        X,
        &[],
        |calls, given| {
            calls.in_floats(&[given.tensor("x")?], |calls, given| entropy(calls, given[0]))
        },
    );
    op("round_decimals", "x rounded to a number of decimals", X, DECIMALS, round);
    op("angle", "the angle of a complex number; of a real one, 0 or pi", X, &[], angle);
    op("mvlgamma", "the logarithm of the multivariate gamma function", X, MVLGAMMA, many_gammas);
    op("glu", "one half of x times the sigmoid of the other", GLU, GLU_DIM, glu);
    op("glu_backward", "the gradient of `glu`", GLU_BACKWARD, GLU_DIM, glu_backward);
    op("_prelu_kernel", "x where it is positive, else weight * x", PRELU, &[], |calls, given| {
        let (x, weight) = (given.tensor("x")?, given.tensor("weight")?);
        let above = calls.by("gt", x, 0.0)?;
        let scaled = calls.apply("mul", &[weight, x])?;
        calls.apply("where", &[above, x, scaled])
    });
    several("_prelu_kernel_backward", "the gradients of `_prelu_kernel`", PRELU_BACKWARD, &[], 2,
        prelu_backward);
    op("hardtanh_backward", "the gradient of `hardtanh`, which is 0 at the bounds and beyond",
        GRAD_X, BOUNDS, hardtanh_backward);
    several("log_sigmoid_forward",
        "the logarithm of the sigmoid, and a buffer that PyTorch's gradient reads", X, &[], 2,
        log_sigmoid);
    op("rrelu_with_noise_backward", "the gradient of `rrelu_with_noise`", RRELU, RRELU_ATTRS,
        rrelu_backward);
}

const CELU: &[ArgDoc] = &[arg("alpha", "the limit of negative results, negated").number().or("1")];
const THRESHOLD: &[ArgDoc] = &[
    arg("threshold", "the greatest replaced number").number(),
    arg("value", "its replacement").number(),
];
const DECIMALS: &[ArgDoc] = &[arg("decimals", "their number").int()];
const MVLGAMMA: &[ArgDoc] = &[arg("p", "the number of dimensions").int()];
const GLU: &[ArgDoc] = &[arg("x", "an even length along the dimension")];
const GLU_DIM: &[ArgDoc] = &[arg("dim", "the dimension that is halved").int().or("-1")];
const GLU_BACKWARD: &[ArgDoc] = &[arg("grad", "the shape of the result"), arg("x", "as for `glu`")];
const PRELU: &[ArgDoc] = &[arg("x", "any shape"), arg("weight", "a shape that broadcasts with x")];
const PRELU_BACKWARD: &[ArgDoc] = &[
    arg("grad", "x's shape"),
    arg("x", "any shape"),
    arg("weight", "a shape that broadcasts with x"),
];
const GRAD_X: &[ArgDoc] = &[arg("grad", "x's shape"), arg("x", "any shape")];
const BOUNDS: &[ArgDoc] =
    &[arg("min_val", "the lower bound").number(), arg("max_val", "the upper bound").number()];
const RRELU: &[ArgDoc] =
    &[arg("grad", "x's shape"), arg("x", "any shape"), arg("noise", "the slopes")];
const RRELU_ATTRS: &[ArgDoc] = &[
    arg("lower", "the least slope").number().or("0.125"),
    arg("upper", "the greatest slope").number().or("0.3333333333333333"),
    arg("training", "whether the slopes were random").flag().or("false"),
    arg("self_is_result", "").flag().ignored(),
];

fn glu(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (a, b) = halves(calls, given)?;
    calls.in_floats(&[a, b], |calls, given| {
        let gate = calls.apply("sigmoid", &[given[1]])?;
        calls.apply("mul", &[given[0], gate])
    })
}

fn angle(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    if calls.dtype(x).is_complex() {
        let [re, im] = calls.parts(x)?;
        return calls.apply("atan2", &[im, re]);
    }
    calls.in_floats(&[x], |calls, given| {
        let x = given[0];
        let below = calls.by("lt", x, 0.0)?;
        let zeros = calls.by("mul", x, 0.0)?;
        let infinite = calls.apply("isinf", &[x])?;
        let zeros = calls.filled(zeros, infinite, 0.0)?;
        calls.filled(zeros, below, std::f64::consts::PI)
    })
}

fn threshold(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let below = Attrs::new().with("other", given.value("threshold")?);
    let below = calls.one("le", &[x], below)?;
    calls.one("masked_fill", &[x, below], Attrs::new().with("value", given.value("value")?))
}

/// -x ln x; 0 at 0, and minus infinity below.
fn entropy(calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
    let log = calls.apply("log", &[x])?;
    let product = calls.apply("mul", &[x, log])?;
    let product = calls.apply("neg", &[product])?;
    let zero = calls.by("eq", x, 0.0)?;
    let product = calls.filled(product, zero, 0.0)?;
    let below = calls.by("lt", x, 0.0)?;
    calls.filled(product, below, f64::NEG_INFINITY)
}

/// Adds the logarithms of p gamma functions, and a constant.
fn many_gammas(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let count = given.int("p")?.unwrap_or(1);
    calls.in_floats(&[x], |calls, given| {
        let mut sum = None;
        for k in (0..count).rev() {
            let shifted = calls.by("add", given[0], -0.5 * k as f64)?;
            let term = calls.apply("lgamma", &[shifted])?;
            sum = Some(match sum {
                None => term,
                Some(sum) => calls.apply("add", &[sum, term])?,
            });
        }
        let sum = sum.ok_or_else(|| wrong("p: expected 1 or more".to_owned()))?;
        let constant = (count * (count - 1)) as f64 * std::f64::consts::PI.ln() / 4.0;
        calls.by("add", sum, constant)
    })
}

/// Returns both halves of the operand along the dimension of `glu`.
fn halves(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<(Symbol, Symbol)> {
    let x = given.tensor("x")?;
    let shape = calls.spec(x).shape().to_vec();
    let dim = positive(given.int("dim")?.unwrap_or(-1), shape.len())?;
    let length = usize::try_from(dim).ok().and_then(|dim| shape.get(dim)).copied();
    let half = length.ok_or_else(|| wrong(format!("no dimension {dim}")))? as i64 / 2;
    let part = |start: i64| along(dim).with("start", start).with("length", half);
    let first = calls.one("narrow", &[x], part(0))?;
    Ok((first, calls.one("narrow", &[x], part(half))?))
}

fn glu_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    let (a, b) = halves(calls, given)?;
    let rank = calls.rank(a);
    let dim = positive(given.int("dim")?.unwrap_or(-1), rank)?;
    calls.in_floats(&[grad, a, b], |calls, given| {
        let gate = calls.apply("sigmoid", &[given[2]])?;
        let of_a = calls.apply("mul", &[given[0], gate])?;
        let rest = calls.by("mul", gate, -1.0)?;
        let rest = calls.by("add", rest, 1.0)?;
        let of_b = calls.apply("mul", &[of_a, rest])?;
        let of_b = calls.apply("mul", &[of_b, given[1]])?;
        calls.one("cat", &[of_a, of_b], along(dim))
    })
}

fn prelu_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let grad = given.tensor("grad")?;
    let (x, weight) = (given.tensor("x")?, given.tensor("weight")?);
    let above = calls.by("gt", x, 0.0)?;
    let scaled = calls.apply("mul", &[weight, grad])?;
    let of_x = calls.apply("where", &[above, grad, scaled])?;
    let product = calls.apply("mul", &[x, grad])?;
    let of_weight = calls.filled(product, above, 0.0)?;
    Ok(vec![of_x, of_weight])
}

fn hardtanh_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let (grad, x) = (given.tensor("grad")?, given.tensor("x")?);
    let mut outside = Vec::new();
    for (name, op) in [("min_val", "le"), ("max_val", "ge")] {
        let bound = given.value(name)?;
        outside.push(calls.one(op, &[x], Attrs::new().with("other", bound))?);
    }
    let outside = calls.one("logical_or", &outside, Attrs::new())?;
    calls.one("masked_fill", &[grad, outside], Attrs::new().with("value", 0i64))
}

fn log_sigmoid(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let x = given.tensor("x")?;
    let result = calls.one("log_sigmoid", &[x], Attrs::new())?;
    let mut buffer = x;
    for op in ["abs", "neg", "exp"] {
        buffer = calls.one(op, &[buffer], Attrs::new())?;
    }
    Ok(vec![result, buffer])
}

fn rrelu_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let grad = given.tensor("grad")?;
    let (lower, upper) = (given.number("lower", 0.125)?, given.number("upper", 1.0 / 3.0)?);
    if given.flag("training", false)? && upper - lower > 1e-6 {
        let noise = given.tensor("noise")?;
        return calls.one("mul", &[grad, noise], Attrs::new());
    }
    let x = given.tensor("x")?;
    let attrs = Attrs::new().with("negative_slope", (lower + upper) / 2.0);
    calls.one("leaky_relu_backward", &[grad, x], attrs)
}

fn round(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("x")?;
    let decimals = given.int("decimals")?.unwrap_or(0);
    if decimals == 0 {
        return calls.apply("round", &[x]);
    }
    let dtype = calls.dtype(x);
    let exponent = i32::try_from(decimals.unsigned_abs()).unwrap_or(i32::MAX);
    let power = 10f64.powi(exponent);
    let (before, after) = if decimals > 0 { ("mul", "div") } else { ("div", "mul") };
    let x = calls.cast(x, wide(dtype))?;
    let scaled = calls.by(before, x, power)?;
    let rounded = calls.apply("round", &[scaled])?;
    let result = calls.by(after, rounded, power)?;
    match dtype == wide(dtype) {
        true => Ok(result),
        false => calls.cast(result, dtype),
    }
}
