"""Ops that move elements: rolls, flips, triangles and padding."""

import torch
from cases import ALL, Family, gapped, layouts, rand, transposed

f = Family("rearrange")
cube = rand((2, 3, 4), seed=1)
image = rand((2, 3, 4, 2), seed=2)
last = image.contiguous(memory_format=torch.channels_last)
some = [*layouts(cube), rand(()), rand((0, 2)), rand((1, 3)).expand(2, 3), last, rand((700,))]
TRIANGLES = {"triu": torch.triu, "tril": torch.tril, "triu_": torch.Tensor.triu_,
             "tril_": torch.Tensor.tril_}


def attempt(op, x, attrs, fn):
    try:
        fn(x.clone())
    except (RuntimeError, IndexError):
        f.refuses(op, [x], attrs, fn)
        return
    f.case(op, [x], attrs, fn)


for dtype in ALL:
    for x in layouts(rand((3, 3), dtype, 3)):
        f.case("flip", [x], {"dims": [-1]}, lambda x: x.flip(-1))
        f.case("roll", [x], {"shifts": [1], "dims": [1]}, lambda x: x.roll(1, 1))
        f.case("roll", [x], {"shifts": [2]}, lambda x: x.roll(2))
        f.case("constant_pad_nd", [x], {"pad": [1, 0], "value": 1},
               lambda x: torch.constant_pad_nd(x, [1, 0], 1))
        for op, fn in TRIANGLES.items():
            f.case(op, [x], {}, lambda x: fn(x))
for x in some:
    for dims in [[0], [1, -1], [0, 2], [], [0, 0], [5]]:
        attempt("flip", x, {"dims": dims}, lambda x: x.flip(dims))
    for shifts, dims in [([1], [0]), ([-2], [-1]), ([1, 5], [0, 1]), ([1, 2], [1, 1]), ([0], [1]),
                         ([3], []), ([-7], []), ([1, 2], []), ([], []), ([1], [0, 1]), ([4], [-1])]:
        attempt("roll", x, {"shifts": shifts, "dims": dims}, lambda x: torch.roll(x, shifts, dims))
    for diagonal in [0, 1, -1, 5, -5]:
        for op, fn in TRIANGLES.items():
            if not op.endswith("_") or 0 not in x.stride():
                y = x.clone(memory_format=torch.preserve_format) if op.endswith("_") else x
                attempt(op, y, {"diagonal": diagonal}, lambda x: fn(x, diagonal))
    for pad in [
        [1, 2],
        [0, 0],
        [-1, 1],
        [-1, 0],
        [1, 1, 2, 0],
        [0, -1, -1, 0],
        [],
        [1],
        [1, 0, 1, 0, 1, 0],
        [-2, -1],
        [-9, 0],
    ]:
        for value in [None, 2.5] if x is cube else [None]:
            attempt("constant_pad_nd", x, {"pad": pad, "value": value},
                    lambda x: torch.constant_pad_nd(x, pad, value or 0))
f.case("triu", [rand((40, 50), torch.float16)], {}, torch.triu)
for dtype in [torch.int32, torch.uint8]:
    f.case("constant_pad_nd", [rand((2,), dtype)], {"pad": [1, 1], "value": 1.5},
           lambda x: torch.constant_pad_nd(x, [1, 1], 1.5))
f.case("constant_pad_nd", [rand((2,))], {"pad": [1, 1], "value": float("-inf")},
       lambda x: torch.constant_pad_nd(x, [1, 1], float("-inf")))
f.save()
