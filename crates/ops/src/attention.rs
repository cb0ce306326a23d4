//! Scaled dot-product attention and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask?)` | result, log Σ e^score |
//! | `…_backward(grad, q, k, v, out, logsumexp, attn_mask?)` | gradients for q, k, v |
//!
//! Both take the arguments `dropout_p=0`, `is_causal` and `scale`.
//!
//! The result is softmax(scale · q kᵀ + mask) v for each batch and head. q is `[b,h,s,d]`; k and v
//! are `[b,g,l,d]`, and each of their heads serves h / g heads of q (grouped-query attention). The
//! mask is `[s,l]` or `[b,h,s,l]`, or broadcasts to that. With `is_causal`, query i attends only to
//! keys 0 to i. The default scale is 1 / √d. A row without any visible key gives 0, and its
//! logarithm is 0. `dropout_p` must be 0: attention with dropout is composed of other ops.
//! logsumexp is f32 for f16 and bf16. As in PyTorch, logsumexp and the gradients are laid out with
//! the sequence dimension outside of the heads.
//!
//! Sources: the page of `scaled_dot_product_attention` in
//! <https://docs.pytorch.org/docs/stable/nn.functional.html>; T. Dao et al., "FlashAttention",
//! 2022, for the gradient from logsumexp.

use millstream_types::{DType, Dims, Layout, Result, TensorSpec};

use crate::broadcast::broadcast;
use crate::checks;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const Q: ArgDoc = arg("q", "[b,h,s,d]");
const K: ArgDoc = arg("k", "[b,g,l,d]: g divides h");
const V: ArgDoc = arg("v", "[b,g,l,d]");
const MASK: ArgDoc = arg("attn_mask", "added to the scores; a shape that broadcasts to [b,h,s,l]");
const ATTRS: &[ArgDoc] = &[
    arg("dropout_p", "must be 0").float().ignored(),
    arg("is_causal", "whether query i attends only to keys 0 to i").flag().or("false"),
    arg("scale", "factor of the scores").float().or("1 / sqrt(d)"),
];

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "_scaled_dot_product_flash_attention_for_cpu",
        "the values, weighted by the softmax of the scaled products of queries and keys",
        &[Q, K, V, MASK],
        ATTRS,
        forward,
    )
    .optional(3),
    Def::new(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "the gradient of _scaled_dot_product_flash_attention_for_cpu",
        &[
            arg("grad", "the gradient of the result"),
            Q,
            K,
            V,
            arg("out", "the result"),
            arg("logsumexp", "the second result"),
            MASK,
        ],
        ATTRS,
        backward,
    )
    .optional(6),
];

/// Returns the dtype of logsumexp.
fn logsumexp_dtype(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Checks the tensors and arguments that both directions share.
fn check(
    call: CallSpec<'_>,
    op: &str,
    [q, k, v]: [&TensorSpec; 3],
    mask: Option<&TensorSpec>,
) -> Result<()> {
    checks::floats(op, q)?;
    let (&[batch, heads, s, d], &[_, shared, l, _]) = (q.shape(), k.shape()) else {
        let message = format!("expected four dimensions, got {} and {}", q.brief(), k.brief());
        return Err(refused(op, message));
    };
    for (name, spec) in [("k", k), ("v", v)] {
        checks::dtype_and_shape(op, name, Some(spec), q.dtype, &[batch, shared, l, d])?;
    }
    if shared == 0 || !heads.is_multiple_of(shared) {
        let message = format!(
            "expected the heads of k to divide those of q, got k {} and q {}",
            k.brief(),
            q.brief()
        );
        return Err(refused(op, message));
    }
    if [s, l, d].contains(&0) {
        return Err(refused(
            op,
            format!("expected no dimension of length 0, got {} and {}", q.brief(), k.brief()),
        ));
    }
    if let Some(mask) = mask {
        checks::floats(op, mask)?;
        let scores = [batch, heads, s, l];
        let fits = [2, 4].contains(&mask.layout.rank())
            && broadcast(mask.shape(), &scores).is_ok_and(|shape| shape.as_slice() == scores);
        if !fits {
            let message = format!(
                "attn_mask: expected a shape that broadcasts to {scores:?}, got {}",
                mask.brief()
            );
            return Err(refused(op, message));
        }
    }
    call.attrs.bool("is_causal")?;
    call.attrs.float("scale")?;
    match call.attrs.float("dropout_p")? {
        Some(p) if p != 0.0 => {
            let message = format!("dropout_p: expected 0, got {p}; compose it with dropout");
            Err(refused(op, message))
        }
        _ => Ok(()),
    }
}

/// Returns a tensor of shape `[b,h,s,..]` laid out as `[b,s,h,..]`.
fn heads_inside(dtype: DType, shape: &[usize]) -> Result<TensorSpec> {
    let mut swapped = Dims::from_slice(shape);
    swapped.swap(1, 2);
    let mut strides = Dims::from_slice(Layout::contiguous(&swapped)?.strides());
    strides.swap(1, 2);
    TensorSpec::new(dtype, Layout::strided(shape, &strides, 0)?)
}

fn forward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "_scaled_dot_product_flash_attention_for_cpu";
    let listed = checks::listed_inputs(call, 4)?;
    let [Some(q), Some(k), Some(v), mask] = listed[..] else {
        return Err(refused(op, "expected q, k and v"));
    };
    check(call, op, [q, k, v], mask)?;
    let output = TensorSpec::new(q.dtype, layouts::preserved(q)?)?;
    let mut signature = Signature::reads(call.inputs.len(), output);
    let sums = heads_inside(logsumexp_dtype(q.dtype), &q.shape()[..3])?;
    signature.outputs.push(OutputSpec::Fresh(sums));
    Ok(signature)
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "_scaled_dot_product_flash_attention_for_cpu_backward";
    let listed = checks::listed_inputs(call, 7)?;
    let [grad, Some(q), Some(k), Some(v), out, sums, mask] = listed[..] else {
        return Err(refused(op, "expected q, k and v"));
    };
    check(call, op, [q, k, v], mask)?;
    checks::dtype_and_shape(op, "grad", grad, q.dtype, q.shape())?;
    checks::dtype_and_shape(op, "out", out, q.dtype, q.shape())?;
    checks::dtype_and_shape(op, "logsumexp", sums, logsumexp_dtype(q.dtype), &q.shape()[..3])?;
    let results = [q, k, v].map(|t| heads_inside(q.dtype, t.shape()));
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(checks::masked_outputs(call, results, &[true; 3]))
}
