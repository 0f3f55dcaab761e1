"""One rank that does something else: `python -m tests.distributed.faults NAME ROUNDS`.

Prints what each round has come to on this rank. The rounds are different functions of one process.
"""

import importlib
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import stator

compiled = stator.compile(backend="eager")


def group() -> Any:
    return dist.group.WORLD


def agrees() -> Any:
    @compiled
    def program(x: torch.Tensor) -> Any:
        dist.all_reduce(x)
        return x + 1

    return program(torch.ones(3))


def branches() -> Any:
    @compiled
    def program(x: torch.Tensor) -> Any:
        if x.sum() > 3:
            return functional.all_reduce(x, "sum", group()) + 1
        return functional.all_reduce(x * 2, "max", group())

    return program(torch.ones(3) * (dist.get_rank() + 1))


def stays_away() -> Any:
    @compiled
    def program(x: torch.Tensor) -> Any:
        if x.sum() > 3:
            return functional.all_reduce(x, "sum", group()) + 1
        return x * 2

    return program(torch.ones(3) * (dist.get_rank() + 1))


def another_shape() -> Any:
    @compiled
    def program(x: torch.Tensor) -> Any:
        return functional.all_reduce(x, "sum", group()) + 1

    return program(torch.ones(3 + dist.get_rank()))


def raises() -> Any:
    @compiled
    def program(x: torch.Tensor) -> Any:
        if dist.get_rank() == 1:
            raise ValueError("mine")
        return functional.all_reduce(x, "sum", group()) + 1

    return program(torch.ones(3))


def dies() -> Any:
    def backend(module: Any, inputs: Any) -> Any:
        return module

    @stator.compile(backend=backend)
    def program(x: torch.Tensor, y: Any) -> Any:
        return functional.all_reduce(x + y, "sum", group()) + 1

    if dist.get_rank() == 1:
        from stator.driver import ranks  # noqa: PLC0415 - in the middle of a compile

        def die(*args: Any) -> Any:
            os.kill(os.getpid(), signal.SIGKILL)

        ranks.captured = die  # type: ignore[assignment]
    return program(torch.ones(3), 1)


def recompiles_alone() -> Any:
    @compiled
    def program(x: torch.Tensor, flag: bool) -> Any:
        if flag:
            return functional.all_reduce(x, "max", group())
        return functional.all_reduce(x, "sum", group()) + 1

    program(torch.ones(3), False)
    return program(torch.ones(3), dist.get_rank() == 0)


def recompiles_alone_and_communicates_alike() -> Any:
    @compiled
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return functional.all_reduce(x, "sum", group()) + y.sum()

    found = [program(torch.ones(3), torch.ones(2 + k * dist.get_rank())) for k in range(3)]
    return found[-1]


def changes_other_sizes() -> Any:
    @compiled
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return functional.all_reduce(x.sum(0), "sum", group()) + y.sum()

    first = dist.get_rank() == 0
    program(torch.ones(3, 2), torch.ones(3))
    program(torch.ones(4 if first else 3, 2), torch.ones(3 if first else 4))
    program(torch.ones(7, 2), torch.ones(9))
    return program(torch.ones(6, 2), torch.ones(8))


def saves_alone() -> Any:
    """One writes files for longer than the others wait for one that stands somewhere."""
    files: Any = importlib.import_module("torch.distributed.checkpoint")

    class Slow(files.FileSystemWriter):  # type: ignore[misc]
        def write_data(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(9)
            return super().write_data(*args, **kwargs)

    agrees()
    if dist.get_rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            files.save({"a": torch.ones(3)}, storage_writer=Slow(folder), no_dist=True)
    return agrees()


def evaluates_alone() -> Any:
    """One runs the function for a while in a way in which it does not communicate."""

    @compiled
    def program(x: torch.Tensor, alone: bool) -> Any:
        return x + 1 if alone else functional.all_reduce(x, "max", group()) + 1

    if dist.get_rank() == 0:
        program(torch.ones(3), True)
        time.sleep(9)
    return program(torch.ones(3), False)


def waits_for_a_third() -> Any:
    """One comes late, since it stands in a collective with a rank that comes later still."""
    first, pair = dist.new_group([0, 1]), dist.new_group([0, 2])
    agrees()

    @compiled
    def program(x: torch.Tensor) -> Any:
        return functional.all_reduce(x, "max", first) + 1

    if dist.get_rank() == 2:
        time.sleep(9)
    if dist.get_rank() != 1:
        dist.all_reduce(torch.ones(3), group=pair)
    return program(torch.ones(3)) if dist.get_rank() != 2 else torch.ones(3) + 1


def main() -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    case: Callable[[], Any] = globals()[sys.argv[1]]
    began = time.monotonic()
    for _ in range(int(sys.argv[2])):
        stator.reset()
        try:
            told = f"right {case().tolist()}"
        except Exception as error:
            told = f"{type(error).__name__} {error}"
        print(f"ROUND {told}", flush=True)
    print(f"SECONDS {time.monotonic() - began:.1f}", flush=True)


if __name__ == "__main__":
    main()
