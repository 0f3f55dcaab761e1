"""Functions that draw random numbers and do nothing else: called as a whole, before the graph.

In: a call of a Python function with constants or masks as arguments, in the code of which there is
nothing but arithmetic, numpy and draws (a random mask, in many models). Out: a stand-in for what it
returns, an input of the graph, and one step before the graph that calls the function for real; or
MISSING, and the function is evaluated as any other.

Such a function may branch on what it draws, which no graph could follow. That it does nothing else
is seen in its code: it writes no attributes and no globals, it gets no objects that others have,
and all that it calls is in a table. If it raises at run time, or returns something of another kind
than when it was traced, its draws are undone and the program itself runs.
"""

import builtins
import dis
import functools
import math
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.arrays import array_tables
from stator.capture.arrays.array_nodes import DTYPES
from stator.capture.calls.python_calls import know_function
from stator.graph.passes.purity import RANDOM
from stator.graph.passes.retry import Refused
from stator.guards import Defaults, Fixed, Is, KwDefaults
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.arrays.arrays import Arrays
    from stator.capture.calls.calls import Calls
    from stator.capture.randomness.draws import Draws


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DRAWN: Final = "what a function draws"  # no place in the program: wherever it is called
_OPCODES: Final = _words(
    """BINARY_OP BINARY_SLICE BINARY_SUBSCR CHECK_EXC_MATCH LOAD_ASSERTION_ERROR LOAD_SMALL_INT
    LOAD_COMMON_CONSTANT
    LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW NOT_TAKEN POP_EXCEPT POP_ITER PUSH_EXC_INFO
    RERAISE BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP BUILD_SLICE
    BUILD_STRING BUILD_TUPLE CACHE CALL CALL_KW COMPARE_OP CONTAINS_OP CONVERT_VALUE COPY
    COPY_FREE_VARS DELETE_FAST END_FOR EXTENDED_ARG FORMAT_SIMPLE FORMAT_VALUE FORMAT_WITH_SPEC
    FOR_ITER GET_ITER IS_OP JUMP_BACKWARD JUMP_FORWARD JUMP_IF_FALSE_OR_POP JUMP_IF_TRUE_OR_POP
    KW_NAMES LIST_APPEND LIST_EXTEND LIST_TO_TUPLE LOAD_ATTR LOAD_CLOSURE LOAD_CONST LOAD_DEREF
    LOAD_FAST LOAD_FAST_AND_CLEAR LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_GLOBAL LOAD_METHOD
    MAKE_CELL MAKE_FUNCTION MAP_ADD NOP POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE
    POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE
    POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE
    POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE POP_TOP PRECALL
    PUSH_NULL RAISE_VARARGS RESUME RETURN_CONST RETURN_VALUE SET_FUNCTION_ATTRIBUTE STORE_DEREF
    STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST STORE_SLICE STORE_SUBSCR SWAP TO_BOOL
    UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNPACK_SEQUENCE"""
)
_ATTRIBUTES: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_FILLERS: Final = frozenset({"CACHE", "EXTENDED_ARG"})
_FLAGS: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # *args, **kwargs, generators, coroutines
_BUILTINS: Final = frozenset(
    map(
        id,
        (
            *(abs, all, any, bool, divmod, enumerate, float, int, len, list, max, min, pow, range),
            *(reversed, round, set, sorted, str, sum, tuple, zip),
            *(ArithmeticError, AssertionError, IndexError, RuntimeError, TypeError, ValueError),
        ),
    )
)
_BOUND: Final = TypeSet(types.BuiltinFunctionType, types.MethodType)
_MOST_VALUES: Final = 1 << 12
# numpy's functions that change an array which they are given: it is one of the function's own.
_IN_PLACE: Final = ("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask")


class Drawn:
    """The functions that one trace calls before its graph."""

    def __init__(self, draws: "Draws", arrays: "Arrays") -> None:
        self._draws = draws
        self._arrays = arrays
        self.used = False

    def call(
        self, calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A stand-in for what a function returns that draws, and nothing else."""
        if function.__closure__ or not _mentions_random(function.__code__):
            return MISSING
        if id(function) in calls.made:
            return MISSING
        scalars = calls.tensors.scalars
        if scalars.careful or _DRAWN in scalars.speculation.varied:
            return MISSING  # it was called before a graph, and did not return what was expected
        given = [*args, *kwargs.values()]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if not all(_is_constant(value) or _is_small(value) for value in given):
            return MISSING
        if not all(map(_is_constant, defaults)):
            return MISSING
        chains = _chains(function.__code__)
        if chains is None:
            return MISSING
        owners = self._owners(calls, function, chains)
        if len(owners) != 1:
            return MISSING
        (owner,) = owners
        know_function(calls, function)
        source = calls.world.origins[id(function)]
        if type(source) is not Fixed:
            calls.world.guard(source, Is(function))
            calls.world.guard(Defaults(source), Is(function.__defaults__))
            calls.world.guard(KwDefaults(source), Is(function.__kwdefaults__))
        positional = [self._settled(calls, frame, value) for value in args]
        named = {name: self._settled(calls, frame, value) for name, value in kwargs.items()}
        if any(value is MISSING for value in (*positional, *named.values())):
            return MISSING
        example = self._example(owner, function, positional, named)
        if not self._has_stand_in(example):
            return MISSING
        draw = functools.partial(_checked, function, _kind(example))
        self.used = True
        return self._draws.made_by(frame, owner, draw, (tuple(positional), named), example)

    def _settled(self, calls: "Calls", frame: Frame, value: Any) -> Any:
        """An argument as it will be in every call; that a tensor is, the graph checks."""
        if type(value) is not FakeTensor:
            return value
        known = calls.tensors.scalars.speculation.values(frame, value)
        return MISSING if known is None else _Held(known)

    def _has_stand_in(self, value: Any) -> bool:
        """Whether a result can be an input of the graph."""
        if type(value) is float:
            return True
        tables = self._arrays.tables
        if tables is None or type(value) is not tables.array:
            return False
        return value.dtype.name in DTYPES and all(step >= 0 for step in value.strides)

    def _owners(self, calls: "Calls", function: Any, chains: list[tuple[str, ...]]) -> list[Any]:
        """The generators that a function draws from; none if it uses anything that it may not."""
        owners: dict[int, Any] = {}
        for chain in chains:
            found = self._resolve(calls, function, chain)
            if found is MISSING:
                return []
            owner = self._draws.owner(found)
            if owner is not None:
                owners[id(owner)] = owner
            elif not self._is_harmless(found):
                return []
        return list(owners.values())

    def _resolve(self, calls: "Calls", function: Any, chain: tuple[str, ...]) -> Any:
        """What a dotted name stands for, as far as it leads through modules; each is guarded."""
        tracer = calls.tracer
        name, *rest = chain
        namespace = function.__globals__
        if type(namespace) is not dict:
            return MISSING
        found = tracer.namespace_value(namespace, name)
        if found is MISSING:
            namespace = vars(builtins)
            if function.__builtins__ is not namespace:
                return MISSING
            found = tracer.namespace_value(namespace, name)
        for attribute in rest:
            if not _is_same(found, namespace.get(name, MISSING)):
                return MISSING  # the program has replaced it
            if type(found) is not types.ModuleType:
                return found if _is_harmless_name(attribute) else MISSING
            namespace, name = vars(found), attribute
            found = tracer.namespace_value(namespace, name)
        return found if _is_same(found, namespace.get(name, MISSING)) else MISSING

    def _is_harmless(self, value: Any) -> bool:
        if id(value) in _BUILTINS or CONSTANTS.holds(type(value)):
            return True
        if type(value) is types.BuiltinFunctionType and value.__self__ is math:
            return True
        tables = self._arrays.tables
        if tables is None:
            return False
        pure = id(value) in tables.pure or id(value) in tables.constructors
        return pure or any(value is each for each in _in_place(self._arrays.numpy))

    def _example(self, owner: Any, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What it returns now; the generator is put back to where it was."""
        restore = self._draws.saved(owner)
        try:
            with (
                warnings.catch_warnings(action="error"),
                DisableTorchFunction(),
                disable_current_modes(),
            ):
                return _called(function, args, kwargs)
        except Exception:  # it is evaluated instead, and raises there
            return MISSING
        finally:
            restore()


def _is_same(found: Any, raw: Any) -> bool:
    """Methods that are bound to an object of the world are bound anew by a trace."""
    if found is raw or type(found) is not type(raw) or not _BOUND.holds(type(raw)):
        return found is raw and raw is not MISSING
    return found.__self__ is raw.__self__ and found.__name__ == raw.__name__


@functools.cache
def _in_place(numpy: Any) -> tuple[Any, ...]:
    found = (array_tables._find(numpy, name) for name in _IN_PLACE)
    return tuple(each for each in found if each is not None)


def _is_constant(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return CONSTANTS.holds(type(value))


def _is_small(value: Any) -> bool:
    """A tensor of some integers that is not followed by autograd."""
    if type(value) is not FakeTensor or value.dtype.is_floating_point or value.dtype.is_complex:
        return False
    sizes: list[Any] = list(value.shape)
    return all(type(size) is int for size in sizes) and math.prod(sizes) <= _MOST_VALUES


class _Held:
    """A tensor among the arguments: the function gets a copy each time."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values


def _is_harmless_name(name: str) -> bool:
    """An attribute of numbers, arrays, tensors and containers that shows nothing of the world."""
    if name.startswith("_") or name in _NOT_OF_ARRAYS:
        return False
    return name.rstrip("_") not in RANDOM  # of torch's own generator


_NOT_OF_ARRAYS: Final = frozenset(
    {
        "base",
        "byteswap",
        "ctypes",
        "data",
        "dump",
        "dumps",
        "flags",
        "setfield",
        "setflags",
        "tofile",
    }
)


def _mentions_random(code: types.CodeType) -> bool:
    """A quick look, since all functions of a program come by."""
    if "random" in code.co_names:
        return True
    return any(type(each) is types.CodeType and _mentions_random(each) for each in code.co_consts)


def _chains(code: types.CodeType) -> list[tuple[str, ...]] | None:
    """The dotted names of globals that code mentions; None if it does what it may not."""
    try:
        return sorted(set(_scanned(code)))
    except ValueError:
        return None


def _scanned(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    if code.co_flags & _FLAGS:
        raise ValueError("no plain function")
    chain: list[str] = []
    for step in dis.get_instructions(code):
        if step.opname not in _OPCODES:
            raise ValueError(step.opname)
        if step.opname in _FILLERS:
            continue
        if step.opname in _ATTRIBUTES:
            if chain:
                chain.append(step.argval)
                continue
            if not _is_harmless_name(step.argval):
                raise ValueError(step.argval)
        elif chain:
            yield tuple(chain)
            chain = []
        if step.opname == "LOAD_GLOBAL":
            chain = [step.argval]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _scanned(constant)


def _kind(value: Any) -> Callable[[Any], bool]:
    """Whether another value is of the same kind, as far as a graph can tell."""
    cls = type(value)
    if not hasattr(value, "__array_interface__"):
        return lambda other: type(other) is cls
    dtype, shape, strides = value.dtype, value.shape, value.strides

    def same(other: Any) -> bool:
        return (
            type(other) is cls
            and other.dtype == dtype
            and other.shape == shape
            and other.strides == strides
        )

    return same


def _checked(
    function: Any,
    same: Callable[[Any], bool],
    _: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """At run time: what the function returns, if that is of the kind that the graph expects."""
    try:
        result = _called(function, args, kwargs)
    except Exception:
        result = MISSING
    if not same(result):
        raise Refused(_DRAWN)
    return result


def _called(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return function(*map(_given, args), **{name: _given(v) for name, v in kwargs.items()})


def _given(value: Any) -> Any:
    return value.values.clone() if type(value) is _Held else value
