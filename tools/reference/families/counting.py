"""Positions in sorted sequences, histograms, distinct and frequent elements."""

import torch
from cases import ALL, FLOATS, Family, gapped, ints, layouts, rand, transposed

f = Family("counting")
NAN = float("nan")
for dtype in ALL:
    if dtype == torch.bool:
        continue
    x = ints((4, 6), 0, 5, torch.int64, 1).to(dtype)
    sorted_rows = ints((4, 9), 0, 5, torch.int64, 2).to(dtype).sort(-1)[0]
    for right in [False, True]:
        for narrow in [False, True]:
            attrs = {"right": right, "out_int32": narrow}
            f.case("searchsorted", [sorted_rows, x], attrs,
                   lambda s, x: torch.searchsorted(s, x, **attrs), layout=False)
            f.case("searchsorted", [sorted_rows[0], transposed(x)], attrs,
                   lambda s, x: torch.searchsorted(s, x, **attrs), layout=False)
s, x = torch.tensor([0.0, 1.0, NAN]), torch.tensor([NAN, 0.5, 3.0, -1.0])
for right in [False, True]:
    f.case("searchsorted", [s, x], {"right": right},
           lambda s, x: torch.searchsorted(s, x, right=right))
f.case("searchsorted", [s[:0], x], {}, torch.searchsorted)
f.case("searchsorted", [s, x[0]], {}, torch.searchsorted)
f.refuses("searchsorted", [rand((2, 3)), rand((3, 3))], {}, torch.searchsorted)

for dtype in [torch.float32, torch.float64]:
    x = rand((5, 7), dtype, 3)
    for attrs in [{}, {"bins": 5}, {"bins": 4, "min": -1.0, "max": 1.5}, {"bins": 3, "min": 5,
                                                                          "max": 9}]:
        for t in layouts(x):
            f.case("histc", [t], attrs, lambda x: torch.histc(x, **attrs))
    f.case("histc", [torch.full((3,), 2.0, dtype=dtype)], {"bins": 4},
           lambda x: torch.histc(x, 4))
    f.case("histc", [x[:0]], {"bins": 2}, lambda x: torch.histc(x, 2))
f.refuses("histc", [rand((3,))], {"bins": 0}, lambda x: torch.histc(x, 0))
f.refuses("histc", [rand((3,))], {"min": 2, "max": 1}, lambda x: torch.histc(x, 5, 2, 1))


def unique(x, dim, consecutive, inverse, counts):
    if consecutive:
        return torch.ops.aten.unique_consecutive(x, inverse, counts, dim)
    if dim is None:
        return torch.ops.aten._unique2(x, True, inverse, counts)
    return torch.ops.aten.unique_dim(x, dim, True, inverse, counts)


for dtype in ALL:
    x = ints((6, 2), 0, 3, torch.int64, 4).to(dtype)
    for dim in [None, 0]:
        for consecutive in [False, True]:
            for inverse, counts in [(True, True), (False, False)]:
                if dim == 0 and not inverse:
                    continue
                attrs = {"consecutive": consecutive, "return_inverse": inverse,
                         "return_counts": counts, "dim": dim}
                for t in [x, gapped(x)]:
                    f.case("unique", [t], attrs,
                           lambda x: unique(x, dim, consecutive, inverse, counts))

for dtype in ALL:
    x = ints((3, 7, 2), 0, 3, torch.int64, 5).to(dtype)
    for t in layouts(x):
        # PyTorch leaves the index open; the kernel returns the first.
        first = lambda x, v: (x == v.unsqueeze(1)).to(torch.int8).argmax(1)
        f.case("mode", [t], {"dim": 1},
               lambda x: (torch.mode(x, 1)[0], first(x, torch.mode(x, 1)[0])), layout=False)
f.case("mode", [rand(())], {}, lambda x: (x.clone(), torch.tensor(0)))
f.case("mode", [rand((3, 1))], {"keepdim": True}, lambda x: tuple(torch.mode(x, -1, True)))
for dtype in ALL:
    x = ints((3, 4), 0, 3, torch.int64, 6).to(dtype)
    for size in [0, 3, 12, 20]:
        f.case("nonzero_static", [x], {"size": size},
               lambda x: torch.nonzero_static(x, size=size))
f.case("nonzero_static", [transposed(x)], {"size": 20, "fill_value": 7},
       lambda x: torch.nonzero_static(x, size=20, fill_value=7))
f.save()
