//! Lowers random ops: to the results that the recording holds, or to own random numbers.

use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, apply, call, formula, one_call, shape_of};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// Random ops, whose results cannot be computed again.
pub(super) const RANDOM: &[&str] = &[
    "bernoulli",
    "bernoulli_",
    "binomial",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "multinomial",
    "native_dropout",
    "normal",
    "normal_",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random_",
    "randperm",
    "rrelu_with_noise",
    "rrelu_with_noise_",
    "uniform_",
    "_fused_dropout",
    "_sample_dirichlet",
    "_standard_gamma",
];

/// Returns whether a random op draws no numbers.
fn draws_nothing(base: &str, given: &NodeArgs<'_>) -> Lowered<bool> {
    Ok(match base {
        "native_dropout" => {
            matches!(given.get("train"), Some((_, Arg::Bool(false))))
                || number(given, "p", 0.5)? == 0.0
        }
        "rrelu_with_noise" | "rrelu_with_noise_" => !given.flag("training"),
        _ => false,
    })
}

/// Lowers a random op, named without namespace and overload.
pub(super) fn random(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    if draws_nothing(base, given)? {
        return fixed(import, base, given);
    }
    if import.has_recorded_results() {
        return recorded(import, base, given, results);
    }
    import.check_may_draw()?;
    drawn(import, base, given, results)
}

/// Lowers a random op that draws nothing.
fn fixed(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Made> {
    if base == "native_dropout" {
        let x = given.tensor(import, "input")?;
        let attrs = Attrs::new().with("p", 0.0).with("train", false);
        return Ok(import.call("native_dropout", &[x], attrs)?.into_iter().map(Some).collect());
    }
    let x = given.tensor(import, "self")?;
    let slope = (number(given, "lower", 0.125)? + number(given, "upper", 1.0 / 3.0)?) / 2.0;
    let op = if base.ends_with('_') { "leaky_relu_" } else { "leaky_relu" };
    Ok(vec![Some(one_call(import, op, &[x], Attrs::new().with("negative_slope", slope))?)])
}

/// Takes the results that the recording holds. Of dropout it holds the mask alone, so that errors
/// before the dropout are still found.
pub(super) fn recorded(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    match base {
        "native_dropout" => {
            let x = given.tensor(import, "input")?;
            let mask = import.recorded_result(1, results)?;
            let p = number(given, "p", 0.5)?;
            let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            let scale = Attrs::new().with("scale", scale);
            let out = one_call(import, "native_dropout_backward", &[x, mask], scale)?;
            return Ok(vec![Some(out), Some(mask)]);
        }
        "rrelu_with_noise" | "rrelu_with_noise_" => {
            let noise = import.recorded_argument(given, "noise")?;
            return rrelu(import, base, given, noise);
        }
        _ => {}
    }
    let mut made = Vec::new();
    for (k, result) in results.iter().enumerate() {
        made.push(match result {
            Some(_) => Some(import.recorded_result(k, results)?),
            None => None,
        });
    }
    match (base.ends_with('_') && given.get("self").is_some(), &made[..]) {
        (true, &[Some(made)]) => {
            let target = given.tensor(import, "self")?;
            import.call("copy_", &[target, made], Attrs::new())?;
            Ok(vec![Some(target)])
        }
        (true, _) => Err(unsupported("an op in place with several results")),
        (false, _) => Ok(made),
    }
}

/// Lowers `rrelu_with_noise` with known noise.
fn rrelu(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>, noise: Val) -> Lowered<Made> {
    let x = given.tensor(import, "self")?;
    let target = given.tensor(import, "noise")?;
    import.call("copy_", &[target, noise], Attrs::new())?;
    let op = if base.ends_with('_') { "mul_" } else { "mul" };
    Ok(vec![Some(one_call(import, op, &[x, target], Attrs::new())?)])
}

/// Computes a random op with own numbers.
fn drawn(
    import: &mut Import<'_>,
    base: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let made = match base {
        "random_" => {
            let x = given.tensor(import, "self")?;
            let high = given.int("to")?.unwrap_or(beyond(import.spec(x).dtype));
            let bounds = Attrs::new().with("low", given.int("from")?.unwrap_or(0));
            draw(import, "randint_", &[x], bounds.with("high", high))?
        }
        "geometric_" => geometric(import, given)?,
        "multinomial" => multinomial(import, given)?,
        _ => {
            if let Some(rule) = formula::find(import, base, given) {
                return rule.apply(import, given, results);
            }
            if import.ops().find(base).is_none() {
                let message = "no own numbers have this distribution; record the program";
                return Err(unsupported(message));
            }
            let mut converted = args::convert(import, base, given, &[], results)?;
            converted.attrs = import.next_draw(converted.attrs);
            return call(import, base, converted);
        }
    };
    Ok(vec![Some(made)])
}

pub(super) fn number(given: &NodeArgs<'_>, name: &str, default: f64) -> Lowered<f64> {
    match given.scalar(name)? {
        None => Ok(default),
        Some(AttrValue::Int(v)) => Ok(v as f64),
        Some(AttrValue::Float(v)) => Ok(v),
        Some(_) => Err(Refusal::Wrong(format!("'{name}': expected a number"))),
    }
}

/// Calls one of our random ops.
fn draw(import: &mut Import<'_>, op: &str, inputs: &[Val], attrs: Attrs) -> Lowered<Val> {
    let attrs = import.next_draw(attrs);
    one_call(import, op, inputs, attrs)
}

/// Returns the end of the numbers that `random_` draws without bounds: whole numbers that the dtype
/// holds.
fn beyond(dtype: DType) -> i64 {
    match dtype {
        DType::Bool => 2,
        DType::U8 => 1 << 8,
        DType::I8 => 1 << 7,
        DType::I16 => 1 << 15,
        DType::I32 => 1 << 31,
        DType::U16 => 1 << 16,
        DType::U32 => 1 << 32,
        DType::I64 | DType::U64 => i64::MAX,
        DType::F16 => (1 << 11) + 1,
        DType::BF16 => (1 << 8) + 1,
        DType::F32 | DType::C64 => (1 << 24) + 1,
        DType::F64 | DType::C128 => (1 << 53) + 1,
    }
}

/// Returns new numbers of f64 in the shape of a tensor.
fn numbers_like(import: &mut Import<'_>, op: &str, x: Val) -> Lowered<Val> {
    let shape = shape_of(import, x);
    draw(import, op, &[], Attrs::new().with("shape", shape).with("dtype", DType::F64))
}

/// Lowers `geometric_` to a function of exponential numbers.
fn geometric(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let time = numbers_like(import, "exponential", x)?;
    let rate = -(-number(given, "p", 0.5)?).ln_1p();
    let steps = one_call(import, "div", &[time], Attrs::new().with("other", rate))?;
    let steps = apply(import, "ceil", &[steps])?;
    let steps = one_call(import, "clamp_min", &[steps], Attrs::new().with("min", 1i64))?;
    import.call("copy_", &[x, steps], Attrs::new())?;
    Ok(x)
}

/// Lowers `multinomial`: the indices of the greatest quotients of a probability by an exponential
/// number.
///
/// Source: P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", 2006.
fn multinomial(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let mut weights = given.tensor(import, "self")?;
    let count = given.int("num_samples")?.unwrap_or(1);
    let again = given.flag("replacement");
    if again {
        let mut shape = shape_of(import, weights);
        shape.insert(shape.len().saturating_sub(1), count);
        let at = Attrs::new().with("dim", -2i64);
        let each = one_call(import, "unsqueeze", &[weights], at)?;
        weights = one_call(import, "expand", &[each], Attrs::new().with("size", shape))?;
    }
    let times = numbers_like(import, "exponential", weights)?;
    let keys = one_call(import, "div", &[weights, times], Attrs::new())?;
    if again {
        return one_call(import, "argmax", &[keys], Attrs::new().with("dim", -1i64));
    }
    let made = import.call("topk", &[keys], Attrs::new().with("k", count).with("dim", -1i64))?;
    made.get(1).copied().ok_or_else(|| unsupported("topk returns no indices"))
}
