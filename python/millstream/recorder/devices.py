"""What a program does with the streams, the events and the memory of its CUDA devices.

PyTorch calls the callbacks of `torch.cuda._gpu_trace` at every record, wait, synchronization,
allocation and free. Together with the ops, which a dispatch mode intercepts, they state the order
of the program's device work completely: no profiler is needed. docs/record.md describes the file.
"""

import contextlib
import json
import re
import sys
import threading

import torch
from torch._ops import HigherOrderOperator
from torch.cuda import _gpu_trace
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FILE, VERSION = "streams.json", 1
# The most frames of a stack.
FRAMES = 8
# Ops that neither read nor write elements.
NO_WORK = re.compile(r"(aten::(new_)?empty|profiler::|aten::(set_|resize_|is_pinned)\b)")
# Ops that copy between the host's memory and a device's, while the host goes on.
COPIES = ("aten::copy_", "aten::_to_copy", "aten::_foreach_copy_")
# The names of the dtypes that Millstream computes with; elements of others are written as bytes.
DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16",
    torch.int32: "i32", torch.int64: "i64", torch.uint16: "u16", torch.uint32: "u32",
    torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32",
    torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128",
}


def device_of(tensor):
    return str(tensor.device)


def address_of(storage):
    return storage.data_ptr()


def is_pinned(tensor):
    return torch.cuda.is_available() and tensor.is_pinned()


def current_device():
    return f"cuda:{torch.cuda.current_device()}"


def current_stream(device):
    """Returns the handle of the stream that the program submits to."""
    return torch.cuda.current_stream(device).cuda_stream


def stream_of(stream):
    """Returns the handle of a stream that an op is given."""
    return torch.cuda.Stream(stream_id=stream.stream_id, device_index=stream.device_index,
                             device_type=stream.device_type).cuda_stream


def is_capturing():
    """Returns whether the program captures a graph: what it calls does not run."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def allocated_bytes(device):
    return torch.cuda.memory_allocated(device)


def allocated_blocks():
    """Returns the devices and sizes of the blocks that the allocator has given out, by address."""
    segments = torch.cuda.memory_snapshot() if torch.cuda.is_available() else ()
    return {block["address"]: (f"cuda:{segment['device']}", block["size"])
            for segment in segments for block in segment["blocks"] if "active" in block["state"]}


def has_memory(tensor):
    return not (tensor.is_meta or tensor.is_nested) and tensor.layout == torch.strided


def tensors_in(values):
    return [v for v in tree_leaves(values) if isinstance(v, torch.Tensor)]


def higher_order(mode, func, args, kwargs):
    """Calls an op that takes functions, as `flex_attention`, by the ops that it consists of, which go
    through the mode."""
    kernel = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if kernel is None or "triton" in func.name():
        raise RuntimeError(f"{func.name()}: a kernel that is no op cannot be recorded")
    with mode:
        return kernel(*args, **kwargs)


def is_subclass(kind):
    """Returns whether a type of tensors handles ops itself."""
    return kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl


@contextlib.contextmanager
def replaced(owner, name, after):
    """Calls `after` with the result and the arguments of each call of a method."""
    before, own = getattr(owner, name), name in vars(owner)

    def method(*args, **kwargs):
        result = before(*args, **kwargs)
        after(result, *args)
        return result

    setattr(owner, name, method)
    try:
        yield
    finally:
        setattr(owner, name, before) if own else delattr(owner, name)


class Streams:
    """The calls of a program, in the order in which the host made them."""

    def __init__(self, frames):
        # Yields the frames of the program, from the innermost on.
        self.frames = frames
        # The first error of the recorder, and the last one of an op.
        self.entries, self.error, self.failed = [], None, None
        # The tables of the file: the number of each entry.
        self.ops, self.stacks, self.streams, self.tensors, self.threads = {}, {}, {}, {}, {}
        self.storages, self.storage_of = [], []
        # The number of each storage: on devices by address, on the host by identity. Weak
        # references keep identities of freed storages from being given out again.
        self.live, self.weak = {}, []
        # The record that each event stands for, and how many there were.
        self.events, self.records = {}, 0
        self.blocks, self.allocated = allocated_blocks(), {}

    def note(self, kind, at=None, **fields):
        """Adds an entry, at the end or in front of another."""
        stack = tuple(f"{f.f_code.co_filename}({f.f_lineno}): {f.f_code.co_name}"
                      for f, _ in zip(self.frames(), range(FRAMES)))
        thread = self.threads.setdefault(threading.get_ident(), len(self.threads))
        entry = {"kind": kind, **{k: v for k, v in fields.items() if v is not None},
                 "at": self.stacks.setdefault(stack, len(self.stacks))}
        if thread:
            entry["thread"] = thread
        self.entries.insert(len(self.entries) if at is None else at, entry)
        return entry

    def stream(self, handle, device=None):
        # Every device has a default stream of handle 0.
        device = device or current_device()
        known = next((k for (d, h), k in self.streams.items() if h == handle and h), None)
        key = (device, handle)
        return known if known is not None else self.streams.setdefault(key, len(self.streams))

    def storage(self, tensor):
        device, storage = device_of(tensor), tensor.untyped_storage()
        key = ("cpu", storage._cdata) if device == "cpu" else address_of(storage)
        known = self.live.get(key)
        if known is not None:
            held = self.storages[known]
            held["bytes"] = max(held["bytes"], storage.nbytes())
            return known
        place = {"device": device, "address": address_of(storage), "bytes": storage.nbytes()}
        if device == "cpu":
            self.weak.append(StorageWeakRef(storage))
            place["pinned"] = is_pinned(tensor)
        return self.place(key, place)

    def place(self, key, place):
        self.storages.append(place)
        self.live[key] = len(self.storages) - 1
        return self.live[key]

    def tensor(self, tensor):
        dtype, size = tensor.dtype, tensor.element_size()
        shape, strides, offset = tensor.shape, tensor.stride(), tensor.storage_offset()
        if dtype not in DTYPES:
            dtype, shape, strides = torch.uint8, (*shape, size), (*(s * size for s in strides), 1)
            offset *= size
        key = (self.storage(tensor), DTYPES[dtype], tuple(shape), tuple(strides), offset)
        if key not in self.tensors:
            self.storage_of.append(key[0])
        return self.tensors.setdefault(key, len(self.tensors))

    def op(self, name):
        return self.ops.setdefault(name, len(self.ops))

    # What PyTorch tells.

    def recorded(self, event, stream):
        if is_capturing():
            return
        self.events[event] = self.records
        self.note("record", stream=self.stream(stream), event=self.records)
        self.records += 1

    def deleted(self, event):
        self.events.pop(event, None)

    def awaited(self, event, stream):
        if not is_capturing():
            self.note("wait", stream=self.stream(stream), event=self.events.get(event))

    def event_synchronized(self, event):
        self.note("sync_event", event=self.events.get(event))

    def stream_synchronized(self, stream):
        self.note("sync_stream", stream=self.stream(stream))

    def device_synchronized(self):
        self.note("sync_device", device=current_device())

    def allocated_at(self, address, *more):
        """Notes an allocation. Newer releases give its stream as well."""
        device = current_device()
        stream = more[0] if more else current_stream(device)
        now = allocated_bytes(device)
        size, self.allocated[device] = max(now - self.allocated.get(device, now), 0), now
        place = {"device": device, "address": address, "bytes": size}
        self.blocks[address] = (device, size)
        storage = self.place(address, place)
        self.note("alloc", storage=storage, stream=self.stream(stream))

    def freed(self, address, *_):
        device, size = self.blocks.pop(address, (current_device(), 0))
        self.allocated[device] = self.allocated.get(device, 0) - size
        storage = self.live.pop(address, None)
        if storage is not None:
            self.note("free", storage=storage)

    @contextlib.contextmanager
    def registered(self):
        """Notes what the program does, apart from its ops, which go through `call`. Raises at the end
        the first error that was met."""

        def told(callback):
            # PyTorch prints an exception of a callback and goes on.
            def guarded(*values):
                with self.kept_error():
                    callback(*values)

            return guarded

        if torch.cuda.is_available():
            torch._C._activate_gpu_trace()
            self.stream(0)
            for device in range(torch.cuda.device_count()):
                self.allocated[f"cuda:{device}"] = allocated_bytes(device)
        pairs = [
            (_gpu_trace.EventRecordCallbacks, told(self.recorded)),
            (_gpu_trace.EventDeletionCallbacks, told(self.deleted)),
            (_gpu_trace.EventWaitCallbacks, told(self.awaited)),
            (_gpu_trace.EventSynchronizationCallbacks, told(self.event_synchronized)),
            (_gpu_trace.StreamSynchronizationCallbacks, told(self.stream_synchronized)),
            (_gpu_trace.DeviceSynchronizationCallbacks, told(self.device_synchronized)),
            (_gpu_trace.MemoryAllocationCallbacks, told(self.allocated_at)),
            (_gpu_trace.MemoryDeallocationCallbacks, told(self.freed)),
        ]
        with contextlib.ExitStack() as stack:
            for owner, name, after in self.methods():
                stack.enter_context(replaced(owner, name, told(after)))
            for registry, callback in pairs:
                registry.callback_list.append(callback)
                stack.callback(registry.callback_list.remove, callback)
            try:
                yield
            except SystemError as error:
                # PyTorch's own hook loses the error of an op during which memory is freed.
                known = self.error or self.failed
                if known is None:
                    raise
                raise known from error
        if self.error is not None:
            raise self.error

    @contextlib.contextmanager
    def kept_error(self):
        """Keeps an error of the recorder from the program, which it would reach inside an op."""
        try:
            yield
        except Exception as error:
            if self.error is None:
                self.error = RuntimeError(f"{self.line()}: the recorder failed: {error!r}")
                self.error.__cause__ = error

    def line(self):
        lines = (f"{f.f_code.co_filename}:{f.f_lineno}" for f in self.frames())
        return next(lines, "an unknown line")

    def methods(self):
        """Yields the methods that PyTorch tells nothing of: owner, name, and what to do after."""
        for name in ("numpy", "tolist"):
            yield torch.Tensor, name, self.read
        if torch.backends.cuda.is_built():
            yield torch.cuda.Event, "query", self.queried
            yield torch.cuda.CUDAGraph, "replay", lambda *_: self.unknown("cudaGraphLaunch")
        triton = sys.modules.get("triton.runtime.jit")
        if triton is not None:
            yield triton.JITFunction, "run", lambda _, jit, *__: self.unknown(
                f"triton::{getattr(jit, '__name__', 'kernel')}")

    def read(self, _, tensor, *__):
        if device_of(tensor) == "cpu":
            self.note("op", op=self.op("read"), inputs=[[0, self.tensor(tensor)]], outputs=[])

    def queried(self, done, event, *_):
        if done:
            self.event_synchronized(event.cuda_event)

    def unknown(self, name):
        """Notes device work whose tensors are not known."""
        stream = self.stream(current_stream(current_device()))
        self.note("op", op=self.op(name), stream=stream, unknown=True)

    def call(self, func, args, kwargs, of=None):
        """Calls an op and notes it. `of` is what its entries have as their node."""
        schema, begin, before = func._schema, len(self.entries), None
        if not NO_WORK.match(schema.name) and not is_capturing():
            with self.kept_error():
                before = self.before(schema, args, kwargs)
        try:
            results = func(*args, **kwargs)
        except Exception as error:
            # Without the traceback, which keeps tensors.
            self.failed = RuntimeError(f"{self.line()}: {schema.name}: {error}")
            raise
        if before is not None:
            with self.kept_error():
                self.after(schema, begin, before, results, of)
        return results

    def before(self, schema, args, kwargs):
        """Returns what is known of a call before it is made; None for one that needs no entry."""
        if schema.name == "aten::record_stream":
            tensor, stream = args
            self.note("use", storage=self.storage(tensor), stream=self.stream(stream_of(stream)))
            return None
        given = {**dict(zip((p.name for p in schema.arguments), args)), **kwargs}
        found = [(k, p.alias_info is not None and p.alias_info.is_write, t)
                 for k, p in enumerate(schema.arguments) for t in tensors_in(given.get(p.name))]
        inputs = [(k, w, self.tensor(t)) for k, w, t in found if has_memory(t)]
        # A copy between devices runs on a stream of the device that it reads from.
        read = [device_of(t) for _, _, t in sorted(found, key=lambda one: one[1])]
        device = next((device for device in read if device.startswith("cuda")), None)
        flags = [k for k, p in enumerate(schema.arguments) if given.get(p.name) is True]
        # Of sparse and nested tensors, the memory is not known.
        unknown = not all(t.is_meta or has_memory(t) for _, _, t in found)
        return inputs, device, device and current_stream(device), flags, unknown

    def after(self, schema, begin, before, results, of):
        """Notes a call that has returned."""
        inputs, device, stream, flags, unknown = before
        made = tensors_in(results)
        outputs = [self.tensor(t) for t in made if has_memory(t)]
        storages, writes = {self.storage_of[t] for _, _, t in inputs}, any(w for _, w, _ in inputs)
        is_view = outputs and not writes and schema.name.startswith("aten::")
        if is_view and storages.issuperset(self.storage_of[t] for t in outputs):
            return
        made_on = (device_of(t) for t in made)
        if device is None and (device := next((d for d in made_on if d.startswith("cuda")), None)):
            stream = current_stream(device)
        unknown = unknown or not all(t.is_meta or has_memory(t) for t in made)
        op = {"op": self.op(str(schema)), "node": of, "flags": flags or None,
              "unknown": unknown or None}
        if device is None:
            self.note("op", **op, inputs=[[k, t] for k, _, t in inputs], outputs=outputs)
        else:
            self.add(schema.name, op, inputs, outputs, self.stream(stream, device), begin)

    def add(self, name, op, inputs, outputs, stream, begin):
        """Adds the entries of an op with device work, which has returned, among those since its
        begin."""
        inside = list(enumerate(self.entries))[begin:]
        records = [k for k, entry in inside if entry["kind"] == "record"]
        syncs = [k for k, entry in inside if entry["kind"].startswith("sync")]
        # An op that records an event has its work in front of the last record, on its stream:
        # collectives, copies between devices. An op that synchronizes has it in front of that.
        at = min((records[-1:] or syncs) + [len(self.entries)])
        stream = self.entries[records[-1]]["stream"] if records else stream
        kept = {self.storage_of[t] for t in outputs}
        blocks = [(k, entry["storage"]) for k, entry in inside
                  if entry["kind"] == "alloc" and entry["storage"] not in kept]
        # As `nonzero`: it reads a size back, allocates its result, and goes on.
        goes_on = not records and any(e["kind"] == "alloc" for k, e in inside if k > at)

        def pageable(tensor):
            place = self.storages[self.storage_of[tensor]]
            return place["device"] == "cpu" and not (place["pinned"] and name in COPIES)

        # What is not pinned, and a tensor with one number, is read by the host during the call.
        by_host = [[k, t] for k, written, t in inputs if pageable(t) and not written]
        read = [[k, t] for k, _, t in inputs if [k, t] not in by_host]
        if by_host:
            self.note("op", at, **op, inputs=by_host, outputs=[])
            at += 1
        scratch = [storage for k, storage in blocks if k < at or not goes_on]
        self.note("op", at, **op, stream=stream, inputs=read, scratch=scratch or None,
                  outputs=[] if goes_on else outputs)
        if goes_on:
            scratch = [storage for _, storage in blocks if storage not in scratch]
            self.note("op", **op, stream=stream, inputs=read, scratch=scratch or None,
                      outputs=outputs)
        if not syncs and any(pageable(t) for t in [*(t for _, t in read), *outputs]):
            # The call returns after the copy.
            self.note("sync_stream", stream=stream)
        if name.startswith("c10d::") and records:
            # The process group keeps from the allocator what its stream uses.
            for storage in sorted({self.storage_of[t] for _, t in read}):
                self.note("use", storage=storage, stream=stream)

    def content(self, node_of=lambda of: None):
        """Returns the file. `node_of` returns the node that an entry has."""
        entries = []
        for entry in self.entries:
            node = node_of(entry.get("node"))
            rest = {k: v for k, v in entry.items() if k != "node"}
            entries.append(rest if node is None else {**rest, "node": node})
        streams = [{"device": device, "handle": handle} for device, handle in self.streams]
        names = ("storage", "dtype", "shape", "strides", "offset")
        tables = {
            "ops": list(self.ops), "stacks": list(self.stacks), "streams": streams,
            "storages": self.storages, "tensors": [dict(zip(names, t)) for t in self.tensors],
            "entries": entries,
        }
        head = json.dumps({"millstream_streams": VERSION, "torch": torch.__version__})[:-1]
        parts = (f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
                 for name, rows in tables.items())
        return ", ".join([head, *parts]).encode() + b"}\n"


class Ops(TorchDispatchMode):
    """Passes the ops of a program to `Streams`."""

    supports_higher_order_operators = True

    def __init__(self, streams):
        super().__init__()
        self.streams = streams

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if isinstance(func, HigherOrderOperator):
            return higher_order(self, func, args, kwargs or {})
        # The ops that a subclass of tensors calls come here by themselves. Autograd names plain
        # tensors as well: nothing else handles their ops.
        if any(map(is_subclass, types)):
            return NotImplemented
        return self.streams.call(func, args, kwargs or {})
