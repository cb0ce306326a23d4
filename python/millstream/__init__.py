"""Millstream in Python: records, checks, runs and shows PyTorch programs.

    import millstream as ms

    with ms.record("step", model):
        loss = model(x).square().mean()
        loss.backward()
    ms.run("step").assert_close()

What records needs PyTorch, which is imported at its first use; what runs needs neither PyTorch nor
NumPy. docs/python.md has all functions.
"""

import importlib

# The module of each name.
_MODULES = {
    **dict.fromkeys(("RecordError", "RecordWarning", "record", "record_call", "streams", "trace"),
                    "recorder"),
    **dict.fromkeys(("MillstreamError", "RaceError", "Undecided", "compare", "coverage", "replay",
                     "run", "simulate", "verify", "what_if"), "commands"),
    **dict.fromkeys(("memory", "profile"), "pages"),
    "Rows": "rows", "Tensor": "_native", "check_streams": "checking",
}

__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module 'millstream' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        message = f"millstream.{name} records programs: it needs {error.name}, which is not installed"
        raise ImportError(message, name=error.name) from error


def __dir__():
    return __all__
