"""The stance: what compiled functions do in this process, for a while.

Stage: driver. In: `set_stance` by the program. Out: the native mode, which calls look at anyway, so
the default costs nothing; and what the driver asks about when no entry fits.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeVar

from stator._native._core import MODE_DISPATCH, MODE_EAGER, MODE_MISS, set_mode
from stator.backends import check
from stator.capture.calls import marks
from stator.capture.calls.marks import Kind, Mark

F = TypeVar("F", bound=Callable[..., Any])

STANCES: Final = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)


@dataclass(frozen=True)
class Stance:
    """One of the stances."""

    name: str = "default"
    backend: str | Callable[..., Any] | None = None
    """In place of the one that a function was compiled with."""

    @property
    def first_call(self) -> str:
        """The backend for the first call of a function, or "eager" for none; empty if any call."""
        name = self.name
        return name.removesuffix("_then_compile") if name.endswith("_then_compile") else ""

    @property
    def mode(self) -> int:
        if self.name == "force_eager":
            return MODE_EAGER
        return MODE_DISPATCH if self.backend is None else MODE_MISS


DEFAULT: Final = Stance()
_current = DEFAULT


def current() -> Stance:
    return _current


def take_stance(stance: Stance) -> Stance:
    """Takes a stance; answers the one before."""
    global _current
    before, _current = _current, stance
    set_mode(stance.mode)
    while _current is not stance:  # another thread has taken one meanwhile: the last one holds
        stance = _current
        set_mode(stance.mode)
    return before


class set_stance:  # noqa: N801 - used like a function
    """What every compiled function of the process does, from now on.

    Also a context manager, and a decorator for functions: then it holds in the block, or during
    each call. "default": what fits a call runs, else it is compiled. "force_eager": nothing
    compiled runs. "eager_on_recompile": where something would have to be compiled, the call runs as
    it is. "fail_on_recompile": there, `RecompileError`. "eager_then_compile": the first call of a
    function runs as it is, and tells which sizes change; "aot_eager_then_compile": the same, with
    the backend "aot_eager". `force_backend`, with "default": this backend for all that is called.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        if stance not in STANCES:
            raise ValueError(f"there is no stance {stance!r}. There are: {', '.join(STANCES)}")
        if force_backend is not None:
            if stance != "default":
                raise ValueError(f"force_backend is for the stance 'default', not {stance!r}")
            check(force_backend)
        self._stance = Stance(stance, force_backend)
        self._before = take_stance(self._stance)

    def __call__(self, fn: F) -> F:
        take_stance(self._before)  # a decorator only means the calls
        stance = self._stance

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = take_stance(stance)
            try:
                return fn(*args, **kwargs)
            finally:
                take_stance(before)

        made: Any = call
        return made  # type: ignore[no-any-return]

    def __enter__(self) -> None:
        take_stance(self._stance)  # it holds already, unless the object is used again

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        take_stance(self._before)


# A trace is of one stance: the program is split where it takes another one.
for _each in (take_stance, set_stance):
    marks.put(_each, Mark(Kind.DISABLE, "it is about the whole process"))
