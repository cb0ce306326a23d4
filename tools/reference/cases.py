"""Generates reference values of ops with PyTorch.

The scripts in families/ define cases with this module and save them to
crates/kernels/tests/reference/FAMILY.safetensors. The tests of the kernels read these files without
PyTorch. To generate them again, with the release of PyTorch in requirements.txt:

    python tools/reference/make.py [FAMILY...]

A case is a Millstream op with its tensors and arguments, and a function on PyTorch tensors that
computes the same. A file has the storages of the tensors, with their gaps and aliases, the results
(a view of an input, an input changed in place, or a new tensor, with strides), and the changed
storages.
"""

import json
import pathlib
import struct

import torch

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}
FOLDER = pathlib.Path(__file__).parents[2] / "crates/kernels/tests/reference"

torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)


class D:
    """A dtype that is an argument."""

    def __init__(self, dtype):
        self.name = DTYPES[dtype]


def raw(storage):
    return bytes(storage.cpu().tolist())


def attr(value):
    """Returns an argument in the form of the tests, which distinguishes floats and integers."""
    if isinstance(value, D):
        return {"dtype": value.name}
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        # As text, because JSON has neither NaN nor infinities.
        return {"float": repr(value)}
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(v, float) for v in value):
            return {"floats": [repr(v) for v in value]}
        return [int(v) for v in value]
    raise TypeError(f"{value!r} as an argument")


class Family:
    def __init__(self, name):
        self.name = name
        self.data = bytearray()
        self.known = {}
        self.cases = []

    def _put(self, content):
        """Stores bytes without duplicates; returns their offset and length."""
        if content not in self.known:
            self.data += bytes(-len(self.data) % 8)
            self.known[content] = (len(self.data), len(content))
            self.data += content
        return self.known[content]

    def _inputs(self, tensors):
        storages, ids, specs = [], {}, []
        for t in tensors:
            s = t.untyped_storage()
            key = (s.data_ptr(), s.nbytes())
            # Tensors without bytes never share memory.
            if key not in ids or s.nbytes() == 0:
                ids[key] = len(storages)
                storages.append(s)
            specs.append({
                "storage": ids[key], "dtype": DTYPES[t.dtype], "shape": list(t.shape),
                "strides": list(t.stride()), "offset": t.storage_offset(),
            })
        return storages, specs

    def case(self, op, inputs, attrs, fn, rtol=None, atol=None, layout=True):
        """Records the results of `fn(*inputs)` as the expected results of `op`.

        rtol, atol: tolerances in place of the dtype's defaults. layout=False: the strides of new
        results are not compared.
        """
        storages, specs = self._inputs(inputs)
        before = [raw(s) for s in storages]
        result = fn(*inputs)
        results = [] if result is None else \
            [result] if isinstance(result, torch.Tensor) else list(result)
        outputs = []
        for r in results:
            s = r.untyped_storage()
            of = next((k for k, t in enumerate(inputs)
                       if s.nbytes() and t.untyped_storage().data_ptr() == s.data_ptr()), None)
            spec = {"dtype": DTYPES[r.dtype], "shape": list(r.shape), "strides": list(r.stride())}
            if of is not None:
                spec["storage"] = specs[of]["storage"]
                spec["offset"] = r.storage_offset()
            else:
                spec["data"] = self._put(raw(r.detach().contiguous().clone().untyped_storage()))
            outputs.append(spec)
        after = [raw(s) for s in storages]
        case = {
            "op": op, "attrs": {k: attr(v) for k, v in attrs.items() if v is not None},
            "storages": [self._put(b) for b in before], "inputs": specs, "outputs": outputs,
            "changed": {str(k): self._put(a) for k, (b, a) in enumerate(zip(before, after))
                        if a != b},
        }
        if rtol is not None:
            case["rtol"] = rtol
        if atol is not None:
            case["atol"] = atol
        if not layout:
            case["layout"] = False
        self.cases.append(case)

    def refuses(self, op, inputs, attrs, fn):
        """Records that PyTorch refuses these arguments, and that `op` must refuse them, too."""
        storages, specs = self._inputs(inputs)
        before = [self._put(raw(s)) for s in storages]
        try:
            fn(*inputs)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            self.cases.append({
                "op": op, "attrs": {k: attr(v) for k, v in attrs.items() if v is not None},
                "storages": before, "inputs": specs, "refused": True,
            })
            return
        raise AssertionError(f"{op}: PyTorch accepts arguments that should be refused")

    def save(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        cases = json.dumps({"torch": torch.__version__.split("+")[0], "cases": self.cases},
                           separators=(",", ":"))
        self.data += bytes(-len(self.data) % 8)
        header = {
            "__metadata__": {"family": self.name},
            "cases": {
                "dtype": "U8",
                "shape": [len(cases)],
                "data_offsets": [len(self.data), len(self.data) + len(cases)],
            },
            "data": {"dtype": "U8", "shape": [len(self.data)], "data_offsets": [0, len(self.data)]},
        }
        header = json.dumps(header, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        path = FOLDER / f"{self.name}.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + self.data + cases.encode())
        print(f"{path.name}: {len(self.cases)} cases, {path.stat().st_size} bytes")


def rand(shape, dtype=torch.float32, seed=0, low=-2.0, high=2.0):
    """Returns random values in [low, high), generated in f64 and converted."""
    g = torch.Generator().manual_seed(seed)
    shape = [shape] if isinstance(shape, int) else list(shape)
    v = torch.rand(shape, generator=g, dtype=torch.float64) * (high - low) + low
    if dtype == torch.bool:
        return v > (low + high) / 2
    if dtype == torch.uint8:
        v = v.abs()
    return v.to(dtype)


def ints(shape, low, high, dtype=torch.int64, seed=0):
    """Returns random integers in [low, high)."""
    g = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, list(shape), generator=g).to(dtype)


def transposed(t):
    """Returns the same elements with the dimensions reversed in memory."""
    dims = list(reversed(range(t.dim())))
    return t.permute(dims).contiguous().permute(dims)


def gapped(t):
    """Returns the same elements with gaps between them, at an offset."""
    if t.dim() == 0:
        out = torch.zeros(3, dtype=t.dtype)[1]
        return out.copy_(t)
    out = torch.zeros([*t.shape[:-1], t.shape[-1] * 2 + 1], dtype=t.dtype)[..., 1::2]
    return out.copy_(t)


def layouts(t):
    """Returns a tensor in several layouts."""
    return [t] if t.dim() == 0 else [t, gapped(t)] if t.dim() == 1 else \
        [t, transposed(t), gapped(t)]


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = FLOATS + INTS + [torch.bool]
