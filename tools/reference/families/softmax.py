"""Softmax, its logarithm, and their gradients."""

import torch
from cases import FLOATS, D, Family, layouts, rand

f = Family("softmax")
A = torch.ops.aten
NAMES = ["_softmax", "_log_softmax"]


def forward(op, x, dim):
    f.case(op, [x], dict(dim=dim, half_to_float=False), lambda x: getattr(A, op)(x, dim, False),
           **({} if x.dtype != torch.float32 else dict(rtol=5e-6, atol=2e-6)))


def backward(op, grad, y, dim):
    name = op + "_backward_data"
    # The error of a sum of terms of either sign is relative to the terms, not to the sum.
    f.case(name, [grad, y], dict(dim=dim, input_dtype=D(y.dtype)),
           lambda g, y: getattr(A, name)(g, y, dim, y.dtype),
           **({} if y.dtype != torch.float32 else dict(rtol=5e-6, atol=1e-5)))


for op in NAMES:
    for dtype in FLOATS:
        for x in layouts(rand((3, 4, 5), dtype, 1, -8, 8)):
            for dim in (0, 1, -1):
                forward(op, x, dim)
        for grad in layouts(rand((3, 5), dtype, 2)):
            for dim in (0, 1):
                y = getattr(A, op)(rand((3, 5), dtype, 3), dim, False)
                for y in layouts(y):
                    backward(op, grad, y, dim)
    inf = float("inf")
    special = torch.tensor([[1.0, inf, 2], [-inf, 0, 1], [float("nan"), 0, 1], [-inf, -inf, -inf]])
    forward(op, special, 1)
    forward(op, special, 0)
    forward(op, torch.tensor([1e4, -1e4, 9999.0]), 0)
    forward(op, rand(()), -1)
    forward(op, rand((0, 3)), 1)
    forward(op, rand((3, 0)), 1)
    forward(op, rand((2, 700), seed=4, low=-9, high=9), 1)
    forward(op, rand((3, 4, 70), seed=5), 1)
    backward(op, rand((2, 700), seed=6), getattr(A, op)(rand((2, 700), seed=7), 1, False), 1)
    backward(op, rand((0, 2)), rand((0, 2)), 0)
    backward(op, rand(()), rand(()), 0)
    call = getattr(A, op)
    f.refuses(op, [rand((2, 3))], dict(dim=2), lambda x: call(x, 2, False))
    f.refuses(op, [rand((2, 3), torch.int64)], dict(dim=1), lambda x: call(x, 1, False))
    f.refuses(op, [rand((2, 3))], dict(dim=1, half_to_float=True), lambda x: call(x, 1, True))
f.refuses("_softmax_backward_data", [rand((2, 3)), rand((2, 2))], dict(dim=1),
          lambda g, y: A._softmax_backward_data(g, y, 1, torch.float32))
f.save()
