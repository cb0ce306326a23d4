"""Complex numbers: rotary embeddings in complex form with gradients, conjugate views that are read,
written and taken apart, products, functions, reductions, numbers that are complex, data movement."""

import torch


def rotated(x, turns):
    """Returns vectors turned by the angles of complex numbers, as a decoder does."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(3).type_as(x)


def prepare():
    g = torch.Generator().manual_seed(53)
    q = torch.randn(1, 5, 2, 8, generator=g).requires_grad_()
    z = torch.randn(3, 4, dtype=torch.complex64, generator=g).requires_grad_()
    w = torch.randn(4, 3, dtype=torch.complex128, generator=g)
    index = torch.tensor([2, 0])

    def run():
        out = {}
        angles = torch.outer(torch.arange(5.0), 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8))
        turns = torch.polar(torch.ones_like(angles), angles)
        out["rotated"] = rotated(q, turns[None, :, None])
        conjugate = z.conj()
        out["conjugate"] = conjugate.resolve_conj()
        out["parts"], out["imag"] = torch.view_as_real(z * 2), conjugate.imag
        out["gram"] = z @ z.mH
        out["mixed"] = conjugate * w.T + (2 - 1j) * z
        out["divided"] = z / (w.T.to(torch.complex64) + 2)
        for name in ("exp", "log", "sqrt", "sin", "tanh", "abs", "angle", "sgn", "reciprocal"):
            out[name] = getattr(torch, name)(z)
        out["power"] = z ** 3 + z ** 0.5
        out["mean"], out["prod"] = z.mean(0), z.prod(1)
        out["norm"], out["var"] = torch.linalg.vector_norm(z, dim=1), z.var(0)
        out["inner"] = torch.vdot(z[0], z[1])
        loss = sum((v.abs() ** 2).sum() for v in out.values())
        loss.backward()
        out["loss"], out["grad.q"], out["grad.z"] = loss, q.grad, z.grad
        with torch.no_grad():
            kept = torch.full((2, 3), 1 - 2j)
            kept[0] = w[0].conj()
            written = w.clone().conj()
            written.mul_(1j).add_(1)
            out["kept"], out["written"] = kept, written.resolve_conj()
            out["equal"] = (w == w.clone()) & (w != 0)
            out["moved"] = torch.cat([w.index_select(0, index), w.flip(0)], 0).tril()
            out["total"] = w.real.sum() + w.cumsum(0)[-1].sum().imag
            out["added"] = torch.add(w.T, z, alpha=0.5 - 1j)
            out["added"].sub_(z, alpha=2j)
            out["products"] = torch.addcmul(w, w, w.conj(), value=1j)
            out["products"].addcdiv_(w, w + 2, value=3 - 1j)
            out["biased"] = torch.addmm(z[:, :3], z, z.mT, beta=1j, alpha=2 - 0.5j)
            out["scaled"] = torch.addmv(z[:, 0], z, z[0], beta=0.2, alpha=0.6)
            out["rows"] = torch.addmm(z[:, :3], z, z.mT, beta=0.2, alpha=0.6)
            out["into"] = torch.conj_physical(w, out=torch.empty(0, dtype=w.dtype))
            spectrum = torch.fft.hfft(z[0], out=torch.zeros(6))
            out["spectrum"] = spectrum
            out["masked"] = w.masked_fill(w.real > 0, 3j)
        return out

    return run, {"q": q, "z": z, "w": w, "index": index}
