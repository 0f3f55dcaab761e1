"""C callables that a tracer answers by its own operations.

In: a call of one of these functions. Out: the result. `getattr(x, "name")` is the program's own way
to read an attribute, so it reads the world as the LOAD_ATTR instruction does.
"""

import abc
import builtins
import logging
import operator
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.autograd import autograd_functions, checkpoints
from stator.capture.calls import operators
from stator.capture.calls.native_calls import by_contract, call_c, contract_of, describe, run
from stator.capture.numbers import scalars
from stator.capture.objects.addresses import COPYING, FOR_THE_MOMENT, tell
from stator.capture.objects.c_fields import (
    guard_mro,
    guard_name,
    guard_not_registered,
    guard_thread,
    inner_frame,
    look_outside,
)
from stator.capture.trace.refusals import unseen
from stator.contracts import Depth
from stator.diagnostics.catalogue import (
    ClassChanged,
    InterpreterState,
    NotRebuilt,
    TensorSubclass,
)
from stator.effects.texts import Text
from stator.graph.leaves import leaves
from stator.guards import AttrKeys, Fixed, IsWeak
from stator.torchlib.autograd import FUNCTION_APPLY
from stator.torchlib.operators import assert_async, check_tensor_all_with
from stator.world.fields import same_names
from stator.world.kinds import is_frozen_class

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

Handler = Callable[["Calls", Frame, Any, list[Any], dict[str, Any]], Any]


def _plain(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """CPython's own call, for wrong arguments and the like."""
    for value in (*args, *kwargs.values()):
        if type(value) is Text:  # which is no string
            raise unseen(calls.world, value, f"{describe(function)} reads {{}}")
    if kwargs:
        return core.call(frame, function, [*args, *kwargs.values()], tuple(kwargs))
    return core.call(frame, function, args, None)


def _getattr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) not in (2, 3) or type(args[1]) is not str:
        return _plain(calls, frame, function, args, kwargs)
    try:
        return calls.tracer.getattr(frame, args[0], args[1])
    except AttributeError as error:
        if len(args) == 2 or not core.is_user_error(error):
            raise
        return args[2]


def _hasattr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or type(args[1]) is not str:
        return _plain(calls, frame, function, args, kwargs)
    try:
        calls.tracer.getattr(frame, args[0], args[1])
    except AttributeError as error:
        if not core.is_user_error(error):
            raise
        return False
    return True


def _setattr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 3 or type(args[1]) is not str:
        return _plain(calls, frame, function, args, kwargs)
    calls.tracer.setattr(frame, args[0], args[1], args[2])
    return None


def _delattr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or type(args[1]) is not str:
        return _plain(calls, frame, function, args, kwargs)
    calls.tracer.delattr(frame, args[0], args[1])
    return None


def _object_getattribute(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    """`object.__getattribute__`: the generic access, without `__getattr__`."""
    if kwargs or len(args) != 2 or type(args[1]) is not str:
        return _plain(calls, frame, function, args, kwargs)
    obj, name = args
    tracer = calls.tracer
    cls = type(obj)
    record = tracer.world.records.get(id(obj))
    if calls.tensors.holds(cls):
        return calls.tensors.attributes.getattr(frame, obj, name)
    if record is None and (id(obj) in tracer.world.opaque or not is_python_class(cls)):
        return tracer.getattr(frame, obj, name)
    return tracer.generic_getattr(frame, obj, name, record, _bare_getattr)


def _bare_getattr(frame: Frame, obj: Any, name: str) -> Any:
    return core.call(frame, _GETATTRIBUTE, [obj, name], None)


_GETATTRIBUTE: Final = objects.type_dict(object)["__getattribute__"]


def _object_setattr(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    if not kwargs and len(args) == 3 and type(args[1]) is str:
        tracer = calls.tracer
        if calls.tensors.holds(type(args[0])):
            return calls.tensors.attributes.setattr(frame, *args)
        args[0] = calls.tensors.shapes.plain(frame, args[0])
        if not tracer.may_store(frame, *args):
            return None
        tracer.store_ready(args[0], args[1])
        _plain(calls, frame, function, args, kwargs)
        tracer.stored(args[0], args[1])
        return None
    return _plain(calls, frame, function, args, kwargs)


def _object_delattr(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    if not kwargs and len(args) == 2 and type(args[1]) is str:
        tracer = calls.tracer
        args[0] = calls.tensors.shapes.plain(frame, args[0])
        if not tracer.may_store(frame, args[0], args[1], core.NULL):
            return None
        tracer.delete_ready(args[0], args[1])
        _plain(calls, frame, function, args, kwargs)
        tracer.deleted(args[0], args[1])
        return None
    return _plain(calls, frame, function, args, kwargs)


def _type_setattr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`type.__setattr__`: a metaclass passes a store on."""
    fits = not kwargs and len(args) == 3 and type(args[1]) is str
    if fits and objects.is_subtype(type(args[0]), type):
        calls.tracer.store_class(frame, *args)
        return None
    return _plain(calls, frame, function, args, kwargs)


def _type_delattr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    given = bool(args) and objects.is_subtype(type(args[0]), type)
    if given and id(args[0]) not in calls.world.made_classes:
        raise ClassChanged("an attribute of a class that existed before the call is deleted")
    return _plain(calls, frame, function, args, kwargs)


def called_type(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        value = args[0]
        if calls.tensors.holds(type(value)):
            return leaves.python_type(value)
        if calls.tensors.is_symbol(value):
            return scalars.python_type(value)
        return calls.world.know(type(value)) if is_python_class(type(value)) else type(value)
    contract = contract_of(calls, type)
    if contract is None:
        raise NotRebuilt("type() with three arguments makes a class")
    return run(calls, frame, function, [*args, *kwargs.values()], tuple(kwargs) or None, contract)


def _len(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        value = args[0]
        if calls.tensors.holds(type(value)):
            return calls.tensors.length(frame, value)
        if calls.tracer.arrays.is_symbolic(value):
            return calls.tracer.arrays.length(value)
        length = calls.tracer.length(value)
        if length is not None:
            return length
    return by_contract(calls, frame, function, args, kwargs)


def _method(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A C method by its contract; it may be bound, and has its object in front all the same."""
    bound = type(function) is types.BuiltinFunctionType
    contract = contract_of(calls, function)
    assert contract is not None
    rest = args[1:] if bound else args
    first = (args[0],) if bound else ()
    return run(
        calls, frame, function, [*rest, *kwargs.values()], tuple(kwargs) or None, contract, first
    )


def _append(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`items.append(x)` does not look at what is there already."""
    if not kwargs and len(args) == 2:
        record = calls.world.records.get(id(args[0]))
        if record is not None and not record.filled and record.base is list:
            calls.world.touch(args[0])
            list.append(args[0], args[1])
            return None
    return _method(calls, frame, function, args, kwargs)


def _dict_get(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`d.get(key)` of a dict that is not filled reads one key."""
    if not kwargs and 2 <= len(args) <= 3:
        record = calls.world.records.get(id(args[0]))
        if record is not None and not record.filled:
            found = calls.tracer.world.has_key(record, args[1])
            if found is True:
                return calls.tracer.world.item(record, args[1])
            if found is False:
                return args[2] if len(args) == 3 else None
        if record is not None:
            calls.world.fill(record)
    return _method(calls, frame, function, args, kwargs)


def _vars(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        try:
            return calls.tracer.getattr(frame, args[0], "__dict__")
        except AttributeError as error:
            if not core.is_user_error(error):
                raise
        core.raise_user(TypeError("vars() argument must have __dict__ attribute"))
    return _plain(calls, frame, function, args, kwargs)


def _dir(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    args = [calls.tensors.shapes.plain(frame, value) for value in args]
    args = [scalars.python_type(v) if calls.tensors.is_symbol(v) else v for v in args]
    for value in args:
        calls.values.ready(value, Depth.SHALLOW, attributes=True)
        if _is_changed(calls, value):
            raise InterpreterState("dir() of a function, module or class that the call has changed")
        _guard_names(calls, value.__func__ if type(value) is types.MethodType else value)
        if objects.is_subtype(type(value), types.ModuleType):
            calls.tracer.getattr(frame, value, "__dir__")
        calls.world.protocol(type(value), ("__dir__",))
        cls = value if objects.is_subtype(type(value), type) else type(value)
        for owner in objects.mro(cls):
            if not is_frozen_class(owner) and not calls.world.is_made(owner):
                calls.world.guard(Fixed(owner), same_names(owner))
    return _plain(calls, frame, function, args, kwargs)


def _own_state(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`__dir__` and `__getstate__` of all objects: what it has itself, if it is taken as it is."""
    for value in args[:1]:
        raw = calls.world.is_world(value) and id(value) not in calls.world.records
        names = function.__name__ == "__dir__"
        if raw and not names and objects.instance_dict(value) is not None:
            reason = f"the state of an object of type {type(value).__name__} is copied"
            raise InterpreterState(reason)
        if raw and _is_changed(calls, value):
            raise InterpreterState("dir() of a function, module or class that the call has changed")
        if raw:
            _guard_names(calls, value)
    return _method(calls, frame, function, args, kwargs)


_OBJECT: Final[Any] = objects.type_dict(object)


def _guard_names(calls: "Calls", value: Any) -> None:
    """Which attributes an object of the world has itself that is taken as it is."""
    own = objects.instance_dict(value)
    if own is not None and calls.world.is_world(value) and id(value) not in calls.world.records:
        calls.world.guard(calls.world.origins[id(value)], AttrKeys(tuple(dict.__iter__(own))))


def _is_changed(calls: "Calls", value: Any) -> bool:
    """Whether what the program has set is not in the real object, but written at the end."""
    if objects.is_subtype(type(value), type):
        return any(owner is value for owner in calls.world.written_classes.values())
    own = objects.instance_dict(value)
    record = None if own is None else calls.tracer.known_namespace(own)
    return record is not None and (bool(record.writes) or record.filled)


def _callable(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Whether an object can be called is a fact of its class, which may get a `__call__`."""
    if len(args) == 1 and not kwargs:
        calls.world.class_attribute(type(args[0]), "__call__")
    return by_contract(calls, frame, function, args, kwargs)


def _iter(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        return calls.tracer.iter(frame, args[0])
    return by_contract(calls, frame, function, args, kwargs)


def asked_isinstance(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any
) -> Any:
    """A fake tensor is an instance of what the tensor it stands for is; a symbol of a number."""
    if len(args) == 2 and not kwargs and calls.tensors.is_symbol(args[0]):
        stand_in = scalars.python_type(args[0])(0)
        return by_contract(calls, frame, function, [stand_in, args[1]], kwargs)
    if len(args) == 2 and not kwargs and calls.tensors.holds(type(args[0])):
        kind = leaves.python_type(args[0])
        for cls in _classes(args[1]):
            if cls is torch.nn.Parameter:
                found = _is_parameter(calls, frame, args[0], kind)
            elif objects.is_subtype(type(cls), type) and objects.is_subtype(kind, cls):
                found = True
            elif _plain_check(type(cls)):
                found = False
            else:
                found = by_contract(calls, frame, function, [args[0], cls], {})
            if found:
                return True
        return False
    if args:
        guard_mro(calls.world, type(args[0]))
    return by_contract(calls, frame, function, args, kwargs)


def _issubclass(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if args and objects.is_subtype(type(args[0]), type):
        guard_mro(calls.world, args[0])
    return by_contract(calls, frame, function, args, kwargs)


def _is_parameter(calls: "Calls", frame: Frame, tensor: Any, kind: type) -> bool:
    """As the metaclass of Parameter: tensors of subclasses may say that they are one."""
    if objects.is_subtype(kind, torch.nn.Parameter) or not calls.tensors.subclasses.holds(tensor):
        return objects.is_subtype(kind, torch.nn.Parameter)
    return calls.tensors.attributes.own_attribute(tensor, "_is_param") is True


_INSTANCE: Final[Any] = abc._abc_instancecheck  # type: ignore[attr-defined]
_SUBCLASS: Final[Any] = abc._abc_subclasscheck  # type: ignore[attr-defined]


def _abstract(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What `isinstance` and `issubclass` ask an abstract class."""
    if function is _INSTANCE and calls.tensors.is_of_subclass(args[1]):
        raise TensorSubclass("an abstract class is asked about a tensor of a subclass")
    result = by_contract(calls, frame, function, args, kwargs)
    if result is False:
        cls = args[1] if function is _SUBCLASS else type(args[1])
        guard_not_registered(calls.world, args[0], cls)
    return result


def _plain_check(meta: type) -> bool:
    """Whether a metaclass answers `isinstance` as `type` does; torch.FloatTensor's does not."""
    found = objects.lookup(meta, "__instancecheck__")
    return found is not None and found.owner is type


def _classes(given: Any) -> list[Any]:
    if type(given) is tuple:
        return [cls for item in given for cls in _classes(item)]
    if type(given) is types.UnionType:
        return list(given.__args__)
    return [given]


def _identity(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """What tells an object's address: that of the object, not of its shadow."""
    if len(args) == 1 and not kwargs:
        value, world = args[0], calls.world
        if function is not builtins.id and calls.tensors.holds(type(value)):
            calls.tensors.replaced.method("__hash__")
        record = world.records.get(id(value))
        in_copy = id(frame.globals) in COPYING  # the keys of its memo, nothing else
        by_address = function is builtins.id or _hashed_by_address(type(value))
        if record is not None and record.owner is None and by_address and not in_copy:
            return function(world.pin(value))
        if function is builtins.id and id(value) in world.opaque and id(value) in world.origins:
            return function(world.pin(value))
        given = calls.tensors.inputs.get(id(value))
        if given is not None and not in_copy:
            raw, source = given
            world.guard(source, IsWeak(raw))
            return builtins.id(raw)
        if by_address and id(frame.globals) not in FOR_THE_MOMENT:
            tell(calls, value)
    return by_contract(calls, frame, function, args, kwargs)


def _hashed_by_address(cls: type) -> bool:
    found = objects.lookup(cls, "__hash__")
    return found is not None and found.owner is object


def _object_repr(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs and id(args[0]) in calls.world.records:
        guard_name(calls.world, args[0], type(args[0]))
        return function(calls.world.pin(args[0]))
    return _plain(calls, frame, function, args, kwargs)


def _globals(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return calls.tracer.namespace(frame.globals).shadow


def _exec(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`exec` and `eval`: code that runs in dicts of the program, or in those of this frame."""
    values = [*args, *kwargs.values()]
    for namespace in values[1:]:
        calls.tracer.own_namespace(namespace)
        calls.values.ready(namespace, Depth.SHALLOW)
    return call_c(calls, frame, function, values, tuple(kwargs) or None)


def _is_enabled_for(logger: Any, level: int) -> bool:
    """`logging.Logger.isEnabledFor` without its cache, which is no state of the program."""
    if logger.disabled or logger.manager.disable >= level:
        return False
    return bool(level >= logger.getEffectiveLevel())


def _check_tensor_all_with(error_type: Any, cond: Any, message: Any = None) -> None:
    """`torch._check_tensor_all_with`, checked when the graph runs."""
    if not torch.is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if not cond.dtype == torch.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    holds: Any = cond._is_all_true()
    if error_type is not RuntimeError:
        if not holds:
            raise error_type  # it is not the one that is seen: the check itself raises that
        return
    text = "Expected cond to be True, but got False"
    if message is not None:
        if not callable(message):
            raise TypeError("message must be a callable")
        text = str(message())
    assert_async(holds, text)


def _get_ident(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A name for the running thread, which `reprlib` uses as a key."""
    guard_thread(calls.world)
    return function(*args)


def _handled(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`sys.exc_info` and `sys.exception`."""
    if core.get_handled_exception() is None:
        look_outside(calls.tracer)
    return by_contract(calls, frame, function, args, kwargs)


def _getframe(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`sys._getframe`: of the program's own frames; below them is whoever calls the function."""
    found = first = by_contract(calls, frame, function, [], {})
    depth = args[0] if args and type(args[0]) is int else 0
    for _ in range(depth):
        found = None if found is None else inner_frame(found.f_back)
    return first if depth <= 0 else found


def _operator(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`operator.add(x, y)` is `x + y`: where one of them is a tensor, an array or a symbol."""
    tensors = calls.tensors
    kinds = [type(value) for value in args]
    ours = any(tensors.holds(kind) or tensors.arrays.holds(kind) for kind in kinds)
    if kwargs or len(args) != 2 or not (ours or tensors.is_symbol(*args)):
        return by_contract(calls, frame, function, args, kwargs)
    if function in operators.COMPARE:
        return calls.tracer.compare(frame, operators.COMPARE.index(function), *args)
    return calls.tracer.binary(frame, operators.BINARY.index(function), *args)


def _substitute(function: Any) -> Handler:
    """Another function is evaluated instead."""

    def handler(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        return calls.function(frame, function, values, tuple(kwargs) or None)

    return handler


def _call(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`operator.call(function, ...)`."""
    if not args:
        return _plain(calls, frame, function, args, kwargs)
    return calls.call(frame, args[0], [*args[1:], *kwargs.values()], tuple(kwargs) or None)


def _next(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`next(iterator)` of one that existed before the call."""
    tracer = calls.tracer
    if kwargs or len(args) not in (1, 2) or not tracer.ahead.iterates(args[0]):
        return by_contract(calls, frame, function, args, kwargs)
    item = tracer.next(frame, args[0])
    if item is not core.NULL:
        return item
    if len(args) == 1:
        core.raise_user(StopIteration())
    return args[1]


def _length_hint(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`operator.length_hint(iterator)` of one that existed before the call."""
    length = None
    if not kwargs and (len(args) == 1 or (len(args) == 2 and type(args[1]) is int)):
        length = calls.tracer.ahead.length(args[0])
    return by_contract(calls, frame, function, args, kwargs) if length is None else length


SPECIAL: Final[dict[int, Handler]] = {
    id(operator.length_hint): _length_hint,
    id(operator.call): _call,
    id(builtins.getattr): _getattr,
    id(builtins.hasattr): _hasattr,
    id(builtins.setattr): _setattr,
    id(builtins.delattr): _delattr,
    id(builtins.hash): _identity,
    id(builtins.id): _identity,
    id(builtins.issubclass): _issubclass,
    id(_INSTANCE): _abstract,
    id(_SUBCLASS): _abstract,
    id(builtins.iter): _iter,
    id(builtins.next): _next,
    id(builtins.callable): _callable,
    id(_OBJECT["__dir__"]): _own_state,
    id(_OBJECT["__getstate__"]): _own_state,
    id(builtins.len): _len,
    id(builtins.vars): _vars,
    id(builtins.dir): _dir,
    id(builtins.globals): _globals,
    id(builtins.exec): _exec,
    id(builtins.eval): _exec,
    id(objects.type_dict(object)["__getattribute__"]): _object_getattribute,
    id(objects.type_dict(object)["__setattr__"]): _object_setattr,
    id(objects.type_dict(object)["__delattr__"]): _object_delattr,
    id(objects.type_dict(object)["__hash__"]): _identity,
    id(objects.type_dict(object)["__repr__"]): _object_repr,
    id(objects.type_dict(type)["__setattr__"]): _type_setattr,
    id(objects.type_dict(type)["__delattr__"]): _type_delattr,
    id(objects.type_dict(dict)["get"]): _dict_get,
    id(objects.type_dict(list)["append"]): _append,
    id(logging.Logger.isEnabledFor): _substitute(_is_enabled_for),
    id(threading.get_ident): _get_ident,
    id(sys.exc_info): _handled,
    id(sys.exception): _handled,
    id(sys._getframe): _getframe,
    id(FUNCTION_APPLY): autograd_functions.apply,
    **checkpoints.CHECKPOINTS,
    **autograd_functions.AUTOGRAD,
    id(check_tensor_all_with): _substitute(_check_tensor_all_with),
    **{id(function): _operator for function in (*operators.BINARY, *operators.COMPARE)},
}
