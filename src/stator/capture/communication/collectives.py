"""Collectives in a trace: `dist.all_reduce(x)` and the like, as nodes of the graph.

In: a call of one that writes to its arguments, as eager programs have them. Out: nodes of
operators that return what they make (`_c10d_functional`), which are waited for where eager would,
and copied to where the program wants it. What is no collective of tensors, or not of the usual
kind, is a `Break`, one for each call: it happens between two graphs, in the order of the program.

The backends of torch run the same collectives for these operators, in the same order of operations:
the results are those of eager, bit by bit.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.communication.works import Pending, Results, write
from stator.contracts import Depth
from stator.diagnostics.catalogue import Communication
from stator.graph.fakes.memory import storage_of
from stator.graph.leaves import leaves
from stator.graph.recording.interrupts import is_interrupt
from stator.torchlib import distributed
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_OPERATIONS: Final = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")


class Recorder:
    """Records the nodes of one collective."""

    def __init__(self, calls: "Calls", frame: Frame, group: Any, name: str) -> None:
        self._calls = calls
        self._frame = frame
        self.group = group
        self.name = name
        self.size: int = group.size()

    def node(self, target: Any, *args: Any) -> Any:
        """One node."""
        return self._calls.tensors.record(self._frame, target, args)

    def operator(self, name: str, source: torch.Tensor, *args: Any) -> Any:
        """The operator of a collective: nobody differentiates it, as in eager."""
        with DisableTorchFunction():
            tracked = source.requires_grad
        if tracked:
            source = self.node(("method", "detach"), source)
        operator = getattr(distributed.OPERATORS, name).default
        return self.node(operator, source, *args, self.name)


def _operation(op: Any) -> str:
    """The name of a reduction in an operator."""
    for name in _OPERATIONS:
        if op is getattr(distributed.c10d.ReduceOp, name):
            return name.lower()
    raise Communication("a reduction that is not one of the usual ones")


def _fits(number: Any, wanted: Any) -> None:
    if number != wanted:
        raise Communication("sizes that do not fit the number of processes")


def _in_a_row(graph: Recorder, whole: Any, part: Any) -> None:
    """Not all backends take parts that are stacked."""
    if whole.device.type == "cpu":
        first = part.shape[0] if part.dim() else 1
        _fits(tuple(whole.shape), (first * graph.size, *part.shape[1:]))


def _all_reduce(graph: Recorder, tensor: Any, op: Any) -> Results:
    return [(tensor, graph.operator("all_reduce", tensor, _operation(op)), None)]


def _broadcast(graph: Recorder, tensor: Any, src: Any, group_src: Any = None) -> Results:
    try:
        source = distributed.rank_in(graph.group, src, group_src)
    except Exception as error:
        if is_interrupt(error):
            raise
        raise Communication("a broadcast from a process that is not in the group") from None
    return [(tensor, graph.operator("broadcast", tensor, source), None)]


def _all_gather(graph: Recorder, tensor_list: Any, tensor: Any) -> Results:
    _fits(len(tensor_list), graph.size)
    for each in tensor_list:
        _fits(tuple(each.shape), tuple(tensor.shape))
    if tensor.dim() == 0:
        tensor = graph.node(("method", "reshape"), tensor, (1,))
    made = graph.operator("all_gather_into_tensor", tensor, graph.size)
    return [(place, made, part) for part, place in enumerate(tensor_list)]


def _all_gather_single(graph: Recorder, output_tensor: Any, input_tensor: Any) -> Results:
    _fits(output_tensor.numel(), input_tensor.numel() * graph.size)
    if input_tensor.dim() == 0:
        raise Communication("a tensor without dimensions is gathered into another one")
    _in_a_row(graph, output_tensor, input_tensor)
    made = graph.operator("all_gather_into_tensor", input_tensor, graph.size)
    return [(output_tensor, made, None)]


def _reduce_scatter_single(graph: Recorder, output: Any, input: Any, op: Any) -> Results:
    _fits(output.numel() * graph.size, input.numel())
    if input.dim() == 0:
        raise Communication("sizes that do not fit the number of processes")
    _fits(input.shape[0] % graph.size, 0)
    _in_a_row(graph, input, output)
    made = graph.operator("reduce_scatter_tensor", input, _operation(op), graph.size)
    return [(output, made, None)]


def _reduce_scatter(graph: Recorder, output: Any, input_list: Any, op: Any) -> Results:
    _fits(len(input_list), graph.size)
    for each in input_list:
        _fits(tuple(each.shape), tuple(output.shape))
    flat = graph.node(torch.stack, list(input_list))
    made = graph.operator("reduce_scatter_tensor", flat, _operation(op), graph.size)
    return [(output, made, None)]


def _all_to_all_single(
    graph: Recorder, output: Any, input: Any, output_split_sizes: Any, input_split_sizes: Any
) -> Results:
    if output.dim() == 0 or input.dim() == 0:
        raise Communication("sizes that do not fit the number of processes")
    splits = []
    for tensor, sizes in ((output, output_split_sizes), (input, input_split_sizes)):
        if not sizes:
            _fits(tensor.shape[0] % graph.size, 0)
            sizes = [tensor.shape[0] // graph.size] * graph.size
        _fits(len(sizes), graph.size)
        _fits(sum(sizes), tensor.shape[0])
        splits.append(list(sizes))
    _fits(tuple(output.shape[1:]), tuple(input.shape[1:]))
    return [(output, graph.operator("all_to_all_single", input, *splits), None)]


@dataclass(frozen=True)
class _Collective:
    """How a collective is recorded; `writes` names the argument that it writes to."""

    record: Callable[..., Results]
    writes: str
    function: Any = None


_RECORDED: Final = {
    "all_reduce": _Collective(_all_reduce, "tensor"),
    "broadcast": _Collective(_broadcast, "tensor"),
    "all_gather": _Collective(_all_gather, "tensor_list"),
    "all_gather_single": _Collective(_all_gather_single, "output_tensor"),
    "all_gather_into_tensor": _Collective(_all_gather_single, "output_tensor"),
    "_all_gather_base": _Collective(_all_gather_single, "output_tensor"),
    "reduce_scatter": _Collective(_reduce_scatter, "output"),
    "reduce_scatter_single": _Collective(_reduce_scatter_single, "output"),
    "reduce_scatter_tensor": _Collective(_reduce_scatter_single, "output"),
    "_reduce_scatter_base": _Collective(_reduce_scatter_single, "output"),
    "all_to_all_single": _Collective(_all_to_all_single, "output"),
}
# What happens between two graphs.
_BETWEEN: Final = (
    *("send", "recv", "isend", "irecv", "batch_isend_irecv"),
    *("barrier", "monitored_barrier"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
    *("send_object_list", "recv_object_list"),
    *("reduce", "gather", "scatter", "all_to_all", "all_gather_coalesced", "all_reduce_coalesced"),
    *("_coalescing_manager", "_broadcast_coalesced"),
    *("init_process_group", "destroy_process_group", "new_group", "split_group", "shrink_group"),
    *("new_subgroups", "new_subgroups_by_enumeration", "_abort_process_group"),
    *("_new_process_group_helper", "_store_based_barrier"),
)
_signatures: Final[dict[int, inspect.Signature]] = {}


def _bound(function: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    signature = _signatures.get(id(function))
    if signature is None:
        signature = _signatures[id(function)] = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        raise Communication(f"{function.__name__} with arguments that do not fit") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _collective(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A collective that writes to its arguments: it is recorded."""
    found = _COLLECTIVES[id(function)]
    given = _bound(function, args, kwargs)
    calls.tensors.inside.refuse(f"{function.__name__} of torch.distributed")
    if calls.later:
        raise Communication("a collective in code that runs in the backward")
    calls.values.ready(list(given.values()), Depth.DEEP)
    later = given.pop("async_op", False)
    if type(later) is not bool:
        raise Communication(f"{function.__name__} with arguments that do not fit")
    group, name = calls.groups.use(given.pop("group", None))
    distributed.functional()
    _check(calls, given, found.writes)
    step = calls.tracer.steps - 1
    with calls.tensors.overrides.plainly():
        results = found.record(Recorder(calls, frame, group, name), **given)
        if not later:
            write(calls, frame, results)
            return None
    handle = Pending(results, step)
    calls.pending.append(handle)
    calls.made_at[id(handle)] = step
    return handle


def _check(calls: "Calls", given: dict[str, Any], writes: str) -> None:
    """Tensors of which the operators say the same as eager."""
    tensors = []
    for name, value in given.items():
        items = value if type(value) in (list, tuple) else [value]
        for item in items:
            if type(item) is FakeTensor:
                tensors.append((item, name == writes))
            elif name == writes or isinstance(item, torch.Tensor):
                raise Communication("something else than a tensor")
    kinds = set()
    with DisableTorchFunction():
        for tensor, written in tensors:
            if calls.tensors.overrides.concerns(tensor) or leaves.python_type(tensor) not in _PLAIN:
                raise Communication("a tensor of a subclass")
            plain = tensor.layout is torch.strided and not tensor.is_complex()
            if not plain or not tensor.is_contiguous() or tensor.is_neg():
                raise Communication("a tensor that is complex, sparse or not contiguous")
            kinds.add((tensor.dtype, tensor.device))
            if written:
                _check_gradients(calls, tensor)
    if len(kinds) > 1:
        raise Communication("tensors of different dtypes, or on different devices")


def _check_gradients(calls: "Calls", tensor: torch.Tensor) -> None:
    """Eager does not count what a collective writes, and autograd knows nothing of it."""
    if torch.is_grad_enabled() and tensor.requires_grad:
        raise Communication("a collective writes to a tensor that requires grad")
    memory = storage_of(tensor)
    for node in calls.tensors.graph.graph.nodes:
        made = node.meta.get("example_value")
        if not isinstance(made, torch.Tensor) or not made.requires_grad:
            continue
        for used in node.all_input_nodes:
            value = used.meta.get("example_value")
            if isinstance(value, torch.Tensor) and storage_of(value) == memory:
                raise Communication("a collective writes to a tensor that a gradient depends on")


def _between(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """Communication that happens between two graphs."""
    raise Communication(f"{function.__name__} of torch.distributed is called")


def _tables() -> tuple[dict[int, _Collective], dict[int, Handler]]:
    recorded: dict[int, _Collective] = {}
    handlers: dict[int, Handler] = {}
    if distributed.AVAILABLE:
        for name in _BETWEEN:
            if (function := distributed.function_of(name)) is not None:
                handlers[id(function)] = _between
        for name, how in _RECORDED.items():
            if (function := distributed.function_of(name)) is not None:
                recorded[id(function)] = how
                handlers[id(function)] = _collective
    return recorded, handlers


_COLLECTIVES, COLLECTIVES = _tables()
