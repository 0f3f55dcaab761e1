"""torch's leaf rules: what a trace does with a torch callable or a tensor attribute.

In: a callable, or the name of an attribute. Out: a `Rule`: record it as one node, evaluate it like
the user's code, answer it now, change state, or leave it out of the graph, with the reason. The
facts are in `leaf_tables`; a C function of torch that no table covers is forbidden.
"""

import functools
import operator
import types
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import torch

from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import NoGraphOperation
from stator.graph.leaves import leaf_tables as tables
from stator.graph.recording.output import Target
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import (
    HigherOrderOperator,
    OpOverload,
    OpOverloadPacket,
    tensor_classes,
)
from stator.torchlib.tensors import DisableTorchFunction, TensorBase


class Kind(Enum):
    """What a trace does with a torch callable."""

    RECORD = "record"  # one node
    EVALUATE = "evaluate"  # Python code, evaluated like the user's
    CONSTANT = "constant"  # answered while tracing
    STATE = "state"  # changes global state, in the graph too
    OWN = "own"  # the trace keeps it itself: state of tensors
    LEFT_OUT = "left out"  # does nothing that a program could see
    FORBIDDEN = "forbidden"  # not in a graph


@dataclass(frozen=True)
class Rule:
    """`reason` and `cause` say why something is forbidden; `action` names a change of state."""

    kind: Kind
    reason: str = ""
    action: str = ""
    cause: type[Break] = NoGraphOperation


RECORD: Final = Rule(Kind.RECORD)
EVALUATE: Final = Rule(Kind.EVALUATE)
CONSTANT: Final = Rule(Kind.CONSTANT)
LEFT_OUT: Final = Rule(Kind.LEFT_OUT)

KIND: Final = "_stator_class"  # where a fake notes that it stands for a tensor of a subclass
_TENSOR_CLASSES: Final = (TensorBase, torch.Tensor)
_UNBOUND: Final = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
_BOUND: Final = (types.BuiltinMethodType, types.MethodWrapperType)


def _forbidden(reason: str, name: str = "") -> Rule:
    cause = tables.CAUSES.get(reason, NoGraphOperation)
    return Rule(Kind.FORBIDDEN, f"{name}: {reason}" if name else reason, cause=cause)


def _resolve(path: str) -> Any:
    """The object at a dotted path, as far as it is loaded; None if this torch has none."""
    root, *names = path.split(".")
    assert root == "torch"
    found: Any = torch
    for name in names:
        try:
            found = getattr(found, name)
        except (AttributeError, ImportError):
            return None
    return found


@functools.cache
def _named() -> dict[int, tuple[Any, Rule]]:
    """The named exceptions, by identity of the callable (kept, so that ids stay taken)."""
    rules: dict[int, tuple[Any, Rule]] = {}
    entries: list[tuple[str, Rule]] = [
        *((path, RECORD) for path in tables.RECORDED),
        *((path, EVALUATE) for path in tables.EVALUATED),
        *((path, CONSTANT) for path in tables.CONSTANT),
        *((path, CONSTANT) for path in tables.ANSWERS),
        *((path, Rule(Kind.STATE, action=action)) for path, action in tables.STATE.items()),
        *((path, Rule(Kind.OWN, action=action)) for path, action in tables.OWN.items()),
        *((path, _forbidden(reason, path)) for path, reason in tables.FORBIDDEN.items()),
    ]
    for path, rule in entries:
        found = _resolve(path)
        if found is not None:
            rules[id(found)] = (found, rule)
    return rules


@functools.cache
def _answers() -> dict[int, tuple[Any, Any]]:
    found = ((_resolve(path), answer) for path, answer in tables.ANSWERS.items())
    return {id(function): (function, answer) for function, answer in found if function is not None}


@functools.cache
def _told() -> dict[int, Any]:
    found = map(_resolve, tables.TOLD)
    return {id(function): function for function in found if function is not None}


def answer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of a CONSTANT callable."""
    known = _answers().get(id(function))
    if known is not None:
        return known[1]
    with DisableTorchFunction():
        return function(*args, **kwargs)


def is_compiled_otherwise(function: types.FunctionType) -> bool:
    """Whether a Python function of torch does something else while it is compiled."""
    code = function.__code__
    asks = not tables.COMPILING.isdisjoint(code.co_names)
    return asks and code.co_qualname not in tables.COMPILED_ALIKE


def is_fixed(function: Any) -> bool:
    """Whether the answer of a CONSTANT function is in a table."""
    return id(function) in _answers()


def is_setting(function: Any) -> bool:
    """Whether a CONSTANT function tells a setting that no graph changes: it may be guarded."""
    if id(function) in _told():
        return True
    if type(function) is not types.BuiltinFunctionType or id(function) in _answers():
        return False
    if tensor_method(function) is not None:  # a method that is bound to a tensor, `x.dim`
        return False
    return not any(part in function.__name__ for part in tables.CHANGEABLE)


# ---------------------------------------------------------------------------- callables

_DYNAMO: Final = "torch._dynamo.eval_frame"


def classify(function: Any) -> Rule | None:
    """The rule of a callable; None if it is not torch's."""
    named = _named().get(id(function))
    if named is not None:
        return named[1]
    if isinstance(function, OpOverload | OpOverloadPacket):
        return RECORD
    if isinstance(function, HigherOrderOperator):
        captured = str(function) in tables.CAPTURED_OPERATORS
        return EVALUATE if captured else _forbidden(tables.HIGHER_ORDER)
    name = tensor_method(function)
    if name is not None:
        return method(name)
    if isinstance(function, types.MethodType):
        return classify(function.__func__)
    if isinstance(function, types.FunctionType):
        return _python_function(function)
    if isinstance(function, types.BuiltinFunctionType):
        return _c_function(function)
    if isinstance(function, type):
        return _class(function)
    return None


def tensor_method(function: Any) -> str | None:
    """The name of a tensor method: unbound, bound to a tensor, or one written in Python."""
    kind = type(function)
    if kind in _UNBOUND:
        return function.__name__ if function.__objclass__ in _TENSOR_CLASSES else None
    if kind in _BOUND:
        return function.__name__ if isinstance(function.__self__, torch.Tensor) else None
    if kind is types.MethodType:
        return tensor_method(function.__func__)
    if kind is types.FunctionType and module_of(function) in {
        "torch._tensor",
        "torch.nn.parameter",
    }:
        name: str = function.__name__
        wrapped = torch.Tensor.__dict__.get(name) is function
        return name if wrapped or function.__qualname__.startswith("Tensor.") else None
    return None


def method(name: str) -> Rule:
    """The rule of a tensor method."""
    if name in tables.CONSTANT_METHODS:
        return CONSTANT
    if name in tables.OWN_METHODS:
        return Rule(Kind.OWN, action=name)
    if name in tables.FORBIDDEN_METHODS:
        return _forbidden(tables.FORBIDDEN_METHODS[name], f"Tensor.{name}")
    if name in tables.EVALUATED_METHODS:
        return EVALUATE
    return RECORD


def module_of(function: Any) -> str:
    """The name of a function's module: a program can set it to anything, whose methods are its."""
    found = function.__module__
    return found if type(found) is str else ""


def _python_function(function: types.FunctionType) -> Rule | None:
    module = module_of(function)
    if dict.get(function.__globals__, "__name__") == _DYNAMO:
        module = _DYNAMO  # what torch.compile returns says that it is of the program's module
    if not _within(module, "torch"):
        return None
    if module in tables.RECORDED_MODULES:
        return EVALUATE if function.__name__.startswith("_") else RECORD
    path = f"{module}.{function.__qualname__}"
    if path in tables.LEFT_OUT:
        return LEFT_OUT
    if path in tables.WRAPPERS:
        return EVALUATE
    return _by_module(function.__name__, module) or EVALUATE


def _c_function(function: types.BuiltinFunctionType) -> Rule | None:
    module = module_of(function)
    if not _within(module, "torch"):
        return None
    if module in tables.RECORDED_C_MODULES:
        return RECORD
    if function.__qualname__.startswith(tables.RECORDED_C_CLASSES):
        return RECORD
    return _forbidden(f"no rule says what the C function {module}.{function.__name__} does")


def _class(cls: type) -> Rule | None:
    module = _class_module(cls)
    if type(module) is not str:
        return None
    if not _within(module, "torch"):
        return None
    if issubclass(cls, torch.Tensor) or cls in tensor_classes:
        if cls is torch.Tensor or (cls in tensor_classes and module == "torch"):
            return RECORD  # torch.LongTensor([1, 2]): a tensor of a dtype, on the CPU
        return _forbidden("it makes a tensor of another type")
    if module == "torch.return_types":
        return Rule(Kind.OWN, action=f"named_result {cls.__name__}")
    if not cls.__flags__ & (1 << 9):  # a C type
        return _forbidden(f"no rule says what the C class {module}.{cls.__qualname__} does")
    if is_indexing_mode(cls):
        return EVALUATE
    return _by_module(cls.__qualname__, module) or EVALUATE


_class_module: Final[Any] = type.__dict__["__module__"].__get__


def is_indexing_mode(cls: type) -> bool:
    return f"{cls.__module__}.{cls.__qualname__}" == tables.INDEXING_MODE


def _by_module(name: str, module: str) -> Rule | None:
    if module in tables.AROUND_OPERATORS:
        return None
    for prefix, reason in tables.FORBIDDEN_MODULES.items():
        if _within(module, prefix):
            return _forbidden(reason, f"{module}.{name}")
    return None


def _within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


# Special methods that a graph holds as functions of `operator`, as users wrote them.
_OPERATORS: Final[dict[str, Any]] = {
    name: getattr(operator, name)
    for name in [
        "__add__",
        "__and__",
        "__eq__",
        "__floordiv__",
        "__ge__",
        "__getitem__",
        "__gt__",
        "__iadd__",
        "__iand__",
        "__ifloordiv__",
        "__ilshift__",
        "__imod__",
        "__imul__",
        "__invert__",
        "__ior__",
        "__ipow__",
        "__irshift__",
        "__isub__",
        "__itruediv__",
        "__ixor__",
        "__le__",
        "__lshift__",
        "__lt__",
        "__matmul__",
        "__mod__",
        "__mul__",
        "__ne__",
        "__neg__",
        "__or__",
        "__pos__",
        "__pow__",
        "__rshift__",
        "__setitem__",
        "__sub__",
        "__truediv__",
        "__xor__",
    ]
}


def target_of(function: Any) -> tuple[Target, tuple[Any, ...]]:
    """How `OutputGraph.call` records a RECORD callable: the target, and the object that a bound
    method brings along as its first argument."""
    name = tensor_method(function)
    if name is None:
        return function, ()
    bound = isinstance(
        function, types.MethodType | types.BuiltinMethodType | types.MethodWrapperType
    )
    first = (function.__self__,) if bound else ()
    return _OPERATORS.get(name, ("method", name)), first


# ---------------------------------------------------------------------------- attributes


def attribute(name: str) -> Rule | None:
    """The rule of a tensor attribute that is not a method; None if torch knows no such attribute.

    A RECORD attribute is recorded as `getattr(x, name)`.
    """
    if name in tables.CONSTANT_ATTRIBUTES or name == "__class__":
        return CONSTANT
    if name in tables.RECORDED_ATTRIBUTES:
        return RECORD
    if name in tables.OWN_ATTRIBUTES:
        return Rule(Kind.OWN, action=tables.OWN_ATTRIBUTES[name])
    if name in tables.FORBIDDEN_ATTRIBUTES:
        return _forbidden(tables.FORBIDDEN_ATTRIBUTES[name], f"Tensor.{name}")
    return None


def constant_attribute(fake: torch.Tensor, name: str) -> Any:
    """The answer of a CONSTANT attribute."""
    if name == "__class__":
        return python_type(fake)
    with DisableTorchFunction():
        if name == "nbytes" and fake.layout is torch.strided:
            return fake.numel() * fake.itemsize  # torch's own getter knows no symbols
        return getattr(fake, name)


def python_type(fake: torch.Tensor) -> type:
    """What `type(x)` answers for a traced tensor: never `FakeTensor`."""
    if type(fake) is not FakeTensor:
        return type(fake)  # a wrapper: its fake is of its own class
    kind: type | None = vars(fake).get(KIND)
    if kind is not None:
        return kind
    return torch.nn.Parameter if isinstance(fake, torch.nn.Parameter) else torch.Tensor


def shown(function: Any) -> str:
    """What to call a torch function in a message."""
    name = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", "?"))
    return name.rpartition(".")[2] if name.startswith(("_enter", "_exit")) else name
