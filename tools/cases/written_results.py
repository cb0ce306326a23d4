"""`out=` of the right shape, of another shape and dtype, of several tensors and of lists, and of the
operand itself."""

import torch


def prepare():
    g = torch.Generator().manual_seed(43)
    x, y = torch.randn(3, 4, generator=g), torch.randn(3, 4, generator=g)
    targets = {
        "same": torch.zeros(3, 4),
        "f64": torch.zeros(3, 4, dtype=torch.float64),
        "small": torch.empty(0),
        "strided": torch.zeros(4, 6).t()[:3],
        "values": torch.zeros(3, 2),
        "indices": torch.empty(0, dtype=torch.int64),
        "first": torch.zeros(3, 1),
        "second": torch.zeros(3, 3),
        "range": torch.zeros(5, dtype=torch.int32),
        "ones": torch.zeros(2, dtype=torch.bfloat16),
        "chosen": torch.empty(0),
        "own": x.clone(),
    }

    def run():
        t = targets
        torch.add(x, y, out=t["same"])
        torch.mul(x, y, out=t["f64"])
        torch.sub(x, y, out=t["small"])
        torch.div(x, y, rounding_mode="floor", out=t["strided"])
        torch.topk(x, 2, out=(t["values"], t["indices"]))
        torch.split_with_sizes_copy(x, [1, 3], dim=1, out=[t["first"], t["second"]])
        torch.arange(5, out=t["range"])
        torch.ones(2, out=t["ones"])
        torch.masked_select(x, x > 0, out=t["chosen"])
        torch.exp(t["own"], out=t["own"])
        least, at = torch.min(y, dim=0)
        torch.max(y, dim=0, out=(least, at))
        return {**t, "greatest": least, "at": at}

    return run, {"x": x, "y": y, **{f"to.{name}": t for name, t in targets.items()}}
