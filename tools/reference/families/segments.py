"""Reductions of segments, fractional pooling, and the loss of alignments."""

import torch
import torch.nn.functional as F
from cases import Family, rand, transposed

f = Family("segments")
A = torch.ops.aten
for dtype in [torch.float64, torch.float32, torch.bfloat16]:
    for reduce in ["sum", "mean", "max", "min", "prod"]:
        for axis, shape, lengths in [(0, (7, 3), [2, 0, 4, 1]), (1, (2, 5), [[2, 3], [4, 1]])]:
            lengths = torch.tensor(lengths)
            data = rand(shape, dtype, 1)
            for initial in [None, 2.0]:
                attrs = {"reduce": reduce, "axis": axis, "initial": initial}
                fn = lambda d, n: torch.segment_reduce(d, reduce, lengths=n, axis=axis,
                                                       initial=initial)
                exact = lambda d, n: fn(d.double(), n).to(d.dtype)
                f.case("segment_reduce", [data, lengths], attrs, exact)
                f.case("segment_reduce", [transposed(data), lengths], attrs, exact)
                if dtype == torch.bfloat16:
                    continue
                out = fn(data, lengths)
                grad = rand(out.shape, dtype, 2)
                f.case("segment_reduce_backward", [grad, out, data, lengths], attrs,
                       lambda g, o, d, n: A._segment_reduce_backward(
                           g, o, d, reduce, lengths=n, axis=axis, initial=initial),
                       rtol=1e-5, atol=1e-5)
    if dtype == torch.bfloat16:
        continue
    for dims, pool in [(2, A.fractional_max_pool2d), (3, A.fractional_max_pool3d)]:
        x = rand((2, 3, 7, 6, 5)[: dims + 2], dtype, 3)
        kernel, output = [2, 3, 2][:dims], [3, 2, 2][:dims]
        samples = rand((2, 3, dims), dtype, 4, 0, 1)
        attrs = {"kernel_size": kernel, "output_size": output}
        for t in [x, transposed(x)]:
            f.case("fractional_max_pool", [t, samples], attrs,
                   lambda x, s: pool(x, kernel, output, s), layout=False)
    x = F.log_softmax(rand((6, 3, 4), dtype, 5), -1)
    for targets, labels in [([[1, 2, 2], [3, 1, 0], [2, 0, 0]], [3, 2, 1]), ([1, 2, 1, 3], [2, 1, 1])]:
        targets, labels = torch.tensor(targets), torch.tensor(labels)
        inputs = torch.tensor([6, 5, 2])
        for skips in [False, True]:
            lists = inputs.tolist(), labels.tolist()
            losses, alpha = A._ctc_loss(x, targets, *lists, 0, skips)
            attrs = {"max_target_length": int(labels.max()), "zero_infinity": skips}
            f.case("_ctc_loss", [x, targets, inputs, labels], attrs,
                   lambda x, t, i, n: A._ctc_loss(x, t, *lists, 0, skips)[:1], layout=False)
            grad = rand((3,), dtype, 6)
            f.case("_ctc_loss_backward", [grad, x, targets, inputs, labels, losses], attrs,
                   lambda g, x, t, i, n, l: A._ctc_loss_backward(
                       g, x, t, *lists, l, alpha, 0, skips),
                   rtol=1e-5, atol=1e-6, layout=False)
f.save()
