"""Runs the PyTorch modules from which recorded cases were made, eagerly, and measures their time.
`millstream bench traces --pytorch PYTHON --modules FOLDER` runs it. FOLDER holds the cases:
`cases_basic.py`, `cases_perf.py`, `harness.py`, and `init.py` for the inputs of the latter.

    echo '{"load": "mlp_train_sgd"}' | python tools/modules.py FOLDER --threads 1

It reads requests from standard input, one line of JSON each, and answers each with one line, as
tools/replay.py does:

    {"load": CASE}   makes the case's modules and inputs: {}
    {"run": COUNT}   runs its steps COUNT times: {"wall": [S...], "issued": [S...]}

An error is answered with {"error": REASON}. The first line identifies PyTorch:
{"torch": VERSION, "device": NAME}, or {"absent": REASON}.

Times are in seconds. Before each run, outside of the measured time, gradients and the optimizer's
state are dropped, and inputs that a step writes get their first elements, so that each run does the
work of the trace. Cases that go on training by themselves do so (`restore=False` in the folder).
"""

import argparse
import gc
import json
import os
import sys
import time


class Case:
    """A case whose modules exist."""

    def __init__(self, name):
        made = cases_basic.CASES.get(name) or cases_perf.CASES.get(name)
        if made is None:
            raise LookupError(f"there is no case '{name}'")
        found = []
        harness.SINK = found.append
        made()
        self.case = case = found[0]
        if case.init is not None:
            with torch.no_grad():
                for key, tensor in case.inputs.items():
                    tensor.copy_(init.values(key, case.init[key], tensor.shape, tensor.dtype))
        before = {}
        if case.restore:
            before = {key: tensor.detach().clone() for key, tensor in case.inputs.items()}
        case.run()
        # By value: batch norm writes its statistics in place without a sign of it.
        self.written = [
            (case.inputs[key], value)
            for key, value in before.items()
            if not torch.equal(case.inputs[key].detach(), value)
        ]

    def run(self, times):
        wall = []
        for _ in range(times):
            if self.case.restore:
                self.case.reset(self.written)
            start = time.perf_counter()
            results = self.case.run()
            wall.append(time.perf_counter() - start)
            del results
        return {"wall": wall, "issued": wall}


def answer(request, state):
    if "load" in request:
        state["case"] = None
        gc.collect()
        state["case"] = Case(request["load"])
        gc.collect()
        return {}
    return state["case"].run(request["run"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    # Standard output carries the answers alone: everything else goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(reply):
        print(json.dumps(reply), file=answers, flush=True)

    sys.path.insert(0, arguments.folder)
    global torch, cases_basic, cases_perf, harness, init
    try:
        import torch

        import cases_basic
        import cases_perf
        import harness
        import init
    except ImportError as why:
        return say({"absent": str(why)})
    torch.set_num_threads(arguments.threads)
    say({"torch": torch.__version__, "device": "the host"})
    state = {}
    gc.disable()
    for line in sys.stdin:
        try:
            say(answer(json.loads(line), state))
        except Exception as why:
            first = (str(why).splitlines() or [""])[0]
            say({"error": f"{type(why).__name__}: {first}"})


if __name__ == "__main__":
    main()
