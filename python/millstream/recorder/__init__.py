"""Records PyTorch programs for Millstream: their ops, inputs and expected outputs.

    with millstream.record("step", model):
        loss = model(x).square().mean()
        loss.backward()

    @millstream.record("layer")
    def layer(x, w):
        return (x @ w).relu()

`trace` and `record_call` are for programs that name their inputs and outputs themselves. `streams`
records nothing but the program's use of CUDA streams, for `millstream verify`.
"""

from .automatic import record
from .recorder import RecordError, RecordWarning, record_call, streams, trace

__all__ = ["RecordError", "RecordWarning", "record", "record_call", "streams", "trace"]
