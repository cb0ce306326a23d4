//! Lowers the loss of alignments.

use millstream_types::{Attrs, DType};

use super::{Made, cast, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::Recorded;
use crate::number::Number;

/// Lowers an op; `None` if it is none of these.
pub(super) fn segments(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    let made = match name {
        "_ctc_loss" => alignment_loss(import, given, results)?,
        "_ctc_loss_backward" => vec![alignment_backward(import, given)?],
        _ => return Ok(None),
    };
    Ok(Some(made.into_iter().map(Some).collect()))
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
