"""Convolutions and their gradients."""

import torch
from cases import FLOATS, INTS, Family, gapped, ints, layouts, rand

f = Family("conv")
A = torch.ops.aten
# The kernels add products in another order than PyTorch, which rounds f16 and bf16 more often.
WIDE = {torch.float32: dict(rtol=1e-5, atol=2e-5), torch.float64: dict(rtol=1e-11, atol=1e-11),
        torch.float16: dict(rtol=5e-3, atol=1e-2), torch.bfloat16: dict(rtol=3e-2, atol=8e-2)}
MASKS = [[True, False, False], [False, True, False], [False, False, True], [True, True, False]]


def conv(x, weight, bias=None, stride=1, padding=0, dilation=1, transposed=False, extra=0,
         groups=1, masks=([True] * 3,), bounds=None):
    rank = x.dim() - 2
    full = lambda v: [v] * rank if isinstance(v, int) else v
    attrs = dict(stride=full(stride), padding=full(padding), dilation=full(dilation),
                 transposed=transposed, output_padding=full(extra), groups=groups)
    bounds = bounds or WIDE[x.dtype]
    given = [x, weight] if bias is None else [x, weight, bias]
    f.case("convolution", given, attrs,
           lambda x, w, b=None: A.convolution(x, w, b, *attrs.values()), **bounds)
    out = A.convolution(x, weight, bias, *attrs.values())
    sizes = [out.shape[1]]
    for mask in masks:
        grad = rand(out.shape, x.dtype, 9)
        f.case("convolution_backward", [grad, x, weight],
               dict(bias_sizes=sizes, output_mask=mask, **attrs),
               # PyTorch may return more gradients than requested.
               lambda g, x, w: [t for t, asked in zip(A.convolution_backward(
                   g, x, w, sizes, *attrs.values(), mask), mask) if asked], **bounds)


for dtype in FLOATS:
    x, bias = rand((2, 4, 6, 5), dtype, 1), rand((6,), dtype, 2)
    weight = rand((6, 4, 3, 2), dtype, 3)
    conv(x, weight, bias)
    conv(x, weight, None, 2, [1, 2])
    conv(x, rand((6, 2, 3, 3), dtype, 4), bias, 1, 1, 1, False, 0, 2)
    conv(x, rand((4, 3, 3, 2), dtype, 5), bias[:3], 2, 1, 1, True, 1)
    conv(rand((2, 3, 9), dtype, 6), rand((4, 3, 3), dtype, 7), bias[:4], 2, 1, 2)
x, weight, bias = rand((2, 4, 6, 7), seed=1), rand((8, 4, 3, 3), seed=2), rand((8,), seed=3)
for x_ in layouts(x)[1:]:
    for weight_ in layouts(weight)[1:]:
        conv(x_, weight_, gapped(bias))
for dtype in (torch.float32, torch.float64):
    last = lambda t: t.to(dtype).contiguous(memory_format=torch.channels_last)
    conv(last(x), weight.to(dtype), bias.to(dtype), padding=1)
    conv(x.to(dtype), last(weight), bias.to(dtype), padding=1)
    conv(last(x), last(rand((4, 3, 3, 3))), None, transposed=True)
    volume = rand((2, 2, 4, 5, 3), dtype, 4)
    conv(
        volume, rand((3, 2, 2, 3, 2), dtype, 5), rand((3,), dtype), [1, 2, 1], [1, 0, 2], [2, 1, 1]
    )
    conv(volume.to(memory_format=torch.channels_last_3d), rand((3, 2, 2, 2, 2), dtype, 5))
    conv(volume, rand((2, 1, 2, 3, 2), dtype, 6), None, 2, 1, 1, True, 1, 2)
conv(x, weight, bias, masks=MASKS)
conv(x, rand((4, 2, 3, 3), seed=5), rand((2,)), transposed=True, masks=MASKS)
for attrs in (dict(stride=[2, 3]), dict(padding=[3, 4]), dict(dilation=[2, 3], padding=3),
              dict(stride=3, padding=2, dilation=2), dict(stride=5)):
    conv(x, weight, bias, **attrs)
    conv(x, rand((4, 3, 3, 3), seed=6), None, transposed=True, **attrs)
conv(x, rand((8, 4, 1, 1), seed=7), bias)
conv(x, rand((8, 4, 1, 1), seed=7), bias, stride=2)
conv(x, rand((8, 4, 1, 1), seed=7), bias, padding=1)
# Depthwise, with one and with two results per channel.
conv(x, rand((4, 1, 3, 3), seed=8), bias[:4], padding=1, groups=4)
conv(x, rand((8, 1, 3, 3), seed=9), bias, stride=2, padding=1, groups=4)
conv(x, rand((4, 1, 3, 3), seed=8), bias[:4], stride=2, padding=1, groups=4, transposed=True)
conv(x, rand((4, 2, 3, 3), seed=8), bias[:4], groups=2, stride=2, padding=1, transposed=True,
     extra=1)
conv(rand((1, 2, 9)), rand((3, 2, 9), seed=1), None)
conv(rand((1, 1, 1, 1)), rand((1, 1, 3, 3)), rand((1,)), padding=1)
# Windows that do not overlap the image, and a window whose end is not used.
conv(rand((1, 1, 2, 2)), rand((2, 1, 2, 2)), None, stride=2, padding=5)
# Long sums, whose error is that of their terms: more than one part, and more than one block of
# channels.
conv(rand((1, 2, 40, 44), seed=1), rand((2, 2, 13, 13), seed=2), None, padding=6,
     bounds=dict(rtol=1e-5, atol=2e-4))
conv(rand((1, 3, 2, 3), seed=3), rand((260, 3, 1, 1), seed=4), None)
conv(rand((1, 3, 5, 5), seed=3), rand((3, 120, 3, 3), seed=4), None, transposed=True)
f.case("convolution", [rand((0, 4, 6, 7)), weight, bias], {},
       lambda x, w, b: A.convolution(x, w, b, [1, 1], [0, 0], [1, 1], False, [0, 0], 1))


def refuses(x, weight, bias=None, stride=1, padding=0, dilation=1, transposed=False, extra=0,
            groups=1):
    full = lambda v: [v] * 2 if isinstance(v, int) else v
    attrs = dict(stride=full(stride), padding=full(padding), dilation=full(dilation),
                 transposed=transposed, output_padding=full(extra), groups=groups)
    f.refuses("convolution", [t for t in (x, weight, bias) if t is not None], attrs,
              lambda x, w, b=None: A.convolution(x, w, b, *attrs.values()))


refuses(x, rand((8, 3, 3, 3)))
refuses(x, weight, rand((7,)))
refuses(x, rand((8, 4, 7, 3)))
refuses(x, weight, stride=0)
refuses(x, weight, padding=-1)
refuses(x, weight, dilation=0)
refuses(x, weight, groups=2)
refuses(x, rand((3, 2, 3, 3)), groups=2)
refuses(x, weight.double())
refuses(x, rand((8, 4, 3)))
refuses(x, rand((4, 8, 3, 3)), transposed=True, extra=1)
# Integers, without gradients. PyTorch dilates and transposes only i64.
for dtype in INTS:
    low = 0 if dtype == torch.uint8 else -100
    x, weight = ints((2, 4, 6, 5), low, 100, dtype, 21), ints((6, 2, 3, 2), low, 100, dtype, 22)
    bias = ints((6,), low, 100, dtype, 23)
    dilation = [1, 2] if dtype == torch.int64 else [1, 1]
    for x in layouts(x):
        f.case("convolution", [x, weight, bias],
               dict(stride=[2, 1], padding=[1, 0], dilation=dilation, groups=2),
               lambda x, w, b: A.convolution(x, w, b, [2, 1], [1, 0], dilation, False, [0, 0], 2))
x, weight = ints((2, 4, 6, 5), -9, 9, seed=24), ints((4, 3, 2, 3), -9, 9, seed=25)
f.case("convolution", [x, weight], dict(stride=[2, 2], transposed=True, output_padding=[1, 1]),
       lambda x, w: A.convolution(x, w, None, [2, 2], [0, 0], [1, 1], True, [1, 1], 1))
f.refuses("convolution", [x.bool(), weight.bool()], dict(transposed=True),
          lambda x, w: A.convolution(x, w, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1))
f.save()
