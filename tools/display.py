"""Writes tests/tensor/display.json: tensors, and PyTorch's text for each.

    python tools/display.py

A case has a dtype, a shape, and either its elements (as text, since JSON has no infinities; complex
ones as pairs) or the step of a range. The release of PyTorch is that of tools/reference/requirements.txt.
"""

import json
import math
import pathlib

import torch

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
}
FILE = pathlib.Path(__file__).parents[1] / "tests/tensor/display.json"

cases = []


def case(dtype, shape, values):
    tensor = torch.tensor(values, dtype=DTYPES[dtype]).reshape(shape)
    if tensor.is_complex():
        values = [part for v in values for part in (complex(v).real, complex(v).imag)]
    cases.append({
        "dtype": dtype, "shape": shape, "values": [repr(float(v)) for v in values],
        "text": str(tensor),
    })


def steps(dtype, shape, step):
    """A range that starts at minus one step, divided exactly by every binary dtype."""
    count = math.prod(shape)
    tensor = ((torch.arange(count, dtype=torch.float64) - 1) * step).to(DTYPES[dtype])
    cases.append({
        "dtype": dtype, "shape": shape, "step": repr(float(step)),
        "text": str(tensor.reshape(shape)),
    })


inf, nan = math.inf, math.nan
case("f32", [], [1.5])
case("f32", [], [3.0])
case("f64", [], [-0.1])
case("i64", [], [7])
case("bool", [], [1])
case("f32", [3], [1.0, 2.0, 3.0])
case("f32", [4], [1.0, -2.5, 3.25, 1000.125])
case("f32", [3], [0.0, 0.0, -0.0])
case("f32", [4], [inf, nan, 1.0, -2.0])
case("f32", [4], [inf, nan, 1.5, -inf])
case("f32", [2], [nan, inf])
case("f32", [3], [1e-5, 1.0, 2.0])
case("f32", [3], [1e9, 1.0, nan])
case("f32", [3], [1e-30, -2e30, inf])
case("f64", [3], [1e-300, -2e300, 0.5])
case("f32", [2], [1e8, 1e6])
case("f32", [2], [100000000.0, 200000.0])
case("f32", [2], [1.1e8, 1.2e8])
case("f64", [2, 2], [1.0, 2.0, 3.0, 4.0])
case("f16", [2, 2], [0.5, 2.0, -3.25, 65504.0])
case("bf16", [2], [0.1, 3.0])
case("i64", [2, 3], [1, -20, 300, 4, 5, 6])
case("i32", [2], [1, -2])
case("i16", [2], [1, -2])
case("i8", [2], [1, -128])
case("u8", [2], [1, 255])
case("bool", [2, 2], [1, 0, 0, 1])
case("c64", [2], [1 + 2j, 3 - 4j])
case("c64", [2, 2], [1 + 0.5j, -30.25 - 4j, 0, 7j])
case("c64", [3], [complex(inf, nan), complex(-1, -inf), complex(-0.0, -0.0)])
case("c64", [2], [1e-5 + 1j, 2 + 1e9j])
case("c64", [], [1.5 - 2j])
case("c64", [12], [k / 4 - k * 100j for k in range(12)])
case("c128", [2], [1 + 2j, 3 - 4j])
case("c64", [0], [])
case("f32", [0], [])
case("f32", [2, 0, 3], [])
case("i64", [0], [])
case("f32", [1, 1, 1], [2.5])
case("f32", [2, 1, 2, 2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5])
steps("f32", [30], 1.0)
steps("f32", [3, 40], 0.25)
steps("i64", [100], 7)
steps("f64", [2, 3, 4], 0.5)
steps("f32", [1000], 1.0)
steps("f32", [1001], 1.0)
steps("f32", [1001], 0.125)
steps("i64", [40, 40], 3)
steps("i32", [4, 300], 1)
steps("f32", [10, 11, 12], 0.5)
steps("f16", [2, 700], 0.25)
steps("f64", [8, 2, 100], 1000.0)
steps("bool", [1200], 1)
steps("f32", [7, 7, 7, 7], 0.5)
steps("f64", [5], 0.3)
case("u8", [25], [2 * k for k in range(25)])

FILE.write_text(json.dumps(cases, indent=1) + "\n")
print(f"{len(cases)} cases")
