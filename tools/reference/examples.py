"""Records the examples of tensors' methods with PyTorch: python tools/reference/examples.py.

The scripts in examples/ name calls of Millstream's ops with small tensors. PyTorch computes the
results. `cargo xtask docs` writes each call as an example of a method, of its options or of one of
these, which `cargo test --doc` runs. To record them again, use the release of PyTorch in
requirements.txt.

A call of an op has its tensors and arguments by the names of the op's schema. The results are
numbers where they are the same on every computer, else PyTorch's text of them, with four decimals.
"""

import json
import math
import pathlib
import runpy

import torch
import torchvision  # noqa: F401, its ops
from cases import DTYPES

FOLDER = pathlib.Path(__file__).parents[2] / "xtask/src/docs/examples/recorded"
A = torch.ops.aten
# Longer texts do not fit into a line of documentation.
MOST_CHARACTERS = 84
calls = []


def f(*values):
    """Returns a tensor of f32, of one row or of several."""
    return torch.tensor(list(values), dtype=torch.float32)


def i(*values):
    return torch.tensor(list(values), dtype=torch.int64)


def b(*values):
    return torch.tensor([v != 0 for v in values])


def c(*values):
    return torch.tensor(list(values), dtype=torch.complex64)


def number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def tensor(t):
    values = torch.view_as_real(t) if t.is_complex() else t
    return {"dtype": DTYPES[t.dtype], "shape": list(t.shape),
            "values": [number(v) for v in values.flatten().tolist()]}


def argument(value):
    if isinstance(value, torch.dtype):
        return {"dtype": DTYPES[value]}
    return list(value) if isinstance(value, tuple) else number(value)


def is_exact(t):
    """Whether all elements are fractions of few bits, which no order of operations rounds."""
    t = torch.view_as_real(t) if t.is_complex() else t
    return all(math.isfinite(v) and abs(v) < 1e6 and (v * 256).is_integer()
               for v in t.double().flatten().tolist())


def result(op, t, exact):
    found = tensor(t.detach())
    found["strides"] = list(t.stride())
    if t.numel() == 0 or (is_exact(t) if exact is None or not t.is_floating_point() else exact):
        return found
    found = {"text": repr(t)}
    assert len(found["text"]) <= MOST_CHARACTERS, f"{op}: {found['text']}"
    # Rounding must not depend on the last bits.
    for factor in (1 - 6e-7, 1 + 6e-7):
        moved = t * factor
        shown = repr(moved.to(t.dtype))
        assert shown == found["text"], f"{op}: {shown} or {found['text']}"
    return found


def e(op, fn=None, names=None, exact=None, **given):
    """Records a call. `fn` takes the tensors and arguments by name; default: PyTorch's op of this
    name, with the tensors in their order. `names` are those of the results, `_` for one that the
    example does not look at. exact: True if the results are numbers, although they have many
    digits; False if they are texts, as those of iterations, which need not be exact.
    """
    is_tensor = lambda v: torch.is_tensor(v) or isinstance(v, list) and torch.is_tensor(v[0])
    tensors = {k: v for k, v in given.items() if is_tensor(v)}
    attrs = {k: v for k, v in given.items() if k not in tensors}
    copy = lambda v: [t.clone() for t in v] if isinstance(v, list) else v.clone()
    ready = {k: copy(v) for k, v in tensors.items()}
    if fn is None:
        made = getattr(A, op)(*ready.values(), **attrs)
    else:
        made = fn(**ready, **attrs)
    made = [made] if torch.is_tensor(made) else list(made)
    names = names.split() if names else []
    assert not names or len(names) <= len(made), f"{op} has {len(made)} results"
    call = {
        "op": op,
        "tensors": {k: [tensor(t) for t in v] if isinstance(v, list) else tensor(v)
                    for k, v in tensors.items()},
        "attrs": {k: argument(v) for k, v in attrs.items()},
        "names": names,
        "results": [None if k < len(names) and names[k] == "_" else result(op, t, exact)
                    for k, t in enumerate(made)],
    }
    calls.append(call)


def both(op, fn=None, **given):
    """Records the op that returns a new tensor, and the one in place."""
    e(op, fn, **given)
    e(f"{op}_", fn, **given)


def save(path):
    """Writes the calls recorded so far, one a line."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(call, separators=(",", ":")) for call in calls)
    path = FOLDER / f"{path.stem}.json"
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{path.name}: {len(calls)} calls")
    calls.clear()


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(1)
    names = dict(e=e, both=both, f=f, i=i, b=b, c=c, A=A, torch=torch)
    for script in sorted((pathlib.Path(__file__).parent / "examples").glob("*.py")):
        runpy.run_path(str(script), names)
        save(script)
