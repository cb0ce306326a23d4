"""Records Millstream's own cases to tests/traces/own, with the release of PyTorch in
tools/reference/requirements.txt:

    python tools/cases/make.py [CASE...]

A case is a file next to this one. Its `prepare` returns the program and the inputs for record.py;
its `OPAQUE`, if there is one, names the ops whose results are saved.
"""

import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "tests/traces/own"
# The maximum size of a case in bytes.
LARGEST = 60_000
LARGE = {"op_samples": 300_000, "complex_samples": 300_000, "gpu_ops": 200_000,
         "inner_results": 110_000}
# The number of roundings of 16-bit results differs in places.
TOLERANCE = {"half_sums": (1e-2, 1e-3), "autocast": (2e-2, 1e-2)}

sys.path[:0] = [str(HERE), str(HERE.parent)]
import record  # noqa: E402

CASES = sorted(f.stem for f in HERE.glob("*.py") if f.stem not in ("make", "mutations", "ranks"))


def make(name):
    case = importlib.import_module(name)
    fn, inputs = case.prepare()
    rtol, atol = TOLERANCE.get(name, (1e-4, 1e-5))
    note = " ".join(case.__doc__.split())
    folder = FOLDER / name
    opaque = getattr(case, "OPAQUE", ())
    record.record_call(folder, fn, inputs, rtol, atol, note=note, compress=True, opaque=opaque)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: {size} bytes")
    if size > LARGE.get(name, LARGEST):
        sys.exit(f"error: {name} is larger than {LARGE.get(name, LARGEST)} bytes")


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        if case not in CASES:
            sys.exit(f"error: no case '{case}'; there are {', '.join(CASES)}")
        make(case)
