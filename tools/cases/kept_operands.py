"""Ops in place whose gradient needs the old elements: autograd keeps a copy of the operand, which it
makes below the op's node. Addresses of earlier copies recur."""

import torch
from torch.nn import functional

OPS = {
    "silu": lambda y, w: functional.silu(y, inplace=True),
    "clamp": lambda y, w: y.clamp_(1.2, 2.1),
    "pow": lambda y, w: y.pow_(3),
    "sin": lambda y, w: y.sin_(),
    "mul": lambda y, w: y.mul_(w),
    "div": lambda y, w: y.div_(w),
    "lerp": lambda y, w: y.lerp_(w, w),
    "log": lambda y, w: y.log_(),
    "gelu": lambda y, w: torch.ops.aten.gelu_(y),
    "erf": lambda y, w: y.erf_(),
    "addcmul": lambda y, w: y.addcmul_(w, w),
    "foreach": lambda y, w: sum(foreach([y, y * 1.5], w)),
}


def foreach(list, w):
    torch._foreach_mul_(list, [w, w])
    return list


def prepare():
    g = torch.Generator().manual_seed(29)
    x = (torch.rand(3, 4, generator=g) + 0.5).requires_grad_()
    w = (torch.rand(3, 4, generator=g) + 0.5).requires_grad_()
    weights = torch.rand(3, 4, generator=g)

    def run():
        results = {}
        for name, op in OPS.items():
            x.grad = w.grad = None
            y = op(x * 2, w)
            (y * weights).sum().backward()
            results[name] = y.detach()
            results[f"{name}.x"] = x.grad
            if w.grad is not None:
                results[f"{name}.w"] = w.grad
        x.grad = w.grad = None
        functional.margin_ranking_loss(x[0], x[1], weights[0].sign(), margin=0.3).backward()
        results["margin"] = x.grad
        return results

    return run, {"x": x, "w": w, "weights": weights}
