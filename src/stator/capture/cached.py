"""Functions with a cache (`functools.lru_cache`) in a trace.

In: a call of one that existed before. Out: its answer, and the real cache is as it was. An answer
that can't be changed is made anew by evaluating the function. One that can be changed may have been
since: if the cache holds it, it is an object of the world, guarded; if not, a new one is a `Break`,
and is made by the cache itself. A new tensor is part of the graph, unless it is changed or kept.
"""

import functools
import gc
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.printing import perform
from stator.capture.special import Handler
from stator.capture.values import is_torch_value
from stator.diagnostics.catalogue import HiddenState, Output
from stator.effects import CannotRebuild
from stator.effects.recipes import is_constant, recipe
from stator.effects.texts import Text
from stator.guards import Callback, Fixed
from stator.world import MISSING
from stator.world.kinds import CONSTANTS, IDENTITIES

if TYPE_CHECKING:
    from stator.capture.calls import Calls

_UNSEEN: Final = object()
_MUTABLE: Final = objects.TypeSet(types.FunctionType, types.CellType)
_module_of: Final = type.__dict__["__module__"].__get__
_INFO: Final[Any] = functools._lru_cache_wrapper.__dict__["cache_info"]


@dataclass
class Once:
    """A call of a function with a cache: what it does, it does once, if at all."""

    before: list[Any]
    nodes: int
    step: int  # in which it began
    spoke: bool = False


@dataclass
class Answer:
    """A tensor that a cache would keep: it is made anew in each call, so nobody may change it."""

    tensor: Any
    version: int
    step: int


def once(cache: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """What is evaluated for a call of `cache`, a `functools.lru_cache` of `function`."""
    _begin()
    try:
        result = function(*args, **kwargs)
    except BaseException:
        _give_up()
        raise
    _end(cache, args, kwargs, result)
    return result


def known(calls: "Calls", cache: Any, args: Any, kwargs: Any) -> Any:
    """The answer that the trace has got before, or that the cache holds and somebody may have
    changed; MISSING if the function is to be evaluated.
    """
    key = _same_call(cache, args, kwargs)
    if key in calls.answers:
        return calls.answers[key]
    held = MISSING if key is None else _held(cache, args, kwargs)
    if held is MISSING or held is _UNSEEN or CONSTANTS.holds(type(held)):
        return MISSING
    if _lasts(calls, held, []):
        return MISSING
    calls.world.guard(Fixed(cache), Callback(_answers(args, kwargs, held), "the same answer"))
    calls.answers[key] = answer = calls.world.wrap(held, Fixed(held))
    return answer


def _answers(args: Any, kwargs: Any, answer: Any) -> Any:
    return lambda cache: _held(cache, args, kwargs) is answer


def _same_call(cache: Any, args: Any, kwargs: Any) -> Any:
    """What two calls that get the same answer have in common; None if C code alone can't tell."""
    given = (*args, *kwargs.values())
    if not all(map(_is_plain, given)):
        return None
    return id(cache), tuple(kwargs), tuple((type(each), each) for each in given)


def _is_plain(value: Any) -> bool:
    cls = type(value)
    if cls is tuple:
        return all(map(_is_plain, value))
    return CONSTANTS.holds(cls) or (is_torch_value(cls) and cls is not torch.Size)


def _held(cache: Any, args: Any, kwargs: Any) -> Any:
    """What a cache holds for a call, without asking it: that would count. MISSING if nothing,
    _UNSEEN if it is not as we know it.

    The garbage collector tells what it refers to: keys and answers if it has a limit, a dict of all
    of them, and so on.
    """
    _, _, limit, size = _INFO(cache)
    if not size:
        return MISSING
    *links, table, _, mark, _, _, own = gc.get_referents(cache)
    if type(table) is not dict or len(table) != size or (limit and len(links) != 3 * size + 1):
        return _UNSEEN
    parameters = own.get("cache_parameters") if type(own) is dict else None
    if type(parameters) is not types.FunctionType or parameters.__module__ != "functools":
        return _UNSEEN
    key = _key(parameters()["typed"], mark, args, kwargs)
    pairs = zip(links[1::3], links[2::3], strict=True) if limit else table.items()
    return next((answer for each, answer in pairs if _is_key(each) and each == key), MISSING)


def _key(typed: bool, mark: Any, args: Any, kwargs: Any) -> Any:
    """As `lru_cache_make_key`."""
    if not typed and not kwargs:
        alone = len(args) == 1 and type(args[0]) in (int, str)
        return args[0] if alone else args
    key = args
    if kwargs:
        key = (*key, mark, *(part for pair in kwargs.items() for part in pair))
    return (*key, *map(type, args), *map(type, kwargs.values())) if typed else key


def _is_key(value: Any) -> bool:
    """A key that can be compared without asking anybody: of constants, the mark, and types."""
    cls = type(value)
    if cls is tuple:
        return all(map(_is_key, value))
    return _is_plain(value) or cls is object or cls is type


def _begin() -> None:
    """Evaluating this asks `_begun`."""


def _give_up() -> None:
    """Evaluating this asks `_given_up`."""


def _end(cache: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Evaluating this asks `_ended`."""


def _begun(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    step = calls.cached_at[once.__code__]
    calls.once.append(Once(calls.changed(), _count(calls), step))


def _given_up(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    call = calls.once.pop()
    if call.spoke:
        raise Output("a function with a cache shows something and raises")
    if calls.changed() != call.before:
        raise HiddenState("a function with a cache changes objects from before the call")


def _ended(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """If it has shown something, the cache itself is asked again, when the graph has run.

    It runs the function, or does not. So the function must do nothing else.
    """
    cache, given, keywords, result = args
    call = calls.once.pop()
    before = calls.changed()
    if not call.spoke:
        if before != call.before:  # which it does not do each time that it is called
            raise HiddenState("a function with a cache changes objects from before the call")
        _answered(calls, call, cache, given, keywords, result)
        return
    if result is not None or _count(calls) != call.nodes or before != call.before:
        raise Output("a function with a cache shows something, and does other things, too")
    if any(not name.isidentifier() for name in keywords):
        raise Output("a function with a cache is called with odd keywords")
    perform(calls, frame, cache, "cached", tuple(given), dict(keywords))


def _answered(calls: "Calls", call: Once, cache: Any, args: Any, kwargs: Any, result: Any) -> None:
    """The answer that the cache would keep, if it were asked."""
    tensors: list[Any] = []
    lasts = _lasts(calls, result, tensors)
    key = _same_call(cache, args, kwargs)
    if not lasts or (tensors and (key is None or _held(cache, args, kwargs) is not MISSING)):
        kind = type(result).__qualname__
        raise HiddenState(f"a function with a cache answers with a new object of type {kind}")
    if tensors:
        calls.world.guard(Fixed(cache), Callback(_answers(args, kwargs, MISSING), "no answer yet"))
        with torch._C.DisableTorchFunction():
            calls.cached += [Answer(each, each._version, call.step) for each in tensors]
    if key is not None:
        calls.answers[key] = result


def _lasts(calls: "Calls", value: Any, tensors: list[Any]) -> bool:
    """Whether an answer is the same whenever it is made, but for new tensors, which are listed."""
    cls = type(value)
    if calls.tensors.holds(cls) and not calls.world.is_world(value):
        if not calls.tensors.is_symbol(value):
            tensors.append(value)
        return True
    if is_torch_value(cls) or cls is Text or calls.world.is_world(value):
        return True
    if (IDENTITIES.holds(cls) and not _MUTABLE.holds(cls)) or _module_of(cls) == typing.__name__:
        return True
    base = objects.layout_base(cls)
    if base is tuple or base is frozenset:
        return all(_lasts(calls, each, tensors) for each in base.__iter__(value))
    try:
        return is_constant(value) or recipe(value) is None
    except CannotRebuild:
        return objects.is_subtype(cls, types.ModuleType)


def check_answers(calls: "Calls", outputs: list[Any]) -> None:
    """The trace has ended: tensors that a cache would keep are as they were made, and nobody
    outside has got one.
    """
    if not calls.cached:
        return
    with torch._C.DisableTorchFunction():
        given = (each for each in outputs if calls.tensors.holds(type(each)))
        seen = {_memory(each) for each in given if not calls.tensors.is_symbol(each)}
        seen |= calls.tensors.graph.overwritten
        for answer in calls.cached:
            if answer.tensor._version != answer.version or _memory(answer.tensor) in seen:
                calls.tracer.before = answer.step
                raise HiddenState("a tensor from a function with a cache is changed or kept")


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _count(calls: "Calls") -> int:
    return len(calls.tensors.graph.graph.nodes)


CACHED: Final[dict[int, Handler]] = {
    id(_begin): _begun,
    id(_give_up): _given_up,
    id(_end): _ended,
}
