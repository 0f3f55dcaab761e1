"""What the user has said about a function: not to trace it, to keep it whole, to replace it.

Stage: capture. In: a callable and a mark. Out: `of(callable)`, which the tracer asks about every
Python function, so it is one dict lookup. Marks go by identity: a user's `__eq__` never decides.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import FunctionType
from typing import Any, Final

from stator.torchlib.tracers import is_allowed_by_dynamo


class Kind(Enum):
    """What a trace does with a call of a marked callable."""

    DISABLE = "runs as it is, outside of the graph"
    BREAK = "ends the graph, and does nothing"
    SKIP = "has all of the call that is being traced run as it is"
    ALLOW = "is one node of the graph"
    CONSTANT = "is called once, while tracing; its result is a constant"
    SUBSTITUTE = "is replaced by another function"
    NONSTRICT = "is evaluated as any function, or, where that ends the graph, one node of it"
    LEAF = "is one node of the graph; its Python code runs whenever the graph does"


@dataclass(slots=True)
class Leaf:
    """What is said about a leaf function."""

    function: Callable[..., Any]
    fake: Callable[..., Any] | None = None
    hook: Callable[..., Any] | None = None
    mutates_args: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark; `substitute` is for that kind only."""

    kind: Kind
    reason: str = ""
    recursive: bool = True
    """Whether what the function calls is left alone, too."""
    substitute: Callable[..., Any] | None = None
    leaf: Leaf | None = None

    def message(self, name: str, args: Any, kwargs: Any) -> str:
        """Why the graph ends at a call, for the kinds that end it."""
        if self.kind in (Kind.BREAK, Kind.SKIP):
            given = args[0] if args else kwargs.get("msg", "")
            said = f": {given}" if type(given) is str and given else ""
            what = "for a graph break" if self.kind is Kind.BREAK else "not to be captured"
            return f"the program asks {what}{said}"
        return f"{name} is disabled" + (f": {self.reason}" if self.reason else "")


@dataclass(slots=True)
class _Slot:
    holder: Any  # a weak reference if the callable can have one: else it lives for ever
    mark: Mark


_slots: Final[dict[int, _Slot]] = {}


def put(callable: Any, mark: Mark) -> None:
    """Marks a callable; a second mark replaces the first."""
    key = id(callable)

    def forget(dead: Any) -> None:
        slot = _slots.get(key)
        if slot is not None and slot.holder is dead:
            del _slots[key]

    try:
        holder: Any = weakref.ref(callable, forget)
    except TypeError:
        holder = callable
    _slots[key] = _Slot(holder, mark)


def is_marked(callable: Any) -> bool:
    """Whether it was marked by us; torch's own marks are attributes."""
    return id(callable) in _slots


def of(callable: Any) -> Mark | None:
    """The mark of a callable. Never runs code of the program."""
    slot = _slots.get(id(callable))
    if slot is not None:
        return slot.mark
    return left_by_torch(callable) if type(callable) is FunctionType else None


def left_by_torch(function: FunctionType) -> Mark | None:
    """`torch.compiler.disable` and `torch._dynamo.disable` leave attributes on what they return.

    `allow_in_graph`, `nonstrict_trace` and `leaf_function` enter what they return in tables.

    Once torch.compile was used, parts of optimizers are disabled by torch itself, for Dynamo.
    """
    own = function.__dict__
    if is_allowed_by_dynamo(function):
        real = dict.get(own, "_torchdynamo_leaf_real_fn")
        if real is None:
            return Mark(Kind.NONSTRICT)
        fake = dict.get(own, "_torchdynamo_leaf_fake_fn")
        hook = dict.get(own, "_torchdynamo_leaf_hook_fn")
        changed = dict.get(own, "_torchdynamo_leaf_mutates_args") or frozenset()
        return Mark(Kind.LEAF, leaf=Leaf(real, fake, hook, changed))
    if own and _is_hook_of_fsdp(function):
        return Mark(Kind.DISABLE, "FSDP talks to other processes")
    if not own or dict.get(own, "_torchdynamo_disable") is not True:
        return None
    original = dict.get(own, "_torchdynamo_orig_callable")
    if type(original) is FunctionType and _is_of_optimizers(original):
        return Mark(Kind.SUBSTITUTE, substitute=original)
    reason = dict.get(own, "_torchdynamo_disable_msg")
    recursive = dict.get(own, "_torchdynamo_disable_recursive") is not False
    return Mark(Kind.DISABLE, reason if type(reason) is str else "", recursive)


def _is_hook_of_fsdp(function: FunctionType) -> bool:
    """What torch disables by a decorator of FSDP's own, which asks Dynamo in each call."""
    if function.__code__.co_qualname != "_dynamo_disable.<locals>.wrapper":
        return False
    module = dict.get(function.__globals__, "__name__")
    return type(module) is str and module.startswith("torch.distributed.fsdp.")


def _is_of_optimizers(function: FunctionType) -> bool:
    module = dict.get(function.__globals__, "__name__")
    return type(module) is str and module.startswith("torch.optim.")


def remove(callable: Any) -> None:
    """Takes a mark away, if there is one."""
    _slots.pop(id(callable), None)
