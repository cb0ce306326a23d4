//! Lowers ops that need more than a rule: what they do depends on shapes or on recorded results.

use millstream_ops::args::dimension;
use millstream_ops::layouts;
use millstream_types::{AttrValue, Attrs, DType};

use super::complex::filled_by;
use super::{Made, apply, call, cast, one_call, opaque, shape_of};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};
use crate::number::Number;

/// Reads the operands of a question whose answer is no tensor.
pub(super) fn read_both(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    for name in ["self", "other"] {
        let val = given.tensor(import, name)?;
        import.read(val)?;
    }
    Ok(Vec::new())
}

/// Lowers `fill_` and `zero_`.
pub(super) fn fill(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let target = given.tensor(import, "self")?;
    fill_target(import, given, target)
}

/// Lowers `fill` and `zero`, which leave their operand as it is and return a new tensor of its
/// layout.
pub(super) fn filled(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let like = given.tensor(import, "self")?;
    let spec = import.spec(like).clone();
    let strides = layouts::preserved(&spec)?.strides().iter().map(|&s| s as i64).collect();
    let attrs = Attrs::new()
        .with("shape", shape_of(import, like))
        .with("value", 0i64)
        .with("dtype", spec.dtype)
        .with("strides", AttrValue::Ints(strides));
    let target = one_call(import, "full", &[], attrs)?;
    match given.signature.base() {
        "zero" => Ok(vec![Some(target)]),
        _ => fill_target(import, given, target),
    }
}

/// Sets every element of a tensor to the node's argument `value`, or to 0 without one.
fn fill_target(import: &mut Import<'_>, given: &NodeArgs<'_>, target: Val) -> Lowered<Made> {
    let value = match given.get("value") {
        None => AttrValue::Int(0),
        Some((at, Arg::Tensor(tensor))) => {
            if !import.has_const(at) && !import.is_lost_number(tensor) {
                let value = import.resolve(tensor, at)?;
                import.call("copy_", &[target, value], Attrs::new())?;
                return Ok(vec![Some(target)]);
            }
            args::number_attr(import.lost_number(at)?)?
        }
        Some((at, Arg::Opaque)) => {
            let value = import.complex_constant(at)?;
            import.call("copy_", &[target, value], Attrs::new())?;
            return Ok(vec![Some(target)]);
        }
        Some(_) => given
            .scalar("value")?
            .ok_or_else(|| Refusal::Wrong("'value': expected a number".to_owned()))?,
    };
    import.call("fill", &[target], Attrs::new().with("value", value))?;
    Ok(vec![Some(target)])
}

/// Lowers `bincount`. The number of bins, which depends on data, is that of the recording; a
/// number beyond it fails the call.
pub(super) fn bincount(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut converted = args::convert(import, "bincount", given, &[], results)?;
    let result = results.first().and_then(Option::as_ref);
    let bins = result.and_then(|result| result.shape.first().copied());
    let bins = bins.ok_or_else(|| Refusal::Wrong("expected one result".to_owned()))?;
    converted.attrs.set("bins", bins as i64);
    call(import, "bincount", converted)
}

/// Lowers `_embedding_bag`. PyTorch leaves results empty that its gradient does not read.
pub(super) fn embedding_bag(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let converted = args::convert(import, "_embedding_bag", given, &[], results)?;
    let bags = call(import, "_embedding_bag", converted)?;
    let mut made = Vec::new();
    for (k, recorded) in results.iter().enumerate() {
        let val = bags.get(k).copied().flatten();
        let Some(recorded) = recorded.as_ref().filter(|_| k > 0) else {
            made.push(val);
            continue;
        };
        let fits = val.filter(|val| import.spec(*val).shape() == &*recorded.shape);
        let val = match fits {
            Some(val) => val,
            None => {
                let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
                let zeros = Attrs::new().with("shape", shape).with("value", 0i64);
                one_call(import, "full", &[], zeros.with("dtype", DType::I64))?
            }
        };
        made.push(Some(cast(import, val, recorded.dtype)?));
    }
    Ok(made)
}

/// Lowers selections of distinct elements.
pub(super) fn distinct(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut x = given.tensor(import, "self")?;
    // PyTorch returns both of slices, whether they are requested or not.
    let sliced = given.get("dim").is_some();
    let wanted = |k: usize, name: &str| results.get(k).is_some() && (sliced || given.flag(name));
    let (inverse, counts) = (wanted(1, "return_inverse"), wanted(2, "return_counts"));
    let mut attrs = Attrs::new()
        .with("consecutive", name.contains("consecutive"))
        .with("return_inverse", inverse)
        .with("return_counts", counts);
    let dim = given.int("dim")?;
    let rank = import.spec(x).shape().len();
    let dim = dim.map(|dim| dimension(dim, rank)).transpose()?;
    let order = dim.map(|dim| {
        let dim = dim as i64;
        let mut order: Vec<i64> = (0..rank as i64).filter(|&k| k != dim).collect();
        order.insert(0, dim);
        (dim, order)
    });
    if let Some((dim, order)) = &order {
        x = one_call(import, "permute", &[x], Attrs::new().with("dims", order.clone()))?;
        import.move_bounded_dim(*dim as usize);
        attrs.set("dim", 0i64);
    }
    let mut made = import.call("unique", &[x], attrs)?;
    if let Some((dim, _)) = order {
        let mut back: Vec<i64> = (1..rank as i64).collect();
        back.insert(dim as usize, 0);
        let turned = one_call(import, "permute", &[made[0]], Attrs::new().with("dims", back))?;
        let dense = Attrs::new().with("memory_format", "contiguous");
        made[0] = one_call(import, "clone", &[turned], dense)?;
    }
    made.truncate(results.len());
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers a read by index where a mask is true, else a complex number.
pub(super) fn masked_index(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let op = "_unsafe_masked_index";
    let converted = args::convert(import, op, given, &["fill"], results)?;
    let read = one_call(import, op, &converted.inputs, converted.attrs.with("fill", 0i64))?;
    let mask = given.tensor(import, "mask")?;
    let skipped = apply(import, "logical_not", &[mask])?;
    Ok(vec![Some(filled_by(import, given, "fill", [read, skipped])?)])
}

/// Returns the lengths of sequences, a list or a tensor, as a tensor.
fn sequence_lengths(import: &mut Import<'_>, given: &NodeArgs<'_>, name: &str) -> Lowered<Val> {
    if given.has_tensor(name) {
        let val = given.tensor(import, name)?;
        return cast(import, val, DType::I64);
    }
    let lengths = given.ints(name)?.unwrap_or_default();
    import.numbers(lengths.into_iter().map(|length| Number::Int(length.into())), DType::I64)
}

/// Returns the arguments of the loss, given the forward variables' number of states.
fn alignment_attrs(given: &NodeArgs<'_>, states: usize) -> Lowered<Attrs> {
    let mut attrs = Attrs::new().with("max_target_length", (states as i64 - 1) / 2);
    attrs.set("blank", given.int("blank")?.unwrap_or(0));
    attrs.set("zero_infinity", given.flag("zero_infinity"));
    Ok(attrs)
}

/// Lowers the loss of alignments.
pub(super) fn alignment_loss(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let Some(Some(variables)) = results.get(1) else {
        return Err(unsupported("a loss of alignments without its variables"));
    };
    let states = variables.shape.last().copied().unwrap_or(1);
    let (x, targets) = (given.tensor(import, "log_probs")?, given.tensor(import, "targets")?);
    let inputs = sequence_lengths(import, given, "input_lengths")?;
    let labels = sequence_lengths(import, given, "target_lengths")?;
    let attrs = alignment_attrs(given, states)?;
    let made = import.call("_ctc_loss", &[x, targets, inputs, labels], attrs)?;
    Ok(made.into_iter().map(Some).collect())
}

/// Lowers the gradient of the loss of alignments.
pub(super) fn alignment_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Made> {
    let variables = given.tensor(import, "log_alpha")?;
    let states = import.spec(variables).shape().last().copied().unwrap_or(1);
    let mut operands = Vec::new();
    for name in ["grad", "log_probs", "targets"] {
        operands.push(given.tensor(import, name)?);
    }
    operands.push(sequence_lengths(import, given, "input_lengths")?);
    operands.push(sequence_lengths(import, given, "target_lengths")?);
    operands.push(given.tensor(import, "neg_log_likelihood")?);
    let attrs = alignment_attrs(given, states)?;
    Ok(vec![Some(one_call(import, "_ctc_loss_backward", &operands, attrs)?)])
}

/// Adds to the results of a batch norm those of libraries' ops.
pub(super) fn with_statistics(
    import: &mut Import<'_>,
    mut made: Made,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let eps = given.scalar("eps")?.or(given.scalar("epsilon")?).unwrap_or(AttrValue::Float(1e-5));
    // Without training, GPUs return the running statistics as those that the op used.
    for (k, name) in [(1, "running_mean"), (2, "running_var")] {
        let Some(Some(recorded)) = results.get(k) else { continue };
        let is_empty = made[k].is_some_and(|val| import.spec(val).numel() == 0);
        if !is_empty || recorded.numel() == 0 {
            continue;
        }
        let running = given.tensor(import, name)?;
        let used = if k == 1 {
            apply(import, "clone", &[running])?
        } else {
            let sum = Attrs::new().with("other", eps.clone());
            let sum = one_call(import, "add", &[running], sum)?;
            apply(import, "rsqrt", &[sum])?
        };
        made[k] = Some(cast(import, used, recorded.dtype)?);
    }
    // Only the library's own gradient reads the last one.
    if let Some(Some(reserve)) = results.get(3) {
        made.push(Some(opaque(import, reserve)?));
    }
    Ok(made)
}
