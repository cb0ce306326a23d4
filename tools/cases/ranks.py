"""Records a case of several ranks to tests/traces/own/process_groups, a process for each rank:

    python tools/cases/ranks.py
"""

import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "tests/traces/own/process_groups"
RANKS = 4
NOTE = "four groups, two of them of the same ranks; collectives of lists; uneven splits"

sys.path[:0] = [str(HERE.parent)]
import record  # noqa: E402


def program(rank, pair, other, same, x):
    """Returns the results of every collective, within pairs of ranks and within all ranks."""
    first, second = (rank // 2 * 2, rank // 2 * 2 + 1)
    at = rank - first
    results = {}
    y = x * 1
    dist.all_reduce(y, group=pair)
    if same is not None:
        dist.all_reduce(y, group=same, op=dist.ReduceOp.PRODUCT)
    if other is not None:
        dist.all_reduce(y, group=other, op=dist.ReduceOp.MIN)
    results["reduced"] = y * 1
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    results["greatest"] = y * 1
    parts = [torch.zeros(4), torch.zeros(4)]
    dist.all_gather(parts, x * 1, group=pair)
    results["gathered"] = torch.cat(parts)
    z = x * 2
    dist.broadcast(z, src=second, group=pair)
    results["sent"] = z * 1
    w = x * 3
    dist.reduce(w, dst=second, group=pair)
    if rank == second:
        results["at_root"] = w * 1
    part = torch.zeros(2)
    dist.reduce_scatter(part, [x[:2] * 1, x[2:] * 1], group=pair)
    results["part"] = part * 1
    counts = [[1, 2], [2, 1]][at]
    mixed = torch.zeros(3)
    dist.all_to_all_single(mixed, x[:3] * 1, counts, counts, group=pair)
    results["mixed"] = mixed * 1
    halves = [torch.zeros(2), torch.zeros(2)]
    dist.all_to_all(halves, [x[:2] * 1, x[2:] * 1], group=pair)
    results["halves"] = torch.cat(halves)
    whole = [torch.zeros(4), torch.zeros(4)] if rank == first else None
    dist.gather(x * 1, whole, dst=first, group=pair)
    if rank == first:
        results["whole"] = torch.cat(whole)
    own = torch.zeros(4)
    dist.scatter(own, [x * 4, x * 5] if rank == second else None, src=second, group=pair)
    results["own"] = own * 1
    dist.barrier(group=pair)
    message = x * 6
    if rank == first:
        dist.send(message, dst=second, group=pair, tag=5)
    else:
        dist.recv(message, src=first, group=pair, tag=5)
    results["message"] = message * 1
    return results


def process(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29521")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    other = dist.new_group([0, 3])
    same = dist.new_group([0, 1])
    x = torch.arange(4.0) / 4 + rank + 1
    of_rank = (
        pairs[rank // 2],
        other if rank in (0, 3) else None,
        same if rank in (0, 1) else None,
    )
    record.record_call(
        FOLDER, lambda: program(rank, *of_rank, x), {"x": x}, note=NOTE, compress=True
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(process, nprocs=RANKS)
