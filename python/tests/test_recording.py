"""Recordings: their names, files, ranks, devices and errors."""

import contextlib
import ctypes
import errno
import gzip
import json
import pathlib
import resource
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import millstream as ms  # noqa: E402
import torch.distributed  # noqa: E402
import torch.multiprocessing  # noqa: E402
from millstream.recorder import recorder  # noqa: E402


def test_step(folder):
    """A training step whose inputs and outputs nobody names."""
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, table = torch.randn(5, 4), {"scale": torch.tensor(2.0)}
    recording = ms.record("step", model, timeline=True, streams=True)
    for run in range(3):
        with recording:
            loss = (model(x) * table["scale"]).square().mean()
            loss.backward()
            optimizer.step()
        assert pathlib.Path("step/timeline.json.gz").is_file() == (run > 0)
    assert loss.isfinite()
    with gzip.open("step/timeline.json.gz", "rt") as file:
        assert "millstream_record::" not in file.read(), "the timeline holds the recorder's work"
    outputs = ms.run("step").assert_close().outputs
    names = {"loss", "0.weight", "0.weight.grad", "0.weight.exp_avg"}
    assert {f"out/{name}" for name in names} <= set(outputs)
    # Every file of a recording opens, and its timeline with the trace of the same run.
    for path in ("step", "step/streams.json", "step/timeline.json.gz"):
        assert ms.verify(path).verdict == "proven", path
    assert "ops are nodes of the execution trace" in str(ms.profile("step/timeline.json.gz").report)
    assert ms.run("step/et.json").ok
    with pytest.raises(ms.MillstreamError, match="would overwrite a file that is read"):
        ms.run("step", html="step/et.json")


def test_function(folder):
    """A function whose first call is recorded, with a tensor that is no argument."""
    bias = torch.randn(3)

    @ms.record("function")
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
    assert any("test_recording.py:" in place for place in places), places
    assert set(ms.run("function").assert_close().outputs) == {"out/result"}


def test_modules(folder):
    """A module within another one: calls have the path of the innermost module."""

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x).relu()

    outer, x = Outer(), torch.randn(2, 4)
    inputs = {"x": x, **dict(outer.named_parameters())}
    ms.record_call("modules", lambda: {"y": outer(x)}, inputs, timed=3)
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
    with ms.record("ranks"):
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


def test_device(folder):
    """A program all of whose storages count as those of a device: its recording is the same."""

    def program(folder):
        torch.manual_seed(3)
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
        with ms.record(folder):
            y = (x @ w).relu()
            y.sum().backward()

    def fails():
        with ms.record("device_fails"):
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
        except ms.RecordError as error:
            assert "did not copy 308 bytes from cpu: its error 700" in str(error), error
        else:
            raise AssertionError("the error of the driver is lost")
    assert Driver.copies >= 4, Driver.copies
    both = [pathlib.Path(f, "tensors.safetensors").read_bytes() for f in ("host", "device")]
    assert both[0] == both[1]
    assert {"out/y", "out/w.grad"} <= set(ms.run("device").assert_close().outputs)


def test_full_disk(folder):
    """A recording that cannot be written leaves the old one, and nothing beside it."""
    folder = pathlib.Path("function")
    ms.record(folder)(lambda x: x.relu())(torch.randn(3))
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
        with ms.record(blocked):
            raise AssertionError("the program ran")
    except ms.RecordError as error:
        assert "'function/meta.json' cannot be written" in str(error), error


def test_ranks(folder, tmp_path_factory):
    torch.multiprocessing.spawn(rank, (2, tmp_path_factory.mktemp("group") / "file"), nprocs=2)
    outputs = ms.run("ranks").assert_close().outputs
    assert {"rank0/out/y", "rank1/out/w.grad"} <= set(outputs)
