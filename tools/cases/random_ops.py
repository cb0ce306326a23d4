"""Random ops, whose results the recording holds: dropout with its gradient, noise, samples, and
attention with dropout."""

import torch
from torch.nn import functional as F


def prepare():
    g = torch.Generator().manual_seed(17)
    x = torch.randn(6, 8, generator=g)
    w = torch.randn(8, 8, generator=g).requires_grad_()
    q, k = torch.randn(2, 2, 5, 4, generator=g), torch.randn(2, 2, 5, 4, generator=g)
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.Dropout(0.4), torch.nn.RReLU(), torch.nn.AlphaDropout(0.2)
    )

    def run():
        out = {}
        hidden = F.dropout(x @ w, 0.3)
        hidden, mask = torch.native_dropout(hidden + net(x), 0.5, True)
        hidden.square().mean().backward()
        out["grad"], out["hidden"], out["mask"] = w.grad, hidden, mask
        for name, p in net.named_parameters():
            out[f"grad.{name}"] = p.grad
        out["all"], _ = torch.native_dropout(x, 1.0, True)
        with torch.no_grad():
            out["noise"] = x + torch.randn_like(x) * torch.rand(6, 1)
            made = torch.empty(4, 3).uniform_(-1, 1)
            made[1:].t().normal_(2, 0.5)
            out["made"] = made
            out["times"] = torch.empty(5).exponential_(2.0) + torch.empty(5).geometric_(0.3)
            out["flags"] = torch.bernoulli(x.sigmoid()) + torch.zeros(6, 8).bernoulli_(0.3)
            out["sampled"] = x[torch.multinomial(x.exp().sum(1), 3)]
            out["order"] = x[torch.randperm(6)]
            out["whole"] = torch.randint(3, 9, (4,)) + torch.zeros(4, dtype=torch.int64).random_(5)
            out["shaped"] = torch.normal(x, x.abs())
            out["attended"] = F.scaled_dot_product_attention(q, k, q, dropout_p=0.25)
            torch.rand(2, 3, out=made[:2])
            out["written"] = made * 2
        return out

    return run, {"x": x, "w": w, "q": q, "k": k, **dict(net.named_parameters())}
