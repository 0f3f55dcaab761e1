"""`check` finds what is wrong with code that is made wrong on purpose."""

from collections.abc import Callable
from typing import Any

import pytest

from stator.bytecode import BytecodeError, Decoded, Handler, Instruction, check, decode


def program(items: list[int]) -> int:
    total = 0
    for item in items:
        try:
            total += item
        except TypeError:
            return -1
    return total


def rebuilt(
    change: Callable[[Instruction], Instruction] = lambda instruction: instruction,
    handlers: tuple[Handler, ...] | None = None,
    keep: slice = slice(None),
) -> Decoded:
    """`program`, decoded and then changed."""
    good = decode(program.__code__)
    return Decoded(
        good.code,
        tuple(change(each) for each in good.instructions)[keep],
        good.handlers if handlers is None else handlers,
        good.units,
    )


FIRST = decode(program.__code__).instructions[0].next


def only(*names: str, **fields: Any) -> Callable[[Instruction], Instruction]:
    """Change fields of the instructions of these names."""
    return lambda each: each._replace(**fields) if each.name in names else each


def test_unchanged() -> None:
    check(rebuilt())


@pytest.mark.parametrize(
    ("decoded", "complaint"),
    [
        (rebuilt(keep=slice(1, None)), "a gap or an overlap before"),
        (rebuilt(only("GET_ITER", unit=500)), "are out of order"),
        (rebuilt(keep=slice(0, -1)), "instructions end at"),
        (rebuilt(only("RERAISE", "RETURN_VALUE", name="NOP")), "control runs off the end"),
        (rebuilt(only("LOAD_GLOBAL", arg=500)), "is out of range"),
        (rebuilt(only("STORE_FAST", arg=50)), "is out of range"),
        (rebuilt(only("FOR_ITER", target=None)), "and its target disagree"),
        (rebuilt(only("GET_ITER", target=0)), "and its target disagree"),
        (rebuilt(only("JUMP_BACKWARD", target=500)), "does not land on an instruction"),
        (rebuilt(handlers=(Handler(5, 5, 0, 0, False),)), "is empty"),
        (rebuilt(handlers=(Handler(0, 2, 0, 0, False), Handler(1, 3, 0, 0, False))), "overlaps"),
        (rebuilt(handlers=(Handler(0, 500, 0, 0, False),)), "covers an instruction in part"),
        (rebuilt(handlers=(Handler(0, FIRST, 500, 0, False),)), "does not land on an instruction"),
        (rebuilt(handlers=(Handler(0, FIRST, 0, 99, False),)), "is impossible"),
        (rebuilt(handlers=(Handler(0, FIRST, 0, -1, False),)), "is impossible"),
    ],
)
def test_changed(decoded: Decoded, complaint: str) -> None:
    with pytest.raises(BytecodeError, match=complaint):
        check(decoded)
