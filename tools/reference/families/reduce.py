"""Reductions."""

import torch
from cases import ALL, FLOATS, D, Family, ints, layouts, rand

f = Family("reduce")
A = torch.ops.aten
NAN, INF = float("nan"), float("inf")


def values(shape, dtype, seed):
    v = ints(shape, -2, 3, torch.int64, seed)
    if dtype.is_floating_point:
        return rand(shape, dtype, seed)
    return (v.abs() if dtype == torch.uint8 else v).to(dtype)


def call(op, x, dim=None, keepdim=None, atol=None, **attrs):
    kw = {k: v.torch if isinstance(v, Dtype) else v for k, v in attrs.items()}
    if keepdim is not None:
        kw["keepdim"] = keepdim
    if op == "logsumexp":
        fn = lambda t: A.logsumexp(t, list(range(t.dim())) if dim is None else dim, **kw)
    elif op == "prod" and isinstance(dim, list):
        return
    elif op == "linalg_vector_norm":
        ord = kw.pop("ord", 2)
        fn = lambda t: A.linalg_vector_norm(t, ord, dim, **kw)
    elif dim is None and keepdim is None:
        if op in ("std", "var"):
            kw.setdefault("correction", None)
        fn = lambda t: getattr(A, op)(t, **kw)
    else:
        if op in ("std", "var"):
            kw.setdefault("correction", None)
            fn = lambda t: getattr(A, op)(t, dim, **kw)
        else:
            fn = lambda t: getattr(A, op)(t, dim, **kw)
    f.case(op, [x], {"dim": dim, "keepdim": keepdim, **attrs}, fn, atol=atol)


class Dtype(D):
    def __init__(self, dtype):
        super().__init__(dtype)
        self.torch = dtype


for dtype in ALL:
    call("hash_tensor", values((3, 4, 5), dtype, 1))
    call("hash_tensor", values((3, 4, 5), dtype, 1), 1, True)
call("hash_tensor", values((0, 3), torch.float32, 1), 0)

FLOAT_ONLY = ["mean", "std", "var", "linalg_vector_norm"]
for op in ["sum", "prod", "mean", "any", "all", "count_nonzero", "std", "var", "linalg_vector_norm",
           "logsumexp"]:
    keeps = op != "count_nonzero"
    for dtype in ALL:
        x = values((3, 4, 5), dtype, 1)
        if op in FLOAT_ONLY and not dtype.is_floating_point:
            f.refuses(op, [x], {}, lambda t: getattr(A, op)(t))
            continue
        call(op, x)
        call(op, x, 1)
        if dtype in (torch.float32, torch.int16):
            for t in layouts(x):
                for dim in [0, -1, [0, 2], [0, 1, 2]]:
                    call(op, t, dim)
                if keeps:
                    call(op, t, 1, True)
                    call(op, t, [0, 2], True)
        if dtype.is_floating_point:
            s = torch.tensor([[1, NAN, 2], [INF, 1, 2], [-INF, 1, 2], [INF, -INF, 0], [0, 0, 0],
                              [INF, INF, 1], [-INF, -INF, -INF]], dtype=dtype)
            call(op, s, 1)
            call(op, s, 0)
    for shape, dim in [((0, 3), 0), ((0, 3), 1), ((2, 0), 1)]:
        call(op, rand(shape), dim)
    call(op, rand((0,)))
    call(op, rand(()))
    call(op, rand((1,)))
    call(op, rand((), seed=3), 0)
    call(op, rand((3, 1, 2)).expand(3, 4, 2), 1)
    f.refuses(op, [rand((3,))], {"dim": 1}, lambda t: getattr(A, op)(t, dim=1))
# Blocks, vector widths, and parts of a long reduction.
long = (rand((20011,), seed=4) * 0.1).half().float()
for op in [
    "sum",
    "mean",
    "std",
    "var",
    "linalg_vector_norm",
    "logsumexp",
    "count_nonzero",
    "any",
    "all",
]:
    f.case(
        op,
        [long],
        {"dim": 0} if op == "logsumexp" else {},
        (lambda t: A.logsumexp(t, 0))
        if op == "logsumexp"
        else (lambda t: A.var(t, None, correction=None))
        if op == "var"
        else (lambda t: A.std(t, None, correction=None))
        if op == "std"
        else getattr(A, op),
        rtol=2e-5,
    )
x = rand((40, 300), seed=5)
for op in ["sum", "mean", "var", "linalg_vector_norm", "logsumexp", "prod", "any"]:
    for dim in [0, 1]:
        # Sums near zero of many terms of magnitude 2, which PyTorch adds in another order.
        call(op, x, dim, atol=2e-5)

for op in ["sum", "prod"]:
    for a, b in [
        (torch.int8, torch.int8),
        (torch.int8, torch.float32),
        (torch.float32, torch.float64),
        (torch.float16, torch.float32),
        (torch.bool, torch.int32),
        (torch.float32, torch.int64),
    ]:
        call(op, values((3, 4), a, 6), 1, dtype=Dtype(b))
call("sum", torch.tensor([2**62, 2**62, 7]))
call("prod", torch.tensor([2**62, 3, 7]))
call("prod", torch.tensor([100, 100], dtype=torch.int8), 0, dtype=Dtype(torch.int8))
call("mean", ints((3, 4), -3, 4), 1, dtype=Dtype(torch.float32))
call("mean", rand((3, 4), torch.float16, 7), 1, dtype=Dtype(torch.float64))
call("mean", torch.full((9,), 60000, dtype=torch.float16))
f.refuses("mean", [rand((3,))], {"dtype": D(torch.int64)}, lambda t: A.mean(t, dtype=torch.int64))
for op in ["std", "var"]:
    for correction in [0, 1, 2, 3, 1.5, 5]:
        call(op, rand((2, 3), seed=8), 1, correction=correction)
        call(op, rand((2, 3), seed=8), [1], True, correction=correction)
    call(op, rand((7,), seed=9) + 1e4)
    call(op, rand((700,), torch.float64, 9) + 1e3, 0)
for ord in [2, 1, 0, 3, 2.5, -1, 0.5, INF, -INF]:
    for dtype in FLOATS:
        call("linalg_vector_norm", rand((3, 5), dtype, 10), 1, ord=ord)
    call("linalg_vector_norm", torch.tensor([[1, NAN, 2], [INF, 1, 0]]), 1, True, ord=ord)
    call("linalg_vector_norm", rand((3, 5), seed=10), ord=ord)
call("linalg_vector_norm", rand((3, 5), seed=10), 1, dtype=Dtype(torch.float64))
call("linalg_vector_norm", rand((3, 5), torch.bfloat16, seed=10), 1, dtype=Dtype(torch.float32))
f.refuses("linalg_vector_norm", [rand((3,))], {"dtype": D(torch.float16)},
          lambda t: A.linalg_vector_norm(t, 2, None, False, dtype=torch.float16))
f.refuses("linalg_vector_norm", [rand((2, 0))], {"ord": INF, "dim": 1},
          lambda t: A.linalg_vector_norm(t, INF, 1))
call("logsumexp", torch.tensor([1000.0, 1000.5, -1000]), 0)
call("logsumexp", ints((3, 4), -3, 4), 1)
f.save()
