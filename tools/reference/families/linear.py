"""Matrix products with a bias."""

import torch
from cases import FLOATS, INTS, Family, gapped, layouts, rand, transposed

f = Family("linear")
A = torch.ops.aten

# The kernels add the terms of a product in another order than PyTorch: 1e-5 of the sum.
WIDE = {torch.float32: dict(rtol=1e-5, atol=1e-5)}


def addmm(bias, x, y, op="addmm", **attrs):
    f.case(op, [bias, x, y], attrs, lambda b, x, y: getattr(A, op)(b, x, y, **attrs),
           **WIDE.get(x.dtype, {}))


for dtype in FLOATS + INTS:
    factors = dict(beta=2, alpha=3) if dtype in INTS else dict(beta=0.5, alpha=-1.5)
    bias, x, y = rand((7,), dtype, 1), rand((5, 6), dtype, 2), rand((6, 7), dtype, 3)
    addmm(bias, x, y)
    addmm(bias, x, y, **factors)
    addmm(rand((5, 1), dtype, 4), transposed(x), gapped(y), **factors)
    x, y = rand((3, 5, 6), dtype, 5), rand((3, 6, 7), dtype, 6)
    addmm(rand((3, 5, 7), dtype, 7), x, y, op="baddbmm")
    addmm(rand((5, 7), dtype, 8), transposed(x), gapped(y), op="baddbmm", **factors)
for bias in layouts(rand((4, 3), seed=9)):
    addmm(bias, rand((4, 2), seed=1), rand((2, 3), seed=2))
# More than one block of the product.
addmm(rand((37,), seed=1), rand((130, 40), seed=2), rand((40, 37), seed=3), beta=0.5)
addmm(rand((), seed=1), rand((3, 300), seed=2), rand((300, 2), seed=3))
# With beta 0 the bias is ignored, even if it is NaN; with alpha 0 it is kept.
nan = torch.full((3,), float("nan"))
x, y = rand((2, 4), seed=1), rand((4, 3), seed=2)
addmm(nan, x, y, beta=0)
addmm(nan, x, y, beta=0.0)
addmm(nan.half(), x.half(), y.half(), beta=0)
addmm(nan, x, y)
addmm(rand((3,), seed=3), x, y, alpha=0)
# Empty products.
addmm(rand((3,)), rand((2, 0)), rand((0, 3)), beta=3)
addmm(rand((3,)), rand((2, 0)), rand((0, 3)), beta=0)
addmm(rand((3,)), rand((0, 4)), rand((4, 3)))
addmm(rand((1, 2, 3)), rand((1, 2, 0)), rand((1, 0, 3)), op="baddbmm", beta=2)
addmm(rand((2, 3)), rand((0, 2, 4)), rand((0, 4, 3)), op="baddbmm")


def refuses(op, *inputs, **attrs):
    f.refuses(op, list(inputs), attrs, lambda *t: getattr(A, op)(*t, **attrs))


refuses("addmm", rand((4,)), x, y)
refuses("addmm", rand((3,)), x, rand((5, 3)))
refuses("addmm", rand((3,)), rand((2, 2, 4)), y)
refuses("addmm", rand((3,)), x, y.double())
refuses("addmm", rand((3,), torch.float64), x, y)
refuses("baddbmm", rand((3,)), x, y)
refuses("baddbmm", rand((3,)), rand((2, 2, 4)), rand((1, 4, 3)))
f.save()
