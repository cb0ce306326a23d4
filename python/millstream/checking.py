"""Checks of a program's use of CUDA streams, in the process."""

import json
import os
import tempfile

from .commands import verify
from .recorder import streams


class check_streams:
    """Records what the block does with streams, events, copies, allocations and reads by the host,
    and decides whether it has a race.

        with ms.check_streams() as c:
            train_step(batch)
        c.raise_if_racy()

    `keep` is a folder for the recording, which `millstream verify` takes; other arguments are
    options of that command. After the block it has all that `ms.verify` returns."""

    def __init__(self, keep=None, **options):
        self._keep, self._options, self._found = keep, options, None

    def __enter__(self):
        self._found = None
        self._scratch = None if self._keep else tempfile.TemporaryDirectory()
        self._folder = os.fspath(self._keep or self._scratch.name)
        self._recording = streams(self._folder)
        self._recording.__enter__()
        return self

    def __exit__(self, kind, error, traceback):
        try:
            passed = self._recording.__exit__(kind, error, traceback)
            if kind is None:
                self._found = self._decided()
            return passed
        finally:
            if self._scratch:
                self._scratch.cleanup()

    def _decided(self):
        found = verify(self._folder, **self._options)
        with open(os.path.join(self._folder, "streams.json")) as file:
            if not json.load(file)["streams"]:
                found.text = "proven: one stream, that of the host: there is nothing to check\n"
        return found

    def __getattr__(self, name):
        # Names with `_` are those of protocols, as of copies.
        if name.startswith("_"):
            raise AttributeError(name)
        if self._found is None:
            raise RuntimeError("check_streams: the block has not ended, or ended with an error")
        return getattr(self._found, name)

    def __repr__(self):
        return "check_streams()" if self._found is None else repr(self._found)
