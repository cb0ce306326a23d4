"""Ops under autocast that are not composite: the conversion of operands is below the op's node, and
so is the op that computes."""

import torch
from torch.nn import functional


def prepare():
    torch.manual_seed(37)
    linear = torch.nn.Linear(5, 3)
    x = torch.randn(4, 5, requires_grad=True)

    def run():
        weight = linear.weight
        with torch.autocast("cpu", torch.bfloat16):
            y = linear(x)
            mm = torch.mm(x, weight.t())
            bmm = torch.bmm(x[None], weight.t()[None])
            results = {
                "y": y,
                "mm": mm,
                "bmm": bmm,
                "addmm": torch.addmm(linear.bias, x, weight.t()),
                "baddbmm": torch.baddbmm(bmm, x[None], weight.t()[None]),
                "einsum": torch.einsum("ij,kj->ik", x, weight),
                "mse": functional.mse_loss(y, mm),
                "bce": functional.binary_cross_entropy_with_logits(y, torch.full_like(y, 0.5)),
                "smooth": functional.smooth_l1_loss(y, mm),
                "prod": torch.prod(y),
                "norm": torch.norm(y),
            }
            loss = sum(r.float().sum() for r in results.values())
        loss.backward()
        return {**results, "grad.x": x.grad, "grad.w": weight.grad, "grad.b": linear.bias.grad}

    return run, {"x": x, **dict(linear.named_parameters())}
