"""Calls that are one node each, and are asked nothing else from the second time on.

In: callables of torch that were recorded once in this trace. Out: their nodes. What decides about a
call (`calls.py`) asks about twenty questions, most of them about the callable alone, which answers
the same for as long as a trace goes on. What is about the arguments, or the state of the trace, is
asked each time: here, or by `Tensors.record`.
"""

import types
from typing import TYPE_CHECKING, Any

from stator._native._core import Frame
from stator.capture.arrays.arrays import converts
from stator.capture.calls import marks
from stator.capture.calls.arguments import split
from stator.capture.numbers.scalars import reads_values
from stator.graph.leaves import leaves
from stator.graph.recording.operations import Target
from stator.torchlib.fakes import FakeTensor
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors


class Straight:
    """Those of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._functions: dict[int, Any] = {}  # by id
        self._methods: dict[str, Target] = {}

    def learn(self, callable: Any) -> None:
        """A call is about to be recorded: whether others of the kind need no more questions."""
        world = self._tensors.world
        if id(callable) in world.opaque or id(callable) in world.made:
            return
        if converts(callable) or reads_values(callable):
            return
        kind = type(callable)
        if kind is types.FunctionType:
            known = leaves.tensor_method(callable) is None and not marks.left_by_torch(callable)
        elif kind is types.BuiltinFunctionType:
            bound = callable.__self__
            known = bound is None or type(bound) is types.ModuleType
            if type(bound) is FakeTensor:
                self._methods[callable.__name__], _ = leaves.target_of(callable)
        else:
            known = False
        if known:
            self._functions[id(callable)] = callable

    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        """A node; MISSING if there is more to ask."""
        tensors = self._tensors
        target = self._functions.get(id(callable))
        first: tuple[Any, ...] = ()
        if target is None:
            if type(callable) is not types.BuiltinFunctionType:
                return MISSING
            bound = callable.__self__
            if type(bound) is not FakeTensor:
                return MISSING
            target = self._methods.get(callable.__name__)
            if target is None:
                return MISSING
            first = (bound,)
        if tensors.overrides.active or tensors.arrays.symbolic or marks.is_marked(callable):
            return MISSING
        if kwnames is None:
            return tensors.record(frame, target, (*first, *args))
        args, kwargs = split(args, kwnames)
        return tensors.record(frame, target, (*first, *args), kwargs)
