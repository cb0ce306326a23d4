"""Checks programs of several streams on a device that is made up: PyTorch's callbacks are called as
its CUDA builds call them, and the memory is the host's."""

import contextlib
import itertools
import pathlib
import re
import weakref
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import millstream as ms  # noqa: E402
from millstream.recorder import devices  # noqa: E402
from torch.cuda import _gpu_trace as told  # noqa: E402


class Device:
    """A device with an allocator that gives the last block of a size and a stream out again."""

    def __init__(self):
        self.stream, self.new, self.free = 0, itertools.count(1 << 20, 1 << 12), {}
        self.host, self.pinned, self.addresses, self.total, self.events = set(), set(), {}, 0, 0
        self.call, self.noted = devices.Streams.call, None

    def device_of(self, tensor):
        return "cpu" if tensor.untyped_storage()._cdata in self.host else "cuda:0"

    def address_of(self, storage):
        return self.addresses.get(storage._cdata, storage.data_ptr())

    def tensor(self, *shape):
        """Returns a tensor that exists before the recording."""
        made = torch.randn(*shape)
        self.addresses[made.untyped_storage()._cdata] = next(self.new)
        return made

    def on_host(self, *shape, pinned=True):
        made = torch.randn(*shape)
        self.host.add(made.untyped_storage()._cdata)
        if pinned:
            self.pinned.add(made.untyped_storage()._cdata)
        return made

    def run(self, streams, func, args, kwargs, of=None):
        def called(*args, **kwargs):
            results = func(*args, **kwargs)
            given = devices.tensors_in((args, kwargs))
            for tensor in devices.tensors_in(results):
                if given and all(self.device_of(t) == "cpu" for t in given):
                    self.host.add(tensor.untyped_storage()._cdata)
                elif self.device_of(tensor) != "cpu":
                    self.allocate(tensor)
            return results

        self.noted, called._schema = streams, func._schema
        return self.call(streams, called, args, kwargs, of)

    def allocate(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata in self.addresses:
            return
        size, stream = storage.nbytes(), self.stream
        blocks = self.free.setdefault((size, stream), [])
        address = blocks.pop() if blocks else next(self.new)
        self.addresses[storage._cdata] = address
        self.total += size
        told.MemoryAllocationCallbacks.fire_callbacks(address)

        def free():
            told.MemoryDeallocationCallbacks.fire_callbacks(address)
            self.total -= size
            self.addresses.pop(storage._cdata)
            blocks.append(address)

        weakref.finalize(tensor, free)

    @contextlib.contextmanager
    def on(self, stream):
        before, self.stream = self.stream, stream
        yield
        self.stream = before

    def record(self, stream):
        self.events += 1
        told.EventRecordCallbacks.fire_callbacks(self.events, stream)
        return self.events

    def wait(self, stream, other):
        told.EventWaitCallbacks.fire_callbacks(self.record(other), stream)

    def use(self, tensor, stream):
        # `Tensor.record_stream` needs a device.
        noted = self.noted
        noted.note("use", storage=noted.storage(tensor), stream=noted.stream(stream))


def missing_wait(d):
    a = d.tensor(8, 8)
    yield
    b = a @ a
    with d.on(7):
        yield b.sum()


def with_wait(d):
    a = d.tensor(8, 8)
    yield
    b = a @ a
    d.wait(7, 0)
    with d.on(7):
        c = b.sum()
    d.wait(0, 7)
    yield c + 1


def event_recorded_twice(d):
    a = d.tensor(8, 8)
    yield
    d.events = 100
    told.EventRecordCallbacks.fire_callbacks(1, 0)
    told.EventWaitCallbacks.fire_callbacks(1, 7)
    b = a @ a
    told.EventRecordCallbacks.fire_callbacks(1, 0)
    with d.on(7):
        yield b.sum()


def reused(d, named):
    x, mess = d.tensor(8, 8), d.tensor(8, 8)
    yield
    t = x + 1
    d.wait(7, 0)
    with d.on(7):
        u = t * 2
        if named:
            d.use(t, 7)
    del t
    m = mess + 1
    d.wait(0, 7)
    yield u.sum() + m.sum()


def no_record_stream(d):
    return reused(d, False)


def record_stream(d):
    return reused(d, True)


def host(d, after):
    x, pinned = d.tensor(64), d.on_host(64)
    yield
    pinned.copy_(x * 2, non_blocking=True)
    after(d)
    yield pinned.sum()


def early_read(d):
    return host(d, lambda d: None)


def read_after_event(d):
    synchronize = told.EventSynchronizationCallbacks.fire_callbacks
    return host(d, lambda d: synchronize(d.record(0)))


def read_after_device(d):
    return host(d, lambda d: told.DeviceSynchronizationCallbacks.fire_callbacks())


def read_after_other_stream(d):
    return host(d, lambda d: told.StreamSynchronizationCallbacks.fire_callbacks(7))


def overwritten_early(d):
    x, pinned = d.tensor(64), d.on_host(64)
    yield
    x.copy_(pinned, non_blocking=True)
    yield pinned.zero_()


def pageable(d):
    x, source = d.tensor(64), d.on_host(64, pinned=False)
    yield
    x.copy_(source, non_blocking=True)
    source.zero_()
    source.copy_(x * 2, non_blocking=True)
    yield source.sum()


def needless(d):
    a = d.tensor(8, 8)
    yield
    with d.on(7):
        b = a @ a
    d.wait(0, 7)
    yield b, a + 1


def attention(d):
    """Autograd detaches results of attention with dropout; PyTorch names plain tensors for it."""
    layer, x = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), d.tensor(2, 4, 8)
    yield
    with torch.enable_grad():
        loss = layer(x).square().mean()
        loss.backward()
    yield loss


def fetched(d, missing):
    """Two buffers are filled on a copy stream: each waits for the use of what it held."""
    batches, w = [d.on_host(4, 8) for _ in range(6)], d.tensor(8, 8)
    buffers = [d.tensor(4, 8) for _ in range(2)]
    wait, total, done = told.EventWaitCallbacks.fire_callbacks, 0, []
    yield
    for k, batch in enumerate(batches):
        with d.on(7):
            if k >= 2 and k != missing:
                wait(done[k - 2], 7)
            buffers[k % 2].copy_(batch, non_blocking=True)
        d.wait(0, 7)
        total = total + (buffers[k % 2] @ w).relu().mean()
        done.append(d.record(0))
    yield total


def prefetch(d):
    return fetched(d, None)


def prefetch_missing_done(d):
    return fetched(d, 3)


def joined(d, missing):
    """Three branches on streams of their own."""
    x, weights, results = d.tensor(8, 8), [d.tensor(8, 8) for _ in range(3)], []
    yield
    for stream, w in zip((7, 8, 9), weights):
        d.wait(stream, 0)
        with d.on(stream):
            y = (x @ w).tanh()
            d.use(y, 0)
            results.append(y)
    for stream in (7, 8, 9):
        if stream != missing:
            d.wait(0, stream)
    yield sum(results).mean()


def branches(d):
    return joined(d, None)


def branches_missing_join(d):
    return joined(d, 8)


def hooks(d):
    """Gradients are reduced on a side stream during the backward pass."""
    model, x = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3))), d.tensor(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model(x).sum().backward()

    def hook(parameter):
        d.wait(7, 0)
        with d.on(7):
            parameter.grad.mul_(0.5)

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    yield
    optimizer.zero_grad(set_to_none=False)
    with torch.enable_grad():
        loss = model(x).square().mean()
        loss.backward()
    d.wait(0, 7)
    optimizer.step()
    yield loss


def train(d):
    """A step with dropout, clipping and AdamW, on one stream."""
    model, x = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), d.tensor(2, 4, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    yield
    with torch.enable_grad():
        loss = model(x).square().mean()
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    yield loss


PROGRAMS = {
    missing_wait: "race", with_wait: "proven", event_recorded_twice: "race", needless: "proven",
    no_record_stream: "race", record_stream: "proven", early_read: "race", pageable: "proven",
    read_after_event: "proven", read_after_device: "proven", read_after_other_stream: "race",
    overwritten_early: "race", attention: "proven", prefetch: "proven",
    prefetch_missing_done: "race", branches: "proven", branches_missing_join: "race",
    hooks: "proven", train: "proven",
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_verdicts_are_right(program, folder):
    device = Device()
    with contextlib.ExitStack() as stack:
        for name, value in [
            ("device_of", device.device_of), ("current_stream", lambda device_: device.stream),
            ("current_device", lambda: "cuda:0"), ("address_of", device.address_of),
            ("is_pinned", lambda t: t.untyped_storage()._cdata in device.pinned),
            ("allocated_bytes", lambda device_: device.total),
        ]:
            stack.enter_context(mock.patch.object(devices, name, value))
        stack.enter_context(mock.patch.object(devices.Streams, "call", lambda *a: device.run(*a)))
        running = program(device)
        next(running)
        with torch.no_grad(), ms.check_streams(waits=True) as check:
            kept = next(running)
    assert kept is not None and check.verdict == PROGRAMS[program], check
    if check.verdict == "race":
        with pytest.raises(ms.RaceError) as caught:
            check.raise_if_racy()
        assert all("test_streams.py(" in race[side]
                   for race in caught.value.races for side in ("at", "before"))
        assert "test_streams.py(" in str(caught.value) and caught.value.help, caught.value
    else:
        check.raise_if_racy()
    assert check.needless_waits or program is not needless, check
    assert all("test_streams.py(" in wait["wait"] for wait in check.needless_waits)


def fails(part, program):
    """Checks the error at the end of a recording, which names the line of the program."""
    with pytest.raises(RuntimeError, match=re.escape(part)) as caught, ms.streams("fails"):
        program()
    assert "test_streams.py:" in str(caught.value) and not pathlib.Path("fails").exists()


def test_errors_of_the_recorder_end_the_recording(folder):
    """Errors of callbacks, which PyTorch drops, and of ops, which its hooks lose."""
    x = torch.ones(3)

    def lost():
        try:
            x @ torch.ones(4)
        except RuntimeError:
            raise SystemError("returned NULL without setting an exception") from None

    fails("aten::dot", lost)
    with mock.patch.object(devices.Streams, "recorded", side_effect=KeyError("event")):
        fails("KeyError('event')", lambda: told.EventRecordCallbacks.fire_callbacks(1, 0))
    with mock.patch.object(devices.Streams, "after", side_effect=KeyError("op")):
        fails("KeyError('op')", lambda: x + 1)
