"""Integers where fractions are usual: convolutions, pools, products with fractional factors, ranges
with fractional bounds, and calls on nothing."""

import torch
from torch.nn import functional


def prepare():
    g = torch.Generator().manual_seed(53)
    x = torch.randint(-9, 9, (2, 4, 6, 5), generator=g)
    weight = torch.randint(-9, 9, (6, 2, 3, 2), generator=g)
    up = torch.randint(-9, 9, (4, 3, 2, 3), generator=g)
    bias = torch.randint(-9, 9, (6,), generator=g)
    nothing = torch.zeros(0, 3, dtype=torch.int64)

    def run():
        parts = torch.unbind(nothing)
        greatest, at = functional.max_pool2d(x, 2, return_indices=True)
        return {
            "conv": functional.conv2d(x, weight, bias, stride=2, padding=1, groups=2),
            "conv32": functional.conv2d(x.int(), weight.int(), padding=2, groups=2),
            "up": functional.conv_transpose2d(x, up, stride=2, output_padding=1),
            "mean": functional.avg_pool2d(x, 3, stride=2, padding=1),
            "inside": functional.avg_pool2d(x, 3, padding=1, count_include_pad=False),
            "greatest": greatest,
            "at": at,
            "addmm": torch.addmm(x[0, 0, :, :4], x[0, 0], x[0, 1, :5, :4], beta=1.7, alpha=2.4),
            "range": torch.arange(-3.7, 4, 1.9, dtype=torch.int64),
            "remainder": torch.remainder(nothing, 0),
            "parts": nothing + len(parts),
        }

    return run, {"x": x, "weight": weight, "up": up, "bias": bias, "nothing": nothing}
