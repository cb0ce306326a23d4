"""Elementwise functions of several tensors."""

import torch
from cases import ALL, FLOATS, INTS, Family, gapped, ints, layouts, rand, transposed

f = Family("ternary")
A = torch.ops.aten
NAN, INF = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.5, 3.0, NAN, INF, -INF]
mask = rand((3, 5), torch.bool, 1)

for dtype in ALL:
    x, y = rand((3, 5), dtype, 2, -9, 9), rand((3, 5), dtype, 3, -9, 9)
    f.case("where", [mask, x, y], {}, A.where)
    f.case("where", [mask[:, :1], x[0], y[0, 0]], {}, A.where)
    f.case("where", [mask], {"self": 2, "other": 1.5}, lambda c: A.where(c, 2, 1.5))
    f.case("where", [mask, x], {"other": 1}, lambda c, a: A.where(c, a, 1))
    f.case("where", [mask, x], {"self": 0.5}, lambda c, a: A.where(c, 0.5, a))
    for value in [1, True, 2.7, 0]:
        f.case("masked_fill", [x, mask], {"value": value}, lambda a, m: A.masked_fill(a, m, value))
        f.case("masked_fill_", [gapped(x), mask[0]], {"value": value},
               lambda a, m: A.masked_fill_(a, m, value))
    for value in [torch.tensor(1.5), torch.tensor(2), torch.tensor(True)]:
        f.case("masked_fill", [x, mask, value], {}, A.masked_fill)
        f.case("masked_fill_", [x.clone(), mask, value], {}, A.masked_fill_)
    if dtype != torch.bool:
        for low, high in [(-1, 2), (0.5, 1.5), (None, 1), (1, None), (3, 1), (-3, 300)]:
            attrs = {"min": low, "max": high}
            f.case("clamp", [x], attrs, lambda a: A.clamp(a, low, high))
            if dtype.is_floating_point or not isinstance(low, float):
                f.case("clamp_", [gapped(x)], attrs, lambda a: A.clamp_(a, low, high))
        for op, name in [("clamp_min", "min"), ("clamp_max", "max")]:
            f.case(op, [transposed(x)], {name: 1}, lambda a: getattr(A, op)(a, 1))
            f.case(op + "_", [transposed(x)], {name: 1}, lambda a: getattr(A, op + "_")(a, 1))
    z = rand((3, 5), dtype, 4, 1, 9)
    if dtype != torch.bool:
        for value in [1, 2, 2.5]:
            f.case(
                "addcmul",
                [x, y, z],
                {"value": value},
                lambda a, b, c: A.addcmul(a, b, c, value=value),
            )
            f.case("addcmul_", [x.clone(), y[0], z], {"value": value},
                   lambda a, b, c: A.addcmul_(a, b, c, value=value))
    if dtype.is_floating_point:
        f.case("addcdiv", [x, y, z], {}, A.addcdiv)
        f.case("addcdiv", [x, y, z], {"value": 0.5}, lambda a, b, c: A.addcdiv(a, b, c, value=0.5))
        f.case("addcdiv_", [gapped(x), y, z[:, :1]], {"value": 2},
               lambda a, b, c: A.addcdiv_(a, b, c, value=2))
        for weight in [0.3, 0.75, 1, -2.0]:
            f.case("lerp", [x, y], {"weight": weight}, lambda a, b: A.lerp(a, b, weight))
            f.case(
                "lerp_", [x.clone(), y[0]], {"weight": weight}, lambda a, b: A.lerp_(a, b, weight)
            )
        f.case("lerp", [x, y, z / 9], {}, A.lerp)
        f.case("lerp", [x, y[0], z[0, 0] / 9], {}, A.lerp)
        f.case("lerp_", [gapped(x), y, z / 9], {}, A.lerp_)
        s = torch.tensor(SPECIAL, dtype=dtype)
        f.case("clamp", [s], {"min": -1.0, "max": 1.0}, lambda a: A.clamp(a, -1.0, 1.0))
        f.case("clamp", [s], {"min": NAN, "max": 1.0}, lambda a: A.clamp(a, NAN, 1.0))
        f.case("where", [s > 0, s, torch.tensor(7.0)], {}, A.where)
        f.case("addcdiv", [s[:1], s[:, None], s], {}, A.addcdiv)
        f.case("masked_fill", [s, s > 0], {"value": -INF}, lambda a, m: A.masked_fill(a, m, -INF))
    else:
        f.refuses("addcdiv", [x, y, z], {}, A.addcdiv)
        f.refuses("lerp", [x, y], {"weight": 0.5}, lambda a, b: A.lerp(a, b, 0.5))

x, y, z = rand((3, 5), seed=5), rand((3, 5), seed=6), rand((3, 5), seed=7, low=1)
for a in layouts(x):
    for m in layouts(mask):
        f.case("where", [m, a, y], {}, A.where)
        f.case("masked_fill", [a, m], {"value": 2}, lambda a, m: A.masked_fill(a, m, 2))
    f.case("masked_fill", [a[0], mask], {"value": 2}, lambda a, m: A.masked_fill(a, m, 2))
    f.case("clamp", [a], {"min": 0.1}, lambda a: A.clamp(a, 0.1))
    for b in layouts(y):
        f.case("addcmul", [a, b, z], {}, A.addcmul)
        f.case("lerp", [a, b, z[0]], {}, A.lerp)
big = torch.tensor([2**62 + 1, -2**63, 2**63 - 1])
f.case("where", [big > 0, big, big - 1], {}, A.where)
f.case("where", [big[:0] > 0, big[:0], big[:1]], {}, A.where)
f.case("where", [torch.tensor([0, 2, 1], dtype=torch.uint8), big, big - 1], {}, A.where)
f.case(
    "addcmul",
    [torch.ones(2, dtype=torch.int32), rand((2,)), rand((2,), torch.float16)],
    {},
    A.addcmul,
)
f.case("masked_fill", [torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([True, False])],
       {"value": -1}, lambda a, m: A.masked_fill(a, m, -1))
m = mask[0]
f.refuses("where", [rand((3,)), rand((3,)), rand((3,))], {}, A.where)
f.refuses(
    "masked_fill", [x, mask.to(torch.uint8)], {"value": 1}, lambda a, m: A.masked_fill(a, m, 1)
)
f.refuses("masked_fill", [x, mask, y[0]], {}, A.masked_fill)
f.refuses(
    "masked_fill", [ints((5,), 0, 3), m], {"value": NAN}, lambda a, m: A.masked_fill(a, m, NAN)
)
f.refuses(
    "masked_fill",
    [ints((5,), 0, 3, torch.uint8), m],
    {"value": 300},
    lambda a, m: A.masked_fill(a, m, 300),
)
f.refuses(
    "masked_fill",
    [rand((5,), torch.float16), m],
    {"value": 1e9},
    lambda a, m: A.masked_fill(a, m, 1e9),
)
f.refuses("masked_fill_", [x[0].clone(), mask], {"value": 1}, lambda a, m: A.masked_fill_(a, m, 1))
f.refuses("clamp", [x], {}, lambda a: A.clamp(a))
f.refuses("clamp_", [ints((5,), 0, 3)], {"min": 0.5}, lambda a: A.clamp_(a, 0.5))
f.refuses("clamp_min", [m], {"min": True}, lambda a: A.clamp_min(a, True))
f.refuses("lerp", [x, y.double()], {"weight": 0.5}, lambda a, b: A.lerp(a, b, 0.5))
f.refuses("addcmul", [m, m, m], {}, A.addcmul)
f.save()
