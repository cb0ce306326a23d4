"""Comparisons, and logic on booleans and bits."""

import torch
from cases import ALL, FLOATS, INTS, Family, gapped, ints, layouts, rand, transposed

f = Family("compare")
A = torch.ops.aten
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), float("-inf")]


def values(shape, dtype, seed):
    v = ints(shape, -3, 4, torch.int64, seed)
    return (v.abs() if dtype == torch.uint8 else v).to(dtype)


def pair(op, x, y):
    f.case(op, [x, y], {}, lambda a, b: getattr(A, op)(a, b))


def number(op, x, value):
    f.case(op, [x], {"other": value}, lambda a: getattr(A, op)(a, value))


COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGIC = ["logical_and", "logical_or"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHIFTS = ["__lshift__", "__rshift__"]
for op in COMPARISONS + LOGIC + BITS + SHIFTS:
    twin = op in LOGIC + BITS
    for dtype in ALL:
        x, y = values((3, 5), dtype, 1), values((3, 5), dtype, 2)
        if op in BITS + SHIFTS and dtype.is_floating_point or op in SHIFTS and dtype == torch.bool:
            f.refuses(op, [x, y], {}, getattr(A, op))
            continue
        pair(op, x, y)
        if op not in LOGIC:
            for value in [1, True] + ([] if op in BITS + SHIFTS else [0.5]):
                if not (op in SHIFTS and dtype == torch.bool):
                    number(op, x, value)
        if twin:
            pair(op + "_", gapped(x), y[0])
            if op in BITS:
                f.case(
                    op + "_", [x.clone()], {"other": True}, lambda a: getattr(A, op + "_")(a, True)
                )
        if dtype in (torch.int16, torch.float32):
            for left in layouts(x):
                pair(op, left, transposed(y))
                pair(op, left, y[0])
                pair(op, y[0, 0], left)
            pair(op, x[:0], y[:1])
    if op in COMPARISONS + LOGIC:
        for dtype in FLOATS:
            s = torch.tensor(SPECIAL, dtype=dtype)
            pair(op, s[:, None], s)
        pair(op, values((4,), torch.int64, 3), rand((4,), seed=4))
        pair(op, values((4,), torch.bool, 3), rand((2, 4), torch.float16, seed=4))
    else:
        pair(op, values((4,), torch.uint8, 3), values((4,), torch.int8, 4))
        pair(op, values((4,), torch.bool, 3), values((1,), torch.int32, 4))
    pair(op, torch.tensor([1, 100], dtype=torch.int8), torch.tensor(300))
for op in COMPARISONS:
    number(op, torch.tensor([44, 200, 255], dtype=torch.uint8), 300)
    number(op, torch.tensor([44, 200, 255], dtype=torch.uint8), -1)
    for dtype in FLOATS:
        number(op, torch.tensor([0.1, 0.2, 1.0], dtype=dtype), 0.1)
big = torch.tensor([2**62 + 1, -2**63, 2**63 - 1])
for op in COMPARISONS:
    pair(op, big[:, None], big)
for dtype in INTS:
    x = values((9,), dtype, 5) * 5
    places = torch.tensor([0, 1, 3, 7, 8, 31, 32, 63, 64], dtype=dtype)
    for op in SHIFTS:
        pair(op, x, places)
        if dtype != torch.uint8:
            pair(op, x, -places)
for dtype in ALL:
    for x in layouts(values((3, 4), dtype, 6)):
        f.case("logical_not", [x], {}, A.logical_not)
        f.case("logical_not_", [x.clone(memory_format=torch.preserve_format)], {}, A.logical_not_)
        if dtype.is_floating_point:
            continue
        f.case("bitwise_not", [x], {}, A.bitwise_not)
        f.case("bitwise_not_", [x.clone(memory_format=torch.preserve_format)], {}, A.bitwise_not_)
f.case("logical_not", [torch.tensor(SPECIAL)], {}, A.logical_not)
f.refuses("bitwise_not", [rand((3,))], {}, A.bitwise_not)
f.refuses("eq", [rand((3,)), rand((2,))], {}, A.eq)
f.refuses(
    "bitwise_and_", [values((3,), torch.bool, 1), values((3,), torch.int8, 1)], {}, A.bitwise_and_
)
f.save()
