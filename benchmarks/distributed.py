"""Programs of several processes under torch.compile and stator: `python -m benchmarks.distributed`.

Each cell is a run of two processes over gloo (`--ranks`), ten steps of training: graphs,
breaks and recompiles on rank 0, seconds to the end of the first step, milliseconds per step (the
median of the last five), and whether losses and parameters are those of eager, bit by bit.

`--worker` is what each of the processes is called with.
"""

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = (
    "ddp",
    "ddp around",
    "fsdp blocks",
    "fsdp whole",
    "fsdp checkpoint",
    "collectives",
)
STEPS: Final = 10


def run(program: str, engine: str, backend: str, ranks: int, limit: float) -> dict[str, Any]:
    """One cell: what rank 0 tells."""
    from tests.distributed.processes import run as run_ranks  # noqa: PLC0415

    command = ["-m", "benchmarks.distributed", "--worker", program, engine, backend]
    found = run_ranks(command, ranks, limit, STATOR_STRICT="0")
    for line in found[0].output.splitlines():
        if line.startswith("CELL "):
            made: dict[str, Any] = json.loads(line.removeprefix("CELL "))
            return made
    return {"failed": found[0].output.strip().splitlines()[-1:] or ["it hangs"]}


# ---------------------------------------------------------------------- in a process


def build(program: str, compiled: Callable[[Any], Any], in_place: Callable[[Any], Any]) -> Any:
    """The model, spread over the processes and compiled."""
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415
    from torch.nn.parallel import DistributedDataParallel  # noqa: PLC0415

    from tests.distributed.training import model  # noqa: PLC0415

    made = model(layers=6, size=64, checkpointed=program == "fsdp checkpoint", statistics=False)
    if program == "ddp":
        return DistributedDataParallel(compiled(made))
    if program == "ddp around":
        return compiled(DistributedDataParallel(made))
    if program == "collectives":
        return compiled(made)
    for block in made.blocks:
        fully_shard(block)
        if program != "fsdp whole":
            in_place(block)
    fully_shard(made)
    return compiled(made) if program == "fsdp whole" else made


def train(program: str, made: Any, average: Callable[[Any], None]) -> tuple[list[float], list[Any]]:
    """Seconds of each step, and what there is to compare."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    from tests.distributed.training import plain  # noqa: PLC0415

    optimizer = torch.optim.SGD(made.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    seconds, seen = [], []
    for _ in range(STEPS):
        x = torch.randn(32, 64, generator=generator)
        dist.barrier()
        began = time.perf_counter()
        loss = made(x).pow(2).mean()
        loss.backward()
        if program == "collectives":
            average(made)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
        seen.append(plain(loss))
    return seconds, [*seen, *map(plain, made.parameters())]


def _average(made: Any) -> None:
    """The gradients of all ranks."""
    import torch.distributed as dist  # noqa: PLC0415

    for each in made.parameters():
        if each.grad is not None:
            dist.all_reduce(each.grad)
            each.grad /= dist.get_world_size()


def work(program: str, engine: str, backend: str) -> None:
    """One process."""
    warnings.simplefilter("ignore")
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    expected = train(program, build(program, lambda m: m, lambda m: m), _average)[1]
    told: Callable[[], dict[str, Any]]
    if engine == "stator":
        import stator  # noqa: PLC0415

        def compiled(target: Any) -> Any:
            return stator.compile(target, backend=backend)

        def in_place(module: Any) -> Any:
            return stator.compile_module_(module, backend=backend)

        def told() -> dict[str, Any]:
            found = stator.counters()
            names = ("unique_graphs", "graph_breaks", "recompiles")
            return dict(zip(("graphs", "breaks", "recompiles"), map(found.get, names), strict=True))

    elif engine == "torch":

        def compiled(target: Any) -> Any:
            return torch.compile(target, backend=backend)

        def in_place(module: Any) -> Any:
            return module.compile(backend=backend)

        def told() -> dict[str, Any]:
            utils = sys.modules["torch._dynamo.utils"]
            again = sum(each > 0 for each in _compiles_of_frames(utils))
            return {
                "graphs": utils.counters["stats"]["unique_graphs"],
                "breaks": sum(utils.counters["graph_break"].values()),
                "recompiles": again,
            }

    else:

        def compiled(target: Any) -> Any:
            return target

        in_place = compiled

        def told() -> dict[str, Any]:
            return {}

    began = time.perf_counter()
    made = build(program, compiled, in_place)
    built = time.perf_counter() - began
    seconds, found = train(program, made, compiled(_average) if engine != "eager" else _average)
    same = all(map(torch.equal, found, expected))
    apart = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
    if dist.get_rank() == 0:
        cell = {
            **told(),
            "first": built + seconds[0],
            "step": 1000 * statistics.median(seconds[-5:]),
            "same": same,
            "apart": apart,
        }
        print("CELL " + json.dumps(cell), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def _compiles_of_frames(utils: Any) -> list[int]:
    """How often each frame that Dynamo knows was compiled again."""
    metrics = utils.get_compilation_metrics()
    return [
        int(each.co_name is not None and str(each.compile_id).split("/")[-1] != "0")
        for each in metrics
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", nargs=3)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=240)
    given = parser.parse_args()
    if given.worker:
        work(*given.worker)
        return
    print(f"{given.ranks} ranks, backend {given.backend}, {STEPS} steps")
    print(
        "| program | engine | graphs | breaks | recompiles | first step, s | step, ms | as eager |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for program in PROGRAMS:
        if given.only and given.only not in program:
            continue
        for engine in ("eager", "torch", "stator"):
            cell = run(program, engine, given.backend, given.ranks, given.limit)
            if "failed" in cell:
                print(f"| {program} | {engine} | {cell['failed']} |")
                continue
            counts = " | ".join(str(cell.get(n, "")) for n in ("graphs", "breaks", "recompiles"))
            same = "the same" if cell["same"] else f"within {cell['apart']:.1e}"
            print(
                f"| {program} | {engine} | {counts} | {cell['first']:.2f} | {cell['step']:.1f} "
                f"| {same} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
