"""Arrays that are changed in place: items, `+=`, `out=`, `sort`, `fill`.

In: a change of an array of which values are not known, before it or behind it. Out: nodes that
change the tensor that stands for the array, or a `Break`.

An array is a piece of memory that others may see: views of it, the tensor whose memory it is, the
caller. In a trace all these are fake tensors of one storage, so that a node that changes one of
them in place changes all, and what is given by the world is changed by the graph itself. numpy
carries out the change on models first: errors, casts that are refused and shapes are its own.

A *known* array becomes symbolic when something is written into it that is not known. It must not
have been handed to C code, nor have views: these would not learn of it.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from stator._native._core import Frame
from stator.capture.arrays.array_nodes import OPERATORS, SEQUENCES, ArrayNodes, Symbolic
from stator.capture.calls.operators import NOT_IN_PLACE
from stator.diagnostics.catalogue import ArrayChanged, ArrayFunction
from stator.graph.fakes.memory import storage_of
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

_SIMPLE_KEYS: Final = TypeSet(int, type(None), type(Ellipsis))
# Arrays that hold any number of a kind, as it is or rounded once.
_HOLDERS: Final = {
    torch.SymInt: ("int64", "float64"),
    torch.SymFloat: ("float64", "float32"),
    torch.SymBool: ("bool",),
}
# Functions that write into their first argument what is in the second.
COPIES: Final = frozenset({"copyto"})


class ArrayChanges(ArrayNodes):
    """The part of `Arrays` that changes them."""

    native: Callable[..., Any]  # numpy's own, on known values
    numbers: Callable[..., Any]  # arguments with Python's numbers for numpy's
    operator: Callable[..., Any]

    def __init__(self, tensors: Any, world: Any) -> None:
        super().__init__(tensors, world)
        self._lent: dict[int, Any] = {}  # known arrays that C code has, or whose memory others have

    def lend(self, value: Any) -> None:
        """C code looks at a known array, and may keep views of it."""
        if self.tables is not None and type(value) is self.tables.array:
            self._lent[id(value)] = value

    def lend_all(self, value: Any) -> None:
        """The same for all arrays among some arguments."""
        if SEQUENCES.holds(type(value)):
            for item in value:
                self.lend_all(item)
        else:
            self.lend(value)

    # ------------------------------------------------------------------ what a program does

    def setitem(self, frame: Frame, obj: Any, key: Any, value: Any) -> None:
        """`a[key] = value`."""
        number = self.tensors.is_symbol(value)
        if not number and not is_open(key) and not self.has_symbols((obj, key, value)):
            self.native(operator.setitem, (obj, key, value), {})
            return
        if not is_open(key):
            self.has_symbols((obj, key))
            key = self.numbers(key)
        entry = self.target(frame, obj)
        if number and entry.model.dtype.name not in _HOLDERS[type(value)]:
            raise ArrayChanged(
                "a number that is not known is written into an array of another kind"
            )
        parts = key if type(key) is tuple else (key,)
        masked = self._mask(parts)
        if masked is None and not all(is_simple_key(part) or is_open(part) for part in parts):
            raise ArrayChanged("an array is changed at places that are not known, or given by more")
        used: list[Symbolic] = []
        model = 1 if number else self._mapped(value, used, _model, _itself)
        if masked is not None and self.numpy.ndim(model):
            raise ArrayChanged("how many items a mask selects depends on the values")
        place = at_start(key) if masked is None else self.numpy.ones(masked.model.shape, bool)
        self._try(operator.setitem, (entry.model, place, model), entry)
        written = value if number else self._value(frame, value, entry)
        if masked is not None:
            key = self.fake(masked)
        self._write(frame, entry, key, written)

    def operate_in_place(self, frame: Frame, function: Any, a: Any, b: Any) -> Any:
        """`a += b`."""
        plain = NOT_IN_PLACE[function]
        tables = self.tables
        assert tables is not None
        if type(a) is not tables.array:
            return self.operator(frame, plain, a, b)
        entry = self.target(frame, a)
        other = self.entry(b)
        self._try(function, (entry.model, b if other is None else other.model), entry)
        name = OPERATORS.get(plain)
        if name is None:
            raise ArrayFunction(f"no node does what the operator {plain.__name__} does to an array")
        made = self.record(frame, name, plain, [a, b], {})
        self._put(frame, entry, made)
        return a

    def into(
        self, frame: Frame, name: str, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A function that is given `out=`."""
        tables = self.tables
        assert tables is not None
        rest = dict(kwargs)
        out = rest.pop("out")
        if type(out) is tuple and len(out) == 1:
            out = out[0]
        if out is None:
            used: list[Symbolic] = []
            models = self._mapped(args, used, _model, _itself)
            self.modelled(function, models, kwargs)  # not all functions know it
            return self.record(frame, name, function, args, rest)
        if type(out) is not tables.array:
            raise ArrayFunction(f"numpy's {name} is called with an out= that is no array")
        entry = self.target(frame, out)
        models = self._mapped(args, [], _model, _itself)
        plain = self.modelled(function, models, rest)
        elementwise = type(function) is self.numpy.ufunc and function.nout == 1
        if not self.holds(type(plain)) or (plain.dtype != out.dtype and not elementwise):
            raise ArrayFunction(f"numpy's {name} is called with an out= of another dtype")
        self._try(lambda *given: function(*given, out=entry.model, **rest), models, entry)
        if plain.shape != entry.model.shape:
            raise ArrayFunction(f"numpy's {name} is called with an out= of another shape")
        made = self.record(frame, name, function, args, rest)
        self._put(frame, entry, made)
        return out

    def change(
        self, frame: Frame, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        """A method that changes a symbolic array: `sort`, `fill`."""
        entry = self.target(frame, owner)
        if name == "fill" and len(args) == 1 and not kwargs:
            if self.holds(type(args[0])) or CONTAINERS.holds(type(args[0])):
                raise ArrayChanged("an array is filled with more than a number")
            self._try(lambda model, value: model.fill(value), (entry.model, args[0]), entry)
            self._write(frame, entry, Ellipsis, self._value(frame, args[0], entry))
            return
        if name == "sort" and not set(kwargs) - {"axis"} and len(args) < 2:
            axis = kwargs.get("axis", args[0] if args else -1)
            self._try(lambda model: model.sort(axis), (entry.model,), entry)
            made = self.record(frame, "sort", self.numpy.sort, [owner], {"axis": axis})
            self._put(frame, entry, made)
            return
        raise ArrayChanged(f"the method {name} changes an array whose values are not known")

    def copy_into(self, frame: Frame, args: list[Any], kwargs: dict[str, Any]) -> None:
        """`np.copyto`."""
        if len(args) != 2 or kwargs:
            raise ArrayFunction("numpy's copyto is called with options")
        entry = self.target(frame, args[0])
        used: list[Symbolic] = []
        model = self._mapped(args[1], used, _model, _itself)
        self._try(self.numpy.copyto, (entry.model, model), entry)
        self._write(frame, entry, Ellipsis, self._value(frame, args[1], entry))

    # ------------------------------------------------------------------ what is done for it

    def key(self, frame: Frame, obj: Any, key: Any) -> Any:
        """The key of an item, in which integers stay open that are in range, which is guarded."""
        entry = self.entry(obj) if is_open(key) else None
        if entry is None or not self._in_range(entry, key if type(key) is tuple else (key,)):
            return self.tensors.shapes.plain(frame, key)
        return key

    def _in_range(self, entry: Symbolic, parts: tuple[Any, ...]) -> bool:
        sizes = list(entry.model.shape)
        taken = sum(part is not None and part is not Ellipsis for part in parts)
        if taken > len(sizes):
            return False
        axis = 0
        for part in parts:
            if part is Ellipsis:
                axis += len(sizes) - taken
            elif type(part) is torch.SymInt:
                if not part.node.has_hint() or not bool(part >= 0) or not bool(part < sizes[axis]):
                    return False
                axis += 1
            elif part is not None:
                if not is_simple_key(part):
                    return False
                axis += 1
        return True

    def target(self, frame: Frame, array: Any) -> Symbolic:
        """The entry of an array that is about to be changed."""
        tables = self.tables
        assert tables is not None
        if type(array) is not tables.array:
            raise ArrayChanged(f"a numpy {type(array).__name__} is written to")
        if torch.is_grad_enabled() and any(
            given.real.requires_grad or given.fake.requires_grad
            for given in self.tensors.graph.fakes.inputs
        ):
            # numpy's changes are not counted: autograd would not refuse what it refuses in a graph.
            raise ArrayChanged("an array is changed in place where gradients may be computed")
        entry = self.entry(array)
        if entry is None:
            entry = self._opened(frame, array)
        if _may_overlap(entry.model):
            raise ArrayChanged("an array is changed whose elements may share memory")
        self.fake(entry)
        return entry

    def _opened(self, frame: Frame, array: Any) -> Symbolic:
        """A known array, symbolic from now on."""
        if id(array) in self._lent or not array.flags.owndata or not array.flags.writeable:
            raise ArrayChanged("values that are not known are written into an array with views")
        fake = self.node(frame, ("method", "clone"), (self.constant(array),), {})
        array.fill(1)  # it is its own model
        made = self.symbolic[id(array)] = Symbolic(array, array, fake)
        self.world.opaque[id(array)] = "numpy.ndarray"
        self.world.keep(array)
        return made

    def _try(self, function: Any, models: Any, entry: Symbolic) -> None:
        """numpy makes the change, or refuses; the model is one of ones again."""
        try:
            self.modelled(function, models)
        finally:
            if entry.model.flags.writeable:
                entry.model.fill(1)

    def _mask(self, parts: tuple[Any, ...]) -> Symbolic | None:
        """The symbolic mask that is the whole key."""
        mask = self.entry(parts[0]) if len(parts) == 1 else None
        return mask if mask is not None and mask.model.dtype == bool else None

    def _value(self, frame: Frame, value: Any, entry: Symbolic) -> Any:
        """What is written, as a number or tensor of the array's dtype."""
        dtype = entry.model.dtype
        known = self.entry(value)
        if known is not None:
            check_cast(known.model.dtype, dtype)
            fake = self.fake(known)
            if known.model.dtype != dtype:
                return self.node(frame, ("method", "to"), (fake, self.torch_dtype(dtype)), {})
            with DisableTorchFunction():
                shared = storage_of(fake) == storage_of(self.fake(entry))
            return self.node(frame, ("method", "clone"), (fake,), {}) if shared else fake
        if self.has_symbols(value):
            raise ArrayChanged("a list of values that are not known is written into an array")
        cast = self.numpy.asarray(value).astype(dtype)
        return cast.item() if cast.ndim == 0 else self.constant(cast)

    def _put(self, frame: Frame, entry: Symbolic, made: Any) -> None:
        """All of an array becomes what has been computed."""
        result = self.entry(made)
        assert result is not None
        value = self.fake(result)
        wanted = self.torch_dtype(entry.model.dtype)
        if value.dtype is not wanted:
            check_cast(result.model.dtype, entry.model.dtype)
            value = self.node(frame, ("method", "to"), (value, wanted), {})
        self._write(frame, entry, Ellipsis, value)

    def _write(self, frame: Frame, entry: Symbolic, key: Any, value: Any) -> None:
        fake = self.fake(entry)
        if is_open(key):
            with self.refusing():
                self.tensors.setitem(frame, fake, key, value)
        elif type(value) is FakeTensor and key is Ellipsis:
            self.node(frame, ("method", "copy_"), (fake, value), {})
        else:
            self.node(frame, operator.setitem, (fake, key, value), {})


def _model(entry: Symbolic) -> Any:
    return entry.model


def _itself(value: Any) -> Any:
    return value


def is_open(key: Any) -> bool:
    """Whether there are integers in a key that are left open."""
    return type(key) is torch.SymInt or (
        type(key) is tuple and any(type(part) is torch.SymInt for part in key)
    )


def at_start(key: Any) -> Any:
    """The key with 0 for such integers: the shape is the same for all that are in range."""
    if type(key) is tuple:
        return tuple(map(at_start, key))
    return 0 if type(key) is torch.SymInt else key


def is_simple_key(key: Any) -> bool:
    if type(key) is slice:
        step = key.step
        whole = all(_SIMPLE_KEYS.holds(type(part)) for part in (key.start, key.stop, step))
        return whole and (step is None or step > 0)
    return _SIMPLE_KEYS.holds(type(key))


def _may_overlap(array: Any) -> bool:
    """Whether one element may lie where another does; strides of which nobody can tell count."""
    reach = array.itemsize - 1
    for step, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return array.flags.writeable is True  # if not, numpy refuses
            reach += (size - 1) * step
    return False


def check_cast(given: Any, wanted: Any) -> None:
    """Refuses casts of which numpy warns, or that differ for some values."""
    if wanted.kind in "iub" and given.kind not in "iub":
        raise ArrayFunction("floats in an array are made into integers, which not all fit")
    if given.kind == "c" and wanted.kind != "c":
        raise ArrayFunction(
            "complex numbers in an array are made into others, of which numpy warns"
        )


CONTAINERS: Final = TypeSet(list, tuple, dict, set)
