"""Tensors of no dimensions of f64 and i64 that come back under another id: they are no numbers that
the trace lost."""

import torch


def prepare():
    torch.manual_seed(41)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    x, d = torch.randn(5, 3), torch.randn(4, dtype=torch.float64, requires_grad=True)

    def run():
        y = model(x)
        s = (d.exp().sum() * 0.1).exp()
        t = s.sigmoid() * d.amax()
        t.backward()
        return {"y": y, "batches": model[1].num_batches_tracked, "s": s, "grad": d.grad}

    return run, {"x": x, "d": d, **model.state_dict()}
