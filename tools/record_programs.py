"""Records training steps on a CUDA device with the recorder, for runs on the device and on the
host. tools/gpu_day.sh runs it; by hand:

    PYTHONPATH=python python tools/record_programs.py OUT
"""

import os
import sys
import traceback

import torch
from torch import nn

import millstream

CUDA = "cuda:0"


def step_of(model, optimizer, loss):
    """Returns a step of training."""
    def step():
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()
    return step


def mlp():
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 64)).to(CUDA)
    x, y = torch.randn(32, 256, device=CUDA), torch.randint(0, 64, (32,), device=CUDA)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return step_of(model, optimizer, lambda model: nn.functional.cross_entropy(model(x), y))


def encoder():
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0).to(CUDA)
    x = torch.randn(4, 32, 64, device=CUDA)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return step_of(model, optimizer, lambda model: model(x).square().mean())


def conv():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    ).to(CUDA)
    x = torch.randn(4, 3, 32, 32, device=CUDA)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    return step_of(model, optimizer, lambda model: model(x).square().mean())


def streams():
    side, a, kept = torch.cuda.Stream(), torch.randn(128, 128, device=CUDA), []

    def step():
        b = a @ a
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            c = torch.softmax(b, -1)
        torch.cuda.current_stream().wait_stream(side)
        kept.append((c * b).sum())
    return step


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for prepare, options in [
        (mlp, {}), (encoder, {}), (conv, {}), (streams, {}), (mlp, {"timeline": True}),
    ]:
        name = prepare.__name__ + "".join("_" + option for option in options)
        try:
            torch.manual_seed(7)
            step = prepare()
            # The first step makes the optimizer's state.
            step()
            recording = millstream.record(name, compress=True, **options)
            # The second run gives the timeline.
            for _ in range(1 + len(options)):
                with recording:
                    step()
            print(name, "recorded", flush=True)
        except Exception:
            print(name, "FAILED", traceback.format_exc()[-900:], flush=True)


if __name__ == "__main__":
    main()
