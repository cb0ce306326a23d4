"""Complex numbers: their parts, views, the ops that are defined for them, Fourier transforms, linear
algebra."""

import torch
from cases import D, Family, gapped, ints, layouts, rand

f = Family("complex")
A = torch.ops.aten
COMPLEX = [torch.complex64, torch.complex128]
UNARY = [
    "neg", "abs", "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "sigmoid", "silu", "sinc", "isnan", "isinf", "logical_not", "conj_physical",
]


def complex_(shape, dtype=torch.complex64, seed=0, low=-2.0, high=2.0):
    """Returns random complex numbers with parts in [low, high)."""
    part = torch.float32 if dtype == torch.complex64 else torch.float64
    return torch.complex(rand(shape, part, seed, low, high), rand(shape, part, seed + 50, low, high))


def near(dtype):
    """Returns the tolerances of functions that PyTorch computes with some loss."""
    return {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.complex64 else \
        {"rtol": 1e-12, "atol": 1e-12}


INF, NAN = float("inf"), float("nan")
# Infinities, NaN, zeros of both signs, and numbers whose squares overflow.
LIMITS = [INF, -INF, NAN, 0.0, -0.0, 1.0, -0.5]


def limits(dtype, huge=True):
    """Returns the complex numbers whose parts are limits of a dtype."""
    large = [1e300, -1e300] if dtype == torch.complex128 else [1e38, -1e38]
    parts = LIMITS + (large if huge else [])
    return torch.tensor([complex(a, b) for a in parts for b in parts], dtype=dtype)


EDGES = torch.tensor([0, 1, -1, 1j, -1j, 1e-3 + 1e-3j, -30 + 1j, 30 - 2j, 0.5, 5j - 3])
for dtype in COMPLEX:
    x, y = complex_((3, 4), dtype, 1), complex_((3, 4), dtype, 2)
    part = x.real.dtype
    re, im = rand((2, 3), part, 3), rand((3,), part, 4)
    f.case("complex", [re, im], {}, A.complex)
    f.case("complex", [gapped(re), im[:1]], {}, A.complex)
    f.case("polar", [re.abs(), im], {}, A.polar, **near(dtype))
    for z in layouts(x) + [x[:0], x[0, 0]]:
        f.case("view_as_real", [z], {}, A.view_as_real)
    pairs = rand((4, 3, 2), part, 5)
    for pair in [pairs, pairs[1:], pairs.transpose(0, 1), pairs[:0], pairs[0, 0]]:
        f.case("view_as_complex", [pair], {}, A.view_as_complex)
    f.refuses("view_as_complex", [pairs[..., :1]], {}, A.view_as_complex)
    f.refuses("view_as_complex", [rand((4, 5), part)[:, 1:3]], {}, A.view_as_complex)
    for op in UNARY:
        fn = getattr(torch, op, None) or getattr(A, op)
        for z in layouts(x):
            f.case(op, [z], {}, fn, **near(dtype))
        if op not in ("rsqrt", "reciprocal", "log", "log2", "log10", "log1p", "atanh", "sinc"):
            f.case(op, [EDGES.to(dtype)], {}, fn, rtol=2e-5, atol=2e-5)
        # PyTorch rounds the factors of these to f32, in which the angle of a huge number is lost.
        z = limits(dtype, huge=op not in ("exp2", "sinc"))
        if op == "log1p":
            # PyTorch returns NaN for the absolute value of an infinite number with a part NaN.
            z = z[~(z.isinf() & z.isnan())]
        f.case(op, [z], {}, fn, **near(dtype))
    f.case("sign", [limits(dtype)], {}, torch.sgn, **near(dtype))
    few = limits(dtype, huge=False)[::3]
    for op in ["mul", "div", "pow"]:
        pairs = [t.reshape(-1) for t in torch.broadcast_tensors(few[:, None], few)]
        f.case(op, pairs, {}, getattr(torch, op), **near(dtype))
    for n in [0, 2, 0.5, -0.5, -1, 1.7]:
        # Differences of huge squares depend on the order of rounding.
        z = limits(dtype, huge=n != 2)
        f.case("pow", [z], {"exponent": n}, lambda x: x ** n, **near(dtype))
    f.case("sign", [x], {}, torch.sgn, **near(dtype))
    f.case("sign", [EDGES.to(dtype)], {}, torch.sgn, **near(dtype))
    for op in ["add", "sub", "mul", "div", "pow", "eq", "ne", "logical_and", "logical_or"]:
        fn = getattr(torch, op)
        other = re.new_tensor(2.5)
        for a, b in [(x, y), (gapped(x), y.mT.contiguous().mT), (x, y[0]), (x, x.clone()),
                     (x, y.real), (y.imag, x), (x, y[0, 0]), (x[:0], y[0])] \
                + ([] if op == "sub" else [(x.real > 0, y)]):
            f.case(op, [a, b], {}, fn, **near(dtype))
        f.case(op, [x, other], {}, fn, **near(dtype))
    for number in [2, 2.5, True]:
        f.case("mul", [x], {"other": number}, lambda x: x * number)
        f.case("add", [x], {"other": number, "alpha": 0.5}, lambda x: x + 0.5 * number, **near(dtype))
        f.case("eq", [x.real.round() + 0j], {"other": number}, lambda x: x == number)
    for n in [0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7]:
        f.case("pow", [x], {"exponent": n}, lambda x: x ** n, **near(dtype))
    f.case("add", [x, y], {"alpha": -1.5}, lambda x, y: torch.add(x, y, alpha=-1.5), **near(dtype))
    f.case("tanh_backward", [x, y], {}, A.tanh_backward, **near(dtype))
    f.case("sigmoid_backward", [x, y], {}, A.sigmoid_backward, **near(dtype))
    f.case("where", [x.real > 0, x, y], {}, torch.where)
    f.case("where", [x.real > 0, x, y.imag], {}, torch.where)
    f.case("masked_fill", [x, x.real > 0], {"value": 2.5}, lambda x, m: x.masked_fill(m, 2.5))
    f.case("masked_fill", [x, x.real > 0, y[0, 0]], {}, lambda x, m, v: x.masked_fill(m, v))
    f.case("lerp", [x, y, x.flip(0)], {}, torch.lerp, **near(dtype))
    f.case("addcmul", [x, y, y[0]], {"value": 0.5}, lambda x, a, b: torch.addcmul(x, a, b, value=0.5),
           **near(dtype))
    f.case("addcdiv", [x, y, y[0]], {"value": 0.5}, lambda x, a, b: torch.addcdiv(x, a, b, value=0.5),
           **near(dtype))
    for op in ["mul_", "add_", "div_"]:
        f.case(op, [x.clone(), y[0]], {}, getattr(A, op), **near(dtype))
    f.case("copy_", [x.clone(), y.real], {}, A.copy_)
    f.case("fill", [x.clone()], {"value": 2.5}, lambda x: x.fill_(2.5))
    f.case("full", [], {"shape": [2, 3], "value": 1.5, "dtype": D(dtype)},
           lambda: torch.full((2, 3), 1.5, dtype=dtype))
    for to in [torch.float32, torch.int64, torch.bool, torch.bfloat16, *COMPLEX]:
        f.case("cast", [x], {"dtype": D(to)}, lambda x: x.to(to, copy=True))
        f.case("cast", [rand((5,), to if not to.is_complex else torch.float64, 9)], {"dtype": D(dtype)},
               lambda x: x.to(dtype))
    long = complex_((3, 700), dtype, 7)
    for op in ["sum", "mean", "var", "std", "any", "all", "count_nonzero"]:
        fn = getattr(torch, op)
        f.case(op, [x], {}, fn, **near(dtype))
        f.case(op, [long], {"dim": [1]}, lambda x: fn(x, dim=1), rtol=1e-5, atol=1e-4)
    z = limits(dtype, huge=False)
    for args in [{}, {"nan": 1.5}, {"posinf": 7.0, "neginf": -9.0}]:
        f.case("nan_to_num", [z], args, lambda x: torch.nan_to_num(x, **args))
    f.case("nan_to_num", [gapped(x)], {}, torch.nan_to_num)
    # Without infinities whose angle is open.
    finite = z[(z.real != -INF) & z.imag.isfinite()]
    for t, dim in [(x, 0), (x, 1), (gapped(x), 1), (long * 20, 1), (finite.reshape(-1, 1), 1),
                   (x[:0], 0), (x[0, 0], 0)]:
        f.case("logcumsumexp", [t], {"dim": dim}, lambda x: x.logcumsumexp(dim), **near(dtype),
               layout=False)
        for keep in [True, False]:
            f.case("logsumexp", [t], {"dim": [dim], "keepdim": keep},
                   lambda x: x.logsumexp(dim, keep), rtol=1e-4, atol=1e-4)
    f.case("logsumexp", [complex_((1,), dtype, 8).expand(40000)], {"dim": [0]},
           lambda x: x.logsumexp(0), rtol=1e-5, atol=1e-5)
    f.case("sum", [complex_((1,), dtype, 8).expand(40000)], {}, torch.sum, rtol=1e-4, atol=1e-2)
    f.case("prod", [x], {"dim": [0]}, lambda x: x.prod(0), **near(dtype))
    for ord in [2.0, 1.0, 0.0, INF, -INF, 3.0]:
        f.case("linalg_vector_norm", [x], {"ord": ord, "dim": [1]},
               lambda x: torch.linalg.vector_norm(x, ord, 1), **near(dtype))
    for op in ["cumsum", "cumprod"]:
        f.case(op, [x], {"dim": 1}, lambda x: getattr(torch, op)(x, 1), **near(dtype))
    for a, b in [(x, y.T), (x.T, y), (x[0], y[0]), (x, y[0]), (gapped(x), y.T.contiguous()),
                 (complex_((2, 3, 4), dtype), complex_((4, 5), dtype, 6)), (x[:, :0], y.T[:0])]:
        f.case("matmul", [a, b], {}, torch.matmul, **near(dtype), layout=False)
    f.case("addmm", [x[:, :3], x, y.T], {"beta": 0.5, "alpha": -2},
           lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), **near(dtype))
    index = ints((3, 2), 0, 4, seed=10)
    f.case("gather", [x, index], {"dim": 1}, lambda x, i: x.gather(1, i))
    f.case("scatter_add", [x, index, y[:, :2].contiguous()], {"dim": 1},
           lambda x, i, s: x.scatter_add(1, i, s), **near(dtype))
    f.case("index_select", [x, index[0]], {"dim": 1}, lambda x, i: x.index_select(1, i))
    f.case("index_add", [x, index[0], y[:, :2].contiguous()], {"dim": 1},
           lambda x, i, s: x.index_add(1, i, s), **near(dtype))
    f.case("cat", [x, y[:1]], {"dim": 0}, lambda a, b: torch.cat([a, b]))
    f.case("flip", [x], {"dims": [0, 1]}, lambda x: x.flip(0, 1))
    f.case("roll", [x], {"shifts": [3]}, lambda x: x.roll(3))
    f.case("triu", [x], {"diagonal": 1}, lambda x: x.triu(1))
    f.case("repeat", [x], {"repeats": [2, 2]}, lambda x: x.repeat(2, 2))
    f.case("constant_pad_nd", [x], {"pad": [1, 2], "value": 1.5},
           lambda x: torch.nn.functional.pad(x, (1, 2), value=1.5))
    for shape in [(8,), (7,), (3, 6), (5, 4, 3), (1,), (2, 1)]:
        z = complex_(shape, dtype, 11)
        r = rand(shape, part, 12)
        near_fft = {"rtol": 1e-5, "atol": 1e-4} if part == torch.float32 else \
            {"rtol": 1e-11, "atol": 1e-12}
        for dims in [[len(shape) - 1], list(range(len(shape)))]:
            for norm in [0, 1, 2]:
                for forward in [True, False]:
                    f.case("_fft_c2c", [z], {"dim": dims, "normalization": norm, "forward": forward},
                           lambda z: A._fft_c2c(z, dims, norm, forward), **near_fft, layout=False)
                for onesided in [True, False]:
                    f.case("_fft_r2c", [r], {"dim": dims, "normalization": norm, "onesided": onesided},
                           lambda r: A._fft_r2c(r, dims, norm, onesided), **near_fft, layout=False)
            for length in {2 * shape[-1] - 1, 2 * shape[-1] - 2} - {0}:
                f.case("_fft_c2r", [z], {"dim": dims, "last_dim_size": length},
                       lambda z: A._fft_c2r(z, dims, 0, length), **near_fft, layout=False)
    f.case("_fft_c2c", [x[0, 0]], {"dim": [], "normalization": 1, "forward": True},
           lambda z: A._fft_c2c(z, [], 1, True))
    f.refuses("_fft_c2c", [x], {"dim": [0, 0], "forward": True}, lambda x: torch.fft.fftn(x, dim=(0, 0)))
    a = complex_((2, 4, 4), dtype, 13) + 4 * torch.eye(4)
    b = complex_((2, 4, 3), dtype, 14)
    h = a @ a.mH
    loose = {"rtol": 1e-4, "atol": 1e-4} if part == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    loose["layout"] = False
    f.case("linalg_cholesky_ex", [h], {}, lambda a: A.linalg_cholesky_ex(a), **loose)
    f.case("linalg_inv_ex", [a], {}, lambda a: A.linalg_inv_ex(a), **loose)
    f.case("linalg_lu_factor_ex", [a], {}, lambda a: A.linalg_lu_factor_ex(a), **loose)
    f.case("linalg_solve_triangular", [a, b], {"upper": True},
           lambda a, b: A.linalg_solve_triangular(a, b, upper=True), **loose)
    f.case("linalg_matrix_exp", [a / 8], {}, A.linalg_matrix_exp, **loose)
    f.case("linalg_qr", [a], {}, lambda a: A.linalg_qr(a), **loose)
    f.case("linalg_eig", [torch.diag(torch.arange(1, 4).to(dtype)) * (1 + 1j)], {"compute_v": False},
           lambda a: [torch.linalg.eigvals(a)], **loose)
    f.case("linalg_eig", [torch.diag(torch.arange(1, 4).to(part))], {},
           lambda a: torch.linalg.eig(a), **loose)
for op in ["abs_", "maximum", "sort", "lt"]:
    x = complex_((3,))
    fn = {"abs_": lambda x: x.abs_(), "maximum": lambda x, y: torch.maximum(x, y),
          "sort": lambda x: x.sort(), "lt": lambda x, y: x < y}[op]
    f.refuses(op, [x, x] if op in ("maximum", "lt") else [x], {}, fn)

f.save()
