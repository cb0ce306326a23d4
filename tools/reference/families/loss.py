"""Losses and their gradients."""

import torch
from cases import FLOATS, Family, ints, layouts, rand, transposed

f = Family("loss")
A = torch.ops.aten
REDUCTIONS = ["none", "mean", "sum"]
# The kernels add in another order than PyTorch.
WIDE = {torch.float32: dict(rtol=5e-6, atol=2e-6)}


def case(op, tensors, reduction, **attrs):
    """Records a case; a tensor that is None is absent."""
    given = [t for t in tensors if t is not None]
    absent = [k for k, t in enumerate(tensors) if t is None]
    number = REDUCTIONS.index(reduction)

    def call(*given):
        given = iter(given)
        given = [None if t is None else next(given) for t in tensors]
        if len(given) == 5:
            return getattr(A, op)(*given[:4], number, attrs["ignore_index"], given[4])
        return getattr(A, op)(*given, reduction=number, **attrs)

    f.case(op, given, dict(reduction=reduction, absent=absent or None, **attrs), call,
           **WIDE.get(given[0].dtype, {}))


PLAIN = [("mse_loss", {}), ("smooth_l1_loss", dict(beta=0.5)), ("huber_loss", dict(delta=0.7))]
for reduction in REDUCTIONS:
    for op, attrs in PLAIN:
        for dtype in FLOATS if reduction != "sum" else FLOATS[:1]:
            target = rand((3, 5), dtype, 2)
            for x in layouts(rand((3, 5), dtype, 1))[:1 if dtype != torch.float32 else 3]:
                for target in [target] if dtype != torch.float32 else [target, transposed(target)]:
                    case(op, [x, target], reduction, **attrs)
                    grad = rand((3, 5), dtype, 3) if reduction == "none" else rand((), dtype, 3)
                    case(op + "_backward", [grad, x, target], reduction, **attrs)
        case(op, [rand((0, 2)), rand((0, 2))], reduction, **attrs)
        case(op, [rand(()), rand((), seed=1)], reduction, **attrs)
        case(op, [rand((3, 1)), rand((4,), seed=1)], reduction, **attrs)
        special = torch.tensor([float("nan"), float("inf"), 0.5, 1.0])
        case(op, [special, torch.ones(4)], reduction, **attrs)
        case(op + "_backward", [torch.ones(4), special, torch.ones(4)], reduction, **attrs)
    # More than one part of a sum.
    case("mse_loss", [rand((150, 1), seed=5), rand((121,), seed=6)], reduction)
    case("smooth_l1_loss", [rand((5,)), rand((5,), seed=1)], reduction, beta=0.0)
    one = rand((5,), seed=2)
    case("smooth_l1_loss_backward", [one, rand((5,)), rand((5,), seed=1)], reduction, beta=0.0)

    for dtype in FLOATS if reduction != "sum" else FLOATS[:1]:
        x, target = rand((3, 4), dtype, 1, 0, 1), rand((3, 4), dtype, 2, 0, 1)
        logits = rand((3, 4), dtype, 1, -6, 6)
        grad = rand((3, 4), dtype, 3) if reduction == "none" else rand((), dtype, 3)
        weight, positive = rand((4,), dtype, 4, 0, 3), rand((3, 1), dtype, 5, 0, 3)
        for target in [target] if dtype != torch.float32 else [target, transposed(target)]:
            for w in (None, weight):
                case("binary_cross_entropy", [x, target, w], reduction)
                case("binary_cross_entropy_backward", [grad, x, target, w], reduction)
                for p in (None, positive):
                    case("binary_cross_entropy_with_logits", [logits, target, w, p], reduction)
    edges = torch.tensor([0.0, 1.0, 0.0, 1.0])
    x, target = rand((3, 4), seed=1, low=0, high=1), rand((3, 4), seed=2, low=0, high=1)
    case("binary_cross_entropy", [transposed(x), target, None], reduction)
    case("binary_cross_entropy_backward", [rand((4,)), transposed(x), target, None], reduction)
    target = torch.tensor([0.0, 1.0, 1.0, 0.0])
    case("binary_cross_entropy", [edges, target, None], reduction)
    case("binary_cross_entropy_backward", [torch.ones(4), edges, target, None], reduction)
    far = torch.tensor([200.0, -200.0, float("inf"), float("nan")])
    case("binary_cross_entropy_with_logits", [far, target, None, None], reduction)
    case("binary_cross_entropy_with_logits", [rand((0,)), rand((0,)), None, None], reduction)


def nll(x, target, weight, reduction, op="nll_loss", ignore_index=-100):
    case(op + "_forward", [x, target, weight], reduction, ignore_index=ignore_index)
    number = REDUCTIONS.index(reduction)
    out, total = getattr(A, op + "_forward")(x, target, weight, number, ignore_index)
    grad = rand(out.shape, x.dtype, 9)
    given = [grad, x, target, weight, total]
    case(op + "_backward", given, reduction, ignore_index=ignore_index)


for reduction in REDUCTIONS:
    for dtype in FLOATS:
        for x in layouts(rand((6, 5), dtype, 1))[:1 if dtype != torch.float32 else 3]:
            for weight in (None, rand((5,), dtype, 2, 0, 2)):
                nll(x, ints((6,), 0, 5, seed=1), weight, reduction)
                nll(x, ints((6,), 0, 5, seed=2), weight, reduction, ignore_index=3)
        x = rand((2, 3, 2, 4), dtype, 3)
        for weight in (None, rand((3,), dtype, 4, 0, 2)):
            nll(x, ints((2, 2, 4), 0, 3, seed=3), weight, reduction, "nll_loss2d", 1)
    nll(rand((5,)), torch.tensor(2), None, reduction)
    case("nll_loss_forward", [rand((5,)), torch.tensor([2]), None], reduction, ignore_index=-100)
    nll(rand((2, 3)), torch.tensor([-100, -100]), None, reduction)
    nll(rand((0, 3)), ints((0,), 0, 3), None, reduction)
    nll(rand((700, 3)), ints((700,), 0, 3), None, reduction)
    case("nll_loss2d_forward", [transposed(rand((2, 3, 2, 4))), ints((2, 2, 4), 0, 3), None],
         reduction, ignore_index=-100)


def refuses(op, *tensors, **attrs):
    f.refuses(op, list(tensors), attrs, lambda *t: getattr(A, op)(*t, **attrs))


refuses("mse_loss", rand((3,)), rand((2,)))
refuses("smooth_l1_loss", rand((3,)), rand((3,)), beta=-1.0)
refuses("huber_loss", rand((3,)), rand((3,)), delta=0.0)
refuses("binary_cross_entropy", rand((3,)), rand((3,)))
refuses("binary_cross_entropy", rand((3,), low=0), rand((2,), low=0))
refuses("binary_cross_entropy_with_logits", rand((3,)), rand((2,)))


def refuses_nll(*tensors):
    f.refuses("nll_loss_forward", list(tensors), {},
              lambda x, t, w=None: A.nll_loss_forward(x, t, w, 1, -100))


refuses_nll(rand((3, 2)), torch.tensor([0, 1, 2]))
refuses_nll(rand((3, 2)), torch.tensor([0, 1, -1]))
refuses_nll(rand((3, 2)), torch.tensor([0, 1]))
refuses_nll(rand((3, 2)), torch.tensor([0, 1, 1]), rand((3,)))
refuses_nll(rand((3, 2)), torch.tensor([0, 1, 1]), rand((2,), torch.float64))
f.save()
