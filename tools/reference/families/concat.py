"""Concatenations."""

import torch
from cases import ALL, Family, gapped, layouts, rand, transposed

f = Family("concat")
last = rand((2, 3, 2, 2), seed=1).contiguous(memory_format=torch.channels_last)


def cat(dim):
    return lambda *t: torch.cat(t, dim)


def stack(dim):
    return lambda *t: torch.stack(t, dim)


for a in ALL:
    for b in ALL:
        f.case("cat", [rand((1, 2), a, 2), rand((2, 2), b, 3)], {}, cat(0))
    for x in layouts(rand((2, 3), a, 4)):
        f.case("stack", [x, rand((2, 3), torch.float16, 5)], {"dim": 1}, stack(1))
        f.case("repeat", [x], {"repeats": [2, 1, 2]}, lambda x: x.repeat(2, 1, 2))
cube = rand((2, 3, 4), seed=6)
for dim in [0, 1, 2, -1, -3]:
    for x in layouts(cube):
        f.case("cat", [x, cube, x], {"dim": dim}, cat(dim))
        f.case("stack", [x, x], {"dim": dim}, stack(dim))
f.case("cat", [cube], {}, cat(0))
f.case("cat", [rand((0,)), cube, rand((0,), torch.float64)], {"dim": 2}, cat(2))
f.case("cat", [rand((0,)), rand((0,))], {}, cat(0))
f.case("cat", [rand((0, 4)), rand((2, 4))], {}, cat(0))
f.case("cat", [rand((2, 0)), rand((2, 0))], {}, cat(0))
f.case("cat", [rand((300,)), rand((5,)), rand((700,))], {}, cat(0))
for tensors in [[last, last], [last, last.contiguous()], [last.contiguous(), last],
                [last[:, 1:], last[:, 1:]], [last, rand((0,))],
                [last[:, :1], last[:, :1]], [last[:, :, :1, :1], last[:, :, :1, :1]]]:
    for dim in [1, 2] if tensors[1].dim() > 1 else [1]:
        f.case("cat", tensors, {"dim": dim}, cat(dim))
    if tensors[1].dim() > 1:
        for dim in [0, 1, 3, 4, -1]:
            f.case("stack", tensors, {"dim": dim}, stack(dim))
volume = rand((2, 3, 2, 2, 2), seed=7).contiguous(memory_format=torch.channels_last_3d)
f.case("cat", [volume, volume], {"dim": 1}, cat(1))
f.case("stack", [volume, volume], {"dim": 1}, stack(1))
f.case("stack", [rand(()), rand((), torch.int64)], {}, stack(0))
f.case("stack", [rand((0, 2)), rand((0, 2))], {"dim": -1}, stack(-1))
for tensors, dim in [
    ([rand(()), rand((1,))], 0),
    ([rand((2, 3)), rand((2, 4))], 0),
    ([rand((2, 3)), rand((2,))], 0),
    ([cube], 3),
    ([rand((2, 0)), rand((2, 3))], 0),
]:
    f.refuses("cat", tensors, {"dim": dim}, cat(dim))
f.refuses("stack", [rand((2,)), rand((3,))], {}, stack(0))
f.refuses("stack", [rand((2,)), rand((2,))], {"dim": 2}, stack(2))
for x in [*layouts(cube), rand(()), rand((0, 2)), last, rand((1, 3)).expand(2, 3), rand((3,))]:
    for repeats in [[2, 1, 3], [1, 1, 1, 2], [0, 2, 1], [], [2], [3, 2]]:
        fn = lambda x: x.repeat(repeats)
        if len(repeats) < x.dim():
            f.refuses("repeat", [x], {"repeats": repeats}, fn)
        else:
            f.case("repeat", [x], {"repeats": repeats}, fn)
f.refuses("repeat", [rand((2,))], {"repeats": [-1]}, lambda x: x.repeat(-1))
f.save()
