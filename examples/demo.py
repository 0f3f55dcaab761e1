"""What `make demo` shows: the evaluator running a small program, one instruction after the other.

Handlers are chosen when a function is first evaluated, from the evaluator's table. The demo puts
its own function around each of them, which prints the instruction and the value it left on top of
the stack.
"""

import inspect
import reprlib
from collections.abc import Callable, Iterator
from typing import Any

from stator._native._core import Frame
from stator.bytecode import ArgKind, Decoded, Instruction, kind_of, resolve
from stator.evaluator import run
from stator.evaluator.registry import SELECTORS, Selector

# ---- the program


def words(text: str) -> Iterator[str]:
    for word in text.split():
        yield word.lower()


def histogram(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words(text):
        try:
            counts[word] += 1
        except KeyError:
            counts[word] = 1
    return counts


TEXT = "Row row"

# ---- watching it


class Watch:
    """Prints a row for each instruction that is evaluated."""

    def __init__(self) -> None:
        self.steps = 0
        self.last = ""

    def row(self, decoded: Decoded, instruction: Instruction, effect: str) -> None:
        self.steps += 1
        here = f"{decoded.code.co_name}:{decoded.line_of(instruction.unit) or ''}"
        where = here if here != self.last else ""
        self.last = here
        shown = f"{instruction.name} {argument(decoded, instruction)}"
        print(f"{where:<14} {shown:<32} {effect}".rstrip())

    def around(self, selector: Selector) -> Selector:
        """A selector whose handlers report what they do."""

        def selected(decoded: Decoded, instruction: Instruction) -> Any:
            handler, operand = selector(decoded, instruction)

            def step(frame: Frame, operand: Any) -> Any:
                try:
                    outcome = handler(frame, operand)
                except BaseException as error:
                    self.row(decoded, instruction, f"raises {type(error).__name__}")
                    raise
                self.row(decoded, instruction, top(frame))
                return outcome

            return step, operand

        return selected

    def install(self) -> None:
        for name, selector in SELECTORS.items():
            SELECTORS[name] = self.around(selector)


def argument(decoded: Decoded, instruction: Instruction) -> str:
    """An instruction's argument, as short as it can be understood."""
    meaning = resolve(decoded, instruction)
    match kind_of(instruction):
        case ArgKind.NONE:
            return ""
        case ArgKind.CONST:
            return reprlib.repr(meaning)
        case ArgKind.JUMP:
            return f"to {meaning}"
        case ArgKind.LOCAL_PAIR:
            return ", ".join(map(str, meaning))  # type: ignore[call-overload]
    return str(meaning[0] if isinstance(meaning, tuple) else meaning)


def top(frame: Frame) -> str:
    """The value on top of an evaluated frame's stack."""
    if not frame.stack:
        return ""
    value = frame.stack[-1]
    if " at 0x" in repr(value):  # an address says nothing to the reader
        return f"<{type(value).__name__}>"
    return reprlib.repr(value)


def source(*functions: Callable[..., Any]) -> str:
    return "\n\n".join(inspect.getsource(function) for function in functions)


def main() -> None:
    print(source(words, histogram))
    print(f">>> stator.evaluator.run(histogram, {TEXT!r})\n")
    print(f"{'line':<14} {'instruction':<32} top of the stack afterwards\n{'-' * 74}")
    watch = Watch()
    watch.install()
    result = run(histogram, TEXT)
    print(f"{'-' * 74}\n{watch.steps} instructions evaluated\n")
    print(f"evaluator: {result}")
    print(f"CPython:   {histogram(TEXT)}")


if __name__ == "__main__":
    main()
