//! Lowers recurrent layers, and the packing of sequences.

use millstream_types::{AttrValue, Attrs};

use super::composed::reshaped;
use super::{Made, call, cast, one_call, optional};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// The number of PyTorch's mode of an LSTM.
const LSTM: i64 = 2;

/// Lowers an op; `None` if it is none of these.
pub(super) fn recurrent(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    Ok(Some(match name {
        "mkldnn_rnn_layer" => layer(import, given, results)?,
        "mkldnn_rnn_layer_backward" => layer_backward(import, given, results)?,
        "_pack_padded_sequence" => packed(import, given, results)?,
        _ => return Ok(None),
    }))
}

fn flag(given: &NodeArgs<'_>, name: &str) -> Lowered<bool> {
    Ok(given.scalar(name)? == Some(AttrValue::Bool(true)))
}

/// Calls our op with the operands of a layer and others of these names.
fn layer_call(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    op: &str,
    states: [&str; 2],
    others: &[&str],
) -> Lowered<Vec<Val>> {
    if given.int("mode")? != Some(LSTM) {
        return Err(unsupported("a recurrent layer that is no LSTM"));
    }
    // The input has the times first, whatever `batch_first` says of the module's.
    if given.ints("batch_sizes")?.is_some_and(|sizes| !sizes.is_empty()) {
        return Err(unsupported("a recurrent layer of packed sequences"));
    }
    let weights = match given.get("weight0") {
        Some(_) => ["weight0", "weight1", "weight2", "weight3"],
        None => ["weight1", "weight2", "weight3", "weight4"],
    };
    let [hidden, cell] = states;
    let mut operands = Vec::new();
    for name in ["input", weights[0], weights[1], hidden, cell] {
        operands.push(Some(given.tensor(import, name)?));
    }
    for name in &weights[2..] {
        operands.push(match flag(given, "has_biases")? {
            true => Some(given.tensor(import, name)?),
            false => None,
        });
    }
    for name in others {
        operands.push(match given.get(name) {
            Some((_, Arg::Tensor(_))) => Some(given.tensor(import, name)?),
            _ => None,
        });
    }
    let (inputs, attrs) = optional(&operands);
    import.call(op, &inputs, attrs.with("reverse", flag(given, "reverse")?))
}

fn zeros(import: &mut Import<'_>, recorded: &Recorded) -> Lowered<Val> {
    let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
    let attrs = Attrs::new().with("shape", shape).with("value", 0i64);
    one_call(import, "full", &[], attrs.with("dtype", recorded.dtype))
}

/// Gives a result the recorded shape.
fn shaped(import: &mut Import<'_>, x: Val, recorded: Option<&Recorded>) -> Lowered<Val> {
    match recorded {
        Some(recorded) if import.spec(x).shape() != &*recorded.shape => {
            let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
            reshaped(import, x, &shape)
        }
        _ => Ok(x),
    }
}

/// Lowers a layer. Its workspace, which only the library's gradient reads, is zeros.
fn layer(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let layer = layer_call(import, given, "lstm_layer", ["hx_", "cx_"], &[])?;
    let recorded = |k: usize| results.get(k).and_then(Option::as_ref);
    let mut made = Vec::new();
    for (k, val) in layer.into_iter().enumerate() {
        made.push(Some(shaped(import, val, recorded(k).filter(|_| k > 0))?));
    }
    if let Some(workspace) = recorded(3) {
        made.push(Some(zeros(import, workspace)?));
    } else if results.len() > 3 {
        made.push(None);
    }
    Ok(made)
}

/// Lowers the gradient of a layer.
fn layer_backward(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let grads = ["grad_output", "grad_hy", "grad_cy"];
    let made = layer_call(import, given, "lstm_layer_backward", ["hx_", "cx_tmp"], &grads)?;
    // Under autocast, the library returns gradients in f32.
    let mut converted = Vec::new();
    for (k, val) in made.into_iter().enumerate() {
        converted.push(Some(match results.get(k) {
            Some(Some(recorded)) => cast(import, val, recorded.dtype)?,
            _ => val,
        }));
    }
    Ok(converted)
}

/// Lowers the packing of padded sequences, whose lengths the recording has.
fn packed(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let [Some(data), Some(sizes)] = results else {
        return Err(unsupported("a packing without results"));
    };
    let mut converted = args::convert(import, "_pack_padded_sequence", given, &[], results)?;
    let rows = data.shape.first().copied().unwrap_or(0) as i64;
    converted.attrs.set("rows", rows);
    converted.attrs.set("times", sizes.shape.first().copied().unwrap_or(0) as i64);
    call(import, "_pack_padded_sequence", converted)
}
