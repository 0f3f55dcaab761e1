"""Selective checkpointing in a trace: which results of a checkpointed function are saved.

Stage: capture, for `checkpoints`. In: a `context_fn`, and what a region's body dispatches. Out: a
`Selection`, the `context_fn` of the region: torch's own contexts, with the policy's answers.

The program's `context_fn` and its policy are evaluated like any code of the program, once in each
trace: what they read is guarded. Whoever runs the region (eager, AOTAutograd as it traces) meets
the same operators, and is told the same of each.
"""

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.contracts import Depth
from stator.diagnostics.catalogue import RegionContents
from stator.torchlib.operators import HigherOrderOperator, OpOverload

if TYPE_CHECKING:
    from stator.capture.calls.builtin_calls import Handler
    from stator.capture.calls.calls import Calls


class _Selected:
    """What stands for one of the two contexts in a trace: nothing can be done with it."""

    def __init__(self, chosen: Any, mutable: bool, forward: "_Selected | None" = None) -> None:
        self.chosen = chosen
        self.mutable = mutable
        self.forward = forward  # of the one for the repetition: its other half


class Selection:
    """The `context_fn` of a region. Until it is settled, it notes what a policy is asked."""

    def __init__(self, selected: _Selected) -> None:
        self.chosen = selected.chosen
        self._mutable = selected.mutable
        self._asked: list[tuple[Any, Any, tuple[Any, ...], dict[str, Any]]] = []
        self._answers: dict[Any, list[CheckpointPolicy]] | None = None
        self.cache_hash = ""  # AOTAutograd's cache asks for it

    def __call__(self) -> Any:
        """A pair of contexts: for one run, and its repetition."""
        seen: dict[Any, int] = defaultdict(int)

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            if self._answers is None:
                self._asked.append((context, op, args, kwargs))
                return CheckpointPolicy.PREFER_RECOMPUTE
            key = op, context.is_recompute
            place, seen[key] = seen[key], seen[key] + 1
            answers = self._answers.get(op, ())
            # A backend that takes operators apart meets others, about which nobody was asked.
            return answers[place] if place < len(answers) else CheckpointPolicy.PREFER_RECOMPUTE

        made: Any = create_selective_checkpoint_contexts
        if self._mutable:
            return made(policy, allow_cache_entry_mutation=True)
        return made(policy)

    def settle(self, calls: "Calls", frame: Frame) -> None:
        """Asks the program's policy, once the body has run on tensors without values."""
        asked, self._asked = self._asked, []
        found: dict[Any, list[CheckpointPolicy]] = defaultdict(list)
        before = calls.changed()
        for context, op, args, kwargs in asked:
            found[op].append(_asked(calls, frame, self.chosen, context, op, args, kwargs))
        if calls.changed() != before:
            raise RegionContents("the policy of a selective checkpoint changes objects")
        self._answers = dict(found)
        named = {str(op): [answer.name for answer in found[op]] for op in found}
        self.cache_hash = f"{self._mutable} {named}"


def _asked(
    calls: "Calls",
    frame: Frame,
    chosen: Any,
    context: Any,
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> CheckpointPolicy:
    if type(chosen) is list:
        saved = any(op is each for each in chosen)
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE
    try:
        answer = evaluated(frame, chosen, context, op, *args, **kwargs)
    except Exception as error:  # in eager, it is raised from within the function
        if not core.is_user_error(error):
            raise
        kind = type(error).__name__
        raise RegionContents(f"the policy of a selective checkpoint raises {kind}") from None
    if type(answer) is bool:
        return CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
    if type(answer) is not CheckpointPolicy:
        kind = type(answer).__qualname__
        raise RegionContents(f"the policy of a selective checkpoint answers with a {kind}")
    return answer


def selection(calls: "Calls", frame: Frame, context_fn: Any) -> Selection | None:
    """What a `context_fn` selects; None if it has no contexts to speak of."""
    evaluated(frame, _pair, context_fn)
    found: Selection | None = calls.selection
    return found


def _pair(context_fn: Any) -> None:
    """As a checkpoint asks for its contexts. Evaluated."""
    first, second = context_fn()
    _take(first, second)


def _take(first: Any, second: Any) -> None:
    """Evaluating this notes what was selected."""


def _taken(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> None:
    first, second = args
    calls.selection = None
    if type(first) is _Selected and type(second) is _Selected and second.forward is first:
        calls.selection = Selection(first)
    elif not type(first) is type(second) is contextlib.nullcontext:
        names = f"{type(first).__qualname__}, {type(second).__qualname__}"
        raise RegionContents(f"torch.utils.checkpoint with contexts of its own: {names}")


def _contexts(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
    """`create_selective_checkpoint_contexts(policy_fn_or_list)`."""
    names = ("policy_fn_or_list", "allow_cache_entry_mutation")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    chosen: Any = given.get(names[0])
    mutable = given.get(names[1], False)
    if len(args) + len(kwargs) != len(given) or not given.keys() <= set(names):
        raise RegionContents("create_selective_checkpoint_contexts gets other arguments")
    if objects.is_subtype(type(chosen), list):
        calls.values.ready(chosen, Depth.DEEP)
        chosen = [*list.__iter__(chosen)]
        if not all(isinstance(each, _OPERATORS) for each in chosen):  # own: of classes of torch
            raise RegionContents("a selective checkpoint gets a list with more than operators")
    elif type(chosen) is not _FUNCTION and objects.lookup(type(chosen), "__call__") is None:
        raise RegionContents("the policy of a selective checkpoint is no function")
    if type(mutable) is not bool:
        raise RegionContents("create_selective_checkpoint_contexts gets other arguments")
    first = _Selected(chosen, mutable)
    pair = first, _Selected(chosen, mutable, first)
    for each in pair:
        calls.world.opaque[id(each)] = "a context of a selective checkpoint"
        calls.world.keep(each)
    return pair


_FUNCTION: Final = type(_contexts)
_OPERATORS: Final = (OpOverload, HigherOrderOperator)
SELECTIVE: Final[dict[int, "Handler"]] = {
    id(create_selective_checkpoint_contexts): _contexts,
    id(_take): _taken,
}
