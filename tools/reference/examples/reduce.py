x = f([1, 2, 3], [4, 5, 9])
for op in ["sum", "prod", "mean", "amax", "amin"]:
    e(op, x=x, dim=1)
    e(op, x=x, dim=0, keepdim=True)
for op in ["sum", "prod", "mean"]:
    e(op, x=f(1, 2, 4, 9), dim=0, dtype=torch.float64)
flags = b(1, 1, 0, 1).reshape(2, 2)
for op in ["any", "all"]:
    e(op, x=flags, dim=0)
    e(op, x=flags, dim=1, keepdim=True)
e("count_nonzero", x=f([1, 0], [3, 4]), dim=0)
for op in ["std", "var"]:
    e(op, x=f(1, 2, 5), dim=0)
    e(op, x=f(1, 2, 5), dim=0, correction=0)
    e(op, x=f([1, 3], [2, 6]), dim=1, keepdim=True)
norm = A.linalg_vector_norm
e("linalg_vector_norm", x=f(3, 4))
e("linalg_vector_norm", x=f(3, -4), ord=1)
e("linalg_vector_norm", x=f([3, 4], [6, 8]), dim=1, keepdim=True)
e("linalg_vector_norm", x=f(3, 4), dtype=torch.float64)
e("logsumexp", x=f(1, 2, 3), dim=0)
e("logsumexp", x=f([1, 2], [3, 5]), dim=0, keepdim=True)
for op in ["max", "min"]:
    e(op, names="values indices", x=x, dim=1)
    e(op, names="values indices", x=x, dim=1, keepdim=True)
for op in ["argmax", "argmin"]:
    e(op, x=x, dim=1)
    e(op, x=x, dim=0, keepdim=True)
for op in ["cumsum", "cumprod"]:
    e(op, x=f(1, 2, 3), dim=0)
    e(op, x=i(1, 2, 3), dim=0, dtype=torch.float64)
e("logcumsumexp", x=f(1, 2, 3), dim=0)
e("cummax", names="values indices", x=f(2, 1, 5), dim=0)
e("cummin", names="values indices", x=f(2, 1, 5), dim=0)
