nan = float("nan")
KINDS = {"none": 0, "mean": 1, "sum": 2}
x, y = f(1, 2, 3), f(2, 0.5, -1)
# Arithmetic
e("copysign", x=f(1, -2, 3), y=f(-1, 1, -1))
e("hypot", x=f(3, 5), y=f(4, 12))
e("ldexp", x=f(1, 3), y=f(2, -1))
e("xlogy", x=f(0, 1), y=f(0, 1))
e("special_xlog1py", x=f(0, 1), y=f(-1, 0))
e("logaddexp", x=f(0, 1), y=f(0, 2))
e("logaddexp2", x=f(1, 3), y=f(1, 3))
e("heaviside", x=f(-1, 0, 2), values=f(0.5, 0.5, 0.5))
e("fmax", x=f(1, nan, 3), y=f(2, 2, nan))
e("fmin", x=f(1, nan, 3), y=f(2, 2, nan))
# Pointwise functions
e("celu", x=f(-1, 0, 2))
e("celu", x=f(-1, 0, 2), alpha=2)
e("threshold", x=x, threshold=1.5, value=0)
e("special_entr", x=f(0, 1, 2))
e("round_decimals", lambda x, decimals: A.round(x, decimals=decimals), x=f(0.26, 1.74), decimals=1)
e("angle", x=f(-1, 0, 2))
e("mvlgamma", x=f(1.5, 3), p=2)
e("glu", x=f(1, 2, 0, 0), dim=0)
# Comparison and logic
e("logical_xor", x=i(0, 1, 2), y=i(0, 0, 1))
# Reductions
m = f([1, 3], [2, 6])
e("var_mean", lambda x, dim: A.var_mean(x, list(dim)), names="variance mean", x=m, dim=(0,))
e("var_mean", lambda x, dim, correction: A.var_mean(x, list(dim), correction=correction),
  names="variance mean", x=m, dim=(0,), correction=0)
e("var_mean", lambda x, dim, unbiased: A.var_mean(x, list(dim), unbiased), names="variance mean",
  x=m, dim=(0,), unbiased=False)
e("var_mean", lambda x, dim, keepdim: A.var_mean(x, list(dim), keepdim=keepdim),
  names="variance mean", x=m, dim=(0,), keepdim=True)
e("std_mean", lambda x, dim: A.std_mean(x, list(dim)), names="deviation mean", x=m, dim=(0,))
e("std_mean", lambda x, dim, correction: A.std_mean(x, list(dim), correction=correction),
  names="deviation mean", x=m, dim=(0,), correction=0)
e("std_mean", lambda x, dim, unbiased: A.std_mean(x, list(dim), unbiased), names="deviation mean",
  x=m, dim=(0,), unbiased=False)
e("std_mean", lambda x, dim, keepdim: A.std_mean(x, list(dim), keepdim=keepdim),
  names="deviation mean", x=m, dim=(0,), keepdim=True)
extrema = lambda x, dim, **k: A.aminmax(x, dim=dim[0], **k)
e("aminmax", extrema, names="least greatest", x=m, dim=(0,))
e("aminmax", extrema, names="least greatest", x=m, dim=(0,), keepdim=True)
n = f([1, nan], [2, 6])
e("nansum", lambda x, dim, **k: A.nansum(x, list(dim), **k), x=n, dim=(0,))
e("nansum", lambda x, dim, **k: A.nansum(x, list(dim), **k), x=n, dim=(0,), keepdim=True)
e("nansum", lambda x, dim, **k: A.nansum(x, list(dim), **k), x=n, dim=(0,), dtype=torch.float64)
e("trace", x=m)
# Distances
e("dist", lambda x, y, p=2: A.dist(x, y, p), x=f(1, 2), y=f(4, 6))
e("dist", lambda x, y, p=2: A.dist(x, y, p), x=f(1, 2), y=f(4, 6), p=1)
points = f([0, 0], [3, 4])
e("_cdist_forward", lambda x1, x2, p=2: torch.cdist(x1, x2, p), x1=points, x2=f([0, 0], [0, 4]))
e("_cdist_forward", lambda x1, x2, p=2: torch.cdist(x1, x2, p), x1=points, x2=f([0, 0], [0, 4]),
  p=1)
e("_pdist_forward", lambda x, p=2: A._pdist_forward(x, p), x=points)
e("_pdist_forward", lambda x, p=2: A._pdist_forward(x, p), x=points, p=1)
# Matrix products
for op, given in [("addr", dict(x=f([1, 1], [1, 1]), vec1=f(1, 2), vec2=f(3, 4))),
                  ("addmv", dict(x=f(1, 1), mat=m, vec=f(1, 2))),
                  ("addbmm", dict(x=f([1, 1], [1, 1]), batch1=m[None], batch2=m[None]))]:
    e(op, **given)
    e(op, **given, beta=2)
    e(op, **given, alpha=2)
# Linear algebra
low = f([2, 0], [1, 1])
e("linalg_matrix_sqrth", lambda x: x.sqrt(), exact=False, x=f([2, 0], [0, 5]))
e("cholesky_solve", lambda x, factor, upper=False: A.cholesky_solve(x, factor, upper), x=f([4], [3]),
  factor=low)
e("cholesky_solve", lambda x, factor, upper=False: A.cholesky_solve(x, factor, upper), x=f([4], [4]),
  factor=low.T.contiguous(), upper=True)
e("cholesky_inverse", x=f([2, 0], [0, 1]))
e("cholesky_inverse", x=f([2, 0], [0, 1]), upper=True)
e("linalg_pinv", lambda x: torch.linalg.pinv(x), exact=False, x=f([1, 0], [0, 3]))
e("linalg_pinv", lambda x, hermitian: torch.linalg.pinv(x, hermitian=hermitian), exact=False,
  x=f([1, 0], [0, 3]), hermitian=True)
e("linalg_pinv", lambda x, atol: torch.linalg.pinv(x, atol=atol), exact=False, x=f([1, 0], [0, 3]),
  atol=torch.tensor(2.0))
e("linalg_pinv", lambda x, rtol: torch.linalg.pinv(x, rtol=rtol), exact=False, x=f([1, 0], [0, 3]),
  rtol=torch.tensor(0.5))
e("linalg_cross", x=f(1, 0, 0), y=f(0, 1, 0), dim=0)
# Normalisation
e("renorm", lambda x, p, dim, maxnorm: A.renorm(x, p, dim, maxnorm), x=f([3, 4], [0, 1]), p=2,
  dim=0, maxnorm=2.5)
# Losses
def reduced(op, *order):
    return lambda reduction="mean", **k: getattr(A, op)(*[k[n] for n in order if n in k],
                                                        KINDS[reduction])
for op, target in [("soft_margin_loss", f(1, -1)),
                   ("multilabel_margin_loss_forward", i(1, -1))]:
    e(op, reduced(op, "x", "target"), x=f(0.5, -1), target=target)
    e(op, reduced(op, "x", "target"), x=f(0.5, -1), target=target, reduction="sum")
classes = lambda x, target, p=1, margin=1, weight=None, reduction="mean": A.multi_margin_loss(
    x, target, p, margin, weight, KINDS[reduction])
given = dict(x=f([0.5, 0, 1], [0, 0.25, 0]), target=i(0, 1))
e("multi_margin_loss", classes, **given)
e("multi_margin_loss", classes, **given, p=2)
e("multi_margin_loss", classes, **given, margin=2)
e("multi_margin_loss", classes, **given, weight=f(2, 4, 1))
e("multi_margin_loss", classes, **given, reduction="sum")
# Indexing
e("index_copy", lambda x, index, source, dim: A.index_copy(x, dim, index, source), x=x,
  index=i(2, 0), source=f(7, 8), dim=0)
for op in ["index_fill", "index_fill_"]:
    e(op, lambda x, index, value, dim: A.index_fill(x, dim, index, value), x=x, index=i(2, 0),
      value=torch.tensor(7.0), dim=0)
e("take", x=m, index=i(3, 0))
e("put", lambda x, index, source, accumulate=False: A.put(x, index, source, accumulate), x=m,
  index=i(3, 0), source=f(7, 8))
e("put", lambda x, index, source, accumulate=False: A.put(x, index, source, accumulate), x=m,
  index=i(3, 3), source=f(7, 8), accumulate=True)
e("masked_scatter", x=x, mask=b(1, 0, 1), source=f(7, 8))
for reduce in ["sum", "mean"]:
    scattered = lambda x, index, src, dim, **k: A.scatter_reduce(x, dim, index, src, reduce, **k)
    given = dict(x=f(1, 2), index=i(0, 0), src=f(3, 5), dim=0)
    e(f"scatter_{reduce}", scattered, **given)
    e(f"scatter_{reduce}", scattered, **given, include_self=False)
slices = lambda x, index, source, dim, reduce, **k: A.index_reduce(x, dim, index, source, reduce, **k)
given = dict(x=f(1, 2), index=i(0, 0), source=f(3, 5), dim=0, reduce="prod")
e("index_reduce", slices, **given)
e("index_reduce", slices, **given, include_self=False)
# Sorting
e("kthvalue", names="values indices", x=f(3, 1, 2), k=2, dim=0)
e("kthvalue", names="values indices", x=f(3, 1, 2), k=2, dim=0, keepdim=True)
for op in ["median", "nanmedian"]:
    e(op, names="values indices", x=f(3, 1, 2), dim=0)
    e(op, names="values indices", x=f(3, 1, 2), dim=0, keepdim=True)
# Counting
e("bincount", lambda x, weights=None, bins=0: A.bincount(x, weights, bins), x=i(1, 1, 3), bins=4)
e("bincount", lambda x, weights=None, bins=0: A.bincount(x, weights, bins), x=i(1, 1, 3),
  weights=f(0.5, 1, 2), bins=4)
binned = lambda x, bins, **k: A.histogram(x, bins, **k)
h = dict(names="counts edges", x=f(1, 2, 4, 5))
e("histogram", binned, **h, bins=2)
e("histogram", binned, **h, bins=2, range=(0.0, 4.0))
e("histogram", binned, **h, bins=f(1, 2, 4), weight=f(0.5, 1, 2, 3))
e("histogram", binned, **h, bins=2, density=True)
# Flips, rolls, triangles, padding
pixels = f([[[1]], [[2]], [[3]], [[4]]])
e("pixel_shuffle", x=pixels, upscale_factor=2)
e("pixel_unshuffle", x=pixels.reshape(1, 1, 2, 2), downscale_factor=2)
e("channel_shuffle", x=pixels, groups=2)
turned = lambda x, k=1, dims=(0, 1): A.rot90(x, k, list(dims))
e("rot90", turned, x=m, dims=(0, 1))
e("rot90", turned, x=m, k=2, dims=(0, 1))
e("block_diag", tensors=[f([1, 2]), f(3)])
e("diag_embed", x=f(1, 2))
e("diag_embed", x=f(1, 2), offset=1)
e("diag_embed", x=f(1, 2), dim1=1, dim2=0)
# Convolution and pooling
image = f([[[1, 2], [3, 4]]])
columns = lambda x, kernel_size, dilation=(1, 1), padding=(0, 0), stride=(1, 1): A.im2col(
    x, list(kernel_size), list(dilation), list(padding), list(stride))
e("im2col", columns, x=image, kernel_size=(2, 1))
e("im2col", columns, x=image, kernel_size=(2, 1), dilation=(1, 2))
e("im2col", columns, x=image, kernel_size=(2, 2), padding=(0, 1))
e("im2col", columns, x=image, kernel_size=(1, 1), stride=(2, 2))
sums = lambda x, output_size, kernel_size, dilation=(1, 1), padding=(0, 0), stride=(1, 1): A.col2im(
    x, list(output_size), list(kernel_size), list(dilation), list(padding), list(stride))
given = dict(x=f([[1, 2], [3, 4]]), kernel_size=(2, 1), output_size=(2, 2))
e("col2im", sums, **given)
e("col2im", sums, **given, dilation=(1, 2))
e("col2im", sums, x=f([[1, 2], [3, 4]]), kernel_size=(1, 2), output_size=(1, 1), padding=(0, 1))
e("col2im", sums, x=f([[1, 2], [3, 4]]), kernel_size=(2, 1), output_size=(2, 3), stride=(1, 2))
depth = f([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]])
means = lambda x, kernel_size, stride=(), padding=(0,), **k: A.avg_pool3d(
    x, list(kernel_size), list(stride), list(padding), **k)
e("avg_pool3d", means, x=depth, kernel_size=(2,))
e("avg_pool3d", means, x=depth, kernel_size=(1,), stride=(2,))
e("avg_pool3d", means, x=depth, kernel_size=(2,), padding=(1, 0, 0))
e("avg_pool3d", means, x=depth, kernel_size=(2,), ceil_mode=True)
e("avg_pool3d", means, x=depth, kernel_size=(2,), padding=(1, 0, 0), count_include_pad=False)
e("avg_pool3d", means, x=depth, kernel_size=(2,), divisor_override=4)
maxima = lambda x, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False: \
    A.max_pool3d_with_indices(x, list(kernel_size), list(stride), list(padding), list(dilation),
                              ceil_mode)
pair = dict(names="values indices", x=depth)
e("max_pool3d_with_indices", maxima, **pair, kernel_size=(2,))
e("max_pool3d_with_indices", maxima, **pair, kernel_size=(1,), stride=(2,))
e("max_pool3d_with_indices", maxima, **pair, kernel_size=(2,), padding=(1, 0, 0))
e("max_pool3d_with_indices", maxima, **pair, kernel_size=(2, 1, 1), dilation=(1, 2, 1))
e("max_pool3d_with_indices", maxima, **pair, kernel_size=(2,), ceil_mode=True)
sized = lambda op: lambda output_size, **k: getattr(A, op)(*k.values(), list(output_size))
e("adaptive_max_pool2d", sized("adaptive_max_pool2d"), names="values indices", x=image,
  output_size=(1, 1))
e("adaptive_max_pool3d", sized("adaptive_max_pool3d"), names="values indices", x=depth,
  output_size=(1, 1, 1))
e("max_unpool2d", sized("max_unpool2d"), x=f([[[4]]]), indices=i([[[3]]]), output_size=(2, 2))
e("max_unpool3d", lambda x, indices, output_size: A.max_unpool3d(
    x, indices, list(output_size), [1, 1, 1], [0, 0, 0]), x=f([[[[4]]]]), indices=i([[[[1]]]]),
  output_size=(1, 1, 2))
for dims in [2, 3]:
    fractional = lambda x, samples, kernel_size, output_size: getattr(
        A, f"fractional_max_pool{dims}d")(x, list(kernel_size), list(output_size), samples)
    e(f"fractional_max_pool{dims}d", fractional, names="values indices",
      x=image if dims == 2 else depth, samples=torch.full((1, 1, dims), 0.5),
      kernel_size=(1,) * dims, output_size=(1,) * dims)
# Grids
line = f([[1, 2, 3]])
spaces = [line, image, depth]
for mode in ["reflection", "replication"]:
    for dims in [1, 2, 3]:
        op = f"{mode}_pad{dims}d"
        e(op, lambda x, padding: getattr(A, op)(x, list(padding)), x=spaces[dims - 1],
          padding=(1, 0) + (0, 0) * (dims - 1))
scales = [["scales"], ["scales_h", "scales_w"], ["scales_d", "scales_h", "scales_w"]]
for name, corners in [("nearest1d", False), ("nearest2d", False), ("nearest3d", False),
                      ("linear1d", True), ("bilinear2d", True), ("trilinear3d", True),
                      ("bicubic2d", True)]:
    op, dims = f"upsample_{name}", int(name[-2])
    def resampled(x, output_size, **k):
        k = {"align_corners": False, **k} if corners else k
        return getattr(A, op)(x, list(output_size), **k)
    x = [f([[1, 2]]), f([[[1, 2]]]), f([[[[1, 2]]]])][dims - 1]
    to = (1,) * (dims - 1) + (4,)
    e(op, resampled, x=x, output_size=to)
    if corners:
        e(op, resampled, x=x, output_size=to, align_corners=True)
    for scale in scales[dims - 1]:
        e(op, resampled, x=x, output_size=to, **{scale: 2.0 if scale in ("scales", "scales_w") else 1.0})
boxes = f([0, 0, 2, 2], [0, 0, 2, 3], [3, 0, 4, 1])
e("nms", lambda boxes, scores, iou_threshold: torch.ops.torchvision.nms(boxes, scores, iou_threshold),
  boxes=boxes, scores=f(0.5, 1, 0), iou_threshold=0.5)
e("affine_grid_generator", lambda theta, size, align_corners: A.affine_grid_generator(
    theta, list(size), align_corners), theta=f([[1, 0, 0], [0, 2, 0]]), size=(1, 1, 2, 2),
  align_corners=True)
# Recurrent layers
zeros = torch.zeros
def lstm(x, weight_ih, weight_hh, hidden, cell, bias_ih=zeros(4), bias_hh=zeros(4), reverse=False):
    if reverse:
        x = x.flip(0)
    out, h, c = A.lstm.input(x, [hidden[None], cell[None]], [weight_ih, weight_hh, bias_ih, bias_hh],
                             True, 1, 0.0, False, False, False)
    return (out.flip(0) if reverse else out), h[0], c[0]
given = dict(x=f([[1]], [[2]]), weight_ih=f([1], [0], [2], [1]), weight_hh=f([0], [1], [0], [1]),
             hidden=f([0]), cell=f([2]))
e("lstm_layer", lstm, names="output hidden cell", **given)
e("lstm_layer", lstm, names="output hidden cell", **given, bias_ih=f(0, 1, 0, 0),
  bias_hh=f(0, 0, 1, 0))
e("lstm_layer", lstm, names="output hidden cell", **given, reverse=True)
