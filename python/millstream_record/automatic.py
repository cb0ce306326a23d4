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
import sys
import weakref

import torch

from . import recorder
from .recorder import Elements, Log, RecordError, UNMARKED, storage_of
from .devices import tensors_in


class Found:
    """An input that was found at its first use."""

    def __init__(self, tensor, call, argument, position):
        self.tensor, self.elements = weakref.ref(tensor), Elements(tensor)
        # The call, its argument, and the position among the tensors of the argument.
        self.call, self.argument, self.position = call, argument, position
        self.name = None


class FindingLog(Log):
    """A log that takes every tensor from before for an input."""

    def __init__(self, opaque=()):
        super().__init__(opaque)
        self.found, self.made, self.written = [], [], set()

    def check(self, name, at, value):
        if name in UNMARKED or isinstance(at, str):
            return
        for position, tensor in enumerate(tensors_in(value)):
            if tensor.numel() and not tensor.is_meta and storage_of(tensor)._cdata not in self.known:
                # The call is appended to the log after its arguments were checked.
                self.found.append(Found(tensor, len(self.calls), at, position))
                Log.know(self, tensor)

    def know(self, value):
        super().know(value)
        self.made += [weakref.ref(tensor) for tensor in tensors_in(value)]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = super().__torch_dispatch__(func, types, args, kwargs)
        given = {**dict(zip((p.name for p in func._schema.arguments), args)), **(kwargs or {})}
        for param in func._schema.arguments:
            if param.alias_info is not None and param.alias_info.is_write:
                written = tensors_in(given.get(param.name))
                self.written.update(storage_of(tensor)._cdata for tensor in written)
                self.made += [weakref.ref(tensor) for tensor in written]
        return results


def place(tensor):
    """Returns what two tensors of the same elements have in common."""
    return storage_of(tensor)._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()


def held_by_program(tensors, frame):
    """Returns the identities of the tensors that Python's objects refer to, or the variables of a
    frame and of its callers. Autograd keeps others for the backward pass."""
    holders = (holder for holder in gc.get_referrers(*tensors) if holder is not tensors)
    held = {id(one) for holder in holders for one in gc.get_referents(holder)}
    while frame is not None:
        held.update(map(id, frame.f_locals.values()))
        frame = frame.f_back
    return held


class Names:
    """Names of tensors: those of modules' parameters and of variables, each given once."""

    def __init__(self, modules, variables):
        self.known, self.used = [], set()
        for prefix, module in modules:
            for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
                self.known.append((f"{prefix}{name}", tensor))
                if tensor.grad is not None:
                    self.known.append((f"{prefix}{name}.grad", tensor.grad))
        for name, value in variables.items():
            if isinstance(value, torch.Tensor):
                self.known.append((name, value))
                if value.is_leaf and value.grad is not None:
                    self.known.append((f"{name}.grad", value.grad))
            elif isinstance(value, torch.optim.Optimizer):
                for parameter, state in value.state.items():
                    of = next((n for n, t in self.known if t is parameter), "parameter")
                    self.known += [(f"{of}.{key}", t) for key, t in state.items()
                                   if isinstance(t, torch.Tensor)]
            elif isinstance(value, (list, tuple, dict)) and len(value) < 1000:
                inner = value.items() if isinstance(value, dict) else enumerate(value)
                pairs = [(f"{name}.{k}", v) for k, v in inner if isinstance(v, torch.Tensor)]
                self.known += pairs

    def of(self, tensor, otherwise):
        """Returns a name for a tensor that no other tensor has."""
        names = [name for name, known in self.known if known is tensor]
        names += [name for name, known in self.known if place(known) == place(tensor)]
        base = names[0] if names else otherwise
        name, number = base, 2
        while name in self.used:
            name, number = f"{base}_{number}", number + 1
        self.used.add(name)
        return name


class Unrecorded:
    """Stands for the recording in a run that is not recorded: names are not used."""

    def input(self, *_):
        pass

    inputs = output = outputs = input


class record:
    """Records the program inside a `with` block, or the first call of a function.

    `modules` are those whose parameters and buffers give names to tensors. `tolerance`, `note`,
    `seed`, `compress`, `opaque` and `streams` are those of `trace`. With `timeline`, the first run of the block
    or the function is recorded, and the second one runs under PyTorch's profiler, without the
    recorder: its timeline is written beside the trace, as timeline.json.gz."""

    def __init__(self, folder, *modules, tolerance=None, note="", seed=None,
                 compress=False, opaque=(), timeline=False, streams=None):
        self.folder, self.opaque = folder, opaque
        self.modules = [(f"module{k}." if len(modules) > 1 else "", m)
                        for k, m in enumerate(modules)]
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
            recorder.show("run it once more in this process for its timeline")

    def _bind(self):
        """Names the inputs that were found, and what is left at the end as outputs."""
        log, variables = self.log, dict(self.frame.f_locals)
        modules = self.modules or [
            (f"{name}.", value) for name, value in variables.items()
            if isinstance(value, torch.nn.Module)
        ]
        names = Names(modules, variables)
        taken = {name for name in self.trace.bound}
        for number, found in enumerate(log.found):
            tensor = found.tensor()
            otherwise = f"input{number}"
            name = names.of(tensor, otherwise) if tensor is not None else otherwise
            found.name = f"in/{name}"
            if found.name in taken:
                raise RecordError(f"two tensors are called '{found.name}'")
        before = {f._cdata for f in (storage_of(t) for t in
                  (found.tensor() for found in log.found) if t is not None)}
        kept, seen = [], set()
        gradients = [t.grad for t in (ref() for ref in log.made + [f.tensor for f in log.found])
                     if t is not None and t.is_leaf and t.grad is not None]
        made = [tensor for tensor in (ref() for ref in log.made) if tensor is not None]
        held = held_by_program(made, self.frame) | set(map(id, gradients))
        for tensor in made + gradients:
            if id(tensor) not in held or place(tensor) in seen:
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
                trace.outputs(recorder.named(results))
                names = Names(self.modules, {})
                for number, found in enumerate(self.log.found):
                    tensor, otherwise = found.tensor(), f"input{number}"
                    found.name = "in/" + (names.of(tensor, otherwise) if tensor is not None
                                          else otherwise)
            self._count(True)
            self.eager = recorder.Eager(self.folder)
            return results

        return recorded
