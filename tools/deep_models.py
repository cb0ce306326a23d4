"""Records the two programs of tests/traces/pytorch with many layers, on which memory budgets are
tested: a step of SGD of GPT-2 with 12 layers, and one of ResNet-50, both narrow.

    python tools/deep_models.py

Activations, not weights, take most of their memory, as in the full models.
"""

import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
import millstream  # noqa: E402

WIDTH, HEADS, TOKENS, BATCH, VOCABULARY, LAYERS = 32, 2, 16, 8, 61, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        heads = (BATCH, TOKENS, HEADS, WIDTH // HEADS)
        q, k, v = (t.view(heads).transpose(1, 2) for t in self.qkv(self.ln1(x)).split(WIDTH, 2))
        scores = (q @ k.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        x = x + self.o((weights @ v).transpose(1, 2).contiguous().view(BATCH, TOKENS, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)

    def forward(self, ids, pos, mask):
        x = self.wte(ids) + self.wpe(pos)
        for block in self.h:
            x = block(x, mask)
        return self.ln(x) @ self.wte.weight.t()


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.c2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.b2 = nn.BatchNorm2d(width)
        self.c3, self.b3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu, self.down = nn.ReLU(inplace=True), None
        if stride > 1 or inputs != 4 * width:
            shortcut = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.down = nn.Sequential(shortcut, nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.relu(self.b1(self.c1(x)))
        y = self.b3(self.c3(self.relu(self.b2(self.c2(y)))))
        y += x if self.down is None else self.down(x)
        return self.relu(y)


class ResNet50(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.c, self.b = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        layers, inputs = [], width
        for k, count in enumerate((3, 4, 6, 3)):
            for j in range(count):
                layers.append(Bottleneck(inputs, width << k, 2 if j == 0 and k > 0 else 1))
                inputs = 4 * (width << k)
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(inputs, 10)

    def forward(self, x):
        x = self.layers(self.pool(self.relu(self.b(self.c(x)))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def recorded(name, note, tolerance):
    folder = ROOT / "tests/traces/pytorch" / name
    return millstream.trace(folder, compress=True, note=note, tolerance=tolerance)


def step(model, loss, rate):
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-rate)
            p.grad = None


def gpt2():
    torch.manual_seed(11)
    model, targets = GPT(), torch.randint(VOCABULARY, (BATCH, TOKENS))
    inputs = {
        "ids": torch.randint(VOCABULARY, (BATCH, TOKENS)),
        "pos": torch.arange(TOKENS),
        "mask": torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool), 1),
    }
    note = f"a step of SGD of GPT-2 with {LAYERS} layers, {WIDTH} wide"
    with recorded("gpt2_12layer_train", note, (1e-3, 1e-4)) as t:
        t.inputs(model.named_parameters())
        t.inputs(inputs.items())
        t.input("tgt", targets)
        loss = F.cross_entropy(model(**inputs).view(-1, VOCABULARY), targets.view(-1))
        step(model, loss, 0.1)
        t.output("loss", loss)
        t.output("wpe", model.wpe.weight)
        t.output("first", model.h[0].qkv.weight)


def resnet50():
    torch.manual_seed(12)
    model, x, y = ResNet50(), torch.randn(4, 3, 32, 32), torch.tensor([1, 7, 3, 0])
    # Twice the distance of PyTorch's own results: the first weight differs by 1.4e-3 without
    # oneDNN, and by as much from f64.
    note = "a step of SGD of ResNet-50, a sixteenth as wide"
    with recorded("resnet50_train", note, (1e-2, 3e-3)) as t:
        t.inputs(model.named_parameters())
        t.inputs(model.named_buffers())
        t.input("x", x)
        t.input("y", y)
        image = F.interpolate(x, size=(128, 128), mode="bilinear", align_corners=False)
        loss = F.cross_entropy(model(image), y)
        step(model, loss, 0.01)
        t.output("loss", loss)
        t.output("first", model.c.weight)
        t.output("running", model.b.running_mean)


if __name__ == "__main__":
    torch.set_num_threads(1)
    gpt2()
    resnet50()
