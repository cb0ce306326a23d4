//! Attention of any dropout and width, with the gradient of its mask, and the fused layers of a
//! transformer's encoder.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::random::{OFFSET, OFFSET_NUMBER, SEED, SEED_DOC};
use crate::schema::ArgDoc;

use super::calls::{along, wide};
use super::{Calls, Composite, Given, Symbol, op, several, table, wrong};

table! {
    several("_scaled_dot_product_fused_attention_overrideable",
        "the values, weighted by the softmax of the scaled products of queries and keys, the \
         logarithms of the sums of exponentials, and with dropout the mask of weights",
        OPERANDS, ATTENTION, 2, attended)
        .optional_from(3);
    several("_scaled_dot_product_fused_attention_overrideable_backward",
        "the gradients of `_scaled_dot_product_fused_attention_overrideable`", GRADIENT, MASKED, 3,
        attended_backward).optional_from(4);
    op("_transformer_encoder_layer_fwd", "attention and two matrices, each with a norm and a sum",
        LAYER, ATTRS, layer).optional_from(13);
}

/// The op whose kernels hold a block of the scores at a time.
const BY_BLOCKS: &str = "_scaled_dot_product_flash_attention_for_cpu";
const QUERY: ArgDoc = arg("query", "[b,h,s,d]");
const KEY: ArgDoc = arg("key", "[b,g,l,d]: g divides h");
const VALUE: ArgDoc = arg("value", "[b,g,l,e]");
const BIAS: ArgDoc = arg("attn_bias", "added to the scores; a shape that broadcasts to [b,h,s,l]");
const OPERANDS: &[ArgDoc] = &[QUERY, KEY, VALUE, BIAS];
const GRADIENT: &[ArgDoc] = &[
    arg("grad_out", "the gradient of the first result"),
    QUERY,
    KEY,
    VALUE,
    BIAS,
    arg("out", "the first result; default: computed again"),
    arg("logsumexp", "the second result; default: computed again"),
    arg("dropout_mask", "the third result, if weights were dropped"),
];
const DROPOUT: ArgDoc =
    arg("dropout_p", "the probability that a weight is dropped").float().or("0");
const CAUSAL: ArgDoc =
    arg("is_causal", "whether query i attends only to keys 0 to i").flag().or("false");
const SCALE: ArgDoc = arg("scale", "factor of the scores").float().or("1 / sqrt(d)");
const ATTENTION: &[ArgDoc] = &[DROPOUT, CAUSAL, SCALE, SEED_DOC, OFFSET_NUMBER];
const MASKED: &[ArgDoc] = &[
    DROPOUT,
    CAUSAL,
    SCALE,
    arg("output_mask", "four flags, 0 or 1: which gradients to compute, of the operands")
        .ints()
        .or("1, 1, 1, 0"),
];

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

/// The scores of attention and the weights that they become, in the dtype of their computation.
struct Weights {
    query: Symbol,
    /// Keys and values, with a head for each of the query's.
    key: Symbol,
    value: Symbol,
    scores: Symbol,
    weights: Symbol,
    /// The queries that no key is visible to, which get the weights 0.
    blind: Option<Symbol>,
    /// The number of batches, of heads of the keys, of the query's heads for each, and of keys.
    shared: [i64; 4],
    scale: f64,
}

/// Returns whether the op that computes by blocks takes the operands.
fn is_by_blocks(calls: &Calls<'_>, given: &Given<'_>) -> Result<bool> {
    let each = ["query", "key", "value"].map(|name| given.tensor(name));
    let [query, key, value] = each;
    let [query, key, value] = [calls.shape(query?), calls.shape(key?), calls.shape(value?)];
    let rank = given.optional("attn_bias").map_or(4, |bias| calls.rank(bias));
    Ok(given.number("dropout_p", 0.0)? == 0.0
        && query.last() == value.last()
        && ![query, key].concat().contains(&0)
        && [2, 4].contains(&rank))
}

/// Returns the operands of this name, as far as they are given.
fn listed(given: &Given<'_>, names: &[&str]) -> Vec<Symbol> {
    names.iter().filter_map(|name| given.optional(name)).collect()
}

/// Returns the weights of all pairs of queries and keys.
fn weights(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Weights> {
    let [query, key] = [given.tensor("query")?, given.tensor("key")?];
    let (&[batch, heads, queries, width], &[_, groups, keys, _]) =
        (&calls.shape(query)[..], &calls.shape(key)[..])
    else {
        return Err(wrong("query and key: expected four dimensions"));
    };
    if groups == 0 || heads % groups != 0 {
        return Err(wrong(format!("key: expected a number of heads that divides {heads}")));
    }
    let dtype = wide(calls.dtype(query));
    let shared = [batch, groups, heads / groups, keys];
    let mut each = Vec::new();
    for name in ["key", "value"] {
        let mut x = calls.cast(given.tensor(name)?, dtype)?;
        if groups != heads {
            let length = *calls.shape(x).last().unwrap_or(&0);
            let size = [&shared[..], &[length]].concat();
            x = calls.unsqueeze(x, 2)?;
            x = calls.one("expand", &[x], Attrs::new().with("size", size))?;
            x = calls.reshape(x, &[batch, heads, keys, length])?;
        }
        each.push(x);
    }
    let query = calls.cast(query, dtype)?;
    let scale = given.number("scale", 1.0 / (width as f64).sqrt())?;
    let turned = calls.transpose(each[0], -1, -2)?;
    let scores = calls.apply("matmul", &[query, turned])?;
    let mut scores = calls.by("mul", scores, scale)?;
    if let Some(bias) = given.optional("attn_bias") {
        if !calls.dtype(bias).is_float() {
            return Err(wrong(format!("attn_bias: expected floats, got {}", calls.dtype(bias))));
        }
        let bias = calls.cast(bias, dtype)?;
        scores = calls.apply("add", &[scores, bias])?;
    }
    if given.flag("is_causal", false)? {
        let hidden = calls.full(vec![queries, keys], f64::NEG_INFINITY, dtype)?;
        let hidden = calls.one("triu", &[hidden], Attrs::new().with("diagonal", 1))?;
        scores = calls.apply("add", &[scores, hidden])?;
    }
    let mut blind = None;
    if given.optional("attn_bias").is_some() {
        let greatest = calls.one("amax", &[scores], over(&[-1]).with("keepdim", true))?;
        let rows = calls.by("eq", greatest, f64::NEG_INFINITY)?;
        scores = calls.filled(scores, rows, 0.0)?;
        blind = Some(rows);
    }
    let mut weights = calls.one("_softmax", &[scores], along(-1).with("half_to_float", false))?;
    if let Some(rows) = blind {
        weights = calls.filled(weights, rows, 0.0)?;
    }
    Ok(Weights { query, key: each[0], value: each[1], scores, weights, blind, shared, scale })
}

/// Returns the argument `dim` of a reduction.
fn over(dims: &[i64]) -> Attrs {
    Attrs::new().with("dim", dims.to_vec())
}

fn attended(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    if is_by_blocks(calls, given)? {
        return calls.call(BY_BLOCKS, given.tensors(), given.passed(&["is_causal", "scale"]));
    }
    let dtype = calls.dtype(given.tensor("query")?);
    let all = weights(calls, given)?;
    let (mut kept, mut mask) = (all.weights, None);
    if given.number("dropout_p", 0.0)? > 0.0 {
        let draw = given.passed(&[SEED, OFFSET]).with("p", given.number("dropout_p", 0.0)?);
        let [dropped, drawn] = calls.several("native_dropout", &[kept], draw)?;
        (kept, mask) = (dropped, Some(drawn));
    }
    let made = calls.apply("matmul", &[kept, all.value])?;
    let mut sums = calls.one("logsumexp", &[all.scores], over(&[-1]).with("keepdim", true))?;
    if let Some(blind) = all.blind {
        sums = calls.filled(sums, blind, 0.0)?;
    }
    let shape = calls.shape(sums);
    let results = [calls.cast(made, dtype)?, calls.reshape(sums, &shape[..3])?];
    Ok(results.into_iter().chain(mask).collect())
}

/// Returns the sum of a tensor over the dimensions in which it was broadcast from a shape.
fn summed(calls: &mut Calls<'_>, mut x: Symbol, shape: &[usize]) -> Result<Symbol> {
    let before = calls.rank(x) - shape.len();
    if before > 0 {
        x = calls.one("sum", &[x], over(&(0..before as i64).collect::<Vec<_>>()))?;
    }
    let lengths = calls.shape(x);
    let differs = |&at: &usize| lengths[at] != shape[at] as i64;
    let dims: Vec<i64> = (0..shape.len()).filter(differs).map(|at| at as i64).collect();
    match dims[..] {
        [] => Ok(x),
        _ => calls.one("sum", &[x], over(&dims).with("keepdim", true)),
    }
}

fn attended_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let mask = given.ints("output_mask")?.unwrap_or_else(|| vec![1, 1, 1, 0]);
    let &[wants_query, wants_key, wants_value, wants_bias] = &mask[..] else {
        return Err(wrong("output_mask: expected 4 flags"));
    };
    let results = [given.optional("out"), given.optional("logsumexp")];
    if is_by_blocks(calls, given)? && wants_bias == 0 && !results.contains(&None) {
        let names = ["grad_out", "query", "key", "value", "out", "logsumexp", "attn_bias"];
        let attrs = given.passed(&["is_causal", "scale"]);
        let made = calls.call(&format!("{BY_BLOCKS}_backward"), &listed(given, &names), attrs)?;
        let wanted = made.into_iter().zip(mask).filter(|(_, wanted)| *wanted != 0);
        return Ok(wanted.map(|(gradient, _)| gradient).collect());
    }
    let all = weights(calls, given)?;
    let dtype = calls.dtype(all.query);
    let grad = calls.cast(given.tensor("grad_out")?, dtype)?;
    let turned = calls.transpose(all.value, -1, -2)?;
    let (mut kept, mut of_weights) = (all.weights, calls.apply("matmul", &[grad, turned])?);
    let p = given.number("dropout_p", 0.0)?;
    if p > 0.0 {
        let mask = given.tensor("dropout_mask")?;
        for x in [&mut kept, &mut of_weights] {
            *x = calls.undropped(*x, mask, p)?;
        }
    }
    let products = calls.apply("mul", &[of_weights, all.weights])?;
    let sums = calls.one("sum", &[products], over(&[-1]).with("keepdim", true))?;
    let centred = calls.apply("sub", &[of_weights, sums])?;
    let of_scores = calls.apply("mul", &[all.weights, centred])?;
    let mut made = Vec::new();
    let mut add = |calls: &mut Calls<'_>, x: Symbol, name: &str| -> Result<()> {
        let dtype = calls.dtype(given.tensor(name)?);
        made.push(calls.cast(x, dtype)?);
        Ok(())
    };
    if wants_query != 0 {
        let x = calls.apply("matmul", &[of_scores, all.key])?;
        let x = calls.by("mul", x, all.scale)?;
        add(calls, x, "query")?;
    }
    if wants_key != 0 {
        let turned = calls.transpose(of_scores, -1, -2)?;
        let x = calls.apply("matmul", &[turned, all.query])?;
        let x = calls.by("mul", x, all.scale)?;
        let x = of_groups(calls, x, all.shared)?;
        add(calls, x, "key")?;
    }
    if wants_value != 0 {
        let turned = calls.transpose(kept, -1, -2)?;
        let x = calls.apply("matmul", &[turned, grad])?;
        let x = of_groups(calls, x, all.shared)?;
        add(calls, x, "value")?;
    }
    if wants_bias != 0 {
        let shape = calls.spec(given.tensor("attn_bias")?).shape().to_vec();
        let x = summed(calls, of_scores, &shape)?;
        add(calls, x, "attn_bias")?;
    }
    Ok(made)
}

/// Returns the sums of the gradients of the heads that share a head of keys.
fn of_groups(calls: &mut Calls<'_>, x: Symbol, shared: [i64; 4]) -> Result<Symbol> {
    if shared[2] == 1 {
        return Ok(x);
    }
    let length = *calls.shape(x).last().unwrap_or(&0);
    let x = calls.reshape(x, &[&shared[..], &[length]].concat())?;
    calls.one("sum", &[x], over(&[2]))
}

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
