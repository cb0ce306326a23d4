//! Lowers ops that need more than a rule: what they do depends on shapes or on recorded results.

use millstream_ops::args::dimension;
use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs, DType};

use super::complex::filled_by;
use super::{Made, Node, ints};
use crate::et::args;
use crate::et::import::{Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;
use crate::number::Number;

/// Lowers `fill_` and `zero_`, and `fill` and `zero`, which leave their operand as it is and return
/// a new tensor of its layout.
pub(super) fn fill(node: &mut Node<'_, '_>, base: &str) -> Lowered<Made> {
    let mut target = node.tensor("self")?;
    if !base.ends_with('_') {
        let spec = node.import.spec(target).clone();
        let attrs = Attrs::new()
            .with("shape", ints(spec.shape()))
            .with("value", 0i64)
            .with("dtype", spec.dtype)
            .with("strides", ints(layouts::preserved(&spec)?.strides()));
        target = node.import.one("full", &[], attrs)?;
        if base == "zero" {
            return Ok(vec![Some(target)]);
        }
    }
    let value = match node.given.get("value") {
        None => AttrValue::Int(0),
        Some((at, Arg::Tensor(tensor))) => {
            if !node.import.has_const(at) && !node.import.is_lost_number(tensor) {
                let value = node.import.resolve(tensor, at)?;
                return node.import.copied_to(target, value);
            }
            args::number_attr(node.import.lost_number(at)?)?
        }
        Some((at, Arg::Opaque)) => {
            let value = node.import.complex_constant(at)?;
            return node.import.copied_to(target, value);
        }
        Some(_) => args::number_attr(node.given.number("value")?)?,
    };
    Ok(vec![Some(node.import.one("fill", &[target], Attrs::new().with("value", value))?)])
}

/// Lowers an op of this name whose result has a length that depends on data: an argument gives the
/// length in the recording.
pub(super) fn of_length(
    node: &mut Node<'_, '_>,
    op: &str,
    argument: &'static str,
) -> Lowered<Made> {
    let mut converted = node.convert(op, &[])?;
    let length = node.result(0).and_then(|result| result.shape.first().copied());
    let length = length.ok_or_else(|| Refusal::Wrong("expected one result".to_owned()))?;
    converted.attrs.set(argument, length as i64);
    node.import.made(op, converted)
}

/// Lowers `_embedding_bag`. PyTorch leaves results empty that its gradient does not read.
pub(super) fn embedding_bag(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let converted = node.convert("_embedding_bag", &[])?;
    let bags = node.import.made("_embedding_bag", converted)?;
    let mut made = Vec::new();
    for (k, recorded) in node.results.iter().enumerate() {
        let val = bags.get(k).copied().flatten();
        let Some(recorded) = recorded.as_ref().filter(|_| k > 0) else {
            made.push(val);
            continue;
        };
        let fits = val.filter(|val| node.import.spec(*val).shape() == &*recorded.shape);
        let val = match fits {
            Some(val) => val,
            None => node.import.full(ints(&recorded.shape), 0i64, DType::I64)?,
        };
        made.push(Some(node.import.cast(val, recorded.dtype)?));
    }
    Ok(made)
}

/// Lowers selections of distinct elements.
pub(super) fn distinct(node: &mut Node<'_, '_>, name: &str) -> Lowered<Made> {
    let mut x = node.tensor("self")?;
    // PyTorch returns both of slices, whether they are requested or not.
    let sliced = node.given.get("dim").is_some();
    let wanted = |k: usize, name: &str| k < node.results.len() && (sliced || node.given.flag(name));
    let (inverse, counts) = (wanted(1, "return_inverse"), wanted(2, "return_counts"));
    let mut attrs = Attrs::new()
        .with("consecutive", name.contains("consecutive"))
        .with("return_inverse", inverse)
        .with("return_counts", counts);
    let mut order: Vec<usize> = (0..node.import.spec(x).shape().len().max(1)).collect();
    let dim = node.given.int("dim")?.map(|dim| dimension(dim, order.len())).transpose()?;
    if let Some(dim) = dim {
        order[..=dim].rotate_right(1);
        x = node.import.one("permute", &[x], Attrs::new().with("dims", ints(&order)))?;
        node.import.move_bounded_dim(dim);
        attrs.set("dim", 0i64);
    }
    let mut made = node.import.call("unique", &[x], attrs)?;
    if let Some(dim) = dim {
        order.sort_unstable();
        order[..=dim].rotate_left(1);
        let back = Attrs::new().with("dims", ints(&order));
        let turned = node.import.one("permute", &[made[0]], back)?;
        made[0] = node.import.dense(turned)?;
    }
    made.truncate(node.results.len());
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers a read by index where a mask is true, else a complex number.
pub(super) fn masked_index(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let op = "_unsafe_masked_index";
    let converted = node.convert(op, &["fill"])?;
    let read = node.import.one(op, &converted.inputs, converted.attrs.with("fill", 0i64))?;
    let mask = node.tensor("mask")?;
    let skipped = node.import.apply("logical_not", &[mask])?;
    Ok(vec![Some(filled_by(node, "fill", [read, skipped])?)])
}

/// Returns the lengths of sequences, a list or a tensor, as a tensor.
fn sequence_lengths(node: &mut Node<'_, '_>, name: &str) -> Lowered<Val> {
    if node.given.has_tensor(name) {
        let val = node.tensor(name)?;
        return node.import.cast(val, DType::I64);
    }
    let lengths = node.given.ints(name)?.unwrap_or_default();
    node.import.numbers(lengths.into_iter().map(|length| Number::Int(length.into())), DType::I64)
}

/// Lowers the loss of alignments, or its gradient.
pub(super) fn alignment(node: &mut Node<'_, '_>, op: &str) -> Lowered<Made> {
    let states = match node.given.has_tensor("log_alpha") {
        true => {
            let variables = node.tensor("log_alpha")?;
            node.import.spec(variables).shape().last().copied()
        }
        false => {
            let variables = node.result(1).map(|variables| variables.shape.last().copied());
            variables.ok_or_else(|| unsupported("a loss of alignments without its variables"))?
        }
    };
    let mut operands = Vec::new();
    for name in ["grad", "log_probs", "targets"] {
        if node.given.get(name).is_some() {
            operands.push(node.tensor(name)?);
        }
    }
    operands.push(sequence_lengths(node, "input_lengths")?);
    operands.push(sequence_lengths(node, "target_lengths")?);
    if op.ends_with("backward") {
        operands.push(node.tensor("neg_log_likelihood")?);
    }
    let most = (states.unwrap_or(1) as i64 - 1) / 2;
    let mut attrs = Attrs::new().with("max_target_length", most);
    attrs.set("blank", node.given.int("blank")?.unwrap_or(0));
    attrs.set("zero_infinity", node.given.flag("zero_infinity"));
    let made = node.import.call(op, &operands, attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

/// Adds to the results of a batch norm those of libraries' ops.
pub(super) fn with_statistics(node: &mut Node<'_, '_>, mut made: Made) -> Lowered<Made> {
    let given = node.given;
    let eps = given.scalar("eps")?.or(given.scalar("epsilon")?).unwrap_or(AttrValue::Float(1e-5));
    // Without training, GPUs return the running statistics as those that the op used.
    for (k, name) in [(1, "running_mean"), (2, "running_var")] {
        let Some(Some(recorded)) = node.results.get(k) else { continue };
        let is_empty = made[k].is_some_and(|val| node.import.spec(val).numel() == 0);
        if !is_empty || recorded.numel() == 0 {
            continue;
        }
        let running = node.tensor(name)?;
        let used = match k {
            1 => node.import.apply("clone", &[running])?,
            _ => {
                let sum = Attrs::new().with("other", eps.clone());
                let sum = node.import.one("add", &[running], sum)?;
                node.import.apply("rsqrt", &[sum])?
            }
        };
        made[k] = Some(node.import.cast(used, recorded.dtype)?);
    }
    // Only the library's own gradient reads the last one.
    if let Some(Some(reserve)) = node.results.get(3) {
        made.push(Some(node.import.opaque(reserve)?));
    }
    Ok(made)
}
