"""Replays recorded programs in PyTorch, eagerly, and measures their time. `cargo xtask gpu-check`
runs it beside the machine; by hand:

    echo '{"load": "examples/pytorch/transformer_encoder_train/et.json.gz"}' |
        python tools/replay.py --device cpu

It reads requests from standard input, one line of JSON each, and answers each with one line:

    {"load": PATH}   plans the program:
                     {"calls": {OP: COUNT}, "outputs": {NAME: error or null}, ...}.
                     The request may have "executed": [OP...]. Ops that called no other op when they
                     were recorded, such as a dropout of 0, are called only if they are listed there
    {"run": COUNT}   runs the program COUNT times:
                     {"wall": [S...], "issued": [S...], "device": [S...]}
    {"graph": COUNT} the same, with all calls captured once as a CUDA graph and replayed

An error is answered with {"error": REASON}. The first line, before any request, identifies PyTorch:
{"torch": VERSION, "device": NAME}, or {"absent": REASON}.

Each node that computes is called once, as the op of its schema, on tensors of the recorded dtypes,
shapes and strides, in the order of the trace; recorded views are calls too. PyTorch offers several
functions for an op. The one with the least overhead is called: torch.NAME, else the tensor's
method, else torch.ops. A result that the recording holds, such as a random one, is copied instead.
Autograd records nothing. The calls are one Python function without
branches, generated from the trace, which deletes each tensor after its last use.

Times are in seconds: from the first call until the host has waited for the device (wall), until all
calls have been made (issued), and between two events around the calls on the stream (device).
Before each run, outside of the measured time, the inputs are reset to their original elements.
"""

import argparse
import gc
import gzip
import json
import math
import os
import pathlib
import sys
import time

DTYPES = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "long": "int64", "long int": "int64", "long long": "int64", "int": "int32", "short": "int16",
    "short int": "int16", "signed char": "int8", "unsigned char": "uint8", "bool": "bool",
    "unsigned short": "uint16", "short unsigned int": "uint16", "unsigned int": "uint32",
    "unsigned long": "uint64", "long unsigned int": "uint64", "unsigned long long": "uint64",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}
# PyTorch's codes of dtypes and memory formats in traces.
SCALAR_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32",
    7: "float64", 9: "complex64", 10: "complex128", 11: "bool",
    15: "bfloat16", 27: "uint16", 28: "uint32", 29: "uint64",
}
FORMATS = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]
# The names of dtypes in safetensors files.
STORED = {
    "F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
    "U16": "uint16", "U32": "uint32", "U64": "uint64", "C64": "complex64", "C128": "complex128",
}

# The attention op of the CPU, where traces were recorded.
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
# The attention ops of CUDA, by the code of PyTorch's choice. Code 0 stands for several ops.
CUDA_ATTENTION = {
    1: "_scaled_dot_product_flash_attention", 2: "_scaled_dot_product_efficient_attention",
    3: "_scaled_dot_product_cudnn_attention",
}
# Other names of their arguments and results.
SYNONYMS = {
    "attn_bias": "attn_mask", "grad_out_": "grad_out", "log_sumexp": "logsumexp",
    "output": "out", "rng_state": "philox_seed", "unused": "philox_offset",
}
# Arguments with the values that autograd passes. No program needs the gradient of a mask.
FIXED = {
    "compute_log_sumexp": ("True", True), "return_debug_mask": ("False", False),
    "grad_input_mask": ("[True, True, True, False]", [True, True, True, False]),
}


# The share of an element by which results in so few bits differ from the recorded ones, where other
# devices round once more or less.
ROUNDED = {"float16": 2e-3, "bfloat16": 1.6e-2}


class Refused(Exception):
    """The program cannot be replayed."""


def stored(folder):
    """Returns the tensors of tensors.safetensors, by name."""
    file = folder / "tensors.safetensors"
    if not file.exists():
        return {}
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        first, end = (start + at for at in entry["data_offsets"])
        dtype = getattr(torch, STORED[entry["dtype"]])
        flat = torch.frombuffer(bytearray(data[first:end]), dtype=dtype) if end > first else (
            torch.empty(0, dtype=dtype))
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def typed(data, dtype):
    """Returns elements of complex numbers, which the file has as pairs."""
    pairs = data is not None and dtype is not None and dtype.is_complex and not data.is_complex()
    return torch.view_as_complex(data) if pairs else data


def number(value):
    return float(value) if isinstance(value, str) else value


def parts(types):
    """Splits a list at the commas outside of brackets."""
    depth, found = 0, [""]
    for c in types:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return found if types else []


def tensors(form):
    """Returns the tensors of a node's inputs or outputs, also those in lists: each with its
    address, dtype, shape and strides."""
    found = []

    def walk(value, ty, shape, strides):
        if ty.startswith("Tensor(") and "nullptr" not in ty:
            found.append((value, ty.removeprefix("Tensor(").removesuffix(")"), shape, strides))
        for word in ("GenericList", "Tuple"):
            if ty.startswith(word + "["):
                types = parts(ty.removeprefix(word + "[").removesuffix("]"))
                for each in zip(value, types, shape, strides or [None] * len(types)):
                    walk(*each)

    strides = form.get("strides", [None] * len(form["values"]))
    for each in zip(form["values"], form["types"], form["shapes"], strides):
        walk(*each)
    return found


def span(shape, strides, offset):
    """Returns the elements from the beginning of a storage to the end of a tensor."""
    if 0 in shape:
        return offset
    return offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides))


def reviewed(base, dtype, shape, strides, offset):
    """Returns a view of a tensor's storage, also as elements of another dtype."""
    if base.dtype != dtype:
        count = base.untyped_storage().nbytes() // base.element_size()
        base = base.as_strided((count,), (1,), 0).view(dtype)
    return base.as_strided(shape, strides, offset)


def restrided(tensor, shape, strides):
    """Returns a copy with these strides."""
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(
        tensor
    )


class Plan:
    """A program, planned by running it once."""

    def __init__(self, path, executed, device):
        path = pathlib.Path(path)
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt") as file:
            trace = json.load(file)
        self.device, self.folder = device, path.parent
        self.file = stored(self.folder)
        notes = {}
        for name in ("consts", "meta"):
            beside = self.folder / f"{name}.json"
            notes[name] = json.loads(beside.read_text()) if beside.exists() else {}
        # What the trace does not record: numbers and tensors of arguments, results, operands that
        # an op writes, and views that are conjugated or negated when they are read.
        self.notes = {}
        for const in notes["consts"]:
            kind = next(k for k in ("arg", "result", "written", "view") if k in const)
            self.notes[const["node"], kind, const[kind]] = const
        tolerance = notes["meta"].get("tolerance", {})
        self.rtol, self.atol = tolerance.get("rtol", 1e-4), tolerance.get("atol", 1e-5)
        self.lines, self.known, self.uses, self.keep = [], {}, {}, set()
        # The tensor of each slot; the current slot of each id of a tensor or storage in the trace.
        self.values, self.tensors, self.storages = {}, {}, {}
        # For each id of the tensor that the CPU's attention saves for its gradient: the op that
        # replaces the CPU's, and the values that it saves, by name.
        self.saved = {}
        # The recorded dtype, shape, strides and offset of each slot. On another device a result may
        # have other ones.
        self.recorded, self.alike = {}, {}
        self.inputs, self.calls, self.outputs, self.graph = [], {}, {}, None
        # The sorted elements and the dimension, by the slot of their indices.
        self.ordered = {}
        self.made_up = self.views = 0
        nodes = sorted(trace["nodes"], key=lambda node: node["id"])
        # The elements that the inputs of a storage span, and their memory once it is made.
        self.extents, self.flats = {}, {}
        for node in nodes:
            if node["name"].startswith("bind:in/"):
                for (_, storage, offset, *_), _, shape, strides in tensors(node["inputs"]):
                    strides = strides or torch.empty(shape, device="meta").stride()
                    end = span(shape, strides, offset)
                    self.extents[storage] = max(end, self.extents.get(storage, 0))
        # Whether a gradient needs results that only the CPU's attention op returns.
        self.host_attention = any(ATTENTION + "_backward" in node["name"] for node in nodes)
        for node, schema, below in self.steps(nodes, executed):
            try:
                self.op(node, schema, below) if schema else self.label(node)
            except Refused as why:
                raise Refused(f"node {node['id']}, {node['name']}: {why}") from None
            except Exception as why:
                first = (str(why).splitlines() or [""])[0]
                raise Refused(
                    f"node {node['id']}, {node['name']}: {type(why).__name__}: {first}"
                ) from None
        self.function = self.compiled()
        self.values, self.file, self.ordered, self.flats = {}, {}, {}, {}

    @staticmethod
    def steps(nodes, executed):
        """Yields the nodes to replay with their schemas, and the nodes below: labels, whose schema
        is empty, and ops at the level at which they compute. An op that only calls others is
        replaced by its children; the children of every other op are part of it."""
        def schema_of(node):
            attrs = {a["name"]: a["value"] for a in node.get("attrs", [])}
            return attrs.get("op_schema", "")

        schemas = {node["id"]: schema_of(node) for node in nodes}
        parent = {n["id"]: n.get("ctrl_deps") for n in nodes}
        calls, children = {}, {}
        for node in nodes:
            children.setdefault(parent[node["id"]], []).append(node)
            if schemas[node["id"]]:
                calls.setdefault(parent[node["id"]], []).append(node)

        def inner(node, but):
            """The nodes below, without those of kept copies."""
            found = [n for n in children.get(node["id"], []) if n not in but]
            return found + [each for n in found for each in inner(n, [])]

        def is_autocast(node):
            """Whether the op converts its operands, and calls itself with them."""
            called = [n for n in calls.get(node["id"], []) if n["name"] != "aten::to"]
            if len(called) != 1:
                return False
            here, there = schemas[node["id"]], schemas[called[0]["id"]]
            same = here == there or (node["name"] == called[0]["name"] == "aten::norm")
            ends = [[v[1] for v, *_ in tensors(n["outputs"])] for n in (node, called[0])]
            return same and ends[0] == ends[1]

        def kept(node):
            """The copies that autograd keeps of operands of an op in place. The op's node calls
            `clone` before its kernel runs."""
            if not node["name"].endswith("_"):
                return
            given = {v[1] for v, *_ in tensors(node["inputs"])}
            for copy in calls.get(node["id"], []):
                copied = [v[1] for v, *_ in tensors(copy["inputs"])]
                if copy["name"] != "aten::clone" or not copied or copied[0] not in given:
                    return
                yield copy
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        open_nodes, called = set(), set()
        for node in nodes:
            id, schema = node["id"], schemas[node["id"]]
            above = parent[id]
            if above != id and above in schemas and (above in called or above not in open_nodes):
                called.add(id)
                continue
            name = schema.split("(")[0].strip()
            try:
                only_calls = has(name, "CompositeImplicitAutograd") and not has(name, "CPU")
            except RuntimeError:
                only_calls = False
            does_nothing = executed is not None and name not in executed
            below = id in calls
            if not schema or (only_calls and (below or does_nothing)) or (
                    below and is_autocast(node)):
                open_nodes.add(id)
                if schema:
                    continue
            else:
                copies = list(kept(node))
                for copy in copies:
                    yield copy, schemas[copy["id"]], inner(copy, [])
                yield node, schema, inner(node, copies)
                continue
            yield node, "", []

    # Tensors.

    def slot(self, tensor):
        name = f"v{len(self.values)}"
        self.values[name] = tensor
        return name

    def given(self, dtype, shape, strides, offset, data, storage=None):
        """Defines a tensor that exists before the program; returns its slot. Inputs of one storage
        share memory."""
        if strides is None:
            strides = torch.empty(shape, device="meta").stride()
        flat = self.flats.get(storage)
        if flat is None or flat.dtype != dtype:
            elements = max(span(shape, strides, offset), self.extents.get(storage, 0))
            flat = torch.zeros(elements, dtype=dtype, device=self.device)
            if data is None and dtype.is_floating_point:
                flat.uniform_(-1, 1)
            if storage in self.extents:
                self.flats[storage] = flat
        tensor = flat.as_strided(shape, strides, offset)
        if data is None:
            self.made_up += 1
        else:
            tensor.copy_(typed(data, dtype))
        slot = self.slot(tensor)
        self.inputs.append((slot, tensor, tensor.clone()))
        return slot

    def find(self, value, of, shape, strides, data=None, fresh=False):
        """Returns the slot of a recorded tensor; defines a new input for an unknown one."""
        if of not in DTYPES:
            raise Refused(f"dtype '{of}' is not supported")
        dtype, shape = getattr(torch, DTYPES[of]), tuple(shape)
        strides = None if strides is None else tuple(strides)
        id, storage, offset = value[:3]

        slot = None if fresh else self.tensors.get(id)
        if slot is not None and self.lies(slot, of, shape, strides, offset) and (
                0 in shape or self.is_in(slot, storage)):
            return slot
        # Autograd returns tensors under new addresses.
        slot = None if fresh else self.alike.get((storage, (DTYPES[of], shape, strides, offset)))
        if slot is not None and self.is_in(slot, storage):
            self.tensors[id] = slot
            return slot
        base = None if fresh else self.storages.get(storage)
        same = base is not None and self.values[base].dtype == dtype
        parts = base is not None and {dtype.to_real(), self.values[base].dtype.to_real()} == {
            dtype.to_real()}
        if base is not None and strides is not None and (same or parts):
            args = [base, self.name(dtype), repr(shape), repr(strides), repr(offset)]
            view = reviewed(self.values[base], dtype, shape, strides, offset)
            slot = self.call(reviewed, args, view, [base])
            self.views += 1
        else:
            slot = self.given(dtype, shape, strides, offset, data)
        self.know(slot, value, of, shape, strides)
        return slot

    def know(self, slot, value, of, shape, strides):
        id, storage, offset = value[:3]
        self.tensors[id] = self.storages[storage] = slot
        lies = DTYPES.get(of), tuple(shape), None if strides is None else tuple(strides), offset
        self.recorded[slot], self.alike[storage, lies] = lies, slot

    def is_in(self, slot, storage):
        """Returns whether a tensor lies in the storage that has this address now."""
        base = self.storages.get(storage)
        first, second = (self.values[s].untyped_storage() for s in (slot, base or slot))
        return base is not None and first._cdata == second._cdata

    def lies(self, slot, of, shape, strides, offset):
        dtype, known_shape, known, at = self.recorded[slot]
        if (dtype, known_shape) != (DTYPES.get(of), tuple(shape)):
            return False
        if strides is None or known is None or 0 in shape:
            return True
        return at == offset and all(n == 1 or a == b for n, a, b in zip(shape, known, strides))

    # Nodes.

    def label(self, node):
        name, inputs = node["name"], node["inputs"]
        if not name.startswith("bind:"):
            return
        name = name.removeprefix("bind:")
        value, shape = inputs["values"][0], inputs["shapes"][0]
        strides = inputs["strides"][0] if "strides" in inputs else None
        of = inputs["types"][0].removeprefix("Tensor(").removesuffix(")")
        if name.startswith("in/"):
            if of not in DTYPES:
                raise Refused(f"dtype '{of}' is not supported")
            dtype = getattr(torch, DTYPES[of])
            slot = self.given(dtype, shape, strides, value[2], self.file.get(name), value[1])
            self.know(slot, value, of, shape, strides)
            return
        slot = self.find(value, of, shape, strides)
        self.keep.add(slot)
        if name in self.file:
            got = self.values[slot].cpu()
            expected = typed(self.file[name], got.dtype)
            wide = torch.complex128 if expected.is_complex() else torch.float64
            of, got, expected = got.dtype, got.to(wide), expected.to(wide)
            if got.shape != expected.shape:
                self.outputs[name] = f"{list(got.shape)}, not {list(expected.shape)}"
                return
            rtol = max(self.rtol, ROUNDED.get(str(of).removeprefix("torch."), 0))
            close = torch.allclose(got, expected, rtol, self.atol, equal_nan=True)
            if not close and slot in self.ordered:
                # Equal elements may come in any order.
                values, dim = self.ordered[slot]
                close = torch.equal(*(values.gather(dim, i.long()) for i in (got, expected)))
            far = (got - expected).abs().max().item() if got.numel() else 0
            self.outputs[name] = None if close else f"off by up to {far:.1e}"

    def argument(self, node, at, value, ty, shape, strides, schema_type, used):
        """Returns an argument as source text and as a value."""
        if ty.startswith("Tensor("):
            of = ty.removeprefix("Tensor(").removesuffix(")")
            if of.startswith("nullptr"):
                return "None", None
            scalar = (
                shape == []
                and str(value[5]).startswith("cpu")
                and of in ("double", "long", "long int", "bool")
            )
            const = self.notes.get((node["id"], "arg", at))
            # With notes, a number without one lies in memory that another op has made.
            known = value[0] in self.tensors or (self.notes and value[1] in self.storages)
            if scalar and (not known if const is None else "scalar" in const):
                if const is None:
                    self.made_up += 1
                value = 1 if const is None else number(const["scalar"])
                return self.literal(value), value
            data = self.file.get(const["tensor"]) if const and "tensor" in const else None
            slot = self.find(value, of, shape, strides, data, fresh=data is not None)
            slot = self.as_read(slot, self.notes.get((node["id"], "view", value[0]), {}))
            used.append(slot)
            return slot, self.values[slot]
        for word in ("GenericList", "Tuple"):
            if ty.startswith(word + "["):
                types = parts(ty.removeprefix(word + "[").removesuffix("]"))
                exact = self.notes.get((node["id"], "arg", at), {}).get("list")
                if exact is not None:
                    values = [number(v) for v in exact]
                    return "[" + ", ".join(self.literal(v) for v in values) + "]", values
                nth = lambda of, k: None if not isinstance(of, list) or k >= len(of) else of[k]
                each = [
                    self.argument(
                        node, None, v, t, nth(shape, k), nth(strides, k), schema_type, used
                    )
                    for k, (v, t) in enumerate(zip(value, types))
                ]
                return "[" + ", ".join(e[0] for e in each) + "]", [e[1] for e in each]
        if ty == "None":
            return "None", None
        const = self.notes.get((node["id"], "arg", at), {})
        if "scalar" in const:
            value = number(const["scalar"])
        elif ty in ("Double", "SymFloat"):
            value = number(value)
        elif ty == "Device":
            value = self.device
        elif ty == "ComplexDouble" and "tensor" in const:
            value = complex(*self.file[const["tensor"]].tolist())
        elif ty not in ("Int", "SymInt", "Bool", "SymBool", "String"):
            raise Refused(f"argument {at}: the trace does not record the value of a {ty}")
        if "ScalarType" in schema_type:
            value = getattr(torch, SCALAR_TYPES[value])
        elif "Layout" in schema_type:
            value = torch.strided
        elif "MemoryFormat" in schema_type:
            value = getattr(torch, FORMATS[value])
        elif "Device" in schema_type:
            value = self.device
        return self.literal(value), value

    def as_read(self, slot, note):
        """Returns a tensor as an op reads it. PyTorch conjugates or negates some views then."""
        tensor = self.values[slot]
        for function, wanted, has in (
                (torch.conj, note.get("conjugate", False), tensor.is_conj()),
                (torch._neg_view, note.get("negate", False), tensor.is_neg())):
            if self.notes and wanted != has:
                known = self.recorded[slot]
                slot = self.call(function, [slot], function(self.values[slot]), [slot])
                self.recorded[slot] = known
        return slot

    def literal(self, value):
        plain = isinstance(value, (bool, int, str)) or (
            isinstance(value, float) and math.isfinite(value)
        )
        return repr(value) if plain else self.name(value)

    def name(self, thing):
        """Returns the name in the source for an object without a literal."""
        self.known[f"k{id(thing)}"] = thing
        return f"k{id(thing)}"

    def op(self, node, schema, below):
        full = schema.split("(")[0].strip()
        namespace, _, bare = full.partition("::")
        bare, _, overload = bare.partition(".")
        for inner in below:
            self.forget(inner)
        recorded = tensors(node["outputs"])
        form = node["inputs"]
        strides = form.get("strides", [None] * len(form["values"]))
        self.calls[full] = self.calls.get(full, 0) + 1
        if any((node["id"], kind, k) in self.notes for kind in ("result", "written")
               for k in range(max(len(recorded), len(form["values"])))):
            given = [
                self.argument(node, at, *each, "", [])
                for at, each in enumerate(
                    zip(form["values"], form["types"], form["shapes"], strides))
            ]
            return self.noted(node, bare, given, recorded)
        try:
            op = getattr(getattr(getattr(torch.ops, namespace), bare), overload or "default")
        except AttributeError:
            raise Refused("the installed PyTorch does not have this op") from None
        params, used = op._schema.arguments, []
        elsewhere = bare.startswith(ATTENTION) and self.device.type == "cuda"
        forward = elsewhere and bare == ATTENTION and self.host_attention
        back = elsewhere and bare != ATTENTION
        if len(form["values"]) > len(params):
            raise Refused("the installed PyTorch's op has fewer arguments")
        args, kwargs, named, left = [], {}, {}, None
        every = zip(form["values"], form["types"], form["shapes"], strides, params)
        for at, (value, ty, shape, stride, param) in enumerate(every):
            # The declared type: recorded dtypes, layouts and memory formats are integers.
            declared = str(getattr(param, "real_type", param.type))
            if back and param.name == "logsumexp":
                left = self.saved.get(value[0])
                continue
            text, thing = self.argument(node, at, value, ty, shape, stride, declared, used)
            if param.name == "driver" and self.device.type == "cuda":
                # The default of the CPU, which other devices do not have.
                text, thing = "None", None
            named[param.name] = (text, thing)
            if param.kwarg_only:
                if not (
                    thing is None or (param.has_default_value() and thing is param.default_value)
                ):
                    kwargs[param.name] = (text, thing)
            else:
                args.append((text, thing))
        if forward or back:
            op, bare, args, kwargs = self.on_cuda(named, left, back, used)
            params = op._schema.arguments
        function, args, kwargs, result = self.fastest(op, bare, params, args, kwargs)
        if forward:
            # Numbers among the results get slots, too.
            slots = [self.slot(each) for each in result]
            names = [SYNONYMS.get(r.name, r.name) for r in op._schema.returns]
            given = {name: (slot, each) for name, slot, each in zip(names, slots, result)}
            self.saved[recorded[1][0][0]] = (
                bare,
                {**given, "attn_mask": named.get("attn_mask", ("None", None))},
            )
            target, extra, slots = "[" + ", ".join(slots) + "]", slots[1:], slots[:1]
            used += extra
        else:
            target, slots = self.target(result)
        if forward or (bare == ATTENTION and not self.host_attention):
            recorded = recorded[:1]
        if len(slots) != len(recorded) and recorded:
            raise Refused(f"{len(slots)} results, and {len(recorded)} were recorded")
        if bare in ("sort", "topk") and "dim" in named:
            self.ordered[slots[1]] = named["self"][1].cpu(), named["dim"][1]
        text = [a[0] for a in args] + [f"{k}={v[0]}" for k, v in kwargs.items()]
        self.line(target, function, text, used + slots)
        given = [self.values[slot] for slot in used]
        given = {t.untyped_storage()._cdata for t in given if isinstance(t, torch.Tensor)}
        for each, slot in zip(recorded, slots):
            self.result(each, slot, given)

    def result(self, recorded, slot, given):
        """Binds a result. `given` are the storages of the operands."""
        value, of, shape, strides = recorded
        tensor = self.values[slot]
        dtype = getattr(torch, DTYPES.get(of, ""), None)
        # Other devices leave out, add or widen results that only a gradient uses.
        same = tensor.shape == tuple(shape)
        unused = 0 in (tensor.numel(), math.prod(shape))
        if self.device.type != "cpu" and dtype is not None:
            same = same and (tensor.dtype == dtype
                             or tensor.is_floating_point() and dtype.is_floating_point) or unused
        else:
            same = same and tensor.dtype == dtype
        if not same:
            raise Refused(f"a result is {tensor.dtype}{list(tensor.shape)}, not {of}{shape}")
        fresh = tensor.untyped_storage()._cdata not in given
        if fresh and strides is not None and not unused and any(
                n > 1 and a != b for n, a, b in zip(shape, tensor.stride(), strides)):
            # Another device's op has chosen other strides. A program that takes a view then copies
            # the result, by a call that did nothing on the CPU and was not recorded.
            args = [slot, repr(tuple(shape)), repr(tuple(strides))]
            slot = self.call(restrided, args, restrided(tensor, shape, strides), [slot])
        self.know(slot, value, of, shape, strides)

    def noted(self, node, bare, given, recorded):
        """Replaces an op whose results the recording holds."""
        def data(kind, k):
            note = self.notes.get((node["id"], kind, k))
            return None if note is None else self.file[note["tensor"]]

        for at, (slot, thing) in enumerate(given):
            elements = data("written", at)
            if elements is not None:
                source = self.constant(elements)
                self.call(torch.Tensor.copy_, [slot, source], thing.copy_(self.values[source]),
                          [slot, source])
        if bare.startswith("rrelu_with_noise"):
            # The noise of an element above 0 is 1.
            (x, tensor), (noise, factors) = given[:2]
            multiply = torch.Tensor.mul_ if bare.endswith("_") else torch.mul
            slot = self.call(multiply, [x, noise], multiply(tensor, factors), [x, noise])
            return self.know(slot, *recorded[0])
        slots = {thing[0][0]: slot for slot, thing in zip(
            (slot for slot, _ in given if slot in self.values), tensors(node["inputs"]))}
        for k, (value, of, shape, strides) in enumerate(recorded):
            elements = data("result", k)
            if elements is None and bare == "native_dropout" and k == 0:
                mask = self.constant(data("result", 1))
                p = given[1][1]
                scale = 1 / (1 - p) if p < 1 else 0.0
                back = torch.ops.aten.native_dropout_backward
                result = back(given[0][1], self.values[mask], scale)
                slot = self.call(back, [given[0][0], mask, repr(scale)], result,
                                 [given[0][0], mask])
            elif elements is None:
                raise Refused(f"result {k} was not recorded")
            else:
                slot = self.constant(typed(elements, getattr(torch, DTYPES[of])))
                if value[0] in slots:
                    target = slots[value[0]]
                    result = self.values[target].copy_(self.values[slot])
                    self.call(torch.Tensor.copy_, [target, slot], result, [target, slot])
                    slot = target
            self.know(slot, value, of, shape, strides)

    def constant(self, elements):
        """Defines a tensor with these elements; returns its slot."""
        strides = torch.empty(elements.shape, device="meta").stride()
        return self.given(elements.dtype, tuple(elements.shape), strides, 0, elements)

    def call(self, function, args, result, slots):
        """Adds a call with one result; returns its slot."""
        slot = self.slot(result)
        self.line(slot, function, args, [slot, *slots])
        return slot

    def forget(self, inner):
        """Forgets the storages that a node below an op allocates: the tensors there have ended."""
        given = {value[1] for value, *_ in tensors(inner["inputs"])}
        for value, _, shape, _ in tensors(inner["outputs"]):
            if math.prod(shape) and value[1] not in given:
                self.storages.pop(value[1], None)

    def on_cuda(self, named, left, back, used):
        """Returns attention, or its gradient, as autograd calls it on CUDA. The arguments are those
        of the CPU's op and, for the gradient, the values that the forward op saved."""
        if not back:
            way, left = self.way(*(named[name][1] if name in named else None for name in (
                "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"))), {}
        elif left is None:
            raise Refused("the forward op of this gradient of attention was not recorded")
        else:
            way, left = left
        mask = named.get("attn_mask", ("None", None))
        if mask[1] is not None and way == CUDA_ATTENTION[2] and not back:
            named["attn_mask"] = self.aligned(mask, named["query"][1], named["key"][1])
            used.append(named["attn_mask"][0])
        op = getattr(torch.ops.aten, way + ("_backward" if back else "")).default
        args, kwargs = [], {}
        for param in op._schema.arguments:
            name = SYNONYMS.get(param.name, param.name)
            given = next((of[name] for of in (left, named, FIXED) if name in of), ("None", None))
            if name in left and given[0] != "None":
                used.append(given[0])
            if not param.kwarg_only:
                args.append(given)
            elif given[1] is not None:
                kwargs[param.name] = given
        return op, way + ("_backward" if back else ""), args, kwargs

    @staticmethod
    def way(query, key, value, mask, dropout, is_causal, scale):
        """Returns the op that PyTorch chooses on the device if gradients are required."""
        with torch.inference_mode(False), torch.enable_grad():
            like = [
                torch.empty_strided(
                    t.shape, t.stride(), dtype=t.dtype, device=t.device, requires_grad=True
                )
                for t in (query, key, value)
            ]
            choice = torch._fused_sdp_choice(
                *like, mask, dropout or 0.0, bool(is_causal), scale=scale
            )
        if choice not in CUDA_ATTENTION:
            raise Refused("PyTorch computes this attention with several ops on this device")
        if CUDA_ATTENTION[choice] == CUDA_ATTENTION[1] and query.shape[-1] % 8:
            raise Refused("PyTorch pads the heads of this attention on this device")
        return CUDA_ATTENTION[choice]

    def aligned(self, mask, query, key):
        """Returns a mask as PyTorch passes it to that op: rows begin at multiples of eight
        elements."""
        slot, mask = mask
        length, shape = mask.shape[-1], (*query.shape[:3], key.shape[2])
        if any(s % 8 for s in mask.stride()[:-1]):
            pad = [0, -length % 8]
            mask = torch.constant_pad_nd(mask, pad)
            slot = self.call(torch.constant_pad_nd, [slot, repr(pad)], mask, [slot])
            mask = mask[..., :length]
            slot = self.call(torch.narrow, [slot, "-1", "0", str(length)], mask, [slot])
        mask = mask.expand(shape)
        return self.call(torch.Tensor.expand, [slot, repr(shape)], mask, [slot]), mask

    def fastest(self, op, bare, params, args, kwargs):
        """Calls an op by the first function that accepts these arguments. PyTorch's Python bindings
        parse arguments faster than torch.ops does."""
        short = list(args)
        while len(short) > 1 and params[len(short) - 1].has_default_value():
            default = params[len(short) - 1].default_value
            if type(short[-1][1]) is not type(default) or short[-1][1] != default:
                break
            short.pop()
        ways = [getattr(torch._C._VariableFunctions, bare, None), getattr(torch._C._nn, bare, None)]
        if args and isinstance(args[0][1], torch.Tensor):
            ways.append(getattr(torch.Tensor, bare, None))
        tries = [(way, given, kwargs) for way in ways if way for given in (args, short)]
        if bare == ATTENTION and not self.host_attention:
            # The function that the program called; other devices compute it with other ops.
            names = ("dropout_p", "is_causal")
            named = {**dict(zip(names, args[3:])), **kwargs}
            tries = [(torch._C._nn.scaled_dot_product_attention, args[:3], named)]
        for way, given, named in [*tries, (op, args, kwargs)]:
            try:
                result = way(*(a[1] for a in given), **{k: v[1] for k, v in named.items()})
            except TypeError:
                if way is op:
                    raise
                continue
            return way, given, named, result

    def target(self, result):
        """Returns the left side of an assignment for results, and their slots."""
        if isinstance(result, torch.Tensor):
            slot = self.slot(result)
            return slot, [slot]
        if isinstance(result, (list, tuple)) and result:
            each = [self.target(r) for r in result]
            return "[" + ", ".join(e[0] for e in each) + "]", [s for e in each for s in e[1]]
        return "_", []

    # The source.

    def line(self, target, function, args, slots):
        for slot in slots:
            self.uses[slot] = len(self.lines)
        self.lines.append(f"{target} = {self.name(function)}({', '.join(args)})")

    def compiled(self):
        """Compiles the calls to one function of the inputs."""
        inputs, ends = [slot for slot, *_ in self.inputs], {}
        for slot, last in self.uses.items():
            if slot not in self.keep and slot not in inputs:
                ends.setdefault(last, []).append(slot)
        source = [f"def program({', '.join(inputs)}):"]
        for k, line in enumerate(self.lines):
            source.append("  " + line)
            if k in ends:
                source.append("  del " + ", ".join(ends[k]))
        source.append(f"  return [{', '.join(sorted(self.keep))}]")
        scope = dict(self.known)
        exec("\n".join(source), scope)
        return scope["program"]

    def reset(self):
        """Gives the inputs their original elements."""
        for _, tensor, before in self.inputs:
            if tensor.shape != before.shape:
                tensor.resize_(before.shape)
            # No op writes an expanded tensor, whose elements share memory.
            if not any(s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride())):
                tensor.copy_(before)

    def captured(self):
        """Returns the calls as a CUDA graph, captured once."""
        if self.device.type != "cuda":
            raise Refused("only CUDA devices have graphs")
        if self.graph is None:
            self.reset()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.graph_results = self.function(*(tensor for _, tensor, _ in self.inputs))
            self.graph = graph
        return self.graph

    def run(self, times, call):
        taken = {"wall": [], "issued": [], "device": []}
        on_gpu = self.device.type == "cuda"
        wait = torch.cuda.synchronize if on_gpu else lambda: None
        for _ in range(times):
            self.reset()
            ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_gpu else []
            wait()
            start = time.perf_counter()
            for event in ends[:1]:
                event.record()
            results = call()
            for event in ends[1:]:
                event.record()
            issued = time.perf_counter()
            wait()
            taken["wall"].append(time.perf_counter() - start)
            taken["issued"].append(issued - start)
            if on_gpu:
                taken["device"].append(ends[0].elapsed_time(ends[1]) / 1e3)
            del results
        return taken


def answer(request, state, device):
    if "load" in request:
        state["plan"] = None
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        plan = state["plan"] = Plan(request["load"], request.get("executed"), device)
        gc.collect()
        return {
            "calls": plan.calls,
            "outputs": plan.outputs,
            "views": plan.views,
            "made_up": plan.made_up,
        }
    if state.get("plan") is None:
        raise Refused("no program is loaded")
    plan = state["plan"]
    if "graph" in request:
        return plan.run(request["graph"], plan.captured().replay)
    given = [tensor for _, tensor, _ in plan.inputs]
    return plan.run(request["run"], lambda: plan.function(*given))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--threads", type=int, default=1, help="on the CPU")
    arguments = parser.parse_args()
    # Standard output carries the answers alone: everything else goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(reply):
        print(json.dumps(reply), file=answers, flush=True)

    global torch
    try:
        import torch
    except ImportError as why:
        return say({"absent": str(why)})
    device, name = torch.device(arguments.device), "the host"
    if device.type == "cuda":
        if not torch.cuda.is_available():
            return say({"absent": f"PyTorch {torch.__version__} has no CUDA device here"})
        torch.cuda.set_device(device)
        name = torch.cuda.get_device_name(device)
    else:
        torch.set_num_threads(arguments.threads)
    # The arithmetic of Millstream's kernels: no TF32, and 16-bit sums in 32 bits.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    say({"torch": torch.__version__, "device": name})
    state = {}
    with torch.inference_mode():
        gc.disable()
        for line in sys.stdin:
            try:
                say(answer(json.loads(line), state, device))
            except Refused as why:
                say({"error": str(why)})
            except Exception as why:
                say({"error": f"{type(why).__name__}: {(str(why).splitlines() or [''])[0]}"})


if __name__ == "__main__":
    main()
