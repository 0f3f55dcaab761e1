"""The operations interface: where a tracer plugs into the evaluator.

Stage: between the opcode handlers and the user's objects. Every instruction that can touch a
user's object, name or cell does so through one of these functions, which a frame carries as
`frame.ops`; frames called from it inherit them. The plain implementation, `PLAIN`, is CPython's
own C API, called inside a window (docs/native.md), so that Python code it calls back is evaluated
too.

A tracer implements the same names. A function gets the frame it works for first, and either returns
a value, or raises the user's exception, or (only `call` and `call_ex`) returns a `Frame` that it
has pushed, whose result then goes to the caller's stack.
"""

from types import CellType, CodeType, FunctionType, SimpleNamespace
from typing import Any, Final, Protocol, cast

from stator._native import _core as core
from stator._native._core import NULL, Frame
from stator.evaluator.errors import InternalError
from stator.evaluator.loop import evaluate


class Operations(Protocol):
    """What an evaluated program can do to the world."""

    def evaluate(self, frame: Frame, /) -> bool:
        """Run a base frame: `loop.evaluate`, or a loop of one's own."""

    # operators
    def binary(self, frame: Frame, op: int, a: Any, b: Any, /) -> Any: ...
    def compare(self, frame: Frame, op: int, a: Any, b: Any, /) -> Any: ...
    def truth(self, frame: Frame, value: Any, /) -> bool: ...
    def tested(self, frame: Frame, value: Any, /) -> Any:
        """What the jump behind is to test: the truth of a value, or the value, if the jump may ask
        for it.
        """

    def negative(self, frame: Frame, value: Any, /) -> Any: ...
    def positive(self, frame: Frame, value: Any, /) -> Any: ...
    def invert(self, frame: Frame, value: Any, /) -> Any: ...
    def contains(self, frame: Frame, container: Any, item: Any, /) -> bool: ...
    def identical(self, frame: Frame, a: Any, b: Any, /) -> bool:
        """`a is b`, asked only when the two are not one object."""

    # attributes and items
    def getattr(self, frame: Frame, obj: Any, name: str, /) -> Any: ...
    def setattr(self, frame: Frame, obj: Any, name: str, value: Any, /) -> None: ...
    def delattr(self, frame: Frame, obj: Any, name: str, /) -> None: ...
    def getitem(self, frame: Frame, obj: Any, key: Any, /) -> Any: ...
    def setitem(self, frame: Frame, obj: Any, key: Any, value: Any, /) -> None: ...
    def delitem(self, frame: Frame, obj: Any, key: Any, /) -> None: ...

    # iteration; `next` answers NULL at the end, `send` answers (has returned, value)
    def iter(self, frame: Frame, obj: Any, /) -> Any: ...
    def next(self, frame: Frame, iterator: Any, /) -> Any: ...
    def send(self, frame: Frame, receiver: Any, value: Any, /) -> tuple[bool, Any]: ...

    # names; `lookup_name` answers NULL for a missing one
    def load_global(self, frame: Frame, name: str, /) -> Any: ...
    def store_global(self, frame: Frame, name: str, value: Any, /) -> None: ...
    def delete_global(self, frame: Frame, name: str, /) -> None: ...
    def load_name(self, frame: Frame, namespace: Any, name: str, /) -> Any: ...
    def store_name(self, frame: Frame, name: str, value: Any, /) -> None: ...
    def delete_name(self, frame: Frame, name: str, /) -> None: ...
    def lookup_name(self, frame: Frame, mapping: Any, name: str, /) -> Any: ...

    # variables; asked when one has no value, and before one loses it
    def pending(self, frame: Frame, index: int, /) -> Any:
        """The value of a variable that was not put into the frame yet, or NULL. Asked once."""

    # cells; NULL stands for an empty one
    def load_cell(self, frame: Frame, cell: CellType, /) -> Any: ...
    def store_cell(self, frame: Frame, cell: CellType, value: Any, /) -> None: ...

    # calls
    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None, /
    ) -> Any: ...
    def call_ex(
        self, frame: Frame, callable: Any, args: Any, kwargs: dict[str, Any] | None, /
    ) -> Any: ...
    def call_native(self, frame: Frame, callable: Any, /, *args: Any) -> Any: ...
    def make_function(self, frame: Frame, code: CodeType, /) -> FunctionType: ...

    # exceptions
    def raised(self, frame: Frame, exc: BaseException, /) -> BaseException:
        """What is raised in place of an exception that the program, or C code, has raised."""

    def outside(self, frame: Frame, exc: BaseException, /) -> BaseException:
        """What becomes of an exception that nothing in the program has raised: a signal handler
        has, or the code of a tracer, on its behalf.
        """

    def failed(self, frame: Frame, exc: BaseException, /) -> BaseException:
        """What is raised in place of an exception of the evaluator's own code, or a tracer's."""

    # any other instruction, see `thunks`
    def instruction(self, frame: Frame, thunk: FunctionType, /, *operands: Any) -> Any: ...


NAMES: Final = frozenset(name for name in Operations.__dict__ if name[0] != "_")


def plain() -> Operations:
    """A fresh object with the operations of plain CPython, to be changed in parts."""
    ours = {"evaluate": evaluate, "pending": _nothing_pending, "tested": core.truth}
    ours |= {"raised": _of_the_program, "outside": _of_the_program, "failed": InternalError.at}
    operations = {name: core.__dict__[name] for name in NAMES - ours.keys()}
    return cast(Operations, SimpleNamespace(**ours, **operations))


def _nothing_pending(frame: Frame, index: int) -> Any:
    return NULL


def _of_the_program(frame: Frame, exc: BaseException) -> BaseException:
    """It stays the same; signal handlers run between two instructions of the program."""
    return exc


PLAIN: Final = plain()
