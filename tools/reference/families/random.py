"""Random ops: an implementation of their own in Python's integers, since PyTorch's generators draw
other numbers."""

import math

import torch
from cases import ALL, FLOATS, D, Family, layouts, rand

f = Family("random")
A = torch.ops.aten
MASK = 2**32 - 1
DIGITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def philox(counter, key):
    """Philox 4x32 with 10 rounds, of 128-bit and 64-bit integers. Returns four words."""
    words = [counter >> 32 * k & MASK for k in range(4)]
    keys = [key >> 32 * k & MASK for k in range(2)]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            second >> 32 ^ words[1] ^ keys[0], second & MASK,
            first >> 32 ^ words[3] ^ keys[1], first & MASK,
        ]
        keys = [keys[0] + 0x9E3779B9 & MASK, keys[1] + 0xBB67AE85 & MASK]
    return words


# The known answers of Random123.
assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox(2**128 - 1, 2**64 - 1) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


class Bits:
    def __init__(self, seed, offset):
        self.seed, self.offset = seed % 2**64, offset % 2**64

    def block(self, number):
        return philox(self.offset << 64 | number, self.seed)

    def word(self, k):
        return self.block(k // 4)[k % 4]

    def long(self, k):
        words = self.block(k // 2)
        return words[k % 2 * 2 + 1] << 32 | words[k % 2 * 2]

    def fraction(self, k):
        return (self.long(k) >> 11) * 2.0**-53


def uniform(bits, k, dtype, low=0.0, high=1.0):
    digits = DIGITS.get(dtype)
    share = (bits.word(k) >> 32 - digits) * 2.0**-digits if digits else bits.fraction(k)
    return low + share * (high - low)


def normal(bits, k, _, mean=0.0, std=1.0):
    first = k - k % 2
    radius = math.sqrt(-2 * math.log(1 - bits.fraction(first)))
    angle = 2 * math.pi * bits.fraction(first + 1)
    return mean + radius * (math.sin(angle) if k % 2 else math.cos(angle)) * std


def exponential(bits, k, _, lambd=1.0):
    return -math.log(1 - bits.fraction(k)) / lambd


def randint(bits, k, _, low, high):
    return low + bits.long(k) % (high - low)


def bernoulli(bits, k, _, p):
    return int(bits.word(k) * 2.0**-32 < p)


def filled(x, sample, seed, offset, *args):
    """Sets the elements of x, in row-major order."""
    bits = Bits(seed, offset)
    values = [sample(bits, k, x.dtype, *args) for k in range(x.numel())]
    exact = torch.float64 if x.dtype.is_floating_point else torch.int64
    x.copy_(torch.tensor(values, dtype=exact).reshape(x.shape))
    return x


def both(name, sample, dtype, attrs, seed=0, offset=0):
    """Records the op that returns a new tensor, and the one in place, of two layouts."""
    args = list(attrs.values())
    draws = {"seed": seed or None, "offset": offset or None}
    for shape in [[], [0, 3], [5], [3, 6]]:
        f.case(name, [], {"shape": shape, "dtype": D(dtype), **attrs, **draws},
               lambda: filled(torch.empty(shape, dtype=dtype), sample, seed, offset, *args))
    for x in [torch.zeros(3, 5, dtype=dtype), torch.zeros(3, 10, dtype=dtype)[:, ::2].t()]:
        f.case(f"{name}_", [x], {**attrs, **draws},
               lambda x: filled(x, sample, seed, offset, *args))
    # The offset as a tensor.
    given = torch.tensor(offset)
    f.case(name, [given], {"shape": [4], "dtype": D(dtype), **attrs, "seed": seed or None},
           lambda _: filled(torch.empty(4, dtype=dtype), sample, seed, offset, *args))
    f.case(f"{name}_", [torch.zeros(3, dtype=dtype), given], {**attrs, "seed": seed or None},
           lambda x, _: filled(x, sample, seed, offset, *args))


SEEDS = [(0, 0), (1, 7), (-3, 2**40), (2**62 + 12345, -1)]
for dtype in FLOATS:
    for seed, offset in SEEDS:
        both("uniform", uniform, dtype, {"from": 0.0, "to": 1.0}, seed, offset)
        both("normal", normal, dtype, {"mean": 0.0, "std": 1.0}, seed, offset)
    both("uniform", uniform, dtype, {"from": -2.5, "to": 8.0}, 5)
    both("normal", normal, dtype, {"mean": 3.0, "std": 0.25}, 5)
    both("exponential", exponential, dtype, {"lambd": 2.5}, 5)
for dtype in ALL:
    both("randint", randint, dtype, {"low": 0, "high": 2}, 6, 3)
    if dtype != torch.bool:
        both("randint", randint, dtype, {"low": 3, "high": 100}, 6)
both("randint", randint, torch.int64, {"low": -(2**62), "high": 2**62 + 5}, 6)
for dtype in ALL:
    for x in layouts(torch.zeros(3, 5, dtype=dtype)):
        f.case("bernoulli", [x], {"p": 0.3, "seed": 4},
               lambda x: filled(torch.empty_like(x), bernoulli, 4, 0, 0.3))
    x = torch.zeros(3, 5, dtype=dtype)
    f.case("bernoulli_", [x], {"p": 0.75, "seed": 4}, lambda x: filled(x, bernoulli, 4, 0, 0.75))
    for p in [0.0, 1.0]:
        f.case("bernoulli_", [x], {"p": p}, lambda x: filled(x, bernoulli, 0, 0, p))


def by_elements(x, seed, offset=0):
    bits = Bits(seed, offset)
    shares = x.double().flatten().tolist()
    values = [bernoulli(bits, k, None, p) for k, p in enumerate(shares)]
    return torch.empty_like(x).copy_(torch.tensor(values, dtype=x.dtype).reshape(x.shape))


def dropout(x, p, seed, offset=0):
    mask = filled(torch.empty_like(x, dtype=torch.bool), bernoulli, seed, offset, 1 - p)
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    result = wide * mask * (1 / (1 - p) if p < 1 else 0.0)
    return torch.empty_like(x).copy_(result), mask


for dtype in FLOATS:
    for x in layouts(rand((3, 5), dtype, 1).sigmoid()):
        f.case("bernoulli", [x], {"seed": 9}, lambda x: by_elements(x, 9))
    f.case("bernoulli", [x, torch.tensor(11)], {"seed": 9}, lambda x, _: by_elements(x, 9, 11))
    for x in layouts(rand((3, 5), dtype, 1)):
        f.case(
            "native_dropout", [x], dict(p=0.0, train=True), lambda x: A.native_dropout(x, 0.0, True)
        )
        f.case("native_dropout", [x], dict(p=0.5, train=False),
               lambda x: A.native_dropout(x, 0.5, False))
        for p in [0.1, 0.5, 1.0]:
            f.case("native_dropout", [x], dict(p=p, train=True, seed=8, offset=2),
                   lambda x: dropout(x, p, 8, 2))
        mask = rand((3, 5), torch.bool, 2)
        f.case("native_dropout_backward", [x, mask], dict(scale=1.5),
               lambda g, m: A.native_dropout_backward(g, m, 1.5))
    x = rand((4, 3), dtype, 1)
    f.case("native_dropout", [x, torch.tensor(2)], dict(p=0.5, seed=8),
           lambda x, _: dropout(x, 0.5, 8, 2))
for dtype in (torch.int64, torch.int16, torch.bool):
    f.case("native_dropout_backward", [rand((3, 5), dtype, 3), rand((3, 5), torch.bool, 2)],
           dict(scale=0.75), lambda g, m: A.native_dropout_backward(g, m, 0.75))
f.case("native_dropout", [rand((0, 2))], dict(p=0.0, train=True),
       lambda x: A.native_dropout(x, 0.0, True))
f.refuses("native_dropout", [rand((3,))], dict(p=1.5, train=True),
          lambda x: A.native_dropout(x, 1.5, True))
f.refuses("bernoulli", [torch.zeros(3, dtype=torch.int64)], {},
          lambda x: torch.bernoulli(x))
f.refuses("bernoulli_", [rand((3,))], {"p": 1.5}, lambda x: x.bernoulli_(1.5))
f.refuses("uniform_", [rand((3,))], {"from": 2.0, "to": 1.0}, lambda x: x.uniform_(2.0, 1.0))
f.refuses("uniform_", [torch.zeros(3, dtype=torch.int64)], {}, lambda x: x.uniform_())
f.refuses("normal_", [rand((3,))], {"std": -1.0}, lambda x: x.normal_(0.0, -1.0))
f.refuses("exponential_", [rand((3,))], {"lambd": 0.0}, lambda x: x.exponential_(0.0))
f.refuses("randint", [], {"shape": [3], "low": 3, "high": 3}, lambda: torch.randint(3, 3, (3,)))
f.save()
