"""Overlapping views of one storage: written through one, read through another, and copied onto each
other."""

import torch


def prepare():
    g = torch.Generator().manual_seed(12)
    a = torch.randn(6, 8, generator=g)
    line = torch.arange(20, dtype=torch.float32)
    base = torch.randn(40, generator=g)
    # Two inputs on one storage.
    low, high = base[:24].view(4, 6), base[16:40].view(6, 4)
    n = torch.arange(30, dtype=torch.int64)

    def run():
        out = {}
        windows = line.unfold(0, 6, 2)
        before = windows.sum(1)
        line[4:9].mul_(-3)
        after = windows.sum(1)
        out.update(before=before, after=after, windows=windows * 1.5)

        # A Hankel matrix: adjacent rows share all but one element.
        hankel = line.as_strided((10, 11), (1, 1))
        line.as_strided((5,), (4,), 1).fill_(100)
        out["hankel"] = hankel.matmul(hankel.t())

        # Writes through rows, reads through columns of another shape.
        flat = a.as_strided((48,), (1,))
        skew = a.as_strided((5, 7), (9, 1), 2)
        skew.add_(10)
        a.view(12, 4)[7].copy_(flat[0:4])
        a.t()[5].sub_(a.diagonal().sum())
        skew[1:3].copy_(a[3:5, 1:8])
        out.update(skew=skew.clone(), columns=a.view(8, 6).sum(0), flat=flat[7:30] * 2)

        # Copies within one storage, to disjoint elements and to the same elements.
        n[0:10].copy_(n[10:20])
        n[15:25].copy_(n[5:15].clone())
        n[25:30].copy_(n[20:25].flip(0))
        pairs = n.as_strided((15, 2), (2, 1), 0)
        pairs[:, 0].add_(pairs[:, 1])
        out.update(n=n, pairs=pairs.cumsum(0))

        # Overlapping operands.
        low[2:].mul_(2)
        high[1].zero_()
        out.update(low=low + 0, high=high.t().contiguous(), shared=low[3] * high[0:3].flatten()[:6])

        # An expanded view, which repeats one element.
        dot = torch.ones(1)
        seen = dot.expand(3, 4)
        dot.add_(4)
        row = a[:1].expand(6, 8)
        a[0].add_(1)
        out.update(seen=seen + 0, row=row * a)

        # Views of a view that is already freed.
        deep = a[1:5].t()[2:7].unsqueeze(1).expand(5, 3, 4)[:, 1]
        a.view(-1)[10:40:3].neg_()
        out.update(deep=deep * 1, a=a)
        return out

    return run, {"a": a, "line": line, "low": low, "high": high, "n": n}
