"""Generates reference gradients with PyTorch: python tools/reference/gradients.py.

Goes through the cases of the families, with f64 in place of other floats and c128 in place of c64,
and records the gradients that autograd gives for random gradients of the results. A few small cases
are taken of each op and set of arguments. The file has the names of the ops that PyTorch does not
differentiate, too.

A factorization leaves the signs, or complex phases, of its vectors open. For these results the file
has random weights: the gradient of a result is the weights times the result, that of the loss
sum(weights |result|^2) / 2, which does not depend on signs.
"""

import json
import pathlib
import runpy
import struct

import torch

import cases
from cases import DTYPES, attr, rand

FILE = pathlib.Path(__file__).parents[2] / "tests/tensor/gradients.safetensors"
MOST_ELEMENTS = 130
MOST_CASES = 8
# Results whose signs or phases are open.
OPEN = {"_linalg_svd": [0, 2], "_linalg_eigh": [1], "linalg_eig": [1]}
# Operands for which PyTorch has no derivative, although it has one for others.
CONSTANT = {
    "igamma": [0], "igammac": [0], "special_zeta": [0], "nll_loss_backward": [3, 4],
    "nll_loss2d_backward": [3, 4], "fractional_max_pool": [1], "roi_align": [1],
}

data = bytearray()
found = []
count = {}
seen = set()
ops = set()


def put(tensor):
    content = bytes(tensor.detach().contiguous().clone().untyped_storage().tolist())
    data.extend(bytes(-len(data) % 8))
    data.extend(content)
    return [len(data) - len(content), len(content)]


def tensor(t):
    return {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data": put(t)}


def wide(t):
    return t.to(torch.complex128) if t.is_complex() else t.double() if t.is_floating_point() else t


def is_inexact(t):
    return t.is_floating_point() or t.is_complex()


def record(op, inputs, attrs, fn):
    ops.add(op)
    attrs = {k: attr(v) for k, v in attrs.items() if v is not None}
    if any(isinstance(v, dict) and "dtype" in v for v in attrs.values()) and op != "cast":
        return
    key = json.dumps([op, attrs, [list(t.shape) for t in inputs]], sort_keys=True)
    is_complex = any(t.is_complex() for t in inputs)
    key += str(is_complex)
    kinds = (op, tuple(sorted(attrs)), len(inputs), tuple(t.dim() for t in inputs), is_complex)
    if key in seen or sum(t.numel() for t in inputs) > MOST_ELEMENTS:
        return
    most = MOST_CASES if not is_complex else 3
    if count.get((op, is_complex), 0) >= most and (kinds in seen or is_complex):
        return
    # PyTorch notes no call there, and passes the gradient of the result to the old value.
    if op in ("logical_and_", "logical_or_", "logical_not_"):
        return
    # PyTorch divides by the elements of the first tensor, before it is broadcast.
    if op in ("mse_loss", "huber_loss", "smooth_l1_loss") and inputs[0].shape != inputs[1].shape:
        return
    # Its results for NaN depend on whether the element is computed in a vector.
    if op in ("softshrink", "hardshrink", "logit", "logit_") and inputs[0].isnan().any():
        return
    # PyTorch leaves open which of several equal elements is the mode.
    if op == "mode" and inputs[0].unique().numel() < inputs[0].numel():
        return
    # PyTorch's gradient of the gradient leaves the scale out.
    if op == "embedding_dense_backward" and attrs.get("scale_grad_by_freq"):
        return
    # PyTorch differentiates it for sources of the index's shape alone.
    if op == "scatter_reduce" and inputs[1].shape != inputs[2].shape:
        return
    # The family's function leaves the row out, on which results do not depend.
    if op == "embedding" and attrs.get("padding_idx", -1) != -1:
        return
    given = [t.detach().clone().contiguous() for t in inputs]
    given = [wide(t) for t in given]
    constant = CONSTANT.get(op, [])
    leaves = [t.clone().requires_grad_() if is_inexact(t) and k not in constant else t
              for k, t in enumerate(given)]
    if not any(t.requires_grad for t in leaves):
        return
    # In-place functions must not change leaves.
    operands = [t * 1 if t.requires_grad and op[-1:] == "_" or op == "fill" and k == 0 else t
                for k, t in enumerate(leaves)]
    try:
        result = fn(*operands)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        return
    results = [] if result is None else \
        [result] if isinstance(result, torch.Tensor) else list(result)
    g = torch.Generator().manual_seed(len(found))
    outputs, seeds = [], []
    for k, r in enumerate(results):
        # The statistics of a normalisation have no gradient here.
        if op.startswith("native_") and op.endswith("_norm") and k > 0:
            continue
        if r.dtype not in (torch.float64, torch.complex128) and op != "cast":
            continue
        if is_inexact(r) and r.requires_grad and r.grad_fn is not None:
            is_open = k in OPEN.get(op, [])
            dtype = torch.complex128 if r.is_complex() and not is_open else torch.float64
            seed = torch.rand(r.shape, generator=g, dtype=dtype) * 2 - 1
            outputs.append((k, r))
            seeds.append(seed if is_open else seed.to(r.dtype))
    if not outputs:
        return
    wanted = [t for t in leaves if t.requires_grad]
    try:
        of_results = [s * r.detach() if k in OPEN.get(op, []) else s
                      for (k, r), s in zip(outputs, seeds)]
        gradients = torch.autograd.grad([r for _, r in outputs], wanted, of_results,
                                        allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return
    if all(g is None for g in gradients):
        return
    # Where results are not finite, differences of them mean nothing.
    if not all(torch.isfinite(t).all() for t in gradients if t is not None):
        return
    gradients = iter(gradients)
    seen.add(key)
    seen.add(kinds)
    count[op, is_complex] = count.get((op, is_complex), 0) + 1
    found.append({
        "op": op, "attrs": attrs, "inputs": [tensor(t) for t in given],
        "seeds": {str(k): tensor(s) | ({"open": True} if k in OPEN.get(op, []) else {})
                  for (k, _), s in zip(outputs, seeds)},
        "gradients": [(None if (x := next(gradients)) is None else put(x))
                      if t.requires_grad else None for t in leaves],
    })


class Recorder(cases.Family):
    def case(self, op, inputs, attrs, fn, **_):
        record(op, inputs, attrs, fn)

    def refuses(self, *_):
        pass

    def save(self):
        pass


cases.Family = Recorder
folder = pathlib.Path(__file__).parent / "families"
for path in sorted(folder.glob("*.py")):
    runpy.run_path(str(path))

# Cases that the families cannot have, because signs are open.
for part in [torch.float64, torch.complex128]:
    for shape in [(3, 3), (2, 2, 2), (4, 2), (2, 4)]:
        a = rand(shape, torch.float64, 21)
        if part.is_complex:
            a = torch.complex(a, rand(shape, torch.float64, 22))
        record("_linalg_svd", [a], {}, lambda a: torch.linalg.svd(a, full_matrices=False))
        if shape[-1] != shape[-2]:
            continue
        record("linalg_eig", [a], {}, lambda a: torch.linalg.eig(a))
        record("linalg_eig", [a], {"compute_v": False}, lambda a: torch.linalg.eigvals(a))
        record("_linalg_eigh", [a + a.mH], {}, lambda a: torch.linalg.eigh(a))
    if not part.is_complex:
        continue
    # Linear algebra of which the family of complex numbers has one case or none.
    a = torch.complex(rand((3, 3), torch.float64, 23), rand((3, 3), torch.float64, 24))
    b = torch.complex(rand((3, 2), torch.float64, 25), rand((3, 2), torch.float64, 26))
    a = a + 2 * torch.eye(3)
    record("linalg_cholesky_ex", [a @ a.mH], {}, lambda a: torch.linalg.cholesky_ex(a))
    record("linalg_cholesky_ex", [a @ a.mH], {"upper": True},
           lambda a: torch.linalg.cholesky_ex(a, upper=True))
    record("linalg_inv_ex", [a], {}, lambda a: torch.linalg.inv_ex(a))
    record("linalg_matrix_exp", [a / 2], {}, torch.linalg.matrix_exp)
    for t in [a, a[:, :2], a[:2]]:
        record("linalg_qr", [t], {}, lambda a: torch.linalg.qr(a))
        record("linalg_lu_factor_ex", [t], {}, lambda a: torch.linalg.lu_factor_ex(a))
    lu, pivots = torch.linalg.lu_factor(a)
    record("lu_unpack", [lu, pivots], {}, torch.lu_unpack)
    for left, adjoint in [(True, False), (True, True), (False, False), (False, True)]:
        attrs = {"left": left, "adjoint": adjoint}
        c = b if left else b.mT.contiguous()
        record("linalg_lu_solve", [lu, pivots, c], attrs,
               lambda lu, p, b: torch.linalg.lu_solve(lu, p, b, **attrs))
        attrs = {"upper": adjoint, "left": left}
        record("linalg_solve_triangular", [a, c], attrs,
               lambda a, b: torch.linalg.solve_triangular(a, b, **attrs))
    for driver in ["gelsy", "gelsd"]:
        record("linalg_lstsq", [a[:, :2].contiguous(), b], {"driver": driver},
               lambda a, b: torch.linalg.lstsq(a, b, driver=driver))
    packed, tau = torch.geqrf(a[:, :2].contiguous())
    record("linalg_householder_product", [packed, tau], {}, torch.linalg.householder_product)
    record("ormqr", [packed, tau, b], {}, torch.ormqr)
    record("ormqr", [packed, tau, b], {"transpose": True},
           lambda a, t, b: torch.ormqr(a, t, b, True, True))
    record("ormqr", [packed, tau, b.mT.contiguous()], {"left": False},
           lambda a, t, b: torch.ormqr(a, t, b, False))

# Cases of few elements.
for dims in [2, 3]:
    x, grid = rand((1, 2, 3, 4, 2)[: dims + 2], seed=31), \
        rand((1, 2, 2, 1)[: dims + 1] + (dims,), seed=32, low=-1.3, high=1.3)
    op = getattr(torch.ops.aten, f"grid_sampler_{dims}d")
    for mode in range(5 - dims):
        for padding, align in [(0, False), (1, True), (2, False)]:
            attrs = {"interpolation_mode": mode, "padding_mode": padding, "align_corners": align}
            record(f"grid_sampler_{dims}d", [x, grid], attrs,
                   lambda x, g: op(x, g, mode, padding, align))
    pool = getattr(torch.ops.aten, f"fractional_max_pool{dims}d")
    x, samples = rand((1, 2, 4, 4, 3)[: dims + 2], seed=33), rand((1, 2, dims), seed=34, low=0)
    attrs = {"kernel_size": [2, 2, 2][:dims], "output_size": [2, 2, 1][:dims]}
    record("fractional_max_pool", [x, samples / 2], attrs,
           lambda x, s: pool(x, attrs["kernel_size"], attrs["output_size"], s))
for dim in [0, 1]:
    record("logcumsumexp", [rand((3, 4), seed=39)], {"dim": dim},
           lambda x: torch.logcumsumexp(x, dim))
record("mode", [rand((2, 4), seed=37)], {"dim": 1}, lambda x: torch.mode(x, 1))
record("mode", [rand((2, 4), seed=38)], {"dim": 0, "keepdim": True},
       lambda x: torch.mode(x, 0, True))
# Gradients that PyTorch differentiates as a composition of other functions.
g, x = rand((2, 5), seed=35), rand((2, 5), seed=36, low=-3, high=3)


def of(fn):
    def gradient(g, x):
        return torch.autograd.grad(fn(x), x, g, create_graph=True)[0]
    return gradient


record("silu_backward", [g, x], {}, of(torch.nn.functional.silu))
record("mish_backward", [g, x], {}, of(torch.nn.functional.mish))
record("hardsigmoid_backward", [g, x], {}, of(torch.nn.functional.hardsigmoid))
record("logit_backward", [g, x.sigmoid()], {}, of(torch.logit))
record("logit_backward", [g, x.sigmoid()], {"eps": 0.2}, of(lambda x: torch.logit(x, 0.2)))
rois = torch.tensor([[0, 0.3, 0.2, 2.6, 3.1], [0, -1.0, 1.4, 1.2, 2.3]], dtype=torch.float64)
attrs = {"spatial_scale": 1.0, "pooled_height": 1, "pooled_width": 2, "sampling_ratio": 2,
         "aligned": True}
record("roi_align", [rand((1, 2, 3, 4), seed=30), rois], attrs,
       lambda x, r: torch.ops.torchvision.roi_align(x, r, *attrs.values()))

without = sorted(ops - {case["op"] for case in found})
text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": found, "without": without},
                  separators=(",", ":"))
data += bytes(-len(data) % 8)
header = json.dumps({
    "cases": {"dtype": "U8", "shape": [len(text)],
              "data_offsets": [len(data), len(data) + len(text)]},
    "data": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]},
}, separators=(",", ":")).encode()
header += b" " * (-len(header) % 8)
FILE.write_bytes(struct.pack("<Q", len(header)) + header + data + text.encode())
print(f"{len(found)} cases of {len({op for op, _ in count})} ops, {FILE.stat().st_size} bytes")
print("without:", *without)
