"""Calls of Python functions that are one node of a graph: what runs, and what leaves run later.

In: a function, and what it is called with, apart into tensors and all else. Out: a module that a
graph calls with the tensors, and that answers with those of the result.

A function that a backend may look into (`allow_in_graph`, `nonstrict_trace`) runs when the backend
traces. A *leaf* does not: with real tensors it is called; for who traces it is an operator,
`torch.ops.stator.leaf`, of which a function of the program's says what it returns.
"""

import contextlib
import itertools
import sys
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import torch
from torch import nn

from stator.torchlib.fakes import FunctionalTensor, detect_fake_mode
from stator.torchlib.modes import as_at_first
from stator.torchlib.operators import keep_in_order
from stator.torchlib.tensors import reparametrize_module
from stator.torchlib.transforms import pytree

_PROCESS: Final = uuid.uuid4().hex
_REAL: Final = (torch.Tensor, nn.Parameter)


class Place(Enum):
    """What is not written into a tree of values, since the graph has it."""

    INPUT = 0
    NUMBER = 1


@dataclass(frozen=True, eq=False)
class Module:
    """A module among the arguments: its tensors are inputs, too.

    The call is guarded by which module it is, so that it lives whenever the graph runs.
    """

    module: "weakref.ref[nn.Module]"
    names: tuple[str, ...]


@dataclass(eq=False)
class Given:
    """Arguments without their tensors and numbers."""

    leaves: list[Any]
    spec: Any

    def __deepcopy__(self, _: Any) -> "Given":
        return self  # modules stay the program's

    @contextlib.contextmanager
    def filled(self, inputs: Sequence[Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The arguments of a call."""
        rest = iter(inputs)
        with contextlib.ExitStack() as stack:
            values = []
            for leaf in self.leaves:
                if type(leaf) is Place:
                    values.append(next(rest))
                elif type(leaf) is Module:
                    tensors = {name: next(rest) for name in leaf.names}
                    module = leaf.module()
                    assert module is not None
                    own = dict(module.named_parameters()) | dict(module.named_buffers())
                    if any(own.get(name) is not each for name, each in tensors.items()):
                        stack.enter_context(reparametrize_module(module, tensors))
                    values.append(module)
                else:
                    values.append(leaf)
            args, kwargs = pytree.tree_unflatten(values, self.spec)
            yield args, kwargs


class WholeCall(nn.Module):
    """A call that is one node. What it returns besides tensors is the same in each call."""

    def __init__(self, function: Callable[..., Any], given: Given, name: str) -> None:
        super().__init__()
        self.given = given
        self.name = name
        self.function = function
        self.returned: tuple[Any, list[Any]] | None = None  # how it is nested, with what else

    def __deepcopy__(self, _: Any) -> "WholeCall":
        return self

    def __reduce__(self) -> Any:
        """For caches of backends, which ask what a graph consists of: it is like no other."""
        return str, (f"{self.name} {_PROCESS} {id(self)}",)

    def forward(self, *inputs: Any) -> Any:
        with self.given.filled(inputs) as (args, kwargs), _constants_allowed(inputs):
            result = self.function(*args, **kwargs)
        return self.parts(result)

    def parts(self, result: Any) -> tuple[Any, ...]:
        """The tensors of a result."""
        leaves, spec = pytree.tree_flatten(result)
        held = [Place.INPUT if isinstance(each, torch.Tensor) else each for each in leaves]
        if self.returned is None:
            self.returned = spec, held
        elif self.returned != (spec, held):
            before, after = (_shown(*each) for each in (self.returned, (spec, held)))
            raise RuntimeError(f"{self.name} returned {before} when it was traced, now {after}")
        return tuple(each for each in leaves if isinstance(each, torch.Tensor))


def functional(inputs: Sequence[Any]) -> bool:
    """Whether AOTAutograd traces."""
    return any(type(each) is FunctionalTensor for each in inputs)


def _shown(spec: Any, held: list[Any]) -> str:
    leaves = ["a tensor" if each is Place.INPUT else each for each in held]
    return f"{pytree.tree_unflatten(leaves, spec)!r}"


@contextlib.contextmanager
def _constants_allowed(inputs: Sequence[Any]) -> Iterator[None]:
    """Tensors that a function has from elsewhere are constants for who traces it.

    A backend traces its backward, too, when the call is over: for that, they stay so.
    """
    mode = detect_fake_mode(inputs)
    if mode is None:
        yield
        return
    before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        if not functional(inputs):
            mode.allow_non_fake_inputs = before


# ---------------------------------------------------------------------- leaves

_library: Final[Any] = torch.library  # which has no annotations
_LIBRARY: Final[Any] = _library.Library("stator", "FRAGMENT")  # alive as long as we are
_LIBRARY.define(
    "leaf(Tensor[] values, SymInt[] numbers, bool[] wanted, int key) -> Tensor[]",
)
_LIBRARY.define(
    "leaf_backward(Tensor?[] gradients, Tensor[] like, Tensor ticket, int key) -> Tensor[]",
)
_LIBRARY.define("leaf_hook(Tensor[] gradients, int key) -> ()")


@dataclass(eq=False)
class _Run:
    """A call of a leaf that may be differentiated."""

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]


class _Ticket(bytearray):
    """The memory of a tensor that tells the backward which call it is about, and what that was."""

    run: _Run | None = None


_numbers: Final = itertools.count(1)
_tickets: Final[weakref.WeakValueDictionary[int, _Ticket]] = weakref.WeakValueDictionary()
_calls: Final[dict[int, "LeafCall"]] = {}  # what a backend has compiled knows the number alone


class LeafCall(WholeCall):
    """A call of a leaf function: `fake` says what it returns, without values."""

    def __init__(
        self,
        function: Callable[..., Any],
        fake: Callable[..., Any],
        hook: Callable[..., Any] | None,
        given: Given,
        name: str,
    ) -> None:
        super().__init__(function, given, name)
        self.fake = fake
        self.hook = hook
        self.said: list[tuple[torch.dtype, tuple[Any, ...]]] | None = None
        self.key = next(_numbers)
        _calls[self.key] = self

    def forward(self, *inputs: Any) -> Any:
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        wanted = [each for each in tensors if each.requires_grad and torch.is_grad_enabled()]
        if self.hook is not None and wanted:
            _register(wanted, self.key)
        if tensors and all(type(each) in _REAL for each in tensors):
            return self.called(inputs)
        apply: Any = _Leaf.apply
        return apply(self, *inputs)

    def called(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Calls the function, for real."""
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        before = [None if each.is_inference() else each._version for each in tensors]
        with self.given.filled(inputs) as (args, kwargs):
            parts = self.parts(self.function(*args, **kwargs))
        if [None if each.is_inference() else each._version for each in tensors] != before:
            raise RuntimeError(f"{self.name} changes a tensor that it is given")
        for part, (dtype, sizes) in zip(parts, self.said or (), strict=self.said is not None):
            found = part.dtype, tuple(part.shape)
            alike = len(sizes) == part.dim() and all(
                size in (None, other) for size, other in zip(sizes, part.shape, strict=True)
            )
            if part.dtype is not dtype or not alike:
                wanted = dtype, tuple("any" if size is None else size for size in sizes)
                raise RuntimeError(f"{self.name} returns {found}, its register_fake says {wanted}")
        return parts

    def told(self, results: Sequence[torch.Tensor]) -> None:
        """What is to be expected of each call: sizes that are open may be any."""
        self.said = [
            (each.dtype, tuple(size if type(size) is int else None for size in each.shape))
            for each in results
        ]

    def faked(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """What the function would return."""
        with self.given.filled(inputs) as (args, kwargs):
            return self.parts(self.fake(*args, **kwargs))

    def mixed(self, values: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The inputs in their order."""
        tensors, others = iter(values), iter(numbers)
        found: list[Any] = []
        for leaf in self.given.leaves:
            if leaf is Place.INPUT:
                found.append(next(tensors))
            elif leaf is Place.NUMBER:
                found.append(next(others))
            elif type(leaf) is Module:
                found += itertools.islice(tensors, len(leaf.names))
        return found


def _register(wanted: list[torch.Tensor], key: int) -> None:
    def hook(gradients: Sequence[torch.Tensor | None]) -> None:
        LEAF_HOOK([each for each in gradients if each is not None], key)

    torch.autograd.graph.register_multi_grad_hook(wanted, hook)


class _Leaf(torch.autograd.Function):
    """A leaf, for who traces: an operator in the forward, and one in the backward."""

    @staticmethod
    def forward(ctx: Any, call: LeafCall, *inputs: Any) -> Any:
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        numbers = [each for each in inputs if not isinstance(each, torch.Tensor)]
        wanted = [bool(each) for each in ctx.needs_input_grad[1:]]
        places = [i for i, each in enumerate(inputs) if isinstance(each, torch.Tensor)]
        *outputs, ticket = LEAF(tensors, numbers, [wanted[i] for i in places], call.key)
        ctx.wanted, ctx.key = wanted, call.key
        ctx.save_for_backward(
            ticket, *(each for each, needs in zip(inputs, wanted, strict=True) if needs)
        )
        whole = (each for each in outputs if not each.is_floating_point() and not each.is_complex())
        ctx.mark_non_differentiable(*whole)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ticket, *like = ctx.saved_tensors
        found = iter(LEAF_BACKWARD(list(gradients), like, ticket, ctx.key))
        return None, *(next(found) if needs else None for needs in ctx.wanted)


def _leaf(
    values: Sequence[torch.Tensor], numbers: Sequence[int], wanted: Sequence[bool], key: int
) -> list[torch.Tensor]:
    call = _calls[key]
    number = next(_numbers)
    held = _tickets[number] = _Ticket(number.to_bytes(8, sys.byteorder))
    with as_at_first(), torch.set_grad_enabled(any(wanted)):
        inner = [
            value.detach().requires_grad_(needs)
            for value, needs in zip(values, wanted, strict=True)
        ]
        outputs = call.called(call.mixed(inner, numbers))
        if any(wanted):
            held.run = _Run([each for each in inner if each.requires_grad], list(outputs))
    found = [each.detach().clone() for each in outputs]  # operators return what is theirs
    return [*found, torch.frombuffer(held, dtype=torch.int64)]


def _leaf_without_values(
    values: Sequence[torch.Tensor], numbers: Sequence[int], wanted: Sequence[bool], key: int
) -> list[torch.Tensor]:
    call = _calls[key]
    outputs = call.faked(call.mixed(values, numbers))
    ticket = torch.empty(1, dtype=torch.int64, device="cpu")
    return [*(torch.empty_like(each) for each in outputs), ticket]


def _leaf_backward(
    gradients: Sequence[torch.Tensor | None],
    like: Sequence[torch.Tensor],
    ticket: torch.Tensor,
    key: int,
) -> list[torch.Tensor]:
    held = _tickets[int(ticket.item())]
    if held.run is None:
        raise RuntimeError(
            f"Trying to backward through {_calls[key].name} a second time, without retain_graph"
        )
    pairs = [
        (output, gradient)
        for output, gradient in zip(held.run.outputs, gradients, strict=True)
        if output.requires_grad and gradient is not None
    ]
    if not pairs:
        return [torch.zeros_like(each) for each in like]
    with as_at_first():
        found = torch.autograd.grad(
            [output for output, _ in pairs],
            held.run.inputs,
            [gradient for _, gradient in pairs],
            retain_graph=True,
            allow_unused=True,
        )
    return [
        torch.zeros_like(each) if gradient is None else gradient.clone()
        for each, gradient in zip(like, found, strict=True)
    ]


def _backward_without_values(
    gradients: Sequence[torch.Tensor | None],
    like: Sequence[torch.Tensor],
    ticket: torch.Tensor,
    key: int,
) -> list[torch.Tensor]:
    return [torch.empty_like(each) for each in like]


def _hook(gradients: Sequence[torch.Tensor], key: int) -> None:
    hook = _calls[key].hook
    if hook is not None:
        with as_at_first():
            hook(*gradients)


def _no_hook(gradients: Sequence[torch.Tensor], key: int) -> None:
    """Without values, nobody is told."""


def _operator(name: str, real: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    _LIBRARY.impl(name, real, "CompositeExplicitAutograd")
    _library.register_fake(f"stator::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.stator, name).default


LEAF: Final = _operator("leaf", _leaf, _leaf_without_values)
LEAF_BACKWARD: Final = _operator("leaf_backward", _leaf_backward, _backward_without_values)
LEAF_HOOK: Final = _operator("leaf_hook", _hook, _no_hook)
for _each in (LEAF, LEAF_HOOK):
    keep_in_order(_each)
