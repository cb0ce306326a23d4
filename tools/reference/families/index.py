"""Gathers and scatters by index."""

import torch
from cases import ALL, FLOATS, INTS, Family, gapped, ints, layouts, rand, transposed

f = Family("index")
A = torch.ops.aten
L = torch.tensor


def attempt(op, tensors, attrs, fn, **kw):
    """Records a case, or a refusal if PyTorch refuses the arguments."""
    try:
        fn(*[t.clone() for t in tensors])
    except (RuntimeError, IndexError):
        f.refuses(op, tensors, attrs, fn)
        return
    f.case(op, tensors, attrs, fn, **kw)


# One index per element.
def gather(dim):
    return lambda x, i: torch.gather(x, dim, i)


def scatter(dim):
    return lambda x, i, s: torch.scatter(x, dim, i, s)


def scatter_(dim):
    return lambda x, i, s: x.scatter_(dim, i, s)


def scatter_add(dim):
    return lambda x, i, s: torch.scatter_add(x, dim, i, s)


def scatter_add_(dim):
    return lambda x, i, s: x.scatter_add_(dim, i, s)


for dtype in ALL:
    index = ints((2, 3), 0, 2, seed=1)
    x, src = rand((2, 3), dtype, 2), rand((2, 3), dtype, 3)
    f.case("gather", [x, index], {"dim": 1}, gather(1))
    for op, fn in [("scatter", scatter), ("scatter_", scatter_)]:
        f.case(op, [x.clone(), L([[2, 0, 1], [1, 2, 0]]), src], {"dim": 1}, fn(1))
        f.case(op, [x.clone(), L([[0, 1], [2, 2]])], {"dim": 1, "value": 1},
               lambda x, i: getattr(x, op)(1, i, 1))
    for op, fn in [("scatter_add", scatter_add), ("scatter_add_", scatter_add_)]:
        f.case(op, [x.clone(), index, src], {"dim": 0}, fn(0))
cube = rand((3, 2, 4), seed=4)
for x in layouts(cube)[1:]:
    for dim in [0, 1, -1]:
        for index in layouts(ints((2, 1, 2), 0, x.shape[dim], seed=5)):
            f.case("gather", [x, index], {"dim": dim}, gather(dim))
        index = transposed(ints((2, 2, 3), 0, x.shape[dim], seed=6))
        src = gapped(rand((2, 3, 4), seed=7))
        f.case("scatter_add", [x, index, src], {"dim": dim}, scatter_add(dim))
        f.case(
            "scatter_add_",
            [x.clone(memory_format=torch.preserve_format), index, src],
            {"dim": dim},
            scatter_add_(dim),
        )
        # Unique indices: PyTorch does not define which of two values for one index remains.
        index = torch.argsort(rand((2, 2, 3), seed=8), dim)[:x.shape[0], :x.shape[1]].clone()
        f.case("scatter", [x, index, src], {"dim": dim}, scatter(dim))
        f.case("scatter_", [x.clone(memory_format=torch.preserve_format), index, src], {"dim": dim},
               scatter_(dim))
x = rand((2, 3), seed=9)
f.case(
    "gather", [x, ints((300, 3), 0, 2, torch.int32)], {"dim": 0, "sparse_grad": False}, gather(0)
)
f.case(
    "scatter_add",
    [x, ints((300, 3), 0, 2), rand((300, 3), seed=10)],
    {"dim": 0},
    scatter_add(0),
    rtol=1e-5,
    atol=1e-5,
)
for i in [L([0, 0]), L(0), ints((0,), 0, 1), ints((0, 5), 0, 1), L([[0]]), ints((5, 1), 0, 1),
          ints((1, 5), 0, 1), L([[0.0]]), L([[True]])]:
    for y in [x, rand(())] if i.dim() > 1 else [x, rand(()), rand((1,))]:
        for dim in [0, 2]:
            attempt("gather", [y, i], {"dim": dim}, gather(dim))
        src = rand(i.shape, seed=11)
        for op, fn in [("scatter", scatter), ("scatter_add", scatter_add)]:
            attempt(op, [y, i, src], {"dim": 0}, fn(0))
        attempt("scatter_", [y.clone(), i], {"dim": 0, "value": 2.5},
                lambda x, i: x.scatter_(0, i, 2.5))
for value in [1.5, 300, -1, True]:
    for dtype in [torch.uint8, torch.int64, torch.bool, torch.float16]:
        if dtype != torch.uint8 or value != -1:
            attempt("scatter", [rand((3,), dtype), L([1])], {"dim": 0, "value": value},
                    lambda x, i: x.scatter(0, i, value))
f.refuses("scatter", [x, L([[0]]), L([[1]])], {"dim": 0}, scatter(0))
f.refuses("scatter", [x, L([[0, 1, 0]]), rand((1, 2))], {"dim": 0}, scatter(0))
f.refuses("scatter_", [rand((1, 3)).expand(2, 3), L([[0]]), rand((1, 1))], {"dim": 0}, scatter_(0))
f.case(
    "scatter_",
    [gapped(rand((3, 3))), L([[2, 0, 1]]), rand((1, 3), seed=12)],
    {"dim": 0},
    scatter_(0),
)

# One index per slice.
for dtype in ALL:
    x = rand((3, 4), dtype, 13)
    f.case("index_select", [x, L([2, 0, 2])], {"dim": 0}, lambda x, i: x.index_select(0, i))
    for op in ["index_add", "index_add_"]:
        attempt(op, [x.clone(), L([2, 0]), rand((2, 4), dtype, 14)], {"dim": 0},
                lambda x, i, s: getattr(x, op)(0, i, s))
        if dtype != torch.bool:
            attempt(op, [x.clone(), L([1, 1], dtype=torch.int32), rand((3, 2), dtype, 14)],
                    {"dim": 1, "alpha": 2}, lambda x, i, s: getattr(x, op)(1, i, s, alpha=2))
for x in [*layouts(cube)[1:], rand((5,)), rand(()), rand((0, 3))]:
    for dim in [-1, 0, 1] if x.dim() != 3 else [-1, 1]:
        for i in [L([0]), L(0), gapped(L([1, 1, 0])), ints((0,), 0, 1), L([[0]])]:
            if x.numel() == 0 and dim == 0 and i.numel():
                continue
            attempt("index_select", [x, i], {"dim": dim}, lambda x, i: x.index_select(dim, i))
            shape = list(x.shape)
            if len(shape) > dim:
                if shape:
                    shape[dim] = i.numel()
                source = transposed(rand(shape, seed=15))
                attempt("index_add", [x, i, source], {"dim": dim, "alpha": -0.5},
                        lambda x, i, s: torch.index_add(x, dim, i, s, alpha=-0.5))
                attempt("index_add_", [x.clone(memory_format=torch.preserve_format), i, source],
                        {"dim": dim}, lambda x, i, s: x.index_add_(dim, i, s))
# Combinations with the elements at an index.
def scatter_reduce(dim, **kw):
    return lambda x, i, s: torch.scatter_reduce(x, dim, i, s, **kw)


for dtype in ALL:
    x, src = rand((2, 3), dtype, 21), rand((3, 3), dtype, 22)
    for reduce in ["sum", "prod", "amax", "amin"]:
        for own in [True, False]:
            attempt("scatter_reduce", [x, ints((3, 2), 0, 2, seed=23), src],
                    {"dim": 0, "reduce": reduce, "include_self": own},
                    scatter_reduce(0, reduce=reduce, include_self=own))
nan = L([1.0, torch.nan, 3.0, -1.0, torch.nan])
for reduce in ["sum", "prod", "amax", "amin"]:
    for own in [True, False]:
        attrs = {"dim": -1, "reduce": reduce, "include_self": own}
        fn = scatter_reduce(-1, reduce=reduce, include_self=own)
        f.case("scatter_reduce", [L([torch.nan, 2.0, 0.5]), L([1, 1, 2, 2, 0]), nan], attrs, fn)
        f.case("scatter_reduce", [rand(()), L(0), rand(())], attrs, fn)
        f.case("scatter_reduce", [rand((2, 3)), ints((0, 3), 0, 1), rand((2, 3))], attrs, fn)
        for x in layouts(rand((3, 2, 4), seed=24))[1:]:
            f.case("scatter_reduce", [x, transposed(ints((2, 1, 9), 0, 4, seed=25)),
                                      gapped(rand((2, 2, 9), seed=26))], attrs, fn)
f.refuses("scatter_reduce", [rand((2,)), L([0]), rand((1,))], {"dim": 0, "reduce": "median"},
          scatter_reduce(0, reduce="median"))
f.refuses("scatter_reduce", [rand((2,)), L([0, 1]), rand((1,))], {"dim": 0, "reduce": "sum"},
          scatter_reduce(0, reduce="sum"))
for empty in [torch.empty(0), torch.empty((0,), dtype=torch.bool)]:
    f.case("gather", [rand((3,)), empty], {"dim": 0}, gather(0))

# Many additions to one element: 16-bit floats stop to grow unless the sum is wider.
for dtype in [torch.float16, torch.bfloat16]:
    zero, ones = torch.zeros((3, 1), dtype=dtype), torch.ones((2500, 1), dtype=dtype)
    many = torch.ones((2500, 1), dtype=torch.int64)
    for op, fn in [("scatter_add", scatter_add), ("scatter_add_", scatter_add_)]:
        f.case(op, [zero.clone(), many, ones], {"dim": 0}, fn(0), rtol=0, atol=0)
        f.case(op, [zero[:, 0].clone(), many[:, 0], ones[:, 0]], {"dim": 0}, fn(0), rtol=0, atol=0)
    for op in ["index_add", "index_add_"]:
        for kept in [(slice(None), slice(None)), (slice(None), 0)]:
            f.case(op, [zero[kept].clone(), many[:, 0], ones[kept]], {"dim": 0},
                   lambda x, i, s: getattr(x, op)(0, i, s), rtol=0, atol=0)
            f.case(op, [zero[kept].clone(), many[:, 0], ones[kept]], {"dim": 0, "alpha": 2},
                   lambda x, i, s: getattr(x, op)(0, i, s, alpha=2), rtol=0, atol=0)
f.refuses("index_add", [rand((2,)), L([0]), rand((1,), torch.float64)], {"dim": 0},
          lambda x, i, s: x.index_add(0, i, s))


# Indices of several dimensions.
def lay(indices):
    """Returns the index tensors, and the positions of absent ones."""
    given = [i for i in indices if i is not None]
    return given, [k for k, i in enumerate(indices) if i is None]


def index(x, indices, **kw):
    given, absent = lay(indices)
    def fn(x, *given):
        given = list(given)
        return A.index(x, [None if i is None else given.pop(0) for i in indices])
    attempt("index", [x, *given], {"absent": absent or None}, fn, **kw)


def index_put_(x, indices, values, accumulate=None):
    given, absent = lay(indices)
    def fn(x, v, *given):
        given = list(given)
        return A.index_put_(x, [None if i is None else given.pop(0) for i in indices], v,
                            bool(accumulate))
    f_out = lambda x, v, *given: fn(x.clone(), v, *given)
    if values.dim() < 2 and x.dim() < 4 or accumulate:
        attempt("index_put", [x.clone(memory_format=torch.preserve_format), values, *given],
                {"absent": absent or None, "accumulate": accumulate}, f_out)
    attempt("index_put_", [x, values, *given], {"absent": absent or None, "accumulate": accumulate},
            fn)


x4 = rand((3, 2, 4, 3), seed=16)
for x in [
    x4,
    transposed(x4),
    x4.contiguous(memory_format=torch.channels_last),
    x4.transpose(1, 2).contiguous().transpose(1, 2),
]:
    a, b, c = L([1, -1, 0]), L([[0], [1]]), L([0, 1, -2], dtype=torch.int32)
    for indices in [
        [a],
        [None, b],
        [None, None, a],
        [a, b],
        [a, None, c],
        [None, b, a],
        [b, None, None, a],
        [None, a % 2, None, c],
        [b, b, b, b],
        [a, None],
        [L(1)],
        [L(1), None, a],
        [transposed(ints((2, 3), 0, 2))],
        [None, None, None, a[:0]],
    ]:
        index(x, indices)
        given, _ = lay(indices)
        shape = A.index(x, indices).shape
        y = x.clone(memory_format=torch.preserve_format)
        if not x.is_contiguous():
            index_put_(y, indices, rand((), seed=17))
        else:
            # PyTorch adds in row-major order, because deterministic algorithms are enabled.
            index_put_(y.clone(), indices, rand(shape, seed=18), True)
            index_put_(y.clone(), indices, transposed(rand(shape, seed=18)), False)
for dtype in ALL:
    index(rand((3, 2), dtype), [L([2, 0])])
    index_put_(rand((3, 2), dtype), [L([2, 0])], rand((2, 2), dtype, 19))
    if dtype != torch.bool:
        index_put_(rand((3, 2), dtype), [L([2, 2])], rand((2, 2), dtype, 19), True)
x = rand((2, 3), seed=20)
for indices in [[L([0, 1]), L([0, 1, 2])], [L([0])] * 3, [L([0.0])], [L([0], dtype=torch.int16)]]:
    index(x, indices)
index(rand((0, 3)), [ints((0,), 0, 1)])
index(rand((0, 3)), [None, L([1, 1])])
index(rand((70, 3)), [ints((300,), -70, 70)])
index(rand((5,)), [ints((300,), -5, 5)])
# The rows of a mask are contiguous for every layout of x.
for x in [*layouts(rand((3, 4), seed=21)), rand((3, 4, 2), torch.int16, 22), rand((0, 4))]:
    index(x, [rand(x.shape[:1], torch.bool, 23)], layout=False)
    index(x, [transposed(rand(x.shape[:2], torch.bool, 24))], layout=False)
    for mask in [rand(x.shape[:1], torch.bool, 25), transposed(rand(x.shape[:2], torch.bool, 26))]:
        y = x.clone()
        index_put_(y, [mask], rand((), x.dtype, 27))
        index_put_(y.clone(), [mask], rand(y[mask].shape, x.dtype, 28), True)
        index_put_(y.clone(), [mask], rand((1, *y[mask].shape[1:]), x.dtype, 28))
index(rand((3, 4)), [L([True, False])])
for values in [rand((1, 1, 1)), rand((2, 1)), rand((1,), torch.float64)]:
    index_put_(rand((2, 3)), [L([0])], values)

# Gradients of views.
for dtype in FLOATS + INTS:
    f.case("select_backward", [rand((2,), dtype)], {"input_sizes": [2, 3], "dim": 1, "index": -1},
           lambda g: A.select_backward(g, [2, 3], 1, -1))
for g in layouts(rand((2, 3), seed=29)):
    for sizes, dim, at in [
        ([2, 3, 4], -1, 2),
        ([5, 2, 3], 0, 0),
        ([2, 3], 0, 0),
        ([2, 3, 4], 2, 4),
    ]:
        attempt("select_backward", [g], {"input_sizes": sizes, "dim": dim, "index": at},
                lambda g: A.select_backward(g, sizes, dim, at))
    for sizes, dim, start, end, step in [([5, 3], 0, 1, 5, 2), ([2, 9], 1, -3, 2**63 - 1, 1),
                                         ([2, 3], 0, None, None, 1), ([2, 9], -1, 0, 9, 3)]:
        f.case(
            "slice_backward",
            [g],
            {"input_sizes": sizes, "dim": dim, "start": start, "end": end, "step": step},
            lambda g: A.slice_backward(
                g, sizes, dim, start or 0, 2**63 - 1 if end is None else end, step
            ),
        )
    for sizes, offset, dim1, dim2 in [
        ([2, 3, 3], 0, 1, 2),
        ([3, 2, 4], 1, 0, -1),
        ([4, 2, 3], -1, 0, 2),
    ]:
        f.case("diagonal_backward", [g],
               {"input_sizes": sizes, "offset": offset, "dim1": dim1, "dim2": dim2},
               lambda g: A.diagonal_backward(g, sizes, offset, dim1, dim2))
f.save()
