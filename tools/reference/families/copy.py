"""Copies, fills and conversions."""

import torch
from cases import ALL, D, FLOATS, INTS, Family, gapped, layouts, rand, transposed

f = Family("copy")
A = torch.ops.aten
FORMATS = {None: torch.preserve_format, "preserve": torch.preserve_format,
           "contiguous": torch.contiguous_format, "channels_last": torch.channels_last}

image = rand((2, 3, 2, 3), seed=1)
last = image.contiguous(memory_format=torch.channels_last)
cube = rand((2, 3, 4), seed=2)
some = [*layouts(cube), cube[:, ::2], cube.permute(1, 0, 2), cube.permute(2, 0, 1)[:, :, 1:],
        cube[:, :1].expand(2, 3, 4), rand((3, 1)).expand(3, 4), rand((3,)).expand(2, 3),
        rand((0, 3)), rand((3, 0)).t(), rand(()), rand((1, 5)).t(), image, last, last[:, 1:],
        image.transpose(1, 2), rand((2, 1, 3, 1)), rand((3, 2)).as_strided((2, 2), (1, 1))]

for dtype in ALL:
    for x in layouts(rand((2, 3), dtype, 3)):
        f.case("copy", [x], {}, lambda x: x.clone(memory_format=torch.contiguous_format))
        f.case("clone", [x], {}, torch.clone)
    for to in ALL:
        # PyTorch does not define the conversion of negative floats to u8.
        x = transposed(rand((2, 3), dtype, 3, low=0.0 if to == torch.uint8 else -2.0))
        f.case("cast", [x], {"dtype": D(to)}, lambda x: x.to(to, copy=True))
for to in FLOATS:
    for dtype in FLOATS:
        x = torch.tensor(
            [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-7, 65504.0, 1e30],
            dtype=torch.float64,
        ).to(dtype)
        f.case("cast", [x], {"dtype": D(to)}, lambda x: x.to(to, copy=True))
for to in INTS:
    f.case("cast", [torch.tensor([-129, 128, 255, 256, 70000, -(2**40), 2**62])], {"dtype": D(to)},
           lambda x: x.to(to, copy=True))
for x in some:
    f.case("copy", [x], {}, lambda x: x.clone(memory_format=torch.contiguous_format))
    for name, form in FORMATS.items():
        if name == "channels_last" and x.dim() != 4:
            f.refuses("clone", [x], {"memory_format": name}, lambda x: x.clone(memory_format=form))
            f.refuses("cast", [x], {"memory_format": name, "dtype": D(torch.float64)},
                      lambda x: x.to(torch.float64, memory_format=form))
            continue
        f.case("clone", [x], {"memory_format": name}, lambda x: x.clone(memory_format=form))
        f.case("cast", [x], {"memory_format": name, "dtype": D(torch.float64)},
               lambda x: x.to(torch.float64, memory_format=form))
for strides in [[1, 2, 6], [4, 8, 1], [12, 4, 1]]:
    f.case("copy", [cube], {"strides": strides},
           lambda x: torch.empty_strided(x.shape, strides).copy_(x))

def copy_(x, *args):
    return x.copy_(*args)

for dtype in ALL:
    for src in ALL:
        f.case("copy_", [rand((2, 3), dtype, 4), rand((3,), src, 5, low=0.0)], {}, copy_)
for x in layouts(cube):
    for src in [
        *layouts(rand((2, 3, 4), seed=6)),
        rand((4,)),
        rand((3, 1)),
        rand(()),
        rand((1, 1, 1, 1))[0],
    ]:
        f.case(
            "copy_", [x.clone() if x.is_contiguous() else x, src], {"non_blocking": False}, copy_
        )
f.case("copy_", [rand((0, 3)), rand((3,))], {}, copy_)
f.case("copy_", [rand(()), rand((1,))[0]], {}, copy_)
# A source that overlaps the target is read in full before the target is written.
for at in [slice(0, 5), slice(2, 7), slice(1, 6)]:
    x = rand((8,), seed=7)
    f.case("copy_", [x[2:7], x[at]], {}, lambda a, b: a.copy_(b.clone()))
x = rand((3, 3), seed=8)
f.case("copy_", [x, x.t()], {}, lambda a, b: a.copy_(b.clone()))
f.refuses("copy_", [rand((3,)), rand((2,))], {}, copy_)
f.refuses("copy_", [rand((3,)), rand((2, 3))], {}, copy_)
f.refuses("copy_", [rand((1, 3)).expand(2, 3), rand((2, 3))], {}, copy_)
for dtype in ALL:
    for x in layouts(rand((3, 3), dtype, 9)):
        f.case("fill", [x], {"value": 1}, lambda x: x.fill_(1))
for value in [2.5, float("inf"), -0.0, True]:
    f.case("fill", [rand((3,))], {"value": value}, lambda x: x.fill_(value))
f.case("fill", [rand((0, 2))], {"value": 3}, lambda x: x.fill_(3))
f.save()
