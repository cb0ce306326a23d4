"""Trains small models of twelve families in PyTorch, records two steps of each, runs them here, and
compares every parameter, gradient, buffer, optimizer state and loss:

    python tools/families.py --binary target/release/millstream

Each model is trained with dropout and clipped gradients, in f32 and under bf16 autocast, by AdamW
and by SGD. The decoder with rotary embeddings also generates, with a cache. The tolerance under
autocast is that of bf16, since sums in another order round to other numbers of 8 bits.

AdamW runs with an eps of 1e-4. Some gradients are zero but for rounding: that of a bias before a
batch norm, and of the bias of attention's keys. With the default eps the step scales this rounding
to the size of the learning rate, in PyTorch as here.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from millstream.recorder import record  # noqa: E402

TOLERANCES = {"f32": (2e-3, 2e-4), "bf16": (5e-2, 2e-2)}
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, eps=1e-4),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, nesterov=True),
}
STEPS = 2


class Block(nn.Module):
    """Two convolutions with batch norms, beside a shorter way."""

    def __init__(self, given, made):
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(given, made, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(made),
            nn.ReLU(inplace=True), nn.Conv2d(made, made, 3, padding=1), nn.BatchNorm2d(made),
        )
        self.short = nn.Sequential(nn.Conv2d(given, made, 1, stride=2), nn.BatchNorm2d(made))

    def forward(self, x):
        return functional.relu(self.way(x) + self.short(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1), Block(8, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Dropout(0.2), nn.Linear(16, 5),
        )

    def loss(self):
        return functional.cross_entropy(self.net(torch.randn(4, 3, 32, 32)), torch.arange(4))


class ViT(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, stride=8)
        self.first = nn.Parameter(torch.zeros(1, 1, 16))
        self.places = nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        self.drop = nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(
            16, 4, 32, 0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.layers(self.drop(x))[:, 0])

    def loss(self):
        out = self(torch.randn(2, 3, 32, 32))
        return functional.cross_entropy(out, torch.tensor([1, 3]), label_smoothing=0.1)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16, padding_idx=0), nn.Embedding(12, 16)
        self.kinds, self.norm, self.drop = nn.Embedding(2, 16), nn.LayerNorm(16), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.1, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 50)

    def loss(self):
        words = torch.randint(1, 50, (3, 12))
        kinds = (torch.arange(12) >= 6).long().expand(3, -1)
        absent = torch.arange(12) >= torch.tensor([12, 9, 7])[:, None]
        x = self.words(words) + self.places(torch.arange(12)) + self.kinds(kinds)
        x = self.layers(self.drop(self.norm(x)), src_key_padding_mask=absent)
        wanted = words.masked_fill(torch.arange(12) % 4 != 1, -100)
        return functional.cross_entropy(self.head(x).flatten(0, 1), wanted.flatten())


class CausalLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width),
            nn.Dropout(0.1),
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in (q, k, v))
        x = x + self.out(
            functional.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
            .transpose(1, 2).flatten(2)
        )
        return x + self.wide(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(40, 16), nn.Embedding(10, 16)
        self.layers = nn.Sequential(nn.Dropout(0.1), CausalLayer(16), CausalLayer(16))
        self.norm = nn.LayerNorm(16)

    def loss(self):
        words = torch.randint(0, 40, (2, 11))
        x = self.words(words[:, :-1]) + self.places.weight
        x = functional.linear(self.norm(self.layers(x)), self.words.weight)
        return functional.cross_entropy(x.flatten(0, 1), words[:, 1:].flatten())


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return wide.type_as(x) * self.weight


def rotated(x, angles):
    """Rotates pairs of elements, as products of complex numbers."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    turns = torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


class Decoder(nn.Module):
    """Grouped queries, rotary embeddings, gated layers: the family of Llama."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.norms = nn.ModuleList(RmsNorm(16) for _ in range(3))
        self.q, self.kv = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.out, self.head = nn.Linear(16, 16, bias=False), nn.Linear(16, 40, bias=False)
        self.gate, self.up = nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False)
        self.down, self.drop = nn.Linear(32, 16, bias=False), nn.Dropout(0.1)

    def forward(self, words, cache=None):
        x, done = self.words(words), 0 if cache is None else cache[0].shape[2]
        y = self.norms[0](x)
        q = self.q(y).unflatten(-1, (4, 4)).transpose(1, 2)
        k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.kv(y).chunk(2, -1))
        places = torch.arange(done, done + words.shape[1], dtype=torch.float32)
        angles = torch.outer(places, 1.0 / 100.0 ** (torch.arange(2) / 2))
        q, k = rotated(q, angles), rotated(k, angles)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = functional.scaled_dot_product_attention(
            q, k, v, is_causal=words.shape[1] > 1, enable_gqa=True
        )
        x = x + self.drop(self.out(y.transpose(1, 2).flatten(2)))
        y = self.norms[1](x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return self.head(self.norms[2](x)), (k, v)

    def loss(self):
        words = torch.randint(0, 40, (2, 9))
        out, _ = self(words[:, :-1])
        return functional.cross_entropy(out.flatten(0, 1).float(), words[:, 1:].flatten())

    @torch.no_grad()
    def generate(self):
        self.eval()
        words = torch.randint(0, 40, (2, 5))
        out, cache = self(words)
        for _ in range(3):
            words = out[:, -1:].argmax(-1)
            out, cache = self(words, cache)
        return out


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 10, num_layers=2, dropout=0.2, batch_first=True)
        self.gru = nn.GRU(10, 6, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 4)

    def loss(self):
        x, _ = self.lstm(self.words(torch.randint(0, 30, (3, 7))))
        x, last = self.gru(x)
        loss = functional.cross_entropy(self.head(x.mean(1)), torch.arange(3))
        return loss + last.square().mean()


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.ELU(), nn.Conv2d(8, 8, 4, 2, 1), nn.ELU(), nn.Flatten(),
            nn.Dropout(0.1), nn.Linear(8 * 16, 8),
        )
        self.decode = nn.Sequential(
            nn.Linear(4, 8 * 16), nn.Unflatten(1, (8, 4, 4)), nn.ConvTranspose2d(8, 8, 4, 2, 1),
            nn.ELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1),
        )

    def loss(self):
        x = torch.rand(3, 1, 16, 16)
        mean, log = self.encode(x).chunk(2, 1)
        out = self.decode(mean + torch.exp(0.5 * log) * torch.randn_like(mean))
        near = functional.binary_cross_entropy_with_logits(out, x)
        return near - 0.05 * (1 + log - mean.square() - log.exp()).mean()


class Dcgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.make = nn.Sequential(
            nn.ConvTranspose2d(6, 8, 4), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh(),
        )
        self.judge = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Dropout2d(0.2),
            nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.LeakyReLU(0.2, True), nn.Conv2d(8, 1, 2),
        )

    def loss(self):
        made = self.make(torch.randn(4, 6, 1, 1))
        right, wrong = torch.ones(4), torch.zeros(4)
        judged = functional.binary_cross_entropy_with_logits
        real = judged(self.judge(torch.randn(4, 3, 8, 8)).flatten(), right)
        return real + judged(self.judge(made.detach()).flatten(), wrong) + \
            judged(self.judge(made).flatten(), right)


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 4, stride=4)
        self.deep = nn.ModuleList(nn.Conv2d(12, 12, 7, padding=3, groups=12) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(12, eps=1e-6) for _ in range(2))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 12)) for _ in range(2)
        )
        self.scale = nn.ParameterList(nn.Parameter(torch.full((12,), 0.1)) for _ in range(2))
        self.head = nn.Linear(12, 5)

    def loss(self):
        x = self.stem(torch.randn(4, 3, 32, 32))
        for deep, norm, wide, scale in zip(self.deep, self.norm, self.wide, self.scale):
            y = wide(norm(deep(x).permute(0, 2, 3, 1))) * scale
            kept = torch.empty(4, 1, 1, 1).bernoulli_(0.8) / 0.8
            x = x + y.permute(0, 3, 1, 2) * kept
        return functional.cross_entropy(self.head(x.mean((-2, -1))), torch.arange(4))


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.images, self.texts = ViT(8), nn.Sequential(nn.Dropout(0.1), CausalLayer(16))
        self.words, self.head = nn.Embedding(30, 16), nn.Linear(16, 8, bias=False)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def loss(self):
        words = torch.randint(0, 30, (3, 6))
        texts = self.texts(self.words(words))[torch.arange(3), words.argmax(-1)]
        texts = functional.normalize(self.head(texts), dim=-1)
        images = functional.normalize(self.images(torch.randn(3, 3, 32, 32)), dim=-1)
        out, wanted = self.scale.exp().clamp(max=100) * images @ texts.t(), torch.arange(3)
        rows = functional.cross_entropy(out, wanted)
        return (rows + functional.cross_entropy(out.t(), wanted)) / 2


class Unet(nn.Module):
    """A denoising net with an embedding of the time."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1)
        self.norms = nn.ModuleList(nn.GroupNorm(2, 8) for _ in range(2))
        self.middle, self.drop = nn.Conv2d(8, 8, 3, padding=1), nn.Dropout(0.1)
        self.last = nn.Conv2d(16, 3, 3, padding=1)

    def loss(self):
        x, noise = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 16, 16)
        at = torch.randint(0, 100, (2,))
        share = torch.cos(at / 100 * math.pi / 2)[:, None, None, None]
        angles = at[:, None] * torch.exp(torch.arange(4) * -1.0)
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        first = self.first(share * x + (1 - share.square()).sqrt() * noise)
        y = functional.silu(self.norms[0](self.down(first)) + time[:, :, None, None])
        y = self.drop(functional.silu(self.norms[1](self.middle(y))))
        y = functional.interpolate(y, scale_factor=2.0, mode="nearest")
        return functional.mse_loss(self.last(torch.cat([first, y], 1)), noise)


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.EmbeddingBag(40, 8, mode="mean"), nn.Embedding(30, 8)
        self.left = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8))
        self.right = nn.Sequential(
            nn.Linear(8, 16), nn.PReLU(), nn.BatchNorm1d(16), nn.Linear(16, 8)
        )

    def loss(self):
        users = self.left(self.users(torch.randint(0, 40, (12,)), torch.tensor([0, 3, 4, 9])))
        items = self.right(self.items(torch.randint(0, 30, (4,))))
        score = functional.cosine_similarity(users, items)
        among = functional.cross_entropy(users @ items.t() / 8**0.5, torch.arange(4))
        return among + functional.margin_ranking_loss(score, score.flip(0), torch.ones(4), 0.1)


FAMILIES = {
    "resnet": ResNet, "vit": ViT, "bert": Bert, "gpt": Gpt, "decoder": Decoder,
    "recurrent": Recurrent, "vae": Vae, "dcgan": Dcgan, "convnext": ConvNext, "clip": Clip,
    "unet": Unet, "two_towers": TwoTowers,
}


def autocast(precision):
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")


def train(family, precision, optimizer, folder):
    model = FAMILIES[family]()
    steps = OPTIMIZERS[optimizer](model.parameters())
    with record(folder, model, tolerance=TOLERANCES[precision]):
        for _ in range(STEPS):
            steps.zero_grad()
            with autocast(precision):
                loss = model.loss()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()


def generate(precision, folder):
    model = FAMILIES["decoder"]()
    with record(folder, model, tolerance=TOLERANCES[precision]), autocast(precision):
        out = model.generate()
    return out


def programs(chosen):
    """Returns the name of each program and the function that records it."""
    for family in filter(re.compile(chosen).search, FAMILIES):
        for precision in TOLERANCES:
            for optimizer in OPTIMIZERS:
                yield f"{family} {precision} {optimizer}", (
                    lambda folder, at=(family, precision, optimizer): train(*at, folder)
                )
            if family == "decoder":
                yield f"{family} {precision} generate", (
                    lambda folder, precision=precision: generate(precision, folder)
                )


def run(binary, folder):
    """Returns whether the results are PyTorch's, and what to say of the run."""
    report = folder / "report.json"
    command = [binary, "run", folder, "--report", report]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not report.exists():
        return False, done.stderr.strip()
    entry = json.loads(report.read_text().splitlines()[0])
    wrong = [o["name"] for o in entry["outputs"] if not o["ok"]]
    failures = [str(f) for f in entry.get("failures", [])]
    count = len(entry["outputs"])
    return entry["ok"], f"{count} results" if entry["ok"] else ", ".join(failures or wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", default="target/debug/millstream", help="the built command")
    names = ", ".join(FAMILIES)
    parser.add_argument("--families", default="", help=f"a regular expression of {names}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder to keep the recordings in")
    given = parser.parse_args()
    failed = total = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in programs(given.families):
            folder = (given.keep or pathlib.Path(scratch)) / name.replace(" ", "_")
            torch.manual_seed(given.seed)
            make(folder)
            ok, text = run(given.binary, folder)
            total, failed = total + 1, failed + (not ok)
            print(f"{name}: {'ok' if ok else 'NOT OK'}, {text}", flush=True)
    print(f"{total - failed} of {total} programs give PyTorch's results")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
