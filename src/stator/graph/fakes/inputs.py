"""Fake tensors of graph inputs: made from real tensors, and made anew for the backend.

In: a real tensor and which of its dimensions are dynamic. Out: a `FakeTensor` of our mode. Tracing
may change a fake input in place (its version, its shape, whether it requires grad), and a backend
must see the inputs as they are at the start of the graph: `Fakes.pristine` gives them.
"""

import operator
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatefulSymbolicContext,
)

from stator.graph.fakes.fake_mode import fake_mode
from stator.graph.fakes.memory import expression, storage_of
from stator.graph.fakes.wrapped_inputs import Opened, fake_wrapper
from stator.graph.fakes.wrappers import is_wrapper, parts_of, plain_parts
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.unknown.environment import Environment
from stator.objects import TypeSet
from stator.torchlib.fakes import (
    FakeTensor,
    FakeTensorMode,
    GuardSource,
    Source,
    UnsupportedFakeTensorException,
)
from stator.torchlib.modes import len_dispatch_stack
from stator.torchlib.shapes import ValueRanges
from stator.torchlib.tensors import DisableTorchFunction


@dataclass(frozen=True)
class InputSource(Source):  # type: ignore[misc, unused-ignore]  # torch may be absent
    """What torch's symbols call a graph input: its placeholder's name."""

    placeholder: str

    @property
    def guard_source(self) -> Any:  # type: ignore[override, unused-ignore]
        return GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.placeholder

    @property
    def name(self) -> str:  # type: ignore[override, unused-ignore]
        return self.placeholder


_HOLD_NOTHING: Final = TypeSet(int, float, bool, str, type(None), torch.dtype, torch.device)

Bounds: TypeAlias = tuple[int | None, int | None]


@dataclass(frozen=True)
class Dynamic:
    """What of a tensor is symbolic, by dimension: a size, or a stride that follows from no size."""

    sizes: Collection[int]
    strides: Collection[int] = ()
    bounds: Mapping[int, Bounds] = field(default_factory=dict)
    """Between which numbers a size lies."""
    strict: Collection[int] = ()
    """Sizes that must not become numbers."""
    unbacked: Collection[int] = ()
    """Sizes whose value nobody knows while recording."""
    parts: Mapping[str, "Dynamic"] = field(default_factory=dict)
    """What is symbolic of the tensors that it holds, if it is a wrapper."""


def _symbolic_context(
    tensor: torch.Tensor,
    dynamic: Dynamic,
    source: InputSource,
    env: ShapeEnv,
    known: Mapping[str, Any] | None = None,
) -> StatefulSymbolicContext:
    """Symbols for the dynamic dimensions, numbers for the others.

    Stateful: a second fake of the same tensor gets the same symbols. Where a tensor begins is a
    number from the start, as it is without symbols: only programs that ask for it depend on it.
    """
    dims = range(tensor.dim())
    strides = dynamic.strides
    begin = {f"{source.name}.storage_offset()": sympy.Integer(tensor.storage_offset())}
    begin.update(known or {})
    return StatefulSymbolicContext(
        dynamic_sizes=[_kind(i, dynamic) for i in dims],
        dynamic_strides=[
            DimDynamic.DYNAMIC if i in strides else DimDynamic.INFER_STRIDE for i in dims
        ],
        tensor_source=source,
        shape_env_to_source_to_symbol_cache={id(env): begin},
    )


def _opened(dynamic: Dynamic) -> Opened:
    parts = {name: _opened(part) for name, part in dynamic.parts.items()}
    return Opened(dynamic.sizes, parts)


def _kind(dim: int, dynamic: Dynamic) -> DimDynamic:
    if dim in dynamic.unbacked:
        return DimDynamic.UNBACKED
    return DimDynamic.DYNAMIC if dim in dynamic.sizes else DimDynamic.STATIC


@dataclass
class FakeInput:
    """A real tensor, its fake, and how to make another fake of it."""

    real: torch.Tensor
    fake: torch.Tensor
    source: InputSource
    context: StatefulSymbolicContext | Opened | None
    version: int | None
    requires_grad: bool
    starts_with_grad: bool = False
    """Whether it is made to require grad before the graph."""
    starts_with_shape: tuple[int, ...] | None = None
    """The shape it is given before the graph."""
    layout: tuple[Any, ...] = ()
    """Its sizes, strides and bytes as it was made."""
    parts: tuple["FakeInput", ...] = ()
    """The plain tensors in it, if it is a wrapper."""

    def lies_as_made(self) -> bool:
        """Whether it still has the sizes, strides and memory it began with; assumes nothing."""
        with DisableTorchFunction():  # a class of the program must not notice
            now = _layout(self.fake)
        return [*map(expression, now)] == [*map(expression, self.layout)]

    def is_reshaped(self) -> bool:
        """Whether its sizes are others, and not only how much memory there is; assumes nothing."""
        with DisableTorchFunction():
            sizes = [*map(expression, self.fake.shape)]
            return sizes != [*map(expression, self.layout[: self.real.dim()])]

    def untouched(self) -> bool:
        """Whether tracing left the fake as it was made."""
        with DisableTorchFunction():
            return (
                self.version is not None
                and version(self.fake) == self.version
                and self.fake.requires_grad == self.requires_grad
                and all(part.untouched() for part in self.parts)
            )

    def in_memory(self) -> "tuple[FakeInput, ...]":
        """What of it lies in memory: the tensor itself, or the parts of a wrapper."""
        return self.parts or (self,)


def version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None where torch doesn't count (inference mode)."""
    return None if tensor.is_inference() else int(tensor._version)


def version_unseen(tensor: torch.Tensor) -> int | None:
    """The same where function modes are active: none of them sees that it is asked for."""
    with DisableTorchFunction():
        return version(tensor)


class Fakes:
    """The fake mode, the shape environment and the fakes of the inputs."""

    def __init__(self) -> None:
        # Values that are read (`item`) and sizes that depend on values (`nonzero`) become symbols.
        self.shape_env = Environment(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        self.mode = fake_mode(self.shape_env)
        self.modes = [self.mode]
        self.inputs: list[FakeInput] = []
        self._memory: dict[int, FakeInput] = {}
        """By storage of the real tensor: an input that looks into it."""
        self._alike: set[int] = set()
        """Those of them whose fakes torch's converter has not made."""
        self.touched = False  # set by whoever changes a fake in a way its version does not show

    def add(self, name: str, real: torch.Tensor, dynamic: Dynamic | None) -> FakeInput:
        source = InputSource(name)
        context: StatefulSymbolicContext | Opened | None = None
        for part in plain_parts(real):
            if (memory := storage_of(part)) in self._alike:
                self._tell_converter(self._memory[memory])
        if is_wrapper(real):
            context = Opened(()) if dynamic is None else _opened(dynamic)
        elif dynamic is not None:
            context = _symbolic_context(real, dynamic, source, self.shape_env)
        fake = self._fake(self.mode, real, source, context)
        for dim, bounds in ({} if dynamic is None else dynamic.bounds).items():
            if dim < fake.dim():
                self.bound(fake.shape[dim], *bounds)
        made = FakeInput(real, fake, source, context, version(fake), fake.requires_grad)
        made.layout = _layout(fake)
        if is_wrapper(fake):
            made.parts = tuple(_parts_of(real, fake, source))
        if context is not None:
            self.shape_env.pending_fresh_unbacked_symbols.clear()  # the input itself tells them
        self.inputs.append(made)
        for each in made.parts or (made,):
            self._memory.setdefault(storage_of(each.real), each)
        return made

    def add_like(self, name: str, real: torch.Tensor, model: FakeInput) -> FakeInput | None:
        """The same for a tensor that is known to be as another input: type, dispatch keys, dtype,
        device, sizes, strides, and whether it requires grad. None if there may be more to it.
        """
        memory = storage_of(real)
        plain = (
            memory not in self._memory
            and not is_wrapper(real)
            and model.context is None
            and model.untouched()
            and _owns_its_memory(real)
            and real.grad is None
            and not torch.is_inference_mode_enabled()
        )
        fake = empty_fake(self.mode, real) if plain else None
        if fake is None or fake.untyped_storage().nbytes() != real.untyped_storage().nbytes():
            return None
        if real.requires_grad:
            fake.requires_grad = True
        if type(real) is torch.nn.Parameter:
            fake._is_param = True
        source = InputSource(name)
        made = FakeInput(real, fake, source, None, 0, real.requires_grad, layout=model.layout)
        self.inputs.append(made)
        self._memory[memory] = made
        self._alike.add(memory)
        return made

    def _tell_converter(self, made: FakeInput) -> None:
        """Another tensor has the same memory: its fake must have that of the one that is there."""
        self._alike.discard(storage_of(made.real))
        converter: Any = self.mode.fake_tensor_converter
        converter.set_tensor_memo(made.real, made.fake)
        inner = converter.meta_converter
        number = inner.describer.get_storage_id(made.real.untyped_storage())
        inner.storage_memo[number] = made.fake.untyped_storage()

    def _fake(
        self,
        mode: FakeTensorMode,
        real: torch.Tensor,
        source: InputSource,
        context: StatefulSymbolicContext | Opened | None,
    ) -> torch.Tensor:
        if not isinstance(context, Opened):
            return _fake(mode, real, source, context)

        def plain(tensor: torch.Tensor, name: str, context: Any) -> torch.Tensor:
            return _fake(mode, tensor, InputSource(name), context)

        def symbolic(
            tensor: torch.Tensor, name: str, sizes: Collection[int], known: Mapping[str, Any]
        ) -> StatefulSymbolicContext:
            dynamic, source = Dynamic(sizes), InputSource(name)
            return _symbolic_context(tensor, dynamic, source, self.shape_env, known)

        try:
            return fake_wrapper(real, source.placeholder, context, mode, plain, symbolic)
        except Exception as error:
            if is_interrupt(error) or isinstance(error, Unsupported):
                raise
            text = f"no fake tensor can stand for a {type(real).__name__}: {error}"
            raise Unsupported(text) from error

    def bound(self, number: torch.SymInt | int, least: int | None, most: int | None) -> None:
        """A symbol lies between two numbers, which is an assumption like others."""
        if isinstance(number, torch.SymInt) and isinstance(number.node.expr, sympy.Symbol):
            symbol = number.node.expr
            known = self.shape_env.var_to_range[symbol]
            lower = known.lower if least is None else max(least, known.lower)
            upper = known.upper if most is None else min(most, known.upper)
            self.shape_env._update_var_to_range(symbol, ValueRanges(lower, upper))

    def constant(self, real: torch.Tensor) -> torch.Tensor:
        """The fake of a tensor whose values are known while recording, too.

        It gets a tensor of its own: fake tensors with known values are changed together with them.
        """
        converter = self.mode.fake_tensor_converter
        return converter.from_real_tensor(self.mode, real.clone(), make_constant=True)

    def pristine(self) -> tuple[FakeTensorMode, list[torch.Tensor]]:
        """The inputs as they are when the graph starts, with the mode they belong to."""
        if not self.touched and all(made.untouched() for made in self.inputs):
            return self.mode, [made.fake for made in self.inputs]
        # All of them, so that inputs that share memory still do.
        mode = fake_mode(self.shape_env)
        self.modes.append(mode)
        fakes = [self._fake(mode, i.real, i.source, i.context) for i in self.inputs]
        for made, fake in zip(self.inputs, fakes, strict=True):
            if made.starts_with_grad:
                fake.requires_grad_()
            if made.starts_with_shape is not None:
                with mode:
                    fake.resize_(made.starts_with_shape)
        return mode, fakes

    def given_memory(self) -> Iterator[torch.Tensor]:
        """The fakes of all memory that comes from outside."""
        for made in self.inputs:
            yield made.fake
            yield from (part.fake for part in made.parts)

    def release(self) -> None:
        """Drops torch's weak references to real tensors, which programs can see.

        `torch.utils.swap_tensors` refuses tensors that have any. The fakes stay as they are.
        """
        for mode in self.modes:
            mode.fake_tensor_converter.meta_converter.describer.lookup_tensor.data.clear()


@contextmanager
def _unwarned() -> Iterator[None]:
    """torch looks at the gradient of each tensor, and warns of itself where it is no leaf.

    Not for others: it would make Python forget which warnings it has shown.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _fake(
    mode: FakeTensorMode,
    real: torch.Tensor,
    source: InputSource,
    context: StatefulSymbolicContext | None,
) -> torch.Tensor:
    try:
        with _unwarned() if real.requires_grad and not real.is_leaf else nullcontext():
            if context is None:
                # No source: with one, a zero-dimensional tensor's value would become a symbol.
                return mode.from_tensor(real, static_shapes=True)
            return mode.from_tensor(real, source=source, symbolic_context=context)
    except (UnsupportedFakeTensorException, RuntimeError, AssertionError) as error:
        if is_interrupt(error):
            raise
        # It asserts that the fake is alike: that of a view with new data (`v.data = …`) is not.
        what = f"{type(real).__name__} with layout {real.layout}"
        raise Unsupported(f"no fake tensor can stand for a {what}: {error}") from error


def _owns_its_memory(real: torch.Tensor) -> bool:
    """Whether it is a leaf, and no part of another tensor."""
    if not real.is_leaf or real._is_view() or real.storage_offset():
        return False
    return not real.requires_grad or getattr(real, "grad_dtype", real.dtype) == real.dtype


def empty_fake(mode: FakeTensorMode, like: torch.Tensor) -> torch.Tensor | None:
    """A fake tensor with memory of its own that lies as another one does; None if that takes more.

    Made without the fake mode, and without its kernels: a model has many parameters.
    """
    sizes, strides = like.shape, like.stride()
    if len_dispatch_stack() or not all(type(each) is int for each in (*sizes, *strides)):
        return None
    device = like.device
    if device.type == "meta" or like.is_conj() or like.is_neg():
        return None
    data = torch.empty_strided(sizes, strides, dtype=like.dtype, device="meta")
    return FakeTensor(mode, data, device)


def _parts_of(real: torch.Tensor, fake: torch.Tensor, source: InputSource) -> Iterator[FakeInput]:
    """The plain tensors in a wrapper, with their fakes."""
    for (name, part), (_, made) in zip(parts_of(real), parts_of(fake), strict=True):
        if is_wrapper(part):
            yield from _parts_of(part, made, source)
        else:
            where = InputSource(f"{source.placeholder}.{name}")
            grad = made.requires_grad
            yield FakeInput(part, made, where, None, version(made), grad, layout=_layout(made))


def _layout(fake: torch.Tensor) -> tuple[Any, ...]:
    if fake.layout is not torch.strided:
        return tuple(fake.shape)
    return (*fake.shape, *fake.stride(), fake.untyped_storage().size())


def differentiable(tensor: torch.Tensor) -> bool:
    """Whether a tensor can require grad."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def operands_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors in the arguments of a call, in order: most are the arguments themselves."""
    found: list[torch.Tensor] = []
    for value in args:
        if type(value) is FakeTensor:
            found.append(value)
        elif not _HOLD_NOTHING.holds(type(value)):
            found += tensors_in(value)
    for value in kwargs.values():
        if not _HOLD_NOTHING.holds(type(value)):
            found += tensors_in(value)
    return found


def versions(tensors: Sequence[torch.Tensor]) -> list[int | None]:
    """The versions of tensors."""
    found: list[int | None] = []
    for tensor in tensors:
        found.append(None if tensor.is_inference() else tensor._version)
    return found


def changed_since(
    tensors: Sequence[torch.Tensor], before: Sequence[int | None], uncounted: bool
) -> list[torch.Tensor]:
    """Those with another version than before; also those without one, if it is `uncounted`."""
    found: list[torch.Tensor] = []
    for old, tensor in zip(before, tensors, strict=True):
        new = None if tensor.is_inference() else tensor._version
        if old != new or (old is None and uncounted):
            found.append(tensor)
    return found


def requires_grad(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether one of them does."""
    return any(map(operator.attrgetter("requires_grad"), tensors))


def are_empty(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all have no values, for any size that is open."""
    for tensor in tensors:
        sizes: Any = tensor.shape
        for size in sizes:
            if (size if type(size) is int else size.node.maybe_as_int()) == 0:
                break
        else:
            return False
    return True


def tensors_in(value: object) -> Iterable[torch.Tensor]:
    """The tensors in nested lists, tuples, dicts and slices, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, slice):
        yield from tensors_in((value.start, value.stop, value.step))
