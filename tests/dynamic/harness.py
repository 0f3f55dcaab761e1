"""The oracle of these tests: calls with other sizes and ints, against the same in eager.

Comes in: a program and calls of it, each made anew for either run. Goes out: `Result`, how often
something was compiled, after each call was compared with eager in value, type, dtype, strides,
exception and what became of its arguments.
"""

import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.fx as fx

import stator
from stator.backends import lookup
from tests.capture.describe import describe

_WRITTEN: Final = (
    "_dynamo_propagated_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_has_dynamo_dim_marking",
)
Make = Callable[[], tuple[Any, ...]]


class Counting:
    """A backend that counts graphs and leaves them to another one."""

    def __init__(self, backend: str = "eager") -> None:
        self._backend = lookup(backend)
        self.graphs: list[str] = []

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(module.code)
        made: Callable[..., Any] = self._backend(module, inputs)
        return made


@dataclass
class Result:
    """What was compiled for some calls."""

    compiled: Any
    graphs: list[str]
    warned: list[str] = field(default_factory=list)

    @property
    def compiles(self) -> int:
        """How often the function itself was compiled, not counting what runs behind breaks."""
        return int(self.compiled.statistics()["misses"])


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """What a call does, as text."""
    try:
        found: Any = ("returns", function(*args))
    except Exception as error:
        found = ("raises", type(error).__name__, str(error))
    forget_marks((found, *args))
    return "\n".join(describe((found, args)))


def forget_marks(value: Any) -> None:
    """AOTAutograd writes on its results which sizes are symbolic, each version in its own way."""
    if isinstance(value, torch.Tensor):
        for name in _WRITTEN:
            value.__dict__.pop(name, None)
        forget_marks(value.grad if value.is_leaf and not value.is_inference() else None)
    elif isinstance(value, list | tuple):
        for item in value:
            forget_marks(item)


def compare(
    program: Callable[..., Any],
    calls: Iterable[Make],
    backend: str = "eager",
    dynamic: bool | None = None,
    limit: int = 64,
    **options: Any,
) -> Result:
    """Makes all calls, in eager and compiled; fails where these differ."""
    counting = Counting(backend)
    compiled = stator.compile(
        program, backend=counting, dynamic=dynamic, recompile_limit=limit, **options
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for make in calls:
            expected, actual = outcome(program, make()), outcome(compiled, make())
            assert actual == expected, f"{make()}\n{counting.graphs[-1:]}"
    return Result(compiled, counting.graphs, [str(each.message) for each in caught])


def tensor(*shape: int) -> torch.Tensor:
    """A tensor of small whole numbers, which sums of any order are exact for."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) % 7 - 3).to(torch.float32).reshape(shape)


def shapes(
    *tensors: int,
    seed: int = 0,
    count: int = 24,
    least: int = 2,
    most: int = 9,
    special: Sequence[int] = (0, 1, 2),
) -> Iterator[Make]:
    """Calls with tensors of so many dimensions: random sizes, at times all of `special`."""
    generator = random.Random(seed)

    def sizes(dims: int) -> tuple[int, ...]:
        usual = generator.random() >= 0.3 or not special
        return tuple(
            generator.choice(range(least, most) if usual else special) for _ in range(dims)
        )

    for _ in range(count):
        found = [sizes(dims) for dims in tensors]
        yield lambda found=found: tuple(tensor(*each) for each in found)  # type: ignore[misc]


def marked(mark: Callable[..., None], make: Make) -> Make:
    """The same call, with all sizes of its tensors marked."""

    def made() -> tuple[Any, ...]:
        args = make()
        for each in args:
            mark(each, list(range(each.dim())))
        return args

    return made


def small(dims: int, most: int = 5) -> list[tuple[int, ...]]:
    """All shapes of so many dimensions with sizes from 0 up to `most`."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(dims):
        found = [(*each, size) for each in found for size in range(most + 1)]
    return found
