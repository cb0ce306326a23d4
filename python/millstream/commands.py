"""The commands of Millstream as functions.

A keyword argument is the option of the same name, with `-` for `_`: `compute_streams=4` is
`--compute-streams 4`, `replay=True` is `--replay`, and a list repeats its option. So
`millstream run --help` describes what `run` takes.
"""

import json
import os
import signal
import sys
import tempfile
import warnings
from typing import Any, Union

from . import _native
from .rows import Rows

Path = Union[str, "os.PathLike[str]"]


class MillstreamError(Exception):
    """Millstream refuses what it was given. `place` is a file, with line and column if they are
    known, or a line of the program; `help` says what to do; `errors` has these of all errors."""

    def __init__(self, message, place="", help=None, errors=()):
        super().__init__(message)
        self.message, self.place, self.help = message, place, help
        self.errors = list(errors) or [(place, message, help)]

    def __str__(self):
        lines = []
        for place, message, help in self.errors:
            lines.append(f"{place}: {message}" if place else message)
            lines += [f"  help: {help}"] if help else []
        return "\n".join(lines)


class RaceError(MillstreamError):
    """Two uses of memory have no order. `races` has all of them."""

    def __init__(self, races):
        errors = [(race["at"], f"{race['message']}; the earlier use is at {race['before']}",
                   race["help"]) for race in races]
        place, message, help = errors[0]
        super().__init__(message, place, help, errors)
        self.races = races


class Undecided(UserWarning):
    """A verdict rests on what is not known."""


def main():
    """The command line."""
    # Ctrl-C ends the process, as that of any other command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.main(["millstream", *sys.argv[1:]]))


def arguments(options):
    """Yields options as on the command line."""
    for name, value in options.items():
        flag = "--" + name.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            yield flag
            continue
        if isinstance(value, dict):
            value = [f"{key}={one}" for key, one in value.items()]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            yield f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}"


class Result:
    """What a command found: `text` is what the command line prints, `report` what it writes with
    `--report`."""

    def __init__(self, name, paths, options):
        if "report" in options:
            raise TypeError(f"{name}: the report is what the function returns")
        paths = [os.fspath(path) for path in paths]
        given = ["millstream", name, *arguments({"report": "-", **options}), "--", *paths]
        ended = _native.command(given)
        self.status, self.text = ended.status, ended.err
        self.errors = ended.errors
        self.lines = [json.loads(line) for line in ended.out.splitlines()]
        if not self.lines:
            raise self.refused()
        self.report = self.lines[0]

    @property
    def ok(self) -> bool:
        """Whether everything is as it should be: the command's exit status is 0."""
        return self.status == 0

    def refused(self):
        """Returns the errors of the command as an exception."""
        if not self.errors:
            return MillstreamError(self.text.strip() or f"exit status {self.status}")
        place, message, help = self.errors[0]
        return MillstreamError(message, place, help, self.errors)

    def __repr__(self):
        return self.text.rstrip("\n")


class Run(Result):
    """A program that ran. `outputs` has its results by name, as tensors that `torch.from_dlpack`
    and `numpy.from_dlpack` take without a copy."""

    def __init__(self, path, options):
        options = dict(options)
        with tempfile.TemporaryDirectory() as folder:
            file = options.setdefault("save_outputs", os.path.join(folder, "outputs.safetensors"))
            super().__init__("run", [path], options)
            complex_ = [row["name"] for row in self.rows if row["dtype"] == "c128"]
            self.outputs = _native.load(file, complex_) if os.path.exists(file) else {}

    @property
    def rows(self) -> Rows:
        """The outputs, with their errors."""
        return Rows(self.report["outputs"])

    @property
    def ms(self) -> float:
        """The median of the program's wall times, in milliseconds, without reading its outputs."""
        return self.report["wall_ms"]

    def assert_close(self) -> "Run":
        """Raises an AssertionError unless everything ran and every result is PyTorch's, within its
        tolerance."""
        if not self.ok:
            raise AssertionError(self.text.strip())
        return self


def run(path: Path, **options: Any) -> Run:
    """Runs a recording, a trace or a list, and compares its results with the expected ones."""
    return Run(path, options)


def replay(path: Path, **options: Any) -> Run:
    """Runs a recording as one executable: `run(path, replay=True)`."""
    return Run(path, {"replay": True, **options})


class Verification(Result):
    """A verdict: `proven`, `race` or `undecided`."""

    @property
    def verdict(self) -> str:
        """The worst verdict of all lists and timelines."""
        return {0: "proven", 1: "race", 3: "undecided"}.get(self.status, "refused")

    @property
    def races(self) -> Rows:
        """The pairs of uses without an order, or other violations: `message`, `at` (the line of the
        later use), `before` (that of the earlier one), `help`."""
        timelines = (race for line in self.lines for race in line.get("races", ()))
        lists = (found for line in self.lines for found in line.get("violations", ()))
        return Rows([*map(of_timeline, timelines), *map(of_list, lists)])

    @property
    def undecided(self) -> Rows:
        """The pairs whose order is not known, as `races`; `depends` names the waits."""
        all_ = (pair for line in self.lines for pair in line.get("undecided", ()))
        return Rows({**of_timeline(pair), "depends": pair["depends"]} for pair in all_)

    @property
    def unknown(self) -> list:
        """What is not known, each with its number."""
        return [part for line in self.lines for part in line.get("unknown", ())]

    @property
    def waits(self) -> Rows:
        """The waits, and whether the program needs them."""
        return Rows(wait for line in self.lines for wait in line.get("waits", ()))

    @property
    def needless_waits(self) -> Rows:
        """The waits without which all that was ordered stays ordered."""
        return Rows(wait for wait in self.waits if not wait["needed"])

    def raise_if_racy(self) -> "Verification":
        """Raises a RaceError for races, and warns if the verdict is undecided."""
        if self.verdict == "undecided":
            last = self.text.strip().splitlines()[-1]
            warnings.warn(last, Undecided, stacklevel=2)
        elif not self.ok:
            raise RaceError(self.races) if self.races else self.refused()
        return self


def line_of(stack):
    """Returns the innermost frame of a stack that is Python's."""
    return next((frame for frame in stack if ".py(" in frame), next(iter(stack), ""))


def of_timeline(race):
    """Returns a race of a timeline as a row."""
    later, earlier = (line_of(race[side]["stack"]) for side in ("later", "earlier"))
    repair = race["repair"]
    help = f"write {repair['text']} before {repair['before']}" if repair["text"] else None
    return {"message": race["message"], "at": later, "before": earlier, "help": help}


def of_list(violation):
    """Returns a violation of a list as a row."""
    sites = [f"{site['origin'] or site['text']}" for site in violation["instructions"]]
    later, earlier = (sites + ["", ""])[:2]
    repair = violation["repair"]
    help = f"put before line {repair['before_line']}: {repair['text']}" if repair else None
    return {"message": violation["message"], "at": later, "before": earlier, "help": help}


def verify(*paths: Path, **options: Any) -> Verification:
    """Proves that programs have no race, or shows the races: lists, traces, recordings of streams,
    timelines of a profiler."""
    return Verification("verify", paths, options)


class Simulation(Result):
    """A program under schedules that seeds choose: `report` has `seeds`, `steps` and `found`."""

    @property
    def rows(self) -> Rows:
        """The result as one row."""
        return Rows([self.report])


def simulate(path: Path, **options: Any) -> Simulation:
    """Runs a program under many schedules, and compares the results."""
    return Simulation("simulate", [path], options)


class Prediction(Result):
    """What a recorded run would take with changes; times are in nanoseconds."""

    @property
    def rows(self) -> Rows:
        """What the removal of each wait would gain."""
        return Rows(self.report["waits"])

    @property
    def ops(self) -> Rows:
        """What half the time of each op would gain."""
        return Rows(self.report["ops"])

    @property
    def speedup(self) -> float:
        """The time without a change by that with the changes."""
        return self.report["unchanged"] / max(self.report["predicted"], 1)


def what_if(profile: Path, **options: Any) -> Prediction:
    """Predicts what a recorded run would take with other streams, times, or without a wait."""
    return Prediction("what-if", [profile], options)


class Comparison(Result):
    """The difference between two profiles, lists or traces; times are in nanoseconds."""

    @property
    def rows(self) -> Rows:
        """The time of each op in both."""
        return Rows(self.report["ops"])

    @property
    def same_waits(self) -> bool:
        """Whether both have the same waits."""
        return not self.report["came"] and not self.report["went"]


def compare(a: Path, b: Path, **options: Any) -> Comparison:
    """Compares two profiles, lists or traces: times, waits, instructions."""
    return Comparison("compare", [a, b], options)


class Coverage(Result):
    """The nodes of recordings that can be executed."""

    @property
    def rows(self) -> Rows:
        """One row for each trace."""
        return Rows({k: v for k, v in line.items() if k != "skipped"} for line in self.lines)

    @property
    def skipped(self) -> Rows:
        """The nodes that cannot be executed, with the reason."""
        return Rows({"trace": line["trace"], **node}
                    for line in self.lines for node in line["skipped"])


def coverage(*paths: Path, **options: Any) -> Coverage:
    """Counts the nodes of execution traces that can be executed."""
    return Coverage("coverage", paths, options)
