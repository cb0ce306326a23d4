"""Samples of PyTorch's own test data, one or two for each of a fixed list of ops: a small part of
what tools/opinfo.py runs, for tests that need no PyTorch."""

import pathlib
import random
import sys
import warnings

import torch
from torch.testing._internal import common_methods_invocations as invocations

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import opinfo  # noqa: E402

SEED = 59
# The most elements of a sample's tensors.
LARGEST = 60
OPS = (pathlib.Path(__file__).parent / "op_samples.txt").read_text().split()


def samples(op, dtype=torch.float32):
    """Yields calls with the first and the last small samples of an op."""
    seed = random.Random(f"{SEED} {op.name}").getrandbits(32)
    torch.manual_seed(seed)
    random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for sample in op.sample_inputs("cpu", dtype, False):
            tensors = opinfo.tensors_of((sample.input, sample.args, sample.kwargs))
            if 0 < sum(t.numel() for t in tensors) <= LARGEST:
                found.append(sample)
    for sample in found[:1] + found[len(found) // 2:][-1:]:
        try:
            call = opinfo.Call(op, sample, "forward", seed)
            run, inputs = call.prepare()
            run()
        except (opinfo.Unsuitable, opinfo.Unspecified, RuntimeError):
            continue
        yield run, inputs


def prepare(ops=OPS, dtype=torch.float32):
    by_name = {opinfo.full_name(op): op for op in invocations.op_db}
    calls, inputs = [], {}
    for name in ops:
        for k, (run, given) in enumerate(samples(by_name[name], dtype)):
            calls.append((f"{name}.{k}", run))
            inputs.update({f"{name}.{k}.{n}": t for n, t in given.items()})

    def run():
        return {f"{name}.{n}": t for name, call in calls for n, t in call().items()}

    return run, inputs
