"""Selections whose length depends on the data."""

import torch
from cases import ALL, FLOATS, Family, layouts, rand, transposed

f = Family("masked_select")
for dtype in ALL:
    for x in layouts(rand((3, 4), dtype, 1)):
        mask = rand((4,), torch.bool, 2)
        f.case("masked_select", [x, mask], {}, torch.masked_select)
f.case("masked_select", [rand((0, 3)), rand((3,), torch.bool)], {}, torch.masked_select)
f.refuses("masked_select", [rand((3,)), rand((3,))], {}, torch.masked_select)
# Strides are not compared: PyTorch returns the result in column-major order.
for dtype in ALL:
    for x in layouts(rand((3, 4), dtype, 3).to(torch.int64).to(dtype)):
        f.case("nonzero", [x], {}, torch.nonzero, layout=False)
for x in [
    rand(()),
    torch.zeros(()),
    rand((0, 3)),
    torch.zeros(2, 3),
    rand((300, 2), torch.bool, 4),
    transposed(rand((2, 3, 4), torch.bool, 5)),
    torch.tensor([float("nan"), -0.0, float("inf")]),
]:
    f.case("nonzero", [x], {}, torch.nonzero, layout=False)
for dtype in FLOATS:
    f.case("nonzero", [torch.tensor([0.0, 5e-324, 1e-40, 6e-8, -0.0]).to(dtype)], {}, torch.nonzero,
           layout=False)
f.save()
