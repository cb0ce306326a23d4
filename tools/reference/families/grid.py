"""Samples of images at the points of a grid and within boxes, their gradients, and boxes that no
better one covers."""

import itertools

import torch
import torchvision  # noqa: F401, its ops
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
V = torch.ops.torchvision
for dtype in [torch.float64, torch.float32]:
    loose = {torch.float32: 2e-5, torch.float64: 1e-12}[dtype]
    kinds = {"rtol": loose, "atol": loose, "layout": False}
    x, image = rand((2, 3, 5, 7), dtype, 4), torch.tensor([[1], [0], [1], [0]], dtype=dtype)
    low = rand((4, 2), dtype, 5, -2, 4)
    # Also one of no size, one of negative size, and one outside.
    rois = torch.cat([image, low, low + torch.tensor([[5, 3], [0, 0], [9, -2], [30, 30]]).to(dtype)], 1)
    rois[3, 1:] += 20
    for ratio, aligned in itertools.product([2, 0], [False, True]):
        attrs = {"spatial_scale": 0.75, "pooled_height": 2, "pooled_width": 3,
                 "sampling_ratio": ratio, "aligned": aligned}
        given = (0.75, 2, 3, ratio, aligned)
        grad = rand((4, 3, 2, 3), dtype, 6)
        for of_x, of_rois in [(x, rois), (transposed(x), transposed(rois))]:
            f.case("roi_align", [of_x, of_rois], attrs, lambda x, r: V.roi_align(x, r, *given), **kinds)
        sizes = {"batch_size": 2, "channels": 3, "height": 5, "width": 7}
        f.case("_roi_align_backward", [grad, rois], {**attrs, **sizes},
               lambda g, r: V._roi_align_backward(g, r, *given[:3], *sizes.values(), *given[3:]), **kinds)
    attrs = {"spatial_scale": 1.0, "pooled_height": 1, "pooled_width": 1, "sampling_ratio": 1,
             "aligned": True}
    f.refuses("roi_align", [x, rois[:, :4]], attrs, lambda x, r: V.roi_align(x, r, 1.0, 1, 1, 1, True))
    low = rand((30, 2), dtype, 7, 0, 5)
    boxes = torch.cat([low, low + rand((30, 2), dtype, 8, 0, 4)], 1)
    for boxes in [boxes, transposed(boxes), boxes[:0]]:
        f.case("nms_mask", [boxes], {"iou_threshold": 0.3}, lambda b: torch.zeros(
            len(b), dtype=torch.bool).index_fill(0, V.nms(b, -torch.arange(len(b)).to(b), 0.3), True))
f.save()
