"""Generates reference gradients with PyTorch: python tools/reference/gradients.py.

Goes through the cases of the families, with f64 in place of other floats, and records the gradients
that autograd gives for random gradients of the results. A few small cases are taken of each op and
set of arguments. The file has the names of the ops that PyTorch does not differentiate, too.
"""

import json
import pathlib
import runpy
import struct

import torch

import cases
from cases import DTYPES, attr

FILE = pathlib.Path(__file__).parents[2] / "tests/tensor/gradients.safetensors"
MOST_ELEMENTS = 130
MOST_CASES = 8

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


def record(op, inputs, attrs, fn):
    ops.add(op)
    attrs = {k: attr(v) for k, v in attrs.items() if v is not None}
    if any(isinstance(v, dict) and "dtype" in v for v in attrs.values()) and op != "cast":
        return
    key = json.dumps([op, attrs, [list(t.shape) for t in inputs]], sort_keys=True)
    kinds = (op, tuple(sorted(attrs)), len(inputs), tuple(t.dim() for t in inputs))
    if key in seen or sum(t.numel() for t in inputs) > MOST_ELEMENTS:
        return
    if count.get(op, 0) >= MOST_CASES and kinds in seen:
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
    # PyTorch differentiates it for sources of the index's shape alone.
    if op == "scatter_reduce" and inputs[1].shape != inputs[2].shape:
        return
    # The family's function leaves the row out, on which results do not depend.
    if op == "embedding" and attrs.get("padding_idx", -1) != -1:
        return
    given = [t.detach().clone().contiguous() for t in inputs]
    given = [t.double() if t.is_floating_point() else t for t in given]
    leaves = [t.clone().requires_grad_() if t.is_floating_point() else t for t in given]
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
        if r.dtype != torch.float64 and op != "cast":
            continue
        if r.is_floating_point() and r.requires_grad and r.grad_fn is not None:
            seed = torch.rand(r.shape, generator=g, dtype=torch.float64) * 2 - 1
            outputs.append((k, r))
            seeds.append(seed.to(r.dtype))
    if not outputs:
        return
    wanted = [t for t in leaves if t.requires_grad]
    try:
        gradients = torch.autograd.grad([r for _, r in outputs], wanted, seeds, allow_unused=True)
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
    count[op] = count.get(op, 0) + 1
    found.append({
        "op": op, "attrs": attrs, "inputs": [tensor(t) for t in given],
        "seeds": {str(k): tensor(s) for (k, _), s in zip(outputs, seeds)},
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
print(f"{len(found)} cases of {len(count)} ops, {FILE.stat().st_size} bytes")
print("without:", *without)
