L = torch.linalg
x, s = f([4, 2], [2, 5]), f([2, 1], [1, 3])
e("linalg_cholesky_ex", lambda A: L.cholesky_ex(A), names="l info", A=x)
e("linalg_cholesky_ex", lambda A, upper: L.cholesky_ex(A, upper=upper), names="u _", A=x,
  upper=True)
lu, pivots = L.lu_factor(f([2, 1], [4, 6]))
e("linalg_lu_factor_ex", lambda A: L.lu_factor_ex(A), names="lu pivots info", A=f([2, 1], [4, 6]))
e("linalg_lu_factor_ex", lambda A, pivot: L.lu_factor_ex(A, pivot=pivot), names="lu pivots _",
  A=f([2, 1], [4, 6]), pivot=True)
e("lu_unpack", lambda LU, pivots: torch.lu_unpack(LU, pivots), names="p l u", LU=lu, pivots=pivots)
e("lu_unpack", lambda LU, pivots, **k: torch.lu_unpack(LU, pivots, **k), names="p l _",
  LU=lu, pivots=pivots, unpack_data=False)
e("lu_unpack", lambda LU, pivots, **k: torch.lu_unpack(LU, pivots, **k), names="p l u",
  LU=lu, pivots=pivots, unpack_pivots=False)


def lu_solve(LU, pivots, B, **k):
    return L.lu_solve(LU, pivots, B, **k)


e("linalg_lu_solve", lu_solve, LU=lu, pivots=pivots, B=f([4], [16]))
e("linalg_lu_solve", lu_solve, LU=lu, pivots=pivots, B=f([4], [16]), adjoint=True)
e("linalg_lu_solve", lu_solve, LU=lu, pivots=pivots, B=f([4, 16]), left=False)


def triangular(A, B, upper=False, **k):
    return L.solve_triangular(A, B, upper=upper, **k)


e("linalg_solve_triangular", triangular, A=f([2, 0], [1, 4]), B=f([2], [9]))
e("linalg_solve_triangular", triangular, A=f([2, 1], [0, 4]), B=f([4], [8]), upper=True)
e("linalg_solve_triangular", triangular, A=f([2, 0], [1, 4]), B=f([3, 4]), left=False)
e("linalg_solve_triangular", triangular, A=f([2, 0], [1, 4]), B=f([2], [9]), unitriangular=True)
e("linalg_inv_ex", lambda A: L.inv_ex(A), names="inverse info", A=f([2, 0], [1, 4]))
a = f([3, 1], [4, 2])
e("linalg_qr", lambda A: L.qr(A), names="q r", A=a)
e("linalg_qr", lambda A, mode: L.qr(A, mode), names="_ r", A=a, mode="r")
e("geqrf", lambda A: torch.geqrf(A), names="packed tau", A=a)
packed, tau = f([-5, -2], [0.5, 1]), f(1.6, 0)
e("linalg_householder_product", lambda A, tau: L.householder_product(A, tau), A=packed, tau=tau)


def ormqr(A, tau, other, left=True, transpose=False):
    return torch.ormqr(A, tau, other, left, transpose)


e("ormqr", ormqr, A=packed, tau=tau, other=f([1], [2]))
e("ormqr", ormqr, A=packed, tau=tau, other=f([1, 2]), left=False)
e("ormqr", ormqr, A=packed, tau=tau, other=f([1], [2]), transpose=True)
v = f([3, 0], [4, 5])
e("_linalg_svd", lambda A: L.svd(A, full_matrices=False), names="_ s _", A=v)
e("_linalg_svd", lambda A, compute_uv: (A[:0, 0], L.svdvals(A), A[:0, 0]), names="u s _", A=v,
  compute_uv=False)
e("_linalg_eigh", lambda A: L.eigh(A), names="values _", A=s)
e("_linalg_eigh", lambda A, UPLO: L.eigh(A, UPLO), names="values _", A=f([2, 1], [7, 3]), UPLO="U")
e("_linalg_eigh", lambda A, compute_v: (L.eigvalsh(A), A[:0, 0]), names="values vectors", A=s,
  compute_v=False)
e("linalg_eig", lambda A: L.eig(A), names="values _", A=f([1, -2], [1, 2]))
e("linalg_eig", lambda A, compute_v: (L.eigvals(A), A[:0, 0]), names="values vectors",
  A=f([1, -2], [1, 2]), compute_v=False)
e("linalg_matrix_exp", lambda A: L.matrix_exp(A), A=f([0, 1], [-1, 0]))
e("linalg_ldl_factor_ex", lambda A: L.ldl_factor_ex(A), names="ld pivots info", A=f([4, 2], [2, 3]))
e("linalg_ldl_factor_ex", lambda A, hermitian: L.ldl_factor_ex(A, hermitian=hermitian),
  names="ld pivots _", A=f([4, 2], [2, 3]), hermitian=True)
ld, pivots = L.ldl_factor(f([4, 2], [2, 3]))
e("linalg_ldl_solve", lambda LD, pivots, B: L.ldl_solve(LD, pivots, B), LD=ld, pivots=pivots,
  B=f([8], [8]))
e("linalg_ldl_solve", lambda LD, pivots, B, hermitian: L.ldl_solve(LD, pivots, B, hermitian=True),
  LD=ld, pivots=pivots, B=f([8], [8]), hermitian=True)


def lstsq(A, B, **k):
    return L.lstsq(A, B, **k)


a, y = f([1, 0], [1, 1], [1, 2]), f([1], [2], [6])
e("linalg_lstsq", lstsq, names="x _ rank _", exact=False, A=a, B=y)
e("linalg_lstsq", lstsq, names="x _ _ s", exact=False, A=a, B=y, driver="gelsd")
e("linalg_lstsq", lstsq, names="_ _ rank _", A=f([2, 0], [0, 0.125]), B=f([4], [1]), rcond=0.5)
