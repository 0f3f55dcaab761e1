"""DTensor in two real processes (gloo): values, placements and gradients as in eager."""

import os
import socket
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

if not dist.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import stator

LIMIT = 120  # seconds


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _work(rank: int, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    weight = torch.randn(4, 6)
    x = torch.randn(3, 6)

    def layer(x: Any, weight: Any) -> Any:
        y = torch.nn.functional.linear(x, weight).redistribute(mesh, [Replicate()])
        return y.to_local().sin().sum()

    def summed(x: Any) -> Any:
        part = DTensor.from_local(x * (rank + 1), mesh, [Partial()])
        return part.full_tensor() + 1

    def gathered(a: Any) -> Any:
        return (a * 2).full_tensor()

    for backend in ("eager", "aot_eager"):
        found = []
        for function in (layer, stator.compile(layer, backend=backend, fullgraph=True)):
            w = distribute_tensor(weight, mesh, [Shard(0)]).requires_grad_()
            given = distribute_tensor(x, mesh, [Replicate()])
            losses = [function(given, w) for _ in range(2)]
            losses[-1].backward()
            found.append((losses[-1].detach(), w.grad.full_tensor(), w.grad.placements))
        assert torch.allclose(found[0][0], found[1][0])
        assert torch.allclose(found[0][1], found[1][1])
        assert found[0][2] == found[1][2]
        compiled: Any = stator.compile(summed, backend=backend, fullgraph=True)
        assert torch.allclose(compiled(x), 3 * x + 1)
        compiled = stator.compile(gathered, backend=backend, fullgraph=True)
        assert torch.allclose(compiled(distribute_tensor(weight, mesh, [Shard(0)])), weight * 2)
    dist.destroy_process_group()


def test_two_processes() -> None:
    context = mp.get_context("spawn")
    port = _port()
    workers = [context.Process(target=_work, args=(rank, port)) for rank in range(2)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join(LIMIT)
        assert [worker.exitcode for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()
                worker.join()
