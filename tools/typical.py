"""Records programs as people write them in PyTorch, runs them here, and compares every result:

    python tools/typical.py --binary target/debug/millstream

A program is a function that prepares and returns a step, which is recorded as it is: nothing is
named. All have to be recorded and to give PyTorch's results, and every input and output has to have
a name of the program. Those of torchvision are left out where it is not installed.
"""

import argparse
import copy
import importlib.util
import json
import math
import pathlib
import re
import sys
import tempfile
import warnings

import families
import torch
from families import RmsNorm
from millstream.recorder import RecordWarning, record
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

HAS_VISION = importlib.util.find_spec("torchvision") is not None
PROGRAMS = {}
# Small gradients of many layers: PyTorch's own results differ as much without oneDNN.
TOLERANCES = {"residual_network": (1e-2, 1e-3)}


def program(prepare):
    """Adds a program."""
    PROGRAMS[prepare.__name__] = prepare
    return prepare


def of_torchvision(prepare):
    return program(prepare) if HAS_VISION else prepare


def training(model, optimizer, loss):
    """Returns a step of training."""

    def step():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return step


def rotated(x, start):
    """Returns rotary embeddings of queries or keys, in halves."""
    width = x.shape[-1]
    frequencies = 1e4 ** -(torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(start, start + x.shape[-2]).float(), frequencies)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    return x * cos + torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1) * sin


class DecoderLayer(nn.Module):
    """Grouped queries over a cache of fixed length, and a gated layer."""

    def __init__(self, width=32, heads=4, shared=2, longest=32):
        super().__init__()
        self.heads, self.shared, size = heads, shared, width // heads
        self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, shared * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 80, bias=False) for _ in range(2))
        self.down = nn.Linear(80, width, bias=False)
        self.before, self.between = RmsNorm(width), RmsNorm(width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, shared, longest, size), persistent=False)

    def forward(self, x, start):
        y, end = self.before(x), start + x.shape[1]
        q = self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (of(y).unflatten(-1, (self.shared, -1)).transpose(1, 2) for of in (self.k, self.v))
        self.keys[:, :, start:end] = rotated(k, start)
        self.values[:, :, start:end] = v
        y = functional.scaled_dot_product_attention(
            rotated(q, start), self.keys[:, :, :end], self.values[:, :, :end],
            is_causal=x.shape[1] > 1, enable_gqa=True,
        )
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, words=64, layers=2):
        super().__init__()
        self.words, self.norm = nn.Embedding(words, 32), RmsNorm(32)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(layers))
        self.head = nn.Linear(32, words, bias=False)

    def forward(self, tokens, start=0):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x, start)
        return self.head(self.norm(x))


@program
def greedy_generation():
    model, prompt = Decoder().eval(), torch.randint(0, 64, (1, 6))

    @torch.no_grad()
    def step():
        made = [model(prompt)[:, -1].argmax(-1, keepdim=True)]
        for place in range(6, 10):
            made.append(model(made[-1], place)[:, -1].argmax(-1, keepdim=True))
        return torch.cat(made, 1)

    return step


@program
def nucleus_sampling():
    model, tokens = Decoder().eval(), torch.randint(0, 64, (1, 6))

    @torch.no_grad()
    def step():
        scores, order = (model(tokens)[:, -1] / 0.8).sort(-1, descending=True)
        shares = scores.softmax(-1)
        scores[shares.cumsum(-1) - shares > 0.9] = -math.inf
        scores = torch.full_like(scores, -math.inf).scatter(1, order, scores)
        return torch.multinomial(scores.softmax(-1), 3)

    return step


@program
def speculative_decoding():
    draft, model, tokens = Decoder(layers=1).eval(), Decoder().eval(), torch.randint(0, 64, (1, 6))

    @torch.no_grad()
    def step():
        now, drafted = tokens.clone(), []
        for _ in range(3):
            drafted.append(draft(now)[:, -1].softmax(-1))
            now = torch.cat([now, torch.multinomial(drafted[-1], 1)], 1)
        wanted, drafted = model(now)[:, 5:-1].softmax(-1), torch.stack(drafted, 1)
        chosen = now[:, 6:, None]
        ratio = (wanted.gather(2, chosen) / drafted.gather(2, chosen)).squeeze(-1)
        count = int((torch.rand(1, 3) < ratio).long().cumprod(1).sum())
        if count < 3:
            rest = (wanted[:, count] - drafted[:, count]).clamp(min=0)
            rest = torch.multinomial(rest / rest.sum(-1, keepdim=True), 1)
            now = torch.cat([now[:, :6 + count], rest], 1)
        return now

    return step


class Adapter(nn.Module):
    """A layer that does not learn, and a product of two narrow matrices that do."""

    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer, self.drop = layer.requires_grad_(False), nn.Dropout(0.05)
        self.a = nn.Parameter(torch.randn(rank, layer.in_features) * 0.02)
        self.b = nn.Parameter(torch.randn(layer.out_features, rank) * 0.01)

    def forward(self, x):
        return self.layer(x) + 2.0 * (self.drop(x) @ self.a.T) @ self.b.T


@program
def adapters():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    layer.requires_grad_(False)
    layer.linear1, layer.linear2 = Adapter(layer.linear1), Adapter(layer.linear2)
    model = nn.Sequential(layer, nn.Linear(32, 5))
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    x, y = torch.randn(3, 8, 32), torch.randint(0, 5, (3,))

    def step():
        loss = functional.cross_entropy(model(x).mean(1), y, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return loss

    return step


@program
def denoising():
    """A step of diffusion, with an average of the weights."""
    model = nn.Sequential(
        nn.Conv2d(4, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(),
        nn.Conv2d(16, 16, 3, 2, 1), nn.SiLU(), nn.Upsample(scale_factor=2),
        nn.Conv2d(16, 3, 3, padding=1),
    )
    average, optimizer = copy.deepcopy(model), torch.optim.NAdam(model.parameters(), 2e-3)
    kept, x = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0), torch.randn(2, 3, 8, 8)

    def step():
        times, noise = torch.randint(0, 100, (2,)), torch.randn_like(x)
        share = kept[times].view(-1, 1, 1, 1)
        given = share.sqrt() * x + (1 - share).sqrt() * noise
        given = torch.cat([given, (times / 100).view(-1, 1, 1, 1).expand(-1, 1, 8, 8)], 1)
        loss = functional.mse_loss(model(given), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters()):
                slow.lerp_(fast, 0.1)
        return loss

    return step


@program
def speech_features():
    wave, bank = torch.randn(1, 4000), torch.rand(20, 101)
    model = nn.Sequential(nn.Conv1d(20, 16, 3, padding=1), nn.GELU(), nn.Conv1d(16, 16, 3, 2, 1))

    @torch.no_grad()
    def step():
        window = torch.hann_window(200)
        power = torch.stft(wave, 200, 80, window=window, return_complex=True).abs() ** 2
        features = (bank @ power).clamp(min=1e-10).log10()
        return model(torch.maximum(features, features.max() - 8) / 4 + 1)

    return step


@program
def graph_attention():
    nodes, edges, width = 30, 120, 16
    start, end = torch.randint(0, nodes, (edges,)), torch.randint(0, nodes, (edges,))
    x, y = torch.randn(nodes, width), torch.randint(0, 5, (nodes,))
    model = nn.ModuleDict({"in": nn.Linear(width, width), "out": nn.Linear(width, 5)})
    weights = nn.Parameter(torch.randn(2, width))
    optimizer = torch.optim.Adam([*model.parameters(), weights], 0.01)

    def loss():
        h = model["in"](x)
        scores = (h * weights[0]).sum(-1)[start] + (h * weights[1]).sum(-1)[end]
        scores = functional.leaky_relu(scores)
        most = torch.full((nodes,), -1e9).scatter_reduce(0, end, scores, "amax")
        shares = (scores - most[end]).exp()
        total = torch.zeros(nodes).index_add(0, end, shares)
        shares = shares / (total[end] + 1e-9)
        h = torch.zeros(nodes, width).index_add(0, end, shares[:, None] * h[start])
        return functional.cross_entropy(model["out"](functional.elu(h)), y)

    return training(model, optimizer, loss)


@program
def state_space_scan():
    width, states = 8, 4
    model = nn.Linear(width, 2 * states + 1)
    mix = nn.Conv1d(width, width, 4, groups=width, padding=3)
    decay = nn.Parameter(torch.log(torch.arange(1, states + 1.0).repeat(width, 1)))
    x = torch.randn(2, 10, width)

    def step():
        for parameter in (*model.parameters(), *mix.parameters(), decay):
            parameter.grad = None
        u = functional.silu(mix(x.transpose(1, 2))[..., :10].transpose(1, 2))
        time, b, c = model(u).split([1, states, states], -1)
        time = functional.softplus(time)
        keep = torch.exp(-time[..., None] * decay.exp())
        add = time[..., None] * b[:, :, None] * u[..., None]
        state, made = torch.zeros(2, width, states), []
        for place in range(10):
            state = keep[:, place] * state + add[:, place]
            made.append((state * c[:, place, None]).sum(-1))
        loss = torch.stack(made, 1).square().mean()
        loss.backward()
        return loss

    return step


@program
def orthogonal_momentum():
    """Muon: momentum whose matrices a polynomial makes orthogonal, in bf16."""
    model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.ReLU(), nn.Linear(32, 16))
    x = torch.randn(8, 16)
    momenta = [torch.zeros_like(p) for p in model.parameters()]

    def orthogonal(gradient):
        x = gradient.bfloat16()
        x = x / (x.norm() + 1e-7)
        for _ in range(3):
            product = x @ x.T
            x = 3.4445 * x + (-4.775 * product + 2.0315 * product @ product) @ x
        return x

    def step():
        model.zero_grad()
        loss = functional.mse_loss(model(x), x)
        loss.backward()
        with torch.no_grad():
            for parameter, momentum in zip(model.parameters(), momenta):
                momentum.mul_(0.95).add_(parameter.grad)
                change = parameter.grad.add(momentum, alpha=0.95)
                change = orthogonal(change).type_as(change) if change.dim() == 2 else change
                parameter.add_(change, alpha=-0.02)
        return loss

    return step


@program
def mixture_of_experts():
    router = nn.Linear(16, 4, bias=False)
    expert = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
    experts = nn.ModuleList(copy.deepcopy(expert) for _ in range(4))
    x, both = torch.randn(20, 16), nn.ModuleList([router, experts])
    optimizer = torch.optim.SGD(both.parameters(), 0.1, momentum=0.9, nesterov=True)

    def loss():
        scores = router(x).softmax(-1)
        shares, chosen = scores.topk(2, -1)
        shares, out = shares / shares.sum(-1, keepdim=True), torch.zeros_like(x)
        for number, expert in enumerate(experts):
            token, slot = torch.where(chosen == number)
            if token.numel():
                out.index_add_(0, token, expert(x[token]) * shares[token, slot, None])
        uses = functional.one_hot(chosen[:, 0], 4).float().mean(0)
        return (out - x).square().mean() + 0.04 * (uses * scores.mean(0)).sum()

    return training(both, optimizer, loss)


@program
def contrastive_pairs():
    left, right, scale = nn.Linear(8, 16), nn.Linear(12, 16), nn.Parameter(torch.tensor(2.6592))
    a, b = torch.randn(6, 8), torch.randn(6, 12)
    optimizer = torch.optim.RMSprop([*left.parameters(), *right.parameters(), scale])

    def loss():
        u, v = functional.normalize(left(a), dim=-1), functional.normalize(right(b), dim=-1)
        scores, wanted = scale.exp().clamp(max=100) * u @ v.T, torch.arange(6)
        both = (scores, scores.T)
        return sum(functional.cross_entropy(one, wanted) for one in both) / 2

    return training(None, optimizer, loss)


@program
def scaled_gradients():
    """Checkpoints under autocast, gradients scaled, and an optimizer that reads the scaler."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    layers = nn.ModuleList([layer, copy.deepcopy(layer)])
    optimizer = torch.optim.AdamW(layers.parameters(), 1e-3, fused=True, eps=1e-4)
    scaler, x = torch.amp.GradScaler("cpu", init_scale=1024.0), torch.randn(2, 6, 16)

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            h = x
            for layer in layers:
                h = checkpoint(layer, h, use_reentrant=False)
            loss = h.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss

    return step


@program
def packed_sequences():
    model, head = nn.GRU(6, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 4)
    x, lengths, y = torch.randn(4, 9, 6), torch.tensor([9, 7, 4, 2]), torch.randint(0, 4, (4,))

    def step():
        model.zero_grad()
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        out, _ = nn.utils.rnn.pad_packed_sequence(model(packed)[0], batch_first=True)
        loss = functional.cross_entropy(head(out.sum(1) / lengths[:, None]), y)
        loss.backward()
        return loss

    return step


@program
def masked_attention():
    parts = [torch.randn(2, 2, 10, 8, requires_grad=True) for _ in range(3)]
    places, bias = torch.arange(10), torch.randn(2, 10, 10)
    near = (places[:, None] >= places) & (places[:, None] - places < 4)

    def step():
        attention = functional.scaled_dot_product_attention
        out = attention(*parts, attn_mask=near)
        out = out + attention(*parts, attn_mask=bias.masked_fill(~near, -math.inf))
        out.square().mean().backward()
        return out

    return step


@program
def attention_by_functions():
    q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
    slopes = torch.tensor([0.5, 0.25])

    def step():
        causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
        return flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s - slopes[h] * (i - j), block_mask=causal
        )

    return step


@program
def long_convolution():
    x, filters = torch.randn(2, 4, 64), torch.randn(4, 64, requires_grad=True)

    def step():
        filters.grad = None
        spectrum = torch.fft.rfft(x, n=128) * torch.fft.rfft(filters, n=128)
        loss = torch.fft.irfft(spectrum, n=128)[..., :64].square().mean()
        loss.backward()
        return loss

    return step


@program
def gradients_of_samples():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 5, (4,))

    def loss(weights, image, label):
        made = torch.func.functional_call(model, weights, (image[None],))
        return functional.cross_entropy(made, label[None])

    def step():
        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1)
        return {name: torch.einsum("b,b...->...", scale, g) for name, g in each.items()}

    return step


@program
def proximal_policy():
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    value = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    both, count = nn.ModuleList([policy, value]), 12
    optimizer = torch.optim.Adam(both.parameters(), 3e-4, eps=1e-5)
    seen, acted, before = torch.randn(count, 4), torch.randint(0, 3, (count,)), -torch.rand(count)
    reward, ended = torch.randn(count), (torch.rand(count) < 0.1).float()

    def loss():
        with torch.no_grad():
            worth, gain, last = value(seen).squeeze(-1), torch.zeros(count), 0.0
            for time in reversed(range(count - 1)):
                change = reward[time] + 0.99 * worth[time + 1] * (1 - ended[time]) - worth[time]
                last = change + 0.94 * (1 - ended[time]) * last
                gain[time] = last
            goal, gain = gain + worth, (gain - gain.mean()) / (gain.std() + 1e-8)
        actions = torch.distributions.Categorical(logits=policy(seen))
        ratio = (actions.log_prob(acted) - before).exp()
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        error = functional.huber_loss(value(seen).squeeze(-1), goal)
        return 0.5 * error - clipped - 0.01 * actions.entropy().mean()

    return training(both, optimizer, loss)


@program
def distributions():
    mean, spread = torch.randn(5, requires_grad=True), torch.rand(5) + 0.5
    kinds = torch.distributions

    def step():
        normal, counts = kinds.Normal(mean, spread), kinds.Poisson(spread)
        sample = normal.rsample((3,))
        loss = kinds.kl_divergence(normal, kinds.Normal(0.0, 1.0)).sum()
        loss = loss - normal.log_prob(sample).mean()
        loss.backward()
        gamma = kinds.Gamma(spread, 2.0)
        return loss, counts.log_prob(counts.sample()), gamma.log_prob(gamma.sample())

    return step


@program
def target_network():
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target, optimizer = copy.deepcopy(model), torch.optim.Adam(model.parameters(), 1e-3)
    best = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    seen, later, reward = torch.randn(6, 4), torch.randn(6, 4), torch.randn(6)

    def step():
        best.load_state_dict(model.state_dict())
        goal = reward + 0.9 * target(later).detach().max(1).values
        loss = functional.smooth_l1_loss(model(seen).max(1).values, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(target.parameters(), model.parameters()):
            slow.data.copy_(0.9 * slow.data + 0.1 * fast.data)
        return float(loss.detach().numpy())

    return step


@program
def derivatives_of_functions():
    x = torch.randn(3)

    def energy(x):
        return (x.sin() * x.square()).sum()

    def step():
        of = torch.autograd.functional
        return of.jacobian(lambda x: x.exp() * x, x), of.hessian(energy, x), of.vjp(energy, x)[1]

    return step


@program
def whole_numbers():
    """Products and pictures of 8 bits."""
    a, b = (torch.randint(-9, 9, shape).to(torch.int8) for shape in ((20, 16), (16, 8)))
    picture = torch.randint(0, 255, (1, 3, 9, 7)).to(torch.uint8)

    def step():
        smaller = functional.interpolate(picture, size=(5, 4), mode="bilinear", antialias=True)
        return torch._int_mm(a, b), smaller

    return step


@of_torchvision
def found_boxes():
    import torchvision

    corners, scores = torch.rand(40, 4) * 20, torch.rand(40, 3)
    corners[:, 2:] += corners[:, :2]
    features = torch.randn(1, 4, 10, 10)

    def step():
        best, label = scores.max(-1)
        good = best > 0.5
        boxes, best, label = corners[good], best[good], label[good]
        kept = torchvision.ops.batched_nms(boxes, best, label, 0.5)[:10]
        boxes = torchvision.ops.clip_boxes_to_image(boxes[kept], (32, 32))
        parts = torchvision.ops.roi_align(features, [boxes / 4], 3)
        return boxes, best[kept], label[kept], torchvision.ops.box_iou(boxes, boxes), parts

    return step


@of_torchvision
def residual_network():
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    x, y = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    return training(model, optimizer, lambda: functional.cross_entropy(model(x), y))


@of_torchvision
def vision_transformer():
    import torchvision

    model = torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10).eval()
    x = torch.randn(2, 3, 32, 32)

    def step():
        with torch.inference_mode():
            return model(x).softmax(-1).topk(3)

    return step


def checked(binary, name, folder):
    """Records and runs a program; returns what is wrong with it."""
    torch.manual_seed(1)
    # Compilation turns the checks off.
    torch.distributions.Distribution.set_default_validate_args(True)
    step = PROGRAMS[name]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RecordWarning)
            with record(folder, tolerance=TOLERANCES.get(name)):
                kept = step()
    except Exception as error:
        return f"not recorded: {type(error).__name__}: {error}"
    bound = json.loads((folder / "bindings.json").read_text())
    unnamed = [name for name in bound if re.fullmatch(r"(in/input|out/output)\d+", name)]
    if unnamed:
        return f"without names: {unnamed}"
    ok, text = families.run(binary, folder)
    del kept
    return None if ok else f"wrong: {text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", default="target/debug/millstream", help="the built command")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder to keep the recordings in")
    parser.add_argument("programs", nargs="*", help="default: all")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.programs or PROGRAMS:
            wrong = checked(given.binary, name, (given.keep or pathlib.Path(scratch)) / name)
            failed += wrong is not None
            print(f"{name}: {wrong or 'ok'}", flush=True)
    print(f"{len(given.programs or PROGRAMS) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
