x = f([1, 2], [3, 4])
index = i([0, 0], [1, 0])
src = f([10, 20], [30, 40])


def gather(x, index, dim):
    return x.gather(dim, index)


def scatter(x, index, dim, **k):
    return A.scatter(x, dim, index, *k.values())


e("gather", gather, x=x, index=index, dim=1)
x, index = f(1, 2, 3), i(2, 0)
e("scatter", scatter, x=x, index=index, src=f(10, 20), dim=0)
e("scatter_", scatter, x=x, index=index, src=f(10, 20), dim=0)
e("scatter_add", lambda x, index, src, dim: x.scatter_add(dim, index, src), x=x, index=index,
  src=f(10, 20), dim=0)
e("scatter_add_", lambda x, index, src, dim: x.scatter_add_(dim, index, src), x=x, index=index,
  src=f(10, 20), dim=0)


def scatter_reduce(x, index, src, dim, **k):
    return x.scatter_reduce(dim, index, src, **k)


e("scatter_reduce", scatter_reduce, x=x, index=index, src=f(10, 20), dim=0, reduce="prod")
e("scatter_reduce", scatter_reduce, x=x, index=index, src=f(10, 20), dim=0, reduce="prod",
  include_self=False)
e("index_select", lambda x, index, dim: x.index_select(dim, index), x=x, index=index, dim=0)
for op in ["index_add", "index_add_"]:
    add = lambda x, index, source, dim, **k: getattr(x, op)(dim, index, source, **k)
    e(op, add, x=x, index=index, source=f(10, 20), dim=0)
    e(op, add, x=x, index=index, source=f(10, 20), dim=0, alpha=2)
for op in ["index_put", "index_put_"]:
    put = lambda x, values, indices, **k: getattr(x, op)(tuple(indices), values, **k)
    e(op, put, x=x, values=f(10, 20), indices=[index])
    e(op, put, x=x, values=f(10, 20), indices=[index], accumulate=True)
e("masked_select", x=x, mask=b(1, 0, 1))
e("nonzero", x=f(0, 5, 6))
