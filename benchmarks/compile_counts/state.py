"""Counters, caches, flags, configurations: Python state that changes from call to call."""

import contextlib
import dataclasses
import enum
import random
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.compile_counts.program import Engine, program

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


class Pair(NamedTuple):
    a: Tensor
    n: int


class Holder:
    """An object with attributes."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@program
def stored_in_an_attribute(e: Engine) -> Iterator[Any]:
    holder = Holder()

    @e.compile
    def run(x: Tensor, tag: str) -> Tensor:
        holder.tag = tag
        return x.sin()

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}"), holder.tag


@program
def stored_in_a_list(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, tag: str) -> tuple[Tensor, list[Any]]:
        return x.sin(), [tag, 1]

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")


@program
def stored_in_a_dict(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, tag: str) -> dict[str, Any]:
        return {"out": x.sin(), "tag": tag}

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")


@program
def returned(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, meta: Any) -> tuple[Tensor, Any]:
        return x.sin(), meta

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")


@program
def attribute_returned(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: Any) -> tuple[Tensor, Any]:
        return batch.x.sin(), batch.tag

    for n in range(10):
        yield run(Holder(x=torch.randn(4), tag=f"tag {n}"))


@program
def dict_value_returned(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any]) -> tuple[Tensor, Any]:
        return batch["x"].sin(), batch["tag"]

    for n in range(10):
        yield run({"x": torch.randn(4), "tag": f"tag {n}"})


@program
def forwarded_to_disabled(e: Engine) -> Iterator[Any]:
    notes: list[Any] = []

    @e.disable
    def note(tag: str) -> None:
        notes.append(tag)

    @e.compile
    def run(x: Tensor, tag: str) -> Tensor:
        x = x.sin()
        note(tag)
        return x.cos()

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")
    yield notes


@program
def attribute_forwarded(e: Engine) -> Iterator[Any]:
    notes: list[Any] = []

    @e.disable
    def note(tag: str) -> None:
        notes.append(tag)

    @e.compile
    def run(batch: Any) -> Tensor:
        x = batch.x.sin()
        note(batch.tag)
        return x.cos()

    for n in range(10):
        yield run(Holder(x=torch.randn(4), tag=f"tag {n}"))
    yield notes


@program
def without_tensors(e: Engine) -> Iterator[Any]:
    seen: list[Any] = []

    @e.compile
    def note(tag: str) -> None:
        seen.append(tag)

    for n in range(10):
        yield note(f"tag {n}")
    yield seen


@program
def counter_without_tensors(e: Engine) -> Iterator[Any]:
    holder = Holder(n=0)

    @e.compile
    def count() -> int:
        holder.n += 1
        return holder.n

    for _ in range(10):
        yield count()


@program
def passed_to_a_helper(e: Engine) -> Iterator[Any]:
    def helper(x: Tensor, tag: str, log: list[str]) -> Tensor:
        log.append(tag)
        return x.sin()

    @e.compile
    def run(x: Tensor, tag: str, log: list[str]) -> Tensor:
        return helper(x, tag=tag, log=log)

    log: list[str] = []
    for n in range(10):
        log.clear()
        yield run(torch.randn(4), f"tag {n}", log), list(log)


@program
def log_that_grows(e: Engine) -> Iterator[Any]:
    log: list[Any] = []

    @e.compile
    def run(x: Tensor) -> Tensor:
        log.append(x.shape)
        return x.sin()

    for _ in range(10):
        yield run(torch.randn(4)), len(log)


@program
def flag_and_size(e: Engine) -> Iterator[Any]:
    holder = Holder(flag=None)

    @e.compile
    def run(c: Any, x: Tensor) -> Tensor:
        if c.flag is None:
            c.flag = "set"
        return x.sin()

    for n in (5, 6, 7, 8):
        yield run(holder, torch.randn(n)), holder.flag


@program
def lazily_made_buffer(e: Engine) -> Iterator[Any]:
    class Rope(nn.Module):
        table: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
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
    def run(x: Tensor) -> Tensor:
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

        def forward(self, x: Tensor) -> Tensor:
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
    def run(x: Tensor) -> Tensor:
        global STEP
        STEP += 1
        return x * STEP

    for _ in range(10):
        yield run(torch.randn(4)), STEP


@program
def counter_in_list(e: Engine) -> Iterator[Any]:
    steps = [0]

    @e.compile
    def run(x: Tensor) -> Tensor:
        steps[0] += 1
        return x * steps[0]

    for _ in range(10):
        yield run(torch.randn(4)), steps[0]


@program
def counter_in_dict(e: Engine) -> Iterator[Any]:
    stats: dict[str, int] = defaultdict(int)

    @e.compile
    def run(x: Tensor) -> Tensor:
        stats["calls"] += 1
        return x.sin()

    for _ in range(10):
        yield run(torch.randn(4)), stats["calls"]


@program
def counter_in_closure(e: Engine) -> Iterator[Any]:
    count = 0

    @e.compile
    def run(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return x.sin() + count

    for _ in range(10):
        yield run(torch.randn(4)), count


@program
def every_third_step(e: Engine) -> Iterator[Any]:
    holder = Holder(step=0, logged=[])

    @e.compile
    def run(x: Tensor) -> Tensor:
        holder.step += 1
        if holder.step % 3 == 0:
            holder.logged.append(holder.step)
        return x.sin()

    for _ in range(15):
        yield run(torch.randn(4)), list(holder.logged)


@program
def warmup(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, step: int) -> Tensor:
        rate = min(1.0, (step + 1) / 5)
        return x * rate

    for n in range(15):
        yield run(torch.randn(4), n)


@program
def learning_rate_schedule(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(w: Tensor, g: Tensor, rate: float) -> Tensor:
        return w - rate * g

    for n in range(15):
        yield run(torch.randn(4), torch.randn(4), 0.1 * 0.9**n)


@program
def config_rebuilt(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, config: Config) -> Tensor:
        if config.mode is Mode.FAST:
            x = x * config.scale
        return x.view(-1, config.width)

    for _ in range(10):
        yield run(torch.randn(8), Config())


@program
def frozen_config_rebuilt(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, config: Frozen) -> Tensor:
        return (x * config.scale).view(-1, config.width)

    for _ in range(10):
        yield run(torch.randn(8), Frozen())


@program
def config_made_inside(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, n: int) -> tuple[Tensor, Any]:
        config = Config(name=f"n{n}", width=4)
        return x.view(-1, config.width), config

    for n in range(10):
        yield run(torch.randn(8), n)[0]


@program
def unread_field_changes(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, config: Config) -> Tensor:
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
def dict_with_an_id(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any]) -> dict[str, Any]:
        out = dict(batch)
        out["x"] = batch["x"].sin()
        return out

    for n in range(10):
        yield run({"x": torch.randn(4), "id": f"sample {n}"})


@program
def dict_merged(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        return {**batch, **extra, "x": batch["x"].sin()}

    for n in range(10):
        yield run({"x": torch.randn(4)}, {"epoch": n, "tag": f"t{n}"})


@program
def kwargs_forwarded(e: Engine) -> Iterator[Any]:
    def inner(x: Tensor, **kwargs: Any) -> tuple[Tensor, Any]:
        return x.sin(), kwargs

    @e.compile
    def run(x: Tensor, **kwargs: Any) -> Any:
        return inner(x, **kwargs)

    for n in range(10):
        yield run(torch.randn(4), tag=f"t{n}", name="x")


@program
def list_of_strings_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, names: list[str]) -> tuple[Tensor, list[str]]:
        return x.sin(), names

    for n in range(10):
        yield run(torch.randn(4), [f"a{n}", f"b{n}"])


@program
def tuple_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, meta: tuple[Any, ...]) -> tuple[Tensor, Any]:
        return x.sin(), meta

    for n in range(10):
        yield run(torch.randn(4), (f"a{n}", n, None))


@program
def named_tuple_fields(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(pair: Pair) -> Pair:
        return Pair(pair.a.sin(), pair.n)

    for n in range(10):
        yield run(Pair(torch.randn(4), n))


@program
def namespace_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(ns: SimpleNamespace) -> SimpleNamespace:
        ns.out = ns.x.sin()
        return ns

    for n in range(10):
        yield run(SimpleNamespace(x=torch.randn(4), tag=f"t{n}")).out


@program
def string_flag(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, mode: str) -> Tensor:
        return x.sin() if mode == "sin" else x.cos()

    for n in range(10):
        yield run(torch.randn(4), ("sin", "cos")[n % 2])


@program
def enum_flag(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, mode: Mode) -> Tensor:
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
def string_built(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, n: int) -> tuple[Tensor, str]:
        return x.sin(), f"step {n}"

    for n in range(10):
        yield run(torch.randn(4), n)


@program
def python_rng(e: Engine) -> Iterator[Any]:
    random.seed(0)

    @e.compile
    def run(x: Tensor) -> Tensor:
        return x * random.random()

    for _ in range(10):
        yield run(torch.randn(4))


@program
def python_rng_branch(e: Engine) -> Iterator[Any]:
    random.seed(0)

    @e.compile
    def run(x: Tensor) -> Tensor:
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
    def run(x: Tensor, key: Any) -> Tensor:
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
    def run(x: Tensor) -> Tensor:
        n = x.shape[0]
        if n not in cache:
            cache[n] = torch.arange(n).float()
        return x + cache[n]

    for n in range(10):
        yield run(torch.randn(3 + n % 3))


@program
def exceptions(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, n: int) -> Tensor:
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
    def run(x: Tensor) -> Tensor:
        with scope():
            return x * depth[0]

    for _ in range(10):
        yield run(torch.randn(4))


@program
def deque_window(e: Engine) -> Iterator[Any]:
    window: deque[Tensor] = deque(maxlen=3)

    @e.compile
    def run(x: Tensor) -> Tensor:
        window.append(x.sin())
        return torch.stack(list(window)).mean(0)

    for _ in range(10):
        yield run(torch.randn(4))


@program
def ordered_outputs(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, epoch: int) -> Any:
        return OrderedDict(x=x.sin(), epoch=epoch)

    for n in range(10):
        yield run(torch.randn(4), n)


@program
def none_or_tensor(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x if mask is None else x * mask

    for n in range(10):
        yield run(torch.randn(4), None if n % 2 else torch.ones(4))


@program
def objects_in_a_set(e: Engine) -> Iterator[Any]:
    seen: set[int] = set()

    @e.compile
    def run(x: Tensor, n: int) -> Tensor:
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
    def run(request: Request) -> Tensor:
        request.done = True
        return request.x.sin()

    for n in range(10):
        yield run(Request(torch.randn(4), n))


@program
def metrics(e: Engine) -> Iterator[Any]:
    totals: dict[str, Any] = {"loss": 0.0, "count": 0}

    @e.compile
    def run(x: Tensor) -> Tensor:
        loss = x.square().mean()
        totals["loss"] = totals["loss"] + loss.detach()
        totals["count"] += x.shape[0]
        return loss

    for _ in range(10):
        yield run(torch.randn(4)), totals["count"]


@program
def path_remembered(e: Engine) -> Iterator[Any]:
    holder = Holder(last=None)

    @e.compile
    def run(x: Tensor, name: str) -> Tensor:
        holder.previous = holder.last
        holder.last = name
        return x.sin()

    for n in range(10):
        yield run(torch.randn(4), f"n{n}"), holder.previous


@program
def lists_extended(e: Engine) -> Iterator[Any]:
    rows: list[Any] = []

    @e.compile
    def run(x: Tensor, n: int) -> Tensor:
        y = x.sin()
        rows.append({"step": n, "mean": y.mean()})
        return y

    for n in range(10):
        yield run(torch.randn(4), n), len(rows)
