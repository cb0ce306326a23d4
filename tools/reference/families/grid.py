"""Samples of images at the points of a grid, and their gradients."""

import itertools

import torch
from cases import Family, rand, transposed

f = Family("grid")
A = torch.ops.aten
for dims, dtype in itertools.product([2, 3], [torch.float64, torch.float32]):
    op = getattr(A, f"grid_sampler_{dims}d")
    backward = getattr(A, f"grid_sampler_{dims}d_backward")
    x = rand((2, 3, 4, 5, 3)[: dims + 2], dtype, 1)
    grid = rand((2, 3, 2, 4)[: dims + 1] + (dims,), dtype, 2, -1.7, 1.7)
    grad = rand((2, 3) + tuple(grid.shape[1:-1]), dtype, 3)
    loose = {torch.float32: 2e-5, torch.float64: 1e-12}[dtype]
    kinds = {"rtol": loose, "atol": loose, "layout": False}
    for mode, padding, align in itertools.product(range(5 - dims), range(3), [False, True]):
        attrs = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}
        given = (mode, padding, align)
        f.case(f"grid_sampler_{dims}d", [x, grid], attrs, lambda x, g: op(x, g, *given), **kinds)
        f.case(f"grid_sampler_{dims}d_backward", [grad, x, grid], attrs,
               lambda d, x, g: backward(d, x, g, *given, [True, True]), **kinds)
    f.case(f"grid_sampler_{dims}d", [transposed(x), transposed(grid)], {},
           lambda x, g: op(x, g, 0, 0, False), **kinds)
    f.case(f"grid_sampler_{dims}d_backward", [grad, x, grid], {"output_mask": [False, True]},
           lambda d, x, g: backward(d, x, g, 0, 0, False, [False, True])[1], **kinds)
f.save()
