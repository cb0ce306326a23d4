//! Lowers the fused layers of a transformer's encoder to the ops that they stand for.

use millstream_types::{AttrValue, Attrs, DType};

use super::composed::reshaped;
use super::functions::{apply, cast, filled, number};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Arg;

/// Lowers an op; `None` if it is none of these.
pub(super) fn encoder(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
) -> Lowered<Option<Made>> {
    match name {
        "_transformer_encoder_layer_fwd" => Ok(Some(vec![Some(layer(import, given)?)])),
        _ => Ok(None),
    }
}

fn flag(given: &NodeArgs<'_>, name: &str) -> Lowered<bool> {
    Ok(given.scalar(name)? == Some(AttrValue::Bool(true)))
}

/// Applies a matrix of weights and a bias, which the arguments name.
fn linear(
    import: &mut Import<'_>,
    x: Val,
    given: &NodeArgs<'_>,
    [weight, bias]: [&str; 2],
) -> Lowered<Val> {
    let (weight, bias) = (given.tensor(import, weight)?, given.tensor(import, bias)?);
    let turned = Attrs::new().with("dim0", 0i64).with("dim1", 1i64);
    let weight = one_call(import, "transpose", &[weight], turned)?;
    let product = apply(import, "matmul", &[x, weight])?;
    apply(import, "add", &[product, bias])
}

fn normalized(
    import: &mut Import<'_>,
    x: Val,
    given: &NodeArgs<'_>,
    [weight, bias]: [&str; 2],
) -> Lowered<Val> {
    let width = import.spec(x).shape().last().copied().unwrap_or(0) as i64;
    let (weight, bias) = (given.tensor(import, weight)?, given.tensor(import, bias)?);
    let attrs =
        Attrs::new().with("normalized_shape", vec![width]).with("eps", number(given, "eps", 1e-5)?);
    let made = import.call("native_layer_norm", &[x, weight, bias], attrs)?;
    made.first().copied().ok_or_else(|| unsupported("a norm without a result"))
}

/// Lowers an encoder's layer: attention and two matrices, each with a norm and a sum.
fn layer(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Val> {
    let x = given.tensor(import, "src")?;
    let first = flag(given, "norm_first")?;
    let (norm1, norm2) = (["norm_weight_1", "norm_bias_1"], ["norm_weight_2", "norm_bias_2"]);
    let inner = if first { normalized(import, x, given, norm1)? } else { x };
    let attended = attention(import, inner, given)?;
    let mut sum = apply(import, "add", &[attended, x])?;
    if !first {
        sum = normalized(import, sum, given, norm1)?;
    }
    let inner = if first { normalized(import, sum, given, norm2)? } else { sum };
    let hidden = linear(import, inner, given, ["ffn_weight_1", "ffn_bias_1"])?;
    let activation = if flag(given, "use_gelu")? { "gelu" } else { "relu" };
    let hidden = apply(import, activation, &[hidden])?;
    let made = linear(import, hidden, given, ["ffn_weight_2", "ffn_bias_2"])?;
    let sum = apply(import, "add", &[made, sum])?;
    if first { Ok(sum) } else { normalized(import, sum, given, norm2) }
}

fn attention(import: &mut Import<'_>, x: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let &[batch, length, width] = import.spec(x).shape() else {
        return Err(Refusal::Wrong("'src': expected [n,length,features]".to_owned()));
    };
    let heads = given.int("num_heads")?.unwrap_or(1).max(1);
    let size = width as i64 / heads;
    let (batch, length, width) = (batch as i64, length as i64, width as i64);
    let all = linear(import, x, given, ["qkv_weight", "qkv_bias"])?;
    let mut parts = Vec::new();
    for k in 0..3 {
        let part = Attrs::new().with("dim", -1i64).with("start", k * width).with("length", width);
        let part = one_call(import, "narrow", &[all], part)?;
        let part = reshaped(import, part, &[batch, length, heads, size])?;
        let turned = Attrs::new().with("dim0", 1i64).with("dim1", 2i64);
        parts.push(one_call(import, "transpose", &[part], turned)?);
    }
    let turned = Attrs::new().with("dim0", -2i64).with("dim1", -1i64);
    let keys = one_call(import, "transpose", &[parts[1]], turned)?;
    let scores = apply(import, "matmul", &[parts[0], keys])?;
    let root = Attrs::new().with("other", (size as f64).sqrt());
    let mut scores = one_call(import, "div", &[scores], root)?;
    if let Some((_, Arg::Tensor(_))) = given.get("mask") {
        scores = masked(import, scores, given)?;
    }
    let last = Attrs::new().with("dim", -1i64).with("half_to_float", false);
    let shares = one_call(import, "_softmax", &[scores], last)?;
    let made = apply(import, "matmul", &[shares, parts[2]])?;
    let turned = Attrs::new().with("dim0", 1i64).with("dim1", 2i64);
    let made = one_call(import, "transpose", &[made], turned)?;
    let made = reshaped(import, made, &[batch, length, width])?;
    linear(import, made, given, ["proj_weight", "proj_bias"])
}

/// Excludes scores: those of pairs (mask type 0), of keys of each sequence (1), or of both (2).
fn masked(import: &mut Import<'_>, scores: Val, given: &NodeArgs<'_>) -> Lowered<Val> {
    let mask = given.tensor(import, "mask")?;
    let mask = cast(import, mask, DType::Bool)?;
    let shape: Vec<i64> = import.spec(mask).shape().iter().map(|&d| d as i64).collect();
    let mask = match (given.int("mask_type")?, &shape[..]) {
        (Some(1), &[batch, length]) => reshaped(import, mask, &[batch, 1, 1, length])?,
        (Some(0), &[_, _]) | (Some(2), &[_, _, _, _]) => mask,
        (Some(ty), _) => return Err(unsupported(format!("a mask of type {ty}, shape {shape:?}"))),
        (None, _) => return Err(unsupported("a mask without a type")),
    };
    filled(import, scores, mask, f64::NEG_INFINITY)
}
