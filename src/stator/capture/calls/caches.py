"""Functions with a cache (`functools.lru_cache`) in a trace.

In: a call of one that existed before. Out: its answer, and the real cache is as it was. An answer
that can't be changed is made anew by evaluating the function. One that can be changed may have been
since: if the cache holds it, it is an object of the world, guarded. If not, a new one is made by
evaluating the function, too; if it is changed or kept, or if nobody can tell whether the cache
holds it, there is a `Break`, and it is made by the cache itself.
"""

import contextlib
import functools
import gc
import operator
import sys
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from stator import objects
from stator._native._core import Frame, dict_version
from stator.capture.calls.builtin_calls import Handler
from stator.capture.numbers.scalars import SYMBOLS
from stator.capture.objects.values import is_torch_value
from stator.capture.texts.printing import perform
from stator.diagnostics.catalogue import HiddenState, Output
from stator.effects import Ask, CannotRebuild, Perform
from stator.effects.recipes import is_constant, recipe
from stator.effects.texts import Text
from stator.graph.fakes.memory import storage_of
from stator.graph.recording.arguments import Arguments
from stator.guards import Callback, Fixed
from stator.objects.types import module_of
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.kinds import CONSTANTS, IDENTITIES, has_plain_hash

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_UNSEEN: Final = object()
_MUTABLE: Final = objects.TypeSet(types.FunctionType, types.CellType)
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
    """An object that a cache would keep: it is made anew in each call, so nobody may change it."""

    value: Any
    contents: Any
    """Of a tensor, its version; of another object, what it refers to."""
    step: int


class Answers:
    """A guard: what a cache holds for some calls. While its table is unchanged, that is so."""

    def __init__(self, cache: Any) -> None:
        found = _parts(cache)
        self._table = None if found is None else found.table  # the same one as long as the cache
        self._calls: list[tuple[Any, Any, Any]] = []
        self._version = -1

    def expect(self, args: Any, kwargs: Any, answer: Any) -> None:
        self._calls.append((args, kwargs, answer))

    def __call__(self, cache: Any) -> bool:
        if self._table is None:
            return False
        version = dict_version(self._table)
        if version != self._version:
            if any(_held(cache, args, kwargs) is not held for args, kwargs, held in self._calls):
                return False
            self._version = version
        return True


class _Parts(NamedTuple):
    """What the garbage collector tells of a cache."""

    links: list[Any]
    table: dict[Any, Any]
    mark: Any
    own: Any


def once(cache: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """What is evaluated for a call of `cache`, a `functools.lru_cache` of `function`."""
    _begin()
    try:
        result = function(*args, **kwargs)
    except BaseException:
        _give_up(cache, args, kwargs)
        raise
    _end(cache, args, kwargs, result)
    return result


def known(calls: "Calls", cache: Any, args: Any, kwargs: Any) -> Any:
    """The answer that the trace has got before, or that the cache holds and somebody may have
    changed; MISSING if the function is to be evaluated.
    """
    key = _same_call(calls, cache, args, kwargs)
    answer = _got_before(calls, cache, args, kwargs)
    if answer is not MISSING:
        # What was made anew stays so: if the cache held it, the next call would be another one.
        if key is None or not _is_lent(calls, answer):
            held = id(answer) in calls.held_answers
            ask(calls, cache, args, kwargs, held=held)
        return answer
    if key is None:
        return MISSING
    raw, named = _raw(calls, args), {name: _raw(calls, each) for name, each in kwargs.items()}
    held = _held(cache, raw, named)
    if held is MISSING or held is _UNSEEN or CONSTANTS.holds(type(held)):
        return MISSING
    fresh: list[Any] = []
    if _lasts(calls, held, fresh) and not fresh:
        return MISSING
    _expect(calls, cache, raw, named, held)
    ask(calls, cache, args, kwargs, held=True)
    written = getattr(cache, "__qualname__", None)
    name = f"{written}()" if type(written) is str else ""
    answer = calls.world.wrap(held, Fixed(held, name))
    _got(calls, cache, args, kwargs, answer)
    calls.held_answers.add(id(answer))
    return answer


def _expect(calls: "Calls", cache: Any, args: Any, kwargs: Any, answer: Any) -> None:
    """A guard that the cache holds this answer; one for each cache."""
    found = calls.caches.get(id(cache))
    if found is None:
        found = calls.caches[id(cache)] = Answers(cache)
        calls.world.guard(Fixed(cache), Callback(found, "the same answers"))
    found.expect(args, kwargs, answer)


def _same_call(calls: "Calls", cache: Any, args: Any, kwargs: Any) -> Any:
    """What two calls that get the same answer have in common; None if C code alone can't tell."""
    given = (*args, *kwargs.values())
    if not all(_is_plain(calls, each) for each in given):
        return None
    told = ((type(each), each if _is_constant(each) else id(each)) for each in given)
    return id(cache), tuple(kwargs), tuple(told)


def _got(calls: "Calls", cache: Any, args: Any, kwargs: Any, answer: Any) -> None:
    again = _again(calls, cache, args, kwargs)
    if again is not None:
        calls.answers[again] = (cache, args, kwargs), answer


def _got_before(calls: "Calls", cache: Any, args: Any, kwargs: Any) -> Any:
    """The answer of this trace for the same; MISSING if there is none."""
    again = _again(calls, cache, args, kwargs)
    if again is not None and again not in calls.answers and calls.tensors.graph.symbols:
        # Sizes may be known to be the same by now.
        pairs = ((_again(calls, *given), (given, made)) for given, made in calls.answers.values())
        calls.answers = {key: pair for key, pair in pairs if key is not None}
    return calls.answers[again][1] if again in calls.answers else MISSING


def _again(calls: "Calls", cache: Any, args: Any, kwargs: Any) -> Any:
    """What two calls in one trace have in common that ask for the same: also the same tensor, or a
    size that is computed in the same way. None if nobody can tell.
    """
    told = []
    for each in (*args, *kwargs.values()):
        if calls.tensors.is_symbol(each):
            told.append((type(each), each.node.expr))
        elif _is_constant(each):
            told.append((type(each), each))
        elif calls.tensors.holds(type(each)) or has_plain_hash(type(each)):
            calls.world.keep(each)
            told.append((type(each), id(each)))
        else:
            return None
    return id(cache), tuple(kwargs), tuple(told)


def _is_plain(calls: "Calls", value: Any) -> bool:
    """Whether a cache finds the value without asking anybody: what it is, or which object."""
    if _is_constant(value):
        return True
    cls = type(value)
    if calls.tensors.holds(cls) or calls.tensors.is_symbol(value):
        return False
    return has_plain_hash(cls)


def _is_constant(value: Any) -> bool:
    cls = type(value)
    if cls is tuple:
        return all(map(_is_constant, value))
    return CONSTANTS.holds(cls) or (is_torch_value(cls) and cls is not torch.Size)


def _raw(calls: "Calls", value: Any) -> Any:
    """What the cache would be given. An object of the world must be this one from now on."""
    if type(value) is list or (type(value) is tuple and not _is_constant(value)):
        return tuple(_raw(calls, each) for each in value)
    if _is_constant(value) or id(value) not in calls.world.origins:
        return value
    return calls.world.pin(value)


def _held(cache: Any, args: Any, kwargs: Any) -> Any:
    """What a cache holds for a call, without asking it: that would count. MISSING if nothing,
    _UNSEEN if it is not as we know it.

    The garbage collector tells what it refers to: keys and answers if it has a limit, a dict of all
    of them, and so on.
    """
    _, _, limit, size = _INFO(cache)
    if not size:
        return MISSING
    found = _parts(cache)
    if found is None or (limit and len(found.links) != 3 * size + 1):
        return _UNSEEN
    parameters = found.own.get("cache_parameters") if type(found.own) is dict else None
    if type(parameters) is not types.FunctionType or parameters.__module__ != "functools":
        return _UNSEEN
    key = _key(parameters()["typed"], found.mark, args, kwargs)
    links = found.links
    pairs = zip(links[1::3], links[2::3], strict=True) if limit else found.table.items()
    return next((answer for each, answer in pairs if _are_same(each, key)), MISSING)


def _parts(cache: Any) -> _Parts | None:
    """None if the cache is not as we know it."""
    *links, table, _, mark, _, _, own = gc.get_referents(cache)
    if type(table) is not dict or len(table) != _INFO(cache)[3]:
        return None
    return _Parts(links, table, mark, own)


def _key(typed: bool, mark: Any, args: Any, kwargs: Any) -> Any:
    """As `lru_cache_make_key`."""
    if not typed and not kwargs:
        alone = len(args) == 1 and type(args[0]) in (int, str)
        return args[0] if alone else args
    key = args
    if kwargs:
        key = (*key, mark, *(part for pair in kwargs.items() for part in pair))
    return (*key, *map(type, args), *map(type, kwargs.values())) if typed else key


def _are_same(key: Any, other: Any) -> bool:
    """Whether two keys are equal, of constants, or of the same objects."""
    if type(key) is tuple and type(other) is tuple and len(key) == len(other):
        return all(map(_are_same, key, other))
    return key is other or (_is_constant(key) and _is_constant(other) and key == other)


def _begin() -> None:
    """Evaluating this asks `_begun`."""


def _give_up(cache: Any, args: Any, kwargs: Any) -> None:
    """Evaluating this asks `_given_up`."""


def _end(cache: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Evaluating this asks `_ended`."""


def _begun(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    _, step = calls.standing[id(frame)]
    calls.once.append(Once(calls.changed(), _count(calls), step))


def _given_up(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    call = calls.once.pop()
    if call.spoke:
        raise Output("a function with a cache shows something and raises")
    if calls.changed() != call.before:
        raise HiddenState("a function with a cache changes objects from before the call")
    cache, given, keywords = args
    ask(calls, cache, given, keywords, raises=True)


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
        if _answered(calls, call, cache, given, keywords, result):
            ask(calls, cache, given, keywords)
        return
    if result is not None or _count(calls) != call.nodes or before != call.before:
        raise Output("a function with a cache shows something, and does other things, too")
    if any(not name.isidentifier() for name in keywords):
        raise Output("a function with a cache is called with odd keywords")
    perform(calls, frame, cache, "cached", tuple(given), dict(keywords))


class _Refused:
    """A cache that is asked for what its function refuses: that counts, too."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(BaseException):
            self._cache(*args, **kwargs)


def ask(
    calls: "Calls", cache: Any, args: Any, kwargs: Any, *, held: bool = False, raises: bool = False
) -> None:
    """The real cache is asked when the graph has run: it counts, and keeps its answer.

    It may have to run the function then. So that is done only if the program changes nothing
    (`asked`), and if it is asked for something that is there without the graph. An answer of
    another cache, made anew in each call, is none: this cache would never find it again.
    """
    inside = bool(calls.once) or type(calls.tensors.graph.arguments) is not Arguments
    given = (*args, *kwargs.values())
    known = all(_is_open(calls, each) or calls.world.is_world(each) for each in given)
    known = known and not any(_is_lent(calls, each) for each in given)
    if inside or not known or _is_of_library(cache) or not all(map(str.isidentifier, kwargs)):
        return
    asked_for = Fixed(_Refused(cache) if raises else cache, "cached")
    effect = Ask(asked_for, tuple(args), tuple(kwargs.items()), held)
    calls.tracer.performed.append(effect)


def asked(performed: list[Perform], *, changes: bool) -> list[Perform]:
    """What is performed: caches are not asked if the function behind might see changes."""
    return [each for each in performed if type(each) is not Ask or each.held or not changes]


def _is_of_library(cache: Any) -> bool:
    """Python's and torch's own caches: nobody looks whether they are used."""
    module = str(cache.__module__).partition(".")[0]
    return module == "torch" or module in sys.stdlib_module_names


def _answered(calls: "Calls", call: Once, cache: Any, args: Any, kwargs: Any, result: Any) -> bool:
    """The answer that the cache would keep, if it were asked; whether it can't be changed."""
    fresh: list[Any] = []
    given = _symbols((*args, *kwargs.values()))
    lasts = _lasts(calls, result, fresh, given)
    key = _same_call(calls, cache, args, kwargs)
    if not lasts or (fresh and not _is_first(calls, cache, key, args, kwargs)):
        kind = type(result).__qualname__
        raise HiddenState(f"a function with a cache answers with a new object of type {kind}")
    for each in fresh:
        calls.lent.setdefault(id(each), Answer(each, _contents(calls, each), call.step))
    _got(calls, cache, args, kwargs, result)
    return not fresh or key is None


def _is_first(calls: "Calls", cache: Any, key: Any, args: Any, kwargs: Any) -> bool:
    """Whether the cache holds no answer for the call: guarded. With open sizes, what it is asked
    for is known at run time only; then answers that somebody has changed are not seen.
    """
    if key is None:
        return all(_is_open(calls, each) for each in (*args, *kwargs.values()))
    args, kwargs = _raw(calls, args), {name: _raw(calls, each) for name, each in kwargs.items()}
    if _held(cache, args, kwargs) is not MISSING:
        return False
    _expect(calls, cache, args, kwargs, MISSING)
    return True


def _is_open(calls: "Calls", value: Any) -> bool:
    if type(value) is tuple or type(value) is torch.Size:
        return all(_is_open(calls, each) for each in tuple.__iter__(value))
    return calls.tensors.is_symbol(value) or _is_plain(calls, value)


def _is_lent(calls: "Calls", value: Any) -> bool:
    if type(value) is tuple:
        return any(_is_lent(calls, each) for each in value)
    return id(value) in calls.lent


def _symbols(value: Any) -> frozenset[Any]:
    """What symbolic numbers are computed from."""
    if type(value) is tuple or type(value) is torch.Size:
        return frozenset[Any]().union(*map(_symbols, tuple.__iter__(value)))
    return frozenset(value.node.expr.free_symbols) if SYMBOLS.holds(type(value)) else frozenset()


def _lasts(
    calls: "Calls", value: Any, fresh: list[Any], given: frozenset[Any] = frozenset()
) -> bool:
    """Whether an answer is the same whenever it is made, but for new tensors and containers, which
    are listed. Numbers may be symbolic if they are computed from the `given` symbols alone.
    """
    cls = type(value)
    if calls.tensors.is_symbol(value):
        return _symbols(value) <= given
    if calls.tensors.holds(cls) and not calls.world.is_world(value):
        fresh.append(value)
        return True
    if is_torch_value(cls) or cls is Text or calls.world.is_world(value):
        return True
    if (IDENTITIES.holds(cls) and not _MUTABLE.holds(cls)) or module_of(cls) == typing.__name__:
        return True
    base = objects.layout_base(cls)
    if base is tuple or base is frozenset:
        return all(_lasts(calls, each, fresh, given) for each in base.__iter__(value))
    inside = _inside(value)
    if inside is not None:
        if any(each is value for each in fresh):
            return True
        fresh.append(value)
        return all(_lasts(calls, each, fresh, given) for each in inside)
    try:
        return is_constant(value) or recipe(value) is None
    except CannotRebuild:
        return objects.is_subtype(cls, types.ModuleType)


def _inside(value: Any) -> list[Any] | None:
    """What a list, a dict, a set or an instance of a plain class refers to; None for others."""
    cls = type(value)
    if cls is list or cls is set:
        return list(value)
    if cls is dict:
        return [*value.keys(), *value.values()]
    if objects.layout_base(cls) is object and objects.is_subtype(cls, object):
        own = objects.instance_dict(value)
        if own is not None and type(own) is dict:
            return [*own.keys(), *own.values()]
    return None


def _contents(calls: "Calls", value: Any) -> Any:
    if calls.tensors.holds(type(value)):
        with DisableTorchFunction():
            return value._version
    return _inside(value)


def _is_changed(calls: "Calls", answer: Answer) -> bool:
    now = _contents(calls, answer.value)
    if type(now) is not list:
        return bool(now != answer.contents)
    before = answer.contents
    return len(now) != len(before) or any(map(operator.is_not, now, before))


def keep(calls: "Calls", value: Any) -> None:
    """The program returns or keeps an object, or goes on with it elsewhere."""
    answer = calls.lent.get(id(value))
    if answer is not None:
        calls.tracer.before = answer.step
        raise HiddenState("an object from a function with a cache is kept")


def check_answers(calls: "Calls", outputs: list[Any]) -> None:
    """The trace has ended: what a cache would keep is as it was made, and nobody outside has got
    a tensor of it.
    """
    if not calls.lent:
        return
    with DisableTorchFunction():
        given = (each for each in outputs if calls.tensors.holds(type(each)))
        seen = {storage_of(each) for each in given if not calls.tensors.is_symbol(each)}
        seen |= calls.tensors.graph.overwritten
        for answer in calls.lent.values():
            is_tensor = calls.tensors.holds(type(answer.value))
            if _is_changed(calls, answer) or (is_tensor and storage_of(answer.value) in seen):
                calls.tracer.before = answer.step
                what = "a tensor" if is_tensor else "an object"
                raise HiddenState(f"{what} from a function with a cache is changed or kept")


def _count(calls: "Calls") -> int:
    return len(calls.tensors.graph.graph.nodes)


CACHED: Final[dict[int, Handler]] = {
    id(_begin): _begun,
    id(_give_up): _given_up,
    id(_end): _ended,
}
