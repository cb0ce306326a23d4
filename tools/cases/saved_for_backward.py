"""Training steps: the backward pass reads saved tensors while the optimizer writes in place."""

import torch
from torch import nn
from torch.nn import functional


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.first = nn.Linear(6, 10)
        self.norm = nn.BatchNorm1d(10)
        self.second = nn.Linear(10, 10)
        self.third = nn.Linear(10, 4)

    def forward(self, words):
        x = torch.tanh(self.first(self.embedding(words)))
        x = self.norm(x)
        x = functional.relu(self.second(x)).mul(x.sigmoid())
        # Written in place after the backward pass's tensors were saved.
        return self.third(x).mul_(2).add_(0.5)


def prepare():
    torch.manual_seed(17)
    model = Model()
    words = torch.randint(0, 11, (3, 7))
    target = torch.randint(0, 4, (3, 7))

    def run():
        out = {}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.125, momentum=0.5, weight_decay=0.0625)
        for step in range(3):
            optimizer.zero_grad()
            scores = model(words[step])
            loss = functional.cross_entropy(scores, target[step])
            (loss + scores.pow(2).mean() / 8).backward()
            out[f"loss{step}"] = loss.detach()
            out[f"scores{step}"] = scores.detach()
            optimizer.step()
        for name, parameter in model.named_parameters():
            out[f"grad.{name}"] = parameter.grad
            out[f"param.{name}"] = parameter
        out.update(model.named_buffers())
        return out

    inputs = {"words": words, "target": target}
    inputs.update(model.named_parameters())
    inputs.update(model.named_buffers())
    return run, inputs
