"""Sums, matrix products and norms of f16 and bf16, in odd sizes and sizes beyond one block."""

import torch
from torch.nn import functional


def prepare():
    g = torch.Generator().manual_seed(15)
    inputs = {}
    for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16)]:
        inputs[f"{name}.long"] = torch.randn(1537, generator=g).to(dtype)
        inputs[f"{name}.a"] = (torch.randn(5, 131, generator=g) / 4).to(dtype)
        inputs[f"{name}.b"] = (torch.randn(131, 7, generator=g) / 4).to(dtype)
        inputs[f"{name}.w"] = torch.randn(131, generator=g).to(dtype)
        inputs[f"{name}.v"] = torch.randn(131, generator=g).to(dtype)

    def run():
        out = {}
        for name in ["f16", "bf16"]:
            long, a, b, w, v = (inputs[f"{name}.{k}"] for k in ["long", "a", "b", "w", "v"])
            results = {
                # Small integer steps: with rounded intermediate sums the sum would stop growing.
                "ones": torch.ones_like(long).expand(5, 1537).sum(),
                "sum": long.sum(),
                "sum_f32": long.sum(dtype=torch.float32),
                "mean": long.abs().mean(),
                "sum0": a.sum(0),
                "sum1": a.sum(1, keepdim=True),
                "sum_t": a.t().sum(0),
                "mean1": a.mean(1),
                "var": a.var(1),
                "std": a.std(),
                "mm": a @ b,
                "mm_t": b.t() @ a.t(),
                "mv": a @ w,
                "softmax": a.softmax(1),
                "softmax0": a.softmax(0),
                "log_softmax": a.log_softmax(-1),
                "layer_norm": functional.layer_norm(a, (131,), w, v),
                "plain_norm": functional.layer_norm(a, (131,)),
                "norm": a.norm(),
                "amax": a.amax(0),
                "cumsum": a[:, :40].cumsum(1),
                "far": (a * 3).exp().sum(1),
                "sub": (a - a.mean(1, keepdim=True)).square().sum(),
            }
            out.update((f"{name}.{k}", v) for k, v in results.items())
        return out

    return run, inputs
