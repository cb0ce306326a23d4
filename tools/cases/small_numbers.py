"""Fractions that 6 decimals round to zero: as factors, as bounds, and where zero would make a
result infinite."""

import torch
from torch.nn import functional


def prepare():
    g = torch.Generator().manual_seed(19)
    x = torch.randn(4, 6, generator=g)
    # A row without variance: the denominator is eps alone.
    x[1] = 3.5
    y = torch.randn(4, 6, generator=g) * 1e6

    def run():
        z = torch.zeros(4, 6)
        z.addcdiv_(y, x.square().add(1), value=1 / 300_000)
        return {
            "alpha": torch.add(x, y, alpha=2.5e-7),
            "layer_norm": functional.layer_norm(x, (6,), eps=1e-9),
            "clamped": (y * 1e-12).clamp(-2e-7, 3e-7) * 1e7,
            "leaky": functional.leaky_relu(y, 1.25e-6),
            "power": x.abs().pow(1.23456789),
            "filled": torch.full((3,), 4e-8) * 1e8,
            "fill": x.clone().fill_(7e-9) * 1e9,
            "addcdiv": z,
        }

    return run, {"x": x, "y": y}
