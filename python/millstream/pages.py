"""Profiles and memory of programs, as pages and as tables."""

import collections
import html
import os
import re
import tempfile
from typing import Optional

from .commands import MillstreamError, Path, Result, Run
from .rows import Rows

# The names of traces: PyTorch's execution traces, and native ones.
TRACE = re.compile(r"(^|[/.-])(et|trace)\.json(\.gz)?$")
# The line of the program in a place, which also has modules and a node of the trace.
LINE = re.compile(r"([^\s,]+:\d+)")


class profile:
    """The profile of a program: of a recording or a file with a profile, `ms.profile("step")`, or
    of the program inside the block, which is recorded and then run by Millstream.

        with ms.profile(model) as p:
            step()
        p                  # in a notebook, the page

    `modules` are modules and optimizers, which name tensors. With `timeline`, the block is entered
    twice, `for _ in range(2): with p: step()`, and the page has PyTorch's time of each op beside
    Millstream's. `options` are those of `millstream run`."""

    def __init__(self, *modules, timeline=False, **options):
        path = modules[0] if modules and isinstance(modules[0], (str, os.PathLike)) else None
        self._path, self._options = path and os.fspath(path), options
        self._made = self._recording = None
        # Another file is a profile, or a timeline of another program.
        self._is_program = path is None or os.path.isdir(path) or TRACE.search(self._path)
        if path is None:
            from .recorder import record

            self._scratch = tempfile.TemporaryDirectory()
            self._path = os.path.join(self._scratch.name, "program")
            self._recording = record(self._path, *modules, timeline=timeline, compress=True)

    def __enter__(self):
        if self._recording is None:
            raise TypeError("profile(PATH) is of a recording that exists; use it without `with`")
        self._made = None
        self._recording.__enter__()
        return self

    def __exit__(self, kind, error, traceback):
        return self._recording.__exit__(kind, error, traceback)

    def _found(self):
        """Runs the program, at the first use of what is measured."""
        if self._made is None:
            with tempfile.TemporaryDirectory() as folder:
                page, file = (os.path.join(folder, name) for name in ("page.html", "run.pftrace"))
                if self._is_program:
                    run = Run(self._path, {**self._options, "profile": file, "html": page})
                    if not os.path.exists(file):
                        raise MillstreamError(run.text.strip(), self._path)
                    shown = Result("profile", [file], {})
                else:
                    run, shown = None, Result("profile", [self._path], {"html": page})
                with open(page) as text:
                    self._made = run, shown.report, text.read()
        return self._made

    @property
    def run(self) -> Optional[Run]:
        """The run that was measured; None for a file with a profile."""
        return self._found()[0]

    @property
    def report(self) -> dict:
        """The summary: `total`, `streams`, `ops`, `waits`, `memory`; in nanoseconds and bytes."""
        return self._found()[1]

    @property
    def page(self) -> str:
        """The page, as HTML."""
        return self._found()[2]

    @property
    def rows(self) -> Rows:
        """The time of each op."""
        return Rows(self.report["ops"])

    @property
    def waits(self) -> Rows:
        """The waits, by what they cost."""
        return Rows(self.report["waits"])

    def save(self, path: Path) -> None:
        """Writes the page to a file, which a browser opens."""
        with open(path, "w") as file:
            file.write(self.page)

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.page)}" width="100%" height="720" '
                'style="border: 0"></iframe>')

    def __repr__(self):
        rows = sorted(self.rows, key=lambda row: -row["total"])[:12]
        lines = (f"{row['total'] / 1e3:10.1f} us {row['count']:6} × {row['name']}" for row in rows)
        return "\n".join([f"{self.report['total'] / 1e6:.3f} ms", *lines])


class memory:
    """The memory of a program: of a recording, or of a function without arguments, which is called
    once and recorded. `modules` are modules and optimizers, which name tensors. `options` are those
    of `millstream run`."""

    def __init__(self, program, *modules, **options) -> None:
        if callable(program):
            profiled = profile(*modules, **options)
            with profiled:
                kept = program()
            del kept
        else:
            profiled = profile(program, **options)
        self.report = profiled.report["memory"]

    @property
    def peak(self) -> int:
        """The most bytes that are in use at once, of all devices together."""
        return sum(arena["peak"] for arena in self.report)

    def at_peak(self, by: str = "tensor") -> Rows:
        """Returns what holds memory at the peak, the largest first: by `tensor`, by the `module` or
        the `line` that made it, or by `device`."""
        names = {one["tensor"] for arena in self.report for one in arena["holders"]}
        group = {
            "tensor": lambda one, _: one["tensor"], "device": lambda _, arena: arena["arena"],
            "module": lambda one, _: module_of(one, names), "line": lambda one, _: line_of(one),
        }
        if by not in group:
            raise ValueError(f"at_peak(by=…): expected one of {', '.join(group)}, got {by!r}")
        held = collections.Counter()
        for arena in self.report:
            for one in arena["holders"]:
                held[group[by](one, arena)] += one["bytes"]
        return Rows({by: name, "bytes": bytes} for name, bytes in held.most_common())

    def _repr_html_(self):
        return self.at_peak()._repr_html_()

    def __repr__(self):
        lines = (f"{row['bytes']:14,} {row['tensor']}" for row in self.at_peak()[:12])
        return "\n".join([f"{self.peak:,} bytes at the peak", *lines])


def line_of(holder):
    """Returns the line of the program that made a tensor."""
    found = LINE.search(holder["made_at"] or "")
    return found[1] if found else "before the program"


def module_of(holder, names):
    """Returns the module that made a tensor, or that a tensor from before belongs to."""
    if holder["made_at"] is None:
        name = holder["tensor"]
        # Gradients and the state of optimizers have the names of their parameters in front.
        while name.rpartition(".")[0] in names:
            name = name.rpartition(".")[0]
        return name.removeprefix("in/").rpartition(".")[0] or "(none)"
    place = holder["made_at"]
    return place.split(",")[0] if "," in place else "(none)"
