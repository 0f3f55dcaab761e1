"""The end of a residual function whose program goes on elsewhere.

Stage: emit. In: a `Suspension` and the compiled continuations for its exits. Out: statements: the
instruction that was not captured, carried out natively, then a tail call (docs/dispatch.md). The
instruction runs in frames that look like the user's: the residual function stands for the
outermost, and a function for each of the others does nothing but call the next one.

    result = forward(outputs[0])                            # stands for the frames inside
    return (resume_forward, x, result,)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from stator._native._core import NULL, CompiledFunction, set_handled_exception
from stator._native._core import swap_handled_exception as handle
from stator.effects.ahead import ahead
from stator.effects.instruction import Result, Step
from stator.effects.suspension import Argument, Caught, Exit, Suspension, Upcoming
from stator.emit.names import Names, identifier
from stator.emit.text import compiled


class Failure:
    """What a frame returns in place of a result: an exception that it catches."""

    __slots__ = ("exception",)

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception


@dataclass(frozen=True, eq=False)
class Ending:
    """How a residual function ends: the suspension, and what its exits call."""

    suspension: Suspension
    way: CompiledFunction | None
    other: CompiledFunction | None
    caught: CompiledFunction | None

    def _exits(self) -> Iterator[Exit]:
        found = self.suspension
        yield from (each for each in (found.way, found.other, found.caught) if each is not None)

    @property
    def looks_ahead(self) -> bool:
        """Whether an iterator is asked what it gives next."""
        return any(type(given) is Upcoming for each in self._exits() for given in each.arguments)

    def numbers(self) -> Iterator[int]:
        """The numbers of the values that the statements use, as often as they do."""
        found = self.suspension
        if found.handled is not None:
            yield found.handled
        yield from (found.operands[index] for index in _used(found.step))  # type: ignore[misc]
        for each in self._exits():
            for argument in each.arguments:
                if type(argument) is int:
                    yield argument
                elif type(argument) is Upcoming:
                    yield argument.number

    def statements(self, names: Names, value: Callable[[int], str]) -> Iterator[str]:
        """The statements; `value` gives the text of a value."""
        found = self.suspension
        if not found.step.text:
            yield f"return {self._leave(names, value, found.way, self.way, '')}"
            return
        result, error = names.fresh("result"), names.fresh("error")
        texts = [None if n is None else _atom(value(n)) for n in found.operands]
        call = self._call(names, texts)
        failure = names.of(Failure)
        catches_here = found.catcher == 0
        indirect = found.caught is not None and (found.handled is not None or not catches_here)
        if found.handled is not None:
            previous = names.fresh("previous")
            yield f"{previous} = {names.of(handle, 'handle')}({value(found.handled)})"
        if catches_here:
            yield "try:"
            yield f"    {result} = {call}"
            yield f"except {names.of(BaseException)} as {error}:"
            if indirect:
                yield f"    {result} = {failure}({error})"
            else:
                assert found.caught is not None
                yield f"    return {self._leave(names, value, found.caught, self.caught, error)}"
        else:
            yield f"{result} = {call}"
        if found.handled is not None:
            yield f"{names.of(set_handled_exception, 'set_handled')}({previous})"
        if indirect:
            assert found.caught is not None
            yield f"if {names.of(type, 'type')}({result}) is {failure}:"
            raised = f"{result}.exception"
            yield "    try:"
            yield f"        return {self._leave(names, value, found.caught, self.caught, raised)}"
            yield "    finally:"
            yield f"        del {result}"  # this frame may be in its traceback
        if found.other is not None:
            absent = f"{result} is {names.of(NULL, 'NULL')}"
            yield f"if {absent if found.step.iterates else f'not {result}'}:"
            yield f"    return {self._leave(names, value, found.other, self.other, result)}"
        yield f"return {self._leave(names, value, found.way, self.way, result)}"

    def _leave(
        self,
        names: Names,
        value: Callable[[int], str],
        way: Exit,
        target: CompiledFunction | None,
        result: str,
    ) -> str:
        """What dispatch does next: a compiled function to call, or None and the result."""
        given = [_text(argument, names, value, result) for argument in way.arguments]
        name = "None"
        if target is not None:
            name = names.of(target, f"resume_{way.points[-1].code.co_name}")
        return f"({', '.join([name, *given])},)"

    def _call(self, names: Names, operands: Sequence[str | None]) -> str:
        """The step as an expression: itself, or a call of the frames inside."""
        found = self.suspension
        if len(found.places) == 1:
            objects = {key: names.of(held, key) for key, held in found.step.objects.items()}
            return _filled(found.step, objects, operands)
        given = [operands[index] or "" for index in _used(found.step)]
        function = _frames(found)
        return f"{names.of(function)}({', '.join(given)})"


def _text(argument: Argument, names: Names, value: Callable[[int], str], result: str) -> str:
    if type(argument) is Result:
        return result if argument.item is None else f"{result}[{argument.item}]"
    if type(argument) is Caught:
        return result
    if type(argument) is Upcoming:
        return f"{names.of(ahead)}({value(argument.number)})"
    assert type(argument) is int
    return value(argument)


def _atom(text: str) -> str:
    """The text of a value, to stand in any expression."""
    return text if text.isidentifier() or text.endswith((")", "]")) else f"({text})"


def _used(step: Step) -> list[int]:
    """The operands that the text mentions, in order, each once."""
    return [i for i in range(len(step.operands)) if f"{{{i}}}" in step.text]


def _filled(step: Step, objects: dict[str, str], operands: Sequence[str | None]) -> str:
    """The text with names for objects and texts for operands."""
    return step.text.format(*(each or "" for each in operands), **objects)


def _frames(found: Suspension) -> FunctionType:
    """Functions in the place of the user's, but the outermost; they end in the step."""
    step, used = found.step, _used(found.step)
    names = [f"a{index}" for index in range(len(used))]
    operands: list[str | None] = [None] * len(step.operands)
    for name, index in zip(names, used, strict=True):
        operands[index] = name
    body = _filled(step, {key: key for key in step.objects}, operands)
    objects: dict[str, Any] = dict(step.objects)
    for index in reversed(range(1, len(found.places))):
        place = found.places[index]
        lines = [f"def {identifier(place.name)}({', '.join(names)}):", f"    return {body}"]
        if index == found.catcher:
            objects |= {"Failure": Failure, "BaseException": BaseException}
            lines[1:] = ["    try:", f"        return {body}"]
            lines += ["    except BaseException as error:", "        return Failure(error)"]
        function = compiled("\n".join(lines), place, objects, namespace=found.namespaces[index])
        body = f"inner({', '.join(names)})"
        objects = {"inner": function}
    return function
