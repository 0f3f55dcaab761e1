"""Counters, caches, flags, configurations: Python state that changes from call to call."""

import contextlib
import dataclasses
import enum
import random
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.compile_counts.program import Engine, Holder, program

STEP = 0
LOG: list[Any] = []


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclasses.dataclass
class Config:
    width: int = 4
    scale: float = 0.5
    name: str = "a"
    mode: Mode = Mode.FAST


@dataclasses.dataclass(frozen=True)
class Frozen:
    width: int = 4
    scale: float = 0.5


@program
def counter_without_tensors(e: Engine) -> Iterator[Any]:
    holder = Holder(n=0)

    @e.compile
    def count() -> Any:
        holder.n += 1
        return holder.n

    for _ in range(10):
        yield count()


@program
def log_that_grows(e: Engine) -> Iterator[Any]:
    log: list[Any] = []

    @e.compile
    def run(x: Tensor) -> Any:
        log.append(x.shape)
        return x.sin()

    for _ in range(10):
        yield run(torch.randn(4)), len(log)


@program
def flag_and_size(e: Engine) -> Iterator[Any]:
    holder = Holder(flag=None)

    @e.compile
    def run(c: Any, x: Tensor) -> Any:
        if c.flag is None:
            c.flag = "set"
        return x.sin()

    for n in (5, 6, 7, 8):
        yield run(holder, torch.randn(n)), holder.flag


@program
def lazily_made_buffer(e: Engine) -> Iterator[Any]:
    class Rope(nn.Module):
        table: Tensor | None = None

        def forward(self, x: Tensor) -> Any:
            if self.table is None:
                self.table = torch.arange(16.0)
            return x * self.table[: x.shape[0]]

    compiled = e.compile(Rope())
    for n in (5, 6, 7, 8, 9):
        yield compiled(torch.randn(n))


@program
def size_and_counter(e: Engine) -> Iterator[Any]:
    holder = Holder(step=0)

    @e.compile
    def run(x: Tensor) -> Any:
        holder.step += 1
        return x.sin() * holder.step

    for n in range(10):
        yield run(torch.randn(n + 3))


@program
def counter_in_attribute(e: Engine) -> Iterator[Any]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def forward(self, x: Tensor) -> Any:
            self.step += 1
            return x + 1

    compiled = e.compile(Model())
    for _ in range(10):
        yield compiled(torch.randn(4)), compiled.step


@program
def counter_in_global(e: Engine) -> Iterator[Any]:
    global STEP
    STEP = 0

    @e.compile
    def run(x: Tensor) -> Any:
        global STEP
        STEP += 1
        return x * STEP

    for _ in range(10):
        yield run(torch.randn(4)), STEP


@program
def counter_in_list(e: Engine) -> Iterator[Any]:
    steps = [0]

    @e.compile
    def run(x: Tensor) -> Any:
        steps[0] += 1
        return x * steps[0]

    for _ in range(10):
        yield run(torch.randn(4)), steps[0]


@program
def counter_in_dict(e: Engine) -> Iterator[Any]:
    stats: dict[str, int] = defaultdict(int)

    @e.compile
    def run(x: Tensor) -> Any:
        stats["calls"] += 1
        return x.sin()

    for _ in range(10):
        yield run(torch.randn(4)), stats["calls"]


@program
def counter_in_closure(e: Engine) -> Iterator[Any]:
    count = 0

    @e.compile
    def run(x: Tensor) -> Any:
        nonlocal count
        count += 1
        return x.sin() + count

    for _ in range(10):
        yield run(torch.randn(4)), count


@program
def every_third_step(e: Engine) -> Iterator[Any]:
    holder = Holder(step=0, logged=[])

    @e.compile
    def run(x: Tensor) -> Any:
        holder.step += 1
        if holder.step % 3 == 0:
            holder.logged.append(holder.step)
        return x.sin()

    for _ in range(15):
        yield run(torch.randn(4)), list(holder.logged)


@program
def warmup(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, step: int) -> Any:
        rate = min(1.0, (step + 1) / 5)
        return x * rate

    for n in range(15):
        yield run(torch.randn(4), n)


@program
def learning_rate_schedule(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(w: Tensor, g: Tensor, rate: float) -> Any:
        return w - rate * g

    for n in range(15):
        yield run(torch.randn(4), torch.randn(4), 0.1 * 0.9**n)


@program
def config_rebuilt(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, config: Config) -> Any:
        if config.mode is Mode.FAST:
            x = x * config.scale
        return x.view(-1, config.width)

    for _ in range(10):
        yield run(torch.randn(8), Config())


@program
def frozen_config_rebuilt(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, config: Frozen) -> Any:
        return (x * config.scale).view(-1, config.width)

    for _ in range(10):
        yield run(torch.randn(8), Frozen())


@program
def config_made_inside(e: Engine) -> Iterator[Any]:
    """torch gives up: a number that changes, in a text, makes it run further calls as they are."""

    @e.compile
    def run(x: Tensor, n: int) -> tuple[Tensor, Any]:
        config = Config(name=f"n{n}", width=4)
        return x.view(-1, config.width), config

    for n in range(10):
        yield run(torch.randn(8), n)[0]


@program
def unread_field_changes(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, config: Config) -> Any:
        return x * config.scale

    for n in range(10):
        yield run(torch.randn(8), Config(name=f"run {n}", width=n))


@program
def dict_rebuilt(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any]) -> dict[str, Tensor]:
        return {key: value * 2 for key, value in batch.items()}

    for _ in range(10):
        yield run({"x": torch.randn(4), "y": torch.randn(4)})


@program
def string_flag(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, mode: str) -> Any:
        return x.sin() if mode == "sin" else x.cos()

    for n in range(10):
        yield run(torch.randn(4), ("sin", "cos")[n % 2])


@program
def enum_flag(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, mode: Mode) -> Any:
        return x.sin() if mode is Mode.FAST else x.cos()

    for n in range(10):
        yield run(torch.randn(4), (Mode.FAST, Mode.SLOW)[n % 2])


@program
def f_string_keys(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(xs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {f"{key}_out": value.sin() for key, value in xs.items()}

    for _ in range(10):
        yield run({f"k{i}": torch.randn(4) for i in range(3)})


@program
def python_rng(e: Engine) -> Iterator[Any]:
    random.seed(0)

    @e.compile
    def run(x: Tensor) -> Any:
        return x * random.random()

    for _ in range(10):
        yield run(torch.randn(4))


@program
def python_rng_branch(e: Engine) -> Iterator[Any]:
    """Which way a random number goes is taken for granted twice, and then it is asked for."""
    random.seed(0)

    @e.compile
    def run(x: Tensor) -> Any:
        if random.random() < 0.5:
            return x.sin()
        return x.cos()

    for _ in range(10):
        yield run(torch.randn(4))


@program
def time_stamps(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor) -> tuple[Tensor, bool]:
        began = time.perf_counter()
        y = x.sin()
        return y, time.perf_counter() - began >= 0

    for _ in range(10):
        yield run(torch.randn(4))


@program
def cache_by_id(e: Engine) -> Iterator[Any]:
    cache: dict[int, Tensor] = {}

    @e.compile
    def run(x: Tensor, key: Any) -> Any:
        if id(key) not in cache:
            cache[id(key)] = x.sin()
        return cache[id(key)] + x

    keys = [object() for _ in range(3)]
    for n in range(9):
        yield run(torch.ones(4), keys[n % 3])


@program
def cache_by_size(e: Engine) -> Iterator[Any]:
    cache: dict[int, Tensor] = {}

    @e.compile
    def run(x: Tensor) -> Any:
        n = x.shape[0]
        if n not in cache:
            cache[n] = torch.arange(n).float()
        return x + cache[n]

    for n in range(10):
        yield run(torch.randn(3 + n % 3))


@program
def exceptions(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, n: int) -> Any:
        try:
            if n % 2:
                raise ValueError(n)
        except ValueError:
            x = x + 1
        return x.sin()

    for n in range(10):
        yield run(torch.randn(4), n)


@program
def context_manager(e: Engine) -> Iterator[Any]:
    depth = [0]

    @contextlib.contextmanager
    def scope() -> Iterator[None]:
        depth[0] += 1
        try:
            yield
        finally:
            depth[0] -= 1

    @e.compile
    def run(x: Tensor) -> Any:
        with scope():
            return x * depth[0]

    for _ in range(10):
        yield run(torch.randn(4))


@program
def deque_window(e: Engine) -> Iterator[Any]:
    window: deque[Tensor] = deque(maxlen=3)

    @e.compile
    def run(x: Tensor) -> Any:
        window.append(x.sin())
        return torch.stack(list(window)).mean(0)

    for _ in range(10):
        yield run(torch.randn(4))


@program
def none_or_tensor(e: Engine) -> Iterator[Any]:
    """torch gives up: a call without operators makes it run all further calls as they are."""

    @e.compile
    def run(x: Tensor, mask: Tensor | None = None) -> Any:
        return x if mask is None else x * mask

    for n in range(10):
        yield run(torch.randn(4), None if n % 2 else torch.ones(4))


@program
def objects_in_a_set(e: Engine) -> Iterator[Any]:
    seen: set[int] = set()

    @e.compile
    def run(x: Tensor, n: int) -> Any:
        if n in seen:
            return x.cos()
        seen.add(n)
        return x.sin()

    for n in range(10):
        yield run(torch.randn(4), n % 3)


@program
def object_made_per_call(e: Engine) -> Iterator[Any]:
    class Request:
        def __init__(self, x: Tensor, number: int) -> None:
            self.x = x
            self.number = number
            self.done = False

    @e.compile
    def run(request: Request) -> Any:
        request.done = True
        return request.x.sin()

    for n in range(10):
        yield run(Request(torch.randn(4), n))


@program
def metrics(e: Engine) -> Iterator[Any]:
    totals: dict[str, Any] = {"loss": 0.0, "count": 0}

    @e.compile
    def run(x: Tensor) -> Any:
        loss = x.square().mean()
        totals["loss"] = totals["loss"] + loss.detach()
        totals["count"] += x.shape[0]
        return loss

    for _ in range(10):
        yield run(torch.randn(4)), totals["count"]


@program
def lists_extended(e: Engine) -> Iterator[Any]:
    rows: list[Any] = []

    @e.compile
    def run(x: Tensor, n: int) -> Any:
        y = x.sin()
        rows.append({"step": n, "mean": y.mean()})
        return y

    for n in range(10):
        yield run(torch.randn(4), n), len(rows)
