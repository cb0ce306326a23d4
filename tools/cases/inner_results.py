"""Results of ops that gradients read and programs do not see, over dtypes and layouts: packed factors,
pivots, statistics, log-sum-exps and indices; results that PyTorch stores conjugated; ops of
recordings: bytes, boxes, truth of all elements, a first step of momentum under a scaler."""

import torch
import torchvision  # noqa: F401, its ops

A = torch.ops.aten
V = torch.ops.torchvision


def layouts(t):
    """Returns a tensor row-major, column-major, and with gaps."""
    gaps = t.repeat_interleave(2, -1)[..., ::2]
    return {"row": t, "column": t.mT.contiguous().mT, "gaps": gaps}


# The ops, with the dtypes whose results they have.
REAL, ALL = ("f32",), ("f32", "c64")
DTYPES = {"f32": torch.float32, "c64": torch.complex64}
MATRICES = {
    "det": (ALL, lambda a: A._linalg_det(a)),
    "slogdet": (ALL, lambda a: A._linalg_slogdet(a)),
    "solve": (ALL, lambda a: A._linalg_solve_ex(a, a[..., :2])),
    "lu": (ALL, lambda a: A.linalg_lu_factor_ex(a)),
    "qr": (ALL, lambda a: A.linalg_qr(a)),
    "layer_norm": (REAL, lambda a: A.native_layer_norm(a, [4], a[0, 0], a[0, 1], 1e-5)),
    "group_norm": (REAL, lambda a: A.native_group_norm(a, None, None, 2, 4, 4, 2, 1e-5)),
    "batch_norm": (REAL, lambda a: A.native_batch_norm(a, None, None, None, None, True, 0.1, 1e-5)),
    "attention": (REAL, lambda a: A._scaled_dot_product_flash_attention_for_cpu(
        *[a[None].contiguous()] * 3)),
    "max_pool": (REAL, lambda a: A.max_pool2d_with_indices(a[None], [2, 2])),
    "adaptive": (REAL, lambda a: A.adaptive_max_pool2d(a[None], [3, 2])),
    "nll": (REAL, lambda a: A.nll_loss_forward(a[0], torch.tensor([0, 3, 1, 2]), a[0, 0], 1, -100)),
    "log_sigmoid": (REAL, lambda a: A.log_sigmoid_forward(a)[:1]),
    "cummax": (REAL, lambda a: A.cummax(a, 1)),
    "var_mean": (ALL, lambda a: A.var_mean(a, [1])),
}


def prepare():
    g = torch.Generator().manual_seed(41)
    inputs = {}
    for name, dtype in DTYPES.items():
        for layout, t in layouts(torch.randn(2, 4, 4, dtype=dtype, generator=g)).items():
            inputs[f"{name}.{layout}"] = t
    factors, pivots = torch.linalg.lu_factor(torch.randn(3, 3, dtype=torch.complex64, generator=g))
    inputs["factors"], inputs["pivots"] = factors, pivots
    inputs["b"] = b = torch.randn(4, 3, dtype=torch.complex64, generator=g)
    inputs["bytes"] = image = torch.randint(0, 256, (1, 3, 5, 6), dtype=torch.uint8, generator=g)
    low = torch.rand(8, 2, generator=g) * 4
    inputs["boxes"] = boxes = torch.cat([low, low + torch.rand(8, 2, generator=g) * 3], 1)
    inputs["scores"] = scores = torch.rand(8, generator=g)
    inputs["map"] = image_map = torch.rand(1, 2, 6, 6, generator=g)
    inputs["i8"] = whole = torch.randint(-128, 128, (17, 16), dtype=torch.int8, generator=g)
    weight = torch.randn(3, generator=g)
    inputs["weight"] = weight
    found = {f"found{k}": torch.tensor(float(k)) for k in range(2)}
    inputs.update(found)

    def run():
        out = {}
        for op, (dtypes, fn) in MATRICES.items():
            for dtype in dtypes:
                for layout in ("row", "column", "gaps"):
                    for k, result in enumerate(fn(inputs[f"{dtype}.{layout}"])):
                        out[f"{op}.{dtype}.{layout}.{k}"] = result
        for adjoint in (False, True):
            leaf = factors.detach().requires_grad_()
            y = torch.linalg.lu_solve(leaf, pivots, b, left=False, adjoint=adjoint)
            y.abs().sum().backward()
            out[f"lu_solve.{adjoint}"] = y.detach().resolve_conj() * 1
            out[f"lu_solve.{adjoint}.grad"] = leaf.grad
        target = torch.zeros(4, 3, dtype=torch.complex64)
        torch.linalg.lu_solve(factors, pivots, b, left=False, out=target)
        out["lu_solve.out"] = target * 2
        c = b[0].conj()
        out["dot"], out["vdot"] = torch.dot(c, b[1].conj()) * 1j, torch.vdot(b[1], c) * 1j
        out["fftn"] = torch.fft.ifftn(torch.fft.fftn(b[0, 0], norm="ortho"))
        for mode in ("bilinear", "bicubic"):
            for antialias in (False, True):
                out[f"{mode}.{antialias}"] = torch.nn.functional.interpolate(
                    image, (7, 4), mode=mode, antialias=antialias)
        out["nms"] = V.nms(boxes, scores, 0.2)
        rois = torch.cat([torch.zeros(8, 1), boxes], 1)
        leaf = image_map.detach().requires_grad_()
        aligned = V.roi_align(leaf, rois, 0.5, 2, 2, -1, True)
        aligned.square().sum().backward()
        out["aligned"], out["aligned.grad"] = aligned.detach(), leaf.grad
        out["int_mm"] = torch._int_mm(whole, whole.T[:, :16].contiguous())
        out["truth"] = torch.stack([A._is_all_true(boxes > -1), A._is_any_true(boxes > 99)])
        for name, skipped in found.items():
            w, buffer = weight.clone(), torch.empty_like(weight)
            A._fused_sgd_([w], [weight * 2], [buffer], lr=0.1, momentum=0.9, weight_decay=0.0,
                          dampening=0.0, nesterov=False, maximize=False, is_first_step=True,
                          found_inf=skipped)
            out[f"sgd.{name}"] = w
        return out

    return run, inputs
