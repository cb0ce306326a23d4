"""Recordings that find their inputs and outputs by themselves.

A tensor that an op reads and that no op of the recording has made existed before: it is an input,
with the elements that it has then, since nothing recorded has written it. A tensor that the
recording made or wrote is an output if the program can still reach it at the end.

The trace has no label for an input that is found at its first use, so a node with its label is
added in front of all calls. The memory of the input was the program's all the time, so that no
other tensor has its address there.
"""

import contextlib
import functools
import gc
import inspect
import os
import re
import sys
import weakref

import torch
from torch._ops import HigherOrderOperator
from torch.utils._pytree import tree_leaves

from . import recorder
from .devices import tensors_in
from .naming import Names, globals_of, place
from .recorder import Elements, Log, RecordError, UNMARKED, bytes_of, leaves_of, operand, storage_of

# Ops whose results have no elements yet.
UNWRITTEN = re.compile(r"aten::(new_)?empty")


class Found:
    """An input that was found at its first use."""

    def __init__(self, tensor):
        self.tensor, self.name, self.elements = weakref.ref(tensor), None, None
        self.copied = bytes_of(storage_of(tensor))
        # Where it is read: the call, its argument, the position among the argument's tensors, and
        # the view that is read there. Several, if the first calls may have no node.
        self.sites = []

    def read(self, tensor, *site):
        self.sites.append((*site, Elements(tensor, self.copied)))

    def side(self, calls, node_of):
        """Returns the operand of a label: that of the first call which has a node."""
        for call, argument, position, elements in self.sites:
            node = node_of.get(id(calls[call]))
            if node is None:
                continue
            self.elements, inputs = elements, node["inputs"]
            values = leaves_of({"values": inputs["values"][argument:argument + 1]})
            types = re.findall(r"Tensor\([^)]*\)", inputs["types"][argument])
            return operand([value for _, value in values], types, position, elements)
        return None


class FindingLog(Log):
    """A log that takes every tensor from before for an input."""

    def __init__(self, opaque=()):
        super().__init__(opaque)
        self.found, self.made, self.written = [], [], set()
        # The results of the last call that made any: the call, the result, its memory and its view.
        self.last = []
        # The last results that no tensor of the program is, by the names of outputs.
        self.unnamed = {}
        # Inputs that only calls without a node may have read so far, by storage.
        self.pending = {}

    def check(self, name, at, value):
        for position, tensor in enumerate(tensors_in(value)):
            if tensor.numel() == 0 or tensor.is_meta:
                continue
            storage = storage_of(tensor)._cdata
            found = self.pending.get(storage)
            if found is None and storage not in self.known:
                found = Found(tensor)
                self.found.append(found)
                Log.know(self, tensor)
            if found is not None:
                # The call is appended to the log after its arguments were checked.
                found.read(tensor, len(self.calls), at, position)
                self.pending[storage] = found
                if name not in UNMARKED:
                    del self.pending[storage]

    def know(self, value):
        super().know(value)
        self.made += [weakref.ref(tensor) for tensor in tensors_in(value)]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = super().__torch_dispatch__(func, types, args, kwargs)
        if isinstance(func, HigherOrderOperator):
            return results
        self.keep(func, results)
        given = {**dict(zip((p.name for p in func._schema.arguments), args)), **(kwargs or {})}
        for param in func._schema.arguments:
            if param.alias_info is not None and param.alias_info.is_write:
                written = tensors_in(given.get(param.name))
                self.written.update(storage_of(tensor)._cdata for tensor in written)
                self.made += [weakref.ref(tensor) for tensor in written]
        return results


    def keep(self, func, results):
        """Keeps the memory of the last results, in case that the program does not: not the tensors,
        which PyTorch treats otherwise while others refer to them. On devices, memory that is freed
        later would be given to others."""
        call = self.calls[-1] if self.calls else None
        if self.streams is not None or not call or call.name != recorder.name_of(func):
            return
        made = [(k, t) for k, t in enumerate(tensors_in(results)) if t.numel() and not t.is_meta]
        if made and not UNWRITTEN.match(call.name):
            self.last = [(call, k, storage_of(t), Elements(t, b"")) for k, t in made]


def held_by_program(tensors, frame):
    """Returns the identities of the tensors that Python's objects refer to, or the variables of a
    frame and of its callers. Autograd keeps others for the backward pass."""
    holders = (holder for holder in gc.get_referrers(*tensors) if holder is not tensors)
    held = {id(one) for holder in holders for one in gc.get_referents(holder)}
    while frame is not None:
        held.update(map(id, frame.f_locals.values()))
        frame = frame.f_back
    return held


class Unrecorded:
    """Stands for the recording in a run that is not recorded: names are not used."""

    def input(self, *_):
        pass

    inputs = output = outputs = input


class record:
    """Records the program inside a `with` block, or the first call of a function.

    `modules` are modules, and optimizers, whose tensors get short names. `tolerance`, `note`,
    `seed`, `compress`, `opaque` and `streams` are those of `trace`. With `timeline`, the first run
    of the block or the function is recorded, and the second one runs under PyTorch's profiler,
    without the recorder: its timeline is written beside the trace, as timeline.json.gz."""

    def __init__(self, folder, *modules, tolerance=None, note="", seed=None,
                 compress=False, opaque=(), timeline=False, streams=None):
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"record(FOLDER, *MODULES): the folder is a {type(folder).__name__}")
        modules = tree_leaves(modules)
        for module in modules:
            if not isinstance(module, (torch.nn.Module, torch.optim.Optimizer)):
                raise TypeError(
                    "record(FOLDER, *MODULES) takes modules and optimizers, which name tensors, no "
                    f"{type(module).__name__}: other tensors are found by themselves"
                )
        self.folder, self.opaque = folder, opaque
        # Optimizers name the state of parameters, whose own names come from their modules.
        several = sum(isinstance(module, torch.nn.Module) for module in modules) > 1
        self.modules = [(f"module{k}" if several else "", m) for k, m in enumerate(modules)]
        self.options = {
            "tolerance": tolerance, "note": note, "seed": seed, "compress": compress,
            "streams": streams,
        }
        # The runs so far that ended without an error: with a timeline, the first is recorded.
        self.timeline, self.runs = timeline, 0
        self.running = self.frame = self.eager = None

    def __enter__(self):
        self.frame = sys._getframe(1)
        if self.timeline and self.runs > 0:
            self.running = self._later()
            self.running.__enter__()
            return Unrecorded()
        self.log = FindingLog(self.opaque)
        self.running = recorder.trace(self.folder, log=self.log, **self.options)
        self.trace = self.running.__enter__()
        return self.trace

    def __exit__(self, kind, error, traceback):
        if kind is None and not (self.timeline and self.runs > 0):
            # An error here has to end the recording as an error of the program does.
            try:
                self._bind()
            except BaseException as failed:
                self.running.__exit__(type(failed), failed, failed.__traceback__)
                raise
        passed = self.running.__exit__(kind, error, traceback)
        self._count(kind is None)
        return passed

    def _later(self):
        """Returns what a run after the recorded one runs in."""
        return recorder.profiled(self.folder) if self.runs == 1 else contextlib.nullcontext()

    def _count(self, done):
        self.runs += done
        if self.timeline and self.runs == 1:
            recorder.LOG.info("run it once more in this process for its timeline")

    def _bind(self):
        """Names the inputs that were found, and what is left at the end as outputs."""
        log, frame = self.log, self.frame
        variables = [*frame.f_locals.items(), *globals_of(frame.f_code, frame.f_globals)]
        names = Names(*self.modules, *variables)
        taken = set(self.trace.bound)
        self._name_found(names)
        for found in log.found:
            if found.name in taken:
                raise RecordError(f"two inputs are called '{found.name.removeprefix('in/')}'")
        before = {storage_of(t)._cdata for t in (f.tensor() for f in log.found) if t is not None}
        kept, seen = [], set()
        alive = [t for t in (ref() for ref in log.made) if t is not None]
        # The program holds these: tensors from before that were written, also through others of
        # their storage, and gradients.
        written = [t for t in names.kept if storage_of(t)._cdata in log.written]
        gradients = [t.grad for t in (r() for r in log.made + [f.tensor for f in log.found])
                     if t is not None and t.is_leaf and t.grad is not None]
        held = held_by_program(alive, self.frame) | set(map(id, written + gradients))
        for tensor in alive + written + gradients:
            if id(tensor) not in held or tensor.is_meta or place(tensor) in seen:
                continue
            storage = storage_of(tensor)._cdata
            if storage not in log.known or (storage in before and storage not in log.written):
                continue
            seen.add(place(tensor))
            kept.append(tensor)
        names.used = {name.removeprefix("out/") for name in taken if name.startswith("out/")}
        for number, tensor in enumerate(kept):
            self.trace.output(names.of(tensor, f"output{number}"), tensor.detach()
                              if tensor.requires_grad else tensor)
        if not kept and not names.used:
            for number, (call, position, storage, elements) in enumerate(log.last):
                elements.bytes = bytes_of(storage)
                name = f"out/result{number}" if len(log.last) > 1 else "out/result"
                log.unnamed[name] = call, position, elements

    def _name_found(self, names):
        for number, found in enumerate(self.log.found):
            found.name = f"in/{names.of(found.tensor(), f'input{number}')}"

    def __call__(self, function):
        """Records the first call of a function: its arguments are the inputs, its results the
        outputs."""
        signature = inspect.signature(function)

        @functools.wraps(function)
        def recorded(*args, **kwargs):
            if self.running is not None and self.timeline and self.runs == 1:
                with self._later():
                    self.runs += 1
                    return function(*args, **kwargs)
            shapes = [tensor.shape for tensor in tensors_in((args, kwargs))]
            if self.eager is not None and shapes == self.shapes:
                return self.eager.call(lambda: function(*args, **kwargs))
            if self.running is not None:
                return function(*args, **kwargs)
            self.shapes = shapes
            given = signature.bind(*args, **kwargs).arguments
            self.log = FindingLog(self.opaque)
            self.running = recorder.trace(self.folder, log=self.log, **self.options)
            with self.running as trace:
                for name, value in given.items():
                    found = tensors_in(value)
                    for number, tensor in enumerate(found):
                        own = name if value is found[0] else f"{name}.{number}"
                        trace.input(own, tensor)
                results = function(*args, **kwargs)
                # Tensors that the function does not compute with are no results of it.
                trace.outputs((name, tensor) for name, tensor in recorder.named(results).items()
                              if not tensor.is_meta and storage_of(tensor)._cdata in self.log.known)
                self._name_found(Names(*self.modules, *given.items(), ("", function)))
            self._count(True)
            self.eager = recorder.Eager(self.folder)
            return results

        return recorded
