"""Generates a training in 16-bit floats with PyTorch: python tools/reference/autocast.py.

A network of three layers is trained with autocast and a scaler of gradients, on the CPU. The file
has the initial parameters, the data, and for each step the loss and the scale; and the parameters
at the end. The first scale is too great for f16, so that some steps are left out.
"""

import json
import pathlib

import torch

FILE = pathlib.Path(__file__).parents[2] / "tests/tensor/autocast.json"
STEPS = 12
WIDTHS = [4, 16, 16, 2]

torch.manual_seed(0)
x = torch.randn(8, WIDTHS[0])
y = torch.randn(8, WIDTHS[-1])
initial = []
for rows, columns in zip(WIDTHS[1:], WIDTHS):
    initial += [torch.randn(rows, columns) / columns ** 0.5, torch.randn(rows) / 4]


def rounded(values):
    return [float(f"{v:.9g}") for v in values.flatten().tolist()]


def train(dtype, init_scale):
    weights = [w.clone().requires_grad_() for w in initial]
    optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=4)
    losses, scales = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            h = torch.nn.functional.linear(x, weights[0], weights[1]).tanh()
            h = torch.nn.functional.linear(h, weights[2], weights[3]).relu()
            h = torch.nn.functional.linear(h, weights[4], weights[5])
            loss = torch.nn.functional.mse_loss(h, y)
        assert h.dtype == dtype and loss.dtype == torch.float32
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return {"init_scale": init_scale, "losses": [float(f"{v:.9g}") for v in losses],
            "scales": scales, "weights": [rounded(w) for w in weights]}


found = {
    "x": rounded(x), "y": rounded(y), "initial": [rounded(w) for w in initial],
    "shapes": [list(w.shape) for w in initial],
    "bf16": train(torch.bfloat16, 1024.0), "f16": train(torch.float16, 2.0 ** 24),
}
lines = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in found.items())
FILE.write_text(f"{{\n{lines}\n}}\n")
