"""Random ops with arguments that make them deterministic."""

import torch
from cases import FLOATS, Family, layouts, rand

f = Family("random")
A = torch.ops.aten
for dtype in FLOATS:
    for x in layouts(rand((3, 5), dtype, 1)):
        f.case(
            "native_dropout", [x], dict(p=0.0, train=True), lambda x: A.native_dropout(x, 0.0, True)
        )
        f.case("native_dropout", [x], dict(p=0.5, train=False),
               lambda x: A.native_dropout(x, 0.5, False))
        mask = rand((3, 5), torch.bool, 2)
        f.case("native_dropout_backward", [x, mask], dict(scale=1.5),
               lambda g, m: A.native_dropout_backward(g, m, 1.5))
f.case("native_dropout", [rand((0, 2))], dict(p=0.0, train=True),
       lambda x: A.native_dropout(x, 0.0, True))
f.refuses("native_dropout", [rand((3,))], dict(p=1.5, train=True),
          lambda x: A.native_dropout(x, 1.5, True))
f.save()
