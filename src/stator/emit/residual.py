"""The residual function: what remains to be done on every later call.

Stage: emit. In: a `Plan`, the sources of the graph's inputs, the compiled graph. Out: a function
that calls the graph, builds the values, writes the effects and returns; and its text, which is what
is compiled, for the reader.

All values are built before the first effect is written, so a failure leaves nothing half done.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any, Final

from stator._native import _core as core
from stator._native._core import DirectCall
from stator.diagnostics.artefacts import Title, comments, publish
from stator.effects import model, steps
from stator.effects.ahead import advanced
from stator.effects.exits import Entry
from stator.effects.instances import dict_descriptor
from stator.emit import runtime
from stator.emit.ending import Ending
from stator.emit.fetching import Fetching
from stator.emit.names import Names, identifier, literal, parameters
from stator.emit.text import compiled
from stator.emit.traceback import hidden
from stator.guards import Fixed, Source
from stator.objects.types import name_of

_WIDTH: Final = 60  # a value used once stands where it is used, if it is no longer than this


@dataclass(frozen=True, eq=False)
class Residual:
    """A generated function; it takes the values of `sources`, if any, as a tuple in front."""

    function: FunctionType
    sources: tuple[Source, ...]
    text: str
    graph: CellType | None = None
    """What holds the graph that it calls."""
    direct: DirectCall | None = None
    """The same, if calling the graph is all it does."""

    @property
    def target(self) -> DirectCall | FunctionType:
        return self.function if self.direct is None else self.direct


def residual(
    plan: steps.Plan,
    *,
    code: CodeType,
    inputs: Sequence[Source],
    graph: Callable[..., Sequence[Any]] | None,
    name: str,
    ending: Ending | None = None,
    namespace: dict[str, Any] | None = None,
    number: int = 0,
    about: Sequence[str] = (),
    failed: Callable[[Entry, bool], None] | None = None,
) -> Residual:
    """The function for calls of `code`, whose bound parameters it takes positionally.

    With an ending, it goes on natively where the plan's values have been made. The namespace is
    what it shows as its globals; it uses none of them. It is known to debuggers by its name and
    number, with lines `about` it above its text. If the graph raises, `failed` is called with where
    that is in the text, and whether the function's frame is in the traceback.
    """
    writer = Writer(plan, code, inputs, graph, ending)
    text = writer.text()
    above = comments(about)
    first = above.count("\n") + 1
    file = Title.of(name, number).file()
    places = plan.traceback if ending is None else ending.suspension.places
    like = Entry(file, 0, code.co_name, code.co_qualname)
    at = like._replace(line=first + 1)
    watched = None
    if graph is not None and failed is not None:
        watched = writer.names.of(functools.partial(failed, at, True), "failed")
    function = compiled(
        text,
        places[0] if places else like,
        writer.names.objects,
        namespace={} if namespace is None else namespace,
        first=first,
        failed=watched,
    )
    if plan.raises and not places:  # the exception has passed its frame before the call
        function.__code__ = hidden(function.__code__)
    publish(file, above + text, function.__code__)
    cell = None
    if writer.graph is not None:
        freevars = function.__code__.co_freevars
        cell = (function.__closure__ or ())[freevars.index(writer.graph)]
    direct = None
    if cell is not None and failed is not None and writer.direct is not None:
        output, arguments = writer.direct
        direct = DirectCall(function, cell, arguments, output, functools.partial(failed, at, False))
    return Residual(function, tuple(writer.fetching.sources), text, cell, direct)


def expressions(plan: steps.Plan, ending: Ending | None) -> Iterator[steps.Expr]:
    """All expressions of a plan, in order, each as often as it is used."""
    for step in plan.builds:
        yield step.value
    for each in plan.effects:
        if isinstance(each, steps.Apply):
            yield from model.values_of(each.effect)
        else:
            yield each.value
    if ending is None:
        yield plan.result
    else:
        yield from (plan.values[number] for number in ending.numbers())


class Writer:
    """One residual function in the making."""

    def __init__(
        self,
        plan: steps.Plan,
        code: CodeType,
        inputs: Sequence[Source],
        graph: Callable[..., Sequence[Any]] | None,
        ending: Ending | None,
    ) -> None:
        self._plan = plan
        self._ending = ending
        self._code = code
        self._inputs = inputs
        self._graph = graph
        self._parameters = parameters(code)
        self.names = Names(self._parameters)
        self.fetching = Fetching(self._parameters, self.names)
        self._outputs = self.names.fresh("outputs")
        self._values: dict[int, str] = {}  # the name of a value, or its text if it is used once
        self._variables: list[str] = []  # those among them that are names
        self._uses: Counter[int] = Counter()
        self._uses_of_outputs = 0
        self.graph: str | None = None  # its name, once the text is written
        self.direct: tuple[int, tuple[int, ...]] | None = None  # the output, and the inputs' places
        self._survey()

    def _survey(self) -> None:
        """What is needed from where: inputs first, so that they are fetched in a row."""
        if self._graph is not None:
            self.fetching.add_inputs(self._inputs)
        for expr in expressions(self._plan, self._ending):
            for leaf in steps.leaves(expr):
                match leaf:
                    case model.Fetched():
                        self.fetching.add(leaf.source)
                    case model.Output():
                        self._uses_of_outputs += 1
                    case steps.Built():
                        self._uses[leaf.number] += 1
        for step in self._plan.effects:
            if isinstance(step, steps.Apply):
                self.fetching.add(step.effect.target)
        if self._uses_of_outputs and self._graph is None:
            raise ValueError("the plan uses outputs of a graph, and there is none")

    def text(self) -> str:
        body = list(self._statements())
        head = ", ".join([*self.fetching.parameter, *self._parameters])
        lines = [f"def {identifier(self._code.co_name)}({head}):", *(f"    {s}" for s in body)]
        return "\n".join(lines) + "\n"

    # -- statements --

    def _statements(self) -> Iterator[str]:
        builds = self._builds()
        effects = [line for step in self._plan.effects for line in self._written(step)]
        if self._graph is not None:
            self.graph = self.names.of(self._graph, "graph")
            call = f"{self.graph}({self.fetching.arguments(self._inputs)})"
            # Raising is a statement of its own: an error in the graph is another matter.
            alone = not (builds or effects or self._ending or self._plan.raises)
            if self._uses_of_outputs == 1 and alone:
                self._outputs = call  # where its one output is used: `return graph(x)[0]`
                builds = self._builds()
                self.direct = self._directly()
            else:
                yield f"{self._outputs} = {call}" if self._uses_of_outputs else call
        yield from builds
        yield from effects
        if self._ending is not None:
            ending = list(self._ending.statements(self.names, self._wanted))
            if self._ending.looks_ahead:
                yield from self._dropped(ending)
            yield from ending
            return
        result = self._expr(self._plan.result)
        if self._plan.raises:
            frames = self.names.of(self._plan.traceback[1:], "frames")
            yield from self._left(f"{self.names.of(runtime.leave)}({result}, {frames})")
        else:
            yield f"return {result}"

    def _dropped(self, statements: Sequence[str]) -> Iterator[str]:
        """Lets go of what is part of other values: whoever looks ahead asks who else has it."""
        used = set(re.findall(r"\w+", " ".join(statements)))
        if names := [name for name in self._variables if name not in used]:
            yield f"del {', '.join(names)}"

    def _directly(self) -> tuple[int, tuple[int, ...]] | None:
        """The output that is returned and the inputs' places, if that is all there is to say."""
        result = self._plan.result
        places = self.fetching.places(self._inputs)
        if not isinstance(result, model.Output) or places is None:
            return None
        return result.index, places

    def _left(self, call: str) -> Iterator[str]:
        """The call that raises. This frame will be in the traceback, so it keeps no exception:
        what is dropped must go, without the garbage collector.
        """
        if not self._variables:
            yield call
            return
        yield "try:"
        yield f"    {call}"
        yield "finally:"
        yield f"    del {', '.join(self._variables)}"

    def _wanted(self, number: int) -> str:
        """A value with which the program goes on."""
        return self._expr(self._plan.values[number])

    def _builds(self) -> list[str]:
        return [line for step in self._plan.builds for line in self._build(step)]

    def _written(self, step: steps.Apply | steps.Make | steps.Fill) -> Iterator[str]:
        if isinstance(step, steps.Apply):
            return self._effect(step.effect)
        return self._build(step)

    def _build(self, step: steps.Make | steps.Fill) -> Iterator[str]:
        text = self._expr(step.value)
        if isinstance(step, steps.Fill):
            yield text
        elif self._uses[step.number] == 1 and len(text) <= _WIDTH and self._may_move(step.value):
            self._values[step.number] = text
        else:
            kind = identifier(name_of(step.kind)).lower()
            self._values[step.number] = name = self.names.fresh(identifier(f"{kind}_{step.number}"))
            self._variables.append(name)
            yield f"{name} = {text}"

    def _may_move(self, expr: steps.Expr) -> bool:
        """To where it is used: also between effects, if building it can't fail."""
        free = not self._plan.effects and self._ending is None
        return free or isinstance(expr, steps.Tuple | steps.List)

    def _effect(self, effect: model.Effect) -> Iterator[str]:
        target = self.fetching.text(effect.target)
        expr, helper, names = self._expr, self._helper, self.names
        match effect:
            case model.ListContents():
                yield helper(runtime.set_list, target, expr(steps.List(effect.items)))
            case model.ListExtended():
                call = names.of(list.extend, "list_extend")
                yield f"{call}({target}, {expr(steps.List(effect.items))})"
            case model.DictContents():
                yield helper(runtime.set_dict, target, expr(steps.Dict(effect.pairs)))
            case model.SetContents():
                if effect.layout is None:
                    yield helper(runtime.set_set, target, expr(steps.Tuple(effect.items)))
                else:
                    call = names.of(core.set_take_over, "set_take_over")
                    yield f"{call}({target}, {expr(model.Constant(effect.layout))})"
            case model.DequeContents(limit=(limit,)):
                call = names.of(deque.__init__, "deque_init")
                yield f"{call}({target}, {expr(steps.List(effect.items))}, {limit})"
            case model.DequeContents():
                yield helper(runtime.set_deque, target, expr(steps.List(effect.items)))
            case model.ByteArrayContents():
                yield helper(runtime.set_bytearray, target, expr(effect.value))
            case model.ArrayContents():
                yield helper(runtime.set_array, target, expr(effect.value))
            case model.KeySet():
                yield helper(runtime.set_key, target, expr(effect.key), expr(effect.value))
            case model.KeyDel():
                yield helper(runtime.del_key, target, expr(effect.key))
            case model.AttrSet():
                name = model.Constant(effect.name)
                attributes = self._attributes(target, effect.kind)
                yield helper(runtime.set_key, attributes, expr(name), expr(effect.value))
            case model.AttrDel():
                name = model.Constant(effect.name)
                attributes = self._attributes(target, effect.kind)
                yield helper(runtime.del_key, attributes, expr(name))
            case model.SlotSet(descriptor=descriptor):
                call = names.of(descriptor.__set__, f"set_{descriptor.__name__}")
                yield f"{call}({target}, {expr(effect.value)})"
            case model.SlotDel(descriptor=descriptor):
                call = names.of(descriptor.__delete__, f"del_{descriptor.__name__}")
                yield f"{call}({target})"
            case model.StateSet(method=method):
                owner = getattr(method, "__objclass__", None)
                setter = "set_state" if owner is None else f"{name_of(owner)}_setstate"
                call = names.of(method, setter)
                yield f"{call}({target}, {expr(effect.value)})"
            case model.Passed():
                places = self.names.of(effect.places, "places")
                yield self._helper(runtime.set_traceback, target, places, expr(effect.value))
            case model.Advanced(times=times):
                yield helper(advanced, target, str(times))
            case model.CellSet():
                yield f"{target}.cell_contents = {expr(effect.value)}"
            case model.CellDel():
                yield f"del {target}.cell_contents"
            case model.ClassAttrSet():
                name = model.Constant(effect.name)
                call = names.of(type.__setattr__, "type_setattr")
                yield f"{call}({target}, {expr(name)}, {expr(effect.value)})"
            case model.ClassAttrDel():
                name = model.Constant(effect.name)
                yield f"{names.of(type.__delattr__, 'type_delattr')}({target}, {expr(name)})"
            case model.Perform():
                given = [*map(expr, effect.args), *(f"{k}={expr(v)}" for k, v in effect.keywords)]
                function = effect.target.value if type(effect.target) is Fixed else None
                if isinstance(function, steps.Helper):
                    target = names.of(runtime.HELPERS[function])
                yield f"{target}({', '.join(given)})"
            case _:
                raise ValueError(f"no such effect: {type(effect).__name__}")

    def _helper(self, function: Callable[..., Any], *args: str) -> str:
        return f"{self.names.of(function)}({', '.join(args)})"

    def _attributes(self, target: str, kind: type | None) -> str:
        """The instance dict; without a search if guards have made sure of the type."""
        if kind is None:
            return self._helper(runtime.attributes, target)
        descriptor = dict_descriptor(kind)
        if descriptor is None:
            raise ValueError(f"instances of {name_of(kind)} have no dict")
        return f"{self.names.of(descriptor.__get__, f'dict_of_{name_of(kind)}')}({target})"

    # -- expressions --

    def _expr(self, expr: steps.Expr) -> str:
        match expr:
            case steps.Built():
                return self._values[expr.number]
            case model.Fetched():
                return self.fetching.text(expr.source)
            case model.Output():
                return f"{self._outputs}[{expr.index}]"
            case model.Constant():
                return literal(expr.value) or self.names.of(expr.value)
            case steps.Tuple():
                return f"({self._joined(expr.items)}{',' if len(expr.items) == 1 else ''})"
            case steps.List():
                return f"[{self._joined(expr.items)}]"
            case steps.Set():
                return f"{{{self._joined(expr.items)}}}"
            case steps.Dict():
                pairs = (f"{self._expr(key)}: {self._expr(value)}" for key, value in expr.pairs)
                return f"{{{', '.join(pairs)}}}"
            case steps.Call():
                return f"{self._callee(expr)}({self._joined(expr.args)})"
            case _:
                raise ValueError(f"not part of a plan: {type(expr).__name__}")

    def _joined(self, items: Sequence[steps.Expr]) -> str:
        return ", ".join(map(self._expr, items))

    def _callee(self, call: steps.Call) -> str:
        if isinstance(call.function, steps.Helper):
            return self.names.of(runtime.HELPERS[call.function])
        return self.names.of(call.function, call.name)
