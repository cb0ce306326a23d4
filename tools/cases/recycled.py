"""Loops of temporary tensors: addresses are reused for tensors of other shapes, and views outlive
their base tensors."""

import torch


def prepare():
    g = torch.Generator().manual_seed(16)
    x = torch.randn(8, 8, generator=g)
    y = torch.randn(8, 8, generator=g)

    def run():
        out = {}
        total = torch.zeros(8)
        for step in range(6):
            # Every temporary is freed at the end of its line.
            total.add_((x * y).sin().sum(0))
            total = total + (x + step).relu().mean(1)
            total.sub_((y.t() @ x)[step].exp().mul(0.01))
        out["total"] = total

        # The same bytes with another shape and dtype in each iteration.
        sizes = []
        for rows in [4, 2, 8, 1, 4, 8]:
            part = (x[:rows] + y[:rows]).flatten()
            wide = part.double()
            sizes.append(wide.view(rows * 2, 4).sum(1))
            del part, wide
            flags = x[:rows] > 0
            sizes.append(flags.sum(1) * 2)
            del flags
        out["sizes"] = torch.cat([s.float().flatten() for s in sizes])
        del sizes

        # Views of freed tensors, written while new tensors reuse the addresses of the freed ones.
        kept = []
        for step in range(5):
            made = x * (step + 1)
            view = made.t()[step : step + 2]
            del made
            other = (y * 2).t()
            view.add_(1)
            kept.append(view)
            del other, view
        for k, view in enumerate(kept):
            out[f"kept{k}"] = view * 1
            scratch = torch.zeros(8, 8)
            scratch[k].copy_(view[0])
            out[f"scratch{k}"] = scratch.sum(0)
            del scratch
        del kept, view

        # A ring of buffers; the oldest buffer is freed.
        ring = [torch.zeros(8) for _ in range(3)]
        for step in range(9):
            oldest = ring.pop(0)
            fresh = x[step % 8] + oldest.mul_(0.5)
            del oldest
            ring.append(fresh)
        out["ring"] = torch.stack(ring)

        # A result that replaces its argument.
        z = x
        for step in range(10):
            z = (z * 0.9 + y * 0.1).tanh()
        out["z"] = z
        return out

    return run, {"x": x, "y": y}
