"""Programs of PyTorch's: recorded, checked, run and shown. Skipped without PyTorch."""

import pytest

torch = pytest.importorskip("torch")

import millstream as ms  # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128]


@pytest.fixture
def training():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(4, 3)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def test_one_stream_has_nothing_to_check(training):
    *_, step = training
    check = ms.check_streams()
    with pytest.raises(RuntimeError, match="not ended"):
        check.verdict
    with check:
        step()
    assert check.raise_if_racy().verdict == "proven" and "nothing to check" in repr(check)
    assert not check.races and not check.needless_waits
    with pytest.raises(KeyError), check:
        raise KeyError("an error of the block")
    with pytest.raises(RuntimeError, match="ended with an error"):
        check.races


def test_a_golden_recording_is_replayed(training, tmp_path):
    model, _, step = training
    loss = ms.record(tmp_path / "golden", model)(step)()
    run = ms.replay(tmp_path / "golden").assert_close()
    assert any(torch.equal(torch.from_dlpack(t), loss.detach()) for t in run.outputs.values())


def test_a_wrong_result_is_an_assertion(tmp_path):
    x = torch.ones(3)
    ms.record(tmp_path / "golden")(lambda a: a + 1)(x)
    tensors = tmp_path / "golden/tensors.safetensors"
    from safetensors.torch import load_file, save_file

    save_file({k: v + 1 if k.startswith("out/") else v for k, v in load_file(tensors).items()},
              tensors)
    with pytest.raises(AssertionError, match="result"):
        ms.run(tmp_path / "golden").assert_close()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_outputs_have_every_dtype(dtype, tmp_path):
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    made = ms.record(tmp_path / "made")(lambda a: a.t().contiguous())(x)
    output, = ms.run(tmp_path / "made").assert_close().outputs.values()
    assert torch.equal(torch.from_dlpack(output), made)


def test_pages_have_modules_and_lines(training):
    model, optimizer, step = training
    profile = ms.profile(model, optimizer, timeline=True)
    for _ in range(2):
        with profile:
            step()
    assert {"addmm", "relu"} <= {row["name"] for row in profile.rows}
    assert "iframe" in profile._repr_html_()
    memory = ms.memory(step, model, optimizer)
    modules = {row["module"] for row in memory.at_peak(by="module")}
    assert any(name.endswith("0") for name in modules)
    assert any("test_torch.py" in row["line"] for row in memory.at_peak(by="line"))
