"""Records programs with the package, each in a folder of its own below the current one."""

import os
import tempfile

import millstream_record
import torch
import torch.distributed
import torch.multiprocessing


def step():
    """A training step whose inputs and outputs nobody names."""
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, table = torch.randn(5, 4), {"scale": torch.tensor(2.0)}
    with millstream_record.record("step", model, timeline=True):
        loss = (model(x) * table["scale"]).square().mean()
        loss.backward()
        optimizer.step()
    assert loss.isfinite()


def function():
    """A function whose first call is recorded, with a tensor that is no argument."""
    bias = torch.randn(3)

    @millstream_record.record("function")
    def layer(x, w):
        return (x @ w + bias).relu()

    layer(torch.randn(2, 4), torch.randn(4, 3))
    # The folder stays as it is.
    layer(torch.randn(7, 4), torch.randn(4, 3))


def rank(number, ranks, file):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=number, world_size=ranks
    )
    torch.manual_seed(1)
    w = torch.randn(4, 3, requires_grad=True)
    torch.manual_seed(2 + number)
    x = torch.randn(5, 4)
    with millstream_record.record("ranks"):
        y = (x @ w).relu()
        y.sum().backward()
        torch.distributed.all_reduce(w.grad)
        with torch.no_grad():
            w -= 0.1 / ranks * w.grad
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.manual_seed(1)
    step()
    function()
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "group")
        torch.multiprocessing.spawn(rank, (2, file), nprocs=2)
