"""Chains of copies and fills between views and dtypes. Every single one affects a result;
mutations.py checks that."""

import torch


def prepare():
    g = torch.Generator().manual_seed(11)
    a = torch.randn(4, 6, generator=g)
    b = torch.randn(6, 4, generator=g, dtype=torch.float64)
    i = torch.randint(-90, 90, (4, 6), generator=g)
    mask = torch.rand(4, 6, generator=g) > 0.5

    def run():
        out = {}

        # Windows of one canvas; each write is partly overwritten by the next.
        canvas = torch.zeros(8, 10)
        canvas.fill_(0.5)
        canvas[1:5, 2:8].copy_(a)
        canvas[:, ::3].fill_(-1.25)
        canvas.t()[4:10, 3:7].copy_(b)
        canvas[6].zero_()
        canvas[2:6, 1:7].masked_fill_(mask, 9.5)
        canvas.diagonal().copy_(canvas[7, :8])
        canvas[7].fill_(canvas[3, 4])
        out["canvas"] = canvas

        # A value is converted through several dtypes; the other elements show the fills.
        f64 = torch.zeros(4, 8, dtype=torch.float64)
        f64.fill_(1.0625)
        f64[:, 1:7].copy_(a)
        f16 = torch.ones(8, 4, dtype=torch.float16)
        f16[1:8].t().copy_(f64[:, :7])
        bf16 = torch.ones(4, 9, dtype=torch.bfloat16)
        bf16[:, :8].copy_(f16.t())
        bf16[:, 8].fill_(77)
        i32 = torch.ones(9, 5, dtype=torch.int32)
        i32[:, 1:].copy_(bf16.t())
        i32[4:6].zero_()
        u8 = torch.zeros(9, 5, dtype=torch.uint8)
        u8.fill_(200)
        u8[::2].copy_(i32[::2].abs())
        i8 = torch.zeros(9, 5, dtype=torch.int8)
        i8[:, ::2].copy_(i32[:, ::2])
        i8[:, 1].fill_(-7)
        flags = torch.zeros(9, 5, dtype=torch.bool)
        flags.copy_(i32)
        flags[8].fill_(False)
        flags[0].zero_()
        flags[0, 3:].fill_(True)
        i64 = torch.full((9, 5), 3)
        i64.masked_fill_(flags, -(2**40))
        i64[1:3].copy_(u8[1:3])
        i16 = torch.zeros(4, 6, dtype=torch.int16)
        i16.copy_(i)
        i16.masked_fill_(mask, 1234)
        out.update(
            f64=f64, f16=f16, bf16=bf16, i32=i32, u8=u8, i8=i8, flags=flags, i64=i64, i16=i16
        )

        # Clones keep the elements from before the next write; in the chain each clone is the next
        # input.
        x = a.clone()
        first = x.clone()
        x.zero_()
        x[1].copy_(first[0])
        second = x.t().contiguous()
        x.fill_(4.5)
        second[2:4].masked_fill_(mask[:2].t()[:2].repeat(1, 2), -3.5)
        third = second.clone(memory_format=torch.preserve_format)
        second.zero_()
        third[:, 2].copy_(x[0])
        third[0].copy_(x[0, :4])
        fourth = third.view(2, 12).t().contiguous()
        third.fill_(-2.0)
        fourth[5].fill_(third[0, 0])
        out.update(first=first, x=x, second=second, third=third, fourth=fourth)

        # Broadcasts from a row, a column, a number, and an element of the target.
        wide = torch.zeros(3, 4, 6)
        wide.copy_(a)
        wide[1].copy_(b[:, 2])
        wide[:, 2:].copy_(wide[0, :2, :1])
        wide[2, 0].copy_(torch.tensor(6.75))
        wide[2, 1].copy_(wide[2, 1].flip(0))
        out["wide"] = wide
        return out

    return run, {"a": a, "b": b, "i": i, "mask": mask}
