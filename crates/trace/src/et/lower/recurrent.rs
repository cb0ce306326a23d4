//! Lowers recurrent layers, and the packing of sequences.

use millstream_types::Attrs;

use super::{Made, buffer, call, cast, one_call, opaque, reshaped};
use crate::et::args::{self, NodeArgs};
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::{Arg, Recorded};

/// The number of PyTorch's mode of an LSTM.
const LSTM: i64 = 2;

/// The position of the buffer of the weights among the results of an op of cuDNN or MIOpen.
const BUFFER: usize = 4;

/// The operands and arguments of recurrent layers.
struct Layers {
    operands: Vec<Val>,
    attrs: Attrs,
    is_lstm: bool,
    /// The number of weights.
    weights: usize,
}

/// Returns the operands of an op of oneDNN, which is one direction of one layer.
fn one_layer(import: &mut Import<'_>, given: &NodeArgs<'_>, states: [&str; 2]) -> Lowered<Layers> {
    let first = if given.get("weight0").is_some() { 0 } else { 1 };
    let has_biases = given.flag("has_biases");
    let mut weights = Vec::new();
    for k in 0..if has_biases { 4 } else { 2 } {
        weights.push(given.tensor(import, &format!("weight{}", first + k))?);
    }
    // The input has the times first, whatever `batch_first` says of the module's.
    let attrs = Attrs::new().with("reverse", given.flag("reverse"));
    layers(import, given, states, weights, attrs.with("has_biases", has_biases))
}

/// Returns the operands of an op of cuDNN or MIOpen.
fn all_layers(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Layers> {
    if given.int("proj_size")?.is_some_and(|size| size != 0) {
        return Err(unsupported("a recurrent layer with projections"));
    }
    let Some((at, Arg::List(list))) = given.get("weight") else {
        return Err(unsupported("a recurrent layer without weights"));
    };
    let mut weights = Vec::new();
    for arg in list.clone() {
        let Arg::Tensor(weight) = arg else { return Err(unsupported("an absent weight")) };
        weights.push(import.resolve(&weight, at)?);
    }
    let mut attrs = Attrs::new().with("has_biases", given.int("weight_stride0")? == Some(4));
    for name in ["num_layers", "batch_first", "dropout", "train", "bidirectional"] {
        if let Some(value) = given.scalar(name)? {
            attrs.set(name, value);
        }
    }
    layers(import, given, ["hx", "cx"], weights, attrs)
}

fn layers(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    states: [&str; 2],
    weights: Vec<Val>,
    mut attrs: Attrs,
) -> Lowered<Layers> {
    let mode = given.int("mode")?.unwrap_or(LSTM);
    attrs.set("mode", mode);
    if let Some(sizes) = given.ints("batch_sizes")?.filter(|sizes| !sizes.is_empty()) {
        attrs.set("batch_sizes", sizes);
    }
    let mut operands = vec![given.tensor(import, "input")?];
    for name in &states[..if mode == LSTM { 2 } else { 1 }] {
        let mut state = given.tensor(import, name)?;
        if let &[rows, width] = import.spec(state).shape() {
            state = reshaped(import, state, &[1, rows as i64, width as i64])?;
        }
        operands.push(state);
    }
    let count = weights.len();
    operands.extend(weights);
    Ok(Layers { operands, attrs, is_lstm: mode == LSTM, weights: count })
}

/// Returns whether a layer drops outputs of another one.
fn drops(attrs: &Attrs) -> Lowered<bool> {
    Ok(attrs.bool("train")? == Some(true)
        && attrs.float("dropout")?.unwrap_or(0.0) > 0.0
        && attrs.int("num_layers")?.unwrap_or(1) > 1)
}

/// Lowers recurrent layers. Only the library's gradient reads what it reserves.
pub(super) fn forward(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let mut layers = match name {
        "mkldnn_rnn_layer" => one_layer(import, given, ["hx_", "cx_"])?,
        _ => all_layers(import, given)?,
    };
    let recorded = |k: usize| results.get(k).and_then(Option::as_ref);
    if drops(&layers.attrs)? {
        layers.attrs = import.draw(layers.attrs)?;
    }
    let mut vals = import.call("_cudnn_rnn", &layers.operands, layers.attrs)?;
    let masks = vals.split_off(if layers.is_lstm { 3 } else { 2 });
    import.note_masks(recorded(3), masks);
    let mut made = Vec::new();
    for k in 0..results.len() {
        made.push(match (vals.get(k), recorded(k)) {
            (Some(val), recorded) => Some(shaped(import, *val, recorded.filter(|_| k > 0))?),
            // The buffer of the weights is none of its own.
            (None, Some(recorded)) if k == BUFFER => Some(buffer(import, recorded)?),
            (None, Some(recorded)) => Some(opaque(import, recorded)?),
            (None, None) => None,
        });
    }
    Ok(made)
}

/// Lowers the gradient of recurrent layers: those for the input, the states, and the weights.
fn backward(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    mut layers: Layers,
) -> Lowered<Vec<Val>> {
    let mut flags = Vec::new();
    for name in &["grad_output", "grad_hy", "grad_cy"][..if layers.is_lstm { 3 } else { 2 }] {
        let is_given = given.has_tensor(name);
        flags.push(i64::from(is_given));
        if is_given {
            let mut grad = given.tensor(import, name)?;
            if let (&[rows, width], true) = (import.spec(grad).shape(), *name != "grad_output") {
                grad = reshaped(import, grad, &[1, rows as i64, width as i64])?;
            }
            layers.operands.push(grad);
        }
    }
    if let (true, Some((_, shared))) = (drops(&layers.attrs)?, given.get("reserve")) {
        layers.operands.extend(import.masks(shared)?);
    }
    import.call("_cudnn_rnn_backward", &layers.operands, layers.attrs.with("grads", flags))
}

/// Lowers the gradient of a layer of oneDNN.
pub(super) fn layer_backward(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let layer = one_layer(import, given, ["hx_", "cx_tmp"])?;
    let count = layer.weights;
    let made = backward(import, given, layer)?;
    let (x, states, weights) = (made[0], &made[1..3], &made[3..]);
    let mut each = vec![Some(x)];
    each.extend((0..4).map(|k| weights.get(k).copied().filter(|_| k < count)));
    each.extend(states.iter().copied().map(Some));
    // Under autocast, the library returns gradients in f32. The sums of both biases are the same.
    let mut converted = Vec::new();
    for (k, val) in each.into_iter().enumerate().take(results.len()) {
        let recorded = results.get(k).and_then(Option::as_ref);
        converted.push(match (val, recorded) {
            (Some(val), Some(recorded)) => {
                let val = shaped(import, val, Some(recorded))?;
                Some(cast(import, val, recorded.dtype)?)
            }
            (None, Some(recorded)) => Some(opaque(import, recorded)?),
            (val, None) => val,
        });
    }
    Ok(converted)
}

/// Lowers the gradient of all layers, whose results are in a list behind three others.
pub(super) fn layers_backward(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let layers = all_layers(import, given)?;
    let (count, states) = (layers.weights, if layers.is_lstm { 2 } else { 1 });
    let made = backward(import, given, layers)?;
    let mut all = vec![Some(made[0]), Some(made[1]), (states == 2).then(|| made[2])];
    all.extend(made[1 + states..].iter().copied().take(count).map(Some));
    all.resize(results.len(), None);
    for (val, recorded) in all.iter_mut().zip(results) {
        match recorded {
            Some(recorded) if val.is_none() => *val = Some(opaque(import, recorded)?),
            None => *val = None,
            Some(_) => {}
        }
    }
    if results.len() > 3 {
        in_one_buffer(import, &mut all[3..], &results[3..])?;
    }
    Ok(all)
}

/// Makes results the views of one tensor that PyTorch's are, if they fill it: gradients of weights
/// in a buffer.
fn in_one_buffer(
    import: &mut Import<'_>,
    made: &mut [Option<Val>],
    results: &[Option<Recorded>],
) -> Lowered<()> {
    let parts = made.iter().zip(results).enumerate();
    let mut parts: Vec<(usize, usize, Val, &Recorded)> = parts
        .filter_map(|(k, (val, recorded))| {
            let recorded = recorded.as_ref()?;
            Some((recorded.offset, k, (*val)?, recorded))
        })
        .collect();
    parts.sort_by_key(|(offset, ..)| *offset);
    let mut end = 0;
    let fills = parts.iter().all(|(offset, .., recorded)| {
        let begin = std::mem::replace(&mut end, offset + recorded.shape.iter().product::<usize>());
        *offset == begin && recorded.storage == parts[0].3.storage
    });
    if parts.len() < 2 || !fills {
        return Ok(());
    }
    let mut flat = Vec::new();
    for &(.., val, recorded) in &parts {
        flat.push(reshaped(import, val, &[recorded.shape.iter().product::<usize>() as i64])?);
    }
    let buffer = one_call(import, "cat", &flat, Attrs::new().with("dim", 0i64))?;
    for (offset, k, _, recorded) in parts {
        let length = recorded.shape.iter().product::<usize>() as i64;
        let attrs = Attrs::new().with("dim", 0i64).with("start", offset as i64);
        let part = one_call(import, "narrow", &[buffer], attrs.with("length", length))?;
        let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
        made[k] = Some(reshaped(import, part, &shape)?);
    }
    Ok(())
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

/// Lowers the packing of padded sequences, whose lengths the recording has.
pub(super) fn packed(
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
