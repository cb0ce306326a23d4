"""Calls at the edges of what ops accept: complex factors and fills, empty batches, means of
integers, powers of lists, distances of a single row, complex functions of limits, views beside a
tensor's elements."""

import torch
from torch.nn import functional

A = torch.ops.aten
INF, NAN = float("inf"), float("nan")


def complex_(*shape):
    return torch.complex(torch.randn(shape), torch.randn(shape))


def prepare():
    torch.manual_seed(61)
    parts = [INF, -INF, NAN, 0.0, 1.0]
    inputs = {
        "z": complex_(3, 4), "w": complex_(3, 4), "a": complex_(2, 3, 2), "b": complex_(2, 2, 4),
        "u": complex_(3), "v": complex_(4),
        "limits": torch.tensor([complex(a, b) for a in parts for b in parts]),
        "x": torch.randn(3, 4), "whole": torch.randint(-9, 9, (2, 5, 4, 6)),
        "images": torch.randn(0, 2, 5, 5), "none": torch.randn(0, 3),
        "g6": torch.randn(3), "g0": torch.randn(0),
        "wide": torch.randn(4, 6), "half": torch.tensor(1.5, dtype=torch.bfloat16),
    }
    z, w, a, b, u, v, limits, x, whole, images, none, g6, g0, wide, half = inputs.values()
    inputs["large"] = large = torch.tensor([INF, -INF, 1e300, 2.0], dtype=torch.float64)
    mask = torch.tensor([[True, False, True, True]])
    inputs["mask"] = mask
    index = torch.tensor([[2], [0]])
    inputs["index"] = index

    def gradient_of_distances(rows, grad):
        of = rows.detach().requires_grad_()
        return torch.autograd.grad(functional.pdist(of), of, grad)[0]

    def run():
        changed = z.clone()
        changed.addr_(u, v, beta=0.5 - 1j, alpha=2j)
        powers = [x.clone(), x[:1].clone()]
        torch._foreach_pow_(powers, 2)
        made = {
            "log_of_sum": torch.logaddexp(z, w), "limits": torch.logaddexp(limits[:, None], limits),
            "outer": torch.addr(z, u, v, beta=1j, alpha=0.5 + 2j), "changed": changed,
            "batches": torch.addbmm(z, a, b, beta=2 - 1j, alpha=1j),
            "batches_half": torch.addbmm(z, a, b, alpha=1j),
            "vector": torch.addmv(u, z, v, beta=1j, alpha=2.0),
            "padded": torch.constant_pad_nd(z, (1, 2, 0, 1), 1 - 2j),
            "cut": torch.constant_pad_nd(z, (-1, 1), 3j),
            "picked": A._unsafe_masked_index(z, mask, [index, None], 1 - 1j),
            "size": torch.copysign(x, -0.0), "of_whole": torch.copysign(whole, -1),
            "sums": z.logsumexp(1), "scan": z.logcumsumexp(0), "finite": limits.nan_to_num(nan=2.5),
            "means": functional.avg_pool3d(whole, 3, 2, 1, count_include_pad=False),
            "means_ceil": functional.avg_pool3d(whole, 2, ceil_mode=True),
            "left_empty": functional.adaptive_max_pool2d(images, (2, 3)),
            "distances": gradient_of_distances(x, g6),
            "single": gradient_of_distances(x[:1], g0),
            "sinh": limits.sinh(), "sin": limits.sin(), "log1p": limits.log1p(),
            "between": torch.as_strided_scatter(wide[1:, ::2], u.real, (3,), (6,), 3),
            "power": torch.pow(2.0, half), "trigamma": torch.polygamma(1, large),
            "zeta": torch.special.zeta(large * NAN, torch.tensor([-0.0, -2.0, 2.0, NAN]).double()),
        }
        lists = {
            "squares": torch._foreach_pow([x, whole[0]], 2), "in_place": powers,
            "each": torch._foreach_pow([x, x[0]], [2, 3]),
            "of_number": torch._foreach_pow(2.0, [x, x[0]]),
            "indices": functional.adaptive_max_pool2d(images, (2, 3), return_indices=True),
        }
        assert not A.unbind_copy(none)
        rows = [torch.zeros(4) for _ in range(3)]
        torch.unbind_copy(x, out=rows)
        lists["rows"] = rows
        made.update({f"{name}{k}": t for name, list_ in lists.items() for k, t in enumerate(list_)})
        return made

    return run, inputs
