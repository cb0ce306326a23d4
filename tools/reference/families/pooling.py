"""Pooling and its gradient."""

import torch
from cases import FLOATS, INTS, Family, ints, layouts, rand

f = Family("pooling")
A = torch.ops.aten
BOUNDS = {torch.bfloat16: dict(rtol=1.6e-2, atol=3e-2), torch.float16: dict(rtol=3e-3, atol=3e-3)}


def most(x, kernel, stride=(), padding=0, dilation=1, ceil=False):
    pair = lambda v: [v, v] if isinstance(v, int) else list(v)
    attrs = dict(kernel_size=pair(kernel), stride=pair(stride), padding=pair(padding),
                 dilation=pair(dilation), ceil_mode=ceil)
    f.case("max_pool2d_with_indices", [x], attrs,
           lambda x: A.max_pool2d_with_indices(x, *attrs.values()))
    out, indices = A.max_pool2d_with_indices(x, *attrs.values())
    grad = rand(out.shape, x.dtype, 9)
    f.case("max_pool2d_with_indices_backward", [grad, x, indices], attrs,
           lambda g, x, i: A.max_pool2d_with_indices_backward(g, x, *attrs.values(), i),
           **BOUNDS.get(x.dtype, {}))


def mean(x, kernel, stride=(), padding=0, ceil=False, count=True, divisor=None):
    pair = lambda v: [v, v] if isinstance(v, int) else list(v)
    attrs = dict(kernel_size=pair(kernel), stride=pair(stride), padding=pair(padding),
                 ceil_mode=ceil, count_include_pad=count, divisor_override=divisor)
    f.case("avg_pool2d", [x], attrs, lambda x: A.avg_pool2d(x, *attrs.values()),
           **BOUNDS.get(x.dtype, {}))
    grad = rand(A.avg_pool2d(x, *attrs.values()).shape, x.dtype, 9)
    f.case("avg_pool2d_backward", [grad, x], attrs,
           lambda g, x: A.avg_pool2d_backward(g, x, *attrs.values()), **BOUNDS.get(x.dtype, {}))


def adaptive(x, size):
    f.case("_adaptive_avg_pool2d", [x], dict(output_size=size),
           lambda x: A._adaptive_avg_pool2d(x, size), **BOUNDS.get(x.dtype, {}))
    out = A._adaptive_avg_pool2d(x, size)
    if out.numel():
        f.case("_adaptive_avg_pool2d_backward", [rand(out.shape, x.dtype, 9), x], {},
               A._adaptive_avg_pool2d_backward, **BOUNDS.get(x.dtype, {}))


for dtype in FLOATS:
    x = rand((2, 3, 6, 7), dtype, 1)
    for x in layouts(x) + [x[0], x.contiguous(memory_format=torch.channels_last)]:
        most(x, 2)
        most(x, 3, 2, 1)
        mean(x, 2)
        mean(x, 3, 2, 1)
        adaptive(x, [3, 2])
        adaptive(x, [1, 1])
x = rand((2, 3, 6, 7), seed=1)
for attrs in (dict(ceil=True), dict(stride=[1, 3]), dict(padding=[1, 0]),
              dict(stride=3, padding=1, ceil=True)):
    most(x, [3, 2], **attrs)
    most(x, 2, dilation=[2, 3], **attrs)
    for more in (dict(), dict(count=False), dict(divisor=7), dict(divisor=-2, count=False)):
        mean(x, [3, 2], **attrs, **more)
most(x, 1)
most(x, [6, 7])
most(ints((2, 3, 4, 4), 0, 2, torch.float32), 3, 1, 1)
special = torch.tensor([[[1, float("nan"), 2], [float("inf"), 3, 1], [-float("inf")] * 3]])
most(special, 2, 1)
most(torch.full((1, 3, 3), -float("inf")), 2, 1)
mean(special, 2, 1)
adaptive(x, [6, 7])
adaptive(x, [9, 10])
adaptive(x, [4, 5])
adaptive(rand((1, 2, 40, 30), seed=3), [1, 1])
adaptive(x, [0, 1])
most(rand((0, 3, 4, 4)), 2)


def refuses(op, x, *args):
    names = ["kernel_size", "stride", "padding"]
    f.refuses(op, [x], dict(zip(names, args)), lambda x: getattr(A, op)(x, *args))


for op in ("max_pool2d_with_indices", "avg_pool2d"):
    refuses(op, x, [8, 2], [1, 1], [0, 0])
    refuses(op, x, [2, 2], [1, 1], [2, 0])
    refuses(op, x, [2, 2], [0, 1], [0, 0])
    refuses(op, x[0, 0], [2, 2], [1, 1], [0, 0])
f.refuses("avg_pool2d", [x], dict(kernel_size=[2, 2], divisor_override=0),
          lambda x: A.avg_pool2d(x, [2, 2], [], [0, 0], False, True, 0))
f.refuses("_adaptive_avg_pool2d", [x], dict(output_size=[-1, 2]),
          lambda x: A._adaptive_avg_pool2d(x, [-1, 2]))
# Integers, without gradients.
for dtype in INTS:
    x = ints((2, 3, 7, 6), 0 if dtype == torch.uint8 else -50, 50, dtype, 21)
    for x in layouts(x):
        f.case("max_pool2d_with_indices", [x], dict(kernel_size=[3, 2], padding=[1, 1]),
               lambda x: A.max_pool2d_with_indices(x, [3, 2], [], [1, 1]))
        if dtype == torch.int64:
            for count in [True, False]:
                f.case("avg_pool2d", [x], dict(kernel_size=[3, 3], stride=[2, 2], padding=[1, 1],
                                               ceil_mode=True, count_include_pad=count),
                       lambda x: A.avg_pool2d(x, [3, 3], [2, 2], [1, 1], True, count))
f.refuses("avg_pool2d", [ints((1, 3, 3), 0, 2, torch.bool)], dict(kernel_size=[2, 2]),
          lambda x: A.avg_pool2d(x, [2, 2]))
f.save()
