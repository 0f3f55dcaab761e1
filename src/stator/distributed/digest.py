"""What a rank says of a graph: which collectives are in it, in order, and what it was made of.

In: a graph as it was recorded. Out: a `Record`, of which all but the text decides whether ranks fit
together. Sizes are those of the call that is compiled: a graph whose sizes are open and one whose
sizes are not fit together as long as they are the same in this call.
"""

import dataclasses
import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.fx as fx

from stator.torchlib import distributed
from stator.torchlib.operators import OpOverload, OpOverloadPacket

GRAPH: Final = "graph"
EAGER: Final = "eager"
FAILED: Final = "failed"

_LIBRARIES: Final = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor")
_LOCAL: Final = ("wait_tensor", "wait_tensors", "_wrap_tensor_autograd", "mesh_get_process_group")
_MOST_TEXT: Final = 20_000  # characters of a graph
_MOST_LINES: Final = 40  # of a difference that is shown


@dataclass(frozen=True)
class Exchange:
    """One collective."""

    operator: str
    details: tuple[str, ...]
    """The reduction, or how the tensor is split."""
    dtype: str
    sizes: tuple[int, ...]
    open: bool
    """Whether a size may be another one in the next call."""
    place: str
    """The line of the program."""

    def __str__(self) -> str:
        details = "".join(f", {each}" for each in self.details)
        sizes = ", ".join(map(str, self.sizes))
        return f"{self.operator}({self.dtype}[{sizes}]{details})  # {self.place}"

    @classmethod
    def made(cls, read: dict[str, Any]) -> "Exchange":
        """From what JSON has made of one."""
        details, sizes = tuple(read["details"]), tuple(read["sizes"])
        return cls(**{**read, "details": details, "sizes": sizes})

    @property
    def mark(self) -> tuple[Any, ...]:
        """What must be the same on all ranks."""
        details = () if self.operator == "all_to_all_single" else self.details
        sizes = self.sizes[1:] if self.operator == "all_to_all_single" else self.sizes
        return self.operator, details, self.dtype, sizes


@dataclass(frozen=True)
class Record:
    """What a rank has made of a call."""

    label: str
    ordinal: int
    """Which compile of this function it was, on this rank."""
    kind: str
    why: str = ""
    """Why it is no graph, or why it was compiled again."""
    text: str = ""
    exchanges: dict[str, list[Exchange]] = field(default_factory=dict)
    """The collectives of the graph, in order, by the ranks that take part."""
    opened: dict[str, list[int]] = field(default_factory=dict)
    """Which sizes are open since they have changed between calls."""

    def written(self) -> str:
        """As text, for the store."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def read(cls, text: str) -> "Record":
        """From that text."""
        made = json.loads(text)
        made["exchanges"] = {
            group: [
                Exchange(
                    **{**each, "details": tuple(each["details"]), "sizes": tuple(each["sizes"])}
                )
                for each in found
            ]
            for group, found in made["exchanges"].items()
        }
        return cls(**made)


def exchanges_of(module: fx.GraphModule) -> dict[str, list[Exchange]]:
    """The collectives of a graph, with those of the graphs inside of it."""
    found: dict[str, list[Exchange]] = {}
    for node in _nodes(module):
        made = _exchange(node)
        if made is not None:
            found.setdefault(made[0], []).append(made[1])
    return found


def groups_of(graph: fx.Graph) -> list[Any]:
    """The process groups that the operators of a graph name."""
    found: dict[str, Any] = {}
    nodes = [each for each in graph.nodes if isinstance(each.target, OpOverload | OpOverloadPacket)]
    for node in nodes:
        if _name(node) is not None:
            for each in node.args:
                if type(each) is str and (group := distributed.group_of(each)) is not None:
                    found[each] = group
    return list(found.values())


def _nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    for node in module.graph.nodes:
        yield node
        if node.op == "get_attr":
            inner = getattr(module, str(node.target), None)
            if isinstance(inner, fx.GraphModule):
                yield from _nodes(inner)
        elif node.op == "call_module":
            inner = module.get_submodule(str(node.target))
            for each in inner.modules():
                if isinstance(each, fx.GraphModule):
                    yield from _nodes(each)


def _name(node: fx.Node) -> str | None:
    if not isinstance(node.target, OpOverload | OpOverloadPacket):
        return None
    library, _, rest = str(node.target).partition(".")
    name = rest.partition(".")[0]
    return name if library in _LIBRARIES and name not in _LOCAL else None


def _exchange(node: fx.Node) -> tuple[str, Exchange] | None:
    name = _name(node)
    if name is None:
        return None
    tensors: list[Any] = []
    rest: list[Any] = []
    for arg in (*node.args, *node.kwargs.values()):
        for each in arg if isinstance(arg, list | tuple) else [arg]:
            value = each.meta.get("example_value") if isinstance(each, fx.Node) else each
            (tensors if isinstance(value, torch.Tensor) else rest).append(value)
    group, members = "", rest
    for place, each in enumerate(rest):
        ranks = distributed.members_of(each) if isinstance(each, str) else None
        if ranks is not None and place == len(rest) - 1:
            group, members = ",".join(map(str, ranks)), rest[:place]
    sizes = [size for tensor in tensors for size in tensor.shape]
    made = Exchange(
        name,
        tuple(str(_number(each)) for each in members),
        ", ".join(str(tensor.dtype).removeprefix("torch.") for tensor in tensors),
        tuple(_number(size) for size in sizes),
        any(type(size) is not int for size in sizes),
        _place(node),
    )
    return group, made


def _number(value: Any) -> Any:
    """What an open size is in this call."""
    if isinstance(value, torch.SymInt):
        return int(value.node.hint) if value.node.has_hint() else -1
    return value


def _place(node: fx.Node) -> str:
    lines = [line.strip() for line in (node.stack_trace or "").splitlines()]
    found = [line for line in lines if line.startswith("File ")]
    own = [line for line in found if "/torch/" not in line] or found
    if not own:
        return node.name
    file, _, rest = own[-1].removeprefix('File "').partition('", line ')
    return f"{file.rpartition('/')[2]}:{rest.partition(',')[0]}"


# ---------------------------------------------------------------------- differences


def difference(records: dict[int, Record], group: str) -> str | None:
    """In what the records of ranks differ, as text; None if they fit together."""
    first, *others = sorted(records)
    for other in others:
        if _marks(records[first], group) != _marks(records[other], group):
            return _shown(first, records[first], other, records[other], group)
    return None


def _marks(record: Record, group: str) -> list[Any]:
    return [each.mark for each in record.exchanges.get(group, [])]


def _shown(a: int, one: Record, b: int, other: Record, group: str) -> str:
    mine, theirs = one.exchanges.get(group, []), other.exchanges.get(group, [])
    lines = []
    for place in range(max(len(mine), len(theirs))):
        left = str(mine[place]) if place < len(mine) else "none"
        right = str(theirs[place]) if place < len(theirs) else "none"
        if place >= min(len(mine), len(theirs)) or mine[place].mark != theirs[place].mark:
            lines = [
                f"collective {place + 1} between ranks {group} is different:",
                f"  rank {a}: {left}",
                f"  rank {b}: {right}",
            ]
            break
    lines += [f"  rank {rank}: {each.label}" + told(each) for rank, each in ((a, one), (b, other))]
    text = difflib.unified_diff(
        one.text.splitlines(), other.text.splitlines(), f"rank {a}", f"rank {b}", lineterm="", n=2
    )
    shown = list(text)
    if len(shown) > _MOST_LINES:
        shown = [*shown[:_MOST_LINES], "…"]
    return "\n".join([*lines, *(f"  {line}" for line in shown)])


def told(record: Record) -> str:
    """Why a rank has compiled, in words behind its label."""
    return f", since {record.why}" if record.why else ""


def text_of(module: fx.GraphModule) -> str:
    """The graph as the ranks show it to each other."""
    lines = []
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        shape = ""
        if isinstance(value, torch.Tensor):
            shape = (
                f": {str(value.dtype).removeprefix('torch.')}{[_number(s) for s in value.shape]}"
            )
        if node.op == "output":
            continue
        given = ", ".join(map(str, node.args))
        target = "input" if node.op == "placeholder" else str(node.target)
        if callable(node.target) and not isinstance(node.target, OpOverload | OpOverloadPacket):
            target = getattr(node.target, "__name__", "?")
        lines.append(f"{node.name}{shape} = {target}({given})" if given else f"{node.name}{shape}")
    return "\n".join(lines)[:_MOST_TEXT]
