"""Programs that catch torch._dynamo's exceptions catch stator's.

In: torch's exceptions, by name, once their module has been loaded. Out: each exception of stator
that says the same is, while stator is installed, of a class that is a subclass of both. It has the
name, the text and the attributes that it always has; what programs read of torch's is there, too.

A program may load torch's module only when it looks at an exception: `except
torch._dynamo.exc.InvalidBackend`. So those that were raised before are noted, and become torch's
right then.
"""

import traceback
import weakref
from collections.abc import Callable
from typing import Any, Final

from stator.backends import BackendError, UnknownBackendError
from stator.capture import CaptureError
from stator.driver.errors import RecompileError, RecompileLimitError, SpecializedError
from stator.dropin.patches import Patches
from stator.evaluator import InternalError

Note = Callable[[Any], dict[str, Any]]


def _nothing(error: Any) -> dict[str, Any]:
    return {}


def _unsupported(error: CaptureError) -> dict[str, Any]:
    frames = [traceback.FrameSummary(at.file, at.line, at.function) for at in error.places]
    return {
        "msg": str(error),
        "gb_type": error.title,
        "category": None,
        "case_name": None,
        "skip_frame": False,
        "real_stack": traceback.StackSummary.from_list(frames),
    }


def _backend(error: BackendError) -> dict[str, Any]:
    return {"backend_name": error.backend, "first_useful_frame": None}


class _Cause:
    """The exception of a backend, which becomes the cause after the error has been made."""

    def __get__(self, error: Any, cls: type) -> Any:
        return None if error is None else error.__cause__


# What stator raises, what torch calls it, and what programs read of that.
DYNAMOS: Final[tuple[tuple[type[BaseException], str, Note], ...]] = (
    (CaptureError, "Unsupported", _unsupported),
    (RecompileLimitError, "FailOnRecompileLimitHit", _nothing),
    (RecompileError, "RecompileError", _nothing),
    (UnknownBackendError, "InvalidBackend", _nothing),
    (BackendError, "BackendCompilerFailed", _backend),
    (InternalError, "InternalTorchDynamoError", _nothing),
)
SHAPES: Final[tuple[tuple[type[BaseException], str, Note], ...]] = (
    (SpecializedError, "ConstraintViolationError", _nothing),
)


_raised: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""Exceptions that were made while torch's were not loaded."""


def expect(table: Any, patches: Patches) -> None:
    """From now on what is raised is noted, until torch's module is there."""
    for ours, _, _ in table:
        patches.set(ours, "__new__", staticmethod(_noting(ours)))


def _noting(ours: type[BaseException]) -> Callable[..., Any]:
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        made: Any = BaseException.__new__(cls, *args)
        if cls is ours:
            _raised.add(made)
        return made

    return new


def follow(table: Any, module: Any, patches: Patches) -> None:
    """From now on what is raised is torch's as well, and what was raised and is looked at now."""
    for ours, name, note in table:
        theirs = getattr(module, name, None)
        if theirs is not None:  # torch has it, in this version
            both = _double(ours, theirs, note, patches)
            for error in [each for each in _raised if type(each) is ours]:
                error.__class__ = both
                error.__dict__.update(note(error))


def forget() -> None:
    """Nobody asks for the exceptions that were noted."""
    _raised.clear()


def _double(
    ours: type[BaseException], theirs: type[BaseException], note: Note, patches: Patches
) -> type[BaseException]:
    class Plain(*_bases(ours)):  # type: ignore[misc]
        """Between the two: what stator's class says to its base is not for torch's."""

        def __init__(self, *args: Any) -> None:
            BaseException.__init__(self, *args)

    class Both(ours, Plain, theirs):  # type: ignore[misc, valid-type]
        inner_exception = _Cause()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.__dict__.update(note(self))

        def __str__(self) -> str:
            return ours.__str__(self)

        def __reduce__(self) -> Any:
            """Elsewhere it is stator's alone: nobody there may have installed it."""
            _, *rest = super().__reduce__()
            return (ours, *rest)

    Both.__name__, Both.__qualname__ = ours.__name__, ours.__qualname__
    Both.__module__, Both.__doc__ = ours.__module__, ours.__doc__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        return BaseException.__new__(Both if cls is ours else cls, *args)

    patches.set(ours, "__new__", staticmethod(new))
    return Both


def _bases(ours: type) -> tuple[type, ...]:
    """What stator's class is made from, of Python's own exceptions."""
    return tuple(base for base in ours.__mro__ if base.__module__ == "builtins")[:1]
