"""Ops that several others compute: clamps by tensors, scatters with a reduction, copies of views and
writes through them, forms in place of ops that return a new tensor, and the same over lists."""

import torch

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def prepare():
    g = torch.Generator().manual_seed(47)
    x, y = torch.randn(3, 4, generator=g), torch.randn(3, 4, generator=g)
    batch = torch.randn(2, 3, 4, generator=g)
    column, row = torch.randn(3, 1, generator=g), torch.randn(4, generator=g)
    index = torch.randint(0, 3, (5, 4), generator=g)
    values = torch.randn(5, 4, generator=g)
    half = torch.randn(3, 4, generator=g).bfloat16() * 100
    nan = torch.where(y > 0.5, torch.nan, y)

    def run():
        lists = [x * 1, y * 1]
        torch._foreach_clamp_min_(lists, [y, x])
        torch._foreach_maximum_(lists, -0.25)
        results = {
            "clamp": x.clamp(column, row),
            "clamp_min": (x * 1).clamp_min_(row),
            "clamp_max": torch.clamp_max(x, column),
            "foreach_min": torch._foreach_clamp_max(lists, [0.5, 1.5])[1],
            "foreach": lists[0],
            "round": torch.round(half, decimals=1),
            "round_": (x * 1e4).round_(decimals=-2),
            "scatter_add": x.scatter(0, index[:2], values, reduce="add"),
            "scatter_mul": (x * 1).scatter_(0, index, 1.5, reduce="multiply"),
            "norm": torch.norm(x, p=3, dim=1, keepdim=True),
            "nansum": nan.nansum(1),
            "fmax": torch.fmax(x, nan),
            "xor": torch.logical_xor(x > 0, y > 0),
            "trace": x.trace(),
            "diag_embed": torch.diag_embed(x, offset=1, dim1=0, dim2=2),
            "index_copy": x.index_copy(1, torch.tensor([2, 0]), y[:, :2]),
            "index_fill": x.index_fill(1, torch.tensor([3, 1]), -7),
            "take": x.take(index),
            "addmv": torch.addmv(column[:, 0], x, row, beta=0.5, alpha=2),
            "addbmm": torch.addbmm(x @ x.t(), batch, batch.mT, alpha=0.5),
            "cross": torch.linalg.cross(x, y, dim=0),
            "safe_softmax": torch.ops.aten._safe_softmax(
                torch.where(column > 0, x, -torch.inf), -1),
            "cumsum_": (x * 1).cumsum_(1),
            "eq_": (x * 1).eq_(x),
            "baddbmm_": (batch @ batch.mT).baddbmm_(batch, batch.mT),
            "sgn": x.sgn(),
            "diagonal_copy": torch.diagonal_copy(x),
            "select_scatter": x.t().select_scatter(column[:, 0], 0, 2),
            "slice_scatter": x.slice_scatter(y[:, ::2], 1, 0, None, 2),
        }
        results["var"], results["mean"] = torch.var_mean(x, 1)
        results["amin"], results["amax"] = torch.aminmax(x, dim=0)
        for reduce in REDUCTIONS:
            for own in (True, False):
                results[f"{reduce}.{own}"] = x.scatter_reduce(0, index, values, reduce,
                                                              include_self=own)
            if reduce != "sum":
                results[f"index.{reduce}"] = x.index_reduce(0, index[:, 0], values, reduce)
        return results

    inputs = {"x": x, "y": y, "batch": batch, "column": column, "row": row, "index": index,
              "values": values, "half": half, "nan": nan}
    return run, inputs
