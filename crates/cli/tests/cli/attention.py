"""Calls attention and its gradient on fake tensors, as tools/replay.py calls them on CUDA. Fake tensors
have PyTorch's own shapes and need no device. Prints a line for each op of CUDA, with and without a mask:
{"ops": [NAME...], "calls": {...}, "shapes": [...]}, or {"refused": WHY}."""

import importlib.util
import json
import pathlib
import sys
import tempfile

import torch
from torch._subclasses import FakeTensorMode

TRACE, SCRIPT = pathlib.Path(sys.argv[1]), sys.argv[2]

spec = importlib.util.spec_from_file_location("replay", SCRIPT)
replay = importlib.util.module_from_spec(spec)
spec.loader.exec_module(replay)
replay.torch = torch
# Fake tensors have no elements to compare.
replay.stored = lambda folder: {}


def trace(folder, masked, without=None):
    """Writes the trace with a mask whose rows are not aligned, and without the nodes of one name."""
    with replay.gzip.open(TRACE, "rt") as file:
        trace = json.load(file)
    trace["nodes"] = [node for node in trace["nodes"] if node["name"] != f"aten::{without}"]
    for node in trace["nodes"] if masked else []:
        if node["name"].startswith("aten::" + replay.ATTENTION):
            form, at = node["inputs"], 8 if node["name"].endswith("_backward") else 5
            form["values"][at], form["types"][at] = [9001, 9001, 0, 100, 4, "cpu"], "Tensor(float)"
            form["shapes"][at], form["strides"][at] = [10, 10], [10, 1]
    path = pathlib.Path(folder) / "et.json"
    path.write_text(json.dumps(trace))
    return path


def replayed(path):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode():
        try:
            plan = replay.Plan(path, None, torch.device("cuda:0"))
        except replay.Refused as why:
            return {"refused": str(why)}
        plan.function(*[tensor for _, tensor, _ in plan.inputs])
    called = [plan.known[line.split(" = ")[1].split("(")[0]] for line in plan.lines]
    ops = [getattr(function, "__name__", str(function)) for function in called]
    return {
        "ops": [op for op in ops if "dot_product" in op or op in ("constant_pad_nd", "narrow")],
        "calls": {name: count for name, count in plan.calls.items() if "attention" in name},
        "kept": len(plan.keep),
    }


with tempfile.TemporaryDirectory() as folder:
    for way in replay.CUDA_ATTENTION.values():
        # There is no device to choose for.
        replay.Plan.way = staticmethod(lambda *_, way=way: way)
        for masked in (False, True) if way != replay.CUDA_ATTENTION[1] else (False,):
            print(json.dumps(replayed(trace(folder, masked))))
    print(json.dumps(replayed(trace(folder, False, without=replay.ATTENTION))))
