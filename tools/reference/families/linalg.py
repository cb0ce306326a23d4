"""Linear algebra. Matrices are well-conditioned, as the kernels compute f32 in f64."""

import torch
from cases import Family, rand, transposed

f = Family("linalg")
L = torch.linalg
DTYPES = [torch.float64, torch.float32]


def well(shape, dtype, seed=0):
    x = rand(shape, torch.float64, seed)
    n = min(shape[-2:])
    x[..., :n, :n] += 3 * torch.eye(n, dtype=torch.float64)
    return x.to(dtype)


def definite(shape, dtype, seed=0):
    x = rand(shape, torch.float64, seed)
    return (x @ x.mT + torch.eye(shape[-1], dtype=torch.float64)).to(dtype)


def case(op, inputs, attrs, fn):
    def exact(*tensors):
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        made = fn(*wide)
        made = (made,) if isinstance(made, torch.Tensor) else tuple(made)
        return tuple(t.to(inputs[0].dtype) if t.is_floating_point() else t for t in made)
    loose = 1e-10 if inputs[0].dtype == torch.float64 else 1e-5
    f.case(op, inputs, attrs, exact, rtol=loose, atol=loose, layout=False)


SQUARE = [(4, 4), (2, 3, 3), (1, 1), (0, 0), (2, 0, 3, 3)]
RECTANGLES = SQUARE + [(3, 5), (5, 3), (2, 4, 2), (0, 3), (3, 0)]
for dtype in DTYPES:
    for shape in SQUARE:
        a, b = well(shape, dtype, 1), definite(shape, dtype, 2)
        n = shape[-1]
        for t in [a, transposed(a)]:
            case("linalg_inv_ex", [t], {}, lambda x: L.inv_ex(x))
            case("linalg_matrix_exp", [t], {}, L.matrix_exp)
        for upper in [False, True]:
            case("linalg_cholesky_ex", [b], {"upper": upper},
                 lambda x: L.cholesky_ex(x, upper=upper))
        case("linalg_ldl_factor_ex", [b], {}, lambda x: L.ldl_factor_ex(x))
        s = (a + a.mT) - 4 * torch.eye(n, dtype=dtype)
        case("linalg_ldl_factor_ex", [s], {}, lambda x: L.ldl_factor_ex(x))
        ld, pivots = L.ldl_factor(s.double())
        case("linalg_ldl_solve", [ld.to(dtype), pivots, a], {}, L.ldl_solve)
        lu, pivots = L.lu_factor(a.double())
        lu = lu.to(dtype)
        for left in [True, False]:
            for adjoint in [True, False]:
                case("linalg_lu_solve", [lu, pivots, b], {"left": left, "adjoint": adjoint},
                     lambda x, p, b: L.lu_solve(x, p, b, left=left, adjoint=adjoint))
            for upper in [True, False]:
                for unit in [True, False]:
                    attrs = {"upper": upper, "left": left, "unitriangular": unit}
                    case("linalg_solve_triangular", [a, b], attrs,
                         lambda a, b: L.solve_triangular(a, b, **attrs))
        for side in ["L", "U"]:
            case("_linalg_eigh", [s], {"UPLO": side, "compute_v": False},
                 lambda x: (L.eigvalsh(x, UPLO=side), torch.empty(0, dtype=x.dtype)))
    for shape in RECTANGLES:
        a = well(shape, dtype, 3)
        n = min(shape[-2:])
        case("linalg_lu_factor_ex", [a], {}, lambda x: L.lu_factor_ex(x))
        lu, pivots = L.lu_factor(a)
        for data in [True, False]:
            case("lu_unpack", [lu, pivots], {"unpack_data": data, "unpack_pivots": not data},
                 lambda x, p: torch.lu_unpack(x, p, unpack_data=data, unpack_pivots=not data))
        case("lu_unpack", [lu, pivots], {}, torch.lu_unpack)
        for mode in ["reduced", "complete", "r"]:
            case("linalg_qr", [a], {"mode": mode}, lambda x: L.qr(x, mode))
        case("geqrf", [a], {}, torch.geqrf)
        case("_linalg_svd", [a], {"compute_uv": False},
             lambda x: (torch.empty(0, dtype=x.dtype), L.svdvals(x),
                        torch.empty(0, dtype=x.dtype)))
        if shape[-2] >= shape[-1]:
            packed, tau = (t.to(dtype) for t in torch.geqrf(a.double()))
            case("linalg_householder_product", [packed, tau], {}, L.householder_product)
            for transpose in [True, False]:
                for left in [True, False]:
                    other = rand((*shape[:-2], shape[-2], 2), dtype, 4)
                    other = other if left else other.mT.contiguous()
                    case("ormqr", [packed, tau, other], {"left": left, "transpose": transpose},
                         lambda x, t, o: torch.ormqr(x, t, o, left, transpose))
    # Batches broadcast.
    a, b = well((2, 1, 3, 3), dtype, 5), rand((4, 3, 2), dtype, 6)
    case("linalg_solve_triangular", [a, b], {"upper": True},
         lambda a, b: L.solve_triangular(a, b, upper=True))
    lu, pivots = L.lu_factor(a.double())
    case("linalg_lu_solve", [lu.to(dtype), pivots, b], {}, L.lu_solve)
    for driver in [None, "gels", "gelsd", "gelss", "gelsy"]:
        attrs = {"driver": driver}
        for shape in [(4, 4), (5, 3), (2, 5, 3), (3, 5)]:
            a = well(shape, dtype, 7)
            b = rand((*shape[:-1], 2), dtype, 8)
            case("linalg_lstsq", [a, b], attrs, lambda a, b: L.lstsq(a, b, **attrs))
# Failures of a factorization are reported by numbers.
x = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
case("linalg_inv_ex", [torch.tensor([[2.0, 1.0], [1.0, 3.0]])], {"check_errors": True},
     lambda x: L.inv_ex(x))
# Vectors, whose signs are open, are those of diagonal matrices up to it: only values are compared.
one = torch.tensor([[2.0]], dtype=torch.float64)
f.refuses("linalg_cholesky_ex", [rand((2, 3))], {}, L.cholesky_ex)
f.refuses("linalg_inv_ex", [torch.ones(2, 2, dtype=torch.int64)], {}, L.inv_ex)
f.refuses("linalg_solve_triangular", [rand((2, 2)), rand((3, 1))], {},
          lambda a, b: L.solve_triangular(a, b, upper=False))
f.save()
