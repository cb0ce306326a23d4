"""Matrix products."""

import torch
from cases import Family, FLOATS, INTS, layouts, rand

f = Family("matmul")


def same_sum(dtype):
    """Returns tolerances for sums in another order, or with more roundings, than PyTorch's."""
    return {
        torch.float32: {"rtol": 1e-5, "atol": 1e-5},
        torch.float16: {"rtol": 4e-3, "atol": 4e-3},
        torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    }.get(dtype, {})


shapes = [((3,), (3,)), ((4, 3), (3,)), ((3,), (3, 5)), ((4, 3), (3, 5)), ((2, 4, 3), (2, 3, 5)),
          ((2, 1, 4, 3), (5, 3, 2)), ((2, 4, 3), (3,)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]
for dtype in FLOATS + INTS:
    for a, b in shapes:
        f.case(
            "matmul", [rand(a, dtype, 1), rand(b, dtype, 2)], {}, torch.matmul, **same_sum(dtype)
        )
for x in layouts(rand((7, 5), seed=3)):
    for y in layouts(rand((5, 9), seed=4)):
        f.case("matmul", [x, y], {}, torch.matmul, **same_sum(torch.float32))
special = rand((3, 4), seed=5)
special[0, 1], special[2, 2] = float("nan"), float("inf")
f.case("matmul", [special, rand((4, 3), seed=6)], {}, torch.matmul, **same_sum(torch.float32))
f.case("matmul", [rand((70, 130), seed=7), rand((130, 33), seed=8)], {}, torch.matmul,
       **same_sum(torch.float32))
f.refuses("matmul", [rand((3, 4)), rand((3, 4))], {}, torch.matmul)
f.refuses("matmul", [rand((3, 4)), rand((4, 3), torch.float64)], {}, torch.matmul)
f.refuses("matmul", [rand(()), rand((4, 3))], {}, torch.matmul)
f.save()
