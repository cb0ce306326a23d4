//! Scaled dot-product attention and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask?; dropout_p=0, is_causal, scale)` | the result, log Σ e^score |
//! | `_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, logsumexp, attn_mask?; dropout_p, is_causal, scale)` | gradients for q, k, v |
//!
//! softmax(scale · q kᵀ + mask) v for each batch and head: q is `[b,h,s,d]`, k and v `[b,g,l,d]`,
//! each of their heads for h / g of q's,
//! the mask `[s,l]` or `[b,h,s,l]`, or broadcasts to that. With `is_causal` place i of q sees places
//! up to i of k. The scale is 1 / √d unless given. A row that sees nothing is 0,
//! and so is its logarithm. dropout_p has to
//! be 0, as random ops are not supported. logsumexp is f32 for f16 and bf16. As in PyTorch, heads
//! lie inside of places in logsumexp and in the gradients.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html>;
//! T. Dao et al., "FlashAttention", 2022, for the gradient from logsumexp.

use millstream_types::{DType, Dims, Layout, Result, TensorSpec};

use crate::broadcast::broadcast;
use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const Q: ArgDoc = arg("q", "[b,h,s,d]");
const K: ArgDoc = arg("k", "[b,g,l,d]: g divides h");
const V: ArgDoc = arg("v", "[b,g,l,d]");
const MASK: ArgDoc = arg("attn_mask", "added to the scores; broadcasts to [b,h,s,l]");
const ATTRS: &[ArgDoc] = &[
    arg("dropout_p", "0"),
    arg("is_causal", "whether a place sees only those before it, and itself; false unless given"),
    arg("scale", "factor of the scores; 1 / sqrt(d) unless given"),
];

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "_scaled_dot_product_flash_attention_for_cpu",
        summary: "values weighed by the softmax of the products of queries and keys",
        inputs: &[Q, K, V, MASK],
        attrs: ATTRS,
        arity: Arity::Optional(3),
        rule: forward,
    },
    Def {
        name: "_scaled_dot_product_flash_attention_for_cpu_backward",
        summary: "the gradient of _scaled_dot_product_flash_attention_for_cpu",
        inputs: &[
            arg("grad", "the gradient of the result"),
            Q,
            K,
            V,
            arg("out", "the result"),
            arg("logsumexp", "the second result"),
            MASK,
        ],
        attrs: ATTRS,
        arity: Arity::Optional(6),
        rule: backward,
    },
];

/// The dtype of logsumexp.
fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Checks the tensors that both ways have, and the arguments.
fn check(
    call: CallSpec<'_>,
    op: &str,
    [q, k, v]: [&TensorSpec; 3],
    mask: Option<&TensorSpec>,
) -> Result<()> {
    expect::floats(op, q)?;
    let (&[batch, heads, s, d], &[_, shared, l, _]) = (q.shape(), k.shape()) else {
        let message = format!("expected four dimensions, got {} and {}", q.brief(), k.brief());
        return Err(refused(op, message));
    };
    for (name, spec) in [("k", k), ("v", v)] {
        expect::like(op, name, Some(spec), q.dtype, &[batch, shared, l, d])?;
    }
    if shared == 0 || !heads.is_multiple_of(shared) {
        let message = format!("{} share no heads of {}", q.brief(), k.brief());
        return Err(refused(op, message));
    }
    if [s, l, d].contains(&0) {
        return Err(refused(op, format!("expected places, got {} and {}", q.brief(), k.brief())));
    }
    if let Some(mask) = mask {
        expect::floats(op, mask)?;
        let scores = [batch, heads, s, l];
        let fits = [2, 4].contains(&mask.layout.rank())
            && broadcast(mask.shape(), &scores).is_ok_and(|shape| shape.as_slice() == scores);
        if !fits {
            let message = format!("attn_mask: {} does not fit {scores:?}", mask.brief());
            return Err(refused(op, message));
        }
    }
    call.attrs.bool("is_causal")?;
    call.attrs.float("scale")?;
    match call.attrs.float("dropout_p")? {
        Some(p) if p != 0.0 => {
            let message = format!("dropout_p: expected 0, got {p}: random ops are not supported");
            Err(refused(op, message))
        }
        _ => Ok(()),
    }
}

/// `[b,h,s,..]` laid out as `[b,s,h,..]`.
fn heads_inside(dtype: DType, shape: &[usize]) -> Result<TensorSpec> {
    let mut swapped = Dims::from_slice(shape);
    swapped.swap(1, 2);
    let mut strides = Dims::from_slice(Layout::contiguous(&swapped)?.strides());
    strides.swap(1, 2);
    TensorSpec::new(dtype, Layout::strided(shape, &strides, 0)?)
}

fn forward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "_scaled_dot_product_flash_attention_for_cpu";
    let listed = expect::listed(call, 4)?;
    let [Some(q), Some(k), Some(v), mask] = listed[..] else {
        return Err(refused(op, "expected q, k and v"));
    };
    check(call, op, [q, k, v], mask)?;
    let output = TensorSpec::new(q.dtype, layouts::preserved(q)?)?;
    let mut signature = Signature::reads(call.inputs.len(), output);
    let sums = heads_inside(wide(q.dtype), &q.shape()[..3])?;
    signature.outputs.push(OutputSpec::Fresh(sums));
    Ok(signature)
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "_scaled_dot_product_flash_attention_for_cpu_backward";
    let listed = expect::listed(call, 7)?;
    let [grad, Some(q), Some(k), Some(v), out, sums, mask] = listed[..] else {
        return Err(refused(op, "expected q, k and v"));
    };
    check(call, op, [q, k, v], mask)?;
    expect::like(op, "grad", grad, q.dtype, q.shape())?;
    expect::like(op, "out", out, q.dtype, q.shape())?;
    expect::like(op, "logsumexp", sums, wide(q.dtype), &q.shape()[..3])?;
    let results = [q, k, v].map(|t| heads_inside(q.dtype, t.shape()));
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(expect::masked(call, results, &[true; 3]))
}
