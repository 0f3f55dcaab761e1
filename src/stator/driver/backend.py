"""From a recorded graph to what the residual function calls.

Stage: driver. In: the recorded graph, in the grad mode and autocast in which it starts, which are
those of the call being compiled; and its title. Out: a callable of the graph's inputs, whose code
has the graph's name where it is ours or torch.fx's.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Final, cast

import torch
import torch.fx as fx

from stator import config
from stator.backends import BackendError, replays
from stator.backends.compile import as_it_is, compile_graph, depends_on_values
from stator.backends.eager import eager
from stator.backends.errors import NotCompiledError
from stator.backends.inductor import same_recursion_limit
from stator.backends.own_results import may_record, with_own_results
from stator.backends.patience import Patience, patience
from stator.backends.registry import backend_name, is_built_in, load
from stator.backends.shortcut import (
    NO_ASSERTS,
    metadata_of,
    only_torch_operators,
    shortcut,
)
from stator.backends.static_inputs import mark_lasting
from stator.backends.worth import own_operators
from stator.diagnostics import progress
from stator.diagnostics.artefacts import Title
from stator.distributed import buckets
from stator.driver import pieces
from stator.driver.label import Label
from stator.driver.later import later
from stator.driver.options import Options
from stator.graph import Recorded
from stator.store.parts import Artefact, Graph, Kernels
from stator.store.reasons import Reason, Unstorable
from stator.torchlib import inductor as torch_inductor
from stator.torchlib.tracers import ENGINE


class ValuesInGraphError(Exception):
    """The backend can't compile a graph with sizes that depend on values: it is to be split there.

    Its results are inputs of the next graph then, with sizes like any other.
    """


@dataclass(frozen=True)
class Ready:
    """What the residual function calls."""

    call: Callable[..., Any]
    own: str | None = None
    """Why it is the graph itself: Inductor could not make it faster, or would take too long yet."""
    artefact: Artefact = None
    """What can be stored of it, or why nothing can."""


def compile_recorded(
    recorded: Recorded,
    options: Options,
    title: Title,
    label: Label,
    failed: Callable[[BackendError], bool],
    *,
    may_split: bool,
    once: str | None = None,
    own: str | None = None,
) -> Ready:
    """Calls the backend, or has it called when that pays.

    Where the backend fails, and it is not known why, `failed` says whether the graph itself is to
    run in its place. If sizes depend on values, and it `may_split`, the program is to be split.
    `once` says why Inductor is not asked, `own` why no backend is.
    """
    progress.stage(f"backend {backend_name(options.backend)}")
    module, examples, mode = recorded.module, recorded.example_inputs, recorded.fake_mode
    if own is None and options.inductor and config.torch_kernels:
        own = once
    own = own or _not_worth_compiling(recorded, options)
    if own is not None:
        return Ready(eager(module, examples), own, Graph(module))
    depends = depends_on_values(module)
    if (wait := _waits(module, options)) is not None:
        # The graph as it is now, and none of the program's tensors: only fakes are kept.
        now = partial(_compiled, module, examples, mode, options, title)
        number = title.number
        call = later(as_it_is(module), lambda: now()[0], wait, mode.shape_env, label, number)
        return Ready(call, wait.why, Unstorable(Reason.WAITING, str(label)))
    try:
        called, artefact = _compiled(module, examples, mode, options, title)
        return Ready(called, None, artefact)
    except BackendError as error:
        if may_split and depends and _is_of_values(error, options):
            raise ValuesInGraphError(str(error.__cause__ or error)) from error
        reason = _uncompiled(error, depends and _is_of_values(error, options))
        if error.module is None or (reason is None and not failed(error)):
            raise
        if reason is None:
            return Ready(as_it_is(error.module))
        warnings.warn(
            f"a graph runs uncompiled, since {reason}:\n  {error.__cause__}", stacklevel=2
        )
        return Ready(as_it_is(error.module))


def _compiled(
    module: fx.GraphModule, examples: list[Any], mode: Any, options: Options, title: Title
) -> tuple[Callable[..., Any], Artefact]:
    """Calls the backend; a graph that calls regions, or fills buckets, is compiled in pieces."""
    cut = None if options.backend == "eager" else buckets.cut(module)
    if cut is not None:
        return _in_buckets(cut, module, examples, mode, options, title)
    parts = None
    if options.inductor and not options.for_backend and torch_inductor.is_as_usual():
        parts = pieces.taken_apart(module, examples)
    if parts is None:
        return _alone(module, examples, mode, options, title)
    try:
        made = [_alone(each.module, each.examples, mode, options, title) for each in parts.pieces]
    except BackendError:  # it may do better with all of it, and else says so
        return _alone(module, examples, mode, options, title)
    call = parts.joined([each for each, _ in made], title)
    return call, _PIECES


def _in_buckets(
    cut: fx.GraphModule,
    module: fx.GraphModule,
    examples: list[Any],
    mode: Any,
    options: Options,
    title: Title,
) -> tuple[Callable[..., Any], Artefact]:
    """Calls the backend for each piece of a graph that is cut where a replica's buckets end."""
    singles = buckets.in_tuples(cut)
    for name, piece in list(cut.named_children()):
        inputs = [node.meta["example_value"] for node in piece.graph.find_nodes(op="placeholder")]
        try:
            function, _ = _alone(cast("fx.GraphModule", piece), inputs, mode, options, title)
        except BackendError:  # what it says of the whole is what is told
            return _alone(module, examples, mode, options, title)
        setattr(cut, name, buckets.Piece(function, single=name in singles))
    return cut.forward, _PIECES


def _alone(
    module: fx.GraphModule, examples: list[Any], mode: Any, options: Options, title: Title
) -> tuple[Callable[..., Any], Artefact]:
    """Calls the backend; Inductor's code is called as directly as is safe."""
    given = options.for_backend
    direct = options.inductor and config.inductor_shortcuts
    if direct and only_torch_operators(module):
        given["patches"] = NO_ASSERTS
    with same_recursion_limit():
        load(options.backend)
        recorded = may_record(options.backend, given, examples)
        if recorded and options.inductor:
            mark_lasting(module)
            if direct and replays.wanted(module, examples):
                stay = replays.stay(module)
                given["overrules"] = replays.WITHOUT
                made = compile_graph(
                    module, examples, options.backend, fake_mode=mode, options=given
                )
                replayed = replays.recorded(made, shortcut(made).call, examples[0].device, stay)
                return replayed, _CUDA_GRAPHS
        made = compile_graph(module, examples, options.backend, fake_mode=mode, options=given)
    if recorded:
        return with_own_results(made.function, metadata_of(made)), _CUDA_GRAPHS
    if not direct:
        held = getattr(made.function, "__self__", None)
        if options.backend == "eager" and isinstance(held, fx.GraphModule):
            return made.function, Graph(held)
        return made.function, Unstorable(Reason.BACKEND, backend_name(options.backend))
    call = shortcut(made)
    if call.refusal is not None:
        return call.call, Unstorable(Reason.KERNELS, call.refusal)
    return _called(call.call, title), Kernels(call.innermost, torch.is_grad_enabled())


_PIECES: Final = Unstorable(Reason.KERNELS, "it was compiled in pieces")
_CUDA_GRAPHS: Final = Unstorable(Reason.KERNELS, "CUDA graphs are in use")


def _not_worth_compiling(recorded: Recorded, options: Options) -> str | None:
    """Why Inductor could not make the graph faster; None if it might, or is asked for more."""
    if not options.inductor or not config.torch_kernels or options.for_backend:
        return None
    return own_operators(recorded.module) if torch_inductor.is_as_usual() else None


def _waits(module: fx.GraphModule, options: Options) -> Patience | None:
    """How long Inductor is to wait with a graph; None if it is not to, or is asked for more."""
    if not options.inductor or not config.torch_kernels or options.for_backend:
        return None
    return patience(module) if torch_inductor.is_as_usual() else None


# Backends know less about such graphs than about others; the graph itself is right.
_VALUES: Final = "the backend would need the values that its sizes or numbers depend on"
_BACKWARD: Final = "the backend compiles its backward, too, which torch can't compute"
_INFERENCE: Final = "the backend can't work with tensors of inference mode"
_FUNCTIONAL: Final = "the backend can't do without an operator that changes its argument"
_SPARSE: Final = "the backend can't compile the backward of sparse tensors"
_NO_BACKWARD: Final = re.compile(
    r"derivative for '\w+' is not implemented|A view was created in no_grad mode|one of the "
    r"variables needed for gradient computation has been modified by an inplace operation"
)
_ENGINE: Final = ENGINE
_OF_INFERENCE: Final = re.compile(
    r"Cannot set version_counter for inference tensor|requires_grad=True on inference tensor"
)
_UNKNOWN: Final = re.compile(r"\b(u|zuf)\d+\b")  # torch's names for numbers that only a run knows


def _is_of_values(error: BackendError, options: Options) -> bool:
    """Whether the same without sizes that depend on values may well be compiled."""
    if isinstance(error.__cause__, NotCompiledError):
        return False
    return is_built_in(options.backend) or _needs_values(error)


def _uncompiled(error: BackendError, of_values: bool) -> str | None:
    """Why the graph itself is to run, if that is better than the error."""
    cause = error.__cause__
    if isinstance(cause, NotCompiledError):
        return cause.reason
    if isinstance(cause, NotImplementedError | RuntimeError) and (
        _NO_BACKWARD.search(str(cause)) or _in_backward(cause)
    ):
        return _BACKWARD
    if _OF_INFERENCE.search(str(cause)):
        return _INFERENCE
    if isinstance(cause, NotImplementedError) and "DispatchKey.Sparse" in str(cause):
        return _SPARSE
    if "operator whose output has alias annotations" in str(cause):
        return _FUNCTIONAL
    return _VALUES if of_values else None


def _in_backward(error: BaseException) -> bool:
    """Whether it was raised while a backend differentiated the graph: a forward would be fine."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code is _ENGINE:
            return True
        step = step.tb_next
    return False


def _needs_values(error: BaseException | None) -> bool:
    """Whether a backend asks for such a value, or Inductor fails over one that it names."""
    while error is not None:
        text = str(error)
        if "GuardOnDataDependentSymNode" in text or "PendingUnbackedSymbolNotFound" in text:
            return True
        if type(error).__name__ == "InductorError" and _UNKNOWN.search(text):
            return True
        error = error.__cause__
    return False


def _called(function: Any, title: Title) -> Any:
    """The same function, under the graph's name."""
    code = function.__code__.replace(co_name=title.graph, co_qualname=title.graph)
    return FunctionType(code, function.__globals__, title.graph, None, function.__closure__)
