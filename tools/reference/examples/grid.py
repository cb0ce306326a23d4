def sampler(x, grid, interpolation_mode=0, padding_mode=0, align_corners=False):
    op = A.grid_sampler_2d if x.dim() == 4 else A.grid_sampler_3d
    return op(x, grid, interpolation_mode, padding_mode, align_corners)


for dims in [2, 3]:
    x = f(1, 2, 3, 4).reshape([1, 1] + [1] * (dims - 1) + [4])
    grid = torch.zeros([1] * dims + [2, dims])
    grid[..., 0] = f(-1, 0.25)
    e(f"grid_sampler_{dims}d", sampler, x=x, grid=grid)
    e(f"grid_sampler_{dims}d", sampler, x=x, grid=grid, interpolation_mode=1)
    e(f"grid_sampler_{dims}d", sampler, x=x, grid=grid, padding_mode=1)
    e(f"grid_sampler_{dims}d", sampler, x=x, grid=grid, align_corners=True)


def means(x, rois, *, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return torch.ops.torchvision.roi_align(
        x, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


e("roi_align", means, x=f([1, 2, 3], [4, 5, 6])[None, None], rois=f([0, 0, 0, 2, 1]), spatial_scale=1.0,
  pooled_height=1, pooled_width=2, sampling_ratio=1, aligned=True)
e("nms_mask", lambda boxes, iou_threshold: b(0, 0).index_fill(0, torch.ops.torchvision.nms(
    boxes, f(2, 1), iou_threshold), True), boxes=f([0, 0, 2, 2], [0, 0, 2, 3]), iou_threshold=0.5)


def segments(data, lengths, reduce, **k):
    return torch.segment_reduce(data, reduce, lengths=lengths, **k)


e("segment_reduce", segments, data=f(1, 2, 3, 4), lengths=i(1, 3), reduce="sum")
e("segment_reduce", segments, data=f(1, 2, 3, 4), lengths=i(1, 3), reduce="sum", initial=10.0)
e("segment_reduce", segments, data=f([1, 2, 3], [4, 5, 6]), lengths=i([1, 2], [2, 1]),
  reduce="max", axis=1)
e("fractional_max_pool",
  lambda x, samples, kernel_size, output_size: A.fractional_max_pool2d(
      x, kernel_size, output_size, samples),
  names="values indices", x=f([[1, 5, 2, 4]])[None], samples=f([[0.5, 0.5]]), kernel_size=(1, 2),
  output_size=(1, 2))


def ctc(log_probs, targets, input_lengths, target_lengths, max_target_length, blank=0):
    lengths = input_lengths.tolist(), target_lengths.tolist()
    return A._ctc_loss(log_probs, targets, *lengths, blank, False)


log_probs = f([[0, -1]], [[-2, -0.5]])
sizes = dict(input_lengths=i(2), target_lengths=i(1), max_target_length=1)
e("_ctc_loss", ctc, names="loss _", log_probs=log_probs, targets=i([1]), **sizes)
e("_ctc_loss", ctc, names="loss _", log_probs=log_probs, targets=i([0]), blank=1, **sizes)
