"""Measures how many calls of PyTorch's own test data run here and give PyTorch's results:

    python tools/opinfo.py --binary target/release/millstream --samples 3

PyTorch lists for each of its ops (`op_db`, and the ops over lists of tensors) samples of arguments
that it accepts. Each call is recorded with tools/record.py, in several kinds:

    forward, gradient, inplace     the sample itself
    out, resized, gaps             with `out=`: of the right shape, empty, and a view with gaps
    noncontiguous                  with tensors that are not contiguous
    reference                      PyTorch's reference inputs: shapes, extremal and huge numbers
    limits                         infinities, NaN, zeros, huge and tiny numbers in elementwise ops
    shapes                         the sample cut to length 0, to length 1, and to no dimensions
    inner                          results of the ops within that have several, as packed factors
                                   and statistics, of row-major, column-major and other tensors

One run of `millstream run` executes many recordings, and every call counts as one of:

    passes     every result is within the tolerance
    missing    it needs an op that is not there
    refused    PyTorch accepts the call, and the import or a kernel refuses it
    wrong      a result differs, and the error is greater than that of PyTorch to f64
    crash      the command ended without an answer

Calls that cannot be recorded (sparse or quantised tensors, results that are no
tensors) are counted by their reason, and are no part of the shares.

The tolerance is that of the dtype. If a result differs by more, PyTorch computes the call in f64;
the tolerance is then widened by four times the error of PyTorch's own result, and the call runs
again.
A call is left out if PyTorch's result is NaN or infinite, and that of f64 fits into the dtype.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings

import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal.opinfo import core
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import record  # noqa: E402

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "bool": torch.bool,
    "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "c64": torch.complex64, "c128": torch.complex128,
}
# The tolerance of results of a dtype: relative and absolute.
TOLERANCES = {
    torch.float32: (1e-4, 1e-5), torch.float64: (1e-7, 1e-9),
    torch.float16: (2e-3, 1e-3), torch.bfloat16: (1.6e-2, 1e-2),
    torch.complex64: (1e-4, 1e-5), torch.complex128: (1e-7, 1e-9),
}
# Functions that PyTorch computes with fewer digits than f64 has, and their tolerance.
INACCURATE = {
    f"special.bessel_{name}": (1e-5, 1e-5) for name in ("j0", "j1", "y0", "y1")
}
KINDS = (
    "forward", "gradient", "inplace", "out", "resized", "gaps", "noncontiguous", "reference",
    "limits", "shapes", "inner",
)
INF, NAN = float("inf"), float("nan")
# Ops whose results depend on single elements.
ELEMENTWISE = (core.UnaryUfuncInfo, core.BinaryUfuncInfo)
CLASSES = ("passes", "missing", "refused", "wrong", "crash")
# Casts to integers, which C++ leaves open for numbers that the dtype cannot hold.
CASTS = ("byte", "char", "short", "int", "long")
# The numbers of recordings in a run of the command.
BATCH = 1000
# Equal elements may come in any order: of these ops the stable variant is called.
STABLE = ("sort", "argsort")
# The first result is compared alone: PyTorch leaves the index of equal elements open.
OPEN_INDICES = ("kthvalue", "median", "nanmedian", "mode")


def product(left, values, right):
    """Returns the values, and the matrix that they and their vectors make up."""
    if left.numel() == 0 and values.numel() > 0:
        return values
    count = values.shape[-1]
    scaled = left[..., :count] * values.unsqueeze(-2).to(left.dtype)
    return values, scaled @ right[..., :count].mH


# The signs of singular vectors and eigenvectors are open: what they make up is compared.
OPEN_VECTORS = {
    "linalg.svd": lambda u, s, vh: product(u, s, vh.mH),
    "svd": product, "svd_lowrank": product, "pca_lowrank": product,
    "linalg.eigh": lambda values, vectors: product(vectors, values, vectors),
}


def eigen(values, vectors=None):
    """Returns what eigenvalues in any order determine, and the matrix that they and their vectors make
    up."""
    sums = values.sum(-1), (values * values).sum(-1)
    if vectors is None:
        return sums
    return *sums, (vectors * values.unsqueeze(-2)) @ torch.linalg.inv(vectors)


# The order of the eigenvalues of a general matrix is open, too.
OPEN_VECTORS["linalg.eig"] = eigen
OPEN_VECTORS["linalg.eigvals"] = eigen
# Results of ops that PyTorch leaves open: indices of equal elements, signs of vectors.
OPEN_RESULTS = {
    ("_linalg_svd", 0), ("_linalg_svd", 2), ("_linalg_eigh", 1),
    ("linalg_eig", 0), ("linalg_eig", 1),
    *((name, 1) for name in (*OPEN_INDICES, "sort", "topk")),
    # What no gradient of the mode reads.
    ("_embedding_bag", 2), ("_embedding_bag", 3),
}
# Calls whose results PyTorch leaves open: an op, a kind, and a dtype if it is so in that one alone.
UNSPECIFIED = {
    ("msort", "gradient"): "equal elements may come in any order",
    ("resize_", "shapes"): "PyTorch leaves the elements open",
    **{("nn.functional.grid_sample", "reference", dtype): "PyTorch reads beyond the image"
       for dtype in ("bf16", "f16")},
    ("_batch_norm_with_update", "shapes"): "PyTorch reads beyond the weights",
    ("torch.ops.aten._scaled_dot_product_flash_attention_for_cpu", "inner"):
        "PyTorch reads heads as if their last stride were 1",
    **{("linalg.matrix_rank", kind): "PyTorch does not write to `out` below a dispatch mode"
       for kind in ("out", "resized", "gaps")},
    **{(name, "gaps"): "PyTorch writes into the gaps" for name in (
        "narrow_copy", "nn.functional.avg_pool3d", "nn.functional.linear",
    )},
    **{(name, kind): "PyTorch leaves the elements open" for kind in KINDS for name in (
        "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    )},
}


# Sums of complex numbers, of which PyTorch multiplies the second by 1 + 0i. An infinity times 0 is
# NaN, so 1 + z differs from z + 1.
COMPLEX_SUMS = ("add", "sub", "rsub", "__radd__", "__rsub__", "nn.functional.tanhshrink")


class Unsuitable(Exception):
    """The sample has no call of this kind."""


class Unspecified(Exception):
    """PyTorch leaves the result open."""


def tensors_of(value):
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def inputs_of(arguments):
    """Returns the distinct tensors among arguments, by name."""
    found = {}
    for tensor in tensors_of(arguments):
        if all(tensor is not other for other in found.values()):
            found[f"x{len(found)}"] = tensor
    return found


def with_storages(inputs):
    """Adds the storages of inputs, all elements of which views may read, before the inputs."""
    found = {}
    for tensor in inputs.values():
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        if storage.data_ptr() not in found and count > tensor.numel():
            found[storage.data_ptr()] = tensor.detach().as_strided((count,), (1,), 0)
    return {**{f"s{k}": whole for k, whole in enumerate(found.values())}, **inputs}


def results_of(value):
    """Returns the results that are tensors, by name."""
    results = tensors_of(value)
    if not results:
        raise Unsuitable("no result is a tensor")
    return {f"y{k}": result.detach() for k, result in enumerate(results)}


def copied(value, fn=lambda t: t):
    """Returns arguments with copies of their tensors."""
    def copy(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return fn(leaf.detach()).requires_grad_(leaf.requires_grad)
    return tree_map(copy, value)


def plain_copy(tensor):
    return tensor.clone(memory_format=torch.preserve_format)


def limited(tensor):
    """Returns a tensor whose elements are the limits of its dtype, in turn."""
    if not is_inexact(tensor) or tensor.numel() == 0:
        return tensor
    part = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    info = torch.finfo(part.dtype)
    limits = [INF, -INF, NAN, 0.0, -0.0, 1.0, info.max, info.min, info.tiny, -0.5]
    # Of complex numbers every second element is another part: 11 and 2 have no common factor.
    limits = torch.tensor(limits + [2.0], dtype=torch.float64).to(part.dtype)
    at = torch.arange(part.numel()) + tensor.numel()
    filled = limits[at % len(limits)].reshape(part.shape)
    return torch.view_as_complex(filled) if tensor.is_complex() else filled


def cut(tensor, length):
    """Returns the first slices of a tensor; for None, its first element without dimensions."""
    if length is None:
        return tensor.reshape(-1)[0] if tensor.numel() else tensor
    return tensor[:length] if tensor.dim() else tensor


# The lengths to which the samples of the kind "shapes" are cut, in turn.
LENGTHS = (0, 1, None)


def with_gaps(tensor):
    """Returns zeros of the shape of a tensor, with an element between each two of a row."""
    if tensor.dim() == 0:
        return torch.zeros(3, dtype=tensor.dtype)[1]
    shape = [*tensor.shape[:-1], 2 * tensor.shape[-1]]
    return torch.zeros(shape, dtype=tensor.dtype)[..., ::2]


def gaps_of(storage):
    """Returns the elements that no tensor of `with_gaps` has."""
    return storage[::2] if len(storage) == 3 else storage[1::2]


def column_major(tensor):
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


class Inner(TorchDispatchMode):
    """Notes the results of ops that have several."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        results = op(*args, **(kwargs or {}))
        if isinstance(results, (tuple, list)):
            name = op.overloadpacket.__name__
            self.noted += [r for k, r in enumerate(results) if (name, k) not in OPEN_RESULTS]
        return results


class Call:
    """A call of an op with a sample's arguments, of one kind."""

    def __init__(self, op, sample, kind, seed, turn=0):
        self.op, self.kind, self.seed = op, kind, seed
        copy = plain_copy
        def tensors_by(change):
            return sample.transform(lambda t: change(t) if isinstance(t, torch.Tensor) else t)

        if kind == "limits":
            # The degree of a polynomial is an integer, to which no infinity converts.
            if "polynomial" in op.name:
                sample.input = limited(sample.input)
            else:
                sample = tensors_by(limited)
        if kind == "shapes":
            length = LENGTHS[turn % len(LENGTHS)]
            sample = tensors_by(lambda t: cut(t, length))
        if kind == "inner" and turn % 3 == 1:
            sample = tensors_by(column_major)
        if kind == "noncontiguous" or kind == "inner" and turn % 3 == 2:
            sample = sample.noncontiguous()
            copy = lambda t: t  # noqa: E731
        if op.name in CASTS and is_inexact(sample.input):
            if not bool((sample.input.abs() < 128).all()) or op.name == "byte":
                raise Unspecified("a cast of numbers that the integer may not hold")
        if op.name in COMPLEX_SUMS and kind in ("limits", "reference"):
            if any(t.is_complex() for t in tensors_of((sample.input, sample.args))):
                raise Unspecified("PyTorch multiplies infinite complex numbers by 1 + 0i")
        stable = {"stable": True} if op.name in STABLE and not sample.args else {}
        self.arguments = copied((sample.input, sample.args, {**stable, **sample.kwargs}), copy)
        self.broadcasts = sample.broadcasts_input
        self.process = getattr(sample, "output_process_fn_grad", None) or (lambda y: y)

    def prepare(self, convert=None):
        """Returns the program and its inputs. `convert` changes tensors before."""
        x, args, kwargs = copied(self.arguments, lambda t: plain_copy(t) if self.kind !=
                                 "noncontiguous" else t)
        if convert is not None:
            x, args, kwargs = copied((x, args, kwargs), convert)
        inputs = inputs_of((x, args, kwargs))
        return getattr(self, self.kind)(x, args, kwargs, inputs)

    def specified(self, results):
        """Returns the results that PyTorch specifies, or what they determine."""
        if self.op.name in OPEN_INDICES and isinstance(results, tuple):
            return results[0]
        if self.op.name in OPEN_VECTORS:
            parts = results if isinstance(results, tuple) else (results,)
            return OPEN_VECTORS[self.op.name](*parts)
        return results

    def forward(self, x, args, kwargs, inputs):
        def run():
            with torch.no_grad():
                return results_of(self.specified(self.op(x, *args, **kwargs)))
        return run, inputs

    # The samples of these kinds are others, and the call is the same.
    reference = limits = shapes = forward

    def noncontiguous(self, x, args, kwargs, inputs):
        run, inputs = self.forward(x, args, kwargs, inputs)
        return run, with_storages(inputs)

    def inner(self, x, args, kwargs, inputs):
        def run():
            with Inner() as inner:
                self.op(x, *args, **kwargs)
            return results_of(inner.noted)
        return run, with_storages(inputs)

    def gradient(self, x, args, kwargs, inputs):
        leaves = [t for t in inputs.values() if t.requires_grad]
        if not leaves:
            raise Unsuitable("no tensor requires a gradient")

        def differentiable():
            results = tensors_of(self.process(self.op(x, *args, **kwargs)))
            return [r for r in results if r.requires_grad and is_inexact(r)]

        results = differentiable()
        if not results:
            raise Unsuitable("no result has a gradient")
        g = torch.Generator().manual_seed(self.seed)
        like = [torch.rand(r.shape, generator=g, dtype=torch.float64) + 0.5 for r in results]
        # Of complex results, the gradient has both parts.
        turns = [(1 + 0.5j) if r.is_complex() else 1 for r in results]
        like = [(given * turn).to(r.dtype) for given, r, turn in zip(like, results, turns)]
        inputs = {**inputs, **{f"g{k}": given for k, given in enumerate(like)}}

        def run():
            grads = torch.autograd.grad(differentiable(), leaves, like, allow_unused=True)
            return results_of(grads)
        return run, inputs

    def inplace(self, x, args, kwargs, inputs):
        variant = getattr(self.op, "inplace_variant", None)
        if variant is None or self.broadcasts:
            raise Unsuitable("no variant in place")

        def run():
            with torch.no_grad():
                variant(x, *args, **kwargs)
            return results_of(x)
        return run, inputs

    def resized(self, x, args, kwargs, inputs):
        return self.out(x, args, kwargs, inputs, lambda t: torch.empty(0, dtype=t.dtype))

    def gaps(self, x, args, kwargs, inputs):
        run, inputs = self.out(x, args, kwargs, inputs, with_gaps)
        whole = with_storages(inputs)
        # The gaps keep their elements. Results that are open are not compared with them.
        storages = {f"z{name}": t for name, t in whole.items() if name not in inputs}
        if self.op.name in OPEN_INDICES or self.op.name in OPEN_VECTORS:
            storages = {n: gaps_of(t) for n, t in storages.items()}
            whole = {**whole, **storages}
        return lambda: {**run(), **storages}, whole

    def out(self, x, args, kwargs, inputs, like=torch.zeros_like):
        if not self.op.supports_out:
            raise Unsuitable("no variant with out=")
        with torch.no_grad():
            expected = self.op(x, *args, **kwargs)
        if not all(isinstance(e, torch.Tensor) for e in tree_leaves(expected)):
            raise Unsuitable("a result is no tensor")
        target = tree_map(like, expected)
        if isinstance(expected, tuple):
            target = tuple(target)
        inputs = {**inputs, **{f"o{k}": t for k, t in enumerate(tensors_of(target))}}

        def run():
            with torch.no_grad():
                self.op(x, *args, **kwargs, out=target)
            return results_of(self.specified(target))
        return run, inputs


class ForeachCall(Call):
    """A call of an op over lists of tensors."""

    def __init__(self, op, sample, kind, seed, turn=0):
        super().__init__(op, sample, kind, seed, turn)
        # `disable_fastpath` and its like are hints for tests.
        self.variant = op.inplace_variant if kind == "inplace" else op.method_variant
        if self.variant is None:
            raise Unsuitable("no such variant")

    def forward(self, x, args, kwargs, inputs):
        def run():
            with torch.no_grad():
                return results_of(self.variant(x, *args, **kwargs))
        return run, inputs

    def inplace(self, x, args, kwargs, inputs):
        def run():
            with torch.no_grad():
                self.variant(x, *args, **kwargs)
            return results_of(x)
        return run, inputs


def tolerance_of(dtypes):
    """Returns the loosest tolerance of these dtypes."""
    of = [TOLERANCES[d] for d in dtypes if d in TOLERANCES] or [(1e-4, 1e-5)]
    return max(r for r, _ in of), max(a for _, a in of)


def is_inexact(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def to_f64(tensor):
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def widened(call, tolerance):
    """Returns the tolerance, widened by PyTorch's own error to f64; None if that is unknown."""
    run, _ = call.prepare()
    exact, _ = call.prepare(to_f64)
    rtol, atol = tolerance
    for result, precise in zip(run().values(), exact().values()):
        if not is_inexact(result):
            if not torch.equal(result, precise):
                return None
            continue
        parts = [torch.view_as_real(t) if t.is_complex() else t for t in (result, precise)]
        infinite = parts[0].isinf() & (parts[0] != parts[1].to(parts[0].dtype))
        if (infinite | (result.isnan() & ~precise.isnan()).any()).any():
            raise Unspecified("PyTorch's result is NaN or infinite, and that of f64 is not")
        error = (to_f64(result) - precise).abs()
        error = error[error.isfinite()]
        if error.numel():
            atol = max(atol, tolerance[1] + 4 * error.max().item())
    return rtol, atol


class Tally:
    """The outcomes, counted by op and kind."""

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.skipped = collections.Counter()
        self.reasons = collections.defaultdict(list)

    def add(self, case, outcome, reason=""):
        self.counts[(case["op"], case["kind"])][outcome] += 1
        if outcome != "passes":
            self.reasons[(outcome, general(reason))].append((case["name"], reason))

    def by(self, key):
        rows = collections.defaultdict(collections.Counter)
        for (op, kind), counts in self.counts.items():
            rows[key(op, kind)].update(counts)
        return rows


def general(reason):
    """Returns a reason without the numbers of one case."""
    reason = re.sub(r"^.*?: node \d+ ", "", reason)
    reason = re.sub(r"\b(f32|f64|f16|bf16|i64|i32|i16|i8|u8|bool|c64|c128)\[[\d, ]*\]", "T", reason)
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", reason)[:160]


def classify(message):
    missing = ("there is no op", "a custom kernel")
    return "missing" if any(part in message for part in missing) else "refused"


class Runner:
    """Records cases into a folder and runs them together."""

    def __init__(self, binary, tally, keep):
        self.binary, self.tally, self.keep = binary, tally, keep
        self.scratch = None
        self.cases = []

    def add(self, case, call):
        if self.scratch is None:
            base = "/dev/shm" if os.path.isdir("/dev/shm") else None
            self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="opinfo", dir=base))
        folder = self.scratch / f"case{len(self.cases)}"
        run, inputs = call.prepare()
        results = []

        def program():
            named = run()
            results.extend(named.values())
            return named

        dtypes = {t.dtype for t in inputs.values()}
        rtol, atol = max(tolerance_of(dtypes), INACCURATE.get(case["op"], (0, 0)))
        with quiet():
            record.record_call(folder, program, inputs, rtol, atol, note=case["name"])
        self.cases.append((case, call, folder, (rtol, atol)))
        if len(self.cases) >= BATCH:
            self.flush()

    def execute(self, folders):
        """Returns the outcome and the reason of each folder."""
        report = self.scratch / "report.json"
        report.unlink(missing_ok=True)
        command = [self.binary, "run", *map(str, folders), "--driver", "inline", "--report", report]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            ended = done.returncode in (0, 1, 2)
        except subprocess.TimeoutExpired:
            done, ended = None, False
        if not ended:
            if len(folders) == 1:
                why = "it takes too long" if done is None else done.stderr.strip()[-200:]
                return {folders[0]: ("crash", why)}
            half = len(folders) // 2
            return {**self.execute(folders[:half]), **self.execute(folders[half:])}
        outcomes = {}
        for line in report.read_text().splitlines() if report.exists() else []:
            entry = json.loads(line)
            folder = pathlib.Path(entry["trace"]).parent
            wrong = [o["name"] for o in entry["outputs"] if not o["ok"]]
            outcomes[folder] = (
                ("passes", "") if entry["ok"] else
                ("refused", str(entry["failures"][0])) if entry.get("failures") else
                ("wrong", ", ".join(wrong))
            )
        for line in done.stderr.splitlines():
            if not line.startswith("error: "):
                continue
            text = line.removeprefix("error: ")
            place, _, message = text.partition(": ")
            for folder in folders:
                if place.startswith(f"{folder}/"):
                    outcomes.setdefault(folder, (classify(message), message))
        for folder in folders:
            outcomes.setdefault(folder, ("crash", "neither a result nor an error"))
        return outcomes

    def flush(self):
        if not self.cases:
            return
        outcomes = self.execute([folder for _, _, folder, _ in self.cases])
        again, left = [], []
        for case, call, folder, tolerance in self.cases:
            try:
                if outcomes[folder][0] == "wrong" and self.widen(call, folder, tolerance):
                    again.append(folder)
                left.append((case, call, folder, tolerance))
            except Unspecified as e:
                self.tally.skipped[str(e)] += 1
        self.cases = left
        if again:
            outcomes.update(self.execute(again))
        for case, _, folder, _ in self.cases:
            outcome, reason = outcomes[folder]
            self.tally.add(case, outcome, reason)
            if self.keep and outcome in self.keep[0].split(","):
                target = pathlib.Path(self.keep[1]) / re.sub(r"\W+", "_", case["name"])
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(folder, target)
        shutil.rmtree(self.scratch)
        self.scratch, self.cases = None, []

    def widen(self, call, folder, tolerance):
        """Widens the tolerance of a recording; returns whether it did."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wide = widened(call, tolerance)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, Unsuitable):
            return False
        if wide is None or wide == tolerance:
            return False
        meta = json.loads((folder / "meta.json").read_text())
        meta["tolerance"] = dict(zip(("rtol", "atol"), wide))
        (folder / "meta.json").write_text(json.dumps(meta))
        return True


@contextlib.contextmanager
def quiet():
    """Drops the lines that PyTorch's observer writes to standard error."""
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def samples_of(op, dtype, kind, given, foreach):
    """Yields up to the wanted number of samples of an op, spread evenly over all of them."""
    requires_grad = kind == "gradient" or kind == "inner" and takes_gradient(op, dtype)
    if foreach:
        found = list(op.sample_inputs("cpu", dtype, requires_grad, noncontiguous=False))
    elif kind == "reference":
        found = list(op.reference_inputs("cpu", dtype))
    else:
        found = list(op.sample_inputs("cpu", dtype, requires_grad))
    count = min(given.samples, len(found))
    for k in range(count):
        at = k * len(found) // count
        # Of the kind "inner", each in three layouts.
        yield from [(at, found[at])] * (3 if kind == "inner" else 1)


def takes_gradient(op, dtype):
    return (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd \
        and dtype in op.supported_backward_dtypes("cpu")


def suits(op, dtype, kind, foreach):
    if kind == "gradient":
        return not foreach and takes_gradient(op, dtype)
    if foreach and kind not in ("forward", "inplace"):
        return False
    if kind in ("out", "resized", "gaps") and not op.supports_out:
        return False
    if kind == "reference" and op.reference_inputs_func is None:
        return False
    if kind == "limits" and not (
        isinstance(op, ELEMENTWISE) and (dtype.is_floating_point or dtype.is_complex)
    ):
        return False
    if kind == "inplace" and op.inplace_variant is None:
        return False
    return dtype in op.supported_dtypes("cpu")


def measure(given):
    tally = Tally()
    runner = Runner(given.binary, tally, given.keep)
    databases = [(op, False) for op in invocations.op_db]
    databases += [(op, True) for op in invocations.foreach_op_db]
    chosen = [
        (op, foreach) for op, foreach in databases
        if re.search(given.ops, full_name(op))
    ]
    part, parts = (int(v) for v in given.part.split("/"))
    start = time.monotonic()
    for number, (op, foreach) in enumerate(chosen):
        if number % parts != part - 1:
            continue
        for name in given.dtypes.split(","):
            for kind in given.kinds.split(","):
                if suits(op, DTYPES[name], kind, foreach):
                    cases(runner, tally, op, name, kind, given, foreach)
        if given.verbose:
            print(f"{number} {full_name(op)} {time.monotonic() - start:.0f} s", file=sys.stderr)
    runner.flush()
    return tally


def full_name(op):
    return f"{op.name}.{op.variant_test_name}".rstrip(".")


def cases(runner, tally, op, name, kind, given, foreach):
    """Records the samples of an op, a dtype and a kind."""
    for key in ((op.name, kind), (op.name, kind, name)):
        if key in UNSPECIFIED:
            tally.skipped[UNSPECIFIED[key]] += 1
            return
    seed = f"{given.seed} {full_name(op)} {name} {kind}"
    seed = random.Random(seed).getrandbits(32)
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(samples_of(op, DTYPES[name], kind, given, foreach))
    except Exception as e:
        # Samples of ops that need another library or device.
        tally.skipped[f"no samples: {type(e).__name__}"] += 1
        return
    for turn, (at, sample) in enumerate(found):
        case = {
            "op": full_name(op), "kind": kind, "dtype": name,
            "name": f"{full_name(op)} {name} {kind} {at}",
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = ForeachCall if foreach else Call
                runner.add(case, made(op, sample, kind, seed, turn))
        except Unsuitable:
            continue
        except Unspecified as e:
            tally.skipped[str(e)] += 1
        except record.RecordError as e:
            tally.skipped[general(str(e))] += 1
            if given.verbose:
                print(f"{case['name']}: {e}", file=sys.stderr)
        except Exception as e:
            # PyTorch itself refuses the call, for example a variant for a dtype.
            tally.skipped[f"PyTorch: {type(e).__name__}"] += 1
            if given.verbose:
                print(f"{case['name']}: {type(e).__name__}: {e}", file=sys.stderr)


def table(title, rows):
    head = f"{title:34} {'calls':>7} " + " ".join(f"{c:>8}" for c in CLASSES) + "   share"
    lines = [head, "-" * len(head)]
    for key, counts in rows:
        total = sum(counts.values())
        share = 100 * counts["passes"] / total if total else 0
        lines.append(
            f"{key:34} {total:7} " + " ".join(f"{counts[c]:8}" for c in CLASSES)
            + f" {share:6.1f}%"
        )
    return "\n".join(lines)


def show(tally, given):
    kinds = tally.by(lambda op, kind: f"_foreach_ {kind}" if op.startswith("_foreach") else kind)
    total = sum(kinds.values(), collections.Counter())
    print(table("kind", [*sorted(kinds.items()), ("all", total)]))
    ops = tally.by(lambda op, kind: op)
    accepted = sum(counts["passes"] > 0 for counts in ops.values())
    whole = sum(counts["passes"] == sum(counts.values()) for counts in ops.values())
    print(f"\n{len(ops)} ops; {accepted} pass in a case, {whole} in every case")
    print("\nreasons, most frequent first:")
    reasons = sorted(tally.reasons.items(), key=lambda r: -len(r[1]))
    for (outcome, reason), found in reasons[: given.reasons]:
        print(f"{len(found):6} {outcome:8} {reason}  [{found[0][0]}]")
    if tally.skipped:
        print("\nnot recorded:")
        for reason, count in tally.skipped.most_common(given.reasons):
            print(f"{count:6} {reason}")
    if given.summary:
        pathlib.Path(given.summary).write_text(json.dumps({
            "torch": torch.__version__, "seed": given.seed, "samples": given.samples,
            "dtypes": given.dtypes, "ops": given.ops,
            "kinds": {kind: dict(counts) for kind, counts in kinds.items()}, "all": dict(total),
            "by_op": {op: dict(counts) for op, counts in sorted(ops.items())},
            "reasons": [
                {"outcome": outcome, "reason": reason, "count": len(found),
                 "cases": [name for name, _ in found[:5]]}
                for (outcome, reason), found in reasons
            ],
            "not_recorded": dict(tally.skipped),
        }, indent=1) + "\n")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", default="target/debug/millstream", help="the built command")
    parser.add_argument("--ops", default="", help="a regular expression for names of ops")
    parser.add_argument("--samples", type=int, default=3, help="of an op, a dtype and a kind")
    parser.add_argument("--dtypes", default="f32,bf16,i64", help=f"of {', '.join(DTYPES)}")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="K/N: every N-th op, from the K-th on")
    parser.add_argument("--summary", help="a file for the numbers as JSON")
    parser.add_argument("--reasons", type=int, default=40, help="the number of reasons to show")
    parser.add_argument(
        "--keep", nargs=2, metavar=("OUTCOMES", "FOLDER"),
        help="keep the recordings of calls with these outcomes, as in: wrong,crash FOLDER",
    )
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    total = show(measure(given), given)
    sys.exit(1 if total["wrong"] or total["crash"] else 0)


if __name__ == "__main__":
    main()
