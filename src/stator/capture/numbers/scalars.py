"""Values of tensors as Python numbers: symbols of which only the graph knows the value.

In: `t.item()`, `int(t)`, `t.tolist()`, a tensor as an index, and operators on such numbers. Out:
symbolic numbers, each bound to a node of the graph. Where Python code needs the value itself (a
branch, a range, a key), what is known decides, else it is a `Break`.

Integers are expressions over torch's symbols: their arithmetic is exact. Floats are not: the graph
computes with them (`doubles.py`).
"""

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import user_call
from stator.capture.calls.operators import ARITHMETIC, NOT_IN_PLACE
from stator.capture.numbers import branches
from stator.capture.numbers.computed import Computed
from stator.capture.numbers.doubles import COMPARE, PLAIN, Doubles
from stator.capture.numbers.shapes import EXACT, SMALL, has_value
from stator.capture.numbers.speculation import Speculation, negated
from stator.capture.numbers.sym_functions import SYM_FUNCTIONS
from stator.capture.trace.causes import described
from stator.contracts import Depth
from stator.diagnostics.catalogue import BranchOnValues, LengthOfValues, ValueNeeded
from stator.diagnostics.places import lines
from stator.graph.leaves import leaves
from stator.graph.passes.ancestry import computed_from
from stator.graph.unknown.scalars import symbol_of
from stator.guards import Key
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import check
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

SYMBOLS: Final = TypeSet(torch.SymInt, torch.SymFloat, torch.SymBool)
# torch's own functions, which have no annotations.
_check: Final[Any] = check
_sym_max: Final[Any] = torch.sym_max
_sym_not: Final[Any] = torch.sym_not
MOST: Final = 256  # numbers that one `tolist` may read
_LONG: Final = float(1 << 63)
_PYTHON_TYPES: Final[dict[type, type]] = {
    torch.SymInt: int,
    torch.SymFloat: float,
    torch.SymBool: bool,
}
_INT: Final = EXACT | frozenset(COMPARE)
_TIMES: Final = frozenset({operator.mul, operator.imul})
_REPEATED: Final = TypeSet(list, tuple, str, bytes)
_EQUALITY: Final = frozenset({operator.eq, operator.ne})
_NEVER_EQUAL: Final = TypeSet(type(None), str, bytes, list, tuple, dict)  # to a number
_DIVISIONS: Final = frozenset({operator.truediv, operator.floordiv, operator.mod})
_LOGIC: Final = frozenset({operator.and_, operator.or_})
_UNUSUAL: Final = "torch.tensor of numbers from tensors, with further arguments"
READERS: Final = frozenset({"item", "tolist", "__int__", "__float__", "__index__"})
# How a symbolic number's own methods, which C code calls, are to be read.
_METHODS: Final[dict[str, Any]] = {
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in ARITHMETIC},
    **{f"__{f.__name__}__": f for f in COMPARE},
    "__neg__": operator.neg,
    "__pos__": operator.pos,
    "__abs__": operator.abs,
}
_REFLECTED: Final[dict[str, Any]] = {
    f"__r{name}__": getattr(operator, f"__{name}__") for name in ARITHMETIC
}


# torch makes many of these methods from one piece of code: the name of the function says nothing.
_NAMES: Final[dict[int, str]] = {
    id(method): name for kind in _PYTHON_TYPES for name, method in objects.type_dict(kind).items()
}


def python_type(number: Any) -> type:
    """What `type(n)` answers for a symbolic number."""
    return _PYTHON_TYPES[type(number)]


def reads_values(function: Any) -> bool:
    """Whether a function of torch reads the values of tensors, or works on such."""
    return id(function) in _TORCH or leaves.tensor_method(function) in READERS


class Scalars:
    """The numbers that one trace has read from tensors."""

    def __init__(self, tensors: "Tensors") -> None:
        self.tensors = tensors
        self.speculation = Speculation(self)
        self.careful = False  # what the program insists on is not taken for granted
        self.doubles = Doubles(self)
        self.computed = Computed(self)

    # ------------------------------------------------------------------ reading

    def torch_call(
        self, frame: Frame | None, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A function of torch that reads values, or works on them; MISSING for all others."""
        name = leaves.tensor_method(function)
        if name is None:
            known = _TORCH.get(id(function))
            if known is None:
                return MISSING
            self.tensors.ready((args, kwargs), Depth.DEEP)  # symbols may lie beside what is there
            if not self.tensors.has_symbols((args, kwargs), Depth.DEEP):
                return MISSING
            return known(self, frame, *args, **kwargs)
        if name not in READERS or kwargs:
            return MISSING
        _, first = leaves.target_of(function)
        args = [*first, *args]
        if len(args) != 1 or type(args[0]) is not FakeTensor:
            return MISSING
        match name:
            case "item":
                return self.item(frame, args[0])
            case "tolist":
                return self.tolist(frame, args[0])
            case "__int__":
                return self.to_int(frame, args[0])
            case "__float__":
                return self.to_float(frame, args[0])
        return self.index(frame, args[0])

    def item(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        if tensor.dtype.is_complex:
            raise ValueNeeded("a complex number is read from a tensor")
        return self.tensors.record(frame, ("method", "item"), (tensor,))

    def numbers(self, frame: Frame | None, values: Any) -> Any:
        """Numbers for an operator that would read them from tensors itself."""
        if type(values) not in (list, tuple) or not any(type(v) is FakeTensor for v in values):
            return values
        return [self._read(frame, v) if type(v) is FakeTensor else v for v in values]

    def _read(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        """A size. What depends on buffers alone is a setting, which rarely changes: it is taken
        for granted, since all sizes that follow from it are numbers then.
        """
        number = self.item(frame, tensor)
        if type(number) is torch.SymInt and self._is_setting(tensor):
            known = self.speculation.number(frame, number)
            return number if known is None else known
        return number

    def _is_setting(self, tensor: torch.Tensor) -> bool:
        graph = self.tensors.graph
        reals = graph.real_inputs()
        for node in computed_from([graph.node(tensor)]):
            if node.op == "placeholder":
                source = self.tensors.sources.get(id(reals.get(node)))
                if type(source) is not Key or getattr(source.of, "name", "") != "_buffers":
                    return False
        return True

    def tolist(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        if tensor.dim() == 0:
            return self.item(frame, tensor)
        if tensor.dtype.is_complex:
            raise ValueNeeded("complex numbers are read from a tensor")
        sizes = [self._length(frame, size) for size in tuple(tensor.shape)]
        count = math.prod(sizes)
        if count > MOST:
            raise LengthOfValues(f"a list of {count} numbers is read from a tensor")
        if count == 0:
            with DisableTorchFunction():
                return torch.zeros(sizes).tolist()
        return _copied(self.tensors.record(frame, ("method", "tolist"), (tensor,)))

    def _length(self, frame: Frame | None, size: Any) -> int:
        """How many items a list has, if there is one for each of this dimension."""
        known = size if type(size) is int else self.speculation.number(frame, size)
        if known is None:
            raise LengthOfValues("the length of a list depends on the values in a tensor")
        return int(known)

    def index(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        """`operator.index`, for tensors of one integer."""
        if not is_index(tensor):
            if tensor.dtype is torch.bool:
                raise ValueNeeded("a bool that is read from a tensor is used as an index")
            text = "only integer tensors of a single element can be converted to an index"
            core.raise_user(TypeError(text))
        return self.item(frame, tensor)

    def tensor(self, frame: Frame | None, *given: Any, **options: Any) -> Any:
        """`torch.tensor` of numbers that were read from tensors."""
        leaf, pinned = options.pop("requires_grad", False), options.pop("pin_memory", False)
        if type(leaf) is not bool or pinned is not False:
            raise ValueNeeded(_UNUSUAL)
        made = self.as_tensor(frame, *given, **options)
        return self.tensors.own.requires_grad_(frame, made) if leaf else made

    def as_tensor(self, frame: Frame | None, *given: Any, **options: Any) -> Any:
        """`torch.as_tensor` of numbers that were read from tensors."""
        data = given[0] if given else options.pop("data", None)
        dtype, device = options.pop("dtype", None), options.pop("device", None)
        if len(given) > 1 or options:
            raise ValueNeeded(_UNUSUAL)
        flat = list(_flattened(data))
        if any(not SYMBOLS.holds(type(each)) and not PLAIN.holds(type(each)) for each in flat):
            raise ValueNeeded("torch.tensor of numbers from tensors, and other things")
        if dtype is None:
            kinds = {_PYTHON_TYPES.get(type(each), type(each)) for each in flat}
            floats = torch.get_default_dtype() if float in kinds else None
            dtype = floats or (torch.int64 if int in kinds else torch.bool)
        return self._nested(frame, data, {"dtype": dtype, "device": device})

    def _nested(self, frame: Frame | None, data: Any, options: dict[str, Any]) -> Any:
        if type(data) not in (list, tuple):
            if type(data) is torch.SymBool:
                data = self._bit(data)
            return self.tensors.record(frame, torch.scalar_tensor, (data,), options)
        parts = [self._nested(frame, each, options) for each in data]
        if not parts or any(part.shape != parts[0].shape for part in parts):
            raise ValueNeeded("torch.tensor of nested lists with different lengths")
        return self.tensors.record(frame, torch.stack, (parts,))

    # ------------------------------------------------------------------ conversions

    def to_int(self, frame: Frame | None, value: Any, rounding: Any = torch.trunc) -> Any:
        """`int(value)`, and with another rounding what `math.floor` and the like answer."""
        if type(value) is FakeTensor:
            value = self.item(frame, value)
        if type(value) is torch.SymBool:
            return self._bit(value)
        if type(value) is not torch.SymFloat:
            return value if type(value) is torch.SymInt else _INTEGERS[rounding](value)
        if has_value(value):
            return self._rounded(frame, rounding, value)
        double = self.doubles.of(frame, value)
        size = self.doubles.record(frame, torch.abs, double)
        fits = self.doubles.record(frame, torch.lt, size, _LONG)
        fitting = self.doubles.item(frame, fits)
        self.require(fitting, "a float is not an integer")  # nan, inf, too large
        rounded = self.doubles.record(frame, rounding, double)
        whole = self.doubles.record(frame, ("method", "to"), rounded, torch.int64)
        return self.doubles.item(frame, whole)

    def _rounded(self, frame: Frame | None, rounding: Any, value: Any) -> Any:
        """An int from a float that follows from sizes."""
        shapes = self.tensors.shapes
        found = shapes.reals.rounded(frame, rounding, value)
        return _INTEGERS[rounding](shapes.number(frame, value)) if found is MISSING else found

    def _bit(self, value: torch.SymBool) -> torch.SymInt:
        """A bool that was read from a tensor, as an int."""
        symbol = symbol_of(value)
        if symbol is None:
            raise ValueNeeded("a condition on numbers from tensors is used as a number")
        made: torch.SymInt = value.node.shape_env.create_symintnode(symbol, hint=None)
        return made

    def to_float(self, frame: Frame | None, value: Any) -> Any:
        if type(value) is FakeTensor:
            value = self.item(frame, value)
        if type(value) is torch.SymFloat:
            return value
        if has_value(value):
            return self.of_value(frame, "TOFLOAT", float, value)
        return self.doubles.number(frame, self.doubles.of(frame, value))

    def of_value(self, frame: Frame | None, op: str, function: Any, value: Any) -> Any:
        """A function of a number with a value."""
        shapes = self.tensors.shapes
        found = shapes.reals.function(frame, op, value)
        if found is not MISSING:
            return found
        return user_call(function, shapes.number(frame, value))

    # ------------------------------------------------------------------ operators

    def operate(self, frame: Frame | None, function: Any, *operands: Any) -> Any:
        """An operator between numbers, one of which is known at run time only."""
        found = self.tensors.shapes.operate(frame, function, operands)
        if found is not MISSING:
            return found
        kinds = [type(value) for value in operands]
        if torch.SymInt in kinds and function in _TIMES and any(map(_REPEATED.holds, kinds)):
            return self._repeated(frame, function, operands)
        function = NOT_IN_PLACE.get(function, function)
        if function in _EQUALITY and any(_NEVER_EQUAL.holds(kind) for kind in kinds):
            return function is operator.ne
        for kind in kinds:
            if not (SYMBOLS.holds(kind) or PLAIN.holds(kind)):
                text = f"an operator between a number from a tensor and a {kind.__qualname__}"
                raise ValueNeeded(text)
        if function in _DIVISIONS:
            self._require_nonzero(frame, operands[1])
        if float in kinds or torch.SymFloat in kinds or function is operator.truediv:
            return self.doubles.operate(frame, function, operands)
        if function in _LOGIC and all(kind in (bool, torch.SymBool) for kind in kinds):
            return self.known(lambda: function(*operands))
        numbers = [self.to_int(frame, value) for value in operands]
        if function is operator.abs:
            (number,) = numbers
            return self.known(lambda: _sym_max(number, -number))
        power = function is operator.pow and type(numbers[1]) is int and 0 <= numbers[1] <= 8
        if not (function in _INT or power):
            found = self.computed.operate(frame, function, operands)
            if found is not MISSING:
                return found
            name = getattr(function, "__name__", "?")
            raise ValueNeeded(f"the operator {name} on a number that is read from a tensor")
        return self.known(lambda: function(*numbers))

    def _repeated(self, frame: Frame | None, function: Any, operands: tuple[Any, ...]) -> Any:
        """`[0] * n`: how long it is, all that follows depends on."""
        for value in operands:
            self.tensors.ready(value, Depth.SHALLOW)
        known = [
            self.speculation.number(frame, value) if type(value) is torch.SymInt else value
            for value in operands
        ]
        if any(value is None for value in known):
            raise LengthOfValues("a sequence is repeated as often as a tensor says")
        return function(*known)

    def known(self, compute: Callable[..., Any], *args: Any) -> Any:
        """What torch computes of symbolic numbers."""
        try:
            with DisableTorchFunction():
                return compute(*args)
        except GuardOnDataDependentSymNode as error:
            raise BranchOnValues(self._describe(error)) from None

    def _require_nonzero(self, frame: Frame | None, divisor: Any) -> None:
        if SYMBOLS.holds(type(divisor)):
            why = "a division by a number that is read from a tensor, and is zero"
            self.require(self.operate(frame, operator.ne, divisor, 0), why)
        elif not divisor:
            raise ValueNeeded("a number that is read from a tensor is divided by zero")

    def method(self, frame: Frame | None, function: Any, args: list[Any]) -> Any:
        """A method of a symbolic number that C code calls."""
        name = _NAMES.get(id(function), "")
        if name in _METHODS:
            return self.operate(frame, _METHODS[name], *args)
        if name in _REFLECTED:
            return self.operate(frame, _REFLECTED[name], *reversed(args))
        if name == "__bool__":
            return self.truth(None, args[0])
        if has_value(args[0]):
            return self.tensors.shapes.method(frame, name, args)
        if name in ("__int__", "__index__") and type(args[0]) is torch.SymInt:
            known = self.speculation.number(None, args[0])
            if known is not None:
                return known
        what = python_type(args[0]).__qualname__
        raise ValueNeeded(f"C code needs the value of an {what} that is read from a tensor")

    # ------------------------------------------------------------------ conditions

    def truth(self, frame: Frame | None, value: Any) -> bool:
        """Whether a number is true, as far as that is known, or as the program insists on."""
        condition = self._condition(frame, value)
        if type(condition) is bool:
            return condition
        known = self.tensors.shapes.floats.decided(frame, condition)
        if known is not None:
            return known
        try:
            with DisableTorchFunction():
                return bool(condition)
        except GuardOnDataDependentSymNode as error:
            why = self._describe(error, frame)
        side = self._insisted(frame)
        if side is None:
            side = self.speculation.holds(frame, condition)
            if side is None:
                raise BranchOnValues(why)
            return side
        self.require(condition if side else negated(condition), why)
        return side

    def at(self, frame: Frame | None) -> None:
        """An operator of this frame is recorded: whether something may be taken for granted."""
        self.speculation.at(frame)
        self.tensors.graph.kernels.assumes = not (self.careful or self.speculation.has_varied())

    def _insisted(self, frame: Frame | None) -> bool | None:
        if frame is None or self.careful:
            return None
        self.speculation.at(frame)
        return None if self.speculation.has_varied() else branches.insisted(frame)

    def tensor_truth(self, frame: Frame, tensor: torch.Tensor) -> bool:
        """Whether a tensor of one element is true."""
        count: Any = tensor.numel()
        if type(count) is not int or count != 1:
            # eager raises, unless there is one element after all
            raise BranchOnValues("a branch depends on the values of a tensor")
        known = tensor.constant  # type: ignore[attr-defined]
        if known is not None:
            with DisableTorchFunction():
                return bool(known)
        if self._insisted(frame) is not None:
            return self.truth(frame, self.item(frame, tensor))
        side = self.speculation.truth(frame, tensor)
        if side is None:
            raise BranchOnValues("a branch depends on the value of a tensor")
        return side

    def identical(self, frame: Frame, a: Any, b: Any) -> bool:
        """`a is b`: there are two bools, and one of each small int; other numbers are new ones."""
        kinds = {_PYTHON_TYPES.get(type(value), type(value)) for value in (a, b)}
        if kinds == {bool}:
            return self.truth(frame, self.operate(frame, operator.eq, a, b))
        if kinds == {int} and not (has_value(a) and has_value(b)):
            a, b = (
                self.speculation.number(frame, v) if SYMBOLS.holds(type(v)) else v for v in (a, b)
            )
            if a is None or b is None:
                raise ValueNeeded("whether two ints are the same object")
            if a != b or a in SMALL:
                return bool(a == b)
            raise ValueNeeded("whether two equal ints are the same object")
        return self.tensors.shapes.identical(frame, a, b)

    def expect(self, frame: Frame | None, condition: Any) -> bool:
        """`torch._check`: what the program says holds, unless it is known not to."""
        try:
            with DisableTorchFunction():
                return bool(condition)
        except GuardOnDataDependentSymNode as error:
            self.require(condition, self._describe(error, frame))
            return True

    def converted(self, frame: Frame | None, name: str, tensor: torch.Tensor) -> Any:
        """What C code gets that asks a tensor for a bool or an int; None if that is not known."""
        if type(tensor) is not FakeTensor or tensor.numel() != 1:
            return None
        if name == "__bool__":
            return self.speculation.truth(frame, tensor)
        kind = tensor.dtype
        if kind.is_floating_point or kind.is_complex or kind is torch.bool:
            return None
        return self.speculation.number(frame, self.item(frame, tensor))

    def condition(self, frame: Frame | None, value: Any) -> Any:
        """Whether a number is true, as a symbolic condition."""
        return self._condition(frame, value)

    def _condition(self, frame: Frame | None, value: Any) -> Any:
        if type(value) is torch.SymBool:
            return value
        return self.operate(frame, operator.ne, value, 0)

    def require(self, condition: Any, why: str, *, insisted: bool = True) -> None:
        """The graph is right only if this holds, which it will check when it runs.

        The program insists on it, if it raises an exception otherwise.
        """
        if type(condition) is not torch.SymBool:
            if not condition:
                raise ValueNeeded(why)
            return
        try:
            with DisableTorchFunction():
                _check(condition)
        except RuntimeError:  # it is known not to hold
            raise ValueNeeded(why) from None
        assumptions = self.tensors.graph.assumptions
        assumptions.note(None, insisted=insisted)
        if assumptions.contradicted():
            raise ValueNeeded(why)

    def _describe(self, error: GuardOnDataDependentSymNode, frame: Frame | None = None) -> str:
        here = None if frame is None or frame.finished else lines(frame)[-1]
        return described(self.tensors.graph, getattr(error, "cond", None), here)


def is_index(tensor: torch.Tensor) -> bool:
    """What torch takes for an integer in a slice: `x[:t]`."""
    kind = tensor.dtype
    if kind is torch.bool or kind.is_floating_point or kind.is_complex:
        return False
    count: Any = tensor.numel()
    return type(count) is int and count == 1


def _flattened(data: Any) -> Iterator[Any]:
    if type(data) in (list, tuple):
        for each in data:
            yield from _flattened(each)
    else:
        yield data


def _copied(values: Any) -> Any:
    """Lists of the program's own: those that the graph keeps must stay as they are."""
    return list(map(_copied, values)) if type(values) is list else values


_INTEGERS: Final[dict[Any, Callable[[Any], int]]] = {
    torch.trunc: int,
    torch.floor: math.floor,
    torch.ceil: math.ceil,
    torch.round: round,
}


def _sym_int(scalars: Scalars, frame: Frame | None, value: Any) -> Any:
    return scalars.to_int(frame, value)


def _sym_float(scalars: Scalars, frame: Frame | None, value: Any) -> Any:
    return scalars.to_float(frame, value)


_TORCH: Final[dict[int, Callable[..., Any]]] = {
    id(torch.tensor): Scalars.tensor,
    id(torch.as_tensor): Scalars.as_tensor,
    id(torch.sym_int): _sym_int,
    id(torch.sym_float): _sym_float,
    **SYM_FUNCTIONS,
}
