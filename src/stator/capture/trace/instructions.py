"""Instructions that CPython carries out itself, and the calls they contain.

In: the operands of an instruction. Out: its result, after the operands were made ready for C code.
"""

import builtins
import contextlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import contracts, objects
from stator._native import _core as core
from stator._native._core import NULL, CompiledFunction, Frame, is_python_class
from stator.capture.calls.operators import specials
from stator.capture.library.decimals import is_decimal
from stator.capture.library.locks import is_lock
from stator.capture.library.missing_modules import imported, missing
from stator.capture.objects import process_answers
from stator.capture.objects.c_fields import guard_mro, look_outside, module_named
from stator.capture.tensors.overridden import behind
from stator.capture.tensors.overrides import Without
from stator.capture.texts import text
from stator.contracts import Depth, Verdict
from stator.diagnostics.catalogue import (
    InterpreterState,
    OddNamespace,
    TensorSubclass,
    UnknownCFunction,
)
from stator.evaluator.thunks import special_name
from stator.objects import TypeSet
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_IMPORT: Final = builtins.__import__
_NUMBERS: Final = TypeSet(torch.SymInt, torch.SymFloat)
_HASHING: Final = frozenset({"BUILD_SET", "BUILD_MAP", "SET_ADD", "MAP_ADD"})
# Since 3.14, what a `with` calls is found by an instruction of its own, and called as any method.
_WITH: Final = frozenset({"BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL"})
_DELEGATING: Final = frozenset({"GET_YIELD_FROM_ITER", "GET_ITER"})  # GET_ITER since 3.15
_ITERATING: Final = frozenset({"UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE"})
_ORDERED: Final = _DELEGATING | {"UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND"}
_DEEP: Final = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"})
_INSTRUCTION_SPECIALS: Final = specials(
    "iter getitem len next enter exit aenter aexit hash eq format str repr match_args await aiter "
    "anext keys instancecheck subclasscheck"
)


def _is_held(name: str, index: int, count: int) -> bool:
    """Whether an operand becomes a value in a dict or the like, at which nobody looks."""
    match name:
        case "BUILD_MAP":
            return index % 2 == 1
        case "BUILD_CONST_KEY_MAP":
            return index < count - 1
        case "MAP_ADD":
            return index == 2
        case "BUILD_INTERPOLATION":
            return index == 0
    return False


class Instructions:
    """Carries out instructions that have no operation of their own."""

    def __init__(self, tracer: "Tracer") -> None:
        self.tracer = tracer
        self.calls = tracer.calls
        self.world = tracer.world
        self.values = tracer.values
        self.tensors = tracer.tensors

    def call_native(self, frame: Frame, callable: Any, args: tuple[Any, ...]) -> Any:
        """`__import__`, and the `super` of LOAD_SUPER_ATTR."""
        if callable is super and self.tensors.holds(type(args[1])):
            return behind(self.calls, frame, super, list(args), {})
        if callable is super:
            return core.call_native(frame, callable, *args)
        if callable is _IMPORT:
            return self.import_module(frame, args)
        result = self.calls.call(frame, callable, list(args), None)
        if type(result) is Frame:
            raise OddNamespace("a replaced built-in function is called")
        return result

    def import_module(self, frame: Frame, args: tuple[Any, ...]) -> Any:
        name, _, _, fromlist, level = args
        package = frame.globals.get("__package__") or ""
        full = importlib.util.resolve_name("." * level + name, package) if level else name
        if full not in sys.modules:
            error = missing(self.world, full)
            if error is not None:
                core.raise_user(error)
            raise imported(full)
        module_named(self.world, full)
        result = core.call_native(frame, _IMPORT, name, frame.globals, None, fromlist, level)
        return self.world.know(result)

    def instruction(
        self, frame: Frame, thunk: types.FunctionType, operands: tuple[Any, ...]
    ) -> Any:
        """An instruction that CPython carries out on some operands."""
        name = thunk.__code__.co_name
        if name == "IMPORT_FROM":
            return self._import_from(frame, thunk, operands)
        if name in _DELEGATING and self.tracer.ahead.iterates(operands[0]):
            return operands[0]
        if name == "RAISE_VARARGS" and not operands:  # and the program handles none itself
            look_outside(self.tracer)
        if name == "PRINT_EXPR":
            raise InterpreterState("sys.displayhook shows the value of an expression")
        texts = self.tracer.texts
        if name in text.FORMATS:
            arg = thunk.__code__.co_code[2 * len(operands) + 1]
            if any(map(texts.holds, operands)):
                return texts.instruction(frame, name, arg, operands)
            if name == "FORMAT_VALUE" and len(operands) == 2 and arg & 3:
                return texts.converted(frame, arg & 3, *operands)
        if name in _WITH and self._is_entered_here(type(operands[0])):
            return self._enter(frame, thunk, operands[0])
        if name == "MATCH_CLASS":
            guard_mro(self.world, type(operands[0]))
            if any(self.tensors.is_of_subclass(value) for value in operands):
                raise TensorSubclass("a pattern of a class, and a tensor of a subclass")
        if name in _HASHING:
            for value in operands:
                self.world.hashed(value)
        if name in _DEEP or name in _ORDERED:
            told = process_answers.shown if name in _DEEP else process_answers.iterated
            for value in operands:
                told(self.world, value)
        depth = Depth.DEEP if name in _DEEP else Depth.SHALLOW
        attributes = name == "MATCH_CLASS"
        ready = []
        for index, value in enumerate(operands):
            if self.tensors.holds(type(value)):
                value = self._tensor_operand(frame, name, value)
            elif _is_held(name, index, len(operands)):
                pass
            elif type(value) is CompiledFunction and name == "DICT_MERGE" and index == 0:
                pass  # it is called next; errors name it
            elif _NUMBERS.holds(type(value)):
                value = self.tensors.shapes.plain(frame, value)
            elif name in _ITERATING and self.tracer.ahead.iterates(value):
                value = self.tracer.ahead.given(value)
            elif not CONSTANTS.holds(type(value)):
                with texts.window() if name in _DEEP else contextlib.nullcontext():
                    self.values.ready(value, depth, attributes=attributes)
                if is_python_class(type(value)):
                    self.world.protocol(type(value), _INSTRUCTION_SPECIALS)
            ready.append(value)
        if name in _WITH:
            self._check_manager(operands[0])
        outer, self.tensors.frame = self.tensors.frame, frame
        try:
            if name in _DEEP:
                with texts.window():
                    return texts.split(frame, core.instruction(frame, thunk, *ready))
            return core.instruction(frame, thunk, *ready)
        finally:
            self.tensors.frame = outer

    def _import_from(self, frame: Frame, thunk: types.FunctionType, operands: Any) -> Any:
        module = operands[0]
        name = thunk.__code__.co_names[0]
        namespace = objects.instance_dict(module)
        known = namespace is not None and self.world.is_world(module)
        if known and dict.__contains__(namespace or {}, name):
            return self.tracer.getattr(frame, module, name)
        return core.instruction(frame, thunk, *operands)

    def _tensor_operand(self, frame: Frame, name: str, value: Any) -> Any:
        if name in ("UNPACK_SEQUENCE", "UNPACK_EX"):
            return tuple(self.tensors.iter(frame, value))
        return value

    def _is_entered_here(self, cls: type) -> bool:
        """Whether the tracer has a meaning of its own for the methods of a context manager."""
        return is_lock(cls) or cls is Without or cls is torch.device

    def _enter(self, frame: Frame, thunk: types.FunctionType, manager: Any) -> Any:
        """What the instruction leaves on the stack: methods that are called as any others."""
        if thunk.__code__.co_name == "LOAD_SPECIAL":
            return core.getattr(frame, manager, special_name(thunk)), NULL
        entered = self.calls.call(frame, manager.__enter__, [], None)
        return manager.__exit__, entered

    def _check_manager(self, manager: Any) -> None:
        """C context managers need contracts: locks and files must not be taken while tracing."""
        if is_decimal(type(manager)):
            self.calls.decimals.begin()
            return
        for name in ("__enter__", "__exit__"):
            method = objects.lookup(type(manager), name)
            if method is None or type(method.value) is types.FunctionType:
                continue
            contract = contracts.lookup(method.value)
            if contract is None or contract.verdict is Verdict.FORBIDDEN:
                kind = type(manager).__qualname__
                raise UnknownCFunction(f"`with` on an object of type {kind}, which is written in C")
