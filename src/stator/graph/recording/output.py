"""The graph being recorded.

In: real inputs, and calls of torch functions on fake tensors. Out: an `fx.GraphModule` at torch
level (`torch.relu`, `x.sum()`, `torch.nn.functional.linear` are single nodes), its inputs in order,
and example inputs for the backend.

The values a traced program works with are the fake tensors themselves. A side table tells the
node of each; tensors inside a tuple or list get a `getitem` node when they are first used.
"""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import torch
import torch.fx as fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    compute_unbacked_bindings,
)

from stator.diagnostics.catalogue import (
    RegionContents,
    TensorStateChanged,
    TensorSubclass,
    ValueNeeded,
)
from stator.graph.fakes.inputs import (
    Dynamic,
    FakeInput,
    Fakes,
    InputSource,
    are_empty,
    changed_since,
    operands_of,
    requires_grad,
    tensors_in,
    version,
    versions,
)
from stator.graph.fakes.layouts import is_identity, is_new
from stator.graph.fakes.memory import storage_of
from stator.graph.fakes.overlaps import overlap_of
from stator.graph.fakes.packed import packed_results
from stator.graph.fakes.recurrent import recurrent_results
from stator.graph.fakes.wrappers import is_wrapper, plain_parts, with_parts
from stator.graph.leaves.uncounted_lists import count_changes
from stator.graph.passes.drawing import draws_of
from stator.graph.passes.named_sizes import name_sizes
from stator.graph.passes.overwritten import keep_what_is_read
from stator.graph.passes.purity import KEEP, WRITTEN, may_drop
from stator.graph.recording.admission import (
    apply_default_device,
    check_capturable,
    check_written,
    refuse_wrapper,
)
from stator.graph.recording.arguments import Arguments, Item, graphs_in, with_graphs
from stator.graph.recording.asking import ask_of_nothing, ask_of_outs, ask_of_overlap
from stator.graph.recording.errors import (
    Apart,
    DataDependent,
    Unsupported,
)
from stator.graph.recording.failures import failure_of, quiet
from stator.graph.recording.function_modes import without_modes
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.naming import Names
from stator.graph.recording.operations import (
    Operation,
    Target,
    operation_of,
    operator_name,
    run_target,
)
from stator.graph.recording.origins import ModuleStack, note_origin
from stator.graph.recording.recorded import Input, Recorded, Taken
from stator.graph.recording.wrapped import WRAPPERS_IN_REGIONS, Code, Wrapped
from stator.graph.unknown.checks import insert_checks
from stator.graph.unknown.kernels import Kernels, is_symbolic
from stator.graph.unknown.questions import Asker
from stator.graph.unknown.scalars import Assumptions, forget, forget_bindings, has_numbers
from stator.graph.unknown.symbols import Origin, Symbols
from stator.torchlib.fakes import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    disable_fake_tensor_cache,
)
from stator.torchlib.modes import default_device, enable_python_dispatcher
from stator.torchlib.tensors import DisableTorchFunction

_P = ParamSpec("_P")
_R = TypeVar("_R")

LASTING: Final = "lasting"  # of a placeholder that the graph writes to, and the program holds
_TENSOR_TYPES: Final = frozenset({torch.Tensor, torch.nn.Parameter})


def _unseen(
    method: Callable[Concatenate["OutputGraph", _P], _R],
) -> Callable[Concatenate["OutputGraph", _P], _R]:
    """No torch function mode, the user's or ours, sees what the recorder does with tensors."""

    @functools.wraps(method)
    def unseen(graph: "OutputGraph", /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with DisableTorchFunction():
            return method(graph, *args, **kwargs)

    return unseen


class OutputGraph:
    """Records calls on fake tensors into an FX graph."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.fakes = Fakes()
        self.symbols = Symbols(self.graph, lambda: self._placeholders[-1][0], self.fakes.mode)
        self.arguments = Arguments(self.graph, self.symbols)
        self.whole, self._outermost = self.graph, self.arguments  # while a region is recorded
        self.assumptions = Assumptions(self.shape_env)
        self.kernels = Kernels(self.shape_env, self.fakes.mode)
        self.checks: list[Taken] = []
        self.apart = False  # whether sizes that depend on values are to be inputs
        self.default_device: torch.device | None = None  # set by a mode that is not seen here
        self.modules: ModuleStack = {}  # the calls of modules that are under way
        self.annotations: Callable[[], dict[str, Any]] = dict  # what the program notes on nodes
        self._names = Names()
        self._inputs: dict[int, torch.Tensor] = {}  # id of a real tensor -> its fake
        self._placeholders: list[tuple[fx.Node, Input, torch.SymInt | int | None]] = []
        self._constants: list[tuple[fx.Node, torch.Tensor, int | None]] = []
        self._attributes: dict[str, torch.Tensor] = {}
        self.regions: dict[str, torch.nn.Module] = {}  # by name: what nodes of the graph call
        self.inlined: dict[fx.Node, list[fx.Node]] = {}  # a call of a body: what refuses, instead
        self._real: list[torch.Tensor] = []  # ids in _inputs stay taken
        self._lasting: list[tuple[fx.Node, torch.Tensor]] = []
        self._writes: dict[fx.Node, set[int]] = {}  # which storages a node changes
        self.written: set[int] = set()  # storages of tensors that may have been changed in place
        self.overwritten: set[int] = set()  # of those that were, also through `.data`
        self.takes_wrappers = True  # whether the region that is recorded does
        self.admit: Callable[[torch.Tensor], None] = refuse_wrapper  # one that an operation made
        self.code: Code | None = None  # that of classes of wrappers

    def close(self) -> None:
        """Lets go of the program's tensors, and of all that leads back here."""
        self.fakes.inputs.clear()
        self.__dict__.clear()

    @property
    def fake_mode(self) -> FakeTensorMode:
        return self.fakes.mode

    @property
    def shape_env(self) -> Any:
        return self.fakes.shape_env

    # ------------------------------------------------------------------ inputs and constants

    @_unseen
    def add_input(
        self,
        name: str,
        value: torch.Tensor | int,
        *,
        dynamic_dims: Collection[int] = (),
        dynamic: Dynamic | None = None,
        within: int | None = None,
        static: bool = False,
        lasting: bool = False,
    ) -> Any:
        """A placeholder for a real tensor or an int; the fake tensor or SymInt that stands for it.

        The same tensor twice is one placeholder. An int input is always symbolic: one that should
        be a constant is no input. It lies between `-within` and `within`. `static` says that the
        tensor's memory stays where it is between calls, as parameters' does (CUDA graphs need not
        copy it): give it for buffers. `lasting` says that it may be expected to if the graph writes
        to it, since an object of the program's holds it.
        """
        if type(value) is int:
            return self._add_int(name, value, within)
        wraps = is_wrapper(value)
        if type(value) not in _TENSOR_TYPES and not wraps:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise Unsupported(f"{kind} can't be a graph input: only plain tensors and ints can")
        assert isinstance(value, torch.Tensor)
        for part in plain_parts(value):
            check_capturable(part)
        known = self._inputs.get(id(value))
        if known is not None:
            return known
        unique = self._names.unique(name)
        if dynamic is None and dynamic_dims:
            dynamic = Dynamic(dynamic_dims)
        made = self.fakes.add(unique, value, dynamic)
        node = self._placeholder(unique, torch.Tensor if wraps else type(value))
        node.meta["example_value"] = made.fake
        static = static or isinstance(value, torch.nn.Parameter)
        node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"} if static else {}
        if lasting and not static:
            self._lasting.append((node, made.fake))
        self.symbols.define_tensor(made.fake, node)
        self._outermost.bind(made.fake, node)
        if wraps:
            self._outermost.bind_parts(made.fake)
        self._inputs[id(value)] = made.fake
        self._real.append(value)
        self._placeholders.append((node, Input(unique, value), None))
        return made.fake

    def add_input_like(
        self, name: str, value: torch.Tensor, model: FakeInput
    ) -> torch.Tensor | None:
        """The same for a tensor that is as another input but for its values; None if that is not
        certain. No function mode may be active.
        """
        unique = self._names.unique(name)
        made = self.fakes.add_like(unique, value, model)
        if made is None:
            self._names.free(unique)
            return None
        node = self._placeholder(unique, type(value))
        static = type(value) is torch.nn.Parameter
        node.meta["example_value"] = made.fake
        node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"} if static else {}
        self._outermost.bind(made.fake, node)
        self._inputs[id(value)] = made.fake
        self._real.append(value)
        self._placeholders.append((node, Input(unique, value), None))
        return made.fake

    def _add_int(self, name: str, value: int, within: int | None) -> torch.SymInt | int:
        unique = self._names.unique(name)
        number: torch.SymInt | int = self.shape_env.create_unspecified_symint_and_symbol(
            value, InputSource(unique), DimDynamic.DYNAMIC
        )
        if within is not None:
            self.fakes.bound(number, -within, within)
        node = self._placeholder(unique, torch.SymInt)
        node.meta["example_value"] = number
        self.symbols.define(number, Origin(node))
        self._placeholders.append((node, Input(unique, value), number))
        return number

    def _placeholder(self, name: str, kind: type) -> fx.Node:
        """A new placeholder, behind the last one and before everything else."""
        graph = self.whole  # not that of a region, in which it may be used first
        if self._placeholders:
            where = graph.inserting_after(self._placeholders[-1][0])
        else:
            where = graph.inserting_before(next(iter(graph.nodes), None))
        with where:
            node = graph.create_node("placeholder", name, type_expr=kind)
        node._dynamo_source = InputSource(name)
        return node

    @_unseen
    def constant(self, value: Any) -> torch.Tensor:
        """A tensor with known values as an attribute of the graph module; its fake.

        `value` is a real tensor made while tracing, a numpy array or Python data. The attribute is
        a copy, and a graph that changes or returns it works on a fresh copy each time.
        """
        real = value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        real = real.clone()
        fake = self.fakes.constant(real)
        name = f"_tensor_constant{len(self._attributes)}"
        self._attributes[name] = real
        node = self.graph.create_node("get_attr", name)
        node.meta["example_value"] = fake
        note_origin(node, self.modules)
        self.arguments.bind(fake, node)
        self._constants.append((node, fake, version(fake)))
        return fake

    # ------------------------------------------------------------------ operations

    @_unseen
    def call(
        self,
        target: Target,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        stack_trace: str | None = None,
    ) -> Any:
        """Carries out an operation on fake tensors and records it as one node; its result.

        Results without tensors (sizes, dtypes, numbers) are answers, not nodes, unless the
        operation changed something. Raises `OperatorError`, `DataDependent` or `Unsupported`.
        """
        args, kwargs = tuple(args), dict(kwargs or {})
        operation = operation_of(target)
        if operation.copies and args and isinstance(args[0], FakeTensor):
            args = (self._as_new(args[0]), *args[1:])
        if operation.resized_as and len(args) == 2 and not kwargs:
            given, like = args
            return self.call(
                ("method", "resize_"), (given, (*like.shape,)), stack_trace=stack_trace
            )
        device = self.default_device or default_device()
        if device is not None:
            apply_default_device(device, target, kwargs)
        node_args, node_kwargs = self.arguments.of_call(target, args, kwargs)
        operands = operands_of(args, kwargs)
        wrapped = None
        for operand in operands:
            if type(operand) is not FakeTensor:
                wrapped = Wrapped.among(operands)
                break
        if wrapped is not None:
            wrapped.check(operation, self)
            operands = with_parts(operands)
        before = versions(operands)
        if operation.resizes is not None and operation.resizes(args, kwargs):
            text = f"{operation.shown} gives its arguments another size"
            raise Unsupported(text, TensorStateChanged, whole=True)
        writes = operation.effect or "out" in kwargs
        overlap = overlap_of(operands) if writes and wrapped is None else None
        if wrapped is None:
            result = self.run(operation, args, kwargs)
        else:
            carry_out = functools.partial(self.run, operation, args, kwargs, wrapped=True)
            assert self.code is not None
            result = wrapped.run(operation, carry_out, self.code)
        if operation.lists:
            given = zip(map(id, operands), before, strict=True)
            count_changes(operation.name, args, kwargs, dict(given))
        if kwargs and operation.is_overload:
            ask_of_outs(self, operation, args, kwargs)
        if torch.is_inference_mode_enabled() and wrapped is None:
            detaches = operation.name == "detach" or args[1:] == ("data",)
            if not detaches:
                result = self._as_view(result, operands)
        if operands and wrapped is None and are_empty(operands):
            ask_of_nothing(self, operation, operands, args, kwargs)
        written = changed_since(operands, before, operation.effect)
        if written and wrapped is not None:  # what is below a wrapper counts no versions
            wrapped.check_unchanged(operation)
            written = with_parts(written)
        if written:
            if overlap is not None:
                ask_of_overlap(self, overlap, written, operation, args, kwargs)
            check_written(operation, written)
            self.overwritten.update(map(storage_of, written))
        uncounted = operation.uncounted
        if written or uncounted:
            self.written.update(map(storage_of, operands if uncounted else written))
        produced = [result] if type(result) is FakeTensor else list(tensors_in(result))
        if self.assumptions.note(target):
            self.kernels.may_assume(operation.shown)
        pending = self.shape_env.pending_fresh_unbacked_symbols
        read = bool(pending) and has_numbers(result)
        if result is NotImplemented or not (produced or written or result is None or read):
            return result
        if self.apart and pending:
            self._refuse_unknown(operation, result, operands)
        wrappers: list[torch.Tensor] = []
        for tensor in produced:
            if type(tensor) is not FakeTensor:
                self._admit_made(operation, tensor)
                wrappers.append(tensor)
        if wrapped is not None and pending and (produced or read):
            forget(self.shape_env, operands)
            text = f"{operation.shown} of a tensor of a subclass depends on values"
            raise Unsupported(text, TensorSubclass)
        node = self._record(target, node_args, node_kwargs, result, stack_trace)
        if written or result is None:
            node.meta[KEEP] = True
        if written and not uncounted:
            node.meta[WRITTEN] = frozenset(map(storage_of, written))
        if written or uncounted:
            statistics = [each for each in operands if uncounted and not each.requires_grad]
            self._writes[node] = {*map(storage_of, (*written, *statistics))}
        if target is setattr:
            self.fakes.touched = True
        self.arguments.bind(result, node)
        for tensor in wrappers:
            self.arguments.bind_parts(tensor)
        if pending:
            self._bind_symbols(node, result, produced)
        return result

    def _admit_made(self, operation: Operation, tensor: torch.Tensor) -> None:
        """A wrapper is the result of an operation."""
        parts = list(plain_parts(tensor)) if is_wrapper(tensor) else []
        if not parts or any(type(part) is not FakeTensor for part in parts):
            text = f"{operation.shown} makes a tensor that can't be followed while tracing"
            raise Unsupported(text)
        if not self.takes_wrappers:
            raise Unsupported(WRAPPERS_IN_REGIONS, RegionContents)
        self.admit(tensor)

    @contextmanager
    def outside_of_regions(self) -> Iterator[None]:
        """For what is computed from numbers alone: it is in the whole graph, where numbers are.

        A region that uses the result gets it as an input.
        """
        before = self.graph, self.arguments
        self.graph, self.arguments = self.whole, self._outermost
        try:
            yield
        finally:
            self.graph, self.arguments = before

    def _as_new(self, tensor: torch.Tensor) -> Any:
        """The tensor, or a copy that lies in memory as a new one does."""
        made = self.call(("method", "contiguous"), (tensor,))
        if made is tensor and not is_new(tensor):  # sizes of 1 may have any strides
            made = self.call(torch.clone, (tensor,), {"memory_format": torch.contiguous_format})
        return made

    def _refuse_unknown(
        self, operation: Operation, result: Any, operands: Sequence[torch.Tensor]
    ) -> None:
        """Of numbers that are not known, only bools may be in a graph, which checks them."""
        if not isinstance(result, torch.SymBool):
            forget(self.shape_env, operands)
            text = f"the backend can't compile what depends on the result of {operation.shown}"
            raise Apart(f"{text}, whose size or value shows at run time", ValueNeeded)

    def _bind_symbols(self, node: fx.Node, result: Any, produced: Sequence[torch.Tensor]) -> None:
        """A result with numbers or sizes that depend on values: they are bound to the node."""
        if node.graph is not self.symbols.graph:
            raise Unsupported("a number depends on values, in a region of its own", RegionContents)
        try:
            bindings = compute_unbacked_bindings(self.shape_env, result)
        except PendingUnbackedSymbolNotFound:
            self.shape_env.pending_fresh_unbacked_symbols.clear()
            node.graph.erase_node(node)  # it may be recorded again, once its sizes are settled
            name = operator_name(node.target if callable(node.target) else ("", str(node.target)))
            raise DataDependent(f"{name} needs the values in a tensor") from None
        if bindings:
            node.meta["unbacked_bindings"] = bindings
        self.arguments.bind_numbers(result, node)
        for tensor in produced:
            self.symbols.define_result(tensor, self.arguments.node(tensor))

    def run(
        self,
        operation: Operation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        wrapped: bool = False,
    ) -> Any:
        """Carries an operation out on fakes; a wrapper may be among its operands (`wrapped`)."""
        quiet.depth += 1
        try:
            with self.fakes.mode, without_modes() if operation.nested else nullcontext():
                if operation.recurrent:
                    with self.shape_env.questions.by(Asker.KERNEL):
                        found = recurrent_results(operation.target, args, kwargs)
                    if found is not None:
                        return found
                elif operation.packed:
                    with self.shape_env.questions.by(Asker.KERNEL):
                        return packed_results(operation.name, self.shape_env, args, kwargs)
                if wrapped:
                    with enable_python_dispatcher(), disable_fake_tensor_cache(self.fakes.mode):
                        return run_target(operation.target, args, kwargs)
                plain = not self.symbols or not is_symbolic((args, kwargs))
                if plain or is_identity(operation.name, args, kwargs):
                    try:
                        return run_target(operation.target, args, kwargs)
                    except (DataDependentOutputException, GuardOnDataDependentSymNode):
                        # torch's own decomposition may ask for no value, or for less.
                        forget(self.shape_env, tensors_in((args, kwargs)))
                # What torch remembers of operations is for numbers: with symbols, to write it down
                # takes longer than to compute it again.
                with enable_python_dispatcher(), disable_fake_tensor_cache(self.fakes.mode):
                    return self.kernels.run(
                        operation.shown,
                        operation.target,
                        operation.run,
                        args,
                        kwargs,
                        unknown=self.symbols.unbacked,
                    )
        except Exception as error:
            if is_interrupt(error):
                raise
            forget(self.shape_env, tensors_in((args, kwargs)))
            raise failure_of(
                error,
                operation.shown,
                operation.run,
                operation.torchs and not wrapped,
                args,
                kwargs,
            ) from error
        finally:
            quiet.depth -= 1

    def _as_view(self, result: Any, operands: Sequence[torch.Tensor]) -> Any:
        """The result, in which views are views, also in inference mode.

        There, torch takes operators apart that are made of others (`reshape`, `mT`) before it looks
        for views, if it is to run them on fakes: what they answer requires no grad, or is none.
        """
        if type(result) in (tuple, list):
            return type(result)(self._as_view(each, operands) for each in result)
        if not isinstance(result, FakeTensor) or result.requires_grad or result.is_inference():
            return result
        for given in operands:
            lost = given.requires_grad or not result._is_view()
            if lost and storage_of(given) == storage_of(result):
                same = given.dtype is result.dtype and given.layout is torch.strided
                if same and result is not given:
                    with self.fakes.mode:
                        place = result.shape, result.stride(), result.storage_offset()
                        return torch.as_strided(given, *place)
        return result

    def _record(
        self,
        target: Target,
        args: Any,
        kwargs: Any,
        result: Any,
        stack_trace: str | None,
    ) -> fx.Node:
        if isinstance(target, tuple):
            node = self.graph.create_node("call_method", target[1], args, kwargs)
        else:
            node = self.graph.create_node("call_function", target, args, kwargs)
        note_origin(node, self.modules, stack_trace)
        self._annotate(node)
        if result is not None:
            node.meta["example_value"] = result
        return node

    def _annotate(self, node: fx.Node) -> None:
        """What the program notes on the nodes that it makes now."""
        found = self.annotations()
        if found:
            node.meta["custom"] = found

    @_unseen
    def call_region(
        self,
        name: str,
        module: torch.nn.Module,
        args: Sequence[Any],
        *,
        stack_trace: str | None,
        rule: torch.nn.Module | None = None,
        results: Sequence[torch.Tensor] | None = None,
        renewed: Collection[int] = (),
    ) -> Any:
        """Calls a module that holds a subgraph; one `call_module` node.

        `rule` answers for it on fake tensors, if there is something easier to run. If the program
        has its `results` already, these are the tensors that stand for them. Those `renewed` are
        tensors that it is given: from here on, they are its results.
        """
        unique = f"{name}_{len(self.regions)}"
        node_args = self.arguments.of(tuple(args))
        wrapped = any(map(is_wrapper, tensors_in(tuple(args))))
        result = self.run(operation_of(rule or module), tuple(args), {}, wrapped=wrapped)
        if results is not None:
            result = tuple(results)
        self.regions[unique] = module
        node = self.graph.create_node("call_module", unique, node_args)
        node.meta.update(
            draws_of(each for each in module.modules() if isinstance(each, fx.GraphModule))
        )
        node.meta["example_value"] = result
        note_origin(node, self.modules, stack_trace)
        self._annotate(node)
        self.keep(node)
        self.arguments.bind(result, node)
        for each in filter(is_wrapper, tensors_in(result)):
            self.arguments.bind_parts(each)
        for place in renewed:
            self.arguments.rebind(result[place], Item(node, place))
        return result

    @_unseen
    def call_operator(
        self,
        operator: Any,
        args: Sequence[Any],
        *,
        names: Sequence[str],
        stack_trace: str | None,
        rule: Callable[..., Any] | None = None,
    ) -> Any:
        """Calls an operator that takes graphs; they are attributes of the graph module.

        `names` are those of the graphs, in their order among the arguments. `rule` answers for the
        operator on fake tensors, if its own rule is not to.
        """
        number = len(self.regions)
        graphs = list(graphs_in(args))
        bodies = {f"{name}_{number}": body for name, body in zip(names, graphs, strict=True)}
        held = {id(body): name for name, body in bodies.items()}
        places = with_graphs(args, self.arguments.of, lambda body: body)
        operands = list(tensors_in(args))
        before = [version(tensor) for tensor in operands]
        result = self.run(operation_of(rule or operator), tuple(args), {})
        self.regions.update(bodies)
        node_args = with_graphs(
            places, lambda place: place, lambda body: self.graph.get_attr(held[id(body)])
        )
        node = self._record(operator, node_args, {}, result, stack_trace)
        node.meta.update(draws_of(graphs))
        written = [
            tensor for old, tensor in zip(before, operands, strict=True) if old != version(tensor)
        ]
        if written:
            node.meta[KEEP] = True
            node.meta[WRITTEN] = frozenset(map(storage_of, written))
            self._writes[node] = {*map(storage_of, written)}
            self.written.update(map(storage_of, written))
            self.overwritten.update(map(storage_of, written))
        self.arguments.bind(result, node)
        if self.shape_env.pending_fresh_unbacked_symbols:
            self._bind_symbols(node, result, list(tensors_in(result)))
        return result

    def effect(self, target: Callable[..., Any], *args: Any) -> fx.Node:
        """A node that is kept for what it does: a change of grad mode, autocast …"""
        node = self.graph.call_function(target, tuple(self.arguments.of(args)))
        note_origin(node, self.modules)
        return self.keep(node)

    def keep(self, node: fx.Node) -> fx.Node:
        """Marks a node as needed though nothing uses its result."""
        node.meta[KEEP] = True
        return node

    def node(self, value: torch.Tensor) -> fx.Node:
        """The node that computes a traced tensor."""
        return self.arguments.node(value)

    def tracks(self, value: object) -> bool:
        return self.arguments.tracks(value)

    def latest_input(self) -> Input:
        """The input that was added last."""
        return self._placeholders[-1][1]

    def real_inputs(self) -> dict[fx.Node, torch.Tensor | int]:
        """What the placeholders stand for in the call that is being traced."""
        return {node: given.value for node, given, _ in self._placeholders}

    def attribute(self, name: str) -> torch.Tensor | torch.nn.Module:
        """A constant or a region of the graph."""
        return self._attributes[name] if name in self._attributes else self.regions[name]

    # ------------------------------------------------------------------ the end

    @_unseen
    def finish(self, outputs: Sequence[Any], *, whole: bool = False) -> Recorded:
        """Closes the graph with these results; drops what nothing needs, unless it is `whole`."""
        results = tuple(self.arguments.of(list(outputs)))
        if self.assumptions:
            insert_checks(self.graph, self.symbols, list(self.assumptions.facts))
        self.graph.output(results)
        if not whole:
            self._drop_unused()
        if requires_grad(self.arguments.tensors()):
            keep_what_is_read(self.graph, self._writes)
            if self.symbols.unbacked:
                name_sizes(self.graph, self.shape_env.backed_var_to_val)
        self._protect_constants(outputs)
        for node, fake in self._lasting:
            if storage_of(fake) in self.overwritten:
                node.meta[LASTING] = True
        mode, fakes = self.fakes.pristine()
        tensors = iter(fakes)
        inputs: list[Input] = []
        examples: list[Any] = []
        for node, given, number in self._placeholders:
            example = next(tensors) if number is None else number
            if node.users:
                inputs.append(given)
                examples.append(example)
            else:
                self.graph.erase_node(node)
        attributes = self.attributes_of(self.graph)
        module = fx.GraphModule(attributes, self.graph)
        # With these, AOTAutograd reads the placeholders' sources and which of them are static.
        module.meta["dynamo_compile_id"] = None
        module._param_name_to_source = {  # type: ignore[assignment, unused-ignore]
            attribute: InputSource(f"self.{attribute}") for attribute in attributes
        }
        forget_bindings(self.graph, self.shape_env)
        self.shape_env.handed_over = True
        return Recorded(module, inputs, examples, mode)

    def _drop_unused(self) -> None:
        for node in reversed(self.graph.nodes):
            if not node.users and may_drop(node) and not self._is_checked(node):
                self.graph.erase_node(node)

    def _is_checked(self, node: fx.Node) -> bool:
        """Whether something is assumed of a number that a node reads from a tensor."""
        bindings = node.meta.get("unbacked_bindings", ())
        return bool(bindings) and not self.assumptions.symbols.isdisjoint(bindings)

    def _protect_constants(self, outputs: Sequence[Any]) -> None:
        """A constant that is changed or returned is copied first: the next call needs it again."""
        returned = {storage_of(tensor) for tensor in tensors_in(list(outputs))}
        for node, fake, made in self._constants:
            if node.graph is not self.graph:
                continue  # a region's, which has seen to it
            if node.users and (version(fake) != made or storage_of(fake) in returned):
                with self.graph.inserting_after(node):
                    copy = self.graph.call_function(torch.clone, (node,))
                copy.meta["example_value"] = fake
                for user in [user for user in node.users if user is not copy]:
                    user.replace_input_with(node, copy)

    def constants_kept(self, graph: fx.Graph, outputs: Any) -> bool:
        """Whether a region's constants are neither changed nor among its results."""
        returned = {storage_of(tensor) for tensor in tensors_in(outputs)}
        return not any(
            node.graph is graph and (version(fake) != made or storage_of(fake) in returned)
            for node, fake, made in self._constants
        )

    def attributes_of(self, graph: fx.Graph) -> dict[str, Any]:
        """The constants and regions that a graph mentions."""
        names = {node.target for node in graph.nodes if node.op in ("get_attr", "call_module")}
        held = {**self._attributes, **self.regions}
        return {name: value for name, value in held.items() if name in names}


__all__ = ["Input", "Item", "OutputGraph", "Recorded", "Target"]
