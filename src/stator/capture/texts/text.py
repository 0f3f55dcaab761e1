"""Text that mentions a tensor: `f"{x}"`, `str([x])`, `"%.2f" % x`.

In: an operation that makes text of a value. Out: a `str`, or a `Text`, parts of which are made at
run time. Nobody may look at a `Text` (a `Break`), but it can be joined with others, shown and kept.

C code makes texts of whole containers. While it does (`Texts.window`), a tensor's text is a *mark*,
a string that occurs nowhere else; in what C code has put together, the marks are found again. Marks
never leave the window: C code called in it only strings texts together, and Python code that it
calls back (`__repr__`) gets no marks and gives none.
"""

import contextlib
import operator
import os
import re
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
import torch.fx as fx

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.numbers.scalars import SYMBOLS
from stator.diagnostics.breaks import stack
from stator.diagnostics.catalogue import TensorSubclass, TextOfTensor, UnusualTensor
from stator.effects.texts import Given, How, Mention, Part, Piece, Text, given_parts
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.leaves import leaves
from stator.graph.passes.purity import KEEP, RANDOM, may_drop
from stator.graph.recording.arguments import Arguments
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

FORMATS: Final = frozenset(
    {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE", "BUILD_STRING"}
)
NAME: Final = "str (text that mentions a tensor)"
_MAKERS: Final = frozenset(map(id, (str, repr, ascii, format)))
_SLOTS: Final = frozenset({"__repr__", "__str__", "__format__"})
_CONVERSIONS: Final = (None, How.STR, How.REPR, How.ASCII)  # by the number in the instruction
_REAL: Final = TypeSet(str, Text)
_NONCE: Final = os.urandom(8).hex()  # no program has this in its strings
_MARK: Final = re.compile(f"\x01{_NONCE}:([0-9]+)([sr])\x02")


def makes_text(callable: Any) -> bool:
    """Whether a C callable answers with the text of what it is given, and does nothing else."""
    if id(callable) in _MAKERS:
        return True
    return type(callable) in _WRAPPERS and callable.__name__ in _SLOTS


_WRAPPERS: Final = (
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.BuiltinFunctionType,
)
_SHOWN_BY: Final = {
    id(objects.type_dict(torch.Tensor)["__repr__"]): How.REPR,
    **{
        id(objects.type_dict(cls)[name]): How.REPR
        for cls in (torch.SymInt, torch.SymFloat, torch.SymBool)
        for name in ("__repr__", "__str__")
        if name in objects.type_dict(cls)
    },
}
_FORMATTED_BY: Final[Any] = objects.type_dict(torch.Tensor)["__format__"]
for _method in (Text.__str__, Text.__repr__):
    core.mark_code(_method.__code__, core.CODE_NATIVE)


class Texts:
    """The texts of one trace that mention tensors."""

    def __init__(self, tracer: "Tracer") -> None:
        self.tracer = tracer
        self.open = False  # C code is making texts
        self._made: list[Text] = []

    # ------------------------------------------------------------------ reading texts

    def settled(self, frame: Frame, text: Any) -> Any:
        """A text that is looked at, if only numbers in it are unknown; other values as they are."""
        if type(text) is not Text:
            return text
        parts = [part if type(part) is str else self._shown(frame, part) for part in text.parts]
        known = [part for part in parts if part is not None]
        return "".join(known) if len(known) == len(parts) else text

    def _shown(self, frame: Frame, piece: Any) -> str | None:
        """What a part says that is an integer in this call, which is taken for granted."""
        value = piece.value
        if type(value) is Text:
            inner = self.settled(frame, value)
            plain = piece.how in (How.STR, How.FORMAT) and not piece.spec
            return inner if type(inner) is str and plain else None
        if type(value) is Given:
            self.tracer.world.looked.add(str(value.source))
            return None
        number, scalars = value.value, self.tracer.tensors.scalars
        if type(number) is FakeTensor:
            if number.dim() or number.dtype.is_floating_point or number.dtype is torch.bool:
                return None
            if piece.how is not How.FORMAT:  # tensor(5)
                return None
            number = scalars.item(frame, number)
        if type(number) is torch.SymInt:
            number = scalars.speculation.number(frame, number)
        return None if type(number) is not int else format(number, piece.spec)

    # ------------------------------------------------------------------ making texts

    def holds(self, value: Any) -> bool:
        """Whether the text of a value is not known while tracing."""
        cls = type(value)
        return cls is Text or SYMBOLS.holds(cls) or self.tracer.tensors.holds(cls)

    def text(self, parts: Sequence[Part], frame: Frame | None) -> Text:
        made = Text(tuple(parts), () if frame is None else stack(frame))
        made.mark = f"\x01{_NONCE}:{len(self._made)}\x02"
        self._made.append(made)
        self.tracer.world.opaque[id(made)] = NAME
        return made

    def of(self, frame: Frame | None, value: Any, how: How, spec: str = "") -> Text:
        """The text of a tensor, a symbolic number or a text."""
        if type(value) is Text:
            if how is How.STR or (how is How.FORMAT and not spec):
                return value
            return self.text([Piece(value, how, spec)], frame)
        if type(value) is FakeTensor:
            self.tracer.tensors.replaced.shown()
        return self.text([Piece(self.mention(value), how, spec)], frame)

    def mention(self, value: Any) -> Mention:
        """The tensor as it is now."""
        graph = self.tracer.tensors.graph
        region = type(graph.arguments) is not Arguments
        if SYMBOLS.holds(type(value)):
            return Mention(value, None, None, region)
        if self.tracer.tensors.subclasses.holds(value):
            raise TensorSubclass("a tensor of a subclass is shown")
        if value.layout is not torch.strided:  # its values may change without it
            raise UnusualTensor("the text of a sparse tensor")
        with DisableTorchFunction():
            # If it is an item of a result, it is taken before anything changes.
            place = Placed.of(graph.node(value), value)
            looks = looks_of(value)
        self.tracer.tensors.grads.asked()
        return Mention(value, looks, next(iter(reversed(graph.graph.nodes)), None), region, place)

    def format(self, frame: Frame, value: Any, spec: Any) -> Any:
        """`format(value, spec)`, which may raise now."""
        if type(spec) is not str:
            self._look(spec)
            raise TextOfTensor("a format that is not known while tracing")
        if type(value) is FakeTensor and (
            value.dim() > 0 or leaves.python_type(value) is torch.nn.Parameter
        ):
            if spec:
                name = leaves.python_type(value).__name__
                text = f"unsupported format string passed to {name}.__format__"
                core.raise_user(TypeError(text))
            return self.of(frame, value, How.STR)
        self._try(lambda: format(example(value), spec), spec)
        return self.of(frame, value, How.FORMAT, spec)

    def percent(self, frame: Frame, spec: str, value: Any) -> Any:
        """`spec % (value,)` for a spec with one conversion."""
        if type(value) is FakeTensor:
            integral = not (value.dtype.is_floating_point or value.dtype.is_complex)
            if value.numel() != 1 or (spec[-1] not in "feFEgG" and not integral):
                raise TextOfTensor("a tensor is formatted as a number that it may not be")
        self._try(lambda: spec % (example(value),), spec)
        return self.of(frame, value, How.PERCENT, spec)

    def _try(self, make: Any, spec: str) -> None:
        if spec.endswith("c"):
            raise TextOfTensor("a character whose number is not known while tracing")
        try:
            make()
        except Exception as error:
            error.__traceback__ = None
            core.raise_user(error)

    def joined(self, frame: Frame, parts: Sequence[Any]) -> Any:
        """Texts and strings in a row."""
        found: list[Part] = []
        for part in parts:
            found += part.parts if type(part) is Text else [part]
        return self.text(found, frame)

    def concatenated(self, frame: Frame, function: Any, *operands: Any) -> Any:
        """An operator on a text: strings can be added to it."""
        if function in (operator.add, operator.iadd) and all(
            _REAL.holds(type(value)) for value in operands
        ):
            return self.joined(frame, operands)
        for value in operands:
            self._look(value)
        raise TextOfTensor("an operator looks at a text that mentions a tensor")

    def _look(self, value: Any) -> None:
        """Notes which strings from before the call should not have been left open."""
        if type(value) is Text:
            self.tracer.world.looked.update(given_parts(value))

    def truth(self, text: Text) -> bool:
        """Whether a text is not empty: what stands for a value never is, if it is not cut off."""
        for part in text.parts:
            if isinstance(part, str):
                if part:
                    return True
            elif type(part.value) is Mention or part.how in (How.REPR, How.ASCII):
                return True
        self._look(text)
        raise TextOfTensor("whether a text that mentions a tensor is empty")

    def converted(self, frame: Frame, conversion: int, value: Any, spec: Any) -> Any:
        """`f"{value!r:spec}"` in two steps: the first one's text may mention a tensor."""
        native = self.tracer.calls.native
        made = native(frame, (str, repr, ascii)[conversion - 1], [value], None)
        return native(frame, format, [made, spec], None)

    def instruction(self, frame: Frame, name: str, arg: int, operands: tuple[Any, ...]) -> Any:
        """What an f-string does, where it mentions a tensor."""
        if name == "BUILD_STRING":
            return self.joined(frame, operands)
        value, *spec = operands
        conversion = None
        if name in ("FORMAT_VALUE", "CONVERT_VALUE"):
            conversion = _CONVERSIONS[arg & 3]
        if conversion is not None:
            if not self.holds(value):
                raise TextOfTensor("a format that is not known while tracing")
            value = self.of(frame, value, conversion)
        if name == "CONVERT_VALUE":
            return value
        if not self.holds(value):
            raise TextOfTensor("a format that is not known while tracing")
        return self.format(frame, value, spec[0] if spec else "")

    # ------------------------------------------------------------------ windows

    @contextlib.contextmanager
    def window(self) -> Iterator[None]:
        """C code makes texts, and nothing else."""
        outer = self.open
        self.open = self.tracer.values.renders = True
        self.tracer.tensors.replaced.may_be_shown()
        try:
            yield
        finally:
            self.open = self.tracer.values.renders = outer

    def passed(self, frame: Frame, function: Any, *args: Any) -> Any:
        """The result of Python code that C code calls and only passes on: it may be a text."""
        outer = self.open
        self.open = self.tracer.values.renders = True
        try:
            return self.split(frame, function(frame, *args))
        finally:
            self.open = self.tracer.values.renders = outer

    def collected(self, frame: Frame, given: Any) -> tuple[Any, ...]:
        """`tuple(given)`; a generator may yield texts, at which C code does not look."""
        native = self.tracer.calls.native
        if type(given) is not types.GeneratorType:
            found: tuple[Any, ...] = native(frame, tuple, [given], None)
            return found
        with self.window():
            items = native(frame, tuple, [given], None)
        return tuple(self.split(frame, item) for item in items)

    def suspend(self) -> bool:
        """Python code begins in a window; the answer is for `resume`."""
        outer = self.open
        self.open = self.tracer.values.renders = False
        return outer

    def resume(self, outer: bool, result: Any) -> Any:
        """Python code ends; in a window, C code gets a mark for a text."""
        self.open = self.tracer.values.renders = outer
        return str(result) if outer and type(result) is Text else result

    def answer(self, frame: Frame) -> str | None:
        """A tensor's method that C code has called in a window."""
        if not self.open or not self.holds(frame[0] if frame.code.co_argcount else None):
            return None
        how = _SHOWN_BY.get(id(frame.function))
        if how is not None:
            return str(self.of(None, frame[0], how))
        if frame.function is _FORMATTED_BY:
            return str(self.format(frame, frame[0], frame[1]))
        return None

    def split(self, frame: Frame, result: Any) -> Any:
        """What C code has made in a window: a string, or a text if there are marks in it."""
        if type(result) is not str or _NONCE not in result:
            return result
        found: list[Part] = []
        constant, *rest = _MARK.split(result)
        found.append(constant)
        for number, flavour, constant in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            text = self._made[int(number)]
            found += text.parts if flavour == "s" else [Piece(text, How.REPR)]
            found.append(constant)
        if any(type(part) is str and _NONCE in part for part in found):
            raise TextOfTensor("a text that mentions a tensor is cut in pieces")
        return self.text([part for part in found if type(part) is not str or part], frame)

    # ------------------------------------------------------------------ the end

    def settle(self, mention: Mention) -> None:
        """Finds, or adds to the graph, what has the tensor's values of that moment."""
        value = mention.value
        if mention.settled is not None:
            return
        if SYMBOLS.holds(type(value)):
            mention.settled = value
            return
        tensors = self.tracer.tensors
        graph = tensors.graph
        with DisableTorchFunction():
            place = mention.place
            storage, node = place.storage, place.node
            nodes = graph.graph.nodes
            stays = place == Placed.of(graph.node(value), value)
            same = stays and looks_of(value) == mention.looks
            if id(value) in tensors.inputs and same and not _written(nodes, storage):
                mention.settled, mention.looks = value, None  # the very tensor
                return
            later = _after(nodes, mention.after)
            changed = not stays or _written(later, storage)
            if mention.looks == PLAIN and same and not changed:
                mention.settled, mention.looks = value, None
                return
            parents = node.all_input_nodes
            if node.target is operator.getitem and parents[0].op == "call_module":
                raise TextOfTensor(
                    "a text mentions the result of a region, whose grad_fn is not known"
                )
            with graph.fake_mode, torch.no_grad():
                fake = value.detach() if stays else place.like(value)
                copy = fake.clone()
            following = next((n for n in later if n.op != "placeholder"), None)
            where: Any = contextlib.nullcontext()
            if following is not None:
                where = graph.graph.inserting_before(following)
            with where:
                made = graph.graph.call_method("detach", (node,))
                made.meta["example_value"] = fake
                if changed:
                    made = graph.graph.call_function(torch.clone, (made,))
                    made.meta["example_value"] = copy
        mention.settled = copy if changed else fake
        graph.arguments.bind(mention.settled, made)


class Placed(NamedTuple):
    """Where a tensor is at one moment: it may be given other memory, or another shape."""

    node: fx.Node
    storage: int
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]

    @classmethod
    def of(cls, node: fx.Node, tensor: torch.Tensor) -> "Placed":
        return cls(node, storage_of(tensor), tuple(tensor.shape), tensor.stride())

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that lies as this one did."""
        return torch.empty_strided(
            self.sizes, self.strides, dtype=tensor.dtype, device=tensor.device
        )


def _after(nodes: Any, node: Any) -> list[Any]:
    """The nodes behind one, or all of them."""
    if node is None:
        return list(nodes)
    found = list(nodes)
    return found[found.index(node) + 1 :]


def _written(nodes: Any, storage: int) -> bool:
    """Whether one of the nodes may change what is in this memory."""
    for node in nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if KEEP not in node.meta and (may_drop(node) or name in RANDOM):
            continue
        for given in node.all_input_nodes:
            for tensor in tensors_in(given.meta.get("example_value")):
                if storage_of(tensor) == storage:
                    return True
    return False


PLAIN: Final = (None, False, False)


def looks_of(tensor: torch.Tensor) -> tuple[str | None, bool, bool]:
    """What is shown of a tensor besides its values."""
    is_parameter = leaves.python_type(tensor) is torch.nn.Parameter
    return grad_fn_name(tensor), bool(tensor.requires_grad), is_parameter


def grad_fn_name(tensor: torch.Tensor) -> str | None:
    """What torch calls a tensor's grad_fn when it shows the tensor."""
    try:
        grad_fn = tensor.grad_fn
    except RuntimeError:  # of a view whose base was changed: so says torch
        return "Invalid"
    if grad_fn is None:
        return None
    name = type(grad_fn).__name__
    return grad_fn.name().rsplit("::", 1)[-1] if name == "CppFunction" else name


def example(value: Any) -> Any:
    """A value of the type that will be formatted."""
    cls = type(value)
    if cls is Text:
        return ""
    if cls is FakeTensor:
        if value.dtype.is_complex:
            return 1.5j
        if value.dtype.is_floating_point:
            return 1.5
        return True if value.dtype is torch.bool else 1
    return {torch.SymFloat: 1.5, torch.SymBool: True}.get(cls, 1)
