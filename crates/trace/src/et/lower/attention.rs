//! Lowers the attention of GPUs' libraries. Their ops differ in the order of dimensions, in the
//! names of arguments, and in results that only their own gradients read.

use millstream_ops::args::ABSENT;
use millstream_types::Attrs;

use super::{Made, Node, ints};
use crate::et::args::Converted;
use crate::et::import::{Import, Lowered, Val, unsupported};
use crate::et::value::{Arg, Recorded};

const OP: &str = "_scaled_dot_product_fused_attention_overrideable";

/// The ops without `_forward` and `_backward`, and whether heads are inside of sequences.
const KINDS: &[(&str, bool)] = &[
    (OP, false),
    ("_scaled_dot_product_cudnn_attention", false),
    ("_scaled_dot_product_efficient_attention", false),
    ("_scaled_dot_product_flash_attention", false),
    ("_cudnn_attention", false),
    ("_efficient_attention", true),
    ("_flash_attention", true),
];

/// Arguments that make one tensor hold sequences of several lengths, or scale its elements.
const REFUSED: &[&str] = &[
    "cum_seq_q",
    "cum_seq_k",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "seqused_k",
    "seqlen_k",
    "alibi_slopes",
    "block_table",
    "q_descale",
    "k_descale",
    "v_descale",
];

/// An op's tensors, with heads outside of sequences, and its arguments.
struct Operands {
    query: Val,
    key: Val,
    value: Val,
    bias: Option<Val>,
    attrs: Attrs,
    dropout: f64,
    /// Whether heads are inside of sequences in the recorded tensors.
    turned: bool,
}

/// Lowers an op; `None` if it is none of these.
pub(super) fn attention(node: &mut Node<'_, '_>, name: &str) -> Lowered<Option<Made>> {
    let gradient = name.strip_suffix("_backward");
    let kind = gradient.or(name.strip_suffix("_forward")).unwrap_or(name);
    let Some(&(_, turned)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return Ok(None);
    };
    let operands = operands(node, kind, turned)?;
    match gradient {
        Some(_) => backward(node, operands).map(Some),
        None => forward(node, operands).map(Some),
    }
}

/// Exchanges heads and sequences, if the op has them in the other order.
fn turned(import: &mut Import<'_>, x: Val, is_turned: bool) -> Lowered<Val> {
    match is_turned {
        true => import.one("transpose", &[x], Attrs::new().with("dim0", 1).with("dim1", 2)),
        false => Ok(x),
    }
}

fn operands(node: &mut Node<'_, '_>, kind: &str, is_turned: bool) -> Lowered<Operands> {
    let given = node.given;
    for name in REFUSED {
        if matches!(given.get(name), Some((_, Arg::Tensor(tensor))) if tensor.numel() > 0) {
            return Err(unsupported(format!("its argument '{name}' is not supported")));
        }
    }
    let mut operand = |name: &str| -> Lowered<Val> {
        let x = node.tensor(name)?;
        turned(node.import, x, is_turned)
    };
    let (query, key, value) = (operand("query")?, operand("key")?, operand("value")?);
    let bias = ["attn_bias", "bias"].into_iter().find(|name| given.has_tensor(name));
    let mut bias = bias.map(|name| node.tensor(name)).transpose()?;
    let mut attrs = Attrs::new();
    if let Some(scale) = given.scalar("scale")? {
        attrs.set("scale", scale);
    }
    if given.int("window_size")?.is_some_and(|size| size > 0) {
        return Err(unsupported("its argument 'window_size' is not supported"));
    }
    let dims = |x: Val| node.import.spec(x).shape().get(2).map_or(0, |&length| length as i64);
    let (queries, keys) = (dims(query), dims(key));
    let mask_type = given.int("custom_mask_type")?.unwrap_or(0);
    let is_causal = given.flag("is_causal") || mask_type > 0;
    // Whether the last query, and not the first one, is aligned with a key.
    let by_end = kind.contains("flash") || mask_type == 2;
    let shift = if by_end { keys - queries } else { 0 };
    let window =
        |name: &str| -> Lowered<Option<i64>> { Ok(given.int(name)?.filter(|&size| size >= 0)) };
    let left = window("window_size_left")?;
    let right = if is_causal { Some(0) } else { window("window_size_right")? };
    if (left, right, shift) == (None, Some(0), 0) {
        attrs.set("is_causal", true);
    } else {
        let after = right.map(|right| ("triu", shift + right + 1));
        for (op, diagonal) in after.into_iter().chain(left.map(|left| ("tril", shift - left - 1))) {
            let dtype = node.import.spec(query).dtype;
            let hidden = node.import.full(vec![queries, keys], f64::NEG_INFINITY, dtype)?;
            let hidden = node.import.one(op, &[hidden], Attrs::new().with("diagonal", diagonal))?;
            bias = Some(match bias {
                Some(bias) => node.import.apply("add", &[bias, hidden])?,
                None => hidden,
            });
        }
    }
    let dropout = given.float("dropout_p", 0.0)?;
    attrs.set("dropout_p", dropout);
    Ok(Operands { query, key, value, bias, attrs, dropout, turned: is_turned })
}

fn forward(node: &mut Node<'_, '_>, operands: Operands) -> Lowered<Made> {
    let Operands { query, key, value, bias, mut attrs, .. } = operands;
    if operands.dropout > 0.0 {
        attrs = node.import.draw(attrs)?;
    }
    let inputs: Vec<Val> = [query, key, value].into_iter().chain(bias).collect();
    let made = node.import.call(OP, &inputs, attrs)?;
    let &[out, sums, ref masks @ ..] = &made[..] else {
        return Err(unsupported("attention without its sums"));
    };
    node.import.note_masks(node.result(1), masks.to_vec());
    let mut made = vec![Some(as_recorded(node.import, out, operands.turned, node.result(0))?)];
    for (k, result) in node.results.iter().enumerate().skip(1) {
        made.push(match result {
            Some(recorded) if k == 1 && recorded.numel() > 0 => {
                Some(padded(node.import, sums, recorded)?)
            }
            Some(recorded) => Some(node.import.opaque(recorded)?),
            None => (k == 1 && node.import.is_single).then_some(sums),
        });
    }
    Ok(made)
}

/// Returns a result in the recorded order of dimensions. Its elements are copied if their order is
/// another one.
fn as_recorded(
    import: &mut Import<'_>,
    x: Val,
    is_turned: bool,
    recorded: Option<&Recorded>,
) -> Lowered<Val> {
    let x = turned(import, x, is_turned)?;
    let strides = recorded.and_then(|recorded| recorded.strides.as_deref());
    match strides {
        Some(strides) if is_turned && strides != import.spec(x).layout.strides() => {
            import.apply("clone", &[x])
        }
        _ => Ok(x),
    }
}

/// Returns the logarithms of sums in the recorded shape. Libraries add a dimension, or infinities
/// up to a multiple of the number of queries that they compute together.
fn padded(import: &mut Import<'_>, sums: Val, recorded: &Recorded) -> Lowered<Val> {
    let queries = import.spec(sums).shape()[2];
    match recorded.shape[..] {
        [_, _, length] if length > queries => {
            let pad = Attrs::new().with("pad", vec![0, (length - queries) as i64]);
            import.one("constant_pad_nd", &[sums], pad.with("value", f64::INFINITY))
        }
        [batch, heads, _, 1] => {
            let sums = import.dense(sums)?;
            import.reshaped(sums, ints(&[batch, heads, queries, 1]))
        }
        _ => Ok(sums),
    }
}

fn backward(node: &mut Node<'_, '_>, operands: Operands) -> Lowered<Made> {
    let name = if node.given.get("grad_out").is_some() { "grad_out" } else { "grad_out_" };
    let Operands { query, key, value, bias, mut attrs, turned: is_turned, .. } = operands;
    let grad = node.tensor(name)?;
    let grad = turned(node.import, grad, is_turned)?;
    let out = node.tensor("out")?;
    let out = turned(node.import, out, is_turned)?;
    let mut sums = node.tensor("logsumexp")?;
    let Some(shape) = node.import.spec(query).shape().get(..3) else {
        return Err(unsupported("a query of fewer than three dimensions"));
    };
    let shape = ints(shape);
    match node.import.spec(sums).shape() {
        &[_, _, length] if length as i64 > shape[2] => {
            sums = node.import.narrow(sums, 2, 0, shape[2])?;
        }
        [_, _, _, _] => sums = node.import.reshaped(sums, shape)?,
        _ => {}
    }
    let mask = match node.given.get("logsumexp") {
        Some((_, shared)) if operands.dropout > 0.0 => node.import.masks(shared)?.first().copied(),
        _ => None,
    };
    let is_made = |k: usize| node.import.is_single || node.result(k).is_some();
    let has_bias = bias.is_some() && is_made(3) && node.results.len() > 3;
    let wanted: Vec<i64> = (0..3).map(is_made).chain([has_bias]).map(i64::from).collect();
    attrs.set("output_mask", wanted);
    let [grad, query, key, value, out, sums] = [grad, query, key, value, out, sums].map(Some);
    let operands = [grad, query, key, value, bias, out, sums, mask];
    let last = operands.iter().rposition(Option::is_some).unwrap_or(0);
    let absent: Vec<i64> = (0..last as i64).filter(|&k| operands[k as usize].is_none()).collect();
    if !absent.is_empty() {
        attrs.set(ABSENT, absent);
    }
    let inputs = operands.into_iter().flatten().collect();
    let made = node.import.made(&format!("{OP}_backward"), Converted { inputs, attrs })?;
    let made = made.into_iter().enumerate().take(node.results.len());
    let turned_back = made.map(|(k, val)| {
        let is_turned = is_turned && k < 3;
        val.map(|val| as_recorded(node.import, val, is_turned, node.result(k))).transpose()
    });
    turned_back.collect()
}
