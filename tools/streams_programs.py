"""Records small programs of several CUDA streams, right and wrong ones, for `millstream verify`.

    python tools/streams_programs.py OUT [CASE...]

Needs a CUDA device. For each case there are two folders:
    OUT/streams/CASE    what the program does with its streams
    OUT/record/CASE     the profiler's timeline with its execution trace
The field `verdict` of their meta.json is the right one.
"""

import json
import pathlib
import sys
import traceback

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import millstream  # noqa: E402

dev = torch.device("cuda:0")
CASES = {}


def case(note, verdict):
    def add(prepare):
        CASES[prepare.__name__] = (prepare, note, verdict)
        return prepare
    return add


def busy(cycles=200_000):
    torch.cuda._sleep(cycles)


@case("a sum on a side stream reads a product of the default stream without a wait",
      "race: sum reads b while mm may write it")
def missing_wait():
    s, a = torch.cuda.Stream(), torch.randn(512, 512, device=dev)
    def step():
        b = a @ a
        with torch.cuda.stream(s):
            c = b.sum()
        torch.cuda.synchronize()
        return c
    return step


@case("the same with wait_stream in both directions", "no race")
def with_wait():
    s, a = torch.cuda.Stream(), torch.randn(512, 512, device=dev)
    def step():
        b = a @ a
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            c = b.sum()
        torch.cuda.current_stream().wait_stream(s)
        return c + 1
    return step


@case("a tensor of the default stream is read on a side stream, deleted on the host, and its "
      "memory given to the next op of the default stream: no record_stream",
      "race: the second add writes t's memory while conv2d and add on the side stream may read "
      "it")
def no_record_stream():
    s = torch.cuda.Stream()
    x, mess = (torch.randn(10, 32, 32, 32, device=dev) for _ in range(2))
    w = torch.randn(32, 32, 3, 3, device=dev)
    def step():
        t = x + 1
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            busy()
            c = torch.nn.functional.conv2d(t, w)
            u = t + 1
        del t
        m = mess + 1
        torch.cuda.current_stream().wait_stream(s)
        return u.sum() + m.sum() + c.sum()
    return step


@case("the same with record_stream", "no race")
def record_stream():
    s = torch.cuda.Stream()
    x, mess = (torch.randn(10, 32, 32, 32, device=dev) for _ in range(2))
    def step():
        t = x + 1
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            u = t * 2
            t.record_stream(s)
        del t
        m = mess + 1
        torch.cuda.current_stream().wait_stream(s)
        return u.sum() + m.sum()
    return step


def _prefetch(missing):
    copy = torch.cuda.Stream()
    host = [torch.randn(256, 1024).pin_memory() for _ in range(6)]
    w = torch.randn(1024, 1024, device=dev)
    buffers = [torch.empty(256, 1024, device=dev) for _ in range(2)]
    def step():
        main = torch.cuda.current_stream()
        ready, done = ([torch.cuda.Event() for _ in host] for _ in range(2))
        total = torch.zeros((), device=dev)
        for i, h in enumerate(host):
            with torch.cuda.stream(copy):
                if i >= 2 and i != missing:
                    copy.wait_event(done[i - 2])
                buffers[i % 2].copy_(h, non_blocking=True)
                ready[i].record(copy)
            main.wait_event(ready[i])
            total = total + torch.relu(buffers[i % 2] @ w).mean()
            done[i].record(main)
        return total.item()
    return step


@case("double-buffered copies from pinned memory on a copy stream, events both ways", "no race")
def prefetch():
    return _prefetch(None)


@case("the same; the copy of batch 3 does not wait for batch 1's product",
      "race: copy_ writes buffer 1 while mm of batch 1 may read it")
def prefetch_missing_done():
    return _prefetch(3)


@case("an event is recorded again after the wait on it was issued: the wait is for the first "
      "record",
      "race: sum reads b; the wait covers only the work before the first record")
def event_recorded_twice():
    s, a = torch.cuda.Stream(), torch.randn(512, 512, device=dev)
    def step():
        main, e = torch.cuda.current_stream(), torch.cuda.Event()
        c = a + 1
        e.record(main)
        s.wait_event(e)
        b = a @ a
        e.record(main)
        with torch.cuda.stream(s):
            d = b.sum()
        main.wait_stream(s)
        return d + c.sum()
    return step


@case("the host reads a pinned tensor before a non_blocking copy into it has ended",
      "race: the host reads pinned while the copy may write it")
def early_read():
    x, pinned = torch.randn(1 << 20, device=dev), torch.empty(1 << 20, pin_memory=True)
    def step():
        pinned.copy_(x * 2, non_blocking=True)
        z = pinned.sum()
        torch.cuda.synchronize()
        return z
    return step


@case("the same after an event's synchronize", "no race")
def read_after_event():
    x, pinned = torch.randn(1 << 20, device=dev), torch.empty(1 << 20, pin_memory=True)
    def step():
        e = torch.cuda.Event()
        pinned.copy_(x * 2, non_blocking=True)
        e.record()
        e.synchronize()
        return pinned.sum()
    return step


def _branches(missing):
    streams = [torch.cuda.Stream() for _ in range(3)]
    x = torch.randn(1024, 1024, device=dev)
    ws = [torch.randn(1024, 1024, device=dev) for _ in range(3)]
    def step():
        main, e, ys = torch.cuda.current_stream(), torch.cuda.Event(), []
        e.record(main)
        for s, w in zip(streams, ws):
            with torch.cuda.stream(s):
                s.wait_event(e)
                y = x
                for _ in range(4):
                    y = torch.tanh(y @ w)
                y.record_stream(main)
                ys.append(y)
        for k, s in enumerate(streams):
            if k != missing:
                main.wait_stream(s)
        return sum(ys).mean()
    return step


@case("three branches on three streams, joined", "no race")
def branches():
    return _branches(None)


@case("the same; the second branch is not joined", "race: the sum reads the second branch's tanh")
def branches_missing_join():
    return _branches(1)


@case("a bucket of gradients is reduced on a side stream by hooks during the backward pass, "
      "joined before the step",
      "no race")
def hooks():
    s = torch.cuda.Stream()
    m = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))).to(dev)
    x = torch.randn(64, 256, device=dev)
    def hook(p):
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            p.grad.mul_(0.5)
    for p in m.parameters():
        p.register_post_accumulate_grad_hook(hook)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    def step():
        opt.zero_grad(set_to_none=False)
        m(x).square().mean().backward()
        torch.cuda.current_stream().wait_stream(s)
        opt.step()
    return step


@case("a training step captured as a CUDA graph and replayed", "no race")
def graph():
    s = torch.cuda.Stream()
    x = torch.randn(64, 256, device=dev)
    m = torch.nn.Sequential(
        torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 10)
    ).to(dev)
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    def train():
        opt.zero_grad(set_to_none=False)
        loss = m(x).square().mean()
        loss.backward()
        opt.step()
        return loss
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(3):
            train()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        loss = train()
    def step():
        g.replay()
        return loss.item()
    return step


def _train(fused=False, bf16=False):
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.1).to(dev)
    head = torch.nn.Linear(128, 64).to(dev)
    params = [*layer.parameters(), *head.parameters()]
    opt = torch.optim.AdamW(params, lr=1e-3, fused=fused)
    x, y = torch.randn(8, 64, 128, device=dev), torch.randint(0, 64, (8, 64), device=dev)
    def step():
        opt.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            logits = head(layer(x))
        torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), y.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
    return step


@case("a training step of a transformer layer with dropout, clipping, AdamW", "no race")
def train_adamw():
    return _train()


@case("the same with fused AdamW", "no race")
def train_fused():
    return _train(fused=True)


@case("the same under bf16 autocast", "no race")
def train_bf16():
    return _train(bf16=True)


def recorded(folder, name, kind):
    """Records a case, and returns how it went."""
    prepare, note, verdict = CASES[name]
    folder = folder / kind / name
    try:
        torch.manual_seed(1)
        step = prepare()
        for _ in range(2):
            step()
        torch.cuda.synchronize()
        if kind == "streams":
            with millstream.streams(folder):
                step()
        else:
            recording = millstream.record(folder, note=note, timeline=True)
            for _ in range(2):
                with recording:
                    step()
            # The elements of all tensors take the most room, and no verdict needs them.
            for path in folder.iterdir():
                if not path.name.startswith(("timeline", "meta")):
                    path.unlink()
        torch.cuda.synchronize()
        outcome = "recorded"
    except Exception:
        folder.mkdir(parents=True, exist_ok=True)
        outcome = traceback.format_exc()[-1500:]
    path = folder / "meta.json"
    meta = json.loads(path.read_text()) if path.exists() else {"note": note}
    meta |= {"verdict": verdict, "outcome": outcome, "device": torch.cuda.get_device_name(0)}
    path.write_text(json.dumps(meta, indent=1) + "\n")
    return outcome


def main():
    out, wanted = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    for kind in ("streams", "record"):
        for name in wanted:
            print(kind, name, recorded(out, name, kind), flush=True)


if __name__ == "__main__":
    main()
