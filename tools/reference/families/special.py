"""Special functions: Bessel and gamma functions, the normal distribution, polynomials."""

import torch
from cases import Family, gapped, rand, transposed

f = Family("special")
A = torch.ops.aten
INF, NAN = float("inf"), float("nan")
EDGES = [0.0, -0.0, 0.25, 0.5, 1.0, -1.0, 1.5, 2.0, 2.09, 3.75, -2.25, 5.0, 7.5, 8.0, 9.5, 26.0,
         -20.25, 60.0, -90.0, 120.0, 1e-4, NAN, INF, -INF]
# 32-bit results are those of PyTorch in f64, rounded: PyTorch's kernels in f32 are less accurate.
OF_ONE = [
    "i0", "special_i0e", "special_i1", "special_i1e", "special_bessel_j0", "special_bessel_j1",
    "special_bessel_y0", "special_bessel_y1", "special_modified_bessel_i0",
    "special_modified_bessel_i1", "special_modified_bessel_k0", "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1",
    "special_spherical_bessel_j0", "special_airy_ai", "special_erfcx", "special_log_ndtr",
    "special_ndtri",
]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8,
          torch.bool]


def in_f64(fn):
    def of(*tensors):
        dtype = torch.result_type(*tensors) if len(tensors) == 2 else tensors[0].dtype
        dtype = dtype if dtype.is_floating_point else torch.float32
        return fn(*[t.double() for t in tensors]).to(dtype)
    return of


def case(op, inputs, attrs={}, fn=None):
    fn = in_f64(fn or getattr(A, op))
    # PyTorch's kernels lose digits: those of Bessel functions half of them.
    loss = 1e-6 if "_bessel_j" in op or "_bessel_y" in op else 1e-9
    loss = {torch.float64: loss, torch.float32: max(loss, 2e-6)}.get(inputs[0].dtype)
    f.case(op, inputs, attrs, fn, rtol=loss, atol=loss, layout=False)


for op in OF_ONE:
    unit = op == "special_ndtri"
    for dtype in DTYPES:
        edges = torch.tensor([v for v in EDGES if op != "special_airy_ai" or v == v])
        if dtype.is_floating_point:
            case(op, [edges.to(dtype)])
        x = rand((3, 5), dtype, 1, 0 if unit else -12, 1 if unit else 12)
        for t in [x, transposed(x), gapped(x)]:
            case(op, [t])
    case(op, [rand((2, 0, 3))])
    case(op, [rand((), torch.float64, seed=3)])
for n in [0, 1, 2, 3, 7]:
    for dtype in DTYPES:
        x = rand((3, 5), dtype, 1, 0.1, 12)
        case("polygamma", [x], {"n": n}, lambda x: torch.polygamma(n, x))
        if dtype == torch.float64:
            case("polygamma", [-x], {"n": n}, lambda x: torch.polygamma(n, x))
    edges = torch.tensor([0.0, 1.0, -1.0, 0.5, 0.25, 30.0], dtype=torch.float64)
    case("polygamma", [edges[3:]], {"n": n}, lambda x: torch.polygamma(n, x))
x, y = rand((4, 5), torch.float64, 1, 0, 9), rand((4, 1), torch.float64, 2, 0, 9)
for op in ["special_zeta", "igamma", "igammac"]:
    fn = getattr(A, op)
    case(op, [x, y])
    case(op, [x.float(), y.float()])
    case(op, [transposed(x), gapped(x.flip(0))])
    case(op, [x[:0], y[:0]])
    edges = torch.tensor([0.0, 1.0, 2.0, 2.5, 40.0, 300.0, INF, NAN, -1.0, -0.5],
                         dtype=torch.float64)
    if op == "special_zeta":
        edges = edges[1:6]
    case(op, [edges[:, None], edges[None]])
# A shape or a concentration for each formula, and samples around each.
shapes = torch.tensor([0.01, 0.5, 3.0, 7.0, 9.0, 200.0], dtype=torch.float64)[:, None]
factors = torch.tensor([1e-3, 0.1, 0.5, 0.9, 0.97, 1.0, 1.3, 4.0], dtype=torch.float64)
shapes, samples = torch.broadcast_tensors(shapes, shapes * factors)
shares, first, rest = torch.broadcast_tensors(
    torch.tensor([1e-4, 0.03, 0.3, 0.49, 0.5, 0.51, 0.7, 0.97, 0.9999], dtype=torch.float64),
    torch.tensor([0.2, 3.0, 8.0, 40.0], dtype=torch.float64)[:, None, None],
    torch.tensor([0.3, 5.0, 7.5, 40.0], dtype=torch.float64)[:, None])
for op, tensors in [("_standard_gamma_grad", [shapes, samples]),
                    ("_dirichlet_grad", [shares, first, first + rest])]:
    case(op, [t.contiguous() for t in tensors])
    case(op, [transposed(t.float()) for t in tensors])
    case(op, [t[:0].contiguous() for t in tensors])
for kind in "tuvw":
    for shift in ["", "shifted_"]:
        op = f"special_{shift}chebyshev_polynomial_{kind}"
        x = torch.cat([rand((9,), torch.float64, 1, -2, 2),
                       torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)])
        if shift:
            x = torch.cat([x, (x + 1) / 2])
        # PyTorch's second case of high degrees ends one degree earlier for some kinds.
        for n in [-1.0, 0.0, 1.0, 2.5, 5.0, 9.0, 12.0]:
            case(op, [x, torch.tensor(n, dtype=torch.float64)])
            case(op, [x.float(), torch.tensor(n)])
        case(op, [x[:3, None], torch.arange(4).double()])
for op in ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
           "legendre_polynomial_p"]:
    op = "special_" + op
    x = torch.cat([rand((9,), torch.float64, 1, -2, 2),
                   torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)])
    for n in [-1.0, 0.0, 1.0, 2.5, 5.0, 12.0]:
        case(op, [x, torch.tensor(n, dtype=torch.float64)])
        case(op, [x.float(), torch.tensor(n)])
    case(op, [x[:3, None], torch.arange(4).double()])
f.refuses("polygamma", [rand((3,))], {"n": -1}, lambda x: torch.polygamma(-1, x))
for dtype in [torch.float32, torch.float64, torch.float16, torch.bfloat16]:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.5, 3.0, NAN, 2.0, INF, 6e4, 0.1, 1e-5]).to(dtype)
    f.case("frexp", [x], {}, lambda x: tuple(torch.frexp(x)))
f.case("frexp", [rand((3, 5)).T], {}, lambda x: tuple(torch.frexp(x)))
f.refuses("frexp", [torch.tensor([1, 2])], {}, lambda x: tuple(torch.frexp(x)))
f.save()
