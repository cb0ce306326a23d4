"""Padding by reflected and replicated elements, upsampling, pools over three dimensions, and samples
of a grid, with their gradients."""

import torch
from torch.nn import functional as F


def prepare():
    g = torch.Generator().manual_seed(23)
    x = torch.randn(2, 3, 5, 6, generator=g).requires_grad_()
    volume = torch.randn(1, 2, 5, 6, 7, generator=g).requires_grad_()
    # Without a gradient of its own, which PyTorch's kernel makes nevertheless.
    grid = 2.4 * torch.rand(2, 4, 3, 2, generator=g) - 1.2

    def run():
        out = {"reflected": F.pad(x, (2, 1, 0, 3), "reflect")}
        out["replicated"] = F.pad(x, (2, 1, -1, 7), "replicate")
        for mode in ["nearest", "nearest-exact", "bilinear", "bicubic"]:
            out[f"to.{mode}"] = F.interpolate(x, (9, 4), mode=mode)
        out["corners"] = F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True)
        out["line"] = F.interpolate(x[0], 11, mode="linear")
        out["volume"] = F.interpolate(volume, scale_factor=(2, 1.5, 0.6), mode="trilinear")
        out["means"] = F.avg_pool3d(volume, 3, 2, 1, ceil_mode=True, count_include_pad=False)
        out["maxima"], out["where"] = F.max_pool3d(
            volume, (2, 3, 2), 2, (1, 1, 0), return_indices=True
        )
        out["adaptive"] = F.adaptive_avg_pool3d(volume, (2, 4, 3))
        out["greatest"], out["at"] = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        out["sampled"] = F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
        total = sum((v * v).sum() for v in out.values() if v.requires_grad)
        total.backward()
        out["grad.x"], out["grad.volume"] = x.grad, volume.grad
        return out

    return run, {"x": x, "volume": volume, "grid": grid}
