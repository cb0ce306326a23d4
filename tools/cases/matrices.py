"""Linear algebra with gradients: determinants, solutions, inverses, factors, singular values and
eigenvalues, least squares, exponentials."""

import torch
from torch import linalg


def prepare():
    g = torch.Generator().manual_seed(47)
    a = (torch.randn(2, 4, 4, generator=g) + 3 * torch.eye(4)).requires_grad_()
    b = torch.randn(2, 4, 3, generator=g).requires_grad_()
    tall = torch.randn(5, 3, generator=g).requires_grad_()

    def run():
        out = {}
        s = a @ a.mT + torch.eye(4)
        u, values, vh = linalg.svd(tall, full_matrices=False)
        q, r = linalg.qr(tall)
        eigenvalues, vectors = linalg.eigh(s)
        out["det"], out["logdet"] = linalg.det(a), linalg.slogdet(a)[1]
        out["solve"], out["inv"] = linalg.solve(a, b), linalg.inv(a)
        out["cholesky"] = linalg.cholesky(s)
        out["by_cholesky"] = torch.cholesky_solve(b, linalg.cholesky(s))
        out["triangle"] = linalg.solve_triangular(a, b, upper=True)
        out["svd"], out["singular"] = u @ vh, values
        out["qr"] = q @ q.mT
        out["r"] = r.abs()
        out["eigen"] = vectors @ eigenvalues.sqrt().diag_embed() @ vectors.mT
        out["pinv"], out["exp"] = linalg.pinv(tall), linalg.matrix_exp(a / 4)
        out["lstsq"] = linalg.lstsq(a, b).solution
        out["power"], out["norm"] = linalg.matrix_power(a, -2), linalg.matrix_norm(a, 2)
        sum(v.sum() for v in out.values()).backward()
        for name, leaf in [("a", a), ("b", b), ("tall", tall)]:
            out[f"grad.{name}"] = leaf.grad
        return out

    return run, {"a": a, "b": b, "tall": tall}
