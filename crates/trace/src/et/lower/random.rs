//! Lowers random ops: to the results that the recording holds, or to own random numbers.

use millstream_types::{Attrs, DType};

use super::{Made, Node, formula, write_back};
use crate::et::args::Converted;
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::Arg;

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
fn draws_nothing(node: &Node<'_, '_>, base: &str) -> Lowered<bool> {
    Ok(match base {
        "native_dropout" => {
            matches!(node.given.get("train"), Some((_, Arg::Bool(false))))
                || node.given.float("p", 0.5)? == 0.0
        }
        "rrelu_with_noise" | "rrelu_with_noise_" => !node.given.flag("training"),
        _ => false,
    })
}

/// Lowers a random op, named without namespace and overload.
pub(super) fn random(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    if draws_nothing(node, base)? {
        return fixed(node, base);
    }
    if node.import.has_recorded_results() {
        return recorded(node, base);
    }
    node.import.check_may_draw()?;
    drawn(node, base)
}

/// Lowers a random op that draws nothing.
fn fixed(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    if base == "native_dropout" {
        let x = node.tensor("input")?;
        let attrs = Attrs::new().with("p", 0.0).with("train", false);
        return node.import.made("native_dropout", Converted { inputs: vec![x], attrs });
    }
    let x = node.tensor("self")?;
    let upper = node.given.float("upper", 1.0 / 3.0)?;
    let slope = (node.given.float("lower", 0.125)? + upper) / 2.0;
    let op = if base.ends_with('_') { "leaky_relu_" } else { "leaky_relu" };
    Ok(vec![Some(node.import.one(op, &[x], Attrs::new().with("negative_slope", slope))?)])
}

/// Takes the results that the recording holds. Of dropout it holds the mask alone, so that errors
/// before the dropout are still found.
pub(super) fn recorded(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    match base {
        "native_dropout" => {
            let x = node.tensor("input")?;
            let mask = node.import.recorded_result(1, node.results)?;
            let p = node.given.float("p", 0.5)?;
            let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            let scale = Attrs::new().with("scale", scale);
            let out = node.import.one("native_dropout_backward", &[x, mask], scale)?;
            return Ok(vec![Some(out), Some(mask)]);
        }
        "rrelu_with_noise" | "rrelu_with_noise_" => {
            let noise = node.import.recorded_argument(node.given, "noise")?;
            let x = node.tensor("self")?;
            let target = node.tensor("noise")?;
            node.import.apply("copy_", &[target, noise])?;
            let op = if base.ends_with('_') { "mul_" } else { "mul" };
            return Ok(vec![Some(node.import.apply(op, &[x, target])?)]);
        }
        _ => {}
    }
    let recorded = (0..node.results.len()).map(|k| {
        let made = node.result(k).map(|_| node.import.recorded_result(k, node.results));
        made.transpose()
    });
    let made: Made = recorded.collect::<Lowered<_>>()?;
    match base.ends_with('_') && node.given.get("self").is_some() {
        true => write_back(node, made),
        false => Ok(made),
    }
}

/// Computes a random op with own numbers.
fn drawn(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    match base {
        "random_" => {
            let x = node.tensor("self")?;
            let high = node.given.int("to")?.unwrap_or(beyond(node.import.spec(x).dtype));
            let bounds = Attrs::new().with("low", node.given.int("from")?.unwrap_or(0));
            return Ok(vec![Some(draw(node.import, "randint_", &[x], bounds.with("high", high))?)]);
        }
        "multinomial" => return Ok(vec![Some(multinomial(node)?)]),
        _ => {}
    }
    if let Some(rule) = formula::find(node, base) {
        return rule.apply(node);
    }
    if node.import.ops().find(base).is_none() {
        return Err(unsupported("no own numbers have this distribution; record the program"));
    }
    let mut converted = node.convert(base, &[])?;
    converted.attrs = node.import.next_draw(converted.attrs);
    node.import.made(base, converted)
}

/// Calls one of our random ops.
fn draw(import: &mut Import<'_>, op: &str, inputs: &[Val], attrs: Attrs) -> Lowered<Val> {
    let attrs = import.next_draw(attrs);
    import.one(op, inputs, attrs)
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

/// Lowers `multinomial`: the indices of the greatest quotients of a probability by an exponential
/// number.
///
/// Source: P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", 2006.
fn multinomial(node: &mut Node<'_, '_>) -> Lowered<Val> {
    let mut weights = node.tensor("self")?;
    let count = node.given.int("num_samples")?.unwrap_or(1);
    let again = node.given.flag("replacement");
    if again {
        let mut shape = node.import.shape_of(weights);
        shape.insert(shape.len().saturating_sub(1), count);
        let each = node.import.one("unsqueeze", &[weights], Attrs::new().with("dim", -2))?;
        weights = node.import.one("expand", &[each], Attrs::new().with("size", shape))?;
    }
    let attrs = Attrs::new().with("shape", node.import.shape_of(weights));
    let times = draw(node.import, "exponential", &[], attrs.with("dtype", DType::F64))?;
    let keys = node.import.apply("div", &[weights, times])?;
    if again {
        return node.import.one("argmax", &[keys], Attrs::new().with("dim", -1));
    }
    let made = node.import.call("topk", &[keys], Attrs::new().with("k", count).with("dim", -1))?;
    made.get(1).copied().ok_or_else(|| unsupported("topk returns no indices"))
}
