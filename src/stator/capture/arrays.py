"""numpy in a trace: scalars, arrays made in the call, arrays of the world, arrays of tensors.

In: operations that involve numpy. Out: results, graph nodes, or a `Break`.

There are two kinds of arrays and scalars. What the program makes from constants is *known*: a real
array, on which numpy runs for real while tracing. What comes from the world or from a tensor is
*symbolic*: its values are those of a fake tensor, and an operation on it becomes a node of torch's
numpy layer. numpy itself runs on a model of it, an array of ones of the same layout, which tells
type and shape of the result and raises numpy's own errors; where torch's layer differs from it, the
trace ends. Stand-ins of symbolic values are opaque to the rest of the tracer: C code never sees
them.
"""

import operator
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture import array_tables
from stator.capture.breaks import Break
from stator.contracts import Depth
from stator.graph import Unsupported
from stator.graph.arrays import numpy_function
from stator.graph.fakes import version
from stator.guards import Callback, Is, Source, TypeIs
from stator.objects import TypeSet
from stator.world import World
from stator.world.world import CONSTANTS

MISSING: Final = object()
_NOTHING: Final = TypeSet()
_SEQUENCES: Final = TypeSet(list, tuple, torch.Size)
_TYPES: Final = TypeSet(bool, int, float, complex, str, bytes)
_SIMPLE_KEYS: Final = TypeSet(int, type(None), type(Ellipsis))
_OPERATORS: Final = {
    getattr(operator, name): function for name, function in array_tables.OPERATORS.items()
}
_CONVERSIONS: Final = {
    id(torch.from_numpy): "from_numpy",
    id(torch.as_tensor): "as_tensor",
    id(torch.asarray): "as_tensor",
    id(torch.tensor): "tensor",
}
_INFERRING: Final = frozenset({*_CONVERSIONS, id(torch.Tensor.new_tensor)})
_COPY_HINT: Final = "return a copy of the array, or make the array before the compiled function"


class Symbolic:
    """An array or numpy scalar whose values are those of a tensor in the graph."""

    __slots__ = ("fake", "model", "stand_in")

    def __init__(self, stand_in: Any, model: Any, fake: torch.Tensor | None) -> None:
        self.stand_in = stand_in
        self.model = model
        self.fake = fake  # None: an array of the world that no operation has needed yet


class Shared(NamedTuple):
    """A known array whose memory a tensor of the graph has, too."""

    array: Any
    contents: bytes
    fake: torch.Tensor
    version: int | None


class Arrays:
    """The arrays and numpy scalars of one trace."""

    def __init__(self, tensors: Any, world: World) -> None:
        self.tensors = tensors
        self.world = world
        self.symbolic: dict[int, Symbolic] = {}  # by id of the stand-in
        self.inputs: set[int] = set()  # ids of graph inputs that are arrays
        self._shared: list[Shared] = []
        self._resolved: list[Any] = []
        self.numpy: Any = sys.modules.get("numpy")  # only a program that loaded it can use it
        self.tables: array_tables.Tables | None = None
        self.types = _NOTHING
        if hasattr(self.numpy, "_core"):
            self.tables = tables = array_tables.tables(self.numpy)
            self.types = tables.types
            world.special[id(tables.array)] = self._wrap_array
            world.special.update({id(cls): self._wrap_scalar for cls in tables.scalar_types})
            world.special.update({id(cls): self._wrap_dtype for cls in tables.dtype_types})
            world.special.update({id(cls): self._wrap_function for cls in tables.function_types})

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
        if not self._is_plain_dtype(raw):
            return self.world._wrap_opaque(raw, source)
        self.world.guard(source, TypeIs(type(raw)))
        self.world.guard(source, Callback(_same_dtype(raw), f"equal to {raw!r}"))
        return self.world.remember(raw, raw, source)

    def _wrap_array(self, raw: Any, source: Source) -> Any:
        self.world.guard(source, TypeIs(type(raw)))
        self.world.opaque[id(raw)] = "numpy.ndarray"
        self.symbolic[id(raw)] = Symbolic(raw, None, None)
        return self.world.remember(raw, raw, source)

    def _entry(self, value: Any) -> Symbolic | None:
        """The entry of a symbolic value; an array of the world is looked at for the first time."""
        found = self.symbolic.get(id(value))
        if found is not None and found.model is None:
            if not self._is_plain_dtype(value.dtype):
                raise Break(f"an array of dtype {value.dtype} existed before the call")
            source = self.world.origins[id(value)]
            self.world.guard(source, Callback(_same_layout(value), _layout(value)))
            found.model = self._model(value.shape, value.dtype, value.strides)
        return found

    def _fake(self, entry: Symbolic) -> torch.Tensor:
        """The tensor in the graph; an array of the world becomes an input."""
        if entry.fake is None:
            raw = entry.stand_in
            source = self.world.origins[id(raw)]
            self._torch_dtype(raw.dtype)
            if not raw.flags.writeable:
                raise Break("a read-only array is made into a tensor, of which torch warns")
            with torch._C.DisableTorchFunction():
                try:
                    tensor = torch.from_numpy(raw)
                    entry.fake = self.tensors.graph.add_input(str(source), tensor)
                except (ValueError, TypeError, Unsupported) as error:
                    raise Break(f"an array can't be made into a tensor: {error}") from None
            self.tensors.sources[id(tensor)] = source
            self.inputs.add(id(tensor))
            self.world.keep(tensor)
        assert entry.fake is not None
        return entry.fake

    def _model(self, shape: Any, dtype: Any, strides: Any) -> Any:
        """An array of ones with this layout."""
        if any(stride < 0 for stride in strides):
            raise Break("an array has negative strides, which tensors don't have")
        reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
        size = (sum(reach) // dtype.itemsize + 1) if 0 not in shape else 1
        memory = self.numpy.ones(size, dtype)
        return self.numpy.ndarray(shape, dtype, memory, 0, strides)

    def _is_plain_dtype(self, dtype: Any) -> bool:
        return dtype.isbuiltin == 1 and dtype.isnative and not dtype.hasobject

    def _torch_dtype(self, dtype: Any) -> torch.dtype:
        found = _DTYPES.get(dtype.name)
        if found is None:
            raise Break(f"tensors have no dtype like numpy's {dtype.name}")
        return found

    # ------------------------------------------------------------------ what they are

    def holds(self, cls: type) -> bool:
        """Whether operators on objects of this type are for this class to carry out."""
        tables = self.tables
        return tables is not None and (cls is tables.array or tables.scalars.holds(cls))

    def is_number(self, cls: type) -> bool:
        return self.tables is not None and self.tables.numbers.holds(cls)

    def is_symbolic(self, value: Any) -> bool:
        return id(value) in self.symbolic

    def handles(self, callable: Any) -> bool:
        """Whether a callable is one of numpy's."""
        tables = self.tables
        if tables is None:
            return False
        if id(callable) in tables.pure or id(callable) in tables.constructors:
            return True
        if type(callable) is types.BuiltinFunctionType:
            return tables.types.holds(type(callable.__self__))
        return tables.functions.holds(type(callable))

    def _has_symbols(self, value: Any) -> bool:
        """Whether there is a symbolic value in the arguments; refuses what numpy can't be given."""
        tables = self.tables
        assert tables is not None
        cls = type(value)
        if id(value) in self.symbolic:
            return True
        if CONSTANTS.holds(cls) or tables.scalars.holds(cls) or cls is tables.array:
            return False
        if _SEQUENCES.holds(cls):
            self.tensors.ready(value, Depth.SHALLOW)
            return any([self._has_symbols(item) for item in value])
        if cls is dict:
            self.tensors.ready(value, Depth.SHALLOW)
            return any([self._has_symbols(item) for item in value.values()])
        if cls is slice:
            return self._has_symbols((value.start, value.stop, value.step))
        if tables.dtypes.holds(cls):
            return False
        if array_tables.is_type(value) and (
            _TYPES.holds(value) or id(value) in tables.constructors
        ):
            return False
        raise Break(f"numpy is given an object of type {cls.__qualname__}")

    # ------------------------------------------------------------------ calls

    def call(self, frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A numpy function, method or class is called."""
        tables = self.tables
        assert tables is not None
        if type(function) is types.BuiltinFunctionType:
            owner = function.__self__
            if tables.types.holds(type(owner)):
                return self._method(frame, owner, function.__name__, args, kwargs)
        name = tables.pure.get(id(function))
        if name is None and id(function) not in tables.constructors:
            text = getattr(function, "__name__", type(function).__qualname__)
            raise Break(f"numpy's {text} is called: no table says that it is pure")
        if name == "asarray" and len(args) == 1 and not kwargs and type(args[0]) is FakeTensor:
            return self._array_of(frame, args[0])
        if not self._has_symbols((args, kwargs)):
            return self.native(function, args, kwargs)
        name = tables.symbolic.get(id(function))
        if name is None:
            what = getattr(function, "__name__", "?")
            raise Break(f"numpy's {what} is called on an array whose values are not known")
        return self._record(frame, name, function, args, kwargs)

    def native(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """numpy's own result on known values; a warning would be given only once, so it breaks."""
        try:
            with warnings.catch_warnings(), self.numpy.errstate(all="warn"):
                warnings.simplefilter("error")
                result = function(*args, **kwargs)
        except Warning as warning:
            raise Break(f"numpy warns: {warning}") from None
        except Exception as error:
            _raise(error)
        self._check(result)
        return result

    def _check(self, result: Any) -> None:
        tables = self.tables
        assert tables is not None
        cls = type(result)
        if CONSTANTS.holds(cls) or tables.scalars.holds(cls) or tables.dtypes.holds(cls):
            return
        if cls is tables.array:
            if result.dtype.hasobject:
                raise Break("an array of objects is made")
        elif _SEQUENCES.holds(cls) or isinstance(result, tuple):
            for item in result:
                self._check(item)
        else:
            raise Break(f"numpy makes an object of type {cls.__qualname__}")

    def _method(
        self, frame: Frame, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        tables = self.tables
        assert tables is not None
        if tables.dtypes.holds(type(owner)):
            raise Break(f"the method {name} of a dtype is called")
        symbolic = self._entry(owner) is not None
        if not self._has_symbols((args, kwargs)) and not symbolic:
            if name in array_tables.PURE_METHODS or name in array_tables.IN_PLACE_METHODS:
                return self.native(getattr(owner, name), args, kwargs)
            raise Break(f"the method {name} of an array is called: no table says that it is pure")
        if symbolic and name == "astype":
            return self._astype(frame, owner, args, kwargs)
        if symbolic and name == "copy" and not args and not kwargs:
            return self._copy(frame, owner)
        twin = array_tables.SYMBOLIC_METHODS.get(name)
        if twin is None or not symbolic:
            raise Break(f"the method {name} of an array whose values are not known is called")
        if name in ("reshape", "transpose") and len(args) > 1:
            args = [tuple(args)]
        return self._record(frame, twin, getattr(self.numpy, twin), [owner, *args], kwargs)

    def _astype(self, frame: Frame, owner: Any, args: list[Any], kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            raise Break("astype is called with more than a dtype")
        entry = self._entry(owner)
        assert entry is not None
        model = self._modelled(lambda array, dtype: array.astype(dtype), [entry.model, args[0]])
        wanted = self._torch_dtype(model.dtype)
        if model.dtype.kind in "iub" and entry.model.dtype.kind == "f":
            raise Break("floats in an array are made into integers, which not all fit")
        made = self.tensors.record(
            frame, ("method", "to"), (self._fake(entry), wanted), {"copy": True}
        )
        return self._adopt("astype", made, model, [entry])

    def _copy(self, frame: Frame, owner: Any) -> Any:
        entry = self._entry(owner)
        assert entry is not None
        form = {"memory_format": torch.contiguous_format}
        made = self.tensors.record(frame, ("method", "clone"), (self._fake(entry),), form)
        return self._adopt("copy", made, entry.model.copy(), [entry])

    # ------------------------------------------------------------------ symbolic operations

    def _record(
        self,
        frame: Frame,
        name: str,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """A node of torch's numpy layer, checked against numpy on models."""
        if unknown := set(kwargs) - array_tables.KEYWORDS:
            raise Break(f"numpy's {name} is called with {', '.join(sorted(unknown))}")
        used: list[Symbolic] = []
        models = self._mapped(args, used, lambda entry: entry.model, lambda value: value)
        model = self._modelled(function, models, kwargs)
        self._check_total(name, args, model)
        given = self._mapped(args, used, self._fake, self._argument)
        options = {key: self._argument(value) for key, value in kwargs.items()}
        made = self.tensors.record(frame, numpy_function(name), given, options)
        return self._adopt(name, made, model, used)

    def _check_total(self, name: str, args: list[Any], model: Any) -> None:
        """What an integer operation does for some operands differs, or is an error."""
        if name in array_tables.PARTIAL and model.dtype.kind in "iub":
            second = args[1] if len(args) > 1 else 0
            if type(second) is not int or not 0 < second < 8:
                raise Break(f"{name} of integers that may differ between numpy and torch")

    def _mapped(
        self,
        value: Any,
        used: list[Symbolic],
        symbolic: Callable[[Symbolic], Any],
        other: Callable[[Any], Any],
    ) -> Any:
        """The arguments with each symbolic value, and each other one, replaced."""
        entry = self._entry(value)
        if entry is not None:
            if not any(entry is known for known in used):
                used.append(entry)
            return symbolic(entry)
        if _SEQUENCES.holds(type(value)):
            items = [self._mapped(item, used, symbolic, other) for item in value]
            return items if type(value) is list else tuple(items)
        return other(value)

    def _argument(self, value: Any) -> Any:
        """A known value as an argument of torch's numpy layer."""
        tables = self.tables
        assert tables is not None
        cls = type(value)
        if cls is tables.array or tables.scalars.holds(cls):
            self._torch_dtype(value.dtype)
            return self._constant(value)
        if tables.dtypes.holds(cls) or array_tables.is_type(value):
            return self._torch_dtype(self.numpy.dtype(value)) and self.numpy.dtype(value).name
        return value

    def _modelled(self, function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        """What numpy makes of models; its warnings are about values, and these are not real."""
        try:
            with warnings.catch_warnings(), self.numpy.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return function(*args, **(kwargs or {}))
        except Exception as error:
            _raise(error)

    def _adopt(self, name: str, made: Any, model: Any, used: list[Symbolic]) -> Any:
        """The stand-in for a result: a model of it, whose values are those of a fake tensor."""
        tables = self.tables
        assert tables is not None
        if type(made) is not FakeTensor or not self.holds(type(model)):
            raise Break(f"numpy's {name} makes more than one array, or none")
        for entry in used:
            if model is entry.model:
                return entry.stand_in
        if type(model) is self.numpy.bool_:
            raise Break(f"the truth of numpy's {name} depends on the values of an array")
        with torch._C.DisableTorchFunction():
            same = made.dtype is self._torch_dtype(model.dtype) and made.shape == model.shape
            if same and type(model) is tables.array and model.size:
                same = _same_strides(made, model)
                same = same and all(
                    self.numpy.may_share_memory(model, entry.model)
                    == (entry.fake is not None and _memory(entry.fake) == _memory(made))
                    for entry in used
                )
        if not same:
            raise Break(f"numpy's {name} gives an array of another kind than torch's here")
        return self._add(model, made)

    def _add(self, model: Any, fake: torch.Tensor) -> Any:
        self.symbolic[id(model)] = Symbolic(model, model, fake)
        self.world.opaque[id(model)] = f"numpy.{type(model).__name__}"
        self.world.keep(model)
        return model

    # ------------------------------------------------------------------ operators and items

    def operator(self, frame: Frame, function: Any, *operands: Any) -> Any:
        """An operator, one of `operator`'s functions; no operand is a tensor."""
        if not self._has_symbols(operands):
            return self.native(function, operands, {})
        name = _OPERATORS.get(function)
        if name is None:
            raise Break("an array whose values are not known is changed in place")
        return self._record(frame, name, function, list(operands), {})

    def getitem(self, frame: Frame, obj: Any, key: Any) -> Any:
        entry = self._entry(obj)
        if entry is None:
            if self._has_symbols(key):
                raise Break("an array is indexed with values that are not known")
            return self.native(operator.getitem, (obj, key), {})
        key = self.numbers(key)
        parts = key if type(key) is tuple else (key,)
        if not all(_is_simple_key(part) for part in parts):
            raise Break("an array whose values are not known is indexed with more than slices")
        model = self._modelled(operator.getitem, (entry.model, key))
        made = self.tensors.record(frame, operator.getitem, (self._fake(entry), key))
        if self.tables is not None and type(model) is not self.tables.array:
            made = self.tensors.record(frame, ("method", "clone"), (made,))
        return self._adopt("indexing", made, model, [entry])

    def setitem(self, frame: Frame, obj: Any, key: Any, value: Any) -> None:
        if self._has_symbols((obj, key, value)):
            raise Break("an array is changed in place, and values in it are not known")
        self.native(operator.setitem, (obj, key, value), {})

    def iter(self, frame: Frame, obj: Any) -> Any:
        entry = self._entry(obj)
        if entry is None:
            return core.iter(frame, obj)
        count = self._modelled(len, (entry.model,))
        return iter([self.getitem(frame, obj, index) for index in range(count)])

    def length(self, value: Any) -> int | None:
        """How long a symbolic array is; None of others."""
        entry = self._entry(value)
        if entry is None:
            return None
        length: int = self._modelled(len, (entry.model,))
        return length

    def getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        entry = self._entry(obj)
        if name in array_tables.METADATA:
            return getattr(obj if entry is None else entry.model, name)
        if entry is not None and name == "T":
            return self._record(frame, "transpose", self.numpy.transpose, [obj], {})
        tables = self.tables
        assert tables is not None
        if name in array_tables.PARTS and entry is None:
            return self.native(getattr, (obj, name), {})
        pure = name in array_tables.PURE_METHODS or name in array_tables.IN_PLACE_METHODS
        if pure or not hasattr(type(obj), name):
            return core.getattr(frame, obj, name)
        if entry is None and type(obj) is not tables.array and name.startswith("__"):
            return core.getattr(frame, obj, name)
        raise Break(f"the attribute {name} of a numpy {type(obj).__name__} is read")

    # ------------------------------------------------------------------ tensors and arrays

    def torch_call(self, frame: Frame | None, function: Any, args: list[Any], kwargs: Any) -> Any:
        """A torch function that converts arrays; MISSING if this is none."""
        if self.tables is None:
            return MISSING
        kind = _CONVERSIONS.get(id(function))
        if kind is not None and len(args) == 1:
            return self._to_tensor(frame, kind, args[0], kwargs)
        if type(function) is types.BuiltinFunctionType:
            if function.__name__ == "numpy" and type(function.__self__) is FakeTensor:
                if args or kwargs:
                    raise Break("Tensor.numpy is called with arguments")
                return self._array_of(frame, function.__self__)
        return MISSING

    def _to_tensor(self, frame: Frame | None, kind: str, value: Any, kwargs: Any) -> Any:
        tables = self.tables
        assert tables is not None
        cls = type(value)
        entry = self._entry(value)
        scalar = tables.scalars.holds(cls)
        if entry is None and cls is not tables.array and not scalar:
            return MISSING
        if set(kwargs) - {"dtype"} or torch.get_default_device().type != "cpu":
            raise Break("an array is made into a tensor with more than a dtype")
        if scalar and kind == "from_numpy":
            return MISSING
        dtype = kwargs.get("dtype") or self._torch_dtype(value.dtype)
        own = self._torch_dtype(value.dtype)
        copies = kind == "tensor" or scalar
        if entry is not None:
            fake = self._fake(entry)
        elif copies or dtype is not own:
            fake = self._constant(value)
        else:
            fake = self._share(value)
        if copies or dtype is not own:
            return self.tensors.record(frame, ("method", "to"), (fake, dtype), {"copy": True})
        # A tensor of its own, on the same memory.
        return self.tensors.record(frame, ("method", "detach"), (fake,))

    def _constant(self, value: Any) -> torch.Tensor:
        known = self.numpy.asarray(value)
        if any(stride < 0 for stride in known.strides):
            raise Break("an array has negative strides, which tensors don't have")
        with torch._C.DisableTorchFunction():
            fake: torch.Tensor = self.tensors.graph.constant(torch.tensor(known))
            if not _same_strides(fake, known):
                raise Break("an array with gaps in memory is made into a tensor")
        return fake

    def _share(self, value: Any) -> torch.Tensor:
        """A tensor on the memory of a known array: neither may be changed afterwards."""
        for shared in self._shared:
            if shared.array is value:
                return shared.fake
            if self.numpy.may_share_memory(shared.array, value):
                raise Break("tensors are made from arrays that share memory")
        if not value.flags.writeable:
            raise Break("a read-only array is made into a tensor, of which torch warns")
        fake = self._constant(value)
        with torch._C.DisableTorchFunction():
            self._shared.append(Shared(value, value.tobytes(), fake, version(fake)))
        return fake

    def _array_of(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        """The array on a tensor's memory."""
        with torch._C.DisableTorchFunction():
            plain = (
                tensor.device.type == "cpu"
                and tensor.layout is torch.strided
                and not (tensor.requires_grad or tensor.is_conj() or tensor.is_neg())
                and all(type(size) is int for size in tensor.shape)
            )
            name = str(tensor.dtype).removeprefix("torch.")
            if not plain or _DTYPES.get(name) is not tensor.dtype:
                raise Break("a tensor is made into an array that needs more than its memory")
            dtype = self.numpy.dtype(name)
            strides = [step * dtype.itemsize for step in tensor.stride()]
            model = self._model(tuple(tensor.shape), dtype, strides)
        return self._add(model, self.tensors.record(frame, ("method", "detach"), (tensor,)))

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
            if id(value) in self.symbolic or not tables.numbers.holds(cls):
                raise Break(f"a torch function is given a numpy {cls.__qualname__}")
            if id(function) in _INFERRING:
                raise Break("a tensor is made from several numpy scalars, which say its dtype")
            return value.item()
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
        with torch._C.DisableTorchFunction():
            for shared in self._shared:
                if shared.array.tobytes() != shared.contents:
                    raise Break("an array is changed after a tensor was made from it", _COPY_HINT)
                if version(shared.fake) != shared.version:
                    raise Break("a tensor that was made from an array is changed", _COPY_HINT)
            given = self.tensors.graph.fakes.inputs
            if self.inputs and len(given) > 1 and not all(made.untouched() for made in given):
                # Which other input has the same memory, no guard of ours could tell.
                raise Break("an input is changed in place, and another one is a numpy array")


_DTYPES: Final = {
    name: getattr(torch, name)
    for name in "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
}


def _raise(error: BaseException) -> Any:
    """numpy's own exception, as if the program's operation had raised it."""
    error.__context__ = error.__cause__ = error.__traceback__ = None
    error.__suppress_context__ = False
    core.raise_user(error)


def _is_simple_key(key: Any) -> bool:
    if type(key) is slice:
        step = key.step
        whole = all(_SIMPLE_KEYS.holds(type(part)) for part in (key.start, key.stop, step))
        return whole and (step is None or step > 0)
    return _SIMPLE_KEYS.holds(type(key))


def _memory(fake: torch.Tensor) -> int:
    return fake.untyped_storage()._cdata


def _same_strides(fake: torch.Tensor, array: Any) -> bool:
    """Strides of dimensions in which there is a step to take."""
    steps = zip(array.shape, fake.stride(), array.strides, strict=True)
    return all(n < 2 or ours * array.itemsize == theirs for n, ours, theirs in steps)


def _layout(array: Any) -> str:
    return f"an array of {array.dtype} with shape {array.shape} and strides {array.strides}"


def _same_layout(array: Any) -> Callable[[Any], bool]:
    dtype, shape, strides = array.dtype, array.shape, array.strides
    writeable = array.flags.writeable
    return lambda value: (
        value.shape == shape
        and value.dtype == dtype
        and value.strides == strides
        and value.flags.writeable is writeable
    )


def _same_dtype(dtype: Any) -> Callable[[Any], bool]:
    return lambda value: value == dtype and value.isbuiltin == 1 and value.isnative


def _same_scalar(scalar: Any) -> Callable[[Any], bool]:
    dtype, data = scalar.dtype, scalar.tobytes()
    return lambda value: value.dtype == dtype and value.tobytes() == data
