"""Cumulative sums and products."""

import torch
from cases import ALL, FLOATS, D, Family, ints, layouts, rand

f = Family("scan")
A = torch.ops.aten


def values(shape, dtype, seed):
    v = ints(shape, -2, 4, torch.int64, seed)
    if dtype.is_floating_point:
        return rand(shape, dtype, seed)
    return (v.abs() if dtype == torch.uint8 else v).to(dtype)


for op in ["cumsum", "cumprod"]:
    fn = getattr(A, op)
    for dtype in ALL:
        x = values((3, 4, 5), dtype, 1)
        for t in layouts(x) if dtype in (torch.float32, torch.uint8) else [x]:
            for dim in [0, 1, -1]:
                f.case(op, [t], {"dim": dim}, lambda t: fn(t, dim))
        for to in [torch.float32, torch.int32, torch.float16]:
            f.case(op, [x], {"dim": 1, "dtype": D(to)}, lambda t: fn(t, 1, dtype=to))
    for dtype in FLOATS:
        s = torch.tensor([1, 2, float("inf"), 1, float("-inf"), 0, float("nan"), 1], dtype=dtype)
        f.case(op, [s], {"dim": 0}, lambda t: fn(t, 0))
    for shape, dim in [((), 0), ((), -1), ((0,), 0), ((2, 0, 3), 1), ((2, 0, 3), 0), ((1,), 0)]:
        f.case(op, [rand(shape)], {"dim": dim}, lambda t: fn(t, dim))
    f.case(op, [rand((3, 1, 2)).expand(3, 4, 2)], {"dim": 1}, lambda t: fn(t, 1))
    f.case(op, [rand((900,), seed=2)], {"dim": 0}, lambda t: fn(t, 0))
    f.case(op, [torch.tensor([2**62, 2**62, 3, 5])], {"dim": 0}, lambda t: fn(t, 0))
    f.case(op, [values((9,), torch.int8, 3)], {"dim": 0, "dtype": D(torch.int8)},
           lambda t: fn(t, 0, dtype=torch.int8))
    f.refuses(op, [rand((3,))], {"dim": 1}, lambda t: fn(t, 1))
    f.refuses(
        op, [rand((3,))], {"dim": 0, "dtype": D(torch.bool)}, lambda t: fn(t, 0, dtype=torch.bool)
    )
for op in ["cummax", "cummin"]:
    fn = getattr(A, op)
    for dtype in ALL:
        x = values((3, 7, 2), dtype, 5)
        for t in layouts(x):
            f.case(op, [t], {"dim": 1}, lambda x: fn(x, 1), layout=False)
        f.case(op, [x], {"dim": -1}, lambda x: fn(x, -1), layout=False)
    nan = torch.tensor([1.0, float("nan"), 3.0, 0.0, float("nan"), 5.0])
    f.case(op, [nan], {"dim": 0}, lambda x: fn(x, 0), layout=False)
    f.case(op, [rand(())], {"dim": 0}, lambda x: fn(x, 0), layout=False)
    f.case(op, [rand((2, 0))], {"dim": 0}, lambda x: fn(x, 0), layout=False)
for dtype in FLOATS:
    # PyTorch adds 16-bit floats one by one in 16 bits.
    x = rand((3, 300, 2), dtype, 6)
    exact = lambda x, dim: A.logcumsumexp(x.double(), dim).to(x.dtype)
    for t in layouts(x):
        f.case("logcumsumexp", [t], {"dim": 1}, lambda x: exact(x, 1), layout=False)
    special = torch.tensor([-float("inf"), 1.0, -float("inf"), 900.0, float("inf"), 2.0])
    f.case("logcumsumexp", [special.to(dtype)], {"dim": 0}, lambda x: exact(x, 0), layout=False)
f.case("logcumsumexp", [rand(())], {"dim": 0}, lambda x: A.logcumsumexp(x, 0))
f.refuses("logcumsumexp", [ints((3,), 0, 4)], {"dim": 0}, lambda x: A.logcumsumexp(x, 0))
f.save()
