"""What the program says about graph breaks while it runs, and torch's words for the same.

Stage: capture. In: `error_on_graph_break` in the traced program, or around a compiled call; marks
that torch's own decorators have left. Out: whether a break is an error where it happens, and the
function behind a wrapper that is about another compiler.

The setting is a context variable, so there is one per thread and per task. A trace reads it when it
has to (then it is guarded) and changes its own idea of it; what a call leaves changed, since it is
split inside of a `with` block, is an effect.
"""

import sys
from collections.abc import Iterator
from contextlib import ContextDecorator
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from torch.optim import Optimizer

from stator._native._core import Frame
from stator.capture.calls import marks
from stator.capture.calls.marks import Kind, Mark
from stator.capture.calls.python_calls import know_function
from stator.capture.numbers.dimensions import TORCHS_MARKING
from stator.diagnostics.break_errors import EVER, WANTED
from stator.diagnostics.catalogue import MarkMisfit
from stator.effects import Perform
from stator.guards import Fixed, Is, Key, Source, State
from stator.torchlib.tracers import dynamo_wrapper_code
from stator.world import World

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def _set(value: bool) -> bool:
    """Sets whether breaks are errors; answers what held before. A trace has its own answer."""
    before = WANTED.get()
    EVER["set"] = True
    WANTED.set(value)
    return before


class error_on_graph_break(ContextDecorator):  # noqa: N801 - used like a function
    """In the block, or in the decorated function: whether a graph break is a `CaptureError`.

    What holds where the break happens counts, so it can be switched off again further inside. It
    changes nothing for functions compiled with `fullgraph=True`, where each break is an error.
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        if type(error_on_graph_break) is not bool:
            raise TypeError("error_on_graph_break() takes True or False")
        self._error = error_on_graph_break
        self._before: list[bool] = []

    def _recreate_cm(self) -> "error_on_graph_break":
        return error_on_graph_break(self._error)  # each call of a decorated function has its own

    def __enter__(self) -> None:
        self._before.append(_set(self._error))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _set(self._before.pop())


class Errors:
    """The setting, as one trace sees it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before: bool | None = None
        self._now = False

    def wanted(self) -> bool:
        """Whether a break is an error at this moment; guarded, if the call has not set it."""
        if self._before is None:
            self._before = self._now = WANTED.get()
            source: Source = State(WANTED.get, (), "error_on_graph_break")
            if not EVER["set"]:
                source = Key(Fixed(EVER, "error_on_graph_break"), "set")
            self._world.guard(source, Is(self._before))
        return self._now

    def change(self, value: bool) -> bool:
        before = self.wanted()
        self._now = value
        return before

    def effects(self) -> Iterator[Perform]:
        """What is different when the trace ends."""
        if self._before is not None and self._now is not self._before:
            yield Perform(Fixed(_set, "set_error_on_graph_break"), (self._now,))


def _change(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`_set`, in a trace."""
    if kwargs or len(args) != 1 or type(args[0]) is not bool:
        raise MarkMisfit("error_on_graph_break() with a value that is not True or False")
    return calls.errors.change(args[0])


CONTROLS: Final = {id(_set): _change}


# ---------------------------------------------------------------------- torch's words


_INNER: Final = dynamo_wrapper_code()


def function_behind(calls: "Calls", frame: Frame, function: Any) -> Any:
    """What a wrapper of torch's own calls, which keeps Dynamo away and does nothing else.

    torch puts it around functions that Dynamo has trouble with (in torch.optim, for one); None for
    any other function.
    """
    if type(function) is not FunctionType or function.__code__ is not _INNER:
        return None
    know_function(calls, function)
    closure = function.__closure__
    assert closure is not None
    return calls.tracer.load_cell(frame, closure[0])


def is_for_dynamo(frame: Frame, mark: Mark) -> bool:
    """Whether torch itself asks for a graph break, which eager code does not notice.

    torch.optim wants a graph of its own for an optimizer's step, so that AOTAutograd sees that no
    gradients are wanted; it finds that out by now, since parameters are changed in no-grad mode.
    """
    return mark.kind is Kind.BREAK and frame.globals is _OPTIMIZER


def compiles_itself(frame: Frame, function: Any, args: list[Any]) -> bool:
    """Whether a function of torch calls `torch.compile` for itself, to go on in what that makes.

    `create_block_mask(_compile=True)` does. In a trace, it is being compiled.
    """
    return (
        len(args) == 1
        and type(args[0]) is FunctionType
        and args[0].__code__ is frame.code
        and type(function) is FunctionType
        and function.__name__ == "compile"
        and str(dict.get(frame.globals, "__name__")).startswith("torch.")
    )


_OPTIMIZER: Final = sys.modules[Optimizer.__module__].__dict__


def learn() -> None:
    """Marks what the program may call in torch for Dynamo's sake, if it is loaded.

    stator loads nothing of it.
    """
    for module, known in _TORCHS.items():
        loaded: Any = sys.modules.get(module)
        found: dict[str, Any] = {} if loaded is None else loaded.__dict__
        for name, mark in known.items():
            if name in found and marks.of(found[name]) is None:
                marks.put(found[name], mark)


def invoke_region(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls a region (`nested_compile_region`); a trace has a way of its own (`regions.nested`)."""
    return function(*args, **kwargs)


_TORCHS: Final = {
    "torch._dynamo.decorators": {
        "graph_break": Mark(Kind.BREAK),
        "skip_frame": Mark(Kind.SKIP),
        "error_on_graph_break": Mark(Kind.SUBSTITUTE, substitute=error_on_graph_break),
        **{
            name: Mark(Kind.SUBSTITUTE, substitute=instead)
            for name, instead in TORCHS_MARKING.items()
        },
    },
    "torch._higher_order_ops.invoke_subgraph": {
        "invoke_subgraph_placeholder": Mark(Kind.SUBSTITUTE, substitute=invoke_region),
    },
}
