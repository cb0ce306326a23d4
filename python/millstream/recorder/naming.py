"""Names of tensors: those that the program has for them.

A tensor is named by the shortest way that leads to it: from a module to its parameters, from an
optimizer to the state of a parameter, from a variable to an element of a list, to an attribute, or
to a variable that a function has captured.
"""

import collections
import functools
import types

import torch
from torch.nn.parameter import is_lazy

from .recorder import inside, storage_of, unsupported

# The most values that are looked at, and the most elements of a container.
MOST, MOST_ELEMENTS = 20_000, 1000


def variables_of(function):
    """Yields the variables that a function uses and does not assign: captured ones and globals."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:
            # Not assigned yet.
            pass
    yield from globals_of(code, function.__globals__)


def globals_of(code, known):
    """Returns the global variables that code names."""
    return [(name, known[name]) for name in code.co_names if name in known]


def values_in(name, value):
    """Yields the values that a value leads to, with their names."""
    if isinstance(value, types.MethodType):
        yield "self", value.__self__
        yield from variables_of(value.__func__)
    elif isinstance(value, types.FunctionType):
        yield from variables_of(value)
    elif isinstance(value, functools.partial):
        yield from [(name, value.func), *value.keywords.items()]
        yield from ((f"{name}.{key}", inner) for key, inner in enumerate(value.args))
    elif isinstance(value, (dict, list, tuple, collections.deque)):
        if len(value) < MOST_ELEMENTS:
            yield from ((f"{name}.{key}", inner) for key, inner in inside(value))
    elif not isinstance(value, (type, types.ModuleType, torch.Tensor)):
        # Of modules, parameters, buffers and hooks are private attributes.
        fields = getattr(value, "__dict__", {}).items()
        is_module = isinstance(value, torch.nn.Module)
        yield from ((f"{name}.{key}".lstrip("."), inner) for key, inner in fields
                    if not (is_module and key.startswith("_")))


def place(tensor):
    """Returns what two tensors of the same elements have in common."""
    return storage_of(tensor)._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()


class Names:
    """Names of tensors, each given once: those of values, which have names themselves, and of what
    these lead to."""

    def __init__(self, *values):
        # By identity and by place. The tensors are kept, so that no identity is given again.
        self.known, self.places, self.kept, self.used = {}, {}, [], set()
        queue, seen, optimizers = collections.deque(values), {}, []
        while queue and len(seen) < MOST:
            name, value = queue.popleft()
            if id(value) in seen or isinstance(value, (str, bytes, int, float, type(None))):
                continue
            seen[id(value)] = value
            if isinstance(value, torch.Tensor):
                self.add(name, value)
            elif isinstance(value, torch.nn.Module):
                for path, tensor in [*value.named_parameters(), *value.named_buffers()]:
                    self.add(f"{name}.{path}".lstrip("."), tensor)
                queue.extend((f"{name}.{path}".lstrip("."), module)
                             for path, module in value.named_children())
            elif isinstance(value, torch.optim.Optimizer):
                optimizers.append(value)
                continue
            queue.extend(values_in(name, value))
        for optimizer in optimizers:
            for parameter, state in optimizer.state.items():
                of = self.known.get(id(parameter), "parameter")
                for key, tensor in state.items():
                    if isinstance(tensor, torch.Tensor):
                        self.add(f"{of}.{key}", tensor)

    def add(self, name, tensor):
        if is_lazy(tensor) or unsupported(tensor):
            return
        self.kept.append(tensor)
        self.known.setdefault(id(tensor), name)
        self.places.setdefault(place(tensor), name)
        if tensor.is_leaf and tensor.grad is not None:
            self.add(f"{name}.grad", tensor.grad)

    def of(self, tensor, otherwise):
        """Returns a name for a tensor that no other tensor has."""
        base = otherwise
        if tensor is not None:
            base = self.known.get(id(tensor)) or self.places.get(place(tensor), otherwise)
        name, number = base, 2
        while name in self.used:
            name, number = f"{base}_{number}", number + 1
        self.used.add(name)
        return name
