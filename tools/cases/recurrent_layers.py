"""Recurrent layers and the layers of an encoder, which PyTorch runs as one op each: an LSTM of two
layers and both directions with its gradients, packed sequences, encoders with and without a mask."""

import torch


def prepare():
    torch.manual_seed(41)
    g = torch.Generator().manual_seed(43)
    lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    plain = torch.nn.LSTM(3, 4, bias=False)
    make = lambda first, act: torch.nn.TransformerEncoderLayer(  # noqa: E731
        6, 2, 8, activation=act, batch_first=True, norm_first=first).eval()
    encoders = {"post": make(False, "relu"), "pre": make(True, "gelu")}
    x = torch.randn(2, 5, 3, generator=g).requires_grad_()
    words = torch.randn(2, 5, 6, generator=g)
    lengths = torch.tensor([5, 3])
    padded = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    modules = {"lstm": lstm, "plain": plain, **encoders}
    named = {f"{m}.{n}": p for m, module in modules.items() for n, p in module.named_parameters()}

    def run():
        out = {}
        y, (h, c) = lstm(x)
        (y.square().sum() + (h * c).sum()).backward()
        out["y"], out["h"], out["c"], out["grad.x"] = y, h, c, x.grad
        for name, p in lstm.named_parameters():
            out[f"grad.{name}"] = p.grad
        with torch.no_grad():
            out["plain"], _ = plain(x.transpose(0, 1))
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            out["packed"] = packed.data * 2
            out["sizes"] = packed.batch_sizes
            for name, encoder in encoders.items():
                out[name] = encoder(words)
                out[f"{name}.masked"] = encoder(words, src_key_padding_mask=padded)[0]
        return out

    return run, {"x": x, "words": words, "lengths": lengths, "padded": padded, **named}
