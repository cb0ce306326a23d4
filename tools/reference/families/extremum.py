"""The greatest and least elements, and their indices."""

import torch
from cases import ALL, FLOATS, Family, ints, layouts, rand

f = Family("extremum")
A = torch.ops.aten
NAN, INF = float("nan"), float("inf")


def values(shape, dtype, seed):
    v = ints(shape, -2, 3, torch.int64, seed)
    return (v.abs() if dtype == torch.uint8 else v).to(dtype)


def call(op, x, dim=None, keepdim=None):
    args = {k: v for k, v in {"dim": dim, "keepdim": keepdim}.items() if v is not None}
    f.case(op, [x], args, lambda t: getattr(A, op)(t, **args))


for op in ["amax", "amin", "max", "min", "argmax", "argmin"]:
    for dtype in ALL:
        x = values((3, 4, 5), dtype, 1)
        if dtype == torch.bool and op.startswith("arg"):
            f.refuses(op, [x], {}, getattr(A, op))
            continue
        call(op, x)
        call(op, x, 1)
        if dtype in (torch.float32, torch.int8):
            for t in layouts(x):
                for dim in [0, -1, -2]:
                    call(op, t, dim)
                    call(op, t, dim, True)
                if op in ("amax", "amin"):
                    call(op, t, [0, 2])
                    call(op, t, [2, 0], True)
                call(op, t)
        if dtype.is_floating_point:
            s = torch.tensor(
                [
                    [1, NAN, 2, NAN],
                    [INF, 1, 2, INF],
                    [-INF, 1, -INF, 2],
                    [0.0, -0.0, 0, 0],
                    [-INF, -INF, -INF, -INF],
                    [INF, INF, INF, INF],
                ],
                dtype=dtype,
            )
            call(op, s, 0)
            call(op, s, 1)
            call(op, s[1:])
            call(op, s)
    for shape, dim in [((0, 3), 1), ((2, 0), 0)]:
        call(op, rand(shape), dim)
    for shape, dim in [((0, 3), 0), ((2, 0), 1)]:
        f.refuses(op, [rand(shape)], {"dim": dim}, lambda t: getattr(A, op)(t, dim=dim))
    f.refuses(op, [rand((0,))], {}, getattr(A, op))
    f.refuses(op, [rand((3,))], {"dim": 1}, lambda t: getattr(A, op)(t, dim=1))
    call(op, rand(()))
    call(op, rand(()), 0)
    call(op, rand((3, 1, 2)).expand(3, 4, 2), 1)
    call(op, rand((40, 300), seed=5), 0)
    call(op, rand((40, 300), seed=5), 1)
    call(op, torch.tensor([2**63 - 1, -2**63, 2**62 + 1, 2**62]))
    long = values((20011,), torch.int8, 6)
    long[17000], long[18000], long[16500], long[19000] = 99, 99, -99, -99
    call(op, long)
    call(op, long, 0)
for op in ["argmax", "argmin"]:
    f.case(op, [values((3, 4), torch.float32, 7)], {"keepdim": True},
           lambda t: getattr(A, op)(t, None, True))
f.save()
