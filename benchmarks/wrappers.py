"""What a call costs whose 200 parameters are tensors that hold tensors: guards and dispatch.

    python -m benchmarks.wrappers [KIND ...]

As in `benchmarks.calls`, the graph does nothing: the time is the front end's alone. Kinds: a class
of the tests with a number as metadata, torch's TwoTensor, DTensor. Each is measured in its own
process; the least of some rounds of CPU time counts, in µs per call.
"""

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

PARAMETERS: Final = 200
ROUNDS: Final = 7


def offset() -> Callable[[], Any]:
    from tests.subclasses.classes import Offset  # noqa: PLC0415

    return lambda: Offset(torch.randn(4, 4), 1.0)  # type: ignore[no-untyped-call, unused-ignore]


def two() -> Callable[[], Any]:
    from torch.testing._internal.two_tensor import TwoTensor  # noqa: PLC0415

    return lambda: TwoTensor(torch.randn(4, 4), torch.randn(4, 4))  # type: ignore[no-untyped-call, unused-ignore]


def distributed() -> Callable[[], Any]:
    import torch.distributed as dist  # noqa: PLC0415
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.tensor import Shard, distribute_tensor  # noqa: PLC0415
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    return lambda: distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])


KINDS: Final = {"offset": offset, "two": two, "dtensor": distributed}


class Sum(nn.Module):
    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(make()) for _ in range(PARAMETERS)])

    def forward(self, x: Tensor) -> Any:
        for weight in self.weights:
            x = x + weight
        return x


def preset(module: Any, inputs: Any) -> Any:
    """A backend whose graphs answer what they did in their first call."""
    known: list[Any] = []

    def run(*given: Any) -> Any:
        if not known:
            known.append(module.forward(*given))
        return known[0]

    return run


def measured(compiled: Any, x: Any, calls: int) -> float:
    with torch.no_grad():
        compiled(x)
        compiled(x)
        found = []
        for _ in range(ROUNDS):
            start = time.process_time()
            for _ in range(calls):
                compiled(x)
            found.append((time.process_time() - start) / calls * 1e6)
    return min(found)


def main(kind: str) -> None:
    import stator  # noqa: PLC0415

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    make = KINDS[kind]()
    model, x = Sum(make), make()
    ours = measured(stator.compile(model, backend=preset), x, 200)
    theirs = measured(torch.compile(model, backend=preset), x, 20)
    print(
        f"{kind:10} stator {ours:8.1f} µs   torch.compile {theirs:8.1f} µs   1/{theirs / ours:.0f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        main(sys.argv[2])
    else:
        for each in sys.argv[1:] or KINDS:
            subprocess.run([sys.executable, "-m", "benchmarks.wrappers", "--one", each], check=True)
