"""`nested_compile_region` in a trace: a function whose body is one graph, called many times.

Stage: capture. In: a call of a region. Out: a node that calls the region's body. The first call is
traced into a graph of its own; a further call for which a record fits is not traced at all.

What can't be a region (it changes tensors from outside, hands out views of them, breaks the graph,
raises) is captured where it is called: the trace starts anew, and knows (`Task.inlined`).
"""

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator import config, objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_functions import evaluated
from stator.capture.calls.arguments import split
from stator.capture.calls.controls import invoke_region
from stator.capture.calls.held_callables import callee
from stator.capture.modules.module_calls import CALL
from stator.capture.regions import lookup, purity
from stator.capture.regions.given import Given, Unfit, given
from stator.capture.regions.leaving import tensor_of
from stator.capture.regions.records import RegionRecord, record_of
from stator.capture.regions.repeated import Repeated
from stator.contracts import Depth
from stator.diagnostics import logs
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import ImpureRegion, RegionContents, TooManyRegions
from stator.diagnostics.places import library, stack
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.leaves.leaves import python_type
from stator.graph.passes.ancestry import computed_from
from stator.graph.passes.purity import KEEP, REFUSES, UNCOUNTED, WRITTEN
from stator.graph.passes.retry import draws
from stator.graph.recording import nested
from stator.graph.recording.subgraph import Subgraph
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_TORCHS: Final = "__marked_compile_region_"


@dataclass(frozen=True)
class Settings:
    """What the program has said about a region."""

    options: Any = None
    max_reuse_entries: int = 8
    reuse_hash_fn: Any = None
    auto: bool = False
    """Nobody has said anything: it is a call of a module that is repeated."""


AUTO: Final = Settings(auto=True)


class Regions:
    """The regions of one trace."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self.inlined: set[types.CodeType] = set()
        self.auto = False
        self.repeated = Repeated()
        self.open: list[types.CodeType] = []
        """The codes of those that are being traced."""
        self.traced: list[tuple[types.CodeType, Subgraph]] = []
        self.records: dict[Any, list[RegionRecord]] = {}

    def module(self, frame: Frame, args: list[Any], kwnames: tuple[str, ...] | None) -> Any:
        """A call of a module that may be repeated; MISSING if it is no region."""
        record = self._calls.world.records.get(id(args[0])) if args else None
        if self.open or record is None or not self.repeated.holds(record.raw):
            return MISSING
        forward = objects.lookup(type(record.raw), "forward")
        code = None if forward is None else _code(forward.value)
        if code is None or self._not_here(code) is not None:
            return MISSING
        given = split(args, kwnames)
        return self.call(frame, CALL, *given, AUTO, code=code, key=type(record.raw))

    def call(
        self,
        frame: Frame,
        function: Any,
        args: list[Any],
        kwargs: dict[str, Any],
        said: Settings,
        *,
        code: types.CodeType | None = None,
        key: Any = None,
    ) -> Any:
        """A call of a region; `key` is what has records in common, if not the function."""
        calls = self._calls
        code = code or _code(function)
        reason = self._not_here(code)
        if reason is not None or code is None:
            self.tell(frame, code, f"captured where it is called: {reason}")
            return _plain(calls, frame, function, args, kwargs)
        if said.reuse_hash_fn is not None:
            hashed = evaluated(frame, said.reuse_hash_fn, *args, **kwargs)
            if type(hashed) is not int:
                raise RegionContents("reuse_hash_fn of a region returns no int that is known")
        else:
            hashed = None
        found, why = self._given(function, args, kwargs, hashed)
        if key is None:
            key = function if id(function) not in calls.made else code
        calls.world.keep(key)
        records = self.records.setdefault(id(key), [])
        if found is not None:
            state = purity.state_of(calls)
            raws = lookup.raw_arguments(calls, found)
            for record in reversed(records):  # the first may be for one object only
                fitting = lookup.fit(calls, record, found, raws, state)
                if type(fitting) is not str:
                    self.tell(frame, code, f"reused: {record.name}")
                    trace = calls.tracer.stack_trace(frame)
                    return lookup.apply(calls, frame, record, found, fitting, trace)
                why = why or fitting
        call = function, code, args, kwargs
        return self._traced(frame, call, said, (found, hashed), why, records)

    def inside(self, stopped: Break) -> tuple[types.CodeType, ...]:
        """What is to be no region, if the trace has ended for this reason."""
        tensor = tensor_of(stopped)
        if tensor is None or self.open:
            return tuple(self.open)
        made = [code for code, inner in self.traced if inner.arguments.is_made(tensor)]
        return tuple(made or (code for code, _ in self.traced))

    def _not_here(self, code: types.CodeType | None) -> str | None:
        """Why a region can't be one where it is called."""
        graph = self._calls.tensors.graph
        if code is None:
            return "it is no Python function"
        if code in self.inlined:
            return "it can't be a region"
        if self._calls.tensors.inside:
            return "it is called inside of a transform of torch.func"
        if self.open:
            return "it is called inside of another region"
        if graph.graph is not graph.whole:
            return "it is called inside of a torch.autograd.Function or checkpoint"
        return None

    def _given(
        self, function: Any, args: list[Any], kwargs: dict[str, Any], hashed: int | None
    ) -> tuple[Given | None, str | None]:
        calls = self._calls
        cells = None
        if id(function) in calls.made and function.__closure__:
            cells = tuple(_contents(cell) for cell in function.__closure__)
            if id(function) in calls.made and not _is_plain(function):
                return None, "it is a function with defaults that was made in the call"
        try:
            return given(calls, tuple(args), kwargs, cells, hashed), None
        except Unfit as unfit:
            return None, str(unfit)

    def tell(self, frame: Frame, code: Any, what: str) -> None:
        if logs.on("regions"):
            places = stack(frame)
            place = next((each for each in reversed(places) if not library(each)), places[-1])
            where = f"{place.file}:{place.line}"
            name = getattr(code, "co_qualname", "a region")
            logs.write("regions", f"region {name} at {where}: {what}")

    # ------------------------------------------------------------------ the first call

    def _traced(
        self,
        frame: Frame,
        call: tuple[Any, types.CodeType, list[Any], dict[str, Any]],
        said: Settings,
        given: tuple[Given | None, int | None],
        why: str | None,
        records: list[RegionRecord],
    ) -> Any:
        calls = self._calls
        function, code, args, kwargs = call
        found, hashed = given
        if found is not None and len(records) >= said.max_reuse_entries:
            if said.auto:
                self.open.append(code)
                raise RegionContents("a module has too many variants to be a region")
            raise TooManyRegions(
                f"exceeded maximum reuse entries ({said.max_reuse_entries}) for the region "
                f"{code.co_qualname}: {why}"
            )
        graph = calls.tensors.graph
        inner = Subgraph(graph)
        world = calls.world
        outer_reads, world.reads = world.reads, set()
        was = purity.before(calls)
        state, looked = was.state, calls.tensors.grads.looked
        self.open.append(code)
        self.traced.append((code, inner))
        # What goes wrong from here on leaves the region open: the next trace inlines it.
        with inner, purity.Watch(calls) as watch:
            try:
                result = evaluated(frame, callee(calls, function), *args, **kwargs)
            except Exception as error:
                if core.is_user_error(error):
                    raise RegionContents("an exception leaves a region") from None
                raise
            calls.values.ready(result, Depth.DEEP)
            self._check_pure(code, said, was, watch, found)
            more = purity.does_more(calls, was)
            if more is not None:
                raise RegionContents(f"a region does more than compute: {more}")
            outputs = self._outputs(inner, result)
        reads, world.reads = world.reads, outer_reads
        assert reads is not None
        if outer_reads is not None:
            outer_reads |= reads
        everything = list(inner.graph.nodes)
        try:
            body = inner.finish(tuple(outputs))
        except (RecordingError, UntrackedTensorError) as error:
            raise RegionContents(f"a region can't be a graph of its own: {error}") from None
        _check_body(body, inner)
        with DisableTorchFunction():
            _check_unseen(body.graph, everything)
        self.open.pop()
        if not outputs:
            self.tell(frame, code, "computes nothing")
            return result
        name = nested.add(graph, body, said.options)
        trace = calls.tracer.stack_trace(frame)
        node = nested.call(graph, name, inner.inputs, outputs, stack_trace=trace)
        calls.tensors.handled.region(frame, node, body.graph)
        if found is not None:
            try:
                if found.changed():
                    raise Unfit("it changes a container that it is given")
                if graph.symbols:  # what they are called may have changed: one is a number now
                    again, _ = self._given(function, args, kwargs, hashed)
                    assert again is not None
                    found.key = again.key
                asked = calls.tensors.grads.looked != looked
                values = lookup.raw_arguments(calls, found), inner.inputs, outputs, result
                made = record_of(calls, name, found, *values, reads, state, asked=asked)
                records.append(made)
            except Unfit as unfit:
                why = f"it is not kept for other calls: {unfit}"
        self.tell(frame, code, f"traced: {name}" + (f" ({why})" if why else ""))
        return result

    def _check_pure(
        self,
        code: types.CodeType,
        said: Settings,
        was: purity.Purity,
        watch: purity.Watch,
        found: Given | None,
    ) -> None:
        changed = purity.described(self._calls, was, watch)
        if changed is None:
            return
        if said.auto or config.allow_side_effects_under_nested_compile_region:
            raise RegionContents(f"a region changes {changed}")
        raise ImpureRegion(f"the region {code.co_qualname} changes {changed}")

    def _outputs(self, inner: Subgraph, result: Any) -> list[torch.Tensor]:
        """The tensors of a result that the body computes, each once."""
        found: list[torch.Tensor] = []
        with DisableTorchFunction():
            outer = {storage_of(each) for each in inner.inputs if isinstance(each, torch.Tensor)}
            for each in _tensors_in(self._calls, result):
                if inner.arguments.is_outer(each) or any(each is known for known in found):
                    continue
                if storage_of(each) in outer:
                    raise RegionContents("a region returns a view of a tensor from outside")
                if self._calls.tensors.own.has_state(each):
                    raise RegionContents("a region returns a tensor with attributes")
                if each.is_conj() or each.is_neg() or python_type(each) is not torch.Tensor:
                    raise RegionContents("a region returns a tensor of a kind of its own")
                outer.add(storage_of(each))
                inner.require(each)
                found.append(each)
        return found


def _tensors_in(calls: "Calls", result: Any) -> list[torch.Tensor]:
    """All tensors of a result, also those in objects that were made in the region."""
    found: list[torch.Tensor] = []
    waiting, seen = [result], set[int]()
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if calls.tensors.holds(type(value)):
            found.append(value)
        elif type(value) is dict:
            waiting += dict.values(value)
        elif objects.is_subtype(type(value), dict) and id(value) not in calls.world.records:
            waiting += dict.values(value)
            waiting += (objects.instance_dict(value) or {}).values()
        elif type(value) in (list, tuple) or objects.layout_base(type(value)) is tuple:
            kind: Any = list if type(value) is list else tuple
            waiting += list(kind.__iter__(value))
        elif id(value) not in calls.world.origins and not objects.is_subtype(type(value), type):
            own = objects.instance_dict(value)
            if own is not None and type(value) is not types.FunctionType:
                waiting += own.values()
    return found


def _check_body(body: fx.GraphModule, inner: Subgraph) -> None:
    """Refuses what torch's operator, or a second call of the body, would not do right."""
    for value in inner.inputs:
        if not isinstance(value, torch.Tensor | torch.SymInt):
            raise RegionContents("a region takes a number that is no int")
    for node in body.graph.nodes:
        if node.op == "call_module":
            raise RegionContents("there is another region inside of one")
        name = getattr(node.target, "__name__", str(node.target))
        if name in UNCOUNTED and _trains(node):
            raise RegionContents("a region changes running statistics")
        if KEEP in node.meta and node.meta.get("unbacked_bindings"):
            raise RegionContents("a region has a number that depends on values")


def _check_unseen(graph: fx.Graph, everything: list[fx.Node]) -> None:
    """Refuses what must happen though no result of the body tells: backends leave it out."""
    telling = set(computed_from([next(iter(reversed(graph.nodes)))]))
    memory = {storage_of(t) for n in telling for t in tensors_in(n.meta.get("example_value"))}
    for node in everything:
        if node.op.startswith("call_") and node not in telling:
            if not memory.isdisjoint(node.meta.get(WRITTEN, ())):
                continue  # what it writes is seen
            if REFUSES in node.meta:
                raise RegionContents("a region does not use a result that may be an exception")
            if draws(node):
                raise RegionContents("a region draws numbers that it does not use")


def _trains(node: fx.Node) -> bool:
    """Whether a normalization may change its statistics."""
    given = [*node.args, *node.kwargs.values()]
    return any(value is True for value in given)


def _plain(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return calls.call(frame, function, [*args, *kwargs.values()], tuple(kwargs) or None)


def _code(function: Any) -> types.CodeType | None:
    if type(function) is types.MethodType:
        function = function.__func__
    return function.__code__ if type(function) is types.FunctionType else None


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_plain(function: types.FunctionType) -> bool:
    return function.__defaults__ is None and function.__kwdefaults__ is None


def _invoke(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`invoke_region`, in a trace."""
    function, *rest = args
    return calls.regions.call(frame, function, rest, kwargs, settings_of(function))


def settings_of(function: Any) -> Settings:
    """What was said where the function was decorated."""
    own = objects.instance_dict(function) if type(function) is types.FunctionType else None
    said = own or {}
    return Settings(
        dict.get(said, f"{_TORCHS}config__"),
        dict.get(said, f"{_TORCHS}max_reuse_entries__", 8),
        dict.get(said, f"{_TORCHS}reuse_hash_fn__"),
    )


REGIONS: Final = {id(invoke_region): _invoke}
