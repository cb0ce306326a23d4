"""The commands, in the process. Needs neither PyTorch nor a device."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import millstream as ms
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP = ROOT / "examples/pytorch/transformer_encoder_train"
RACE = ROOT / "examples/timelines/missing_wait"

GOOD = """# two streams
millstream-list 1
stream s0 sim:0 compute 0 in-order
stream s1 sim:0 compute 1 in-order
arena a0 sim:0
external %0 "x" f32[4,4] in 64 bytes of a0
external %1 "y" f32[4,4] in 64 bytes of a0

OpCall s0:1 fill (%0 write) # train.py:7
StreamWaitEvent s1:1 until s0:1 by-host
OpCall s1:2 copy (%0 read, %1 write) # train.py:8
"""


@pytest.fixture(autouse=True)
def quiet(capfd):
    yield
    shown = capfd.readouterr()
    assert shown.out == "" and shown.err == "", "nothing prints by itself"


def test_a_recording_runs_and_its_outputs_are_tensors():
    numpy = pytest.importorskip("numpy")
    run = ms.run(STEP, streams=4, replay=True, repeat=2)
    assert run.ok and run.assert_close() is run and "match" in repr(run)
    assert run.rows.columns[:3] == ["name", "dtype", "shape"]
    loss = next(tensor for name, tensor in run.outputs.items() if "loss" in name)
    assert (loss.dtype, loss.shape, len(loss.tobytes())) == ("f32", (), 4)
    assert numpy.from_dlpack(loss).tobytes() == loss.tobytes()
    name, other = next((n, t) for n, t in run.outputs.items() if len(t.shape) == 2)
    assert numpy.from_dlpack(other).shape == other.shape, name
    loss.__dlpack__()  # A capsule that nobody takes gives its memory back.
    assert ms.replay(STEP).ok


def test_memory_of_a_tensor_outlives_it():
    numpy = pytest.importorskip("numpy")
    run = ms.run(STEP)
    kept = {name: numpy.from_dlpack(tensor) for name, tensor in run.outputs.items()}
    bytes_of = {name: tensor.tobytes() for name, tensor in run.outputs.items()}
    del run
    assert {name: array.tobytes() for name, array in kept.items()} == bytes_of


def test_errors_have_place_and_help(tmp_path):
    trace = tmp_path / "wrong.json"
    trace.write_text('{"millstream": 1, "inputs": 3}')
    with pytest.raises(ms.MillstreamError) as caught:
        ms.run(trace)
    assert caught.value.place.startswith(f"{trace}:1:") and str(trace) in str(caught.value)
    with pytest.raises(ms.MillstreamError, match="absent"):
        ms.run(tmp_path / "absent")
    with pytest.raises(ms.MillstreamError, match="--compute-streams"):
        ms.run(STEP, streams=0)
    with pytest.raises(ms.MillstreamError, match="--no-such"):
        ms.verify(STEP, no_such=True)
    with pytest.raises(TypeError, match="report"):
        ms.run(STEP, report="file")
    # What can be read is decided; what cannot is no proof.
    partly = ms.verify(ROOT / "examples/traces/diamond.json", trace)
    assert partly.verdict == "refused" and len(partly.lines) == 1 and not partly.races
    with pytest.raises(ms.MillstreamError, match="wrong.json"):
        partly.raise_if_racy()


def test_a_race_raises_with_its_lines(tmp_path):
    found = ms.verify(RACE)
    assert found.verdict == "race" and len(found.races) == 1
    with pytest.raises(ms.RaceError) as caught:
        found.raise_if_racy()
    assert "cuda_rec.py(51)" in caught.value.place
    assert "s13.wait_stream(s7)" in caught.value.help
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text(GOOD)
    bad.write_text("".join(l for l in GOOD.splitlines(True) if not l.startswith("StreamWait")))
    proven = ms.verify(good).raise_if_racy()
    assert proven.verdict == "proven" and proven.waits[0]["needed"] and not proven.needless_waits
    with pytest.raises(ms.RaceError) as caught:
        ms.verify(bad).raise_if_racy()
    assert (caught.value.place, caught.value.races[0]["before"]) == ("train.py:8", "train.py:7")
    assert caught.value.help.endswith("StreamWaitEvent s1:1 until s0:1 by-host")


def test_profiles_are_compared_and_predicted(tmp_path):
    files = [tmp_path / name for name in ("one.pftrace", "four.pftrace")]
    for file, streams in zip(files, (1, 4)):
        assert ms.run(STEP, streams=streams, profile=file, driver="threaded").ok
    difference = ms.compare(*files)
    assert {"name", "count", "time"} <= set(difference.rows.columns)
    assert isinstance(difference.same_waits, bool)
    prediction = ms.what_if(files[1], op={"matmul": "x0.5"})
    assert prediction.speedup >= 1 and "matmul" in prediction.report["changes"][0]
    assert "<table>" in ms.what_if(files[1]).ops._repr_html_()
    page = ms.profile(files[0])
    assert page.report["ops"] and page.page.startswith("<!") and "us" in repr(page)
    page.save(tmp_path / "page.html")


def test_memory_at_the_peak_adds_up():
    memory = ms.memory(STEP)
    for by in ("tensor", "module", "line", "device"):
        assert sum(row["bytes"] for row in memory.at_peak(by)) == memory.peak > 0
    with pytest.raises(ValueError, match="tensor, "):
        memory.at_peak("colour")


def test_schedules_are_simulated_and_nodes_counted(tmp_path):
    seen = ms.simulate(ROOT / "examples/traces/diamond.json", seeds=20)
    assert seen.ok and seen.report["seeds"] == 20 and seen.report["found"] is None
    racy = ms.simulate(ROOT / "examples/traces/diamond.json", without="waits", seeds=50,
                       streams=2, save=tmp_path / "small.json")
    assert not racy.ok and racy.report["found"]["seed"] >= 0
    covered = ms.coverage(STEP)
    assert covered.rows[0]["ops"] == covered.rows[0]["executed"] and not covered.skipped


def test_rows_are_a_frame():
    pandas = pytest.importorskip("pandas")
    assert isinstance(ms.run(STEP).rows.frame(), pandas.DataFrame)


def test_the_lock_is_free_while_a_command_runs():
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        ms.run(STEP, repeat=20)
    finally:
        ended.set()
        thread.join()
    assert counted[0] > 10


def test_commands_of_several_threads_keep_their_output_apart():
    paths, found = [STEP, RACE] * 4, {}

    def run(k, path):
        found[k] = repr(ms.verify(path)) if path == RACE else repr(ms.run(path, driver="threaded"))

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(paths)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shown = [("race: 1 pair" if path == RACE else "15 outputs match") in found[k]
             for k, path in enumerate(paths)]
    others = [("15 outputs match" if path == RACE else "race:") in found[k]
              for k, path in enumerate(paths)]
    assert all(shown) and not any(others), found


def test_a_forked_child_runs_commands_and_its_parents_tensors_refuse():
    output = next(iter(ms.run(STEP).outputs.values()))
    code = os.fork()
    if code == 0:
        try:
            os._exit(0 if ms.run(STEP).ok and not reads(output) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(code, 0)[1]) == 0


def reads(tensor):
    """Returns whether a tensor can be read."""
    try:
        return bool(tensor.tobytes())
    except ValueError as error:
        assert "fork" in str(error)
        return False


def test_control_c_stops_a_run():
    # A process in the background starts with Ctrl-C ignored.
    code = f"""import signal, millstream as ms
signal.signal(signal.SIGINT, signal.default_int_handler)
print('begun', flush=True)
ms.run({str(STEP)!r}, repeat=10**9)"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    try:
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode != 0 and b"KeyboardInterrupt" in error


def test_the_command_line_is_a_script():
    run = [sys.executable, "-c", "from millstream.commands import main; main()"]
    shown = subprocess.run([*run, "run", str(STEP)], capture_output=True, text=True)
    assert shown.returncode == 0 and "outputs match" in shown.stdout
    wrong = subprocess.run([*run, "runn"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "error:" in wrong.stderr
    version = subprocess.run([*run, "--version"], capture_output=True, text=True)
    assert version.stdout.startswith("millstream ")


def test_recording_says_what_it_needs(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("millstream.recorder")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="record records programs: it needs torch"):
        ms.record


def test_names_have_stubs():
    stubs = (ROOT / "python/millstream/__init__.pyi").read_text()
    assert [name for name in ms.__all__ if name not in stubs] == []
