"""Records a PyTorch program for Millstream: its ops, its inputs, and its expected outputs.

    import millstream

    with millstream.trace("my_case", tolerance=(1e-4, 1e-5)) as t:
        t.input("x", x)
        t.inputs(model.named_parameters())
        loss = model(x).square().mean()
        t.output("loss", loss)

or, for a program that is a function without arguments and returns its results by name:

    millstream.record_call("my_case", lambda: {"y": model(x)}, inputs={"x": x, **model.state_dict()})

or, on the command line, with a function that prepares and returns the program and its inputs (see
docs/record.md):

    millstream-record program.py:prepare my_case

The folder then contains the trace that PyTorch's ExecutionTraceObserver writes (et.json) and the
sidecar notes with the data that the trace loses: the elements of inputs, results and constants
(tensors.safetensors), the names of tensors (bindings.json), numbers (consts.json), and the
tolerance (meta.json).

How the lost values are found: a TorchDispatchMode intercepts every op that computes, with its
Python numbers, and marks it by a label below the node of the op. The marks are in the order of the
calls, so the k-th mark belongs to the k-th call; if the names differ, nothing is written. The marks
and the nodes below them are then removed from the trace.

Two kinds of nodes are removed without those below them. Under `torch.inference_mode()` an op that
only calls others reaches the mode itself: the mode calls these others, and the mark goes. The
transforms of `torch.func` call each op with the tensors that they wrap, below a node of the same op
that computes nothing: that node goes.

The trace has fractions with 6 decimals. If the rounding changes an argument or an element of a
list, consts.json has the exact values.

The results of random ops are saved too (of dropout the mask), since no run can draw them again; so
are the results of the ops that the argument `opaque` names, which a run takes as they are.

Each process of a program of several ranks writes a folder of its own, rank0, rank1 and so on.

Limits: tensors on the CPU or a CUDA device, and every tensor that existed before the recording must
be an input; `record` in this package's `automatic` finds them.
"""

import argparse
import collections
import collections.abc
import contextlib
import ctypes
import dataclasses
import difflib
import functools
import gzip
import importlib.util
import itertools
import json
import logging
import numbers
import os
import pathlib
import re
import shlex
import statistics
import sys
import sysconfig
import tempfile
import time
import warnings
import weakref

import torch
from safetensors.torch import save
from torch._ops import HigherOrderOperator
from torch.multiprocessing.reductions import StorageWeakRef
from torch.profiler import ExecutionTraceObserver
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .devices import DTYPES, FILE as STREAMS, Ops, Streams, higher_order

# The label around each intercepted call, and that of PyTorch's later releases.
MARK = "millstream_record::call"
PYTORCH_MARK = "PythonDispatchMode"
TIMELINE, TIMELINE_TRACE = "timeline.json.gz", "timeline-et.json.gz"
# Files of these folders are no lines of the program.
LIBRARY = tuple(f"{folder}{os.sep}" for folder in (pathlib.Path(torch.__file__).parent,
                                                    pathlib.Path(__file__).parent.parent))
STANDARD = (sysconfig.get_path("stdlib") + os.sep, sysconfig.get_path("purelib") + os.sep)
# Calls of these ops may have no node around the mark: autograd calls them without the dispatcher.
UNMARKED = ("aten::detach",)
# Ops whose results are saved because no op here has them: the zeros of forward-mode gradients.
SAVED = ("aten::_new_zeros_with_same_feature_meta",)
# Ops that compare properties of tensors: their nodes are left out, as are those of tensors without
# elements.
QUERIES = ("aten::is_same_size", "aten::_has_same_storage_numel")
# In lines that PyTorch writes to standard error when an observer or the profiler starts and ends.
OBSERVER_LINES = (b"execution_trace_observer", b"SyncActivityProfilerHandler", b"gpuGetDeviceCount")
# The namespace of ops that call a collective.
FUNCTIONAL = "_c10d_functional::"
# The results, by number, that are saved of a random op that has others, which follow from them.
SAVED_RESULTS = {"aten::native_dropout": [1], "aten::rrelu_with_noise": [], "aten::rrelu_with_noise_": []}


# A library prints nothing: what was recorded is told at INFO.
LOG = logging.getLogger("millstream")


class RecordError(Exception):
    """The program cannot be recorded."""


class RecordWarning(UserWarning):
    """A run will refuse the recording, or an argument of the recorder had no use."""


def name_of(func):
    """Returns an op's name as in the schemas of a trace: aten::add.Tensor."""
    return func._schema.name + ("." + func._schema.overload_name).rstrip(".")


def frames_of_program():
    """Yields the frames outside PyTorch, the standard library and this package, the innermost
    first."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        standard = file.startswith(STANDARD[0]) and not file.startswith(STANDARD[1])
        if not file.startswith((*LIBRARY, "<")) and not standard:
            yield frame
        frame = frame.f_back


def line_of_program():
    """Returns the file and the line of the program's innermost frame."""
    lines = (f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in frames_of_program())
    return next(lines, "an unknown line")


# The paths of the modules below each outermost module.
PATHS = weakref.WeakKeyDictionary()


def module_of_program():
    """Returns the path of the innermost module whose `forward` runs, from the outermost one that does;
    the outermost one's class for itself, and nothing outside of modules."""
    frame, running = sys._getframe(1), []
    while frame is not None:
        own = frame.f_locals.get("self") if frame.f_code.co_name == "forward" else None
        if isinstance(own, torch.nn.Module):
            running.append(own)
        frame = frame.f_back
    if not running:
        return ""
    if running[-1] not in PATHS:
        PATHS[running[-1]] = {id(module): name for name, module in running[-1].named_modules()}
    return PATHS[running[-1]].get(id(running[0])) or type(running[0]).__name__


def places_of(pairs):
    """Returns the nodes of each place of the program: a module and a line."""
    places = collections.defaultdict(list)
    for node, call in pairs:
        line = call.line.removeprefix(os.getcwd() + os.sep)
        places[", ".join(filter(None, (call.module, line)))].append(node["id"])
    return places


def unsupported(value):
    """Returns why a tensor or a dtype cannot be recorded, and what to do; None if it can."""
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            return "a nested tensor; pad it to a dense one: torch.nested.to_padded_tensor(x, 0.0)"
        if value.layout != torch.strided:
            return f"a tensor of layout {value.layout}; make it dense: x.to_dense()"
        if value.device.type not in ("cpu", "cuda", "meta"):
            return f"a tensor on {value.device}; only the CPU and CUDA devices are supported"
        value = value.dtype
    if not isinstance(value, torch.dtype) or value in DTYPES:
        return None
    name = str(value)
    if "float8" in name or "float4" in name:
        return f"elements of {name}, which no op here computes with; use bfloat16 or float16"
    if re.match(r"torch\.q(u?int)", name):
        return f"quantised elements ({name}); record the program before it is quantised"
    return f"elements of {name}; supported are " + ", ".join(sorted(map(str, DTYPES)))


def storage_of(tensor):
    reason = unsupported(tensor)
    if reason:
        raise RecordError(reason)
    return tensor.untyped_storage()


def is_on_host(storage):
    return storage.device.type == "cpu"


def bytes_of(storage):
    """Returns a copy of a storage's bytes, taken without calling an op."""
    size = storage.nbytes()
    if size == 0:
        return bytearray()
    if is_on_host(storage):
        return bytearray(ctypes.string_at(storage.data_ptr(), size))
    copy = bytearray(size)
    target = (ctypes.c_char * size).from_buffer(copy)
    with torch.cuda.device(storage.device):
        driver = ctypes.CDLL("libcuda.so.1")
        source = ctypes.c_uint64(storage.data_ptr())
        # The driver's copy waits for the default stream alone, and the program may have others.
        # PyTorch would report its own call as a synchronization of the program.
        status = driver.cuCtxSynchronize()
        if status == 0:
            status = driver.cuMemcpyDtoH_v2(target, source, ctypes.c_size_t(size))
    if status != 0:
        raise RecordError(
            f"the CUDA driver did not copy {size} bytes from {storage.device}: its error {status}"
        )
    return copy


class Elements:
    """A copy of a tensor's storage, taken without calling an op. Views of a storage may share one."""

    def __init__(self, tensor, copied=None):
        if tensor.is_meta:
            raise RecordError(f"{line_of_program()}: a tensor on meta, which has no elements")
        self.bytes = bytes_of(storage_of(tensor)) if copied is None else copied
        self.dtype, self.shape = tensor.dtype, tuple(tensor.shape)
        self.strides, self.offset = tensor.stride(), tensor.storage_offset()
        self.lazy = lazy(tensor)

    def tensor(self):
        if not self.bytes or 0 in self.shape:
            return torch.empty(self.shape, dtype=self.dtype)
        flat = torch.frombuffer(self.bytes, dtype=self.dtype)
        elements = flat.as_strided(self.shape, self.strides, self.offset).clone(
            memory_format=torch.contiguous_format
        )
        conjugate, negate = self.lazy
        elements = elements.conj_physical() if conjugate else elements
        return -elements if negate else elements


def lazy(tensor):
    """Returns whether PyTorch conjugates, and whether it negates a tensor's elements when it reads
    them."""
    return tensor.is_conj(), tensor.is_neg()


@contextlib.contextmanager
def evaluated_views():
    """Lets an op's kernel evaluate conjugate views that it makes itself. Below a dispatch mode PyTorch
    does not: `linalg.pinv` of a complex matrix has another result there."""
    keys = torch._C.DispatchKey
    guard = torch._C._SetExcludeDispatchKeyGuard
    with guard(keys.Conjugate, False), guard(keys.Negative, False):
        yield


@functools.cache
def supported():
    """Returns the names of PyTorch's ops that a run can compute; `cargo xtask docs` writes the
    list."""
    return frozenset(pathlib.Path(__file__).with_name("ops.txt").read_text().split())


@contextlib.contextmanager
def marked():
    """Marks a call in the trace."""
    label = torch.ops.profiler._record_function_enter_new(MARK, None)
    try:
        yield
    finally:
        torch.ops.profiler._record_function_exit._RecordFunction(label)


def in_file(tensor):
    """Returns a tensor as safetensors stores it: of complex numbers with parts of f64, which the
    format has not, the parts."""
    return torch.view_as_real(tensor) if tensor.dtype == torch.complex128 else tensor


class Call:
    """An intercepted call: for each argument the data that the trace loses, and tensors' shapes."""

    def __init__(self, name, line="an unknown line", module=""):
        # The line of the program that makes the call, whether the call is only that of the ops which
        # follow, and whether its results have no elements.
        self.line, self.module, self.is_composite, self.is_meta = line, module, False, False
        # The node that PyTorch records below that of the op when the call is intercepted.
        self.mark = None
        self.name, self.numbers, self.lists, self.shapes, self.elements = name, {}, {}, {}, {}
        # For each argument, of each of its tensors what PyTorch does to the elements it reads.
        self.lazy = {}
        # The results of a random op, and the arguments that it wrote, by number.
        self.results, self.written = {}, {}
        # The group and the reduction of a collective.
        self.collective = {}

    def save(self, params, given, results):
        """Copies the results of a random op, and arguments that it writes besides."""
        saved = SAVED_RESULTS.get(self.name)
        # Undefined tensors count as well.
        leaves = [t for t in tree_leaves(results) if t is None or isinstance(t, torch.Tensor)]
        for number, tensor in enumerate(leaves):
            if tensor is not None and (saved is None or number in saved):
                self.results[number] = Elements(tensor)
        for at, param in enumerate(params):
            value = given.get(param.name)
            if param.alias_info is None or not param.alias_info.is_write:
                continue
            if isinstance(value, torch.Tensor) and all(value is not t for t in leaves):
                self.written[at] = Elements(value)


def collective(given):
    """Returns the group of a collective, and its reduction if it has one, which its node lacks."""
    found = {}
    if (group := given.get("process_group")) is not None:
        found["group"] = torch.distributed.ProcessGroup.unbox(group).group_name
    if (reduction := given.get("reduce_op")) is not None:
        ops = torch.distributed.ReduceOp
        names = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")
        reduction = ops.unbox(reduction) if hasattr(ops, "unbox") else reduction_of_caller()
        same = (name for name in names if reduction == getattr(ops, name))
        if reduction is not None:
            found["op"] = next(same, "other").lower()
    return found


def reduction_of_caller():
    """Returns the reduction that `torch.distributed` was called with: earlier releases do not unbox
    that of an op. None for calls from C++, whose reduction is a sum or part of another node."""
    frame = sys._getframe(1)
    while frame is not None:
        reduction = getattr(frame.f_locals.get("opts"), "reduceOp", None)
        if reduction is not None:
            return reduction
        frame = frame.f_back
    return None


def draws_nothing(params, given):
    """Returns whether a dropout, also one of attention, keeps all elements."""
    full = {**{p.name: p.default_value for p in params if p.has_default_value()}, **given}
    return (
        full.get("dropout_p") == 0
        or full.get("dropout") == 0
        or full.get("p") == 0 and "train" in full
        or full.get("train") is False
        or full.get("training") is False
    )


class Log(TorchDispatchMode):
    """The intercepted calls, with the data that the trace loses."""

    supports_higher_order_operators = True

    def __init__(self, opaque=()):
        super().__init__()
        self.calls = []
        # The ops whose results are saved, and those of them that no call was of so far.
        self.opaque = frozenset([opaque] if isinstance(opaque, str) else opaque)
        self.unused = set(self.opaque)
        # Weak references keep addresses of freed storages from being reused for other storages.
        self.known = {}
        # What the program does with its devices' streams, if that is recorded.
        self.streams = None

    def know(self, value):
        for tensor in tree_leaves(value):
            if isinstance(tensor, torch.Tensor):
                known = StorageWeakRef(storage_of(tensor))
                self.known[known.cdata] = known

    def check(self, name, at, value):
        for tensor in tree_leaves(value):
            if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0 or tensor.is_meta:
                continue
            if storage_of(tensor)._cdata not in self.known:
                raise RecordError(
                    f"{line_of_program()}: {name}, argument {at}: a tensor of {tensor.dtype}, shape "
                    f"{list(tensor.shape)}, existed before the recording and is no input; name it "
                    "with input(), or write constants with torch.tensor([...])"
                )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return higher_order(self, func, args, kwargs)
        name = name_of(func)
        if func.namespace == "profiler":
            # A label, such as that of an optimizer's step.
            return func(*args, **kwargs)
        line = line_of_program()
        self.refuse(name, line, (args, kwargs))
        if implicit(name) and not has_kernel(name, "CPU"):
            # Under `torch.inference_mode()` autograd does not split the op into those that it calls.
            call = Call(name, line)
            call.is_composite = True
            self.calls.append(call)
            with marked(), self:
                return func.decompose(*args, **kwargs)
        params = func._schema.arguments
        given = {**dict(zip((p.name for p in params), args)), **kwargs}
        # The gradients of attention and recurrent layers repeat their dropout.
        random = torch.Tag.nondeterministic_seeded in func.tags
        random |= any(param.name in ("dropout_p", "dropout") for param in params)
        random = random and not draws_nothing(params, given)
        call = Call(name, line, module_of_program())
        if func.namespace == "c10d":
            call.collective = collective(given)
        for at, param in enumerate(params):
            value = given.get(param.name, param.default_value)
            views = [lazy(t) for t in tree_leaves(value) if isinstance(t, torch.Tensor)]
            if any(any(view) for view in views):
                call.lazy[at] = views
            if isinstance(value, numbers.Number):
                call.numbers[at] = value
            elif isinstance(value, torch.Tensor):
                call.shapes[at] = list(value.shape)
            elif isinstance(value, (list, tuple)) and any(isinstance(v, float) for v in value):
                call.lists[at] = list(value)
            if name == "aten::lift_fresh" and at == 0:
                # The elements of torch.tensor([...]), which no op writes.
                call.elements[at] = Elements(value)
                self.know(value)
            if name not in QUERIES:
                self.check(name, at, value)
        self.calls.append(call)
        with marked(), evaluated_views():
            if self.streams is None:
                results = func(*args, **kwargs)
            else:
                results = self.streams.call(func, args, kwargs, call)
        self.refuse(name, line, results)
        call.is_meta = self.is_meta(name, line, results, (args, kwargs))
        base = name.split(".")[0]
        named = self.opaque.intersection((name, base))
        self.unused -= named
        if random or named or name in SAVED:
            call.save(params, given, results)
        elif base not in supported() and name not in QUERIES and not call.is_meta:
            raise RecordError(
                f"{line}: {name}: Millstream has no such op: opaque=['{base}'] saves its results, "
                "which a run takes as they are"
            )
        self.know(results)
        return results

    @staticmethod
    def is_meta(name, line, results, values):
        """Returns whether a call has no results with elements."""
        if name in QUERIES:
            return True
        made, read = ([t for t in tree_leaves(v) if isinstance(t, torch.Tensor)]
                      for v in (results, values))
        if made and all(tensor.is_meta for tensor in made):
            return True
        if any(tensor.is_meta for tensor in made + read):
            raise RecordError(f"{line}: {name}: a tensor on meta, which has no elements")
        return False

    @staticmethod
    def refuse(name, line, values):
        """Refuses a call with tensors or dtypes that cannot be recorded."""
        for value in tree_leaves(values):
            reason = unsupported(value)
            if reason:
                raise RecordError(f"{line}: {name}: {reason}")


class Nodes:
    """The nodes of a trace, in the order of their calls."""

    def __init__(self, nodes):
        self.list = sorted(nodes, key=lambda n: n["id"])
        self.by_id = {n["id"]: n for n in self.list}
        self.children = collections.defaultdict(list)
        for node in self.list:
            if node["ctrl_deps"] != node["id"]:
                self.children[node["ctrl_deps"]].append(node)

    @staticmethod
    def attribute(node, name):
        return next((a["value"] for a in node["attrs"] if a["name"] == name), None)

    @staticmethod
    def op(node):
        """Returns the op's name; empty for a label."""
        return (Nodes.attribute(node, "op_schema") or "").split("(")[0]

    def around(self, node):
        """Yields the nodes around a node, innermost first."""
        while (parent := node["ctrl_deps"]) in self.by_id and parent != node["id"]:
            node = self.by_id[parent]
            yield node

    def op_around(self, node):
        return next((n for n in self.around(node) if self.op(n)), None)

    def op_below(self, node, name):
        return next((n for n in self.ops_below(node) if self.op(n) == name), None)

    def ops_below(self, node):
        """Returns the ops that a node called directly, in order."""
        return [child for child in self.children[node["id"]] if self.op(child)]

    def is_autocast(self, node):
        """Returns whether a node converts operands and calls the same op with them; `norm` is
        called with a dtype, which is another overload."""
        op, same, others = self.op(node), [], 0
        for child in self.ops_below(node):
            called = self.op(child)
            if called == op or (op.startswith("aten::norm.") and called.startswith("aten::norm.")):
                same.append(child)
            elif called.split(".")[0] != "aten::to":
                others += 1

        def results(of):
            return [(storage, count) for _, storage, count in tensors_of(of["outputs"])]

        return others == 0 and len(same) == 1 and results(node) == results(same[0])

    def kept_copies(self, node):
        """Returns the copies that autograd keeps of the operands of an op in place: calls of clone
        below the node, before the op's kernel runs."""
        if not self.op(node).split(".")[0].endswith("_"):
            return []
        operands = {storage for _, storage, _ in tensors_of(node["inputs"])}

        def copies(child):
            read = [storage for _, storage, _ in tensors_of(child["inputs"])]
            return self.op(child) == "aten::clone" and read and read[0] in operands

        return list(itertools.takewhile(copies, self.ops_below(node)))


def pair(nodes, calls):
    """Matches nodes with calls; returns pairs. Each call gets its mark.

    A call without a node around the mark has the one below it: `torch.utils.checkpoint` ends its
    second forward pass by an error, and the op that it ends in has no node."""
    marks = [node for node in nodes.list if node["name"] == MARK]
    if len(marks) != len(calls):
        raise RecordError(
            f"torch {torch.__version__} recorded {len(marks)} of {len(calls)} calls: please report it, "
            "with the program"
        )
    pairs = []
    for number, (call, mark) in enumerate(zip(calls, marks)):
        call.mark, around = mark, nodes.op_around(mark)
        op = around or nodes.op_below(mark, call.name)
        if op is not None and nodes.op(op) == call.name:
            pairs.append((op, call))
        elif call.name not in UNMARKED and not (call.is_meta and call.name.startswith("prims::")):
            there = f"node {op['id']}, {nodes.op(op)}" if op else f"node {mark['id']}"
            raise RecordError(
                f"{call.line}: call {number}, {call.name}, does not match {there} of the trace: "
                "please report it, with the program"
            )
    return pairs


def without_pytorch_marks(nodes):
    """Returns the nodes without PyTorch's own marks; the nodes below them move up."""
    callers = {}
    for node in nodes.list:
        caller = callers.get(node["ctrl_deps"], node["ctrl_deps"])
        if node["name"] == PYTORCH_MARK:
            callers[node["id"]] = caller
        else:
            node["ctrl_deps"] = caller
    return Nodes([node for node in nodes.list if node["id"] not in callers])


def without_wrappers(nodes, pairs):
    """Returns the nodes that an import needs, and the calls to execute with their nodes.

    Not needed are: marks of composite calls; ops that are no calls and have calls below, which the
    transforms of `torch.func` make around them; ops that first make operands by other calls, in
    place of which stands the op below their mark, with these operands; and ops on tensors without
    elements (meta)."""
    # Nodes whose children move up, and nodes that end with all below.
    gone, kept = set(), {}
    ended = {node["id"] for node in nodes.list if nodes.op(node) in QUERIES}
    called = {node["id"]: call for node, call in pairs}
    for node, call in pairs:
        kept.setdefault(call, node)
        if call.is_meta:
            ended.add(node["id"])
            for around in itertools.takewhile(lambda n: len(nodes.ops_below(n)) == 1,
                                              nodes.around(node)):
                ended.add(around["id"])
        if call.is_composite or call.mark["id"] == node["ctrl_deps"]:
            gone.add(call.mark["id"])
        for around in nodes.around(node):
            op, outer = nodes.op(around), called.get(around["id"])
            if outer is not None and not outer.is_composite:
                inner = nodes.op_below(outer.mark, outer.name)
                copies = any(copy is node for copy in nodes.kept_copies(around))
                if inner and not copies and not is_evaluation(nodes, node, call):
                    kept[outer] = inner
                    gone |= {around["id"], outer.mark["id"]}
                break
            is_wrapper = op and outer is None and not op.startswith(FUNCTIONAL)
            if is_wrapper and not implicit(op) and not nodes.is_autocast(around):
                gone.add(around["id"])
    if not gone and not ended:
        return nodes, pairs

    def caller(node):
        at = node["ctrl_deps"]
        while at in gone:
            at = nodes.by_id[at]["ctrl_deps"]
        return at

    callers = {node["id"]: caller(node) for node in nodes.list}
    for node in nodes.list:
        if node["ctrl_deps"] in ended:
            ended.add(node["id"])
        node["ctrl_deps"] = callers[node["id"]]
    left = Nodes([node for node in nodes.list if node["id"] not in gone | ended])
    left_calls = [(kept[call], call) for _, call in pairs
                  if not call.is_composite and not call.is_meta]
    for _, call in left_calls:
        call.mark = left.by_id.get(call.mark["id"], kept[call])
    # A wrapper of a wrapper looked like the node of autocast.
    return without_wrappers(left, left_calls)


def written(number):
    """Returns a number as consts.json has it: infinities and NaN are strings."""
    text = not isinstance(number, (bool, int)) and repr(float(number))
    return text if text in ("inf", "-inf", "nan") else number


def is_tensor(of):
    return of.startswith("Tensor(") and "nullptr" not in of


def lost(nodes, pairs):
    """Returns the lost data of the calls: the entries of consts.json and their tensors."""
    consts, tensors = [], {}
    for node, call in pairs:
        where = f"{call.line}: node {node['id']}, {call.name}"
        for place, saved in (("result", call.results), ("written", call.written)):
            for number, elements in saved.items():
                key = f"random/{node['id']}/{place}{number}"
                tensors[key] = elements.tensor()
                entry = {"node": node["id"], "op": call.name, place: number, "tensor": key}
                consts.append(entry)
        for at, of in enumerate(node["inputs"]["types"]):
            entry = {"node": node["id"], "op": call.name, "arg": at}
            if at in call.elements:
                key = f"const/{node['id']}/{at}"
                tensors[key] = call.elements[at].tensor()
                consts.append({**entry, "tensor": key})
            elif is_tensor(of) and at in call.numbers:
                number = call.numbers[at]
                if isinstance(number, complex):
                    of = torch.tensor(number, dtype=torch.complex128)
                    key = f"const/{node['id']}/{at}"
                    tensors[key] = of
                    consts.append({**entry, "tensor": key})
                    continue
                consts.append({**entry, "scalar": written(number)})
            elif is_tensor(of) and call.name not in UNMARKED:
                if node["inputs"]["shapes"][at] != call.shapes.get(at):
                    raise RecordError(f"{where}, argument {at}: not the tensor of the call")
            elif isinstance(call.numbers.get(at), complex):
                key = f"const/{node['id']}/{at}"
                tensors[key] = torch.tensor(call.numbers[at], dtype=torch.complex128)
                consts.append({**entry, "tensor": key})
            elif of == "Double" and at in call.numbers:
                kept, number = float(node["inputs"]["values"][at]), float(call.numbers[at])
                if kept != number and number == number:
                    consts.append({**entry, "scalar": written(number)})
            elif "Double" in of and at in call.lists:
                kept = [float(v) for v in node["inputs"]["values"][at]]
                exact = call.lists[at]
                if any(a != b and b == b for a, b in zip(kept, exact)):
                    consts.append({**entry, "list": [written(v) for v in exact]})
    consts += lazy_views(nodes, pairs)
    return consts, tensors


def lazy_views(nodes, pairs):
    """Returns the entries of consts.json for operands that PyTorch conjugates or negates when it reads
    them: those of a call, and those that it copied below an op's node to call the op with them."""
    found = {}
    for node, call in pairs:
        seen = {}
        for at, value in leaves_of(node["inputs"]):
            seen.setdefault(at, []).append(value[0])
        for at, views in call.lazy.items():
            for view, (conjugate, negate) in zip(seen.get(at, ()), views):
                around = nodes.op_around(node) if is_evaluation(nodes, node, call) else None
                for of in (node, around):
                    if of is not None and (conjugate or negate):
                        found[(of["id"], view)] = (nodes.op(of), conjugate, negate)
    return [
        {"node": node, "op": op, "view": view, "conjugate": conjugate, "negate": negate}
        for (node, view), (op, conjugate, negate) in found.items()
    ]


def is_evaluation(nodes, node, call):
    """Returns whether PyTorch makes this call to evaluate an operand of the op around it, or to write
    a result back to one."""
    return bool(call.lazy) and nodes.op(node) in ("aten::clone", "aten::copy_")


def tensors_of(side):
    """Yields the tensors of a node's arguments or results: argument, storage, number of
    elements."""

    for at, value in leaves_of(side):
        yield at, value[1], value[3]


@functools.cache
def implicit(op):
    """Returns whether an op only calls other ops."""
    try:
        return has_kernel(op, "CompositeImplicitAutograd")
    except RuntimeError:
        return False


@functools.cache
def has_kernel(op, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(op, key)


def check(nodes, pairs, consts):
    """Checks that every tensor which an executed op reads is a result, an input or a constant, and
    that no call is made below an executed op, where an import does not look for calls."""
    called = {node["id"] for node, _ in pairs}
    given = {(c["node"], c["arg"]) for c in consts if "arg" in c}
    known, done = set(), set()
    calls = {node["id"]: call for node, call in pairs}
    threads = {nodes.attribute(node, "tid") for node, _ in pairs}

    def described(node):
        line = calls[node["id"]].line + ": " if node["id"] in calls else ""
        return f"{line}node {node['id']}, {nodes.op(node)}"

    def skip(node, where):
        """Skips a node below an executed op. Tensors at the addresses that it allocates ended."""
        done.add(node["id"])
        evaluates = node["id"] in called and is_evaluation(nodes, node, calls[node["id"]])
        if node["id"] in called and nodes.op(node) not in UNMARKED and not evaluates:
            raise RecordError(
                f"{described(node)}, is called by {where}, a kernel that calls other ops: an import "
                "would not execute it; replace the op by those that it calls"
            )
        operands = {storage for _, storage, _ in tensors_of(node["inputs"])}
        results = {s for _, s, count in tensors_of(node["outputs"]) if count}
        known.difference_update(results - operands)
        for child in nodes.children[node["id"]]:
            skip(child, where)

    def execute(node):
        where = described(node)
        done.add(node["id"])
        for copy in nodes.kept_copies(node):
            execute(copy)
        for child in nodes.children[node["id"]]:
            if child["id"] not in done:
                skip(child, where)
        for at, storage, count in tensors_of(node["inputs"]):
            if count and storage not in known and (node["id"], at) not in given:
                if nodes.attribute(node, "tid") not in threads:
                    raise RecordError(
                        f"{where}, is called by another thread of the program: record calls of the "
                        "thread that begins the recording"
                    )
                raise RecordError(
                    f"{where}, argument {at}: a tensor that is neither a result of a call nor an "
                    "input; if the program made it without an op, name it with input()"
                )
            known.add(storage)
        known.update(storage for _, storage, _ in tensors_of(node["outputs"]))

    for node in nodes.list:
        if node["id"] in done:
            continue
        if node["name"].startswith("bind:in/"):
            known.update(storage for _, storage, _ in tensors_of(node["inputs"]))
        descends = node["id"] not in called and (
            implicit(nodes.op(node)) or nodes.is_autocast(node)
        )
        if nodes.op(node) and not descends:
            execute(node)


def first_of(nodes):
    """Returns the first node of the program."""
    return next(n for n in nodes.list if not n["name"].startswith("[pytorch|"))


def with_labels(nodes, pairs, calls, found):
    """Returns the nodes with a label for each input that was found at its first use, in front of
    all calls. The nodes behind the labels get other ids."""
    first = first_of(nodes)["id"]
    node_of = {id(call): node for node, call in pairs}
    labels = []
    for one in found:
        side = one.side(calls, node_of)
        if side is None:
            # Autograd alone reads it, without the dispatcher.
            continue
        labels.append(label(first + len(labels), one.name, nodes.by_id[first]["ctrl_deps"], side))
    for node in nodes.list:
        for field in ("id", "ctrl_deps"):
            if node[field] >= first:
                node[field] += len(labels)
    return Nodes(nodes.list + labels)


def with_results(nodes, pairs, results):
    """Returns the nodes with a label for each result of the last calls, behind all calls."""
    node_of = {id(call): node for node, call in pairs}
    last, labels = nodes.list[-1]["id"], []
    for name, (call, position, elements) in results.items():
        side = node_of[id(call)]["outputs"]
        types = re.findall(r"Tensor\([^)]*\)", ", ".join(side["types"]))
        values = [value for _, value in leaves_of(side)]
        side = operand(values, types, position, elements)
        labels.append(label(last + 1 + len(labels), name, first_of(nodes)["ctrl_deps"], side))
    return Nodes(nodes.list + labels)


def operand(values, types, position, view):
    """Returns the operand of a label: one of several tensors, with its view."""
    return {
        "values": values[position:position + 1], "types": types[position:position + 1],
        "shapes": [list(view.shape)], "strides": [list(view.strides)],
    }


def label(number, name, caller, side):
    """Returns a node that binds a name to a tensor."""
    return {
        "id": number, "name": f"bind:{name}", "ctrl_deps": caller, "inputs": side,
        "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
        "attrs": [{"name": "op_schema", "type": "string", "value": ""}],
    }


def leaves_of(side):
    """Yields the tensors of a node's arguments or results: argument, and the tensor as the trace has
    it."""

    def walk(at, value):
        if isinstance(value, list):
            if len(value) == 6 and isinstance(value[5], str):
                yield at, value
            else:
                for inner in value:
                    yield from walk(at, inner)

    for at, value in enumerate(side["values"]):
        yield from walk(at, value)


def bindings(nodes, names):
    """Returns the content of bindings.json: the tensor of each name. Traces of earlier releases have
    no strides; the labels get those of their tensors."""
    found = {}
    for node in nodes.list:
        if node["name"].startswith("bind:"):
            bound = names.get(node["name"].removeprefix("bind:"))
            if bound is not None:
                node["inputs"].setdefault("strides", [list(bound.strides)])
            (value,), (shape,) = node["inputs"]["values"], node["inputs"]["shapes"]
            (of,), (strides,) = node["inputs"]["types"], node["inputs"]["strides"]
            found[node["name"].removeprefix("bind:")] = {
                "et": value, "shape": shape, "strides": strides, "type": of, "node": node["id"],
            }
    if list(found) != list(names):
        raise RecordError(f"the trace names {list(found)}, the program {list(names)}")
    return found


def without_marks(nodes):
    """Returns the nodes without those that the recording itself caused."""
    gone = set()
    for node in nodes.list:
        if node["name"] == MARK or node["ctrl_deps"] in gone:
            gone.add(node["id"])
    return [node for node in nodes.list if node["id"] not in gone]


class Trace:
    """A recording in progress, which `trace` starts."""

    def __init__(self, log):
        self.log = log
        self.bound = {}

    def _bind(self, name, tensor):
        if name in self.bound:
            kind, _, own = name.partition("/")
            raise RecordError(f"{line_of_program()}: two {kind}puts are called '{own}'")
        self.bound[name] = Elements(tensor)
        # An autograd function without work: the trace records a node with its name and argument.
        label = type(f"bind:{name}", (torch.autograd.Function,), {
            "forward": staticmethod(lambda ctx, tensor: None),
        })
        label.apply(tensor)

    def input(self, name, tensor):
        """Names a tensor that the program reads, and copies its current elements."""
        if any(lazy(tensor)):
            raise RecordError(f"input '{name}' is a lazy view: call resolve_conj().resolve_neg()")
        self.log.know(tensor)
        self._bind(f"in/{name}", tensor)

    def inputs(self, tensors):
        """Names several inputs: a dict, or pairs as `named_parameters()` returns them."""
        pairs = tensors.items() if isinstance(tensors, collections.abc.Mapping) else tensors
        for name, tensor in pairs:
            self.input(name, tensor)

    def output(self, name, tensor):
        """Names a result. A run must produce its current elements."""
        if not tensor.is_meta and storage_of(tensor)._cdata not in self.log.known:
            raise RecordError(
                f"{line_of_program()}: output '{name}' existed before the recording, and nothing "
                "recorded reads it"
            )
        self._bind(f"out/{name}", tensor)

    def outputs(self, tensors):
        """Names several results: a dict, or pairs."""
        pairs = tensors.items() if isinstance(tensors, collections.abc.Mapping) else tensors
        for name, tensor in pairs:
            self.output(name, tensor)


def rank_of_process():
    """Returns this process's rank, if the program has several."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return None


def dump(value):
    return (json.dumps(value, indent=1) + "\n").encode()


def write(folder, text, done, tolerance, note, seed, compress):
    raw = json.loads(text)
    nodes = without_pytorch_marks(Nodes(raw["nodes"]))
    nodes, pairs = without_wrappers(nodes, pair(nodes, done.log.calls))
    found = getattr(done.log, "found", ())
    if found:
        nodes = with_labels(nodes, pairs, done.log.calls, found)
        inputs = {one.name: one.elements for one in found if one.elements is not None}
        done.bound = {**inputs, **done.bound}
    unnamed = getattr(done.log, "unnamed", {})
    if unnamed:
        nodes = with_results(nodes, pairs, unnamed)
        done.bound.update((name, elements) for name, (_, _, elements) in unnamed.items())
    consts, tensors = lost(nodes, pairs)
    check(nodes, pairs, consts)
    names = bindings(nodes, done.bound)
    if not any(name.startswith("out/") for name in names):
        raise RecordError(
            "the program has no output: no tensor that it made is left; keep one in a variable"
        )
    tensors.update((name, elements.tensor()) for name, elements in done.bound.items())
    kept = without_marks(nodes)
    head = json.dumps({k: v for k, v in raw.items() if k != "nodes"})[:-1]
    lines = ",\n".join(json.dumps(node) for node in kept)
    trace = f'{head}, "nodes": [\n{lines}\n]}}\n'.encode()
    meta = {
        "case": folder.name, "torch": torch.__version__, "schema": raw["schema"], "seed": seed,
        "rank": rank_of_process(), "nodes": len(kept), "calls": len(done.log.calls), "consts": len(consts),
        "note": note,
    }
    if tolerance is not None:
        meta["tolerance"] = dict(zip(("rtol", "atol"), tolerance))
    meta["places"] = places_of(pairs)
    collectives = {node["id"]: call.collective for node, call in pairs if call.collective}
    if collectives:
        meta["collectives"] = collectives
    tensors = {key: in_file(tensor) for key, tensor in tensors.items()}
    form, other = ("et.json.gz", "et.json") if compress else ("et.json", "et.json.gz")
    noted, ids = done.log.streams, {id(call): node["id"] for node, call in pairs}
    files = {
        form: gzip.compress(trace, mtime=0) if compress else trace,
        other: None,
        TIMELINE: None,
        TIMELINE_TRACE: None,
        STREAMS: noted and noted.content(lambda call: ids.get(id(call))),
        "consts.json": dump(consts),
        "bindings.json": dump(names),
        "meta.json": dump(meta),
        "tensors.safetensors": save(tensors),
    }
    replace(folder, files)
    inputs = sum(name.startswith("in/") for name in names)
    size = sum(len(content) for content in files.values() if content is not None)
    LOG.info(f"recorded {len(pairs)} ops, {inputs} inputs and {len(names) - inputs} outputs: "
             f"{size / 1e6:.1f} MB in {folder}")
    lines = {node["id"]: call.line for node, call in pairs}
    first = next(iter(lines.values()), line_of_program())
    for op in sorted(done.log.unused):
        near = difflib.get_close_matches(op, {call.name.split(".")[0] for call in done.log.calls}, 1)
        hint = "".join(f"; '{n}' is near" for n in near)
        warn(first, f"no call was of '{op}', which opaque names{hint}")
    program = folder if meta["rank"] is None else folder.parent
    if meta["rank"] is None:
        for found, why in refusals(folder):
            line = next((lines[node] for node in found if node in lines), first)
            warn(line, f"`millstream run` will refuse {why}")
    LOG.info(f"run it with: millstream run {shlex.quote(str(program))}")


def refusals(folder):
    """Yields what a run would refuse of a recording, with its nodes, if the package is built."""
    try:
        from .. import _native, commands
    except ImportError:
        return
    found = {}
    for node in commands.coverage(folder).skipped:
        found.setdefault((node["op"], node["reason"]), []).append(node["node"])
    for (op, reason), nodes in found.items():
        op = op.split(".")[0]
        yield nodes, f"{len(nodes)} of {op}: {reason}; opaque=['{op}'] saves its results"
    if not found:
        # What is refused of elements shows only when they are read.
        ended = _native.command(["millstream", "convert", str(folder), os.devnull])
        for place, message, _ in ended.errors[:1]:
            message = f"{place}: {message}"
            yield map(int, re.findall(r"node (\d+)", message)), message


def warn(line, message):
    """Warns at a line of the program, which is a file and a number."""
    file, _, number = line.rpartition(":")
    warnings.warn_explicit(message, RecordWarning, file or line, int(number) if file else 0)


def print_messages():
    """Prints messages and warnings of the recorder to standard error, as a command does."""
    handler, others = logging.StreamHandler(), warnings.formatwarning
    handler.setFormatter(logging.Formatter("millstream: %(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    warnings.formatwarning = lambda message, kind, file, line, source=None: (
        f"millstream: warning: {file}:{line}: {message}\n" if kind is RecordWarning
        else others(message, kind, file, line, source)
    )


def replace(folder, files):
    """Writes files to a folder, which is made if it is missing, and removes those without content.
    Everything is on the disk before the first old file is replaced: what stops the recording in
    between, as a full disk, leaves the old one."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".millstream-", dir=folder) as beside:
        beside = pathlib.Path(beside)
        kept = {name: content for name, content in files.items() if content is not None}
        for name, content in kept.items():
            with open(beside / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name in files.keys() - kept.keys():
            (folder / name).unlink(missing_ok=True)
        for name in kept:
            os.replace(beside / name, folder / name)


def writable(folder):
    """Returns the folder of this process's recording. A folder that cannot be written is found before
    the program runs."""
    folder = pathlib.Path(folder)
    rank = rank_of_process()
    if rank is not None:
        folder = folder / f"rank{rank}"
    whole = folder.absolute()
    existing = next(path for path in (whole, *whole.parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise RecordError(f"'{folder}' cannot be written: {existing}: {error.strerror}") from error
    return folder


class InProgress:
    """The recording in progress. PyTorch has one observer for a process: a second one ends it."""

    folder = None

    @classmethod
    @contextlib.contextmanager
    def only(cls, folder):
        if cls.folder is not None:
            raise RecordError(
                f"{line_of_program()}: a recording of '{folder}' begins within that of "
                f"'{cls.folder}': end the outer one first, or record one of them"
            )
        cls.folder = folder
        try:
            yield
        finally:
            cls.folder = None


@contextlib.contextmanager
def ordinary_attention():
    """Turns off the fast path of `nn.TransformerEncoder` and `nn.MultiheadAttention` in evaluation:
    with a mask it computes with nested tensors."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def without_compilation():
    """Runs compiled functions as they are written: a compiled one has no ops."""
    set_stance = getattr(torch.compiler, "set_stance", None)
    return set_stance("force_eager") if set_stance else contextlib.nullcontext()


@contextlib.contextmanager
def without_observer_lines():
    """Keeps PyTorch's reports of the start and end of observer and profiler from standard error. Their
    level is read when PyTorch is imported."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as said:
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            said.seek(0)
            lines = [line for line in said if not any(part in line for part in OBSERVER_LINES)]
            os.write(2, b"".join(lines))


@contextlib.contextmanager
def trace(folder, tolerance=None, note="", seed=None, compress=False, opaque=(), log=None,
          streams=None):
    """Records the program inside the `with` block. `tolerance` holds the relative and the absolute
    tolerance of a run; without it, a run has that of each output's dtype. With `compress` the trace
    is written as et.json.gz. `opaque` names ops whose results are saved. `log`
    is for recordings of other kinds. `streams` tells whether to record what the program does with
    the streams of its devices: if there are any, without it."""
    folder = writable(folder)
    done = Trace(log or Log(opaque))
    if torch.cuda.is_available() if streams is None else streams:
        done.log.streams = Streams(frames_of_program)
    with InProgress.only(folder), tempfile.TemporaryDirectory() as scratch:
        if seed is not None:
            torch.manual_seed(seed)
        threads = torch.get_num_threads()
        raw = pathlib.Path(scratch) / "et.json"
        observer = ExecutionTraceObserver().register_callback(str(raw))
        # One thread, so that every node has its caller as its parent.
        torch.set_num_threads(1)
        # On this thread also the backward pass of a CUDA device, which has a thread of its own.
        backward = torch.autograd.set_multithreading_enabled(False)
        with without_observer_lines():
            observer.start()
        try:
            noted = done.log.streams and done.log.streams.registered()
            with (
                ordinary_attention(), without_compilation(), noted or contextlib.nullcontext(),
                done.log, backward,
            ):
                yield done
        finally:
            with without_observer_lines():
                observer.stop()
                observer.unregister_callback()
            torch.set_num_threads(threads)
        write(folder, raw.read_text(), done, tolerance, note, seed, compress)


@contextlib.contextmanager
def streams(folder):
    """Records what the program inside the `with` block does with the streams, the events and the
    memory of its devices, and nothing else: folder/streams.json, which `millstream verify` reads."""
    folder, noted = writable(folder), Streams(frames_of_program)
    with InProgress.only(folder):
        backward = torch.autograd.set_multithreading_enabled(False)
        with backward, without_compilation(), noted.registered(), Ops(noted):
            yield
        replace(folder, {STREAMS: noted.content()})
    LOG.info(f"verify it with: millstream verify {shlex.quote(str(folder))}")


@contextlib.contextmanager
def profiled(folder):
    """Saves PyTorch's timeline of the program inside the `with` block beside the trace in `folder`,
    as timeline.json.gz, and the Execution Trace of this run as timeline-et.json.gz. The recorder does
    not run: its own time would be in the timeline."""
    folder = writable(folder)
    with InProgress.only(folder), tempfile.TemporaryDirectory() as scratch:
        raw, exported = (pathlib.Path(scratch) / name for name in ("et.json", TIMELINE))
        # The profiler numbers ops as the trace does while an observer runs, and names the events of
        # waits if it is told to.
        profiler = torch.profiler.profile(
            execution_trace_observer=ExecutionTraceObserver().register_callback(str(raw)),
            experimental_config=torch.profiler._ExperimentalConfig(enable_cuda_sync_events=True),
        )
        with without_observer_lines():
            profiler.__enter__()
        try:
            yield
        finally:
            with without_observer_lines():
                profiler.__exit__(None, None, None)
        profiler.export_chrome_trace(str(exported))
        trace = gzip.compress(raw.read_bytes(), mtime=0)
        replace(folder, {TIMELINE: exported.read_bytes(), TIMELINE_TRACE: trace})
    LOG.info(f"the timeline is {folder / TIMELINE}")


def named(results):
    """Returns the tensors among results by name: those of lists, dicts and dataclasses too."""
    if isinstance(results, torch.Tensor):
        return {"result": results}
    prefix = "result" if isinstance(results, (list, tuple)) else ""

    def walk(name, value):
        if isinstance(value, torch.Tensor):
            yield name, value
        for key, inner in inside(value):
            yield from walk(f"{name}.{key}", inner)

    return {name: tensor for key, value in inside(results)
            for name, tensor in walk(f"{prefix}{key}", value)}


def inside(value):
    """Returns the elements of a container with their keys, or the fields of a dataclass."""
    if isinstance(value, collections.abc.Mapping):
        return value.items()
    if isinstance(value, (list, tuple, collections.deque)):
        return enumerate(value)
    is_data = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value)] if is_data \
        else ()


class Eager:
    """The times of a recorded program's later calls, which are not recorded."""

    MOST = 9

    def __init__(self, folder):
        self.folder, self.times, self.is_timing = writable(folder), [], False

    def call(self, fn):
        """Calls a function, and writes the median time so far to meta.json. The first call, which
        PyTorch prepares, does not count."""
        # A function may call itself.
        if self.is_timing or len(self.times) > self.MOST:
            return fn()
        wait = torch.cuda.synchronize if torch.cuda.is_initialized() else lambda: None
        wait()
        start, self.is_timing = time.perf_counter(), True
        try:
            results = fn()
        finally:
            self.is_timing = False
        wait()
        self.times.append(time.perf_counter() - start)
        if len(self.times) > 1:
            path = self.folder / "meta.json"
            meta = json.loads(path.read_text())
            meta["eager"] = {"seconds": statistics.median(self.times[1:]), "on": processor()}
            replace(self.folder, {"meta.json": dump(meta)})
        return results


def processor():
    """Returns the name of the processor that programs run on, as Linux has it."""
    if torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((l.split(": ", 1)[1] for l in lines if l.startswith("model name")), "")


def record_call(
    folder, fn, inputs, rtol=None, atol=None, seed=None, note="", compress=False, opaque=(),
    timeline=False, streams=None, timed=0,
):
    """Records `fn()`, which computes with the tensors of `inputs` and returns its results: a dict,
    a tensor, or a sequence of tensors. With `timeline`, `fn` is called once more, without the
    recorder, for PyTorch's timeline, and then `timed` times for the time that it takes."""
    given = None if rtol is None and atol is None else (rtol, atol)
    with trace(folder, given, note, seed, compress, opaque, streams=streams) as t:
        t.inputs(inputs)
        t.outputs(named(fn()))
    if timeline:
        with profiled(folder):
            fn()
    eager = Eager(folder)
    for _ in range(timed):
        eager.call(fn)


def main():
    parser = argparse.ArgumentParser(
        description="Records a PyTorch program with the inputs and expected outputs of "
        "a run.",
    )
    parser.add_argument(
        "program",
        help="FILE.py:FUNCTION; the function returns the program, a function without arguments "
        "that returns its results by name, and the program's inputs by name",
    )
    parser.add_argument("folder", help="the folder to write to")
    parser.add_argument(
        "--rtol", type=float, help="the relative tolerance of a run; default: that of each dtype"
    )
    parser.add_argument("--atol", type=float, help="the absolute tolerance")
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed that is set before FUNCTION is called"
    )
    parser.add_argument(
        "--opaque", nargs="+", default=(), metavar="OP",
        help="ops whose results are saved, and taken as they are by a run",
    )
    parser.add_argument(
        "--streams", action="store_true", default=None,
        help="record what the program does with its streams; default: where there is a CUDA device",
    )
    parser.add_argument(
        "--timeline", action="store_true",
        help="run the program once more, for the profiler's timeline",
    )
    parser.add_argument("--compress", action="store_true", help="write et.json.gz")
    given = parser.parse_args()
    print_messages()
    path, _, function = given.program.rpartition(":")
    spec = importlib.util.spec_from_file_location("program", path) if path else None
    if spec is None or spec.loader is None:
        parser.error(f"'{given.program}': expected FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(pathlib.Path(path).resolve().parent))
    spec.loader.exec_module(module)
    torch.manual_seed(given.seed)
    try:
        fn, inputs = getattr(module, function)()
        record_call(given.folder, fn, inputs, given.rtol, given.atol, given.seed,
                    compress=given.compress, opaque=given.opaque, timeline=given.timeline,
                    streams=given.streams, timed=1 + Eager.MOST)
    except RecordError as e:
        sys.exit(f"error: {e}")


if __name__ == "__main__":
    main()
