nan, inf = float("nan"), float("inf")
ELEMENTS = {
    "abs": (-1.5, 0, 2), "sign": (-1.5, 0, 2), "round": (0.5, 1.5, -2.75), "trunc": (-1.75, 1.75),
    "floor": (-1.75, 1.75), "ceil": (-1.75, 1.75), "relu": (-1, 0, 2), "exp": (0, 1, 2),
    "expm1": (0, 0.5, 1), "log": (1, 2, 10), "log2": (0.5, 1, 10), "log1p": (0, 1, 9),
    "sqrt": (1, 2, 9), "rsqrt": (0.25, 2, 16), "reciprocal": (1, 2, -4), "sin": (0, 0.5, 1),
    "cos": (0, 0.5, 1), "tanh": (-1, 0, 2), "sigmoid": (-1, 0, 2), "erf": (-1, 0, 0.5),
    "erfc": (-1, 0, 0.5), "lgamma": (0.5, 3, 4.5), "digamma": (0.5, 1, 2),
    "erfinv": (-0.5, 0, 0.25), "exp2": (-1, 0, 0.5), "log10": (1, 2, 100), "tan": (0, 0.5, 1),
    "asin": (-0.5, 0, 1), "acos": (-0.5, 0, 1), "atan": (-0.5, 0, 1), "sinh": (-1, 0, 2),
    "cosh": (-1, 0, 2), "asinh": (-1, 0, 2), "acosh": (1, 2, 3), "atanh": (-0.5, 0, 0.25),
    "sinc": (0, 0.25, 0.5), "deg2rad": (90, 180), "rad2deg": (0.1, 0.3), "logit": (0.25, 0.5, 0.9),
    "frac": (-1.25, 2.5), "hardsigmoid": (-4, 0, 1.5), "hardswish": (-4, 1.5, 3),
    "mish": (-1, 0, 2), "gelu": (-1, 0, 2), "silu": (-1, 0, 2), "elu": (-1, 0, 2),
    "leaky_relu": (-1, 0, 2), "hardtanh": (-2, 0.5, 3), "nan_to_num": (nan, 1, -2),
}
OPTIONS = [
    ("logit", (0, 0.5, 1), dict(eps=0.25)),
    ("gelu", (-1, 0, 2), dict(approximate="tanh")),
    ("elu", (-1, 0, 2), dict(alpha=2)), ("elu", (-1, 0, 2), dict(scale=2)),
    ("elu", (-1, 0, 2), dict(input_scale=0.5)),
    ("leaky_relu", (-1, 0, 2), dict(negative_slope=0.5)),
    ("hardtanh", (-2, 0.5, 3), dict(min_val=0)), ("hardtanh", (-2, 0.5, 3), dict(max_val=2)),
    ("nan_to_num", (nan, 1, -2), dict(nan=7)),
    ("nan_to_num", (inf, 1, -2), dict(posinf=9)),
    ("nan_to_num", (-inf, 1, -2), dict(neginf=-9)),
]
for op, elements in ELEMENTS.items():
    both(op, x=f(*elements))
seen = set()
for op, elements, options in OPTIONS:
    # An op in place has the options of the other one.
    (e if op in seen else both)(op, x=f(*elements), **options)
    seen.add(op)
e("softplus", x=f(-1, 0, 2))
e("softplus", x=f(-1, 0, 2), beta=2)
e("softplus", x=f(-1, 0, 2), threshold=1)
for op in ["isnan", "isinf", "isposinf", "isneginf"]:
    e(op, x=f(1, inf, -inf, nan))
e("signbit", x=f(1, 0, -2))
e("log_sigmoid", x=f(-1, 0, 2))
for op in ["softshrink", "hardshrink"]:
    e(op, x=f(-2, 0.25, 1))
    e(op, x=f(-2, 0.25, 1), lambd=1.5)
