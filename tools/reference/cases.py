"""Reference values of ops, made with PyTorch.

The scripts in families/ make cases with this module and save them to
crates/kernels/tests/reference/FAMILY.safetensors; the tests of the kernels read them, without
PyTorch. To make them anew (with the release of PyTorch that stands in requirements.txt):

    python tools/reference/make.py [FAMILY...]

A case is an op of Millstream's with its tensors and arguments, and a function on PyTorch tensors
that computes the same. Recorded are the storages of the tensors, with gaps and aliases as they are,
the results (a view of which tensor, one changed in place, or new, with strides), and the storages
that have changed.
"""

import json
import pathlib
import struct

import torch

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "bool",
}
FOLDER = pathlib.Path(__file__).parents[2] / "crates/kernels/tests/reference"

torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)


class D:
    """A dtype as an argument."""

    def __init__(self, dtype):
        self.name = DTYPES[dtype]


def raw(storage):
    return bytes(storage.cpu().tolist())


def attr(value):
    """An argument as the tests read it: floats and whole numbers stay apart."""
    if isinstance(value, D):
        return {"dtype": value.name}
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        # Not a number of JSON's: NaN and infinities.
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
        """Keeps bytes once; gives their place."""
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
            # Tensors without bytes share no memory.
            if key not in ids or s.nbytes() == 0:
                ids[key] = len(storages)
                storages.append(s)
            specs.append({
                "storage": ids[key], "dtype": DTYPES[t.dtype], "shape": list(t.shape),
                "strides": list(t.stride()), "offset": t.storage_offset(),
            })
        return storages, specs

    def case(self, op, inputs, attrs, fn, rtol=None, atol=None, layout=True):
        """Records `fn(*inputs)` as what `op` with these tensors and arguments gives.

        rtol, atol: bounds other than the dtype's own. layout=False: strides of new results are
        not compared.
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
        """Records that PyTorch refuses this, and that `op` has to as well."""
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
        raise AssertionError(f"{op}: PyTorch takes what was to be refused")

    def save(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        cases = json.dumps({"torch": torch.__version__.split("+")[0], "cases": self.cases},
                           separators=(",", ":"))
        self.data += bytes(-len(self.data) % 8)
        header = {
            "__metadata__": {"family": self.name},
            "cases": {"dtype": "U8", "shape": [len(cases)], "data_offsets": [len(self.data), len(self.data) + len(cases)]},
            "data": {"dtype": "U8", "shape": [len(self.data)], "data_offsets": [0, len(self.data)]},
        }
        header = json.dumps(header, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        path = FOLDER / f"{self.name}.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + self.data + cases.encode())
        print(f"{path.name}: {len(self.cases)} cases, {path.stat().st_size} bytes")


def rand(shape, dtype=torch.float32, seed=0, low=-2.0, high=2.0):
    """Values in [low, high), made in f64 and converted."""
    g = torch.Generator().manual_seed(seed)
    shape = [shape] if isinstance(shape, int) else list(shape)
    v = torch.rand(shape, generator=g, dtype=torch.float64) * (high - low) + low
    if dtype == torch.bool:
        return v > (low + high) / 2
    if dtype == torch.uint8:
        v = v.abs()
    return v.to(dtype)


def ints(shape, low, high, dtype=torch.int64, seed=0):
    """Whole numbers in [low, high)."""
    g = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, list(shape), generator=g).to(dtype)


def transposed(t):
    """The same elements laid out with the dimensions reversed."""
    dims = list(reversed(range(t.dim())))
    return t.permute(dims).contiguous().permute(dims)


def gapped(t):
    """The same elements with gaps between them, at an offset."""
    if t.dim() == 0:
        out = torch.zeros(3, dtype=t.dtype)[1]
        return out.copy_(t)
    out = torch.zeros([*t.shape[:-1], t.shape[-1] * 2 + 1], dtype=t.dtype)[..., 1::2]
    return out.copy_(t)


def layouts(t):
    """A tensor in several layouts."""
    return [t] if t.dim() == 0 else [t, gapped(t)] if t.dim() == 1 else \
        [t, transposed(t), gapped(t)]


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = FLOATS + INTS + [torch.bool]
