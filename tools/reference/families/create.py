"""Ops that create tensors."""

import torch
from cases import ALL, FLOATS, D, Family

f = Family("create")
NAN, INF = float("nan"), float("inf")


def full(shape, value, dtype=None, strides=None):
    def fn():
        if strides is None:
            return torch.full(shape, value, dtype=dtype)
        return torch.empty_strided(shape, strides, dtype=dtype).fill_(value)

    f.case(
        "full",
        [],
        {"shape": shape, "value": value, "dtype": dtype and D(dtype), "strides": strides},
        fn,
    )


def arange(end, start=None, step=None, dtype=None):
    f.case("arange", [], {"start": start, "end": end, "step": step, "dtype": dtype and D(dtype)},
           lambda: torch.arange(start or 0, end, 1 if step is None else step, dtype=dtype))


for dtype in ALL:
    full([2, 3], 1, dtype)
    full([2, 3], True, dtype)
    full([2, 3, 4], 0, dtype, [1, 2, 6])
    if dtype.is_floating_point:
        for value in [NAN, INF, -INF, 0.1, -0.0]:
            full([3], value, dtype)
    if dtype != torch.bool:
        arange(7, dtype=dtype)
        arange(20, 3, 4, dtype)
        arange(2, 20, -3, dtype)
for value in [3, 2.5, True]:
    full([2], value)
for shape in [[], [0], [2, 0, 3], [300, 7], [1, 1]]:
    full(shape, 2.5)
full([2, 3, 4, 5], 1.5, torch.float16, [60, 1, 15, 3])
full([], 7, torch.int64, [])
full([0, 3], 7, torch.int64, [3, 1])
for args in [
    (5,),
    (0,),
    (5, 5),
    (2.5,),
    (1, 0, 0.1),
    (1.0, 0.0, 0.25),
    (10, -10, 7),
    (-10, 10, -7),
    (1000,),
    (2**62 + 3, 2**62),
    (-1.5, 1, -0.5),
]:
    arange(*args)
for dtype in FLOATS:
    arange(3.25, 0.5, 0.25, dtype)
f.refuses("arange", [], {"end": -1}, lambda: torch.arange(-1))
f.refuses("arange", [], {"end": 5, "step": 0}, lambda: torch.arange(0, 5, 0))
f.refuses("arange", [], {"end": 5, "step": -1}, lambda: torch.arange(0, 5, -1))
f.refuses("arange", [], {"end": INF}, lambda: torch.arange(INF))
f.refuses(
    "arange", [], {"end": 5, "dtype": D(torch.bool)}, lambda: torch.arange(5, dtype=torch.bool)
)
f.refuses("full", [], {"shape": [-1], "value": 1}, lambda: torch.full([-1], 1))
f.refuses("full", [], {"shape": [2], "value": 300, "dtype": D(torch.uint8)},
          lambda: torch.full([2], 300, dtype=torch.uint8))
f.save()
