"""Frames that C code has started: which are answered instead of evaluated.

Stage: capture, for the tracer. In: the frame of a Python function that C code calls. Out: its
result, if that is not found by evaluating it: a leaf of torch, a function about which the user has
said what to do, an operator of a symbolic number.
"""

import copyreg
import encodings
import warnings
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.calls import marks
from stator.capture.calls.arguments import arguments_of
from stator.capture.calls.handlers import HANDLERS
from stator.capture.calls.python_calls import admit
from stator.capture.texts.warning_filters import shown
from stator.diagnostics.catalogue import MarkMisfit
from stator.graph.leaves import leaves

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# Symbolic numbers do their arithmetic in Python code of torch, which is not the program's.
_SYMBOL_MODULES: Final = frozenset({"torch", "torch.fx.experimental.sym_node"})
_SYMBOL_NAMES: Final = ("SymInt.", "SymFloat.", "SymBool.", "_make_user_magic.")
_DESCRIPTOR_METHODS: Final = frozenset({"__get__", "__set__", "__delete__"})
_SHOWN: Final[Any] = warnings.__dict__["_showwarnmsg"]
_SEARCH: Final = encodings.search_function
_SLOTNAMES: Final = copyreg._slotnames  # type: ignore[attr-defined]


def answer_frame(calls: "Calls", frame: Frame) -> bool:
    """A frame that C code has started: a leaf of torch is answered instead of evaluated."""
    function = frame.function
    mark = marks.of(function)
    if mark is not None:
        args, kwargs = arguments_of(frame)
        result = calls.marked(frame, mark, function, [*args, *kwargs.values()], tuple(kwargs))
        if type(result) is Frame:
            raise MarkMisfit("a substituted function is called by C code")
        frame.result = result
        frame.finish()
        return True
    text = calls.tracer.texts.answer(frame)
    if text is not None:
        frame.result = text
        frame.finish()
        return True
    rule = calls.rule(function)
    if rule is not None and rule.kind is not leaves.Kind.EVALUATE:
        args, kwargs = arguments_of(frame)
        frame.result = calls.tensors.apply(frame, rule, function, args, kwargs)
        frame.finish()
        return True
    if function is _SHOWN:
        shown(calls)
    if function is _SEARCH:
        # C code looks for a codec, and keeps what it finds for ever: that is to be the real one.
        # As with modules of the library, nobody can see that it is loaded a moment earlier.
        (name,), _ = arguments_of(frame)
        frame.result = encodings.search_function(name)
        frame.finish()
        return True
    if function is _SLOTNAMES:  # asked by `object.__reduce_ex__`
        args, kwargs = arguments_of(frame)
        frame.result = HANDLERS[id(function)](calls, frame, function, args, kwargs)
        frame.finish()
        return True
    if leaves.module_of(function) in _SYMBOL_MODULES and function.__qualname__.startswith(
        _SYMBOL_NAMES
    ):
        args, _ = arguments_of(frame)
        frame.result = calls.tensors.scalars.method(frame, function, args)
        frame.finish()
        return True
    if function.__name__ in _DESCRIPTOR_METHODS and frame.code.co_argcount > 1:
        holders = [frame[i] for i in range(1, min(frame.code.co_argcount, 3))]
        frame[0] = calls.tracer.descriptor(frame[0], *holders)
    admit(calls, frame, function)
    return False
