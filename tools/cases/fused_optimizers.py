"""Optimizers whose step is one op over all parameters."""

import torch


def prepare():
    g = torch.Generator().manual_seed(29)
    x = torch.randn(7, 4, generator=g)
    kinds = {
        "adam": (torch.optim.Adam, {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.1}),
        "adamw": (torch.optim.AdamW, {"lr": 1e-5}),
        "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        "adagrad": (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.01}),
    }
    nets, steps, inputs = {}, {}, {"x": x}
    for name, (kind, given) in kinds.items():
        net = torch.nn.Linear(4, 3)
        with torch.no_grad():
            net.weight.copy_(torch.randn(3, 4, generator=g))
            net.bias.copy_(torch.randn(3, generator=g))
        nets[name] = net
        steps[name] = kind(net.parameters(), fused=True, **given)
        inputs.update((f"{name}.{part}", p) for part, p in net.named_parameters())
        for k, state in enumerate(steps[name].state.values()):
            inputs.update((f"{name}.{k}.{part}", v) for part, v in state.items())

    def run():
        out = {}
        for name, net in nets.items():
            for _ in range(3):
                steps[name].zero_grad()
                net(x).tanh().square().mean().backward()
                steps[name].step()
            out.update((f"{name}.{part}", p.detach()) for part, p in net.named_parameters())
        return out

    return run, inputs
