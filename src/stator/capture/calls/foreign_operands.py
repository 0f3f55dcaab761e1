"""Operators between tensors and objects of the program's own: `unit * x`, `x == marker`.

In: an operator and its operands, one of which is neither a tensor nor a number. Out: what the
object's special method answers, or Python's answer if there is none; else a `Break`.

Which methods are asked, in which order, is CPython's and torch's own affair (`Tensor.__add__` looks
at its operand, `Tensor.__rsub__` is Python code). It is not computed here: the operator is carried
out on an empty tensor and a *double* of the object, whose class has methods of the same names that
tell that they were called. Then the program's method is evaluated; if it has no answer, the
operator is carried out again, with `NotImplemented` in its place.
"""

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.calls.operators import (
    ARITHMETIC,
    BINARY,
    BINARY_NAMES,
    COMPARE,
    COMPARE_NAMES,
    specials,
)
from stator.capture.tensors.overrides import asking
from stator.diagnostics.catalogue import TensorSubclass
from stator.objects.types import module_of, name_of, qualname_of
from stator.torchlib.fakes import FakeTensor
from stator.world import MISSING
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_NAMES: Final[dict[Any, tuple[str, ...]]] = {
    **dict(zip(BINARY, BINARY_NAMES, strict=True)),
    **dict.fromkeys(COMPARE, COMPARE_NAMES),
}
# torch's own code may use another operator on the object: `o / t` is `t.reciprocal() * o`.
_ALL: Final = (
    *(f"__{side}{name}__" for side in ("", "r", "i") for name in ARITHMETIC),
    *COMPARE_NAMES,
)
# What torch or CPython may look for in an operand: an object that has one of these is no stranger.
_ASKED: Final = (
    "__torch_function__",
    "__array_interface__",
    "__getattr__",
    *specials("getattribute class index int float complex bool len iter getitem array dlpack"),
)


class _Asked(BaseException):
    """Raised by a double: which of its methods was called, and with what. Nobody's `except` may
    catch it.
    """

    def __init__(self, name: str, other: Any) -> None:
        super().__init__()
        self.name = name
        self.other = other


def is_foreign(cls: type) -> bool:
    """An object of a class in Python, of no layout that torch or an operator could know."""
    return is_python_class(cls) and objects.layout_base(cls) is object


class Foreign:
    """Asks objects about operators with tensors."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world

    def operator(self, frame: Frame, function: Any, operands: tuple[Any, ...]) -> Any:
        """The result; every operand is a tensor or foreign."""
        names = _NAMES.get(function)
        stranger = next(value for value in operands if type(value) is not FakeTensor)
        tensor = next(value for value in operands if type(value) is FakeTensor)
        if names is None or self._tensors.is_of_subclass(tensor):
            _refuse(type(stranger))
        assert len(operands) == 2
        self._check(stranger)
        self._tensors.replaced.check(function)
        methods = self._methods(type(stranger))
        refused = 0
        while True:
            name = self._question(function, operands, methods, refused)
            if name is None:
                break
            if name not in names:
                _refuse(type(stranger))
            method = methods[name]
            self._world.know(method)
            result = self._tensors.overrides.run_code(frame, method, stranger, tensor)
            if result is not NotImplemented:
                return result
            refused += 1
        return self._plain(function, operands, methods)

    def _check(self, stranger: Any) -> None:
        """torch must not take the object for anything; guarded."""
        world, cls = self._world, type(stranger)
        if id(stranger) in world.opaque:
            _refuse(cls)
        for name in _ASKED:
            found = world.class_attribute(cls, name)
            if found is not None and is_python_class(found.owner):
                _refuse(cls)
        record = world.records.get(id(stranger))
        if record is not None:
            found_in_it = world.attribute(record, "__torch_function__") is not MISSING
        else:
            found_in_it = "__torch_function__" in (objects.instance_dict(stranger) or {})
        if found_in_it:
            _refuse(cls)

    def _methods(self, cls: type) -> dict[str, Any]:
        """The operators that the class has, or None where it says so."""
        methods = {}
        for name in _ALL:
            found = self._world.class_attribute(cls, name)
            if found is None or not is_python_class(found.owner):
                continue
            if found.value is not None and type(found.value) is not types.FunctionType:
                _refuse(cls)
            methods[name] = found.value
        return methods

    def _question(
        self, function: Any, operands: tuple[Any, ...], methods: dict[str, Any], refused: int
    ) -> str | None:
        """Which method is called, after so many have had no answer; None if no other is."""
        empty = torch.empty(0)
        try:
            self._carry_out(function, operands, methods, refused, empty)
        except _Asked as asked:
            return asked.name if asked.other is empty else "of another tensor"
        except Exception:
            return None
        return None

    def _plain(self, function: Any, operands: tuple[Any, ...], methods: dict[str, Any]) -> Any:
        """Python's own answer or error, when no method has one."""
        try:
            result = self._carry_out(function, operands, methods, len(methods) + 1, torch.empty(0))
        except Exception as error:
            error.__traceback__ = error.__context__ = error.__cause__ = None
            error.__suppress_context__ = False
            failure = error
        else:
            if not CONSTANTS.holds(type(result)):
                raise TensorSubclass("torch knows what to do with an object of the program's own")
            return result
        return core.raise_user(failure)

    def _carry_out(
        self,
        function: Any,
        operands: tuple[Any, ...],
        methods: dict[str, Any],
        refused: int,
        empty: torch.Tensor,
    ) -> Any:
        """The operator, on an empty tensor and a double."""
        before = [None] * refused

        def told(name: str) -> Callable[[Any, Any], Any]:
            def method(self: Any, other: Any) -> Any:
                if not before:
                    raise _Asked(name, other)
                before.pop()
                return NotImplemented

            return method

        with asking():
            given: list[Any] = []
            for value in operands:
                if type(value) is FakeTensor:
                    given.append(empty)
                    continue
                cls = type(value)
                namespace: dict[str, Any] = {
                    "__module__": module_of(cls),
                    "__qualname__": qualname_of(cls),
                    "__hash__": object.__hash__,
                }
                for name, method in methods.items():
                    namespace[name] = None if method is None else told(name)
                given.append(type(name_of(cls), (), namespace)())
            return function(*given)


def _refuse(cls: type) -> NoReturn:
    raise TensorSubclass(f"an operator between a tensor and an object of type {qualname_of(cls)}")
