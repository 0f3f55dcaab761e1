"""What is kept of a region that was traced, so that a further call need not be.

Stage: capture. In: a region's arguments (`Given`), its graph and result, and what the trace knows
of the world. Out: a `RegionRecord`: the body, where its operands come from, the shape of its
result, and the facts under which all that is right: sources and checks *relative to the
arguments*, each of which has the place of a parameter (`Local`). What does not start at an argument
(globals, closures) is a fact of the whole trace: it is guarded once, and right unless the program
has written to it.

All guards of the trace that start at an argument count, those from before the region included: what
was read once is not guarded a second time.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

import torch

from stator.capture.numbers.scalars import SYMBOLS
from stator.capture.regions.given import Given, Unfit
from stator.guards import Aliased, Guard, Is, IsNot, Local, NotAliased, Source
from stator.guards.checks import Holds
from stator.guards.tensors import TensorMatch, tensor_match
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction
from stator.world.kinds import CONSTANTS
from stator.world.store import ALL

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.regions.repeats import Repeat

_CONTAINERS: Final = (list, tuple, dict)


@dataclass(frozen=True)
class Operand:
    """Where an operand comes from: one of these is not None."""

    tensor: int | None = None
    """The place among the tensors that are arguments."""
    path: Source | None = None
    """The way from an argument."""
    value: Any = None
    """The same in all calls: of a global, a closure; a number that follows from the arguments."""


@dataclass(frozen=True)
class Made:
    """A part of a result."""

    kind: str
    value: Any = None
    parts: tuple["Made", ...] = ()


@dataclass
class RegionRecord:
    """One region that was traced."""

    name: str
    """Of its body, in the graph."""
    key: Any
    operands: list[Operand]
    outputs: list[torch.Tensor]
    """Fakes of what the body computes."""
    result: Made
    facts: list[Guard]
    """Relative to the arguments."""
    checks: list[Guard]
    """What is asked of a further call's raw arguments: the facts, and who is who."""
    raws: tuple[Any, ...]
    """The arguments of the call that was traced."""
    reads: dict[object, set[Any]]
    """What of the world was read that does not start at an argument, by object."""
    written: int
    """How often the world had been written to."""
    state: Any
    bare: list[Any] | None = None
    """Of each tensor, where it comes from, if the program has asked."""
    uses: int = 1
    paths: list[Source] = field(default_factory=list)
    """All ways from an argument that are read, each behind those that it starts with."""
    names: dict[int, set[Any]] = field(default_factory=dict)
    """By id of such a way: what of the object there is read."""
    repeat: "Repeat | None" = None
    """Of the facts, what a further call needs; made when there is one."""


class Argument(Local):
    """An argument of a region, by its place."""

    __slots__ = ()


class Relative:
    """Sources seen from the arguments of a region."""

    def __init__(self, calls: "Calls", world: Sequence[Any]) -> None:
        self._calls = calls
        origins = calls.world.origins
        self.roots = [origins[id(each)] for each in world]
        self.starts: dict[int, Source] = {id(s): Argument(i) for i, s in enumerate(self.roots)}
        self.adopted: set[int] = set()
        self._known: dict[int, Source | None] = {}
        aliased = [g for g in calls.world.guards if type(g.check) is Aliased and g.source]
        while self._follow(aliased):
            pass

    def _follow(self, aliased: Sequence[Guard]) -> bool:
        """An object may have been reached by another way first: its facts are there."""
        found = False
        for guard in aliased:
            assert isinstance(guard.check, Aliased) and guard.source is not None
            mine = self.of(guard.source)
            for other in guard.check.others if mine is not None else ():
                if self.of(other) is None:
                    assert mine is not None
                    self.starts[id(other)] = mine
                    self.adopted.add(id(other))
                    found = True
        if found:
            self._known.clear()
        return found

    def of(self, source: Source) -> Source | None:
        """The way from an argument; None if it does not start at one."""
        key = id(source)
        if key in self.starts:
            return self.starts[key]
        if key in self._known:
            return self._known[key]
        made = None if source.base is None else self.of(source.base)
        if made is not None:
            made = step(source, made)
        self._known[key] = made
        return made


def step(source: Source, base: Source) -> Source:
    """The same step from another source."""
    cls: Any = type(source)
    made = cls.__new__(cls)
    for name in _fields(cls):
        setattr(made, name, getattr(source, name))
    made.of = base
    return made  # type: ignore[no-any-return]


@functools.cache
def _fields(cls: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls) if each.name != "of")


def record_of(
    calls: "Calls",
    name: str,
    given: Given,
    raws: tuple[Any, ...],
    inputs: Sequence[Any],
    outputs: list[torch.Tensor],
    result: Any,
    reads: set[tuple[object, Any]],
    state: Any,
    *,
    asked: bool,
) -> RegionRecord:
    """What is kept; raises `Unfit` where a further call could not be compared with this one."""
    relative = Relative(calls, given.world)
    _check_written(calls, relative, reads)
    operands = [_operand(calls, given, relative, each) for each in inputs]
    made = _Result(calls, given, relative, operands, inputs, outputs).of(result)
    checks, facts = _facts(calls, given, relative)
    by_object: dict[object, set[Any]] = {}
    for whose, part in reads:
        by_object.setdefault(whose, set()).add(part)
    names: dict[int, set[Any]] = {}
    for each in calls.world.records.values():
        path = relative.of(each.source)
        if path is not None:
            names.setdefault(id(path), set()).update(by_object.get(id(each.shadow), ()))
    return RegionRecord(
        name,
        given.key,
        operands,
        outputs,
        made,
        facts,
        checks,
        raws,
        by_object,
        calls.world.written,
        state,
        bare=given.bare if asked else None,
        paths=_paths(facts, operands),
        names=names,
    )


def _paths(facts: Sequence[Guard], operands: Sequence[Operand]) -> list[Source]:
    found: dict[int, Source] = {}

    def add(source: Source | None) -> None:
        if source is not None and id(source) not in found:
            add(source.base)
            found[id(source)] = source

    for fact in facts:
        add(fact.source)
        if isinstance(fact.check, Aliased):
            for other in fact.check.others:
                add(other)
    for operand in operands:
        add(operand.path)
    return list(found.values())


def _check_written(calls: "Calls", relative: Relative, reads: set[tuple[object, Any]]) -> None:
    """What the program has written and the region has read is no fact that a guard could tell."""
    world = calls.world
    written: dict[object, set[Any]] = {}
    for whose, part in world.writes:
        written.setdefault(whose, set()).add(part)
    for whose, part in reads if written else ():
        names = written.get(whose)
        if names is None or not (part in names or part is ALL or ALL in names):
            continue
        value = _written_value(calls, whose, part)
        record = world.records.get(whose) if type(whose) is int else None
        own = record is not None and relative.of(record.source) is not None
        if own or not CONSTANTS.holds(type(value)):
            raise Unfit("it reads what the call has written")


def _written_value(calls: "Calls", whose: object, part: Any) -> Any:
    """The written value, if it is one that can be told; else something that is no constant."""
    record = calls.world.records.get(whose) if type(whose) is int else None
    if record is None:
        return calls.tracer.cells.get(whose, calls) if type(whose) is int else calls
    if type(part) is not str:
        return calls
    if record.dict is not None and part in record.dict:
        return record.dict[part]
    return record.items.get(part, calls)


def _operand(calls: "Calls", given: Given, relative: Relative, value: Any) -> Operand:
    if SYMBOLS.holds(type(value)):
        known = _symbols(given)
        if type(value) is not torch.SymInt or not value.node.expr.free_symbols <= known:
            raise Unfit("it uses a number that does not follow from its arguments")
        return Operand(value=value)
    if type(value) is not FakeTensor:
        raise Unfit("it uses a value that passes from node to node")
    for place, each in enumerate(given.tensors):
        if each is value:
            return Operand(tensor=place)
    source = calls.world.origins.get(id(value))
    if source is None or id(value) not in calls.tensors.inputs:
        raise Unfit("it uses a tensor of the call that is no argument")
    if calls.tensors.own.has_state(value) or calls.tensors.is_of_subclass(value):
        raise Unfit("it uses a tensor to which the call has given attributes")
    path = relative.of(source)
    if path is None:
        return Operand(value=value)
    if any(SYMBOLS.holds(type(size)) for size in (*value.shape, *value.stride())):
        raise Unfit("it uses a tensor with open sizes that is no argument")
    return Operand(path=path)


def _symbols(given: Given) -> set[Any]:
    sizes = [size for each in given.tensors for size in (*each.shape, *each.stride())]
    return {
        symbol
        for number in (*sizes, *given.numbers)
        if SYMBOLS.holds(type(number))
        for symbol in number.node.expr.free_symbols
    }


class _Result:
    """How a result is made again."""

    def __init__(
        self,
        calls: "Calls",
        given: Given,
        relative: Relative,
        operands: Sequence[Operand],
        inputs: Sequence[Any],
        outputs: Sequence[torch.Tensor],
    ) -> None:
        self._calls = calls
        self._given = given
        self._relative = relative
        self._operands = {id(value): i for i, value in enumerate(inputs)}
        self._outputs = {id(value): i for i, value in enumerate(outputs)}
        self._tensors = {id(value): i for i, value in enumerate(given.tensors)}
        self._containers = {id(value): i for i, value in enumerate(given.containers)}
        self._world = {id(value): i for i, value in enumerate(given.world)}
        self._seen: set[int] = set()

    def of(self, value: Any) -> Made:
        cls = type(value)
        if CONSTANTS.holds(cls):
            return Made("constant", value)
        for kind, places in (
            ("output", self._outputs),
            ("tensor", self._tensors),
            ("operand", self._operands),
            ("container", self._containers),
            ("world", self._world),
        ):
            if id(value) in places:
                return Made(kind, places[id(value)])
        if SYMBOLS.holds(cls):
            if cls is torch.SymInt and value.node.expr.free_symbols <= _symbols(self._given):
                return Made("constant", value)
        elif cls in _CONTAINERS and id(value) not in self._calls.world.origins:
            if id(value) in self._seen:
                raise Unfit("its result holds a container twice")
            self._seen.add(id(value))
            if cls is dict:
                names = tuple(dict.keys(value))
                if not all(type(name) is str for name in names):
                    raise Unfit("its result is a dict whose keys are no strings")
                return Made("dict", names, tuple(map(self.of, dict.values(value))))
            return Made(cls.__name__, None, tuple(map(self.of, value)))
        elif isinstance(value, torch.dtype | torch.device):
            return Made("constant", value)
        source = self._calls.world.origins.get(id(value))
        if source is not None and self._relative.of(source) is None:
            return Made("constant", value)
        raise Unfit(f"its result holds a {cls.__qualname__}")


def _facts(calls: "Calls", given: Given, relative: Relative) -> tuple[list[Guard], list[Guard]]:
    """What is checked of a further call's raw arguments; what is guarded then."""
    checks: list[Guard] = []
    facts: list[Guard] = []
    raws = _Raws(calls)
    for tensor in given.tensors:
        _check_tensor(calls, tensor)
    for guard in calls.world.guards:
        check, source = guard.check, guard.source
        if source is None:
            if any(relative.of(each) is not None for each in check.sources()):
                raise Unfit("its arguments are compared with others")
            continue
        mine = relative.of(source)
        others = check.sources()
        if mine is None and not any(relative.of(each) is not None for each in others):
            continue
        if isinstance(check, Holds):
            raise Unfit("its arguments are compared with others")
        if isinstance(check, Aliased):
            checks += _of_identity(check, mine, source, relative, raws)
            facts.append(Guard(mine or source, _rebased(check, relative), guard.code, guard.unit))
            continue
        if others or mine is None:
            raise Unfit("its arguments are compared with others")
        if isinstance(check, TensorMatch):
            with DisableTorchFunction():
                checks.append(Guard(mine, tensor_match(raws.of(source))))
            facts.append(Guard(mine, check, guard.code, guard.unit))
            continue
        checks.append(Guard(mine, check))
        facts.append(Guard(mine, check, guard.code, guard.unit))
    for index, root in enumerate(relative.roots):
        base = None if root.base is None else relative.of(root.base)
        if base is not None:  # an argument is a part of another one
            where = step(root, base)
            checks.append(Guard(where, Aliased((Argument(index),))))
            facts.append(Guard(where, Aliased((Argument(index),))))
    return checks, facts


def _check_tensor(calls: "Calls", tensor: torch.Tensor) -> None:
    """Refuses a tensor of which more is known than its key tells."""
    origin = calls.world.origins.get(id(tensor))
    if origin is None:
        return
    for guard in calls.world.guards:
        step: Source | None = guard.source
        if step is origin and isinstance(guard.check, TensorMatch | Aliased):
            continue
        while step is not None and step is not origin:
            step = step.base
        if step is not None:
            raise Unfit("an attribute of a tensor is read that is an argument")


def _of_identity(
    check: Aliased, mine: Source | None, source: Source, relative: Relative, raws: "_Raws"
) -> Iterator[Guard]:
    """Which objects are the same, or are not, asked of the arguments of a further call."""
    apart = isinstance(check, NotAliased)
    here = [each for each in (mine, *map(relative.of, check.others)) if each is not None]
    there = [each for each in (source, *check.others) if relative.of(each) is None]
    if len(here) > 1:
        yield Guard(here[0], type(check)(tuple(here[1:])))
    for each in there:
        for own in here:
            yield Guard(own, IsNot(raws.of(each)) if apart else Is(raws.of(each)))
    if mine is not None and not apart:
        for other in check.others:
            if id(other) in relative.adopted:  # it was reached by another way, maybe a global's
                yield Guard(mine, Is(raws.of(other)))


def _rebased(check: Aliased, relative: Relative) -> Aliased:
    others = check.others
    return type(check)(
        tuple(
            each if id(each) in relative.adopted else relative.of(each) or each for each in others
        )
    )


class _Raws:
    """The object behind a source of the trace."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self._by_source: dict[int, Any] | None = None

    def of(self, source: Source) -> Any:
        if self._by_source is None:
            world = self._calls.world
            self._by_source = {}
            by_stand_in = {id(each): each for each in world._alive}
            for key, where in world.origins.items():
                record = world.records.get(key)
                if record is not None:
                    self._by_source[id(where)] = record.raw
                elif key in self._calls.tensors.inputs:
                    self._by_source[id(where)] = self._calls.tensors.inputs[key][0]
                elif key in by_stand_in:
                    self._by_source[id(where)] = by_stand_in[key]
            for guard in world.guards:  # another way to the same object
                if type(guard.check) is Aliased and guard.source is not None:
                    known = (each for each in guard.check.others if id(each) in self._by_source)
                    for other in known:
                        self._by_source.setdefault(id(guard.source), self._by_source[id(other)])
        found = self._by_source.get(id(source), self)
        if found is self:
            raise Unfit("an object is compared that is not known")
        return found
