"""Lookups of rows in a table, and their gradient."""

import torch
from cases import ALL, FLOATS, Family, gapped, ints, layouts, rand, transposed

f = Family("embedding")
A = torch.ops.aten
BOUNDS = {torch.bfloat16: dict(rtol=3e-2, atol=8e-2), torch.float16: dict(rtol=4e-3, atol=8e-3)}


def backward(grad, indices, rows, padding=-1, scale=False):
    f.case("embedding_dense_backward", [grad, indices],
           dict(num_weights=rows, padding_idx=padding, scale_grad_by_freq=scale),
           lambda g, i: A.embedding_dense_backward(g, i, rows, padding, scale),
           **BOUNDS.get(grad.dtype, {}))


numbers = ints((3, 4), 0, 7, seed=1)
for dtype in ALL:
    for weight in layouts(rand((7, 5), dtype, 2)):
        f.case("embedding", [weight, numbers], {}, A.embedding)
for dtype in FLOATS:
    for grad in layouts(rand((3, 4, 5), dtype, 3)):
        backward(grad, numbers, 7)
    backward(grad, numbers, 7, int(numbers[0, 0]), True)
weight = rand((7, 5), seed=2)
for indices in (transposed(numbers), gapped(numbers), numbers.int(), numbers[0, 0], numbers[:0]):
    f.case("embedding", [weight, indices], dict(padding_idx=3, sparse=False), A.embedding)
    backward(rand((*indices.shape, 5), seed=4), indices, 9)
f.case("embedding", [rand((40, 130), seed=5), ints((20,), 0, 40)], {}, A.embedding)
backward(rand((20, 130), seed=6), ints((20,), 0, 270), 270)
backward(rand((200, 3), seed=7), ints((200,), 0, 5), 5, 2)
for wrong in (torch.tensor([0, 7]), torch.tensor([-1]), torch.tensor([0.5])):
    f.refuses("embedding", [weight, wrong], {}, A.embedding)
f.refuses("embedding", [weight[0], numbers], {}, A.embedding)
f.save()
