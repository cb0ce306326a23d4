//! Attention of any dropout and width, with the gradient of its mask, and the fused layers of a
//! transformer's encoder.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::random::{OFFSET, OFFSET_NUMBER, SEED, SEED_DOC};
use crate::schema::ArgDoc;

use super::{Args, Composite, op, several, table};
use crate::formula::{Expr, along, wide, wrong};

table! {
    several("_scaled_dot_product_fused_attention_overrideable",
        "the values, weighted by the softmax of the scaled products of queries and keys, the \
         logarithms of the sums of exponentials, and with dropout the mask of weights",
        OPERANDS, ATTENTION, 2, attended)
        .optional_from(3);
    several("_scaled_dot_product_fused_attention_overrideable_backward",
        "the gradients of `_scaled_dot_product_fused_attention_overrideable`", GRADIENT, MASKED, 3,
        attended_backward).optional_from(4);
    op("_transformer_encoder_layer_fwd",
        "attention and two matrices, each with a norm and a sum", LAYER, ATTRS, layer)
        .optional_from(13);
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
struct Weights<'a> {
    query: Expr<'a>,
    /// Keys and values, with a head for each of the query's.
    key: Expr<'a>,
    value: Expr<'a>,
    scores: Expr<'a>,
    weights: Expr<'a>,
    /// The queries that no key is visible to, which get the weights 0.
    blind: Option<Expr<'a>>,
    /// The number of batches, of heads of the keys, of the query's heads for each, and of keys.
    shared: [i64; 4],
    scale: f64,
}

/// Returns whether the op that computes by blocks takes the operands.
fn is_by_blocks(args: Args<'_>) -> Result<bool> {
    let [query, key, value] = args.tensors(["query", "key", "value"]);
    let [query, key, value] = [query.shape()?, key.shape()?, value.shape()?];
    let rank = args.optional("attn_bias").map_or(Ok(4), Expr::rank)?;
    Ok(args.number("dropout_p", 0.0)? == 0.0
        && query.last() == value.last()
        && ![query, key].concat().contains(&0)
        && [2, 4].contains(&rank))
}

/// Returns the weights of all pairs of queries and keys.
fn weights<'a>(args: Args<'a>) -> Result<Weights<'a>> {
    let [query, key, value] = args.tensors(["query", "key", "value"]);
    let (&[batch, heads, queries, width], &[_, groups, keys, _]) =
        (&query.shape()?[..], &key.shape()?[..])
    else {
        return Err(wrong("query and key: expected four dimensions"));
    };
    if groups == 0 || heads % groups != 0 {
        return Err(wrong(format!("key: expected a number of heads that divides {heads}")));
    }
    let dtype = wide(query.dtype());
    let shared = [batch, groups, heads / groups, keys];
    let of_heads = |x: Expr<'a>| -> Result<Expr<'a>> {
        let x = x.cast(dtype);
        if groups == heads {
            return Ok(x);
        }
        let length = *x.shape()?.last().unwrap_or(&0);
        let size = [&shared[..], &[length]].concat();
        let x = x.unsqueeze(2).op("expand", Attrs::new().with("size", size));
        Ok(x.reshape(&[batch, heads, keys, length]))
    };
    let (key, value, query) = (of_heads(key)?, of_heads(value)?, query.cast(dtype));
    let scale = args.number("scale", 1.0 / (width as f64).sqrt())?;
    let mut scores = query.matmul(key.transpose(-1, -2)) * scale;
    let bias = args.optional("attn_bias");
    if let Some(bias) = bias {
        if !bias.dtype().is_float() {
            return Err(wrong(format!("attn_bias: expected floats, got {}", bias.dtype())));
        }
        scores = scores + bias.cast(dtype);
    }
    if args.flag("is_causal", false)? {
        let hidden = args.calls.full(vec![queries, keys], f64::NEG_INFINITY, dtype);
        scores = scores + hidden.op("triu", Attrs::new().with("diagonal", 1));
    }
    let blind = bias.map(|_| scores.op("amax", of_rows()).eq(f64::NEG_INFINITY));
    let scores = zeroed(scores, blind);
    let weights = zeroed(softmax(scores), blind);
    Ok(Weights { query, key, value, scores, weights, blind, shared, scale })
}

/// Returns the arguments of a reduction of rows.
fn of_rows() -> Attrs {
    Attrs::new().with("dim", vec![-1i64]).with("keepdim", true)
}

/// Returns a tensor with 0 for the queries that no key is visible to.
fn zeroed<'a>(x: Expr<'a>, blind: Option<Expr<'a>>) -> Expr<'a> {
    blind.map_or(x, |rows| x.filled(rows, 0.0))
}

fn softmax(scores: Expr<'_>) -> Expr<'_> {
    scores.op("_softmax", along(-1).with("half_to_float", false))
}

fn attended(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    if is_by_blocks(args)? {
        let attrs = args.passed(&["is_causal", "scale"]);
        return Ok(args.calls.call(BY_BLOCKS, &args.all(), attrs));
    }
    let all = weights(args)?;
    let (mut kept, mut mask) = (all.weights, None);
    let p = args.number("dropout_p", 0.0)?;
    if p > 0.0 {
        let draw = args.passed(&[SEED, OFFSET]).with("p", p);
        let [dropped, drawn] = args.calls.several("native_dropout", &[kept], draw);
        (kept, mask) = (dropped, Some(drawn));
    }
    let made = kept.matmul(all.value);
    let sums = zeroed(all.scores.op("logsumexp", of_rows()), all.blind);
    let made = made.cast(args.tensor("query").dtype());
    Ok([made, sums.reshape(&sums.shape()?[..3])].into_iter().chain(mask).collect())
}

/// Returns the sum of a tensor over the dimensions in which it was broadcast from a shape.
fn summed<'a>(mut x: Expr<'a>, shape: &[i64]) -> Result<Expr<'a>> {
    let before = x.rank()? - shape.len();
    if before > 0 {
        x = x.sum(&(0..before as i64).collect::<Vec<_>>(), false);
    }
    let lengths = x.shape()?;
    let differs = |&at: &usize| lengths[at] != shape[at];
    let dims: Vec<i64> = (0..shape.len()).filter(differs).map(|at| at as i64).collect();
    Ok(if dims.is_empty() { x } else { x.sum(&dims, true) })
}

fn attended_backward<'a>(args: Args<'a>) -> Result<Vec<Expr<'a>>> {
    let mask = args.ints("output_mask")?.unwrap_or_else(|| vec![1, 1, 1, 0]);
    let &[wants_query, wants_key, wants_value, wants_bias] = &mask[..] else {
        return Err(wrong("output_mask: expected 4 flags"));
    };
    let is_given = |name: &&str| args.optional(name).is_some();
    if is_by_blocks(args)? && wants_bias == 0 && ["out", "logsumexp"].iter().all(is_given) {
        let names = ["grad_out", "query", "key", "value", "out", "logsumexp", "attn_bias"];
        let inputs: Vec<Expr<'_>> = names.iter().filter_map(|name| args.optional(name)).collect();
        let attrs = args.passed(&["is_causal", "scale"]);
        let made = args.calls.call(&format!("{BY_BLOCKS}_backward"), &inputs, attrs);
        let wanted = made.into_iter().zip(mask).filter(|(_, wanted)| *wanted != 0);
        return Ok(wanted.map(|(gradient, _)| gradient).collect());
    }
    let all = weights(args)?;
    let grad = args.tensor("grad_out").cast(all.query.dtype());
    let (mut kept, mut of_weights) = (all.weights, grad.matmul(all.value.transpose(-1, -2)));
    let p = args.number("dropout_p", 0.0)?;
    if p > 0.0 {
        let mask = args.tensor("dropout_mask");
        [kept, of_weights] = [kept, of_weights].map(|x| x.undropped(mask, p));
    }
    let sums = (of_weights * all.weights).sum(&[-1], true);
    let of_scores = all.weights * (of_weights - sums);
    let mut made = Vec::new();
    let mut add = |x: Expr<'a>, name: &str| made.push(x.cast(args.tensor(name).dtype()));
    if wants_query != 0 {
        add(of_scores.matmul(all.key) * all.scale, "query");
    }
    if wants_key != 0 {
        let x = of_scores.transpose(-1, -2).matmul(all.query) * all.scale;
        add(of_groups(x, all.shared)?, "key");
    }
    if wants_value != 0 {
        add(of_groups(kept.transpose(-1, -2).matmul(grad), all.shared)?, "value");
    }
    if wants_bias != 0 {
        add(summed(of_scores, &args.tensor("attn_bias").shape()?)?, "attn_bias");
    }
    Ok(made)
}

/// Returns the sums of the gradients of the heads that share a head of keys.
fn of_groups(x: Expr<'_>, shared: [i64; 4]) -> Result<Expr<'_>> {
    if shared[2] == 1 {
        return Ok(x);
    }
    let length = *x.shape()?.last().unwrap_or(&0);
    Ok(x.reshape(&[&shared[..], &[length]].concat()).sum(&[2], false))
}

/// Applies a matrix of weights and a bias, which the arguments name.
fn linear<'a>(args: Args<'a>, x: Expr<'a>, names: [&str; 2]) -> Expr<'a> {
    let [weight, bias] = args.tensors(names);
    x.matmul(weight.transpose(0, 1)) + bias
}

fn normalized<'a>(args: Args<'a>, x: Expr<'a>, names: [&str; 2]) -> Result<Expr<'a>> {
    let [weight, bias] = args.tensors(names);
    let shape = vec![x.shape()?.last().copied().unwrap_or(0)];
    let attrs = Attrs::new().with("normalized_shape", shape);
    let attrs = attrs.with("eps", args.number("eps", 1e-5)?);
    Ok(args.calls.one("native_layer_norm", &[x, weight, bias], attrs))
}

/// Returns an encoder's layer: attention and two matrices, each with a norm and a sum.
fn layer(args: Args<'_>) -> Result<Expr<'_>> {
    let sum = added(args, args.tensor("src"), attention, ["norm_weight_1", "norm_bias_1"])?;
    added(args, sum, matrices, ["norm_weight_2", "norm_bias_2"])
}

/// Adds the result of a part of the layer to its operand. The norm comes before the part or last.
fn added<'a>(
    args: Args<'a>,
    x: Expr<'a>,
    part: fn(Args<'a>, Expr<'a>) -> Result<Expr<'a>>,
    norm: [&str; 2],
) -> Result<Expr<'a>> {
    if args.flag("norm_first", false)? {
        return Ok(part(args, normalized(args, x, norm)?)? + x);
    }
    normalized(args, part(args, x)? + x, norm)
}

/// The second part of the layer: two matrices, with the activation between them.
fn matrices<'a>(args: Args<'a>, x: Expr<'a>) -> Result<Expr<'a>> {
    let activation = if args.flag("use_gelu", false)? { "gelu" } else { "relu" };
    let hidden = linear(args, x, ["ffn_weight_1", "ffn_bias_1"]).op(activation, Attrs::new());
    Ok(linear(args, hidden, ["ffn_weight_2", "ffn_bias_2"]))
}

fn attention<'a>(args: Args<'a>, x: Expr<'a>) -> Result<Expr<'a>> {
    let &[batch, length, width] = &x.shape()?[..] else {
        return Err(wrong("src: expected [n,length,features]"));
    };
    let heads = args.int("num_heads")?.unwrap_or(1).max(1);
    let size = width / heads;
    let all = linear(args, x, ["qkv_weight", "qkv_bias"]);
    let [query, key, value] = [0, 1, 2].map(|k| {
        let part = all.narrow(-1, k * width, width).reshape(&[batch, length, heads, size]);
        part.transpose(1, 2)
    });
    let mut scores = query.matmul(key.transpose(-2, -1)) / (size as f64).sqrt();
    if let Some(mask) = args.optional("mask") {
        scores = masked(args, scores, mask)?;
    }
    let made = softmax(scores).matmul(value).transpose(1, 2);
    Ok(linear(args, made.reshape(&[batch, length, width]), ["proj_weight", "proj_bias"]))
}

/// Excludes scores: those of pairs (mask type 0), of keys of each sequence (1), or of both (2).
fn masked<'a>(args: Args<'a>, scores: Expr<'a>, mask: Expr<'a>) -> Result<Expr<'a>> {
    let mask = mask.cast(DType::Bool);
    let shape = mask.shape()?;
    let mask = match (args.int("mask_type")?, &shape[..]) {
        (Some(1), &[batch, length]) => mask.reshape(&[batch, 1, 1, length]),
        (Some(0), &[_, _]) | (Some(2), &[_, _, _, _]) => mask,
        (Some(ty), _) => return Err(wrong(format!("a mask of type {ty}, shape {shape:?}"))),
        (None, _) => return Err(wrong("a mask without a type")),
    };
    Ok(scores.filled(mask, f64::NEG_INFINITY))
}
