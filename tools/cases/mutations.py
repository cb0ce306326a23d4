"""Checks that a case notices what is left out of it: for every copy and fill in its trace, runs the
trace without that node, and for every clone the trace in which the clone is the same memory; each
time some result has to be wrong.

    python tools/cases/mutations.py RUN_TRACE [CASE...]

RUN_TRACE is the built `xtask`. Without names, the case is copies_and_fills.
"""

import copy
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "tests/traces/own"

sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402

WRITES = ("aten::copy_", "aten::fill_", "aten::zero_", "aten::masked_fill_")
ALIAS = "aten::alias(Tensor(a) self) -> Tensor(a)"


def executed(nodes):
    """The nodes that a run executes: no op around them but such as only call others."""
    for node in nodes.list:
        op = nodes.op(node)
        ops = [nodes.op(n) for n in nodes.around(node) if nodes.op(n)]
        if op and not record.implicit(op) and all(record.implicit(o) for o in ops):
            yield node, op


def without(nodes, gone):
    """The trace without a node, and without what it called."""
    below = {n["id"] for n in nodes.list if gone in nodes.around(n)} | {gone["id"]}
    return [n for n in nodes.list if n["id"] not in below]


def aliased(nodes, clone):
    """The trace in which a clone is a view of what it cloned; None if it lies otherwise."""
    sides = clone["inputs"], clone["outputs"]
    if sides[0]["strides"][0] != sides[1]["strides"][0]:
        return None
    left = copy.deepcopy(without(nodes, clone) + [clone])
    storage, own = clone["inputs"]["values"][0][1:3], clone["outputs"]["values"][0][1]
    changed = left[-1]
    for key, values in changed["inputs"].items():
        changed["inputs"][key] = values[:1]
    for attr in changed["attrs"]:
        if attr["name"] == "op_schema":
            attr["value"] = ALIAS
    # Its address stands for that of the cloned as long as it lives: until another op makes a
    # tensor there.
    alive = True
    for node in sorted(left, key=lambda n: n["id"]):
        if node["id"] < clone["id"]:
            continue
        for side in ("inputs", "outputs"):
            alive = alive and not (
                side == "outputs" and node is not changed and makes(node, own)
            )
            if alive:
                for value in node[side]["values"]:
                    move(value, own, storage)
    return left


def makes(node, storage):
    """Whether a node has results in a storage that is none of its arguments'."""
    read = {s for _, s, _ in record.tensors_of(node["inputs"])}
    return storage not in read and storage in {
        s for _, s, _ in record.tensors_of(node["outputs"])
    }


def move(value, own, storage):
    if isinstance(value, list):
        if len(value) == 6 and isinstance(value[5], str):
            if value[1] == own:
                value[1], value[2] = storage[0], value[2] + storage[1]
        else:
            for inner in value:
                move(inner, own, storage)


def verdict(xtask, folder, raw, nodes):
    """What a run says of a changed trace."""
    (folder / "et.json").write_text(json.dumps({**raw, "nodes": nodes}))
    run = subprocess.run(
        [xtask, "run-trace", str(folder), "--report", "-"], capture_output=True, text=True
    )
    if run.returncode == 0:
        return "NOT NOTICED"
    if run.returncode > 1:
        return "refused: " + run.stderr.split("error:")[-1].strip().splitlines()[0][-70:]
    return "differs"


def mutate(xtask, case):
    """Prints a line for each change; gives how many nobody noticed."""
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / case
        shutil.copytree(FOLDER / case, folder)
        raw = json.loads(gzip.decompress((folder / "et.json.gz").read_bytes()))
        (folder / "et.json.gz").unlink()
        nodes = record.Nodes(raw["nodes"])
        if verdict(xtask, folder, raw, nodes.list) != "NOT NOTICED":
            sys.exit(f"error: {case} does not run as it is")
        for node, op in executed(nodes):
            base = op.split(".")[0]
            if base in WRITES:
                changed = without(nodes, node)
            elif base == "aten::clone":
                changed = aliased(nodes, node)
            else:
                continue
            said = "lies otherwise" if changed is None else verdict(xtask, folder, raw, changed)
            missed += said == "NOT NOTICED"
            print(f"{case:20} {node['id']:5} {op:26} {said}", flush=True)
    return missed


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, *cases = sys.argv[1:]
    count = sum(mutate(binary, case) for case in cases or ["copies_and_fills"])
    sys.exit(f"error: {count} changes not noticed" if count else 0)
