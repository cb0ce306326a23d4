"""`fill` and `zero` without an underscore: their operand keeps its elements."""

import torch


def prepare():
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(3))
    value = torch.tensor(-1.25)

    def run():
        y = x.t() * 2
        return {
            "number": torch.fill(x, 2.5),
            "tensor": torch.fill(y, value),
            "whole": torch.fill(x[1:, ::2], 3),
            "zero": torch.ops.aten.zero(y),
            "x": x + 0,
            "y": y + 0,
        }

    return run, {"x": x, "value": value}
