"""Reductions of integers and booleans over all dimensions, some dimensions, and none."""

import torch


def prepare():
    g = torch.Generator().manual_seed(14)
    inputs = {
        "b": torch.rand(3, 5, 4, generator=g) > 0.3,
        "u8": torch.randint(0, 256, (3, 5, 4), generator=g).to(torch.uint8),
        "i8": torch.randint(-128, 128, (3, 5, 4), generator=g).to(torch.int8),
        "i32": torch.randint(-(2**30), 2**30, (3, 5, 4), generator=g).to(torch.int32),
        "i64": torch.randint(-(2**50), 2**50, (3, 5, 4), generator=g),
        "gap": torch.randint(-9, 9, (6, 10), generator=g)[::2, 1::3],
        "empty": torch.zeros(0, 4, dtype=torch.int32),
        "hollow": torch.zeros(3, 0, 2),
    }

    def run():
        out = {}
        for name in ["b", "u8", "i8", "i32", "i64", "gap"]:
            x = inputs[name]
            out[f"{name}.sum"] = x.sum()
            out[f"{name}.sum0"] = x.sum(0)
            out[f"{name}.sum_last"] = x.sum(-1, keepdim=True)
            out[f"{name}.sum_none"] = x.sum(())
            out[f"{name}.sum_two"] = x.transpose(0, 1).sum((0, 1))
            out[f"{name}.prod"] = x.prod(1)
            out[f"{name}.any"] = x.any()
            out[f"{name}.any1"] = x.any(1)
            out[f"{name}.all"] = x.all()
            out[f"{name}.all0"] = x.all(0, keepdim=True)
            out[f"{name}.amax"] = x.amax((0, 1))
            out[f"{name}.amin"] = x.amin(1, keepdim=True)
            out[f"{name}.cumsum"] = x.cumsum(1)
            out[f"{name}.mean"] = x.mean(0, dtype=torch.float32)
            if name != "b":
                out[f"{name}.argmax"] = x.argmax()
                out[f"{name}.argmin1"] = x.argmin(1)
                out[f"{name}.max"] = x.max()
                values, places = x.max(0)
                out[f"{name}.max0"], out[f"{name}.max0_at"] = values, places
                values, places = x.min(-1, keepdim=True)
                out[f"{name}.min_last"], out[f"{name}.min_last_at"] = values, places
        i32, u8 = inputs["i32"], inputs["u8"]
        out["narrow"] = u8.sum(0, dtype=torch.uint8)
        out["wrap"] = i32.sum((0, 2), dtype=torch.int32)
        out["as_f64"] = i32.sum(1, dtype=torch.float64)
        out["count"] = (u8 > 100).sum(1)
        out["where"] = (u8 > 250).any(-1).sum()
        empty, hollow = inputs["empty"], inputs["hollow"]
        out["empty.sum"] = empty.sum()
        out["empty.sum0"] = empty.sum(0)
        out["empty.sum1"] = empty.sum(1)
        out["empty.prod0"] = empty.prod(0)
        out["empty.any"] = empty.any()
        out["empty.all0"] = empty.all(0)
        out["empty.cumsum"] = empty.cumsum(0)
        out["empty.amax1"] = empty.amax(1)
        out["hollow.sum1"] = hollow.sum(1)
        out["hollow.sum02"] = hollow.sum((0, 2), keepdim=True)
        out["hollow.mean"] = hollow.mean(1)
        return out

    return run, inputs
