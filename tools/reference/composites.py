"""Generates the cases of composite ops with PyTorch: python tools/reference/composites.py.

Each case is a call in f64 with PyTorch's results, and the gradients that autograd gives for fixed
gradients of the results: element k has the gradient 1 + (k % 5) / 4. An operand that PyTorch does
not differentiate has no gradient.
"""

import functools
import json
import pathlib

import torch
import torchvision  # noqa: F401, `nms`

from cases import DTYPES

FILE = pathlib.Path(__file__).parents[2] / "tests/tensor/composites.json"
A = torch.ops.aten
REDUCTION = {"none": 0, "mean": 1, "sum": 2}
torch.manual_seed(1)
# `max_unpool2d` has no deterministic form; the cases name each index once.
torch.use_deterministic_algorithms(False)
found = []


def r(*shape):
    """Returns distinct elements between -2 and 2, none of them near 0 or another."""
    count = int(torch.tensor(shape).prod()) if shape else 1
    values = torch.linspace(-1.9, 1.9, count + 1, dtype=torch.float64)[:count] + 0.031
    values = (values * 4096).round() / 4096
    return values[torch.randperm(count)].reshape(shape)


def p(*shape):
    return r(*shape).abs() + 0.1


def i(*values):
    return torch.tensor(values)


def b(*values):
    return torch.tensor(values) != 0


def numbers(t):
    values = [str(v) if v != v or v in (float("inf"), -float("inf")) else v
              for v in t.detach().flatten().tolist()]
    values = [float(f"{v:.10g}") if isinstance(v, float) else v for v in values]
    return {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "values": values}


def written(value):
    if isinstance(value, torch.dtype):
        return {"dtype": DTYPES[value]}
    return {"float": repr(value)} if isinstance(value, float) else value


def case(op, fn, *inputs, absent=None, gradient=True, **attrs):
    """Records a call; `fn` takes the tensors, and the arguments by name. gradient: whether to record
    gradients, or the numbers of the tensors that have one.
    """
    of = range(len(inputs)) if gradient is True else gradient or ()
    leaves = [t.clone().requires_grad_(k in of and t.is_floating_point())
              for k, t in enumerate(inputs)]
    results = fn(*[t.clone() for t in leaves], **attrs)
    results = [results] if torch.is_tensor(results) else list(results)
    gradients = [None] * len(leaves)
    seeds = [(k, t, (1 + torch.arange(t.numel(), dtype=torch.float64) % 5 / 4).reshape(t.shape))
             for k, t in enumerate(results) if t.is_floating_point() and t.requires_grad]
    if seeds:
        own = [t for t in leaves if t.requires_grad]
        _, tensors, grads = zip(*seeds)
        made = iter(torch.autograd.grad(tensors, own, grads, allow_unused=True))
        gradients = [next(made) if t.requires_grad else None for t in leaves]
    if absent is not None:
        attrs["absent"] = absent
    found.append({
        "op": op,
        "inputs": [numbers(t) for t in inputs],
        "attrs": {name: written(value) for name, value in attrs.items()},
        "results": [numbers(t) for t in results],
        "differentiated": [k for k, *_ in seeds],
        "gradients": [None if g is None else numbers(g) for g in gradients],
    })


def same(op):
    """Returns PyTorch's op of this name, with the tensors before the arguments."""
    return lambda *tensors, **attrs: getattr(A, op)(*tensors, **attrs)


def loss(op, after=0):
    """As `same`; the reduction is a number to PyTorch, and the last tensors follow it."""
    def call(*tensors, reduction="mean", **attrs):
        end = len(tensors) - after
        return getattr(A, op)(*tensors[:end], *attrs.values(), REDUCTION[reduction], *tensors[end:])
    return call


# Arithmetic
for op in ["hypot", "ldexp", "logaddexp", "logaddexp2", "fmax", "fmin"]:
    case(op, same(op), r(2, 3), r(3))
case("logaddexp", same("logaddexp"), torch.tensor([float("inf"), -float("inf"), 0.0]).double(),
     torch.tensor([float("inf"), -float("inf"), float("nan")]).double(), gradient=False)
case("copysign", same("copysign"), r(4), r(4))
case("copysign", lambda x, other: A.copysign(x, other), r(4), other=-0.0)
case("xlogy", same("xlogy"), r(2, 3), p(3))
case("special_xlog1py", same("special_xlog1py"), r(2, 3), p(3))
case("heaviside", same("heaviside"), torch.tensor([-1.0, 0, 2]).double(), r(3), gradient=False)
# Pointwise functions
case("celu", same("celu"), r(6), alpha=0.5)
case("threshold", same("threshold"), r(6), threshold=0.5, value=7.0)
case("special_entr", same("special_entr"), p(5))
case("round_decimals", lambda x, decimals: A.round(x, decimals=decimals), r(6), decimals=1)
case("round_decimals", lambda x, decimals: A.round(x, decimals=decimals), r(6) * 100, decimals=-1)
case("angle", same("angle"), r(5), gradient=False)
case("mvlgamma", same("mvlgamma"), p(3) + 1, p=2)
case("glu", same("glu"), r(3, 4), dim=1)
case("glu_backward", same("glu_backward"), r(3, 2), r(3, 4), dim=1)
case("_prelu_kernel", same("_prelu_kernel"), r(2, 3), p(1, 3))
case("_prelu_kernel_backward", same("_prelu_kernel_backward"), r(2, 3), r(2, 3), p(1, 3))
case("hardtanh_backward", same("hardtanh_backward"), r(6), r(6), min_val=-1.0, max_val=0.5)
case("log_sigmoid_forward", lambda x: (A.log_sigmoid(x), torch.exp(-x.detach().abs())), r(5),
     gradient=False)
case("rrelu_with_noise_backward",
     lambda g, x, n, training, lower, upper: A.rrelu_with_noise_backward(
         g, x, n, lower, upper, training, False),
     r(5), r(5), p(5), training=True, lower=0.1, upper=0.3, gradient=False)
# Comparison
case("logical_xor", same("logical_xor"), i(0, 1, 2), i(0, 0, 1))
case("isin", same("isin"), i(1, 2, 3), i(3, 1))
case("isin", lambda x, test_element, invert: A.isin(x, test_element, invert=invert), i(1, 2, 3),
     test_element=2, invert=True)
case("isin", lambda x, element: A.isin(element, x), i(1, 2, 3), element=3)
# Reductions
case("var_mean", lambda x, dim, correction: A.var_mean(x, dim, correction=correction), r(3, 4),
     dim=[1], correction=0)
case("std_mean", lambda x, dim, keepdim: A.std_mean(x, dim, keepdim=keepdim), r(3, 4), dim=[0],
     keepdim=True)
case("aminmax", lambda x, dim: A.aminmax(x, dim=dim), r(3, 4), dim=1)
case("nansum", lambda x, dim: A.nansum(x, dim), torch.tensor([[1, float("nan")], [2, 3]]).double(),
     dim=[1], gradient=False)
case("trace", same("trace"), r(3, 4))
# Distances
case("dist", same("dist"), r(2, 3), r(3), p=3.0)
for order in [0.0, 1.0, 2.0, 3.0, float("inf")]:
    case("_cdist_forward", lambda x, y, p: torch.cdist(x, y, p), r(3, 4), r(2, 4),
         p=order if order < 9 else 1e300, gradient=order in (1.0, 2.0, 3.0))
x, y = r(3, 4), r(2, 4)
for order in [1.0, 3.0]:
    case("_cdist_backward", lambda g, x, y, d, p: A._cdist_backward(g, x, y, p, d), r(3, 2), x, y,
         torch.cdist(x, y, order), p=order, gradient=False)
case("_pdist_forward", lambda x, p: A._pdist_forward(x, p), x, p=2.0)
case("_pdist_backward", lambda g, x, d, p: A._pdist_backward(g, x, p, d), r(3), x,
     A._pdist_forward(x, 2.0), p=2.0, gradient=False)
# Products with a bias
case("addr", same("addr"), r(2, 3), r(2), r(3), beta=0.5, alpha=2.0)
case("addmv", same("addmv"), r(2), r(2, 3), r(3), beta=0.5, alpha=2.0)
case("addbmm", same("addbmm"), r(2, 3), r(4, 2, 5), r(4, 5, 3), beta=0.5)
case("_trilinear", lambda a, b, c, **k: A._trilinear(a, b, c, *k.values()), r(2, 4), r(3, 4, 5),
     r(2, 5), expand1=[1, 3], expand2=[0], expand3=[1, 2], sumdim=[2, 3])
# Linear algebra
spd = torch.eye(3).double() * 3 + r(3, 3) @ r(3, 3).T / 4
spd = (spd + spd.T) / 2
general = r(3, 3) + 2 * torch.eye(3).double()
case("_linalg_det", same("_linalg_det"), general)
case("_linalg_slogdet", same("_linalg_slogdet"), general)
case("_linalg_solve_ex", same("_linalg_solve_ex"), general, r(3, 2))
case("_linalg_solve_ex", same("_linalg_solve_ex"), general, r(3))
case("linalg_lu", same("linalg_lu"), general)
low = torch.linalg.cholesky(spd)
case("cholesky_solve", same("cholesky_solve"), r(3, 2), low, gradient=False)
case("cholesky_inverse", same("cholesky_inverse"), low, gradient=False)
case("triangular_solve", lambda x, a, **k: A.triangular_solve(x, a, *k.values()), r(3, 2), low,
     upper=False, transpose=True, gradient=False)
case("linalg_pinv", lambda a: torch.linalg.pinv(a), r(3, 2), gradient=False)
case("linalg_pinv", lambda a, hermitian: torch.linalg.pinv(a, hermitian=True), spd, hermitian=True,
     gradient=False)
values, vectors = torch.linalg.eigh(spd)
case("linalg_matrix_sqrth", lambda a: vectors @ torch.diag(values.sqrt()) @ vectors.T, spd,
     gradient=False)
u, s, v = torch.linalg.svd(general)
case("linalg_polar", lambda a: (u @ v, v.T @ torch.diag(s) @ v), general, gradient=False)
case("linalg_cross", same("linalg_cross"), r(2, 3), r(2, 3), dim=1)
# Norms
w, g = r(3, 4), p(3, 1)
case("_weight_norm_interface", same("_weight_norm_interface"), w, g, dim=0)
case("_weight_norm_interface_backward", same("_weight_norm_interface_backward"), r(3, 4), w, g,
     w.norm(dim=1, keepdim=True), dim=0, gradient=False)
case("renorm", lambda x, p, dim, maxnorm: A.renorm(x, p, dim, maxnorm), r(3, 4), p=2.0, dim=0,
     maxnorm=1.5)
case("embedding_renorm", lambda t, n, **k: A.embedding_renorm(t, n, *k.values()), r(3, 4),
     i(0, 2, 0), max_norm=1.5, norm_type=2.0, gradient=False)
# Losses
for reduction in ["none", "mean", "sum"]:
    case("soft_margin_loss", loss("soft_margin_loss"), r(2, 3), r(2, 3).sign(),
         reduction=reduction, gradient=[0])
case("soft_margin_loss_backward", loss("soft_margin_loss_backward"), r(), r(2, 3), r(2, 3).sign(),
     reduction="mean", gradient=[0, 1])
def margin(name, gradient):
    def call(*tensors, reduction, p=1.0, margin=1.0):
        *others, target = tensors[:2 + gradient]
        weight = tensors[2 + gradient] if len(tensors) > 2 + gradient else None
        return getattr(A, name)(*others, target, p, margin, weight, REDUCTION[reduction])
    return call
target = i(1, 0, 3)
for reduction, power in [("none", 1.0), ("mean", 2.0), ("sum", 1.0)]:
    case("multi_margin_loss", margin("multi_margin_loss", False), r(3, 4), target, p(4),
         reduction=reduction, p=power, gradient=[0])
case("multi_margin_loss", margin("multi_margin_loss", False), r(4), i(2).reshape(()),
     reduction="none", margin=0.5)
case("multi_margin_loss_backward", margin("multi_margin_loss_backward", True), r(3), r(3, 4),
     target, reduction="none", gradient=False)
case("multi_margin_loss_backward", margin("multi_margin_loss_backward", True), r(), r(3, 4),
     target, p(4), reduction="mean", p=2.0, gradient=False)
labels = torch.tensor([[1, 0, -1, 2], [3, -1, -1, 0]])
for reduction in ["none", "mean", "sum"]:
    case("multilabel_margin_loss_forward", loss("multilabel_margin_loss_forward"), r(2, 4), labels,
         reduction=reduction)
x = r(2, 4)
case("multilabel_margin_loss_backward", loss("multilabel_margin_loss_backward", 1), r(), x, labels,
     A.multilabel_margin_loss_forward(x, labels, 1)[1], reduction="mean", gradient=False)
# Softmax
case("_safe_softmax", lambda x, dim: A._safe_softmax(x, dim),
     torch.tensor([[1.0, 2], [-float("inf"), -float("inf")]]).double(), dim=1, gradient=False)
case("_safe_softmax", lambda x, dim: A._safe_softmax(x, dim), r(2, 3), dim=1)
# Indexing
case("index_copy", lambda x, n, s, dim: A.index_copy(x, dim, n, s), r(3, 4), i(2, 0), r(2, 4),
     dim=0)
case("index_fill", lambda x, n, dim, value: A.index_fill(x, dim, n, value), r(3, 4), i(2, 0),
     dim=1, value=0.5)
case("index_fill", lambda x, n, v, dim: A.index_fill(x, dim, n, v), r(3, 4), i(2, 0), r(),
     dim=-1)
case("index_fill_", lambda x, n, dim, value: A.index_fill_(x, dim, n, value), r(3, 4), i(1),
     dim=0, value=2.0, gradient=False)
case("repeat_interleave", lambda n, output_size: A.repeat_interleave(n, output_size=output_size),
     i(2, 0, 3, 0), output_size=5)
case("repeat_interleave", lambda n, output_size: A.repeat_interleave(n, output_size=output_size),
     i(0, 1).int(), output_size=1)
case("take", same("take"), r(2, 3), i(5, 0, 2, 0))
case("put", lambda x, n, s, accumulate: A.put(x, n, s, accumulate), r(2, 3), i(5, 0, 5), r(3),
     accumulate=True)
mask = torch.tensor([[True, False, True], [False, True, True]])
case("masked_scatter", same("masked_scatter"), r(2, 3), mask, r(5))
case("masked_scatter_backward", same("masked_scatter_backward"), r(2, 3), mask, sizes=[5],
     gradient=False)
index = torch.tensor([[0, 1, 0], [2, 0, 2]])
def scatter(reduce):
    return lambda x, n, s, dim, include_self=True: A.scatter_reduce(
        x, dim, n, s, reduce, include_self=include_self)
for name in ["sum", "mean"]:
    case(f"scatter_{name}", scatter(name), r(3, 3), index, r(2, 3), dim=0)
    case(f"scatter_{name}", scatter(name), r(3, 3), index, r(2, 3), dim=0, include_self=False)
for reduce in ["prod", "mean", "amax"]:
    case("index_reduce", lambda x, n, s, dim, reduce: A.index_reduce(x, dim, n, s, reduce),
         r(3, 4), i(2, 0), r(2, 4), dim=0, reduce=reduce, gradient=False)
case("_unsafe_masked_index", lambda x, m, n, fill: A._unsafe_masked_index(x, m, [n], fill), r(4),
     b(1, 0, 1), i(3, 9, 0), fill=7.0)
case("_unsafe_masked_index", lambda x, m, n, fill: A._unsafe_masked_index(x, m, [None, n], fill),
     r(2, 4), b(1, 0, 1), i(3, 9, 0), fill=7.0, absent=[0], gradient=False)
case("_unsafe_masked_index_put_accumulate",
     lambda x, m, v, n: A._unsafe_masked_index_put_accumulate(x, m, [n], v), r(4), b(1, 0, 1),
     r(3), i(3, 9, 0))
# Ranks
nan = torch.tensor([[3.0, 1, 2, 4], [5, float("nan"), 6, 7]]).double()
case("kthvalue", lambda x, k, dim: A.kthvalue(x, k, dim), r(3, 4), k=2, dim=1)
case("kthvalue", lambda x, k, keepdim: A.kthvalue(x, k, -1, keepdim), i(4, 2, 3), k=2, keepdim=True)
for op in ["median", "nanmedian"]:
    case(op, lambda x, dim: getattr(A, op)(x, dim), nan, dim=1, gradient=False)
    case(op, lambda x: getattr(A, op)(x), r(3, 4))
# Counts
case("bincount", lambda x, bins: A.bincount(x, minlength=bins), i(1, 1, 3), bins=4)
case("bincount", lambda x, w, bins: A.bincount(x, w, minlength=bins), i(1, 1, 3), r(3), bins=4,
     gradient=False)
# Moved elements
case("pixel_shuffle", lambda x, upscale_factor: A.pixel_shuffle(x, upscale_factor), r(1, 4, 2, 3),
     upscale_factor=2)
case("pixel_unshuffle", lambda x, downscale_factor: A.pixel_unshuffle(x, downscale_factor),
     r(1, 1, 4, 2), downscale_factor=2)
case("channel_shuffle", lambda x, groups: A.channel_shuffle(x, groups), r(1, 4, 2), groups=2)
for k in range(4):
    case("rot90", lambda x, k, dims: A.rot90(x, k, dims), r(2, 3), k=k, dims=[0, 1])
case("block_diag", lambda *x: A.block_diag(x), r(2, 2), r(3), r())
case("diag_embed", same("diag_embed"), r(2, 3), offset=1)
case("diag_embed", same("diag_embed"), r(2, 3), offset=-1, dim1=0, dim2=1)
case("unfold_backward", lambda g, input_sizes, dim, size, step: A.unfold_backward(
    g, input_sizes, dim, size, step), r(2, 3, 3), input_sizes=[2, 7], dim=1, size=3, step=2)
case("_chunk_cat", lambda x, y, dim, num_chunks: A._chunk_cat([x, y], dim, num_chunks), r(5, 2),
     r(3, 2), dim=0, num_chunks=2, gradient=False)
# Windows
case("im2col", lambda x, kernel_size, dilation, padding, stride: A.im2col(
    x, kernel_size, dilation, padding, stride), r(1, 2, 4, 5), kernel_size=[2, 3], dilation=[1, 1],
    padding=[1, 0], stride=[1, 2])
case("col2im", lambda x, output_size, kernel_size, dilation, padding, stride: A.col2im(
    x, output_size, kernel_size, dilation, padding, stride), r(1, 8, 4), output_size=[3, 3],
    kernel_size=[2, 2], dilation=[1, 1], padding=[0, 0], stride=[1, 1])
# Pools
x = r(1, 4, 4, 6)
case("avg_pool3d", same("avg_pool3d"), x, kernel_size=[2, 3, 2], stride=[2, 1, 2],
     padding=[1, 1, 0], count_include_pad=False)
def pooled(op, *names):
    def call(g, x, *rest, **attrs):
        given = [attrs[n] for n in names]
        return getattr(A, op)(g, x, *given, *rest)
    return call
case("avg_pool3d_backward", lambda g, x, kernel_size, stride: A.avg_pool3d_backward(
    g, x, kernel_size, stride, [0, 0, 0], False, True, None), r(1, 2, 2, 3), x,
    kernel_size=[2, 2, 2], stride=[2, 2, 2], gradient=False)
case("max_pool3d_with_indices", same("max_pool3d_with_indices"), x, kernel_size=[2, 2, 3],
     stride=[2, 1, 3])
values, indices = A.max_pool3d_with_indices(x, [2, 2, 3], [2, 1, 3])
case("max_pool3d_with_indices_backward", lambda g, x, n, kernel_size, stride:
     A.max_pool3d_with_indices_backward(g, x, kernel_size, stride, [0, 0, 0], [1, 1, 1], False, n),
     r(*values.shape), x, indices, kernel_size=[2, 2, 3], stride=[2, 1, 3], gradient=False)
for dims in [2, 3]:
    x = r(2, 5, 6) if dims == 2 else r(2, 4, 5, 4)
    to = [2, 4][:dims] if dims == 2 else [2, 3, 2]
    op = f"adaptive_max_pool{dims}d"
    case(op, lambda x, output_size: getattr(A, op)(x, output_size), x, output_size=to)
    values, indices = getattr(A, op)(x, to)
    case(f"{op}_backward", same(f"{op}_backward"), r(*values.shape), x, indices, gradient=False)
    samples = (p(1, 2, dims) / 3 * 4096).round() / 4096
    op = f"fractional_max_pool{dims}d"
    case(op, lambda x, s, kernel_size, output_size: getattr(A, op)(x, kernel_size, output_size, s),
         x[None], samples, kernel_size=[2] * dims, output_size=[2] * dims, gradient=False)
    values, indices = getattr(A, op)(x[None], [2] * dims, [2] * dims, samples)
    case(f"{op}_backward", lambda g, x, n, kernel_size, output_size:
         getattr(A, f"{op}_backward")(g, x, kernel_size, output_size, n), r(*values.shape), x[None],
         indices, kernel_size=[2] * dims, output_size=[2] * dims, gradient=False)
x = r(1, 2, 4, 4)
values, indices = A.max_pool2d_with_indices(x, [2, 2])
case("max_unpool2d", lambda x, n, output_size: A.max_unpool2d(x, n, output_size), values, indices,
     output_size=[4, 4])
x = r(1, 2, 4, 4, 2)
values, indices = A.max_pool3d_with_indices(x, [2, 2, 2])
case("max_unpool3d", lambda x, n, output_size: A.max_unpool3d(
    x, n, output_size, [2, 2, 2], [0, 0, 0]), values, indices, output_size=[4, 4, 2])
# Sums of elements at fixed positions
for dims in [1, 2, 3]:
    shape = [1, 1, 4, 3, 3][:2 + dims]
    padding = [1, 2, 0, 1, 1, 0][:2 * dims]
    for mode in ["reflection", "replication"]:
        op = f"{mode}_pad{dims}d"
        x = r(*shape)
        case(op, lambda x, padding: getattr(A, op)(x, padding), x, padding=padding)
        g = r(*getattr(A, op)(x, padding).shape)
        case(f"{op}_backward", lambda g, x, padding: getattr(A, f"{op}_backward")(g, x, padding),
             g, x, padding=padding, gradient=False)
x = r(2, 4, 5, 3)
case("_adaptive_avg_pool3d", lambda x, output_size: A._adaptive_avg_pool3d(x, output_size), x,
     output_size=[2, 3, 2])
case("_adaptive_avg_pool3d_backward", same("_adaptive_avg_pool3d_backward"), r(2, 2, 3, 2), x,
     gradient=False)
for op, dims, corners in [
        ("upsample_nearest1d", 1, None), ("upsample_nearest2d", 2, None),
        ("upsample_nearest3d", 3, None), ("_upsample_nearest_exact1d", 1, None),
        ("_upsample_nearest_exact2d", 2, None), ("_upsample_nearest_exact3d", 3, None),
        ("upsample_linear1d", 1, False), ("upsample_bilinear2d", 2, True),
        ("upsample_trilinear3d", 3, False), ("upsample_bicubic2d", 2, False),
        ("_upsample_bilinear2d_aa", 2, False), ("_upsample_bicubic2d_aa", 2, False)]:
    shape, to = [1, 1, 3, 4, 2][:2 + dims], [5, 3, 3][:dims]
    extra = {} if corners is None else {"align_corners": corners}
    case(op, lambda x, output_size, **k: getattr(A, op)(x, output_size, *k.values()), r(*shape),
         output_size=to, **extra)
    case(f"{op}_backward", lambda g, output_size, input_size, **k: getattr(A, f"{op}_backward")(
        g, output_size, input_size, *k.values()), r(1, 1, *to), output_size=to, input_size=shape,
        gradient=False, **extra)
# Creation
case("linspace", lambda **k: torch.linspace(**k), start=1.0, end=2.5, steps=7, dtype=torch.float64)
case("linspace", lambda s, **k: torch.linspace(s, **k), r(), end=2.5, steps=4, dtype=torch.float64,
     gradient=False)
case("logspace", lambda **k: torch.logspace(**k), start=0.0, end=2.0, steps=5, base=2.0,
     dtype=torch.float64)
case("eye", lambda **k: torch.eye(**k), n=2, m=3, dtype=torch.float64)
case("tril_indices", lambda **k: torch.tril_indices(**k), row=3, col=3, offset=-1)
case("triu_indices", lambda **k: torch.triu_indices(**k), row=2, col=3)
# Tables
table, rows, starts = r(5, 3), i(0, 2, 4, 2), i(0, 1)
for mode in [0, 1]:
    case("_embedding_bag", lambda t, n, o, mode: A._embedding_bag(t, n, o, False, mode)[:1], table,
         rows, starts, mode=mode)
case("_embedding_bag", lambda t, n, o, w: A._embedding_bag(t, n, o, False, 0, False, w)[:1], table,
     rows, starts, p(4))
bags = i(0, 1, 1, 1)
sizes = i(1, 3)
case("_embedding_bag_backward", lambda g, n, o, bag, size, most, num_weights, mode:
     A._embedding_bag_dense_backward(g, n, bag, size, most, num_weights, False, mode, None), r(2, 3),
     rows, starts, bags, sizes, i(0), num_weights=5, mode=1, gradient=False)
case("_embedding_bag_dense_backward", lambda g, n, bag, size, most, num_weights, mode:
     A._embedding_bag_dense_backward(g, n, bag, size, most, num_weights, False, mode, None), r(2, 3),
     rows, bags, sizes, i(0), num_weights=5, mode=0, gradient=False)
case("_embedding_bag_per_sample_weights_backward", lambda g, t, n, o, bag, mode:
     A._embedding_bag_per_sample_weights_backward(g, t, n, o, bag, mode), r(2, 3), table, rows,
     starts, bags, mode=0, gradient=False)
# Layers
def lstm(x, wi, wh, h, c, bi, bh, reverse=False):
    if reverse:
        x = x.flip(0)
    out, h, c = A.lstm.input(x, [h[None], c[None]], [wi, wh, bi, bh], True, 1, 0.0, False, False,
                             False)
    return (out.flip(0) if reverse else out), h[0], c[0]
parts = [r(3, 2, 4), r(12, 4) / 2, r(12, 3) / 2, r(2, 3), r(2, 3), r(12) / 2, r(12) / 3]
for reverse in [False, True]:
    case("lstm_layer", lstm, *parts, reverse=reverse)
case("_pack_padded_sequence", lambda x, n, rows, times: A._pack_padded_sequence(x, n, False),
     r(3, 2, 2), i(3, 2), rows=5, times=3)
width = 4
layer = [r(2, 3, width), r(12, width) / 2, r(12) / 2, r(width, width) / 2, r(width) / 2, p(width),
         r(width), p(width), r(width), r(6, width) / 2, r(6), r(width, 6) / 2, r(width)]
for first, gelu in [(False, False), (True, True)]:
    case("_transformer_encoder_layer_fwd",
         lambda x, *w, num_heads, norm_first, use_gelu, eps: A._transformer_encoder_layer_fwd(
             x, width, num_heads, *w[:4], use_gelu, norm_first, eps, *w[4:]), *layer, num_heads=2,
         norm_first=first, use_gelu=gelu, eps=1e-5, gradient=False)
# Steps of optimizers
def stepped(op, names):
    def call(*tensors, lr, **attrs):
        tensors = list(tensors)
        lists = {n: [tensors[k]] if k is not None else [] for n, k in names.items()}
        getattr(A, op)(*lists.values(), lr=lr, **attrs)
        return tensors[0]
    return call
adam = {"self": 0, "grads": 1, "exp_avgs": 2, "exp_avg_sqs": 3, "max": None, "steps": 4}
for op, name in [("_fused_adam_", "adam_step_"), ("_fused_adamw_", "adamw_step_")]:
    case(name, stepped(op, adam), r(4), r(4), r(4), p(4), torch.tensor(3.0), lr=0.1, beta1=0.9,
         beta2=0.99, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False, gradient=False)
case("sgd_step_", stepped("_fused_sgd_", {"self": 0, "grads": 1, "buffers": 2}), r(4), r(4), r(4),
     lr=0.1, momentum=0.9, weight_decay=0.01, dampening=0.2, nesterov=True, maximize=False,
     is_first_step=False, gradient=False)
case("adagrad_step_", stepped("_fused_adagrad_", {"self": 0, "grads": 1, "sums": 2, "steps": 3}),
     r(4), r(4), p(4), torch.tensor(3.0), lr=0.1, lr_decay=0.01, weight_decay=0.1, eps=1e-8,
     maximize=False, gradient=False)
# Histograms: elements at edges, at the last one, and outside
x = torch.tensor([0, 0.5, 1, 1.25, 2, 2.5, -1, float("nan")]).double()
for options in [{}, {"density": True}]:
    case("histogram", lambda x, bins, range, **k: A.histogram(x, bins, range=range, **k), x, bins=4,
         range=[0, 2], gradient=False, **options)
    case("histogram", lambda x, bins, w, **k: A.histogram(x, bins, weight=w, **k), x,
         torch.tensor([-1, 0, 0.5, 2]).double(), p(8), gradient=False, **options)
case("histogram", lambda x, w, bins: A.histogram(x, bins, weight=w), r(3, 4), p(3, 4), bins=5,
     gradient=False)
case("histogram", lambda x, bins: A.histogram(x, bins), torch.ones(3).double(), bins=2,
     gradient=False)
case("histogram", lambda x, bins: A.histogram(x, bins), r(0), bins=2, gradient=False)
edges = [torch.tensor([-1, 0, 1.5]).double(), torch.tensor([-2, 0, 0.5, 2]).double()]
for weight in [[], [p(9)]]:
    binned = lambda x, *w, bins, **k: A._histogramdd_from_bin_cts(
        x, bins, weight=w[0] if w else None, **k)
    case("_histogramdd_from_bin_cts", binned, r(9, 2), *weight, bins=[2, 3], gradient=False)
    case("_histogramdd_from_bin_cts", binned, r(9, 2), *weight, bins=[2, 3], range=[-1, 1, 0, 2],
         density=True, gradient=False)
    case("_histogramdd_from_bin_tensors", lambda x, a, b, *w: A._histogramdd_from_bin_tensors(
        x, [a, b], weight=w[0] if w else None), r(9, 2), *edges, *weight, gradient=False)
case("_histogramdd_bin_edges", lambda x, bins: A._histogramdd_bin_edges(x, bins), r(9, 2),
     bins=[2, 3], gradient=False)
# Windows, grids, maxima of bags
for op, given in [("hann_window", {}), ("hamming_window", {"alpha": 0.6, "beta": 0.3}),
                  ("blackman_window", {}), ("bartlett_window", {}), ("kaiser_window", {"beta": 3.0})]:
    for periodic in (True, False):
        case(op, lambda window_length, periodic, dtype, op=op, **k: getattr(torch, op)(
            window_length, periodic, *k.values(), dtype=dtype), window_length=7, periodic=periodic,
             **given, dtype=torch.float64)
for size in ([2, 3, 3, 4], [1, 1, 2, 1, 3]):
    dims = len(size) - 2
    case("affine_grid_generator", lambda t, size, align_corners: A.affine_grid_generator(
        t, size, align_corners), r(size[0], dims, dims + 1), size=size, align_corners=dims == 2)
case("_embedding_bag", lambda t, n, o, mode: A._embedding_bag(t, n, o, False, mode)[:1], table, rows,
     starts, mode=2)
case("_embedding_bag_dense_backward", lambda g, n, bag, size, most, num_weights, mode:
     A._embedding_bag_dense_backward(g, n, bag, size, most, num_weights, False, mode, None), r(2, 3),
     rows, bags, sizes, i(0, 2, 0, 4, 4, 2).reshape(2, 3), num_weights=5, mode=2, gradient=False)

# The scale of losses
number = lambda value, dtype=torch.float32: torch.tensor(value, dtype=dtype)
INF = float("inf")
for wrong in (2.0, INF, -INF, float("nan")):
    case("unscale_", lambda found, factor, *all: A._amp_foreach_non_finite_check_and_unscale_(
        list(all), found, factor) or found, number(0.0), number(0.25), torch.tensor([1.0, 3.0]),
         torch.tensor([[wrong]]), gradient=False)
for wrong, steps, scale in ((0.0, 1, 8.0), (0.0, 2, 8.0), (1.0, 2, 8.0), (0.0, 2, 3e38)):
    case("_amp_update_scale_",
         lambda scale, steps, found, scale_growth_factor, scale_backoff_factor, growth_interval:
         A._amp_update_scale_(scale, steps, found, scale_growth_factor, scale_backoff_factor,
                              growth_interval), number(scale), number(steps, torch.int32),
         number(wrong), scale_growth_factor=2.0, scale_backoff_factor=0.25, growth_interval=3,
         gradient=False)
for wrong in (2.0, INF, float("nan")):
    case("found_inf", lambda *all: number(float(any(not torch.isfinite(x).all() for x in all))),
         torch.tensor([1.0, 3.0]), torch.tensor([[wrong]]).double(), torch.ones(0), i(1, 2),
         gradient=False)
# Attention as GPUs compute it, with values of another width, shared heads, and a mask's gradient
def attention(q, k, v, bias=None, is_causal=False, scale=None):
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if bias is not None:
        scores = scores + bias
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -float("inf"))
    out = A._safe_softmax(scores, -1) @ v
    sums = scores.detach().logsumexp(-1)
    return out, sums.masked_fill(sums == -float("inf"), 0)
FUSED = "_scaled_dot_product_fused_attention_overrideable"
q, k, v, wide = r(2, 4, 3, 5), r(2, 2, 4, 5), r(2, 2, 4, 5), r(2, 2, 4, 3)
bias = r(1, 4, 3, 4)
bias[0, 1, 2] = -float("inf")
for given, attrs in [((q, k, v), {"is_causal": True}), ((q, k, v, bias), {"scale": 0.3}),
                     ((q, k, wide, bias), {}), ((q, k, wide), {"is_causal": True, "scale": 0.3})]:
    # The kernel that computes by blocks has no gradient of the mask.
    is_whole = len(given) == 3 or given[2] is wide
    case(FUSED, attention, *given, gradient=True if is_whole else (0, 1, 2), **attrs)
    def gradients(g, *given, output_mask, with_results=False, **attrs):
        given = given[:-2] if with_results else given
        leaves = [t.detach().requires_grad_() for t in given]
        return torch.autograd.grad(attention(*leaves, **attrs)[0], leaves, g)
    out, sums = attention(*given, **attrs)
    mask = [1, 1, 1, len(given) - 3]
    case(FUSED + "_backward", gradients, r(*out.shape), *given, output_mask=mask, gradient=False,
         **attrs)
    if len(given) == 3:
        case(FUSED + "_backward", functools.partial(gradients, with_results=True), r(*out.shape),
             *given, out, sums, output_mask=mask, absent=[4], gradient=False, **attrs)
# Recurrent layers of several kinds, directions and lengths
NETWORKS = {0: A.rnn_relu, 1: A.rnn_tanh, 2: A.lstm, 3: A.gru}
def network(x, *tensors, mode, num_layers=1, batch_first=False, bidirectional=False,
            has_biases=True, batch_sizes=None):
    states = list(tensors[:2]) if mode == 2 else tensors[0]
    weights = tensors[2 if mode == 2 else 1:]
    fixed = (has_biases, num_layers, 0.0, False, bidirectional)
    if batch_sizes:
        return NETWORKS[mode].data(x, torch.tensor(batch_sizes), states, weights, *fixed)
    return NETWORKS[mode].input(x, states, weights, *fixed, batch_first)
def network_backward(*tensors, grads=(1, 1, 1), **attrs):
    count = sum(grads)
    leaves = [t.detach().requires_grad_() for t in tensors[:-count]]
    made = [t for t, is_given in zip(network(*leaves, **attrs), grads) if is_given]
    return torch.autograd.grad(made, leaves, tensors[-count:])
for mode, attrs in [(0, {}), (1, {"has_biases": False, "batch_first": True}),
                    (2, {"num_layers": 2, "bidirectional": True}),
                    (2, {"batch_sizes": [3, 3, 2, 1], "bidirectional": True}),
                    (3, {"num_layers": 2}), (3, {"batch_sizes": [2, 1], "bidirectional": True})]:
    sizes, layers = attrs.get("batch_sizes"), attrs.get("num_layers", 1)
    directions, parts = 1 + attrs.get("bidirectional", False), [1, 1, 4, 3][mode]
    x = r(sum(sizes), 3) if sizes else r(3, 2, 3)
    count = sizes[0] if sizes else x.shape[0 if attrs.get("batch_first") else 1]
    states = [r(layers * directions, count, 2) for _ in range(2 if mode == 2 else 1)]
    weights = []
    for at in range(layers * directions):
        features = 3 if at < directions else 2 * directions
        weights += [r(parts * 2, features) / 2, r(parts * 2, 2) / 2]
        if attrs.get("has_biases", True):
            weights += [r(parts * 2) / 2, r(parts * 2) / 3]
    given = [x, *states, *weights]
    case("_cudnn_rnn", network, *given, mode=mode, **attrs)
    grads = [r(*t.shape) for t in network(*given, mode=mode, **attrs)]
    flags = [1] * len(grads)
    if mode == 0:
        grads, flags = grads[:1], [1, 0]
    case("_cudnn_rnn_backward", network_backward, *given, *grads, mode=mode, grads=flags,
         gradient=False, **attrs)
# Cells of one step, whose last result is what their gradients read
def lstm_cell(own, again, c, *biases):
    i, f, g, o = (own + again + sum(biases)).chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * c + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], -1)
def gru_cell(own, again, h, b=None, c=None):
    own, again = (own, again) if b is None else (own + b, again + c)
    (i, z, n), (j, y, m) = own.chunk(3, -1), again.chunk(3, -1)
    i, z = (i + j).sigmoid(), (z + y).sigmoid()
    n = (n + i * m).tanh()
    return n + z * (h - n), torch.cat([i, z, n, h, m], -1)
own, again, c, biases = r(2, 8), r(2, 8), r(2, 2), [r(8), r(8)]
for biases in [[], biases]:
    case("_thnn_fused_lstm_cell", lstm_cell, own, again, c, *biases)
    after, kept = lstm_cell(own, again, c, *biases)[1:]
    def gradients(g, h, c, after, kept, has_bias):
        made = A._thnn_differentiable_lstm_cell_backward(
            g, h, own, again, *(biases or (None, None)), c, after)
        return (made[0], made[2], made[3]) if has_bias else (made[0], made[2])
    case("_thnn_fused_lstm_cell_backward_impl", gradients, r(2, 2), r(2, 2), c, after, kept,
         has_bias=bool(biases), gradient=False)
own, again, h, biases = r(2, 6), r(2, 6), r(2, 2), [r(6), r(6)]
for biases in [[], biases]:
    case("_thnn_fused_gru_cell", gru_cell, own, again, h, *biases)
    kept = gru_cell(own, again, h, *biases)[1]
    def gradients(g, kept, has_bias):
        made = A._thnn_differentiable_gru_cell_backward(
            g, own, again, h, *(biases or (None, None)))
        return made if has_bias else made[:3]
    case("_thnn_fused_gru_cell_backward", gradients, r(2, 2), kept, has_bias=bool(biases),
         gradient=False)
# Steps with scaled gradients, and one that is skipped
for is_found in [0.0, 1.0]:
    def guarded(*tensors, **attrs):
        lists = [[t] for t in tensors[:4]] + [[], [tensors[4]]]
        A._fused_adam_(*lists, grad_scale=tensors[5], found_inf=tensors[6], **attrs)
        return tensors[0]
    case("adam_step_", guarded, r(4), r(4), r(4), p(4), torch.tensor(3.0), torch.tensor(2.0),
         torch.tensor(is_found), absent=[5, 6], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.01,
         eps=1e-8, amsgrad=False, maximize=False, gradient=False)

# Bytes, of which each element counts
bytes_ = [torch.randint(0, 256, shape, dtype=torch.uint8) for shape in [(2, 3, 4, 5), (1, 5, 7, 3)]]
for op in ["upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
           "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"]:
    for x, to, corners in [(bytes_[0], [6, 3], False), (bytes_[1], [3, 8], True)]:
        case(op, lambda x, output_size, **k: getattr(A, op)(x, output_size, *k.values()), x,
             output_size=to, align_corners=corners)
case("upsample_bilinear2d", lambda x, output_size, scales_h, scales_w: A.upsample_bilinear2d(
    x, output_size, False, scales_h, scales_w), bytes_[0], output_size=[4, 7], scales_h=1.1,
    scales_w=1.5)
case("_int_mm", same("_int_mm"), *[torch.randint(-128, 128, shape, dtype=torch.int8)
                                   for shape in [(17, 8), (8, 16)]])
corners = torch.rand(40, 2).double() * 6
boxes = torch.cat([corners, corners + torch.rand(40, 2) * 4], 1)
for threshold in [0.2, 0.5]:
    case("nms", lambda b, s, iou_threshold: torch.ops.torchvision.nms(b, s, iou_threshold), boxes,
         (torch.rand(40) * 8).round().double(), iou_threshold=threshold, gradient=False)
# A first step of momentum that is skipped, and one that is not
for is_found in [0.0, 1.0]:
    case("sgd_step_", lambda w, g, b, f, **k: (A._fused_sgd_(
        [w], [g], [b], found_inf=f, **k), w)[1], r(4), r(4), r(4), torch.tensor(is_found),
        absent=[3, 4], lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=False,
        maximize=False, is_first_step=True, gradient=False)

case("_upsample_lanczos2d_aa", lambda x, output_size: A._upsample_lanczos2d_aa(x, output_size, False),
     r(1, 1, 5, 4), output_size=[2, 6])
case("_upsample_lanczos2d_aa_backward", lambda g, output_size, input_size:
     A._upsample_lanczos2d_aa_backward(g, output_size, input_size, False), r(1, 1, 2, 6),
     output_size=[2, 6], input_size=[1, 1, 5, 4], gradient=False)

lines = ",\n".join(json.dumps(case) for case in found)
FILE.write_text(f"[\n{lines}\n]\n")
