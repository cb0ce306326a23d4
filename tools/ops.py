"""Measures single calls in PyTorch on one thread; `cargo bench -p millstream-kernels --bench ops`
runs it.

Each request on standard input is a line of three fields, separated by tabs: an expression on `x0`,
`x1` and so on; these inputs, separated by semicolons, each as `DTYPE:SHAPE:STRIDES`; and the number
of samples. The answer is one line with the seconds of each sample.
"""

import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {
    "F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "Bool": torch.bool,
}
# The seconds that a sample takes at least.
SAMPLE = 60e-6


def tensor(text):
    dtype, shape, strides = text.split(":")
    dtype, shape, strides = DTYPES[dtype], eval(shape), eval(strides)
    made = torch.empty_strided(shape, strides, dtype=dtype)
    if dtype.is_floating_point:
        return made.copy_(torch.rand(shape) * 2 - 1)
    return made.copy_(torch.randint(0, 2 if dtype == torch.bool else 7, shape))


def repeated(run, times):
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    last = None
    with torch.inference_mode():
        for line in sys.stdin:
            expression, inputs, count = line.rstrip("\n").split("\t")
            if last != (expression, inputs):
                last = (expression, inputs)
                names = {f"x{k}": tensor(text) for k, text in enumerate(inputs.split(";"))}
                names |= {"torch": torch, "F": F, "a": torch.ops.aten}
                run = eval(f"lambda {', '.join(f'{k}={k}' for k in names)}: {expression}", names)
                run()
                times = 1
                while (taken := repeated(run, times) * times) < SAMPLE:
                    times = int(times * min(16, max(1.2, SAMPLE / taken))) + 1
            run()
            print(*(repr(repeated(run, times)) for _ in range(int(count))), flush=True)


if __name__ == "__main__":
    main()
