"""Shuffles, rotations, blocks, masks, ranks, and functions of elements that several ops compute."""

import torch
from torch.nn import functional as F


def prepare():
    g = torch.Generator().manual_seed(31)
    x = torch.randn(1, 8, 4, 6, generator=g).requires_grad_()
    y = torch.randn(1, 8, 4, 6, generator=g)
    net = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 5))
    slopes = torch.rand(8, generator=g).requires_grad_()
    bins = torch.randint(0, 7, (20,), generator=g)

    def run():
        out = {
            "shuffled": F.pixel_shuffle(x, 2), "unshuffled": F.pixel_unshuffle(x, 2),
            "channels": F.channel_shuffle(x, 4), "turned": torch.rot90(x, 3, (2, 3)),
            "prelu": F.prelu(x, slopes), "celu": F.celu(x, 0.7), "glu": F.glu(x, 1),
            "hypot": torch.hypot(x, y), "logaddexp": torch.logaddexp(x, y),
            "xlogy": torch.xlogy(x, y.abs()), "copysign": torch.copysign(x, y),
            "cdist": torch.cdist(x, y, 1.5), "addr": torch.addr(x[0, 0], slopes[:4], y[0, 0, 0]),
            "blocks": torch.block_diag(x[0, 0], y[0, 1], slopes),
            "masked": x.masked_scatter(y > 0, y.flatten()),
            "normed": net(x), "columns": F.unfold(x, 3, 2, 1, 2),
            "no_columns": F.unfold(x[:0], 3, 2, 1, 2),
            "sums": F.fold(F.unfold(x, 2), (4, 6), 2), "angle": torch.atan2(x, y),
            "gamma": torch.lgamma(x.abs() + 0.1), "erfinv": torch.erfinv(x.tanh()),
            "small": F.interpolate(x, (3, 2), mode="bicubic", antialias=True),
            "median": x.median(), "kth": torch.kthvalue(x, 3, 3)[0],
        }
        sum((v * v).sum() for v in out.values()).backward()
        for name, p in net.named_parameters():
            out[f"grad.{name}"] = p.grad
        out["grad.x"], out["grad.slopes"] = x.grad, slopes.grad
        out["counts"] = torch.bincount(bins, minlength=9)
        out["weighted"] = torch.bincount(bins, torch.linspace(0, 1, 20))
        out["in"] = torch.isin(bins, torch.tensor([2, 5]))
        return out

    return run, {"x": x, "y": y, "slopes": slopes, "bins": bins, **dict(net.named_parameters())}
