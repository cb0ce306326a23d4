"""Lost numbers: Python numbers wrapped as tensors, on either side of every kind of op, and the
elements of torch.tensor([...])."""

import torch


def prepare():
    g = torch.Generator().manual_seed(18)
    f = torch.randn(3, 4, generator=g)
    d = torch.randn(3, 4, generator=g, dtype=torch.float64)
    h = torch.randn(3, 4, generator=g).half()
    i = torch.randint(-20, 20, (3, 4), generator=g)
    u = torch.randint(0, 9, (3, 4), generator=g).to(torch.uint8)
    b = torch.rand(3, 4, generator=g) > 0.5

    def run():
        third = 1 / 3
        out = {
            "mul": f * third,
            "rmul": third * f,
            "div": f / 7,
            "rdiv": 3 / (f + 5),
            "sub": f - 0.1,
            "rsub": 2.5 - f,
            "add_double": d + third,
            "mul_half": h * 0.3,
            "int_int": i * 3 + 1,
            "int_float": i * 0.3,
            "int_bool": i + True,
            "bool_int": b * 5,
            "bool_float": b * 0.7,
            "byte_wraps": u * 100 + 55,
            "byte_float": u / 3,
            "floor_div": i // 4,
            "rfloor_div": 50 // (u + 1),
            "modulo": i % 7,
            "rmodulo": 17 % (u + 1),
            "power": f**3,
            "rpower": 1.7**f,
            "less": f < 0.25,
            "rless": 4 >= i,
            "equal": i == 3,
            "shift": i << 2,
            "bits": i & 12,
            "or": b | False,
            "where_both": torch.where(b, 1.5, -2.5),
            "where_left": torch.where(b, 0.75, f),
            "where_right": torch.where(b, i, 9),
            "where_mixed": torch.where(b, i, third),
            "inf": torch.where(b, f, float("-inf")).amax(1),
            "nan": torch.nan_to_num(f * float("nan"), 8.5),
            "infinite": (f * float("inf")).clamp(-6, 6),
            "large": i + 2**40,
            "exact": d * 1.2345678901234567,
        }
        step = torch.tensor(0)
        for _ in range(3):
            step += 1
        out["step"] = step
        rate = torch.tensor(0.5) ** step
        out["rate"] = f * rate
        table = torch.tensor([[1.5, -2.25], [1e-3, 7.125]])
        out["table"] = table @ f[:2]
        out["chosen"] = f[torch.tensor([2, 0, 2])]
        out["flags"] = f.masked_fill(torch.tensor([True, False, True, False]), -1.5)
        out["half_table"] = h + torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float16)
        out["number"] = f * torch.tensor(1.75)
        out["double_number"] = f * torch.tensor(third, dtype=torch.float64)
        out["again"] = table * 2 + table.sum()

        # In-place ops: the result keeps the dtype.
        kept = f.clone()
        kept += 2
        kept *= third
        kept -= 0.125
        kept /= 3
        whole = i.clone()
        whole += 7
        whole *= 3
        whole //= 2
        u.add_(250)
        out.update(kept=kept, whole=whole, u=u)
        # A slice with a number, and an element of a tensor as a Python number.
        kept2 = kept.clone()
        kept2[1:, ::2] *= 10
        kept2[0] += kept2[2, 1].item()
        out["kept2"] = kept2
        return out

    return run, {"f": f, "d": d, "h": h, "i": i, "u": u, "b": b}
