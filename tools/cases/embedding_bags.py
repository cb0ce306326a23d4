"""Sums and means of bags of rows of a table, with weights, padding, and gradients."""

import torch
from torch.nn import functional as F


def prepare():
    g = torch.Generator().manual_seed(37)
    table = torch.randn(9, 4, generator=g).requires_grad_()
    rows = torch.randint(0, 9, (11,), generator=g)
    starts = torch.tensor([0, 3, 3, 7])
    weights = torch.rand(11, generator=g).requires_grad_()

    def run():
        out = {
            "sums": F.embedding_bag(rows, table, starts, mode="sum"),
            "means": F.embedding_bag(rows, table, starts, mode="mean", padding_idx=2),
            "weighted": F.embedding_bag(
                rows, table, starts, mode="sum", per_sample_weights=weights
            ),
        }
        sum((v * v).sum() for v in out.values()).backward()
        out["grad.table"], out["grad.weights"] = table.grad, weights.grad
        return out

    return run, {"table": table, "rows": rows, "starts": starts, "weights": weights}
