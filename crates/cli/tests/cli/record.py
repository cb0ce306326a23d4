"""Records programs with the package, each in a folder of its own below the current one."""

import contextlib
import ctypes
import errno
import gzip
import json
import os
import pathlib
import resource
import tempfile
from unittest import mock

import millstream
import torch
import torch.distributed
import torch.multiprocessing
from millstream.recorder import recorder


def step():
    """A training step whose inputs and outputs nobody names."""
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, table = torch.randn(5, 4), {"scale": torch.tensor(2.0)}
    recording = millstream.record("step", model, timeline=True, streams=True)
    for run in range(3):
        with recording:
            loss = (model(x) * table["scale"]).square().mean()
            loss.backward()
            optimizer.step()
        assert pathlib.Path("step/timeline.json.gz").is_file() == (run > 0)
    assert loss.isfinite()
    with gzip.open("step/timeline.json.gz", "rt") as file:
        assert "millstream_record::" not in file.read(), "the timeline holds the recorder's work"


def function():
    """A function whose first call is recorded, with a tensor that is no argument."""
    bias = torch.randn(3)

    @millstream.record("function")
    def layer(x, w):
        return (x @ w + bias).relu()

    meta = pathlib.Path("function/meta.json")
    layer(torch.randn(2, 4), torch.randn(4, 3))
    # The folder stays as it is, but for the time of calls of the same shapes.
    before = meta.read_text()
    for _ in range(3):
        layer(torch.randn(7, 4), torch.randn(4, 3))
    assert meta.read_text() == before
    for _ in range(3):
        layer(torch.randn(2, 4), torch.randn(4, 3))
    assert json.loads(meta.read_text())["eager"]["seconds"] > 0
    places = json.loads(meta.read_text())["places"]
    assert any("record.py:" in place for place in places), places


def modules():
    """A module within another one: calls have the path of the innermost module."""

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x).relu()

    outer, x = Outer(), torch.randn(2, 4)
    inputs = {"x": x, **dict(outer.named_parameters())}
    millstream.record_call("modules", lambda: {"y": outer(x)}, inputs, timed=3)
    meta = json.loads(pathlib.Path("modules/meta.json").read_text())
    assert {place.split(", ")[0] for place in meta["places"]} == {"inner", "Outer"}, meta
    assert meta["eager"]["seconds"] > 0


def rank(number, ranks, file):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=number, world_size=ranks
    )
    torch.manual_seed(1)
    w = torch.randn(4, 3, requires_grad=True)
    torch.manual_seed(2 + number)
    x = torch.randn(5, 4)
    with millstream.record("ranks"):
        y = (x @ w).relu()
        y.sum().backward()
        torch.distributed.all_reduce(w.grad)
        with torch.no_grad():
            w -= 0.1 / ranks * w.grad
    torch.distributed.destroy_process_group()


class Driver:
    """Stands for the library of the CUDA driver, with memory of the host."""

    copies = 0

    def cuCtxSynchronize(self):
        return 0

    def cuMemcpyDtoH_v2(self, target, source, size):
        if size.value == 4 * 77:
            return 700
        Driver.copies += 1
        ctypes.memmove(target, source.value, size.value)
        return 0


def device():
    """A program all of whose storages count as those of a device: its recording is the same."""

    def program(folder):
        torch.manual_seed(3)
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        with millstream.record(folder):
            y = (x @ w).relu()
            y.sum().backward()

    def fails():
        with millstream.record("device_fails"):
            kept = torch.ones(77).relu()
        assert kept is not None

    program("host")
    with (
        mock.patch.object(recorder, "is_on_host", lambda storage: False),
        mock.patch.object(recorder.ctypes, "CDLL", lambda name: Driver()),
        mock.patch.object(torch.cuda, "device", contextlib.nullcontext),
    ):
        program("device")
        try:
            fails()
        except millstream.RecordError as error:
            assert "did not copy 308 bytes from cpu: its error 700" in str(error), error
        else:
            raise AssertionError("the error of the driver is lost")
    assert Driver.copies >= 4, Driver.copies
    both = [pathlib.Path(f, "tensors.safetensors").read_bytes() for f in ("host", "device")]
    assert both[0] == both[1]


def full_disk():
    """A recording that cannot be written leaves the old one, and nothing beside it."""
    folder = pathlib.Path("function")
    old = {file.name: file.read_bytes() for file in folder.iterdir()}
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
    try:
        tensors = bytes(5000)
        files = {"meta.json": b"{}", "et.json": None, "tensors.safetensors": tensors}
        recorder.replace(folder, files)
    except OSError as error:
        assert error.errno == errno.EFBIG, error
    else:
        raise AssertionError("the limit was not kept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == old
    recorder.replace(folder, {"meta.json": old["meta.json"], "none.json": None})
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == old
    blocked = pathlib.Path("function/meta.json")
    try:
        with millstream.record(blocked):
            raise AssertionError("the program ran")
    except millstream.RecordError as error:
        assert "'function/meta.json' cannot be written" in str(error), error


if __name__ == "__main__":
    torch.manual_seed(1)
    step()
    device()
    function()
    modules()
    full_disk()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "group")
        torch.multiprocessing.spawn(rank, (2, file), nprocs=2)
