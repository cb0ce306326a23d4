//! Lowers random ops: to the results that the recording holds, or to own random numbers.

use millstream_types::{AttrValue, Attrs, DType};

use super::create::create;
use super::{Made, one_call};
use crate::et::args::NodeArgs;
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
    let is = |name: &str, value: bool| -> Lowered<bool> {
        Ok(given.scalar(name)? == Some(AttrValue::Bool(value)))
    };
    Ok(match base {
        "native_dropout" => is("train", false)? || number(given, "p", 0.5)? == 0.0,
        "rrelu_with_noise" | "rrelu_with_noise_" => !is("training", true)?,
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
    drawn(import, base, given)
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
fn drawn(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Made> {
    let made = match base {
        "rand" | "rand_like" => {
            let made = created(import, base, given)?;
            draw_in_place(import, "uniform_", made, Attrs::new())?
        }
        "randn" | "randn_like" => {
            let made = created(import, base, given)?;
            draw_in_place(import, "normal_", made, Attrs::new())?
        }
        "randint" | "randint_like" => {
            let made = created(import, base, given)?;
            let bounds = Attrs::new()
                .with("low", given.int("low")?.unwrap_or(0))
                .with("high", given.int("high")?.unwrap_or(0));
            draw_in_place(import, "randint_", made, bounds)?
        }
        "normal" => normal(import, given)?,
        "uniform_" | "normal_" | "exponential_" | "log_normal_" | "random_" => {
            in_place(import, base, given)?
        }
        "cauchy_" | "geometric_" => transformed(import, base, given)?,
        "bernoulli" | "bernoulli_" => bernoulli(import, base, given)?,
        "randperm" => {
            let count = Attrs::new().with("shape", vec![given.int("n")?.unwrap_or(0)]);
            let keys = draw(import, "uniform", &[], count.with("dtype", DType::F64))?;
            let order = one_call(import, "argsort", &[keys], Attrs::new())?;
            match given.dtype("dtype")? {
                None | Some(DType::I64) => order,
                Some(dtype) => {
                    one_call(import, "cast", &[order], Attrs::new().with("dtype", dtype))?
                }
            }
        }
        "multinomial" => multinomial(import, given)?,
        "native_dropout" => {
            let x = given.tensor(import, "input")?;
            let attrs = import.next_draw(Attrs::new().with("p", number(given, "p", 0.5)?));
            return Ok(import.call(base, &[x], attrs)?.into_iter().map(Some).collect());
        }
        "rrelu_with_noise" | "rrelu_with_noise_" => {
            let x = given.tensor(import, "self")?;
            let bounds = Attrs::new()
                .with("from", number(given, "lower", 0.125)?)
                .with("to", number(given, "upper", 1.0 / 3.0)?);
            let slopes = one_call(import, "clone", &[x], Attrs::new())?;
            let slopes = draw_in_place(import, "uniform_", slopes, bounds)?;
            let above = one_call(import, "gt", &[x], Attrs::new().with("other", 0i64))?;
            let one = Attrs::new().with("value", 1i64);
            let noise = one_call(import, "masked_fill", &[slopes, above], one)?;
            return rrelu(import, base, given, noise);
        }
        _ => return Err(unsupported("no own numbers have this distribution; record the program")),
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

fn draw_in_place(import: &mut Import<'_>, op: &str, x: Val, attrs: Attrs) -> Lowered<Val> {
    draw(import, op, &[x], attrs)?;
    Ok(x)
}

/// Returns the new tensor of a creation op.
fn created(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let made = create(import, base, given, None)?;
    made.first().copied().flatten().ok_or_else(|| unsupported("no new tensor"))
}

fn in_place(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let mut attrs = Attrs::new();
    let (op, names): (&str, &[(&'static str, f64)]) = match base {
        "uniform_" => ("uniform_", &[("from", 0.0), ("to", 1.0)]),
        "normal_" => ("normal_", &[("mean", 0.0), ("std", 1.0)]),
        "log_normal_" => ("normal_", &[("mean", 1.0), ("std", 2.0)]),
        "exponential_" => ("exponential_", &[("lambd", 1.0)]),
        _ => ("randint_", &[]),
    };
    for (name, default) in names {
        attrs.set(*name, number(given, name, *default)?);
    }
    if base == "random_" {
        let dtype = import.spec(x).dtype;
        attrs.set("low", given.int("from")?.unwrap_or(0));
        attrs.set("high", given.int("to")?.unwrap_or(beyond(dtype)));
    }
    draw_in_place(import, op, x, attrs)?;
    if base == "log_normal_" {
        import.call("exp_", &[x], Attrs::new())?;
    }
    Ok(x)
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
    let shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
    draw(import, op, &[], Attrs::new().with("shape", shape).with("dtype", DType::F64))
}

/// Lowers `cauchy_` and `geometric_` to functions of uniform and exponential numbers.
fn transformed(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    let other = |v: f64| Attrs::new().with("other", v);
    let values = if base == "cauchy_" {
        let share = numbers_like(import, "uniform", x)?;
        let angle = one_call(import, "sub", &[share], other(0.5))?;
        let angle = one_call(import, "mul", &[angle], other(std::f64::consts::PI))?;
        let tangent = one_call(import, "tan", &[angle], Attrs::new())?;
        let scaled = one_call(import, "mul", &[tangent], other(number(given, "sigma", 1.0)?))?;
        one_call(import, "add", &[scaled], other(number(given, "median", 0.0)?))?
    } else {
        let time = numbers_like(import, "exponential", x)?;
        let rate = -(-number(given, "p", 0.5)?).ln_1p();
        let steps = one_call(import, "div", &[time], other(rate))?;
        let steps = one_call(import, "ceil", &[steps], Attrs::new())?;
        one_call(import, "clamp_min", &[steps], Attrs::new().with("min", 1i64))?
    };
    import.call("copy_", &[x, values], Attrs::new())?;
    Ok(x)
}

fn bernoulli(import: &mut Import<'_>, base: &str, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "self")?;
    if let Some((_, Arg::Tensor(_))) = given.get("p") {
        let shares = given.tensor(import, "p")?;
        let shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
        let shares = one_call(import, "expand", &[shares], Attrs::new().with("size", shape))?;
        let made = draw(import, "bernoulli", &[shares], Attrs::new())?;
        if base == "bernoulli_" {
            import.call("copy_", &[x, made], Attrs::new())?;
            return Ok(x);
        }
        return Ok(made);
    }
    let given_p = given.get("p").is_some();
    let attrs = match given_p || base == "bernoulli_" {
        true => Attrs::new().with("p", number(given, "p", 0.5)?),
        false => Attrs::new(),
    };
    draw(import, base, &[x], attrs).map(|made| if base == "bernoulli_" { x } else { made })
}

/// Lowers `normal` with numbers and a size, or with tensors.
fn normal(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    if given.get("size").is_some() {
        let made = created(import, "normal", given)?;
        let attrs = Attrs::new()
            .with("mean", number(given, "mean", 0.0)?)
            .with("std", number(given, "std", 1.0)?);
        return draw_in_place(import, "normal_", made, attrs);
    }
    let mut tensor = |name: &str| -> Lowered<Option<Val>> {
        match given.get(name) {
            Some((_, Arg::Tensor(_))) => given.tensor(import, name).map(Some),
            _ => Ok(None),
        }
    };
    let (mean, std) = (tensor("mean")?, tensor("std")?);
    let like = match (mean, std) {
        (Some(mean), Some(std)) => one_call(import, "add", &[mean, std], Attrs::new())?,
        (Some(one), None) | (None, Some(one)) => one_call(import, "clone", &[one], Attrs::new())?,
        (None, None) => return Err(Refusal::Wrong("'size': expected lengths".to_owned())),
    };
    let made = draw_in_place(import, "normal_", like, Attrs::new())?;
    for (op, tensor, name, default) in [("mul", std, "std", 1.0), ("add", mean, "mean", 0.0)] {
        let op = format!("{op}_");
        match tensor {
            Some(tensor) => import.call(&op, &[made, tensor], Attrs::new())?,
            None => {
                let other = Attrs::new().with("other", number(given, name, default)?);
                import.call(&op, &[made], other)?
            }
        };
    }
    Ok(made)
}

/// Lowers `multinomial`: the indices of the greatest quotients of a probability by an exponential
/// number.
///
/// Source: P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", 2006.
fn multinomial(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let mut weights = given.tensor(import, "self")?;
    let count = given.int("num_samples")?.unwrap_or(1);
    let again = given.scalar("replacement")? == Some(AttrValue::Bool(true));
    if again {
        let mut shape: Vec<i64> = import.spec(weights).shape().iter().map(|&d| d as i64).collect();
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
