"""Programs of kinds that a recorder can get wrong are recorded, each in a folder of its own below
the current one, and give PyTorch's results; those that cannot be recorded are refused with their
line."""

import contextlib
import copy
import dataclasses
import json
import linecache
import logging
import pathlib
import re
import threading
import warnings

import pytest

torch = pytest.importorskip("torch")

import millstream as ms  # noqa: E402
from millstream import RecordError, RecordWarning, record  # noqa: E402
from torch import distributions, nn  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


@pytest.fixture(autouse=True)
def recorded(folder, capfd):
    """Runs what a test has recorded."""
    yield
    for made in folder.iterdir():
        if made.name == "unwritten":
            with pytest.raises(ms.MillstreamError, match="unknown elements"):
                ms.run(made)
        else:
            ms.run(made).assert_close()
    shown = capfd.readouterr()
    assert "Execution Trace Observer" not in shown.out + shown.err


def refused(folder, program, *parts):
    """Checks that a program is refused with its line and these parts, and that no folder is
    written."""
    try:
        with record(folder):
            program()
    except RecordError as error:
        for part in (r"test_programs\.py:\d+: ", *parts):
            assert re.search(part, str(error)), f"{folder}: {part}: {error}"
    else:
        raise AssertionError(f"{folder} was recorded")
    assert not pathlib.Path(folder).exists()


def test_inference():
    """Inference mode inside the record and around it, with tensors made in it."""
    model, x = nn.MultiheadAttention(8, 2).eval(), torch.randn(5, 2, 8)
    with record("inference_inside", model), torch.inference_mode():
        y, _ = model(x, x, x)
    with torch.inference_mode():
        x = torch.randn(5, 2, 8)
        with record("inference_around", model):
            y, _ = model(x, x, x)
            y.add_(1)


def test_checkpoints():
    """Forward passes that the backward pass repeats, up to the last saved tensor."""
    model, x = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)
    for reentrant in (True, False):
        x = x.detach().requires_grad_()
        with record(f"checkpoint_{reentrant}", model):
            loss = checkpoint(model, x, use_reentrant=reentrant).square().mean()
            loss.backward()
    assert loss.isfinite()


def test_nested():
    """A record within another is refused, and the outer one goes on."""
    x = torch.randn(3)
    with record("outer"):
        y = x + 1
        refused("inner", lambda: None, "'inner' begins within that of 'outer'")
        z = y * 2
    assert z.isfinite().all()


def test_attention():
    """An encoder whose fast path computes with nested tensors."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 16)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with record("padding_mask", model), torch.no_grad():
        y = model(x, src_key_padding_mask=mask)
    assert torch.backends.mha.get_fastpath_enabled() and y.isfinite().all()
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    refused("nested_tensor", lambda: torch.nested.as_nested_tensor(parts), "to_padded_tensor")


def test_transforms():
    """The transforms of torch.func, also one of another, and forward-mode gradients."""
    x, w, model = torch.randn(5, 4), torch.randn(4), nn.Linear(4, 1)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, row):
        return torch.func.functional_call(model, parameters, (row,)).square().sum()

    with record("transforms"):
        a = torch.func.vmap(lambda row: (row * w).sum().relu())(x)
        b = torch.func.grad(lambda v: v.sin().sum())(x)
        c, d = torch.func.jvp(lambda v: v.sin() * v, (x,), (x.cos(),))
        e = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        f = torch.func.jacrev(lambda v: (x @ v).tanh())(w)
        g = torch.func.jacfwd(lambda v: (x @ v).tanh())(w)
    assert all(t.isfinite().all() for t in (a, b, c, d, e["weight"], f, g))
    with record("forward_mode", model), forward_ad.dual_level():
        y, tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, x.cos())).tanh())
    assert y.shape == tangent.shape


def test_precisions():
    """16-bit floats: a run has the tolerance of the dtype, also behind autocast."""
    for name, dtype in [("bf16", torch.bfloat16), ("f16", torch.float16)]:
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128)).to(dtype)
        x = torch.randn(20, 64, dtype=dtype)
        with record(name, model):
            loss = model(x).square().mean()
            loss.backward()
    model, x = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)), torch.randn(20, 64)
    with record("autocast", model):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
    assert loss.isfinite()
    assert "1.6e-2 rel" in ms.run("autocast", verbose=True).text
    exact = ms.run("bf16", rtol=0, atol=1e-9)
    assert exact.status == 1 and "1.0e-9 abs" in exact.text
    with pytest.raises(ms.MillstreamError, match="--rtol"):
        ms.run("bf16", rtol=-1)


def test_dtypes():
    x = torch.randn(4, 4)
    refused("float8", lambda: x.to(torch.float8_e4m3fn), "aten::_to_copy", "float8", "bfloat16")
    quantised = lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)  # noqa: E731
    refused("quantised", quantised, "aten::quantize_per_tensor", "before it is quantised")
    q = quantised()
    refused("dequantised", lambda: q.dequantize(), "aten::dequantize", "qint8")
    refused("sparse", lambda: x.to_sparse(), "aten::_to_sparse", "to_dense")


@contextlib.contextmanager
def messages():
    """Collects the messages of the recorder, which a library does not print."""
    said, handler, log = [], logging.Handler(), logging.getLogger("millstream")
    handler.emit = lambda record: said.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield said
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(handler)


def test_opaque():
    """Saved results replace the op, also one of PyTorch's own; `missing` has none."""
    x = torch.randn(5, 5).abs()
    with messages() as said, warnings.catch_warnings(record=True) as warned:
        with record("opaque", opaque=["aten::_linalg_slogdet", "aten::cosh", "aten::cosine"]):
            y = x.cosh() + x.to(torch.float64).cosh().float()
    warned = [str(warning.message) for warning in warned if warning.category is RecordWarning]
    assert warned[0] == "no call was of 'aten::_linalg_slogdet', which opaque names", warned
    assert "'aten::cosine', which opaque names; 'aten::cos" in warned[1], warned
    done, run = said
    assert re.search(r"^recorded \d+ ops, 1 inputs and 1 outputs: [\d.]+ MB in opaque", done), done
    assert run == "run it with: millstream run opaque", run
    op = "aten::fake_quantize_per_tensor_affine_cachemask"
    rounded = lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)  # noqa: E731
    refused("missing", rounded, rf"{op}: .*opaque=\['{op}'")
    with record("saved", opaque=[op]):
        z = rounded()
    assert y.isfinite().all() and z is not None
    with warnings.catch_warnings(record=True) as warned:
        with record("unwritten"):
            y = torch.empty(3) + 1
    (warning,) = (warning for warning in warned if warning.category is RecordWarning)
    assert pathlib.Path(warning.filename).name == "test_programs.py", warning
    assert "torch.empty(3) + 1" in linecache.getline(warning.filename, warning.lineno), warning
    assert "unknown elements" in str(warning.message), warning


def names_of(folder):
    return set(json.loads(pathlib.Path(folder, "bindings.json").read_text()))


def test_first_uses():
    """Inputs that are read through `detach` first, and written through `data`."""
    x, w, layer = torch.randn(4), torch.randn(4, requires_grad=True), nn.Linear(4, 3)
    target = copy.deepcopy(layer)
    with record("detached"):
        a, b = x.detach() * 2, w.detach() + w.data
    with record("data"):
        w.data.mul_(2)
    assert names_of("data") == {"in/w", "out/w"}, names_of("data")
    with record("numpy"):
        number = layer.weight.detach().numpy().sum()
        c = torch.from_numpy(x.numpy() + 1) * 2
    with record("state"):
        target.load_state_dict(layer.state_dict())
        for slow, fast in zip(target.parameters(), layer.parameters()):
            slow.data.copy_(0.9 * slow.data + 0.1 * fast.data)
    assert {"out/target.weight", "out/target.bias"} <= names_of("state"), names_of("state")
    with record("functional"):
        d = torch.autograd.functional.jacobian(lambda x: x.exp(), x)
    assert a.isfinite().all() and b is not None and number and c is not None and d.shape == (4, 4)


@dataclasses.dataclass
class Results:
    """Results as classes have them."""

    loss: torch.Tensor
    parts: list


def test_results():
    """Results in lists and classes, results that are not kept, and tensors behind closures."""
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    record("nested_results")(lambda a: {"y": a @ a.T, "z": [a + 1, (a * 2, None)], "n": 3})(x)
    assert names_of("nested_results") == {"in/a", "out/y", "out/z.0", "out/z.1.0"}
    record("class")(lambda: Results(layer(x).sum(), [x + 1]))()
    assert {"out/loss", "out/parts.0"} <= names_of("class"), names_of("class")
    with record("not_kept", [layer]):
        layer(x)
    assert names_of("not_kept") == {"in/weight", "in/bias", "in/x", "out/result"}

    def prepared():
        model, hidden = nn.Linear(4, 3), {"scale": torch.ones(3)}
        optimizer = torch.optim.Adam(model.parameters())

        def step():
            loss = (model(x) * hidden["scale"]).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            return loss

        return step

    step = prepared()
    step()
    with record("closures"):
        loss = step()
    names = names_of("closures")
    assert {"in/x", "in/model.weight.exp_avg", "in/hidden.scale", "out/loss", "out/model.bias.grad",
            "out/model.bias.exp_avg_sq", "out/model.weight"} <= names, names
    assert not any(re.search(r"(input|output)\d", name) for name in names), names
    assert loss.isfinite()


def test_misuse():
    """Wrong arguments, and calls that the recorder cannot see."""
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    for arguments, part in [
        ((layer,), "the folder is a Linear"), (("x", x), "modules and optimizers"),
    ]:
        try:
            record(*arguments)
        except TypeError as error:
            assert part in str(error), error
        else:
            raise AssertionError(f"{part}: no error")
    def in_a_thread():
        thread = threading.Thread(target=lambda: layer(x))
        thread.start()
        thread.join()
        return x + 1

    try:
        with record("thread"):
            y = in_a_thread()
    except RecordError as error:
        assert "another thread" in str(error) and y is not None, error
    else:
        raise AssertionError("calls of another thread were recorded")


def test_ops():
    """Affine grids, maxima of bags, windows, and a network with padding and upsampling."""
    x, theta = torch.randn(2, 3, 5, 6), torch.randn(2, 2, 3, requires_grad=True)
    bags, table = nn.EmbeddingBag(10, 4, mode="max", padding_idx=3), torch.randint(0, 10, (4, 3))
    with record("grids"):
        for corners in (False, True):
            grid = functional.affine_grid(theta, x.shape, align_corners=corners)
            functional.grid_sample(x, grid, align_corners=corners).sum().backward()
        solid = functional.affine_grid(torch.randn(1, 3, 4), (1, 1, 3, 4, 5), align_corners=False)
    with record("bags", bags):
        loss = bags(table).square().sum() + bags(torch.tensor([3, 3, 1]), torch.tensor([0, 2])).sum()
        loss.backward()
    with record("windows"):
        kept = [torch.hann_window(n, periodic=p) for n in (1, 2, 64) for p in (True, False)]
        kept += [torch.hamming_window(10), torch.hamming_window(9, True, 0.6, 0.3)]
        kept += [torch.blackman_window(11, periodic=False), torch.bartlett_window(8)]
        kept += [torch.kaiser_window(9), torch.kaiser_window(10, False, beta=3.0)]
        halves = torch.hann_window(6, dtype=torch.float64)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 8, 3, stride=2, padding=1, padding_mode="reflect"),
        nn.Upsample(scale_factor=2, mode="bicubic"), nn.Conv2d(8, 3, 3),
    )
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-4)
    x = torch.randn(2, 3, 8, 8)
    with record("unet", model):
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
    assert solid.isfinite().all() and len(kept) == 12 and halves.sum() > 0


def test_samples():
    """Samples with gradients for the parameters of their distributions, and rows by counts."""
    shapes = torch.tensor([0.1, 0.7, 3.0, 9.0, 40.0], requires_grad=True)
    for kind, parameters in [
        (distributions.Gamma, [shapes, torch.ones(5)]), (distributions.Dirichlet, [shapes]),
        (distributions.Beta, [shapes, shapes.flip(0)]),
    ]:
        with record(kind.__name__):
            sample = kind(*parameters).rsample((20,))
            sample.square().sum().backward()
    x, counts = torch.randn(4, 3, requires_grad=True), torch.tensor([2, 0, 1, 3])
    with record("repeated"):
        rows = x.repeat_interleave(counts, dim=0)
        rows.square().sum().backward()
        indices = torch.repeat_interleave(counts.int())
        twice = x.detach().repeat_interleave(2, dim=1)
    assert sample.isfinite().all() and indices.dtype == torch.int32 and twice.shape == (4, 6)


def test_recurrent():
    """Networks whose states autograd keeps beside the results that the program has."""
    x = torch.randn(3, 5, 8)
    for kind in (nn.LSTM, nn.GRU):
        model = kind(8, 6, batch_first=True)
        with record(kind.__name__, model):
            y, _ = model(x)
        names = json.loads(pathlib.Path(kind.__name__, "bindings.json").read_text())
        outputs = {name for name in names if name.startswith("out/")}
        states = {"out/_.0", "out/_.1"} if kind is nn.LSTM else {"out/_"}
        assert outputs == {"out/y", *states}, outputs
    with record("kept_by_autograd"):
        z = (x.requires_grad_() * 2).sigmoid().sin()
    names = json.loads(pathlib.Path("kept_by_autograd/bindings.json").read_text())
    assert list(names) == ["in/x", "out/z"] and z.isfinite().all(), names
