"""DTensor in compiled code, in one process that takes itself for one of two."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

from tests.subclasses.compared import Counted, compared

if not dist.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import stator


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


def spread(mesh: Any, *shape: int, placement: Any = None, grad: bool = False) -> Any:
    made = distribute_tensor(torch.randn(*shape), mesh, [placement or Shard(0)])
    return made.requires_grad_(grad)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "mul": lambda mesh, a, b: a * 2,
    "add, sin": lambda mesh, a, b: (a + a).sin(),
    "matmul": lambda mesh, a, b: a @ b,
    "linear": lambda mesh, a, b: F.linear(b, a),
    "in place": lambda mesh, a, b: a.mul_(2),
    "to_local": lambda mesh, a, b: a.to_local() * 2,
    "redistribute": lambda mesh, a, b: a.redistribute(mesh, [Replicate()]) * 2,
    "redistribute without a mesh": lambda mesh, a, b: a.redistribute(placements=[Shard(1)]) + 1,
    "full_tensor": lambda mesh, a, b: a.full_tensor() * 2,
    "its parts": lambda mesh, a, b: (a * 2, a.placements, a.device_mesh.size(), a.device_mesh),
    "its placement": lambda mesh, a, b: a * 2 if a.placements[0].is_shard() else a * 3,
    "compared": lambda mesh, a, b: a * 2 if a.placements == (Shard(0),) else a * 3,
    "local": lambda mesh, a, b: a._local_tensor * 2,
    "from_local": lambda mesh, a, b: DTensor.from_local(a.to_local(), mesh, [Shard(0)]) * 2,
    "partial": lambda mesh, a, b: DTensor.from_local(b.to_local(), mesh, [Partial()]) * 2,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, backend: str, mesh: Any) -> None:
    def make() -> Any:
        return spread(mesh, 4, 4), spread(mesh, 4, 4, placement=Replicate())

    def program(a: Any, b: Any) -> Any:
        return PROGRAMS[name](mesh, a, b)

    assert compared(program, make, make, backend=backend) == [1, 1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend: str, mesh: Any) -> None:
    def make() -> Any:
        return spread(mesh, 4, 4, grad=True), spread(mesh, 4, 4)

    def local() -> Any:
        return (spread(mesh, 4, 4, grad=True),)

    assert compared(lambda a, b: (a * b).sum(), make, make, backend=backend) == [1, 1]
    assert compared(lambda a: a.to_local() * 2, local, local, backend=backend) == [1, 1]


def test_another_placement(mesh: Any) -> None:
    def make(placement: Any) -> Any:
        return lambda: (spread(mesh, 4, 4, placement=placement),)

    kinds = [make(each) for each in (Shard(0), Shard(1), Replicate(), Shard(0))]
    assert compared(lambda a: a * 2, *kinds) == [1, 2, 3, 3]


def test_other_sizes(mesh: Any) -> None:
    def make(size: int) -> Any:
        return lambda: (spread(mesh, size, 4),)

    sizes = [make(each) for each in (4, 8, 12, 16)]
    assert compared(lambda a: a * 2 + 1, *sizes, backend="aot_eager")[-1] <= 2


def test_distribute_tensor_breaks(mesh: Any) -> None:
    counted = Counted()

    @stator.compile(backend=counted)
    def program(x: Any) -> Any:
        return distribute_tensor(x * 2, mesh, [Shard(0)]) * 3

    x = torch.randn(4, 4)
    assert torch.equal(program(x).to_local(), (x * 6)[:2])
    assert len(counted.graphs) == 2
