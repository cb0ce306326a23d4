//! Composite functions of one tensor, and their gradients. 16-bit floats are computed in f32.

use millstream_types::{Attrs, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, Second, in_floats, positive, wide, wrong};

const X: &[ArgDoc] = &[arg("x", "any shape")];

table! {
    op("celu", "x where it is positive, else alpha * (exp(x / alpha) - 1)", X, CELU, |args| {
        let alpha = args.number("alpha", 1.0)?;
        let attrs = Attrs::new().with("alpha", alpha).with("input_scale", 1.0 / alpha);
        Ok(args.tensor("x").op("elu", attrs))
    });
    op("threshold", "x where it is greater than the threshold, or NaN; else the value", X,
        THRESHOLD, |args| {
            let x = args.tensor("x");
            Ok(x.filled(x.le(number(args, "threshold")?), args.value("value")?))
        });
    op("special_entr", "-x * log(x); 0 where x is 0, and minus infinity below", X, &[],
        |args| in_floats(args.tensors(["x"]), |[x]| {
            let product = -(x * x.log());
            product.filled(x.eq(0.0), 0.0).filled(x.lt(0.0), f64::NEG_INFINITY)
        }));
    op("round_decimals", "x rounded to a number of decimals", X, DECIMALS, round);
    op("angle", "the angle of a complex number; of a real one, 0 or pi", X, &[], angle);
    op("mvlgamma", "the logarithm of the multivariate gamma function", X, MVLGAMMA,
        many_gammas);
    op("glu", "one half of x times the sigmoid of the other", GLU, GLU_DIM,
        |args| in_floats(halves(args)?, |[a, b]| a * b.sigmoid()));
    op("glu_backward", "the gradient of `glu`", GLU_BACKWARD, GLU_DIM, glu_backward);
    op("_prelu_kernel", "x where it is positive, else weight * x", PRELU, &[], |args| {
        let [x, weight] = args.tensors(["x", "weight"]);
        Ok(x.gt(0.0).choose(x, weight * x))
    });
    several("_prelu_kernel_backward", "the gradients of `_prelu_kernel`", PRELU_BACKWARD, &[], 2,
        |args| {
            let [grad, x, weight] = args.tensors(["grad", "x", "weight"]);
            let above = x.gt(0.0);
            Ok(vec![above.choose(grad, weight * grad), (x * grad).filled(above, 0.0)])
        });
    op("hardtanh_backward", "the gradient of `hardtanh`, which is 0 at the bounds and beyond",
        GRAD_X, BOUNDS, |args| {
            let [grad, x] = args.tensors(["grad", "x"]);
            let below = x.le(number(args, "min_val")?);
            Ok(grad.filled(below.logical_or(x.ge(number(args, "max_val")?)), 0))
        });
    several("log_sigmoid_forward",
        "the logarithm of the sigmoid, and a buffer that PyTorch's gradient reads", X, &[], 2,
        |args| {
            let x = args.tensor("x");
            Ok(vec![x.op("log_sigmoid", Attrs::new()), (-x.abs()).exp()])
        });
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

/// Returns the number of this name as a second operand.
fn number<'a>(args: Args<'a>, name: &str) -> Result<Second<'a>> {
    args.value(name).map(Second::Number)
}

fn angle(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    if x.dtype().is_complex() {
        let [re, im] = x.parts();
        return Ok(im.apply("atan2", [re]));
    }
    in_floats([x], |[x]| {
        let below = x.lt(0.0);
        (x * 0.0).filled(x.isinf(), 0.0).filled(below, std::f64::consts::PI)
    })
}

/// Adds the logarithms of p gamma functions, and a constant.
fn many_gammas(args: Args<'_>) -> Result<Expr<'_>> {
    let count = args.int("p")?.unwrap_or(1);
    if count < 1 {
        return Err(wrong("p: expected 1 or more"));
    }
    in_floats(args.tensors(["x"]), |[x]| {
        let term = |k: i64| (x + -0.5 * k as f64).op("lgamma", Attrs::new());
        let sum = (0..count - 1).rev().fold(term(count - 1), |sum, k| sum + term(k));
        sum + (count * (count - 1)) as f64 * std::f64::consts::PI.ln() / 4.0
    })
}

/// Returns both halves of the operand along the dimension of `glu`.
fn halves(args: Args<'_>) -> Result<[Expr<'_>; 2]> {
    let x = args.tensor("x");
    let shape = x.shape()?;
    let dim = positive(args.int("dim")?.unwrap_or(-1), shape.len())?;
    let half = shape.get(dim as usize).ok_or_else(|| wrong(format!("no dimension {dim}")))? / 2;
    Ok([0, half].map(|start| x.narrow(dim, start, half)))
}

fn glu_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let [a, b] = halves(args)?;
    let dim = positive(args.int("dim")?.unwrap_or(-1), a.rank()?)?;
    in_floats([args.tensor("grad"), a, b], |[grad, a, b]| {
        let gate = b.sigmoid();
        let of_a = grad * gate;
        let of_b = of_a * (gate * -1.0 + 1.0) * a;
        args.calls.cat(&[of_a, of_b], dim)
    })
}

fn rrelu_backward(args: Args<'_>) -> Result<Expr<'_>> {
    let [grad, x, noise] = args.tensors(["grad", "x", "noise"]);
    let (lower, upper) = (args.number("lower", 0.125)?, args.number("upper", 1.0 / 3.0)?);
    if args.flag("training", false)? && upper - lower > 1e-6 {
        return Ok(grad * noise);
    }
    let attrs = Attrs::new().with("negative_slope", (lower + upper) / 2.0);
    Ok(grad.with("leaky_relu_backward", x, attrs))
}

fn round(args: Args<'_>) -> Result<Expr<'_>> {
    let x = args.tensor("x");
    let decimals = args.int("decimals")?.unwrap_or(0);
    if decimals == 0 {
        return Ok(x.round());
    }
    let power = 10f64.powi(i32::try_from(decimals.unsigned_abs()).unwrap_or(i32::MAX));
    let (dtype, wide) = (x.dtype(), wide(x.dtype()));
    let x = x.cast(wide);
    let made = match decimals > 0 {
        true => (x * power).round() / power,
        false => (x / power).round() * power,
    };
    Ok(if dtype == wide { made } else { made.cast(dtype) })
}
