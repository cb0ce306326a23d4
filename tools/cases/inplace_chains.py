"""Many interleaved chains of in-place ops on views of a few storages: disjoint, overlapping, and
joined at the end."""

import torch


def prepare():
    g = torch.Generator().manual_seed(13)
    s = torch.randn(8, 16, generator=g)
    t = torch.randn(16, 8, generator=g)
    q = torch.randn(6, 6, generator=g)
    k = torch.randint(0, 50, (8, 8), generator=g)

    def run():
        out = {}
        # Eight chains with a row of s and a column of t each; the steps of the chains alternate.
        rows = [s[r] for r in range(8)]
        columns = [t[:, c] for c in range(8)]
        for step in range(4):
            for r in range(8):
                rows[r].mul_(0.5).add_(columns[r], alpha=0.25)
            for c in range(8):
                columns[c].sub_(rows[7 - c]).clamp_(-2, 2)
            if step == 1:
                # One op on all chains, in the middle.
                s.add_(t.t(), alpha=0.125)
        joined = torch.zeros(16)
        for r in range(8):
            joined.add_(rows[r]).add_(columns[r])
        out.update(joined=joined, s=s, t=t)

        # Overlapping windows: the results depend on the order alone.
        band = torch.arange(40) / 20 - 1
        for step in range(3):
            for start in range(0, 32, 4):
                band[start : start + 8].mul_(1.25 - 0.125 * step)
                band[start + 2 : start + 6].add_(band[start + 6])
        out["band"] = band

        # Ops on a tensor and itself.
        q.add_(q)
        q.mul_(q.t().clone())
        q[0].sub_(q[1])
        q[:, 2].copy_(q[3])
        q.div_(q.abs().add_(1))
        out["q"] = q

        # Results written to existing tensors, of the same storage and of another.
        into = torch.zeros(3, 6, 6)
        torch.add(q, 2, out=into[0])
        torch.mul(into[0], q, out=into[1])
        torch.sub(into[1], into[0], out=into[0])
        torch.matmul(q, into[1], out=into[2])
        torch.sum(into, (1, 2), out=joined[:3])
        torch.exp(into[0], out=into[0])
        torch.maximum(into[1], into[2], out=into[1])
        out.update(into=into, sums=joined[:3] * 1)

        # Integers and bits.
        k[::2].mul_(3).remainder_(17)
        k[1::2].bitwise_and_(29)
        k.t()[3].add_(k[3])
        k[4:].bitwise_xor_(k[:4])
        odd = k.remainder(2).bool()
        odd[0].logical_not_()
        k.masked_fill_(odd, -1)
        out.update(k=k, odd=odd)

        # Copies that later writes must not affect.
        held = [s.clone(), t[2:4].clone()]
        s.zero_()
        t[3].fill_(7)
        held[0][1].add_(held[1].sum())
        out.update(held0=held[0], held1=held[1], late=t[2:5] * 1)
        return out

    return run, {"s": s, "t": t, "q": q, "k": k}
