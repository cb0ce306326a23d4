"""Normalisations and their gradients."""

import torch
from cases import FLOATS, Family, gapped, layouts, rand, transposed

f = Family("norm")
A = torch.ops.aten
HALVES = [torch.float16, torch.bfloat16]
# The kernels add terms of either sign in another order than PyTorch. In f16 and bf16 PyTorch rounds
# intermediate factors and sums, which matters where terms cancel out.
WIDE = {torch.float32: dict(rtol=1e-5, atol=1e-5), torch.float64: dict(rtol=1e-11, atol=1e-11),
        torch.float16: dict(rtol=5e-3, atol=5e-3), torch.bfloat16: dict(rtol=4e-2, atol=4e-2)}


def case(op, tensors, attrs, fn, **bounds):
    """Records a case; a tensor that is None is absent."""
    given = [t for t in tensors if t is not None]
    absent = [k for k, t in enumerate(tensors) if t is None]

    def call(*given):
        given = iter(given)
        return [t for t in fn(*[None if t is None else next(given) for t in tensors])
                if t is not None]

    f.case(op, given, dict(absent=absent or None, **attrs), call,
           **(bounds or WIDE.get(given[0].dtype, {})))


def backward(op, tensors, attrs, fn, masks):
    for mask in masks:
        case(op, tensors, dict(output_mask=mask, **attrs), lambda *t: fn(*t, mask))


ALL = [[True] * 3]
MASKS = ALL + [[True, False, False], [False, True, False], [False, False, True]]


def layer(x, shape, weight, bias, grad=None, eps=1e-5, masks=ALL):
    case("native_layer_norm", [x, weight, bias], dict(normalized_shape=shape, eps=eps),
         lambda x, w, b: A.native_layer_norm(x, shape, w, b, eps))
    _, mean, rstd = A.native_layer_norm(x, shape, weight, bias, eps)
    grad = rand(x.shape, x.dtype, 9) if grad is None else grad
    masks = [
        m for m in masks if (weight is not None or not m[1]) and (bias is not None or not m[2])
    ]
    backward("native_layer_norm_backward", [grad, x, mean, rstd, weight, bias],
             dict(normalized_shape=shape),
             lambda g, x, m, r, w, b, mask:
             A.native_layer_norm_backward(g, x, shape, m, r, w, b, mask),
             masks or [[True, False, False]])


def group(x, groups, weight, bias, eps=1e-5, masks=ALL):
    n, c = x.shape[:2]
    hw = x[0, 0].numel()
    attrs = dict(N=n, C=c, HxW=hw, group=groups)
    case("native_group_norm", [x, weight, bias], dict(eps=eps, **attrs),
         lambda x, w, b: A.native_group_norm(x, w, b, n, c, hw, groups, eps))
    _, mean, rstd = A.native_group_norm(x, weight, bias, n, c, hw, groups, eps)
    grad = rand(x.shape, x.dtype, 9)
    backward("native_group_norm_backward", [grad, x, mean, rstd, weight], attrs,
             lambda g, x, m, r, w, mask:
             A.native_group_norm_backward(g, x, m, r, w, n, c, hw, groups, mask),
             masks if weight is not None else [[True, False, False]])


def batch(x, weight=None, bias=None, mean=None, var=None, train=True, eps=1e-5, masks=ALL):
    attrs = dict(training=train, momentum=0.3, eps=eps)
    given = [t if t is None else t.clone() for t in (weight, bias, mean, var)]
    out, save_mean, save_invstd = A.native_batch_norm(x, *given, *attrs.values())
    case("native_batch_norm", [x, weight, bias, mean, var], attrs,
         lambda *t: A.native_batch_norm(*t, *attrs.values()))
    grad = rand(x.shape, x.dtype, 9)
    backward("native_batch_norm_backward", [grad, x, weight, mean, var, save_mean, save_invstd],
             dict(train=train, eps=eps),
             lambda g, x, w, m, v, sm, si, mask:
             A.native_batch_norm_backward(g, x, w, m, v, sm, si, train, eps, mask), masks)


for dtype in FLOATS:
    w, b = rand((6,), dtype, 1), rand((6,), dtype, 2)
    for x in layouts(rand((2, 5, 6), dtype, 3)):
        layer(x, [6], w, b)
    layer(x, [6], w, None)
    layer(x, [6], None, b)
    layer(x, [6], None, None)
    w, b = rand((5, 6), dtype, 4), rand((5, 6), dtype, 5)
    layer(x, [5, 6], transposed(w), gapped(b), masks=MASKS)
    for x in layouts(rand((3, 4, 2, 3), dtype, 6)):
        w, b = rand((4,), dtype, 1), rand((4,), dtype, 2)
        mean, var = rand((4,), dtype, 3), rand((4,), dtype, 4, 0.1, 2)
        for train in (True, False):
            batch(x, w, b, mean, var, train)
        batch(x)
    x = rand((3, 4, 2, 3), dtype, 6)
    batch(x, w, None, masks=MASKS)
    batch(x, None, b)
    batch(x, None, b, mean, gapped(var), False, 0.1)
    batch(rand((5, 4), dtype, 7), w, b, mean, gapped(var))
    batch(rand((5, 4, 3), dtype, 8), w, b, mean, var)
    group(x, 2, w, b, masks=MASKS)
    group(x, 2, gapped(w), gapped(b))
    batch(x, gapped(w), b, gapped(mean), var)
    group(x, 4, None, None)
    group(x, 1, w, None)
    group(rand((2, 6, 5), dtype, 9), 3, rand((6,), dtype, 1), rand((6,), dtype, 2), 0.1)
for dtype in HALVES:
    w, b = rand((4,), seed=1), rand((4,), seed=2)
    layer(rand((3, 4), dtype, 3), [4], w, b)
    mean, var = rand((4,), seed=3), rand((4,), seed=4, low=0.1)
    for train in (True, False):
        batch(rand((3, 4, 2), dtype, 5), w, b, mean, var, train)
    group(rand((3, 4, 2), dtype, 5), 2, w, b)
x = rand((3, 4, 2, 3), seed=6)
last = x.to(memory_format=torch.channels_last)
w, b = rand((4,), seed=1), rand((4,), seed=2)
mean, var = rand((4,), seed=3), rand((4,), seed=4, low=0.1)
for train in (True, False):
    batch(last, w, b, mean, var, train)
group(last, 2, w, b)
layer(rand((18, 260), seed=1, low=3, high=5), [260], rand((260,), seed=2), rand((260,), seed=3))
batch(rand((4, 3, 4, 30), seed=1), rand((3,)), rand((3,)), rand((3,)), rand((3,), low=1))
layer(rand((0, 3)), [3], rand((3,)), rand((3,)))
layer(torch.tensor([[1.0, 3.0], [float("nan"), 1], [2, 2]]), [2], None, None)


def refuses(op, tensors, attrs, *rest):
    f.refuses(op, tensors, attrs, lambda *t: getattr(A, op)(*t, *rest))


def refuses_layer(shape, x, *rest):
    f.refuses("native_layer_norm", [x, *rest], dict(normalized_shape=shape),
              lambda x, w=None, b=None: A.native_layer_norm(x, shape, w, b, 1e-5))


refuses_layer([2], rand((2, 3)))
refuses_layer([2, 3, 4], rand((3, 4)))
refuses_layer([3], rand((2, 3)), rand((2,)))
refuses_layer([3], rand((2, 3)), rand((3,), torch.float64))
refuses_layer([3], rand((2, 3), torch.int64))
group_attrs = dict(N=2, C=3, HxW=4, group=2)
refuses("native_group_norm", [rand((2, 3, 4)), rand((3,)), rand((3,))], group_attrs,
        2, 3, 4, 2, 1e-5)
f.refuses("native_batch_norm", [rand((2, 3))], dict(training=False),
          lambda x: A.native_batch_norm(x, None, None, None, None, False, 0.1, 1e-5))
f.save()
