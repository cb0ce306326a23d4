"""Tensors that a rule fills: even steps, the identity, indices of triangles; and nearest upsampling by
whole factors with its gradient."""

import torch
from torch.nn import functional


def prepare():
    g = torch.Generator().manual_seed(59)
    x = torch.randn(2, 3, 4, 5, generator=g).requires_grad_()
    weights = torch.randn(2, 3, 8, 15, generator=g)

    def run():
        large = functional.interpolate(x, size=(8, 15), mode="nearest")
        (large * weights).sum().backward()
        row = functional.interpolate(x.detach()[0], scale_factor=3, mode="nearest-exact")
        return {
            "steps": torch.linspace(-1.3, 2.7, 11) + 0,
            "whole": torch.linspace(3, 50, 9, dtype=torch.int64) + 0,
            "single": torch.linspace(3, 50, 1) + 0,
            "eye": torch.eye(3, 4) + 0,
            "lower": torch.tril_indices(4, 3, offset=-1) + 0,
            "upper": torch.triu_indices(4, 3, dtype=torch.int32) + 0,
            "large": large,
            "grad": x.grad,
            "row": row,
        }

    return run, {"x": x, "weights": weights}
