//! Lowers recurrent layers, and the packing of sequences.

use millstream_types::Attrs;

use super::{Made, Node, ints};
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::Recorded;

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
fn one_layer(node: &mut Node<'_, '_>, states: [&str; 2]) -> Lowered<Layers> {
    let first = if node.given.get("weight0").is_some() { 0 } else { 1 };
    let has_biases = node.given.flag("has_biases");
    let mut weights = Vec::new();
    for k in 0..if has_biases { 4 } else { 2 } {
        weights.push(node.tensor(&format!("weight{}", first + k))?);
    }
    // The input has the times first, whatever `batch_first` says of the module's.
    let attrs = Attrs::new().with("reverse", node.given.flag("reverse"));
    layers(node, states, weights, attrs.with("has_biases", has_biases))
}

/// Returns the operands of an op of cuDNN or MIOpen.
fn all_layers(node: &mut Node<'_, '_>) -> Lowered<Layers> {
    if node.given.int("proj_size")?.is_some_and(|size| size != 0) {
        return Err(unsupported("a recurrent layer with projections"));
    }
    let weights = node.tensors("weight")?;
    let mut attrs = Attrs::new().with("has_biases", node.given.int("weight_stride0")? == Some(4));
    for name in ["num_layers", "batch_first", "dropout", "train", "bidirectional"] {
        if let Some(value) = node.given.scalar(name)? {
            attrs.set(name, value);
        }
    }
    layers(node, ["hx", "cx"], weights, attrs)
}

fn layers(
    node: &mut Node<'_, '_>,
    states: [&str; 2],
    weights: Vec<Val>,
    mut attrs: Attrs,
) -> Lowered<Layers> {
    let mode = node.given.int("mode")?.unwrap_or(LSTM);
    attrs.set("mode", mode);
    if let Some(sizes) = node.given.ints("batch_sizes")?.filter(|sizes| !sizes.is_empty()) {
        attrs.set("batch_sizes", sizes);
    }
    let mut operands = vec![node.tensor("input")?];
    for name in &states[..if mode == LSTM { 2 } else { 1 }] {
        operands.push(state(node, name)?);
    }
    let count = weights.len();
    operands.extend(weights);
    Ok(Layers { operands, attrs, is_lstm: mode == LSTM, weights: count })
}

/// Returns the states of this name, or their gradients, with a dimension of layers.
fn state(node: &mut Node<'_, '_>, name: &str) -> Lowered<Val> {
    let x = node.tensor(name)?;
    match *node.import.spec(x).shape() {
        [rows, width] => node.import.reshaped(x, ints(&[1, rows, width])),
        _ => Ok(x),
    }
}

/// Returns whether a layer drops outputs of another one.
fn drops(attrs: &Attrs) -> Lowered<bool> {
    Ok(attrs.bool("train")? == Some(true)
        && attrs.float("dropout")?.unwrap_or(0.0) > 0.0
        && attrs.int("num_layers")?.unwrap_or(1) > 1)
}

/// Lowers recurrent layers. Only the library's gradient reads what it reserves.
pub(super) fn forward(node: &mut Node<'_, '_>, name: &str) -> Lowered<Made> {
    let mut layers = match name {
        "mkldnn_rnn_layer" => one_layer(node, ["hx_", "cx_"])?,
        _ => all_layers(node)?,
    };
    if drops(&layers.attrs)? {
        layers.attrs = node.import.draw(layers.attrs)?;
    }
    let mut vals = node.import.call("_cudnn_rnn", &layers.operands, layers.attrs)?;
    let masks = vals.split_off(if layers.is_lstm { 3 } else { 2 });
    node.import.note_masks(node.result(3), masks);
    let mut made = Vec::new();
    for k in 0..node.results.len() {
        made.push(match (vals.get(k), node.result(k)) {
            (Some(val), recorded) => Some(shaped(node.import, *val, recorded.filter(|_| k > 0))?),
            // The buffer of the weights is none of its own.
            (None, Some(recorded)) if k == BUFFER => Some(node.import.buffer(recorded)?),
            (None, Some(recorded)) => Some(node.import.opaque(recorded)?),
            (None, None) => None,
        });
    }
    Ok(made)
}

/// Lowers the gradient of recurrent layers: those for the input, the states, and the weights.
fn backward(node: &mut Node<'_, '_>, mut layers: Layers) -> Lowered<Vec<Val>> {
    let mut flags = Vec::new();
    for name in &["grad_output", "grad_hy", "grad_cy"][..if layers.is_lstm { 3 } else { 2 }] {
        let is_given = node.given.has_tensor(name);
        flags.push(i64::from(is_given));
        if is_given {
            layers.operands.push(match *name {
                "grad_output" => node.tensor(name)?,
                _ => state(node, name)?,
            });
        }
    }
    if let (true, Some((_, shared))) = (drops(&layers.attrs)?, node.given.get("reserve")) {
        layers.operands.extend(node.import.masks(shared)?);
    }
    node.import.call("_cudnn_rnn_backward", &layers.operands, layers.attrs.with("grads", flags))
}

/// Lowers the gradient of a layer of oneDNN.
pub(super) fn layer_backward(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let layer = one_layer(node, ["hx_", "cx_tmp"])?;
    let count = layer.weights;
    let made = backward(node, layer)?;
    let (x, states, weights) = (made[0], &made[1..3], &made[3..]);
    let mut each = vec![Some(x)];
    each.extend((0..4).map(|k| weights.get(k).copied().filter(|_| k < count)));
    each.extend(states.iter().copied().map(Some));
    // Under autocast, the library returns gradients in f32. The sums of both biases are the same.
    let mut converted = Vec::new();
    for (k, val) in each.into_iter().enumerate().take(node.results.len()) {
        let recorded = node.result(k);
        converted.push(match (val, recorded) {
            (Some(val), Some(recorded)) => {
                let val = shaped(node.import, val, Some(recorded))?;
                Some(node.import.cast(val, recorded.dtype)?)
            }
            (None, Some(recorded)) => Some(node.import.opaque(recorded)?),
            (val, None) => val,
        });
    }
    Ok(converted)
}

/// Lowers the gradient of all layers, whose results are in a list behind three others.
pub(super) fn layers_backward(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let layers = all_layers(node)?;
    let (count, states) = (layers.weights, if layers.is_lstm { 2 } else { 1 });
    let made = backward(node, layers)?;
    let mut all = vec![Some(made[0]), Some(made[1]), (states == 2).then(|| made[2])];
    all.extend(made[1 + states..].iter().copied().take(count).map(Some));
    all.resize(node.results.len(), None);
    for (val, recorded) in all.iter_mut().zip(node.results) {
        match recorded {
            Some(recorded) if val.is_none() => *val = Some(node.import.opaque(recorded)?),
            None => *val = None,
            Some(_) => {}
        }
    }
    if node.results.len() > 3 {
        in_one_buffer(node.import, &mut all[3..], &node.results[3..])?;
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
    let parts = made.iter_mut().zip(results);
    let mut parts: Vec<(&mut Val, &Recorded)> =
        parts.filter_map(|(val, recorded)| Some((val.as_mut()?, recorded.as_ref()?))).collect();
    parts.sort_by_key(|(_, recorded)| recorded.offset);
    let mut end = 0;
    let fills = parts.iter().all(|(_, recorded)| {
        let begin = std::mem::replace(&mut end, recorded.offset + recorded.numel());
        recorded.offset == begin && recorded.storage == parts[0].1.storage
    });
    if parts.len() < 2 || !fills {
        return Ok(());
    }
    let mut flat = Vec::new();
    for (val, recorded) in &parts {
        flat.push(import.reshaped(**val, vec![recorded.numel() as i64])?);
    }
    let buffer = import.one("cat", &flat, Attrs::new().with("dim", 0i64))?;
    for (val, recorded) in parts {
        let length = recorded.numel() as i64;
        let part = import.narrow(buffer, 0, recorded.offset as i64, length)?;
        *val = import.reshaped(part, ints(&recorded.shape))?;
    }
    Ok(())
}

/// Gives a result the recorded shape.
fn shaped(import: &mut Import<'_>, x: Val, recorded: Option<&Recorded>) -> Lowered<Val> {
    match recorded {
        Some(recorded) if import.spec(x).shape() != &*recorded.shape => {
            import.reshaped(x, ints(&recorded.shape))
        }
        _ => Ok(x),
    }
}

/// Lowers the packing of padded sequences, whose lengths the recording has.
pub(super) fn packed(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let [Some(data), Some(sizes)] = node.results else {
        return Err(unsupported("a packing without results"));
    };
    let mut converted = node.convert("_pack_padded_sequence", &[])?;
    let rows = data.shape.first().copied().unwrap_or(0) as i64;
    converted.attrs.set("rows", rows);
    converted.attrs.set("times", sizes.shape.first().copied().unwrap_or(0) as i64);
    node.import.made("_pack_padded_sequence", converted)
}
