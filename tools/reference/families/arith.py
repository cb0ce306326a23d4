"""Elementwise arithmetic."""

import torch
from cases import ALL, FLOATS, INTS, Family, gapped, ints, layouts, rand, transposed

f = Family("arith")
A = torch.ops.aten
SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.0, 3.5, -7.25, float("nan"), float("inf"), float("-inf")]


def numbers(shape, dtype, seed, low=-9, high=10):
    """Returns integers, or multiples of 1/2 for floats, without zero."""
    v = ints(shape, low, high, torch.float64, seed) / (2 if dtype.is_floating_point else 1)
    v = torch.where(v == 0, 3, v)
    return (v.abs() if dtype == torch.uint8 else v).to(dtype)


def pair(op, x, y, attrs={}, **kw):
    f.case(op, [x, y], attrs, lambda a, b: getattr(A, op)(a, b, **kw))


def number(op, x, value, attrs={}, name="other", **kw):
    f.case(op, [x], {name: value, **attrs}, lambda a: getattr(A, op)(a, value, **kw))


OPS = ["add", "sub", "mul", "div", "remainder", "fmod", "pow"]
MODES = [{}, {"rounding_mode": "floor"}, {"rounding_mode": "trunc"}]
for op in OPS:
    dtypes = [d for d in ALL if d != torch.bool or op in ("add", "mul", "div")]
    for mode in MODES if op == "div" else [{}]:
        for dtype in dtypes:
            if dtype == torch.bool and mode:
                continue
            low = 1 if op == "pow" and dtype in INTS else -9
            x, y = numbers((3, 5), dtype, 1), numbers((3, 5), dtype, 2, low)
            pair(op, x, y, mode, **mode)
            if dtype in (torch.float32, torch.int8):
                lefts = layouts(x) if op in ("add", "pow") else [transposed(x)]
                for left in lefts:
                    for right in [y, gapped(y), y[0], y[:, :1], y[0, 0]] if op == "add" else [y[0]]:
                        pair(op, left, right, mode, **mode)
                pair(op, x[0], gapped(y), mode, **mode)
                pair(op, x[:0], y[:1], mode, **mode)
                pair(op, x[0, 0], y[0, 1], mode, **mode)
            result = torch.float32 if op == "div" and not mode else dtype
            if dtype.is_floating_point or result == dtype:
                pair(op + "_", gapped(x), y[0], mode, **mode)
                if dtype in (torch.float32, torch.int64):
                    pair(op + "_", transposed(x), y, mode, **mode)
                number(op + "_", gapped(x), 3, mode, name="exponent" if op == "pow" else "other",
                       **mode) if dtype != torch.bool else None
            if op == "sub" and dtype == torch.bool:
                continue
            few = dtype not in (torch.float32, torch.float16, torch.uint8, torch.bool)
            for value in [2] if few else [2, 2.5, True, -3, 0.1]:
                name = "exponent" if op == "pow" else "other"
                whole = isinstance(value, int)
                if value is True and (op == "sub" or dtype == torch.bool and mode):
                    continue
                if op == "pow" and whole and value < 0 and not dtype.is_floating_point:
                    continue
                number(op, x, value, mode, name=name, **mode)
        for a, b in [
            (torch.int8, torch.uint8),
            (torch.uint8, torch.float16),
            (torch.int64, torch.bool),
            (torch.float16, torch.bfloat16),
            (torch.int32, torch.float64),
        ][:: 3 if mode else 1]:
            if torch.bool in (a, b) and op == "sub":
                continue
            x, y = numbers((4,), a, 3, 1), numbers((2, 4), b, 4, 1)
            pair(op, x, y, mode, **mode)
            pair(op, x, y[0, 0], mode, **mode)
            pair(op, x[0], y, mode, **mode)
        for dtype in FLOATS:
            s = torch.tensor(SPECIAL, dtype=dtype)
            if op == "pow" and dtype == torch.float16:
                # PyTorch computes the power 0.5 as a square root for all dtypes except f16. There
                # the result for the last value, -inf, differs.
                s = s[:-1]
            for value in [2.0, 0.5, -0.5, -1.0, -2.0, 3.0, 0.0, 1.7] if op == "pow" else \
                    [0.0, -1.7] if op == "remainder" or mode else []:
                number(op, s, value, mode, name="exponent" if op == "pow" else "other", **mode)
            pair(op, s[:, None], s, mode, **mode)

x = rand((70, 90), seed=5)
pair("add", x, transposed(rand((70, 90), seed=6)))
for dtype in [torch.float32, torch.int16, torch.bfloat16]:
    x, y = numbers((2, 3), dtype, 7), numbers((3,), dtype, 8)
    for op in ["add", "sub"]:
        pair(op, x, y, {"alpha": 3}, alpha=3)
        pair(op + "_", x.clone(), y, {"alpha": -2}, alpha=-2)
        f.case(
            op, [x], {"other": 2, "alpha": 3}, lambda a: getattr(A, op)(a, 2, 3))
f.case("add", [rand(4)], {"other": 2.0, "alpha": 0.5}, lambda a: A.add(a, 2.0, 0.5))
x = torch.tensor([True, False])
f.case("add", [x, x], {"alpha": True}, lambda a, b: torch.add(a, b, alpha=True))
# Operands that share memory with the target are read in full before it is written.
x = rand((4, 4))
f.case("mul_", [x, x], {}, lambda a, b: a.mul_(b))
low = torch.tensor([-2**63, 2**63 - 1, 5, -5])
for op in ["neg", "add", "mul"]:
    f.case(op, [low] if op == "neg" else [low, low], {}, getattr(A, op))
f.case(
    "div",
    [torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])],
    {"rounding_mode": "floor"},
    lambda a, b: A.div(a, b, rounding_mode="floor"),
)
f.case("remainder", [torch.tensor([7, -7, 7, -7]), torch.tensor([2, 2, -2, -2])], {}, A.remainder)
f.case("pow", [torch.tensor([0, 1, -1, 2, -1]), torch.tensor([0, -3, -3, -1, -2])], {}, A.pow)
f.case(
    "pow",
    [torch.tensor([3, 200], dtype=torch.uint8), torch.tensor([7, 3], dtype=torch.uint8)],
    {},
    A.pow,
)

for dtype in ALL:
    x = numbers((3, 4), dtype, 9)
    for x in layouts(x) if dtype == torch.float32 else [x]:
        if dtype != torch.bool:
            f.case("neg", [x], {}, A.neg)
            f.case("neg_", [x.clone(memory_format=torch.preserve_format)], {}, A.neg_)
        for op in ["maximum", "minimum"]:
            pair(op, x, numbers((3, 4), dtype, 10))
            pair(op, x, numbers((4,), dtype, 11))
for dtype in ALL:
    x, y = numbers((3, 4), dtype, 9), numbers((3, 4), dtype, 10)
    pair("atan2", x, y)
    pair("atan2", transposed(x), y[0])
    if dtype.is_floating_point:
        s = torch.tensor(SPECIAL, dtype=dtype)
        pair("atan2", s[:, None], s)
        f.case("atan2_", [x.clone(), y[0]], {}, A.atan2_)
for op in ["maximum", "minimum"]:
    for dtype in FLOATS:
        s = torch.tensor(SPECIAL, dtype=dtype)
        pair(op, s[:, None], s)
    pair(op, torch.tensor([1, 100], dtype=torch.int8), torch.tensor(300))
    pair(op, rand((3, 1, 2)), ints((4, 1), -2, 3))
for dtype in FLOATS:
    f.case("neg", [torch.tensor(SPECIAL, dtype=dtype)], {}, A.neg)

i, b, x = ints((3,), 1, 5), rand((3,), torch.bool), rand((3,))
f.refuses("add", [i], {"other": 2, "alpha": 2.5}, lambda a: A.add(a, 2, 2.5))
f.refuses("sub", [b], {"other": 2}, lambda a: A.sub(a, 2))
f.refuses("sub", [i], {"other": True}, lambda a: A.sub(a, True))
f.refuses("neg", [b], {}, A.neg)
f.refuses("pow", [i], {"exponent": -1}, lambda a: A.pow(a, -1))
f.refuses(
    "div", [i], {"other": 2, "rounding_mode": "up"}, lambda a: A.div(a, 2, rounding_mode="up")
)
f.refuses("div_", [i.clone(), i], {}, A.div_)
f.refuses("mul_", [i.clone()], {"other": 2.5}, lambda a: A.mul_(a, 2.5))
f.refuses("mul_", [x.expand(2, 3)], {"other": 2.5}, lambda a: A.mul_(a, 2.5))
f.refuses("mul_", [x, rand((2, 3))], {}, A.mul_)
for op in ["remainder", "fmod"]:
    f.refuses(op, [i], {"other": 0}, lambda a: getattr(A, op)(a, 0))
    f.refuses(op, [b, b], {}, getattr(A, op))
f.refuses("maximum", [rand((2,)), rand((3,))], {}, A.maximum)
for op in ["gcd", "lcm"]:
    fn = getattr(torch, op)
    for dtype in [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]:
        low = 0 if dtype == torch.uint8 else -12
        x = torch.tensor([low, -low, 0, 5, 7, 12, 4, 9, 0, 10]).to(dtype)
        y = torch.tensor([8, 6, 0, 10, 3, low, 6, 0, 3, 4]).to(dtype)
        f.case(op, [x, y], {}, fn)
        f.case(op, [x[:, None], y], {}, fn)
    f.case(op, [x[:0], y[:0]], {}, fn)
    f.refuses(op, [torch.rand(3), torch.rand(3)], {}, fn)
for dtype in [torch.float32, torch.float64, torch.bfloat16]:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, 3.0, 0.0, float("nan"), 2.0, float("inf")])
    y = torch.tensor([1.0, -1.0, 2.0, 2.0, -9.0, 3.0, -0.0, 1.0, float("nan"), 0.0])
    f.case("nextafter", [x.to(dtype), y.to(dtype)], {}, torch.nextafter, rtol=0.0, atol=0.0)
f.save()
