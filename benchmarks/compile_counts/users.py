"""What people write around a compiled step: schedules, counters, caches, modes, new objects."""

import dataclasses
import enum
import functools
import math
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from benchmarks.compile_counts.program import Engine, Holder, program


class Phase(enum.IntEnum):
    WARMUP = 0
    MAIN = 1


class Flags(enum.Flag):
    NORM = enum.auto()
    SCALE = enum.auto()


@dataclasses.dataclass
class Settings:
    mode: str = "train"
    dropout: float = 0.0
    sizes: tuple[int, ...] = (2, 4)
    tags: dict[str, Any] = dataclasses.field(default_factory=dict)


class Counter(nn.Module):
    """Counts its calls on itself, and keeps a log."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0
        self.log: list[Any] = []
        self.last: Any = None
        self.total: Any = 0.0

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.linear(x)


@program
def cosine_schedule(e: Engine) -> Iterator[Any]:
    @e.compile
    def step(weight: Tensor, gradient: Tensor, rate: float) -> Tensor:
        return weight - rate * gradient

    weight = torch.ones(4)
    for n in range(12):
        rate = 0.5 * (1 + math.cos(math.pi * n / 12))
        weight = step(weight, torch.ones(4), rate)
        yield weight


@program
def schedule_inside(e: Engine) -> Iterator[Any]:
    @e.compile
    def step(weight: Tensor, n: int) -> Tensor:
        rate = 0.1 * min(1.0, (n + 1) / 5)
        return weight - rate * weight

    weight = torch.ones(4)
    for n in range(10):
        weight = step(weight, n)
        yield weight


@program
def calls_counted_on_self(e: Engine) -> Iterator[Any]:
    model = Counter()
    compiled = e.compile(model)
    for _ in range(10):
        yield compiled(torch.randn(2, 4)), model.calls


@program
def batch_and_counter(e: Engine) -> Iterator[Any]:
    model = Counter()
    compiled = e.compile(model)
    for n in range(10):
        yield compiled(torch.randn(2 + n, 4)), model.calls


@program
def loss_summed_on_self(e: Engine) -> Iterator[Any]:
    model = Counter()

    @e.compile
    def step(x: Tensor) -> Any:
        loss = model.linear(x).square().mean()
        model.total = model.total + loss.detach()
        return loss

    for n in range(8):
        yield step(torch.randn(2 + n, 4)), model.total


@program
def last_batch_kept(e: Engine) -> Iterator[Any]:
    model = Counter()

    @e.compile
    def step(x: Tensor) -> Any:
        y = model.linear(x)
        if model.last is not None:
            y = y + model.last.mean()
        model.last = y.detach()
        return y

    for n in range(8):
        yield step(torch.randn(2 + n % 3, 4))


@program
def key_value_cache(e: Engine) -> Iterator[Any]:
    @e.compile
    def decode(x: Tensor, cache: dict[str, Any]) -> Any:
        if cache["k"] is None:
            cache["k"] = x
        else:
            cache["k"] = torch.cat([cache["k"], x], 0)
        return x @ cache["k"].T.sum(1)

    cache: dict[str, Any] = {"k": None}
    for _ in range(8):
        yield decode(torch.randn(1, 4), cache)


@program
def cache_of_layers(e: Engine) -> Iterator[Any]:
    @e.compile
    def decode(x: Tensor, past: Any) -> Any:
        present = []
        for layer in range(2):
            held = past[layer] if past is not None else None
            keys = x if held is None else torch.cat([held, x], 1)
            present.append(keys)
            x = x + keys.mean(1, keepdim=True)
        return x, tuple(present)

    past = None
    for _ in range(8):
        x, past = decode(torch.randn(2, 1, 4), past)
        yield x


@program
def position_passed(e: Engine) -> Iterator[Any]:
    cache = torch.zeros(16, 4)

    @e.compile
    def decode(x: Tensor, position: int) -> Tensor:
        cache[position] = x
        return cache[: position + 1].sum(0)

    for n in range(10):
        yield decode(torch.randn(4), n)


@program
def mode_strings(e: Engine) -> Iterator[Any]:
    @e.compile
    def pooled(x: Tensor, mode: str) -> Tensor:
        if mode == "mean":
            return x.mean(0)
        if mode == "max":
            return x.amax(0)
        raise ValueError(f"unknown mode {mode}")

    for n in range(9):
        yield pooled(torch.randn(2 + n, 4), ("mean", "max")[n % 2])


@program
def enums_and_sizes(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, phase: Phase, flags: Flags) -> Tensor:
        if phase == Phase.WARMUP:
            x = x * 0.1
        if Flags.NORM in flags:
            x = F.normalize(x, dim=-1)
        return x

    for n in range(9):
        flags = Flags.NORM if n % 2 else Flags.NORM | Flags.SCALE
        yield run(torch.randn(2 + n, 4), Phase(int(n > 4)), flags)


@program
def settings_rebuilt(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, settings: Settings) -> Tensor:
        x = F.dropout(x, settings.dropout, settings.mode == "train")
        return x.view(*settings.sizes)

    for n in range(8):
        yield run(torch.randn(8), Settings(tags={"epoch": n}))


@program
def settings_replaced(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, settings: Settings) -> Any:
        return x * 2, dataclasses.replace(settings, tags={"seen": settings.mode})

    for n in range(8):
        yield run(torch.randn(8), Settings(mode=f"m{n}"))[1].tags


@program
def log_by_name(e: Engine) -> Iterator[Any]:
    logs: defaultdict[str, list[Any]] = defaultdict(list)

    @e.compile
    def run(x: Tensor, name: str) -> Tensor:
        y = x.sin()
        logs[name].append(y.mean())
        return y

    for n in range(9):
        yield run(torch.randn(4), ("train", "test")[n % 2]), len(logs)


@program
def log_of_numbers(e: Engine) -> Iterator[Any]:
    """torch gives up: a number that changes, in a text, makes it run further calls as they are."""
    history: list[dict[str, Any]] = []

    @e.compile
    def run(x: Tensor, epoch: int, rate: float) -> Tensor:
        y = x * 2
        history.append({"epoch": epoch, "rate": rate, "text": f"epoch {epoch}"})
        return y

    for n in range(9):
        yield run(torch.randn(4), n, 0.1 / (n + 1)), history[-1]


@program
def closure_per_call(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        return function(x) + 1

    for n in range(9):
        scale = float(n)

        def scaled(x: Tensor, scale: float = scale) -> Tensor:
            return x * scale

        yield run(torch.randn(4), scaled)


@program
def partial_per_call(e: Engine) -> Iterator[Any]:
    def scaled(x: Tensor, scale: float) -> Tensor:
        return x * scale

    @e.compile
    def run(x: Tensor, function: Any) -> Any:
        return function(x) + 1

    for n in range(9):
        yield run(torch.randn(4), functools.partial(scaled, scale=n / 2))


@program
def loss_functions(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, y: Tensor, criterion: Any) -> Tensor:
        loss: Tensor = criterion(x, y)
        return loss

    for n in range(9):
        criterion = nn.MSELoss() if n % 2 else F.l1_loss
        yield run(torch.randn(3 + n, 4), torch.randn(3 + n, 4), criterion)


@program
def models_made_anew(e: Engine) -> Iterator[Any]:
    for n in range(6):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1 + n % 2))
        yield e.compile(model)(torch.randn(3, 4))


@program
def tuple_of_sizes(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, size: tuple[int, int]) -> Tensor:
        return F.interpolate(x, size=size)

    for n in range(8):
        yield run(torch.randn(1, 2, 4, 4), (4 + n, 5 + n))


@program
def list_of_splits(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, sizes: list[int]) -> Any:
        return [part.sum() for part in torch.split(x, sizes)]

    for n in range(2, 10):
        yield run(torch.randn(n + 3), [n, 3])


@program
def state_none_first(e: Engine) -> Iterator[Any]:
    @e.compile
    def cell(x: Tensor, state: Tensor | None) -> Any:
        if state is None:
            state = torch.zeros_like(x)
        state = torch.tanh(x + state)
        return state * 2, state

    state = None
    for n in range(8):
        if n == 4:
            state = None
        out, state = cell(torch.randn(2, 3), state)
        yield out


@program
def running_average(e: Engine) -> Iterator[Any]:
    holder = Holder(last=None, n=0)

    @e.compile
    def update(x: Tensor) -> Any:
        mean = x.mean(0)
        holder.last = mean if holder.last is None else holder.last * 0.9 + mean * 0.1
        holder.n += x.shape[0]
        return x - holder.last

    for n in range(8):
        yield update(torch.randn(2 + n, 4)), holder.n


@program
def window_of_losses(e: Engine) -> Iterator[Any]:
    window: deque[Any] = deque(maxlen=3)

    @e.compile
    def run(x: Tensor) -> Tensor:
        window.append(x.square().mean())
        return sum(window, torch.zeros(())) / len(window)

    for _ in range(8):
        yield run(torch.randn(4))


@program
def epoch_and_batch(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, epoch: int, batch: int) -> Tensor:
        return x * (0.9**epoch) if batch % 2 == 0 else x + epoch

    for n in range(12):
        yield run(torch.randn(4), n // 4, n % 4)


@program
def last_batch_is_smaller(e: Engine) -> Iterator[Any]:
    model = Counter()
    compiled = e.compile(model)
    for epoch in range(3):
        model.train(epoch % 2 == 0)
        for size in (8, 8, 8, 5):
            yield compiled(torch.randn(size, 4))


@program
def train_and_validate(e: Engine) -> Iterator[Any]:
    """Each mode is compiled for its own sizes first, which torch leaves open for the second.

    A model that is trained with batches of 32 and evaluated with batches of 64 has two static
    graphs, where torch's second one is dynamic. Where both vary, that is one graph more.
    """
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0))
    compiled = e.compile(model)
    for n in range(6):
        model.train()
        yield compiled(torch.randn(4 + n, 4)).detach()
        model.eval()
        with torch.no_grad():
            yield compiled(torch.randn(8 + n, 4))


@program
def registry_that_grows(e: Engine) -> Iterator[Any]:
    registry: dict[str, Any] = {"a": torch.sin}

    @e.compile
    def run(x: Tensor, name: str) -> Tensor:
        result: Tensor = registry[name](x)
        return result

    for n in range(8):
        registry[f"f{n}"] = torch.cos
        yield run(torch.randn(4), "a")


@program
def warned_once(e: Engine) -> Iterator[Any]:
    holder = Holder(flag=False)

    @e.compile
    def run(x: Tensor) -> Tensor:
        if not holder.flag:
            holder.flag = True
            warnings.warn("once", stacklevel=1)
        return x * 2

    for n in range(6):
        yield run(torch.randn(4 + n))


@program
def outputs_in_a_class(e: Engine) -> Iterator[Any]:
    class Output(OrderedDict[str, Any]):
        pass

    @e.compile
    def run(x: Tensor, step: int, tag: str) -> Output:
        return Output(logits=x * 2, step=step, tag=tag)

    for n in range(8):
        yield dict(run(torch.randn(4), n, f"t{n}"))


@program
def gradient_scale_halves(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, scale: float, step: int) -> Any:
        if step % 3 == 2:
            scale = scale / 2
        return x * scale, scale

    scale = 1024.0
    for n in range(9):
        y, scale = run(torch.randn(4), scale, n)
        yield y


@program
def names_of_columns(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(table: dict[str, Tensor], columns: list[str]) -> Tensor:
        return torch.stack([table[c] for c in columns])

    table = {name: torch.randn(3) for name in "abcd"}
    for n in range(8):
        yield run(table, list("ab" if n % 2 else "bc"))


@program
def ids_in_the_batch(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any]) -> dict[str, Any]:
        return {"ids": batch["ids"], "score": batch["x"].sum(-1), "count": len(batch["ids"])}

    for n in range(8):
        yield run({"x": torch.randn(3, 4), "ids": [f"a{n}", f"b{n}", f"c{n}"]})


@program
def lines_of_text(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, texts: tuple[str, ...], limit: int) -> Any:
        y = x[:limit]
        return y, texts[0]

    for n in range(8):
        yield run(torch.randn(8), (f"a{n}", f"b{n}"), 4)


@program
def keywords_that_nobody_reads(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, **options: Any) -> Any:
        return x * options.get("scale", 1.0)

    for n in range(8):
        yield run(torch.randn(4), scale=2.0, name=f"n{n}")


@program
def mask_now_and_then(e: Engine) -> Iterator[Any]:
    """Calls with a mask, without, and causal ones are each compiled for their own sizes first.

    torch leaves a size open as soon as two calls of any kind differ in it. Where each kind has one
    size, all graphs here are static; where they vary, that is one graph more.
    """

    @e.compile
    def attention(q: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        scores = q @ q.T
        if mask is not None:
            scores = scores + mask
        return scores.tril() if causal else scores

    for n in range(9):
        q = torch.randn(3 + n, 4)
        mask = torch.zeros(3 + n, 3 + n) if n % 3 == 1 else None
        yield attention(q, mask, causal=n % 3 == 2)
