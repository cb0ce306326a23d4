//! The fused layers of a transformer's encoder.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, op, table, wrong};

table! {
    op("_transformer_encoder_layer_fwd", "attention and two matrices, each with a norm and a sum",
        LAYER, ATTRS, layer).optional_from(13);
}

const LAYER: &[ArgDoc] = &[
    arg("src", "[n,length,features]"),
    arg("qkv_weight", "[3 features,features]"),
    arg("qkv_bias", "[3 features]"),
    arg("proj_weight", "[features,features]"),
    arg("proj_bias", "[features]"),
    arg("norm_weight_1", "[features]"),
    arg("norm_bias_1", "[features]"),
    arg("norm_weight_2", "[features]"),
    arg("norm_bias_2", "[features]"),
    arg("ffn_weight_1", "[hidden,features]"),
    arg("ffn_bias_1", "[hidden]"),
    arg("ffn_weight_2", "[features,hidden]"),
    arg("ffn_bias_2", "[features]"),
    arg("mask", "true where a score is excluded"),
];
const ATTRS: &[ArgDoc] = &[
    arg("embed_dim", "").int().ignored(),
    arg("num_heads", "the number of heads").int(),
    arg("use_gelu", "whether the activation is gelu, else relu").flag().or("false"),
    arg("norm_first", "whether the norms come first").flag().or("false"),
    arg("eps", "added to variances").float().or("1e-5"),
    arg("mask_type", "of pairs (0), of keys of each sequence (1), or both (2)").int().optional(),
];

/// Applies a matrix of weights and a bias, which the arguments name.
fn linear(
    calls: &mut Calls<'_>,
    x: Symbol,
    given: &Given<'_>,
    [weight, bias]: [&str; 2],
) -> Result<Symbol> {
    let (weight, bias) = (given.tensor(weight)?, given.tensor(bias)?);
    let weight = calls.transpose(weight, 0, 1)?;
    let product = calls.apply("matmul", &[x, weight])?;
    calls.apply("add", &[product, bias])
}

fn normalized(
    calls: &mut Calls<'_>,
    x: Symbol,
    given: &Given<'_>,
    [weight, bias]: [&str; 2],
) -> Result<Symbol> {
    let width = calls.spec(x).shape().last().copied().unwrap_or(0) as i64;
    let (weight, bias) = (given.tensor(weight)?, given.tensor(bias)?);
    let attrs =
        Attrs::new().with("normalized_shape", vec![width]).with("eps", given.number("eps", 1e-5)?);
    calls.one("native_layer_norm", &[x, weight, bias], attrs)
}

/// Returns an encoder's layer: attention and two matrices, each with a norm and a sum.
fn layer(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Symbol> {
    let x = given.tensor("src")?;
    let first = given.flag("norm_first", false)?;
    let (norm1, norm2) = (["norm_weight_1", "norm_bias_1"], ["norm_weight_2", "norm_bias_2"]);
    let inner = if first { normalized(calls, x, given, norm1)? } else { x };
    let attended = attention(calls, inner, given)?;
    let mut sum = calls.apply("add", &[attended, x])?;
    if !first {
        sum = normalized(calls, sum, given, norm1)?;
    }
    let inner = if first { normalized(calls, sum, given, norm2)? } else { sum };
    let hidden = linear(calls, inner, given, ["ffn_weight_1", "ffn_bias_1"])?;
    let activation = if given.flag("use_gelu", false)? { "gelu" } else { "relu" };
    let hidden = calls.apply(activation, &[hidden])?;
    let made = linear(calls, hidden, given, ["ffn_weight_2", "ffn_bias_2"])?;
    let sum = calls.apply("add", &[made, sum])?;
    if first { Ok(sum) } else { normalized(calls, sum, given, norm2) }
}

fn attention(calls: &mut Calls<'_>, x: Symbol, given: &Given<'_>) -> Result<Symbol> {
    let &[batch, length, width] = calls.spec(x).shape() else {
        return Err(wrong("src: expected [n,length,features]"));
    };
    let heads = given.int("num_heads")?.unwrap_or(1).max(1);
    let size = width as i64 / heads;
    let (batch, length, width) = (batch as i64, length as i64, width as i64);
    let all = linear(calls, x, given, ["qkv_weight", "qkv_bias"])?;
    let mut parts = Vec::new();
    for k in 0..3 {
        let part = calls.narrow(all, -1, k * width, width)?;
        let part = calls.reshape(part, &[batch, length, heads, size])?;
        parts.push(calls.transpose(part, 1, 2)?);
    }
    let keys = calls.transpose(parts[1], -2, -1)?;
    let scores = calls.apply("matmul", &[parts[0], keys])?;
    let mut scores = calls.by("div", scores, (size as f64).sqrt())?;
    if given.optional("mask").is_some() {
        scores = masked(calls, scores, given)?;
    }
    let last = along(-1).with("half_to_float", false);
    let shares = calls.one("_softmax", &[scores], last)?;
    let made = calls.apply("matmul", &[shares, parts[2]])?;
    let made = calls.transpose(made, 1, 2)?;
    let made = calls.reshape(made, &[batch, length, width])?;
    linear(calls, made, given, ["proj_weight", "proj_bias"])
}

/// Excludes scores: those of pairs (mask type 0), of keys of each sequence (1), or of both (2).
fn masked(calls: &mut Calls<'_>, scores: Symbol, given: &Given<'_>) -> Result<Symbol> {
    let mask = given.tensor("mask")?;
    let mask = calls.cast(mask, DType::Bool)?;
    let shape = calls.shape(mask);
    let mask = match (given.int("mask_type")?, &shape[..]) {
        (Some(1), &[batch, length]) => calls.reshape(mask, &[batch, 1, 1, length])?,
        (Some(0), &[_, _]) | (Some(2), &[_, _, _, _]) => mask,
        (Some(ty), _) => return Err(wrong(format!("a mask of type {ty}, shape {shape:?}"))),
        (None, _) => return Err(wrong("a mask without a type")),
    };
    calls.filled(scores, mask, f64::NEG_INFINITY)
}
