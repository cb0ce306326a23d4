"""Sorting."""

import torch
from cases import ints, ALL, FLOATS, Family, layouts, rand, transposed

f = Family("sort")


def distinct(shape, dtype=torch.float32, seed=0):
    """Returns unique values."""
    g = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel()
    return (torch.randperm(count, generator=g) - count // 3).reshape(shape).to(dtype)


def attempt(op, x, attrs, fn):
    try:
        fn(x)
    except (RuntimeError, IndexError, NotImplementedError):
        f.refuses(op, [x], attrs, fn)
        return
    f.case(op, [x], attrs, fn)


for dtype in ALL:
    for x in layouts(rand((4, 5), dtype, 1)):
        for descending in [False, True]:
            f.case("sort", [x], {"dim": 0, "descending": descending, "stable": True},
                   lambda x: torch.sort(x, dim=0, descending=descending, stable=True))
            f.case("argsort", [x], {"descending": descending},
                   lambda x: torch.argsort(x, descending=descending, stable=True))
    if dtype != torch.uint8:
        for largest in [True, False]:
            attempt("topk", distinct((3, 5), dtype, 2), {"k": 2, "largest": largest},
                    lambda x: torch.topk(x, 2, largest=largest))
nan, inf = float("nan"), float("inf")
special = torch.tensor([0.0, nan, -0.0, inf, 1.0, nan, -inf, 0.0, -1.0])
for dtype in FLOATS:
    for descending in [False, True]:
        f.case("sort", [special.to(dtype)], {"descending": descending, "stable": True},
               lambda x: torch.sort(x, descending=descending, stable=True))
        f.case("topk", [special[:2].to(dtype)], {"k": 2, "largest": descending},
               lambda x: torch.topk(x, 2, largest=descending))
image = rand((2, 3, 2, 2), seed=3)
for x in [*layouts(rand((2, 3, 4), seed=4)), rand((2, 3, 4))[:, ::2], rand((1, 3)).expand(2, 3),
          image.contiguous(memory_format=torch.channels_last), rand(()), rand((0, 3)), rand((3, 0)),
          rand((700,), seed=5), rand((90, 40), torch.float16, 6), rand((1, 4)).t()]:
    for dim in [None, 0, 1, -2, 5]:
        named = {} if dim is None else {"dim": dim}
        attempt("sort", x, named, lambda x: torch.sort(x, stable=True, **named))
        attempt("argsort", x, named, lambda x: torch.argsort(x, stable=True, **named))
for x in [
    *layouts(distinct((4, 3, 5), seed=7)),
    rand((0, 3)),
    rand((3, 0)),
    distinct((700,), seed=8),
    rand(()),
]:
    for dim in [None, 0, -2]:
        named = {} if dim is None else {"dim": dim}
        for k in [0, 1, 3, 4, -1, 400]:
            attempt("topk", x, {"k": k, **named}, lambda x: torch.topk(x, k, **named))
            attempt("topk", x, {"k": k, "largest": False, "sorted": True, **named},
                    lambda x: torch.topk(x, k, largest=False, sorted=True, **named))
# Ties: their order in PyTorch is that of the algorithms of the C++ library.
for length in [3, 4, 6, 17, 40, 130, 700]:
    for keys in [1, 2, 5]:
        x = ints((1 if length > 100 else 3, length), 0, keys, torch.int8, length + keys)
        for k in sorted(
            {1, 3, length // 64 + 1, length // 2 + 1} if length > 100 else {1, 3, length}
        ):
            for largest in [True, False]:
                attempt("topk", x, {"k": k, "largest": largest},
                        lambda x: torch.topk(x, k, largest=largest))
f.save()
