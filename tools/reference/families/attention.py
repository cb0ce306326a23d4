"""Scaled dot-product attention and its gradient."""

import torch
from cases import FLOATS, Family, gapped, rand

f = Family("attention")
A = torch.ops.aten
OP = "_scaled_dot_product_flash_attention_for_cpu"
# The kernels add in another order than PyTorch, which also rounds weights to f16 and bf16.
WIDE = {torch.float32: dict(rtol=1e-5, atol=5e-6), torch.float64: dict(rtol=1e-11, atol=1e-12),
        torch.float16: dict(rtol=5e-3, atol=6e-3), torch.bfloat16: dict(rtol=4e-2, atol=5e-2)}


def attention(q, k, v, mask=None, causal=False, scale=None):
    given = [t for t in (q, k, v, mask) if t is not None]
    attrs = dict(is_causal=causal, scale=scale, dropout_p=0.0)
    call = getattr(A, OP)
    f.case(OP, given, attrs,
           lambda q, k, v, m=None: call(q, k, v, 0.0, causal, attn_mask=m, scale=scale),
           **WIDE[q.dtype])
    out, sums = call(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
    grad = rand(out.shape, q.dtype, 9)
    back = getattr(A, OP + "_backward")
    f.case(OP + "_backward", [grad, q, k, v, out, sums, *given[3:]], attrs,
           lambda g, q, k, v, o, s, m=None:
           back(g, q, k, v, o, s, 0.0, causal, attn_mask=m, scale=scale), **WIDE[q.dtype])


def tensors(b, h, s, l, d, dtype=torch.float32):
    return [rand((b, h, n, d), dtype, k) for k, n in enumerate((s, l, l))]


inside = lambda t: t.transpose(1, 2).contiguous().transpose(1, 2)
for dtype in FLOATS:
    q, k, v = tensors(2, 3, 5, 7, 4, dtype)
    attention(q, k, v)
    attention(q, k, v, causal=True)
    attention(inside(q), inside(k), inside(v), scale=0.3)
    attention(q, k, v, rand((5, 7), dtype, 5))
    attention(q, k, v, rand((2, 3, 5, 7), dtype, 6), scale=0.5)
q, k, v = tensors(2, 3, 5, 7, 4)
attention(gapped(q), gapped(k), gapped(v))
attention(q, inside(k), v, rand((2, 1, 1, 7), seed=5))
attention(inside(q), k, v, rand((1, 3, 5, 1), seed=6))
mask = torch.zeros(5, 7)
mask[:, 4:] = -float("inf")
attention(q, k, v, mask)
# A row without any visible key.
mask[1] = -float("inf")
attention(q, k, v, mask)
attention(*tensors(1, 1, 1, 1, 1))
# Shared heads.
attention(rand((2, 6, 5, 4), seed=1), k[:, :2], v[:, :2], causal=True)
attention(*tensors(1, 2, 9, 4, 8), causal=True)
attention(*tensors(1, 1, 70, 90, 8))
attention(*tensors(1, 1, 90, 70, 8), causal=True)


def refuses(q, k, v, mask=None, p=0.0):
    given = [t for t in (q, k, v, mask) if t is not None]
    f.refuses(OP, given, dict(dropout_p=p),
              lambda q, k, v, m=None: getattr(A, OP)(q, k, v, p, False, attn_mask=m))


refuses(q, k, v, p=0.5)
refuses(q[0], k[0], v[0])
refuses(q, k, v[..., :3])
refuses(q.long(), k.long(), v.long())
f.save()
