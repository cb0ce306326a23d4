def searchsorted(sorted, x, **k):
    return torch.searchsorted(sorted, x, **k)


e("searchsorted", searchsorted, sorted=f(1, 3, 5), x=f(0, 3, 9))
e("searchsorted", searchsorted, sorted=f(1, 3, 5), x=f(0, 3, 9), right=True)
e("searchsorted", searchsorted, sorted=f(1, 3, 5), x=f(0, 3, 9), out_int32=True)
x = f(1, 2, 2, 4)
e("histc", lambda x, **k: torch.histc(x, **k), x=x, bins=3)
e("histc", lambda x, **k: torch.histc(x, **k), x=x, bins=2, min=1, max=3)
e("histc", lambda x, **k: torch.histc(x, **k), x=x, bins=2, max=2)


def unique(x, dim=None, consecutive=False, return_inverse=False, return_counts=False):
    op = torch.unique_consecutive if consecutive else torch.unique
    values, inverse, counts = op(x, dim=dim, return_inverse=True, return_counts=True)
    return (values, inverse if return_inverse else inverse[:0],
            counts if return_counts else counts[:0])


x = i(3, 1, 3, 3)
e("unique", unique, names="values _ _", x=x)
e("unique", unique, names="values _ _", x=x, consecutive=True)
e("unique", unique, names="values inverse _", x=x, return_inverse=True)
e("unique", unique, names="values _ counts", x=x, return_counts=True)
e("mode", names="value _", x=f(2, 3, 3), dim=0)
e("mode", names="value _", x=f([2, 3, 3], [4, 4, 5]), dim=1, keepdim=True)
e("nonzero_static", lambda x, **k: torch.nonzero_static(x, **k), x=f(0, 5, 6), size=2)
e("nonzero_static", lambda x, **k: torch.nonzero_static(x, **k), x=f(0, 5, 6), size=3,
  fill_value=-9)
