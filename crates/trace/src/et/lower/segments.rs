//! Lowers reductions of segments, and the loss of alignments.

use millstream_types::{AttrValue, Attrs, DType};

use super::{Made, cast, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// Lowers an op; `None` if it is none of these.
pub(super) fn segments(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let made = match name {
        "segment_reduce" => vec![reduced(import, given, &["data"], name)?],
        "_segment_reduce_backward" => {
            let operands = ["grad", "output", "data"];
            vec![reduced(import, given, &operands, "segment_reduce_backward")?]
        }
        "_ctc_loss" => alignment_loss(import, given, results)?,
        "_ctc_loss_backward" => vec![alignment_backward(import, given)?],
        _ => return Ok(None),
    };
    Ok(Some(made.into_iter().map(Some).collect()))
}

fn reduced(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    operands: &[&str],
    op: &str,
) -> Lowered<Val> {
    let mut inputs = Vec::new();
    for name in operands {
        inputs.push(given.tensor(import, name)?);
    }
    let axis = given.int("axis")?.unwrap_or(0);
    inputs.push(match given.get("lengths") {
        Some((_, Arg::Tensor(_))) => given.tensor(import, "lengths")?,
        _ => {
            let offsets = given.tensor(import, "offsets")?;
            let count = import.spec(offsets).shape().last().copied().unwrap_or(1) as i64 - 1;
            let part = |start: i64| {
                Attrs::new().with("dim", -1i64).with("start", start).with("length", count)
            };
            let starts = one_call(import, "narrow", &[offsets], part(0))?;
            let ends = one_call(import, "narrow", &[offsets], part(1))?;
            one_call(import, "sub", &[ends, starts], Attrs::new())?
        }
    });
    let Some((_, Arg::Str(reduce))) = given.get("reduce") else {
        return Err(Refusal::Wrong("'reduce': expected a text".to_owned()));
    };
    let mut attrs = Attrs::new().with("reduce", reduce.as_str()).with("axis", axis);
    match given.scalar("initial")? {
        Some(AttrValue::Int(v)) => attrs.set("initial", v as f64),
        Some(AttrValue::Float(v)) => attrs.set("initial", v),
        _ => {}
    }
    one_call(import, op, &inputs, attrs)
}

/// Returns the lengths of sequences, a list or a tensor, as a tensor.
fn sequence_lengths(import: &mut Import<'_>, given: &NodeArgs<'_>, name: &str) -> Lowered<Val> {
    if let Some((_, Arg::Tensor(_))) = given.get(name) {
        let val = given.tensor(import, name)?;
        return cast(import, val, DType::I64);
    }
    let mut each = Vec::new();
    for length in given.ints(name)?.unwrap_or_default() {
        let attrs = Attrs::new().with("shape", Vec::<i64>::new()).with("value", length);
        each.push(one_call(import, "full", &[], attrs.with("dtype", DType::I64))?);
    }
    if each.is_empty() {
        let attrs = Attrs::new().with("shape", vec![0i64]).with("value", 0i64);
        return one_call(import, "full", &[], attrs.with("dtype", DType::I64));
    }
    one_call(import, "stack", &each, Attrs::new().with("dim", 0i64))
}

/// Returns the arguments of the loss, given the forward variables' number of states.
fn alignment_attrs(given: &NodeArgs<'_>, states: usize) -> Lowered<Attrs> {
    let mut attrs = Attrs::new().with("max_target_length", (states as i64 - 1) / 2);
    attrs.set("blank", given.int("blank")?.unwrap_or(0));
    let skips = given.scalar("zero_infinity")? == Some(AttrValue::Bool(true));
    attrs.set("zero_infinity", skips);
    Ok(attrs)
}

fn alignment_loss(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Vec<Val>> {
    let Some(Some(variables)) = results.get(1) else {
        return Err(unsupported("a loss of alignments without its variables"));
    };
    let states = variables.shape.last().copied().unwrap_or(1);
    let (x, targets) = (given.tensor(import, "log_probs")?, given.tensor(import, "targets")?);
    let inputs = sequence_lengths(import, given, "input_lengths")?;
    let labels = sequence_lengths(import, given, "target_lengths")?;
    import.call("_ctc_loss", &[x, targets, inputs, labels], alignment_attrs(given, states)?)
}

fn alignment_backward(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let variables = given.tensor(import, "log_alpha")?;
    let states = import.spec(variables).shape().last().copied().unwrap_or(1);
    let mut operands = Vec::new();
    for name in ["grad", "log_probs", "targets"] {
        operands.push(given.tensor(import, name)?);
    }
    operands.push(sequence_lengths(import, given, "input_lengths")?);
    operands.push(sequence_lengths(import, given, "target_lengths")?);
    operands.push(given.tensor(import, "neg_log_likelihood")?);
    one_call(import, "_ctc_loss_backward", &operands, alignment_attrs(given, states)?)
}
