"""Views: tensors with other shapes, strides and offsets on the same storage."""

import torch
from cases import ALL, Family, gapped, layouts, rand, transposed

f = Family("views")


def both(op, x, attrs, fn):
    """Records a case, or a refusal if PyTorch refuses the arguments."""
    try:
        fn(x)
    except (RuntimeError, IndexError):
        f.refuses(op, [x], attrs, fn)
        return
    f.case(op, [x], attrs, fn)


A = torch.ops.aten
cube = rand((2, 3, 4), seed=1)
some = [*layouts(cube), transposed(rand((4, 3), seed=2)), rand((), seed=4), rand((0, 3), seed=5),
        cube[1:, :, ::2], cube[:, :1].expand(2, 6, 4)]
for dtype in ALL:
    f.case("alias", [gapped(rand((2, 2), dtype))], {}, lambda x: A.alias(x))
for x in some:
    f.case("alias", [x], {}, lambda x: A.alias(x))
    f.case("detach", [x], {}, lambda x: x.detach())
    both("t", x, {}, lambda x: A.t(x))
    both("squeeze", x, {}, lambda x: x.squeeze())
    for dim in [0, -1, 3]:
        both("unsqueeze", x, {"dim": dim}, lambda x: x.unsqueeze(dim))
        both("squeeze", x, {"dim": dim}, lambda x: x.squeeze(dim))
        both("transpose", x, {"dim0": dim, "dim1": 0}, lambda x: x.transpose(dim, 0))
        for index in [2, -1, -4]:
            both("select", x, {"dim": dim, "index": index}, lambda x: x.select(dim, index))
        for start, length in [(0, 2), (-2, 2), (3, 0), (2, 2), (-4, 1), (0, -1)]:
            both("narrow", x, {"dim": dim, "start": start, "length": length},
                 lambda x: x.narrow(dim, start, length))
        for start, end, step in [(1, None, 2), (-2, -1, 1), (2, 1, 1), (-9, 9, 3), (5, 9, 1)]:
            both("slice", x, {"dim": dim, "start": start, "end": end, "step": step},
                 lambda x: A.slice(x, dim, start, end, step))
        for size, step in [(2, 1), (2, 2), (3, 5), (0, 1), (6, 1), (1, 0), (-1, 1)]:
            both("unfold", x, {"dimension": dim, "size": size, "step": step},
                 lambda x: x.unfold(dim, size, step))
        for size in [1, 2, 7]:
            both("split", x, {"split_size": size, "dim": dim}, lambda x: x.split(size, dim))
            both("chunk", x, {"chunks": size, "dim": dim}, lambda x: x.chunk(size, dim))
        if x.dim() and x.shape[0]:
            both("unbind", x, {"dim": dim}, lambda x: x.unbind(dim))
        for sizes in [[2, 1], [1, 0, 3], [3], [0, 0]]:
            both("split_with_sizes", x, {"split_sizes": sizes, "dim": dim},
                 lambda x: A.split_with_sizes(x, sizes, dim))
    for offset in [0, 1, -2, 9]:
        for dims in [(0, 1), (-1, 0), (1, 1)]:
            both("diagonal", x, {"offset": offset, "dim1": dims[0], "dim2": dims[1]},
                 lambda x: x.diagonal(offset, *dims))
    for dims in [[0], [1, 0], [-1, 0], [2, 0, 1], [1, 2, 0], [0, 0, 1], [], [0, 1]]:
        both("permute", x, {"dims": dims}, lambda x: x.permute(dims))
    for size in [[-1], [4, 3], [12], [2, -1], [3, 4, 2], [6, 4], [1, 12], [], [1, 1],
                 [0], [2, 3, 2, 2], [-1, -1], [7], [0, -1], [-2, 3]]:
        both("view", x, {"size": size}, lambda x: x.view(size))
        both("reshape", x, {"shape": size}, lambda x: x.reshape(size))
    for size in [[2, 3, 4], [-1, -1, -1], [2, 2, 3, 4], [-1, 2, 3, 4], [5, 4, 3], [2, 5], [7, -1],
                 [3], [], [0], [4, 0], [1, 1, 0, 3], [3, 6, -1]]:
        both("expand", x, {"size": size}, lambda x: x.expand(size))
        if x.dim():
            both("expand", x[..., :1], {"size": size}, lambda x: x.expand(size))
for dims in [[0, 2], [1], [0, 0], [-1, 1], [], [4]]:
    for x in [rand((1, 3, 1)), transposed(rand((1, 1, 2)))]:
        both("squeeze", x, {"dim": dims}, lambda x: x.squeeze(dims))
for x in [rand((12,)), gapped(rand((3, 2))), rand((12,))[5:], rand((7,))[3]]:
    for size, stride, offset in [([2, 3], [3, 1], None), ([2, 2], [1, 1], 1), ([3], [0], 2),
                                 ([], [], 4), ([0], [1], 0), ([2], [1, 1], 0), ([-1], [1], 0),
                                 ([2], [-1], 4), ([2], [1], -1)]:
        # Views that reach past the storage are refused by the builder, not by the schema.
        if max(stride, default=0) * (max(size, default=0) - 1) + (offset or 0) < x.numel():
            both("as_strided", x, {"size": size, "stride": stride, "storage_offset": offset},
                 lambda x: torch.as_strided(x, size, stride, offset))
f.save()
