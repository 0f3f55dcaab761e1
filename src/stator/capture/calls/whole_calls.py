"""Calls of Python functions that are one node of the graph, whatever they are given.

Stage: capture. In: a call of what the program has marked (`allow_in_graph`, `nonstrict_trace`,
`leaf_function`), with trees of tensors, numbers, constants and modules. Out: a node, and the
result, with the tensors that the node computes.

A function that is marked with `nonstrict_trace` is evaluated as any other, so that all of it is as
in eager. Where that would end the graph, the trace starts anew, and the call is one node
(`Task.inlined`, as for regions that can be none).
"""

import types
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.calls.marks import Leaf
from stator.capture.calls.python_calls import stand_in
from stator.capture.numbers.scalars import SYMBOLS
from stator.contracts import Depth
from stator.diagnostics.catalogue import MarkMisfit
from stator.graph import Unsupported, UntrackedTensorError
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.purity import ONCE
from stator.graph.recording.subgraph import Subgraph
from stator.graph.recording.whole_calls import Given, LeafCall, Module, Place, WholeCall
from stator.guards import Is
from stator.torchlib.modes import is_any_autocast_enabled
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import pytree
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.builtin_calls import Handler
    from stator.capture.calls.calls import Calls


class Whole:
    """The calls of one trace that are evaluated, and could be one node."""

    def __init__(self) -> None:
        self.open: list[types.CodeType] = []
        self.noted: Any = None


def nonstrict(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """A call of what `nonstrict_trace` has marked."""
    code = function.__code__ if type(function) is types.FunctionType else None
    if code is None or code in calls.regions.inlined:
        return whole(calls, frame, function, args, kwargs)
    calls.world.keep(function)
    return stand_in(calls, frame, _evaluated, [_Behind(function), args, kwargs], None)


class _Behind:
    """A function that is called without its mark."""

    def __init__(self, function: Any) -> None:
        self.function = function


def _evaluated(behind: _Behind, args: Any, kwargs: Any) -> Any:
    function = _open(behind)
    result = function(*args, **kwargs)
    _close()
    return result


def _open(behind: _Behind) -> Any:
    """Evaluating this notes that a function is evaluated which could be one node."""
    return behind.function


def _close() -> None:
    """And this that it has returned."""


def _opened(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    function = args[0].function
    calls.whole_calls.open.append(function.__code__)
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _closed(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    calls.whole_calls.open.pop()


def whole(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """A call that a backend looks into, and a trace does not."""
    name = getattr(function, "__qualname__", "the function")
    inputs, given = _given(calls, frame, name, args, kwargs)
    return _called(calls, frame, WholeCall(function, given, name), inputs)


def leaf(calls: "Calls", frame: Frame, said: Leaf, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of a leaf function: nobody looks into it."""
    name = getattr(said.function, "__qualname__", "the function")
    if said.fake is None:
        raise MarkMisfit(f"the leaf function {name} has no register_fake")
    if said.mutates_args:
        raise MarkMisfit(f"the leaf function {name} changes its arguments")
    if is_any_autocast_enabled():  # operators of a backend's graph run without it
        raise MarkMisfit(f"the leaf function {name} is called under autocast")
    calls.tensors.inside.refuse("a leaf function")
    inputs, given = _given(calls, frame, name, args, kwargs)
    if not any(calls.tensors.holds(type(each)) for each in inputs):
        raise MarkMisfit(f"the leaf function {name} gets no tensor")
    before = calls.changed()
    with Subgraph(calls.tensors.graph):  # nobody needs what is recorded: what is read is guarded
        evaluated(frame, _leaves_of, said.fake, args, kwargs)
    if calls.changed() != before:
        raise MarkMisfit(f"register_fake of {name} changes objects")
    _check_apart(calls, name, inputs, calls.whole_calls.noted[0])
    made = LeafCall(said.function, said.fake, said.hook, given, name)
    return _called(calls, frame, made, inputs)


def _leaves_of(function: Any, args: Any, kwargs: Any) -> None:
    leaves, spec = pytree.tree_flatten(function(*args, **kwargs))
    _note(leaves, spec)


def _check_apart(calls: "Calls", name: str, inputs: list[Any], made: list[Any]) -> None:
    """An operator returns memory of its own, and each tensor has some."""
    with DisableTorchFunction():
        given = {storage_of(each) for each in inputs if _is_tensor(calls, each)}
        found = [storage_of(each) for each in made if _is_tensor(calls, each)]
    if len({*found}) < len(found) or not given.isdisjoint(found):
        raise MarkMisfit(f"register_fake of {name} returns tensors that share memory")


def _is_tensor(calls: "Calls", value: Any) -> bool:
    return calls.tensors.holds(type(value)) and not calls.tensors.is_symbol(value)


def _called(calls: "Calls", frame: Frame, module: WholeCall, inputs: list[Any]) -> Any:
    graph = calls.tensors.graph
    trace = calls.tracer.stack_trace(frame)
    try:
        made = graph.call_region("call", module, inputs, stack_trace=trace)
    except Unsupported as error:
        raise MarkMisfit(f"{module.name}: {error.reason}") from None
    except UntrackedTensorError:
        raise MarkMisfit(f"{module.name} gets a tensor that has left a region sideways") from None
    if isinstance(module, LeafCall):
        with DisableTorchFunction():
            module.told(made)
    node = next(iter(reversed(graph.graph.nodes)))
    node.meta[ONCE] = True
    calls.tensors.handled.whole(frame, node, module.name)
    assert module.returned is not None
    spec, held = module.returned
    rest = iter(made)
    leaves = [next(rest) if each is Place.INPUT else each for each in held]
    for each in held:
        if type(each) is not Place and not CONSTANTS.holds(type(each)):
            kind = type(each).__qualname__
            raise MarkMisfit(f"{module.name} returns an object of type {kind}")
    return stand_in(calls, frame, pytree.tree_unflatten, [leaves, spec], None)


# ---------------------------------------------------------------------- arguments


def _given(
    calls: "Calls", frame: Frame, name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], Given]:
    """What a graph gives to a call, and all else that it is given."""
    evaluated(frame, _flatten, tuple(args), kwargs)
    leaves, spec = calls.whole_calls.noted
    inputs: list[Any] = []
    held: list[Any] = []
    for each in leaves:
        cls = type(each)
        if calls.tensors.holds(cls):
            inputs.append(each)
            held.append(Place.INPUT)
        elif cls is torch.SymInt:
            inputs.append(each)
            held.append(Place.NUMBER)
        elif CONSTANTS.holds(cls):
            calls.values.ready(each, Depth.DEEP)
            held.append(each)
        elif objects.is_subtype(cls, torch.nn.Module):
            held.append(_module(calls, frame, name, each, inputs))
        else:
            kind = "a number that is no int" if SYMBOLS.holds(cls) else f"an object of type {cls}"
            raise MarkMisfit(f"{name} gets {kind}")
    return inputs, Given(held, spec)


def _module(calls: "Calls", frame: Frame, name: str, module: Any, inputs: list[Any]) -> Module:
    """A module among the arguments: it is the same one in each call."""
    record = calls.world.records.get(id(module))
    if record is None:
        raise MarkMisfit(f"{name} gets a module that was made in the call")
    if calls.changed():
        raise MarkMisfit(f"{name} gets a module, behind a change of something")
    calls.world.guard(record.source, Is(record.raw))
    evaluated(frame, _list, module)
    names, tensors = calls.whole_calls.noted
    inputs += tensors
    return Module(weakref.ref(record.raw), tuple(names))


def _flatten(args: Any, kwargs: Any) -> None:
    leaves, spec = pytree.tree_flatten((args, kwargs))
    _note(leaves, spec)


def _list(module: Any) -> None:
    named = [*module.named_parameters(), *module.named_buffers()]
    _note([name for name, _ in named], [tensor for _, tensor in named])


def _note(*values: Any) -> None:
    """Evaluating this hands values out of the trace."""


def _taken(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> None:
    calls.whole_calls.noted = args


WHOLE: Final[dict[int, "Handler"]] = {
    id(_note): _taken,
    id(_open): _opened,
    id(_close): _closed,
}
