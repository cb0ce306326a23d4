"""Custom kernels that a trace does not hold. Their results are saved, and a run takes them as they
are. Ops before and after them are computed and compared."""

import torch

OPAQUE = ("millstream_cases::kept",)


@torch.library.custom_op("millstream_cases::kept", mutates_args=())
def kept(boxes: torch.Tensor, least: float) -> torch.Tensor:
    return (boxes[:, 1] > least).nonzero()[:, 0]


def prepare():
    g = torch.Generator().manual_seed(53)
    boxes = torch.rand(7, 4, generator=g)

    def run():
        with torch.no_grad():
            chosen = kept(boxes * 2, 0.8)
            return {"chosen": boxes[chosen], "twice": kept(boxes, 0.5) * 2}

    return run, {"boxes": boxes}
