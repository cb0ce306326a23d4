"""Lists of fractions that 6 decimals round: AdamW over lists at a small learning rate, and lists of
numbers for each tensor."""

import torch


def prepare():
    g = torch.Generator().manual_seed(31)
    parameters = [torch.randn(3, 2, generator=g).requires_grad_() for _ in range(2)]
    old = [p.detach().clone() for p in parameters]
    grads = [torch.randn(3, 2, generator=g) for _ in range(2)]
    optimizer = torch.optim.AdamW(parameters, lr=3.7e-7, weight_decay=0.1, foreach=True)

    def run():
        for p, grad in zip(parameters, grads):
            p.grad = grad.clone()
        for _ in range(3):
            optimizer.step()
        changes = {f"change{k}": (p.detach() - o) * 1e6
                   for k, (p, o) in enumerate(zip(parameters, old))}
        scaled = torch._foreach_mul(grads, [1.23456789e-7, 2.0])
        return {**changes, "scaled": scaled[0] * 1e7, "twice": scaled[1]}

    return run, {
        **{f"p{k}": p for k, p in enumerate(parameters)},
        **{f"old{k}": o for k, o in enumerate(old)},
        **{f"grad{k}": grad for k, grad in enumerate(grads)},
    }
