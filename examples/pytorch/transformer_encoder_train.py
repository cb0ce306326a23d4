"""A training step of a transformer's encoder layer, without an optimizer. It was recorded by

    OMP_NUM_THREADS=1 python tools/record.py examples/pytorch/transformer_encoder_train.py:prepare \
        examples/pytorch/transformer_encoder_train --seed 22 --rtol 1e-4 --atol 1e-5 --compress
"""

import torch
from torch import nn


def prepare():
    model = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x, target = torch.randn(3, 10, 32), torch.randn(3, 10, 32)
    leaves = {"x": x.requires_grad_(), **dict(model.named_parameters())}

    def step():
        model.zero_grad()
        x.grad = None
        y = model(x)
        loss = ((y - target) ** 2).mean()
        loss.backward()
        return {"y": y, "loss": loss, **{f"g.{name}": t.grad for name, t in leaves.items()}}

    parameters = {f"p.{name}": p for name, p in model.named_parameters()}
    return step, {"x": x, "tgt": target, **parameters}
