"""Elementwise functions of one tensor, and their gradients."""

import math

import torch
from cases import ALL, FLOATS, Family, gapped, layouts, rand, transposed

f = Family("pointwise")
A = torch.ops.aten
SPECIAL = [0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.75, -20.25, 40.0, 88.5, -90.0, 1e-4,
           float("nan"), float("inf"), float("-inf")]
NUMBERS = ["abs", "sign", "round", "trunc", "floor", "ceil", "relu", "hardtanh"]
WIDENED = [
    "exp",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "lgamma",
    "digamma",
    "erfinv",
    "exp2",
    "log10",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "sinc",
    "deg2rad",
    "rad2deg",
    "logit",
]
OWN = ["gelu", "silu", "elu", "leaky_relu", "softplus", "frac", "hardsigmoid", "hardswish", "mish",
       "log_sigmoid", "softshrink", "hardshrink"]
QUESTIONS = ["isnan", "isinf", "isposinf", "isneginf", "signbit"]
# Ops without a form in place.
NEW = QUESTIONS + ["softplus", "log_sigmoid", "softshrink", "hardshrink"]
NO_BOOL = set(NUMBERS) - {"sign"}


def case(op, inputs, attrs={}, **kw):
    f.case(op, inputs, attrs, lambda *t: getattr(A, op)(*t, **attrs), **kw)


for op in NUMBERS + WIDENED + OWN + QUESTIONS:
    twin = op not in NEW
    for dtype in ALL:
        if dtype == torch.bool and op in NO_BOOL or op in OWN and not dtype.is_floating_point:
            f.refuses(op, [rand((3,), dtype)], {}, getattr(A, op))
            continue
        if dtype.is_floating_point:
            # PyTorch's gelu of an infinity is NaN in some dtypes and infinite in others.
            special = SPECIAL[:-2] if op == "gelu" else SPECIAL
            case(op, [torch.tensor(special, dtype=dtype)])
        x = rand((3, 5), dtype, 1, -6, 6)
        shapes = layouts(x) if dtype in (torch.float32, torch.int8) else [x]
        for t in shapes:
            case(op, [t], layout=op != "log_sigmoid")
        if twin and (dtype.is_floating_point or op in NUMBERS):
            case(op + "_", [gapped(x)])
            if dtype == torch.float32:
                case(op + "_", [transposed(x)])
    case(op, [rand((2, 0, 3))])
    case(op, [rand((), seed=3)])
    case(op, [rand((3, 1, 5), seed=3).expand(3, 2, 5)])
    if twin and op not in NUMBERS:
        f.refuses(op + "_", [torch.tensor([1, 2])], {}, getattr(A, op + "_"))
    if twin:
        f.refuses(op + "_", [rand((3,)).expand(2, 3)], {}, getattr(A, op + "_"))
case("exp", [rand((300, 7), seed=4)])
case("round", [torch.arange(-6, 7, dtype=torch.float64) / 2])

ARGS = [("gelu", {"approximate": "tanh"}), ("gelu", {"approximate": "none"}),
        ("elu", {"alpha": 0.5, "scale": 2, "input_scale": 1.5}), ("elu", {"alpha": -1.0}),
        ("leaky_relu", {"negative_slope": 0.3}), ("leaky_relu", {"negative_slope": -1}),
        ("softplus", {"beta": 2, "threshold": 3.0}), ("hardtanh", {"min_val": -0.5, "max_val": 2}),
        ("hardtanh", {"min_val": 2.0, "max_val": 1.0}), ("logit", {"eps": 0.1}),
        ("logit", {"eps": 0.0}), ("softshrink", {"lambd": 2}), ("hardshrink", {"lambd": 2.5})]
for op, attrs in ARGS:
    for dtype in FLOATS:
        special = SPECIAL[:-2] if op == "gelu" else SPECIAL
        case(op, [torch.tensor(special, dtype=dtype)], attrs)
        if op not in NEW:
            case(op + "_", [rand((4, 3), dtype, 5)], attrs)
case("hardtanh", [torch.tensor([0, 1, 5, 200], dtype=torch.uint8)], {"min_val": 1, "max_val": 5})
case("hardtanh", [torch.tensor([0, 1, 5, -200])], {"min_val": -7, "max_val": 2.0})
f.refuses("gelu", [rand((3,))], {"approximate": "erf"}, lambda x: A.gelu(x, approximate="erf"))

GRADIENTS = [
    ("threshold_backward", {"threshold": 0}), ("threshold_backward", {"threshold": 0.5}),
    ("tanh_backward", {}), ("sigmoid_backward", {}), ("gelu_backward", {}),
    ("gelu_backward", {"approximate": "tanh"}), ("silu_backward", {}),
    ("elu_backward", {"alpha": 1, "scale": 1, "input_scale": 1, "is_result": False}),
    ("elu_backward", {"alpha": 0.5, "scale": 2, "input_scale": 1.5, "is_result": False}),
    ("elu_backward", {"alpha": 0.5, "scale": 2, "input_scale": 1.5, "is_result": True}),
    ("leaky_relu_backward", {"negative_slope": 0.2, "self_is_result": False}),
    ("leaky_relu_backward", {"negative_slope": -0.2, "self_is_result": False}),
    ("leaky_relu_backward", {"negative_slope": 0.2, "self_is_result": True}),
    ("log_sigmoid_backward", {}), ("hardsigmoid_backward", {}), ("hardswish_backward", {}),
    ("mish_backward", {}), ("logit_backward", {}), ("logit_backward", {"eps": 0.2}),
    ("softshrink_backward", {"lambd": 0.5}), ("hardshrink_backward", {"lambd": 1.5}),
    ("softplus_backward", {"beta": 1, "threshold": 20}),
    ("softplus_backward", {"beta": 2, "threshold": 3.0}),
]
for op, attrs in GRADIENTS:
    def fn(grad, x):
        if op == "elu_backward":
            return A.elu_backward(grad, attrs["alpha"], attrs["scale"], attrs["input_scale"],
                                  attrs["is_result"], x)
        if op == "log_sigmoid_backward":
            return A.log_sigmoid_backward(grad, x, A.log_sigmoid_forward(x)[1])
        return getattr(A, op)(grad, x, **attrs)
    for dtype in FLOATS:
        s = torch.tensor([v for v in SPECIAL if math.isfinite(v)], dtype=dtype)
        f.case(op, [rand(s.shape, dtype, 6), s], attrs, fn)
    g, x = rand((3, 5), seed=7), rand((3, 5), seed=8)
    for t in layouts(x):
        f.case(op, [g, t], attrs, fn)
    f.case(op, [transposed(g), x], attrs, fn)
    f.case(op, [g[:0], x[:0]], attrs, fn)
    f.case(op, [g[0, 0], x[0, 0]], attrs, fn)
i = torch.tensor([-3, 0, 1, 2])
f.case("threshold_backward", [i, i], {"threshold": 0}, lambda g, x: A.threshold_backward(g, x, 0))
f.refuses("tanh_backward", [i, i], {}, A.tanh_backward)
x = rand((3,))
f.refuses("elu_backward", [x, x], {"alpha": -1.0, "is_result": True},
          lambda g, x: A.elu_backward(g, -1.0, 1, 1, True, x))
f.refuses("leaky_relu_backward", [x, x], {"negative_slope": -1.0, "self_is_result": True},
          lambda g, x: A.leaky_relu_backward(g, x, -1.0, True))
for dtype in ALL:
    x = torch.tensor([0.0, float("nan"), float("inf"), -float("inf"), -1.5, 3.0])
    x = x.to(dtype) if dtype.is_floating_point else torch.tensor([0, 1, 2, 1]).to(dtype)
    for attrs in ({}, {"nan": 2.0}, {"nan": -1.0, "posinf": 5.0, "neginf": -7.5}):
        f.case("nan_to_num", [x], attrs, lambda x: torch.nan_to_num(x, **attrs))
        f.case("nan_to_num_", [x.clone()], attrs, lambda x: torch.nan_to_num_(x, **attrs))
f.save()
