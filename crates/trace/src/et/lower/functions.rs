//! Lowers functions of elements, and losses of them, that several of Millstream's ops compute
//! together. 16-bit floats are computed in f32, as in PyTorch's kernels.

use millstream_ops::promotion::{common_dtype, floating};
use millstream_types::{AttrValue, Attrs, DType};

use super::composed::positive;
use super::{Made, complex, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// Lowers an op, named without the `_` of its form in place; `None` if it is none of these.
pub(super) fn function(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    let pair = |import: &mut Import<'_>, f: Pair| -> Lowered<Val> {
        let (x, y) = (given.tensor(import, "self")?, given.tensor(import, "other")?);
        in_floats(import, &[x, y], |import, given| f(import, given[0], given[1]))
    };
    let made = match name {
        "celu" => {
            let x = given.tensor(import, "self")?;
            let alpha = number(given, "alpha", 1.0)?;
            let attrs = Attrs::new().with("alpha", alpha).with("input_scale", 1.0 / alpha);
            one_call(import, "elu", &[x], attrs)?
        }
        "copysign" => match given.get("other") {
            Some((_, Arg::Tensor(_))) => pair(import, copysign)?,
            _ => copysign_of_number(import, given)?,
        },
        "hypot" => pair(import, hypot)?,
        "xlogy" => pair(import, |import, x, y| xlog(import, x, y, "log"))?,
        "special_xlog1py" => pair(import, |import, x, y| xlog(import, x, y, "log1p"))?,
        "logaddexp" => pair(import, |import, x, y| match import.spec(x).dtype.is_complex() {
            true => complex::log_of_sum(import, x, y),
            false => log_of_sum(import, x, y, ["exp", "log1p"]),
        })?,
        "logaddexp2" => pair(import, |import, x, y| log_of_sum(import, x, y, ["exp2", "log2"]))?,
        "ldexp" => {
            let (x, y) = (given.tensor(import, "self")?, given.tensor(import, "other")?);
            in_floats(import, &[x, y], |import, given| {
                let power = apply(import, "exp2", &[given[1]])?;
                apply(import, "mul", &[given[0], power])
            })?
        }
        "special_entr" => {
            let x = given.tensor(import, "self")?;
            in_floats(import, &[x], |import, given| entropy(import, given[0]))?
        }
        "heaviside" => {
            let (x, at_zero) = (given.tensor(import, "self")?, given.tensor(import, "values")?);
            let zero = by(import, "eq", x, 0.0)?;
            let above = by(import, "gt", x, 0.0)?;
            let dtype = import.spec(x).dtype;
            let step = one_call(import, "cast", &[above], Attrs::new().with("dtype", dtype))?;
            apply(import, "where", &[zero, at_zero, step])?
        }
        "angle" => {
            let x = given.tensor(import, "self")?;
            in_floats(import, &[x], |import, given| {
                let x = given[0];
                let below = by(import, "lt", x, 0.0)?;
                let zeros = by(import, "mul", x, 0.0)?;
                let infinite = apply(import, "isinf", &[x])?;
                let zeros = filled(import, zeros, infinite, 0.0)?;
                filled(import, zeros, below, std::f64::consts::PI)
            })?
        }
        "mvlgamma" => many_gammas(import, given)?,
        "glu" => {
            let (a, b) = halves(import, given)?;
            in_floats(import, &[a, b], |import, given| {
                let gate = apply(import, "sigmoid", &[given[1]])?;
                apply(import, "mul", &[given[0], gate])
            })?
        }
        "glu_backward" => glu_backward(import, given)?,
        "_prelu_kernel" => {
            let (x, weight) = (given.tensor(import, "self")?, given.tensor(import, "weight")?);
            let above = by(import, "gt", x, 0.0)?;
            let scaled = apply(import, "mul", &[weight, x])?;
            apply(import, "where", &[above, x, scaled])?
        }
        "_prelu_kernel_backward" => return prelu_backward(import, given).map(Some),
        "addr" => outer(import, given)?,
        "soft_margin_loss" => soft_margin(import, given)?,
        "soft_margin_loss_backward" => soft_margin_backward(import, given)?,
        "_trilinear" => trilinear(import, given)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(made)]))
}

type Pair = fn(&mut Import<'_>, Val, Val) -> Lowered<Val>;

/// Calls an op without arguments.
pub(super) fn apply(import: &mut Import<'_>, op: &str, inputs: &[Val]) -> Lowered<Val> {
    one_call(import, op, inputs, Attrs::new())
}

/// Calls an op whose second operand is a number.
pub(super) fn by(import: &mut Import<'_>, op: &str, x: Val, number: f64) -> Lowered<Val> {
    one_call(import, op, &[x], Attrs::new().with("other", number))
}

/// Replaces the elements where a mask is true.
pub(super) fn filled(import: &mut Import<'_>, x: Val, mask: Val, value: f64) -> Lowered<Val> {
    one_call(import, "masked_fill", &[x, mask], Attrs::new().with("value", value))
}

pub(super) fn cast(import: &mut Import<'_>, x: Val, dtype: DType) -> Lowered<Val> {
    match import.spec(x).dtype == dtype {
        true => Ok(x),
        false => one_call(import, "cast", &[x], Attrs::new().with("dtype", dtype)),
    }
}

/// Returns the number of this name.
pub(super) fn number(given: &NodeArgs<'_>, name: &str, default: f64) -> Lowered<f64> {
    match given.scalar(name)? {
        None => Ok(default),
        Some(AttrValue::Int(v)) => Ok(v as f64),
        Some(AttrValue::Float(v)) => Ok(v),
        Some(AttrValue::Bool(v)) => Ok(f64::from(u8::from(v))),
        Some(_) => Err(Refusal::Wrong(format!("'{name}': expected a number"))),
    }
}

/// Computes a function of operands in their common float type, 16-bit floats in f32.
pub(super) fn in_floats(
    import: &mut Import<'_>,
    operands: &[Val],
    f: impl FnOnce(&mut Import<'_>, &[Val]) -> Lowered<Val>,
) -> Lowered<Val> {
    let each = operands.iter().map(|&x| (import.spec(x).dtype, import.spec(x).shape().len()));
    let dtype = floating(common_dtype(each.collect::<Vec<_>>(), None)?);
    let wide = match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    };
    let mut converted = Vec::new();
    for &x in operands {
        converted.push(cast(import, x, wide)?);
    }
    let made = f(import, &converted)?;
    cast(import, made, dtype)
}

/// The magnitude of x with the sign of y.
fn copysign(import: &mut Import<'_>, x: Val, y: Val) -> Lowered<Val> {
    let negative = apply(import, "signbit", &[y])?;
    let size = apply(import, "abs", &[x])?;
    let below = apply(import, "neg", &[size])?;
    apply(import, "where", &[negative, below, size])
}

/// As [`copysign`], of a number.
fn copysign_of_number(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let is_negative = number(given, "other", 0.0)?.is_sign_negative();
    in_floats(import, &[x], |import, given| {
        let size = apply(import, "abs", given)?;
        if is_negative { apply(import, "neg", &[size]) } else { Ok(size) }
    })
}

/// The root of x² + y², without an overflow of the squares.
fn hypot(import: &mut Import<'_>, x: Val, y: Val) -> Lowered<Val> {
    let (x, y) = (apply(import, "abs", &[x])?, apply(import, "abs", &[y])?);
    let (most, least) = (apply(import, "maximum", &[x, y])?, apply(import, "minimum", &[x, y])?);
    let share = apply(import, "div", &[least, most])?;
    let square = apply(import, "mul", &[share, share])?;
    let sum = by(import, "add", square, 1.0)?;
    let root = apply(import, "sqrt", &[sum])?;
    let scaled = apply(import, "mul", &[root, most])?;
    let zero = by(import, "eq", most, 0.0)?;
    let finite = apply(import, "where", &[zero, most, scaled])?;
    let infinite = [apply(import, "isinf", &[x])?, apply(import, "isinf", &[y])?];
    let infinite = apply(import, "logical_or", &infinite)?;
    filled(import, finite, infinite, f64::INFINITY)
}

/// x times a logarithm of y; 0 where x is 0 and y a number.
fn xlog(import: &mut Import<'_>, x: Val, y: Val, logarithm: &str) -> Lowered<Val> {
    let log = apply(import, logarithm, &[y])?;
    let product = apply(import, "mul", &[x, log])?;
    let zero = by(import, "eq", x, 0.0)?;
    let product = filled(import, product, zero, 0.0)?;
    let none = apply(import, "isnan", &[y])?;
    filled(import, product, none, f64::NAN)
}

/// The logarithm of the sum of two powers.
fn log_of_sum(
    import: &mut Import<'_>,
    x: Val,
    y: Val,
    [power, logarithm]: [&str; 2],
) -> Lowered<Val> {
    let most = apply(import, "maximum", &[x, y])?;
    let between = apply(import, "sub", &[x, y])?;
    let between = apply(import, "abs", &[between])?;
    let between = apply(import, "neg", &[between])?;
    let mut rest = apply(import, power, &[between])?;
    if logarithm == "log2" {
        // log2(1 + rest), exact for a small rest.
        rest = apply(import, "log1p", &[rest])?;
        rest = by(import, "mul", rest, std::f64::consts::LOG2_E)?;
    } else {
        rest = apply(import, logarithm, &[rest])?;
    }
    let sum = apply(import, "add", &[most, rest])?;
    // Equal infinities have no difference.
    let same = apply(import, "eq", &[x, y])?;
    let infinite = apply(import, "isinf", &[x])?;
    let both = apply(import, "logical_and", &[same, infinite])?;
    apply(import, "where", &[both, x, sum])
}

/// -x ln x; 0 at 0, and minus infinity below.
fn entropy(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    let log = apply(import, "log", &[x])?;
    let product = apply(import, "mul", &[x, log])?;
    let product = apply(import, "neg", &[product])?;
    let zero = by(import, "eq", x, 0.0)?;
    let product = filled(import, product, zero, 0.0)?;
    let below = by(import, "lt", x, 0.0)?;
    filled(import, product, below, f64::NEG_INFINITY)
}

/// Lowers `mvlgamma`: the sum of the logarithms of p gamma functions, and a constant.
fn many_gammas(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let count = given.int("p")?.unwrap_or(1);
    in_floats(import, &[x], |import, given| {
        let mut sum = None;
        for k in (0..count).rev() {
            let shifted = by(import, "add", given[0], -0.5 * k as f64)?;
            let term = apply(import, "lgamma", &[shifted])?;
            sum = Some(match sum {
                None => term,
                Some(sum) => apply(import, "add", &[sum, term])?,
            });
        }
        let sum = sum.ok_or_else(|| Refusal::Wrong("'p': expected 1 or more".to_owned()))?;
        let constant = (count * (count - 1)) as f64 * std::f64::consts::PI.ln() / 4.0;
        by(import, "add", sum, constant)
    })
}

/// Returns both halves of the operand along the dimension of `glu`.
fn halves(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<(Val, Val)> {
    let x = given.tensor(import, "self")?;
    let shape = import.spec(x).shape().to_vec();
    let dim = positive(given.int("dim")?.unwrap_or(-1), shape.len());
    let length = usize::try_from(dim).ok().and_then(|dim| shape.get(dim)).copied();
    let half = length.ok_or_else(|| Refusal::Wrong(format!("no dimension {dim}")))? as i64 / 2;
    let part = |start: i64| Attrs::new().with("dim", dim).with("start", start).with("length", half);
    let first = one_call(import, "narrow", &[x], part(0))?;
    Ok((first, one_call(import, "narrow", &[x], part(half))?))
}

fn glu_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let grad = given.tensor(import, "grad_output")?;
    let (a, b) = halves(import, given)?;
    let rank = import.spec(a).shape().len();
    let dim = positive(given.int("dim")?.unwrap_or(-1), rank);
    in_floats(import, &[grad, a, b], |import, given| {
        let gate = apply(import, "sigmoid", &[given[2]])?;
        let of_a = apply(import, "mul", &[given[0], gate])?;
        let rest = by(import, "mul", gate, -1.0)?;
        let rest = by(import, "add", rest, 1.0)?;
        let of_b = apply(import, "mul", &[of_a, rest])?;
        let of_b = apply(import, "mul", &[of_b, given[1]])?;
        one_call(import, "cat", &[of_a, of_b], Attrs::new().with("dim", dim))
    })
}

fn prelu_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let grad = given.tensor(import, "grad_output")?;
    let (x, weight) = (given.tensor(import, "self")?, given.tensor(import, "weight")?);
    let above = by(import, "gt", x, 0.0)?;
    let scaled = apply(import, "mul", &[weight, grad])?;
    let of_x = apply(import, "where", &[above, grad, scaled])?;
    let product = apply(import, "mul", &[x, grad])?;
    let of_weight = filled(import, product, above, 0.0)?;
    Ok(vec![Some(of_x), Some(of_weight)])
}

/// Lowers `addr`: a matrix plus the outer product of two vectors.
fn outer(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let (a, b) = (given.tensor(import, "vec1")?, given.tensor(import, "vec2")?);
    let column = one_call(import, "unsqueeze", &[a], Attrs::new().with("dim", -1i64))?;
    let product = apply(import, "mul", &[column, b])?;
    let (of_x, dtype) = (import.spec(x).dtype, import.spec(product).dtype);
    let product = complex::scaled(import, given, "alpha", product)?;
    let product = cast(import, product, dtype)?;
    if !complex::is_complex(given, "beta") && number(given, "beta", 1.0)? == 0.0 {
        return Ok(product);
    }
    let scaled = complex::scaled(import, given, "beta", x)?;
    let scaled = cast(import, scaled, of_x)?;
    apply(import, "add", &[scaled, product])
}

fn reduced(import: &mut Import<'_>, x: Val, reduction: i64) -> Lowered<Val> {
    match reduction {
        0 => Ok(x),
        1 => apply(import, "mean", &[x]),
        2 => apply(import, "sum", &[x]),
        other => Err(unsupported(format!("reduction {other}"))),
    }
}

fn soft_margin(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let (x, target) = (given.tensor(import, "self")?, given.tensor(import, "target")?);
    let reduction = given.int("reduction")?.unwrap_or(1);
    let product = apply(import, "mul", &[x, target])?;
    let product = apply(import, "neg", &[product])?;
    let power = apply(import, "exp", &[product])?;
    let loss = apply(import, "log1p", &[power])?;
    reduced(import, loss, reduction)
}

fn soft_margin_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let grad = given.tensor(import, "grad_output")?;
    let (x, target) = (given.tensor(import, "self")?, given.tensor(import, "target")?);
    let product = apply(import, "mul", &[x, target])?;
    let share = apply(import, "neg", &[product])?;
    let share = apply(import, "sigmoid", &[share])?;
    let slope = apply(import, "mul", &[share, target])?;
    let slope = apply(import, "neg", &[slope])?;
    let slope = apply(import, "mul", &[slope, grad])?;
    match given.int("reduction")?.unwrap_or(1) {
        1 => {
            let count = import.spec(x).numel().max(1) as f64;
            by(import, "div", slope, count)
        }
        _ => Ok(slope),
    }
}

/// Lowers `_trilinear`: the sum of the products of three operands with new dimensions.
fn trilinear(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let mut product = None;
    for (operand, expanded) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")] {
        let mut x = given.tensor(import, operand)?;
        for dim in given.ints(expanded)?.unwrap_or_default() {
            x = one_call(import, "unsqueeze", &[x], Attrs::new().with("dim", dim))?;
        }
        product = Some(match product {
            None => x,
            Some(before) => apply(import, "mul", &[before, x])?,
        });
    }
    let product = product.ok_or_else(|| unsupported("no operands"))?;
    match given.ints("sumdim")?.unwrap_or_default() {
        dims if dims.is_empty() => Ok(product),
        dims => one_call(import, "sum", &[product], Attrs::new().with("dim", dims)),
    }
}
