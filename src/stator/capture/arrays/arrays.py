"""numpy in a trace: scalars, arrays made in the call, arrays of the world, arrays of tensors.

In: operations that involve numpy. Out: results, graph nodes, or a `Break`.

There are two kinds of arrays and scalars. What the program makes from constants is *known*: a real
array, on which numpy runs for real while tracing. What comes from the world or from a tensor is
*symbolic* (`array_nodes`): its values are those of a fake tensor.
"""

import operator
import types
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.arrays import array_tables
from stator.capture.arrays.array_changes import COPIES, at_start, check_cast, is_open, is_simple_key
from stator.capture.arrays.array_methods import ArrayMethods
from stator.capture.arrays.array_nodes import (
    DTYPES,
    OPERATORS,
    SEQUENCES,
    Symbolic,
    raise_user,
    same_strides,
)
from stator.capture.calls.operators import NOT_IN_PLACE
from stator.diagnostics.catalogue import ArrayChanged, ArrayFunction, ArrayKind
from stator.graph.fakes.inputs import version
from stator.graph.fakes.memory import storage_of
from stator.guards import Callback, Is, Source, TypeIs
from stator.guards.tensors import apart_in_memory
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import World
from stator.world.kinds import CONSTANTS

MISSING: Final = object()
_NOTHING: Final = TypeSet()
_CONVERSIONS: Final = {
    id(torch.from_numpy): "from_numpy",
    id(torch.as_tensor): "as_tensor",
    id(torch.asarray): "as_tensor",
    id(torch.tensor): "tensor",
}
_NEW_TENSOR: Final = ("method", "new_tensor")
_NUMBER_TYPES: Final = frozenset(map(id, (bool, int, float, complex)))
_BUILTIN: Final = {id(abs): operator.abs}
_INDICES: Final[tuple[set[type], ...]] = ({int}, {bool})
_COPY_HINT: Final = "return a copy of the array, or make the array before the compiled function"


def converts(function: Any) -> bool:
    """Whether a function of torch makes tensors of arrays, or arrays of tensors."""
    return id(function) in _CONVERSIONS or getattr(function, "__name__", "") == "numpy"


class Shared(NamedTuple):
    """A known array whose memory a tensor of the graph has, too."""

    array: Any
    contents: bytes
    fake: torch.Tensor
    version: int | None


class Arrays(ArrayMethods):
    """The arrays and numpy scalars of one trace."""

    def __init__(self, tensors: Any, world: World) -> None:
        super().__init__(tensors, world)
        self._shared: list[Shared] = []
        self._resolved: list[Any] = []
        self.types = _NOTHING
        if self.tables is not None:
            tables, special = self.tables, world.special
            self.types = tables.types
            special[id(tables.array)] = self._wrap_array
            special.update({id(cls): self._wrap_scalar for cls in tables.scalar_types})
            special.update({id(cls): self._wrap_dtype for cls in tables.dtype_types})
            special.update({id(cls): self._wrap_function for cls in tables.function_types})

    # ------------------------------------------------------------------ from the world

    def _wrap_function(self, raw: Any, source: Source) -> Any:
        self.world.guard(source, Is(raw))
        return self.world.know(raw)

    def _wrap_scalar(self, raw: Any, source: Source) -> Any:
        if type(raw) is self.numpy.bool_:
            self.world.guard(source, Is(raw))  # there are two of them
            return raw
        self.world.guard(source, TypeIs(type(raw)))
        self.world.guard(source, Callback(_same_scalar(raw), f"equal to {raw!r}"))
        return self.world.remember(raw, raw, source)

    def _wrap_dtype(self, raw: Any, source: Source) -> Any:
        if not self.is_plain_dtype(raw):
            return self.world.wrap_opaque(raw, source)
        self.world.guard(source, TypeIs(type(raw)))
        self.world.guard(source, Callback(_same_dtype(raw), f"equal to {raw!r}"))
        return self.world.remember(raw, raw, source)

    def _wrap_array(self, raw: Any, source: Source) -> Any:
        self.world.guard(source, TypeIs(type(raw)))
        self.world.opaque[id(raw)] = "numpy.ndarray"
        self.symbolic[id(raw)] = Symbolic(raw, None, None)
        return self.world.remember(raw, raw, source)

    # ------------------------------------------------------------------ calls

    def handles(self, callable: Any, args: list[Any]) -> bool:
        """Whether a callable is one of numpy's, or makes a number of an array."""
        tables = self.tables
        if tables is None:
            return False
        if id(callable) in _NUMBER_TYPES or id(callable) in _BUILTIN:
            return 0 < len(args) < 3 and self.holds(type(args[0]))
        if id(callable) in tables.pure or id(callable) in tables.constructors:
            return True
        if type(callable) is types.BuiltinFunctionType:
            owner = callable.__self__
            return tables.types.holds(type(owner)) or self._reduction(callable) is not None
        return tables.functions.holds(type(callable))

    def call(self, frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A numpy function, method or class is called."""
        tables = self.tables
        assert tables is not None
        if type(function) is types.BuiltinFunctionType:
            owner = function.__self__
            if tables.types.holds(type(owner)):
                return self._method(frame, owner, function.__name__, args, kwargs)
            reduced = self._reduction(function)
            if reduced is not None:
                return self._reduced(frame, reduced, function, args, kwargs)
        if id(function) in _BUILTIN and not kwargs:
            return self.operator(frame, _BUILTIN[id(function)], *args)
        name = tables.pure.get(id(function))
        known = id(function) in tables.constructors or id(function) in _NUMBER_TYPES
        if name is None and not known:
            text = getattr(function, "__name__", type(function).__qualname__)
            raise ArrayFunction(f"numpy's {text} is called: no table says that it is pure")
        if name in COPIES and self.has_symbols((args, kwargs)):
            return self.copy_into(frame, args, kwargs)
        if type(function) is self.numpy.ufunc and len(args) == function.nin + 1 and not kwargs:
            args, kwargs = args[:-1], {"out": args[-1]}
        if name in array_tables.CONVERTED:
            made = self._converted(frame, function, args, kwargs)
            if made is not MISSING:
                return made
        if not self.has_symbols((args, kwargs)):
            return self.native(function, args, kwargs)
        if id(function) in tables.about:
            used: list[Symbolic] = []
            models = self._mapped(args, used, lambda entry: entry.model, lambda value: value)
            return self.modelled(function, models, kwargs)
        if id(function) in _NUMBER_TYPES:
            return self.number_of_kind(frame, function, args)
        if function is self.numpy.empty_like:  # any values will do
            used = []
            models = self._mapped(args, used, lambda entry: entry.model, lambda value: value)
            return self.native(self.numpy.zeros_like, models, kwargs)
        if function is self.numpy.count_nonzero and len(args) == 1 and not kwargs:
            return self.counted(frame, args[0])
        if function is self.numpy.pad:
            return self.padded(frame, args, kwargs)
        name = tables.symbolic.get(id(function))
        if name is None:
            what = getattr(function, "__name__", "?")
            raise ArrayFunction(f"numpy's {what} is called on an array whose values are not known")
        if "out" in kwargs:
            return self.into(frame, name, function, args, kwargs)
        return self.record(frame, name, function, args, kwargs)

    def _reduction(self, method: Any) -> str | None:
        """The function that is a method of a ufunc: `np.add.reduce` is `np.sum`."""
        owner = method.__self__
        if type(owner) is not self.numpy.ufunc:
            return None
        return array_tables.REDUCED.get((owner.__name__, method.__name__))

    def _reduced(self, frame: Frame, name: str, method: Any, args: list[Any], kwargs: Any) -> Any:
        if not self.has_symbols((args, kwargs)):
            return self.native(method, args, kwargs)
        if len(args) > 1:
            raise ArrayFunction(f"the method {method.__name__} of a ufunc is called with options")
        return self.record(frame, name, method, args, {"axis": 0, **kwargs})

    def _converted(self, frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
        """An array made of an array or a tensor; MISSING if it is made of something else."""
        if not args or set(kwargs) - {"dtype", "copy"} or len(args) > 2:
            return MISSING
        given = args[0]
        if type(given) is FakeTensor:
            copies = function in (self.numpy.array, self.numpy.copy)
            if kwargs.get("copy", True if copies else None) is not None:
                raise ArrayFunction("numpy copies a tensor, and warns of that")
            given = self._array_of(frame, given)
        entry = self.entry(given)
        if entry is None or type(entry.model) is not type(self.numpy.ones(1)):
            return MISSING
        model = self.modelled(function, [entry.model, *args[1:]], kwargs)
        if model is entry.model:
            return entry.stand_in
        check_cast(entry.model.dtype, model.dtype)
        options = {"dtype": self.torch_dtype(model.dtype), "copy": True}
        if not same_strides(self.fake(entry), model):
            options["memory_format"] = torch.contiguous_format
        made = self.node(frame, ("method", "to"), (self.fake(entry),), options)
        return self.adopt(function.__name__, made, model, [entry])

    def native(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """numpy's own result on known values; a warning would be given only once, so it breaks."""
        try:
            with warnings.catch_warnings(), self.numpy.errstate(all="warn"):
                warnings.simplefilter("error")
                result = function(*args, **kwargs)
        except Warning as warning:
            raise ArrayFunction(f"numpy warns: {warning}") from None
        except Exception as error:
            raise_user(error)
        if self._check(result):
            self.lend_all((getattr(function, "__self__", None), *args, *kwargs.values()))
        return result

    def _check(self, result: Any) -> bool:
        """Whether there are arrays in it that may be views of others."""
        tables = self.tables
        assert tables is not None
        cls = type(result)
        if CONSTANTS.holds(cls) or tables.scalars.holds(cls) or tables.dtypes.holds(cls):
            return False
        if cls is tables.array:
            if result.dtype.hasobject:
                raise ArrayKind("an array of objects is made")
            return not result.flags.owndata
        if SEQUENCES.holds(cls) or isinstance(result, tuple):
            views = [self._check(item) for item in result]  # all are looked at
            return any(views)
        raise ArrayKind(f"numpy makes an object of type {cls.__qualname__}")

    def _method(
        self, frame: Frame, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        tables = self.tables
        assert tables is not None
        if tables.dtypes.holds(type(owner)):
            raise ArrayFunction(f"the method {name} of a dtype is called")
        symbolic = self.entry(owner) is not None
        if not self.has_symbols((args, kwargs)) and not symbolic:
            if name in array_tables.PURE_METHODS or name in array_tables.IN_PLACE_METHODS:
                return self.native(getattr(owner, name), args, kwargs)
            raise ArrayFunction(
                f"the method {name} of an array is called: no table says that it is pure"
            )
        if symbolic and name == "astype":
            return self.astype(frame, owner, args, kwargs)
        if symbolic and name in ("copy", "flatten") and not args and not kwargs:
            return self.copy(frame, owner, name)
        numbers = name in ("item", "tolist") and all(type(arg) is int for arg in args)
        if symbolic and numbers and len(args) < 2 and not kwargs:
            return self.listed(frame, owner, name, args)
        if symbolic and name in array_tables.IN_PLACE_METHODS:
            return self.change(frame, owner, name, args, kwargs)
        twin = array_tables.SYMBOLIC_METHODS.get(name)
        if twin == "conjugate" and symbolic and not args and not kwargs:
            entry = self.entry(owner)
            if entry is not None and self.modelled(getattr(entry.model, name), ()) is entry.model:
                return owner  # other than the function, the method makes no new array of real ones
        if twin is None or not symbolic:
            raise ArrayFunction(
                f"the method {name} of an array whose values are not known is called"
            )
        if name in ("reshape", "transpose") and len(args) > 1:
            args = [tuple(args)]
        given = [owner, *args]
        if "out" in kwargs:
            return self.into(frame, twin, getattr(self.numpy, twin), given, kwargs)
        return self.record(frame, twin, getattr(self.numpy, twin), given, kwargs)

    # ------------------------------------------------------------------ operators and items

    def operator(self, frame: Frame, function: Any, *operands: Any) -> Any:
        """An operator, one of `operator`'s functions; no operand is a tensor."""
        if not self.has_symbols(operands):
            return self.native(function, operands, {})
        if function in NOT_IN_PLACE:
            return self.operate_in_place(frame, function, *operands)
        name = OPERATORS.get(function)
        if name is None:
            what = getattr(function, "__name__", "?")
            raise ArrayFunction(f"no node does what the operator {what} does to an array")
        return self.record(frame, name, function, list(operands), {})

    def getitem(self, frame: Frame, obj: Any, key: Any) -> Any:
        entry = self.entry(obj)
        if entry is None:
            if self.has_symbols(key):
                raise ArrayFunction("an array is indexed with values that are not known")
            return self.native(operator.getitem, (obj, key), {})
        if is_open(key):
            model = self.modelled(operator.getitem, (entry.model, at_start(key)))
            with self.refusing():
                made = self.tensors.getitem(frame, self.fake(entry), key)
            if type(model) is not self.numpy.ndarray:
                made = self.node(frame, ("method", "clone"), (made,), {})
            return self.adopt("indexing", made, model, [entry])
        key = self.numbers(key)
        parts = key if type(key) is tuple else (key,)
        if not all(is_simple_key(part) for part in parts):
            return self._gathered(frame, entry, parts)
        model = self.modelled(operator.getitem, (entry.model, key))
        made = self.node(frame, operator.getitem, (self.fake(entry), key), {})
        if self.tables is not None and type(model) is not self.tables.array:
            made = self.node(frame, ("method", "clone"), (made,), {})
        return self.adopt("indexing", made, model, [entry])

    def _gathered(self, frame: Frame, entry: Symbolic, parts: tuple[Any, ...]) -> Any:
        """An array indexed with arrays of integers. Whether they are in range the kernel checks.

        A mask whose values are known is as good as the places that it selects; of others it is not
        known how many they are.
        """
        models: list[Any] = []
        given: list[Any] = []
        used = [entry]
        for part in parts:
            known = self.entry(part)
            plain = type(part) is list and part and {type(each) for each in part} in _INDICES
            index = self.numpy.asarray(part) if plain else part
            if is_simple_key(part):
                models.append(part)
                given.append(part)
            elif type(index) is self.numpy.ndarray and index.dtype.kind == "b" and index.ndim:
                if known is not None:
                    raise ArrayFunction("how many items a mask selects depends on the values")
                models.append(index)
                given += (self.constant(each.copy()) for each in self.numpy.nonzero(index))
            elif type(index) is self.numpy.ndarray and index.dtype.kind == "i" and index.ndim:
                symbolic = known is not None
                models.append(self.numpy.zeros(index.shape, index.dtype) if symbolic else index)
                given.append(self.fake(known) if known is not None else self.constant(index))
            else:
                raise ArrayFunction(
                    "an array whose values are not known is indexed with more than slices"
                )
            if known is not None:
                used.append(known)
        if any(type(part) is slice and (part.step or 1) < 0 for part in parts):
            raise ArrayFunction("an array is indexed with arrays and a negative step")
        model = self.modelled(operator.getitem, (entry.model, tuple(models)))
        made = self.node(frame, operator.getitem, (self.fake(entry), tuple(given)), {})
        return self.adopt("indexing", made, model, used)

    def iter(self, frame: Frame, obj: Any) -> Any:
        entry = self.entry(obj)
        if entry is None:
            self.lend(obj)
            return core.iter(frame, obj)
        count = self.modelled(len, (entry.model,))
        return iter([self.getitem(frame, obj, index) for index in range(count)])

    def length(self, value: Any) -> int | None:
        """How long a symbolic array is; None of others."""
        entry = self.entry(value)
        if entry is None:
            return None
        length: int = self.modelled(len, (entry.model,))
        return length

    def getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        entry = self.entry(obj)
        if name in array_tables.METADATA:
            return getattr(obj if entry is None else entry.model, name)
        if entry is not None and name == "T":
            return self.record(frame, "transpose", self.numpy.transpose, [obj], {})
        tables = self.tables
        assert tables is not None
        if entry is not None and name in ("real", "imag") and entry.model.dtype.kind == "c":
            return self.record(frame, name, getattr(self.numpy, name), [obj], {})
        if name in array_tables.PARTS and entry is None:
            return self.native(getattr, (obj, name), {})
        pure = name in array_tables.PURE_METHODS or name in array_tables.IN_PLACE_METHODS
        if pure or not hasattr(type(obj), name):
            return core.getattr(frame, obj, name)
        if entry is None and type(obj) is not tables.array and name.startswith("__"):
            return core.getattr(frame, obj, name)
        raise ArrayFunction(f"the attribute {name} of a numpy {type(obj).__name__} is read")

    # ------------------------------------------------------------------ tensors and arrays

    def torch_call(self, frame: Frame | None, function: Any, args: list[Any], kwargs: Any) -> Any:
        """A torch function that converts arrays; MISSING if this is none."""
        if self.tables is None:
            return MISSING
        kind = _CONVERSIONS.get(id(function))
        if kind is not None and len(args) == 1:
            return self._to_tensor(frame, kind, args[0], kwargs)
        if type(function) is not types.BuiltinFunctionType or function.__name__ != "numpy":
            return MISSING
        if type(function.__self__) is not FakeTensor:
            return MISSING
        if args or kwargs:
            raise ArrayFunction("Tensor.numpy is called with arguments")
        return self._array_of(frame, function.__self__)

    def _to_tensor(self, frame: Frame | None, kind: str, value: Any, kwargs: Any) -> Any:
        tables = self.tables
        assert tables is not None
        cls = type(value)
        entry = self.entry(value)
        scalar = tables.scalars.holds(cls)
        if entry is None and cls is not tables.array and not scalar:
            return MISSING
        device = _device(kwargs.get("device"))
        if set(kwargs) - {"dtype", "device"} or device.type != "cpu":
            raise ArrayFunction("an array is made into a tensor with options, or on a device")
        if scalar and kind == "from_numpy":
            return MISSING
        dtype = kwargs.get("dtype") or self.torch_dtype(value.dtype)
        own = self.torch_dtype(value.dtype)
        copies = kind == "tensor" or scalar
        if entry is not None:
            fake = self.fake(entry)
        elif copies or dtype is not own:
            fake = self.constant(value)
        else:
            fake = self._share(value)
        if copies or dtype is not own:
            return self.tensors.record(frame, ("method", "to"), (fake, dtype), {"copy": True})
        # A tensor of its own, on the same memory.
        return self.tensors.record(frame, ("method", "detach"), (fake,))

    def _share(self, value: Any) -> torch.Tensor:
        """A tensor on the memory of a known array: neither may be changed afterwards."""
        for shared in self._shared:
            if shared.array is value:
                return shared.fake
            if self.numpy.may_share_memory(shared.array, value):
                raise ArrayChanged("tensors are made from arrays that share memory")
        if not value.flags.writeable:
            raise ArrayKind("a read-only array is made into a tensor, of which torch warns")
        self.lend(value)
        fake = self.constant(value)
        with DisableTorchFunction():
            self._shared.append(Shared(value, value.tobytes(), fake, version(fake)))
        return fake

    def _array_of(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        """The array on a tensor's memory."""
        self.tensors.grads.asked()  # of a tensor that requires grad there is none
        with DisableTorchFunction():
            shape = self.tensors.shapes.plain(frame, tuple(tensor.shape))
            plain = (
                tensor.device.type == "cpu"
                and tensor.layout is torch.strided
                and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
                and all(type(size) is int for size in shape)
            )
            name = str(tensor.dtype).removeprefix("torch.")
            if not plain or DTYPES.get(name) is not tensor.dtype:
                raise ArrayChanged("a tensor is made into an array that needs more than its memory")
            dtype = self.numpy.dtype(name)
            steps = self.tensors.shapes.plain(frame, tensor.stride())
            model = self.model(shape, dtype, [step * dtype.itemsize for step in steps])
        return self.add(model, self.tensors.record(frame, ("method", "detach"), (tensor,)))

    def number(self, frame: Frame | None, value: Any) -> Any:
        """A symbolic scalar as the number that torch takes it for; anything else as it is."""
        if not self.is_symbolic(value) or not self.is_number(type(value)):
            return value
        entry = self.entry(value)
        assert entry is not None
        return self.tensors.scalars.item(frame, self.fake(entry))

    def is_number(self, cls: type) -> bool:
        return self.tables is not None and self.tables.numbers.holds(cls)

    def numbers(self, value: Any, function: Any = None) -> Any:
        """Arguments of a torch function with numpy's numbers replaced by Python's."""
        tables = self.tables
        cls = type(value)
        if tables is None or CONSTANTS.holds(cls):
            return value
        if cls is list or cls is tuple:
            items = [self.numbers(item, function) for item in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else cls(items)
        if cls is dict:
            return {key: self.numbers(item, function) for key, item in value.items()}
        if cls is slice:
            parts = (value.start, value.stop, value.step)
            return slice(*(self.numbers(part, function) for part in parts))
        if tables.scalars.holds(cls):
            if not tables.numbers.holds(cls):
                raise ArrayFunction(f"a torch function is given a numpy {cls.__qualname__}")
            if id(function) in _CONVERSIONS or function == _NEW_TENSOR:
                raise ArrayFunction(
                    "a tensor is made from several numpy scalars, which say its dtype"
                )
            return self.number(None, value) if id(value) in self.symbolic else value.item()
        return value

    # ------------------------------------------------------------------ the end of the trace

    def output(self, value: Any) -> torch.Tensor | None:
        """The tensor that a symbolic value is made from again; None if it is known or given."""
        entry = self.symbolic.get(id(value))
        if entry is None or id(value) in self.world.origins:
            return None
        return entry.fake

    def is_scalar(self, value: Any) -> bool:
        return self.tables is not None and self.tables.scalars.holds(type(value))

    def is_dtype(self, cls: type) -> bool:
        return self.tables is not None and self.tables.dtypes.holds(cls)

    def trouble(self, value: Any) -> str | None:
        """Why a known array can't be made again by copying it."""
        if self.tables is None or type(value) is not self.tables.array:
            return None
        others = [*self._resolved, *(shared.array for shared in self._shared)]
        self._resolved.append(value)
        for other in others:
            if other is not value and self.numpy.may_share_memory(other, value):
                return "an array that shares memory with another array or tensor"
        if any(shared.array is value for shared in self._shared):
            return "an array that shares memory with a tensor"
        return None

    def check_end(self) -> None:
        """Memory that is held twice must not have been changed on either side."""
        with DisableTorchFunction():
            for shared in self._shared:
                if shared.array.tobytes() != shared.contents:
                    raise ArrayChanged(
                        "an array is changed after a tensor was made from it", _COPY_HINT
                    )
                if version(shared.fake) != shared.version:
                    raise ArrayChanged(
                        "a tensor that was made from an array is changed", _COPY_HINT
                    )
            self._check_apart()

    def _check_apart(self) -> None:
        """A graph that changes inputs: no array may have memory that another of them has, too."""
        given = [each.real for each in self.tensors.graph.fakes.inputs]
        if not self.inputs or len(given) < 2:
            return
        written = self.tensors.graph.overwritten
        changed = [
            each.real
            for each in self.tensors.graph.fakes.inputs
            if not each.untouched() or storage_of(each.fake) in written
        ]
        if not changed:
            return
        rest = [each for each in given if not any(each is one for one in changed)]
        if any(each.layout is not torch.strided for each in given):
            raise ArrayChanged("an input is changed in place, and another one is a numpy array")
        if any(id(each) in self.inputs for each in given) and not apart_in_memory(
            len(changed), *changed, *rest
        ):
            raise ArrayChanged("an array has the memory of another input, and one of them changes")


def _device(wanted: Any) -> torch.device:
    """Where a tensor is to be made."""
    if wanted is None:
        return torch.get_default_device()
    if type(wanted) is torch.device:
        return wanted
    if type(wanted) is str and wanted == "cpu":
        return torch.device("cpu")
    raise ArrayFunction("an array is made into a tensor on a device")


def _same_dtype(dtype: Any) -> Callable[[Any], bool]:
    return lambda value: value == dtype and value.isbuiltin == 1 and value.isnative


def _same_scalar(scalar: Any) -> Callable[[Any], bool]:
    dtype, data = scalar.dtype, scalar.tobytes()
    return lambda value: value.dtype == dtype and value.tobytes() == data
