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

An error is answered with {"error": REASON}. The first line, before any request, identifies PyTorch:
{"torch": VERSION, "device": NAME}, or {"absent": REASON}.

Each node that computes is called once, as the op of its schema, on tensors of the recorded dtypes,
shapes and strides, in the order of the trace; recorded views are calls too. PyTorch offers several
functions for an op. The one with the least overhead is called: torch.NAME, else the tensor's
method, else torch.ops. Autograd records nothing. The calls are one Python function without
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
}
# PyTorch's codes of dtypes and memory formats in traces.
SCALAR_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32",
    7: "float64", 11: "bool", 15: "bfloat16", 27: "uint16", 28: "uint32", 29: "uint64",
}
FORMATS = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]
# The names of dtypes in safetensors files.
STORED = {
    "F32": "float32", "F64": "float64", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
    "U16": "uint16", "U32": "uint32", "U64": "uint64",
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
        self.consts = {(c["node"], c["arg"]): c for c in notes["consts"]}
        tolerance = notes["meta"].get("tolerance", {})
        self.rtol, self.atol = tolerance.get("rtol", 1e-4), tolerance.get("atol", 1e-5)
        self.lines, self.known, self.uses, self.keep = [], {}, {}, set()
        # The tensor of each slot; the current slot of each id of a tensor or storage in the trace.
        self.values, self.tensors, self.storages = {}, {}, {}
        # For each id of the tensor that the CPU's attention saves for its gradient: the op that
        # replaces the CPU's, and the values that it saves, by name.
        self.saved = {}
        # The recorded strides and offset of each slot. On another device a result may have other
        # ones.
        self.recorded = {}
        self.inputs, self.calls, self.outputs = [], {}, {}
        self.made_up = self.views = 0
        nodes = sorted(trace["nodes"], key=lambda node: node["id"])
        # Whether a gradient needs results that only the CPU's attention op returns.
        self.host_attention = any(ATTENTION + "_backward" in node["name"] for node in nodes)
        for node, schema in self.steps(nodes, executed):
            try:
                self.op(node, schema) if schema else self.label(node)
            except Refused as why:
                raise Refused(f"node {node['id']}, {node['name']}: {why}") from None
            except Exception as why:
                first = (str(why).splitlines() or [""])[0]
                raise Refused(
                    f"node {node['id']}, {node['name']}: {type(why).__name__}: {first}"
                ) from None
        self.function = self.compiled()
        self.values, self.file = {}, {}

    @staticmethod
    def steps(nodes, executed):
        """Yields the nodes to replay with their schemas: labels, whose schema is empty, and ops at
        the level at which they compute. An op that only calls others is replaced by its children;
        the children of every other op are part of it."""
        def schema_of(node):
            attrs = {a["name"]: a["value"] for a in node.get("attrs", [])}
            return attrs.get("op_schema", "")

        schemas = {node["id"]: schema_of(node) for node in nodes}
        parent = {n["id"]: n.get("ctrl_deps") for n in nodes}
        calls = {parent[id] for id, schema in schemas.items() if schema}
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
            if not schema or (only_calls and (id in calls or does_nothing)):
                open_nodes.add(id)
                if schema:
                    continue
            yield node, schema

    # Tensors.

    def slot(self, tensor):
        name = f"v{len(self.values)}"
        self.values[name] = tensor
        return name

    def given(self, dtype, shape, strides, offset, data):
        """Defines a tensor that exists before the program; returns its slot."""
        if strides is None:
            strides = torch.empty(shape, device="meta").stride()
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
        flat = torch.zeros(offset + span, dtype=dtype, device=self.device)
        tensor = flat.as_strided(shape, strides, offset)
        if data is None:
            self.made_up += 1
            if dtype.is_floating_point:
                flat.uniform_(-1, 1)
        else:
            tensor.copy_(data)
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
        if slot is not None:
            tensor = self.values[slot]
            same = (tensor.dtype, tuple(tensor.shape)) == (dtype, shape)
            if same and self.lies(slot, shape, strides, offset):
                return slot
        base = None if fresh else self.storages.get(storage)
        if base is not None and strides is not None and self.values[base].dtype == dtype:
            view = torch.as_strided(self.values[base], shape, strides, offset)
            slot = self.slot(view)
            self.line(
                slot, torch.as_strided, [base, repr(shape), repr(strides), repr(offset)], [base]
            )
            self.views += 1
        else:
            slot = self.given(dtype, shape, strides, offset, data)
        self.know(slot, value, strides)
        return slot

    def know(self, slot, value, strides):
        id, storage, offset = value[:3]
        self.tensors[id] = self.storages[storage] = slot
        self.recorded[slot] = (strides, offset)

    def lies(self, slot, shape, strides, offset):
        known, at = self.recorded[slot]
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
            self.find(value, of, shape, strides, self.file.get(name), fresh=True)
            return
        slot = self.find(value, of, shape, strides)
        self.keep.add(slot)
        if name in self.file:
            got, expected = self.values[slot].cpu(), self.file[name]
            close = torch.allclose(
                got.double(), expected.double(), self.rtol, self.atol, equal_nan=True
            )
            far = (got.double() - expected.double()).abs().max().item() if got.numel() else 0
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
            const = self.consts.get((node["id"], at))
            if scalar and (value[0] not in self.tensors if const is None else "scalar" in const):
                if const is None:
                    self.made_up += 1
                value = 1 if const is None else number(const["scalar"])
                return self.literal(value), value
            data = self.file.get(const["tensor"]) if const and "tensor" in const else None
            slot = self.find(value, of, shape, strides, data, fresh=data is not None)
            used.append(slot)
            return slot, self.values[slot]
        for word in ("GenericList", "Tuple"):
            if ty.startswith(word + "["):
                types = parts(ty.removeprefix(word + "[").removesuffix("]"))
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
        if (node["id"], at) in self.consts:
            value = number(self.consts[node["id"], at]["scalar"])
        elif ty in ("Double", "SymFloat"):
            value = number(value)
        elif ty == "Device":
            value = self.device
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

    def literal(self, value):
        plain = isinstance(value, (bool, int, str)) or (
            isinstance(value, float) and math.isfinite(value)
        )
        return repr(value) if plain else self.name(value)

    def name(self, thing):
        """Returns the name in the source for an object without a literal."""
        self.known[f"k{id(thing)}"] = thing
        return f"k{id(thing)}"

    def op(self, node, schema):
        full = schema.split("(")[0].strip()
        namespace, _, bare = full.partition("::")
        bare, _, overload = bare.partition(".")
        try:
            op = getattr(getattr(getattr(torch.ops, namespace), bare), overload or "default")
        except AttributeError:
            raise Refused("the installed PyTorch does not have this op") from None
        form, params, used = node["inputs"], op._schema.arguments, []
        elsewhere = bare.startswith(ATTENTION) and self.device.type == "cuda"
        forward = elsewhere and bare == ATTENTION and self.host_attention
        back = elsewhere and bare != ATTENTION
        if len(form["values"]) > len(params):
            raise Refused("the installed PyTorch's op has fewer arguments")
        args, kwargs, named, left = [], {}, {}, None
        strides = form.get("strides", [None] * len(form["values"]))
        every = zip(form["values"], form["types"], form["shapes"], strides, params)
        for at, (value, ty, shape, stride, param) in enumerate(every):
            # The declared type: recorded dtypes, layouts and memory formats are integers.
            declared = str(getattr(param, "real_type", param.type))
            if back and param.name == "logsumexp":
                left = self.saved.get(value[0])
                continue
            text, thing = self.argument(node, at, value, ty, shape, stride, declared, used)
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
        recorded = []
        self.results(node["outputs"], recorded)
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
        text = [a[0] for a in args] + [f"{k}={v[0]}" for k, v in kwargs.items()]
        self.line(target, function, text, used + slots)
        for (value, of, shape, strides), slot in zip(recorded, slots):
            tensor = self.values[slot]
            if tuple(tensor.shape) != tuple(shape) or tensor.dtype != getattr(
                torch, DTYPES.get(of, ""), None
            ):
                raise Refused(f"a result is {tensor.dtype}{list(tensor.shape)}, not {of}{shape}")
            if elsewhere and strides is not None:
                # Attention on CUDA returns other strides. A program that takes a view then copies
                # the result, by a call that did nothing on the CPU and was not recorded.
                if any(n > 1 and a != b for n, a, b in zip(shape, tensor.stride(), strides)):
                    args, lies = (
                        [slot, repr(tuple(shape)), repr(tuple(strides))],
                        restrided(tensor, shape, strides),
                    )
                    slot = self.slot(lies)
                    self.line(slot, restrided, args, [args[0], slot])
            self.know(slot, value, strides)
        self.calls[full] = self.calls.get(full, 0) + 1

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
        def call(function, args, result, slots):
            slot = self.slot(result)
            self.line(slot, function, args, [slot, *slots])
            return slot

        slot, mask = mask
        length, shape = mask.shape[-1], (*query.shape[:3], key.shape[2])
        if any(s % 8 for s in mask.stride()[:-1]):
            pad = [0, -length % 8]
            mask = torch.constant_pad_nd(mask, pad)
            slot = call(torch.constant_pad_nd, [slot, repr(pad)], mask, [slot])
            mask = mask[..., :length]
            slot = call(torch.narrow, [slot, "-1", "0", str(length)], mask, [slot])
        mask = mask.expand(shape)
        return call(torch.Tensor.expand, [slot, repr(shape)], mask, [slot]), mask

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

    def results(self, form, found):
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

    def run(self, times):
        taken = {"wall": [], "issued": [], "device": []}
        on_gpu = self.device.type == "cuda"
        wait = torch.cuda.synchronize if on_gpu else lambda: None
        given = [tensor for _, tensor, _ in self.inputs]
        for _ in range(times):
            for _, tensor, before in self.inputs:
                # No op writes an expanded tensor, whose elements share memory.
                if not any(s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride())):
                    tensor.copy_(before)
            ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_gpu else []
            wait()
            start = time.perf_counter()
            for event in ends[:1]:
                event.record()
            results = self.function(*given)
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
    return state["plan"].run(request["run"])


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
