"""One entry: from its parts to data, and from data to guards and to what it calls.

Stage: store. In: `Parts`. Out: `Stored`; and from that, for a call, `Loaded`, which has all that
the driver puts into a bucket. What an entry calls is made again by the emitter from its plan, so
the file holds no Python code but the names of kernels in their order (`kernels.py`).
"""

import ast
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from stator import objects
from stator._native._core import NULL
from stator.effects.instruction import Step, Way
from stator.effects.steps import Plan
from stator.effects.suspension import Exit, Suspension
from stator.guards import Guard, Source
from stator.guards.reference import Call
from stator.store import graphs, kernels, kinds, things
from stator.store.codec import Reader, Row, Writer
from stator.store.files import Stored
from stator.store.parts import Around, Graph, Kernels, Parts
from stator.store.reasons import Damaged, Reason, Stale, Unstorable
from stator.torchlib.modes import set_grad_enabled as torch_set_grad_enabled

_EXITS: Final = ("way", "other", "caught")


@dataclass(frozen=True, eq=False)
class Loaded:
    """An entry that was read, for a call: its guards may or may not hold for it."""

    guards: tuple[Guard, ...]
    plan: Plan
    inputs: tuple[Source, ...]
    graph: Callable[..., Any] | None
    around: Around
    suspension: Suspension | None
    name: str
    operators: tuple[str, ...]
    code: str | None
    broken: tuple[Any, ...] | None
    steady: bool
    ranges: tuple[str, ...]
    native: bool


def store(parts: Parts) -> Stored:
    """The entry as data; raises Unstorable. The header is the caller's."""
    if isinstance(parts.artefact, Unstorable):
        raise parts.artefact
    if isinstance(parts.around, Unstorable):
        raise parts.around
    writer = Writer()
    writer.paths.update(kinds.paths_of(parts.guards))
    writer.cells.update(kinds.cells_of(parts.guards))
    kinds.names_of(writer, parts.guards)
    found = [writer.of(guard) for guard in parts.guards]
    plan = writer.of(parts.plan)
    inputs = [writer.of(source) for source in parts.inputs]
    graph: Row | None = None
    if isinstance(parts.artefact, Graph):
        graph = ["graph", *graphs.write(writer, parts.artefact.module)]
    elif isinstance(parts.artefact, Kernels):
        kept = parts.artefact
        graph = ["kernels", *kernels.write(writer, kept.compiled), kept.grad]
    ending = None if parts.suspension is None else _suspension(writer, parts.suspension)
    around = parts.around
    rest = {
        "around": [
            *([*map(list, around.sizes)], around.rerun, around.draws, [*around.changed]),
            around.grad,
        ],
        "name": parts.name,
        "operators": list(parts.operators),
        "code": parts.graph,
        "broken": parts.broken,
        "steady": parts.steady,
        "ranges": list(parts.ranges),
    }
    body = [writer.rows, found, plan, inputs, graph, ending, rest]
    return Stored({}, body, writer.blobs)


def load(stored: Stored, call: Call, folder: Path) -> Loaded:
    """The entry, for a call; raises Stale or Damaged."""
    try:
        rows, found, plan, inputs, graph, ending, rest = stored.body
        reader = Reader(rows, call, stored.blobs)
        reader.read()
        sizes, rerun, draws, changed, grad = rest["around"]
        reads = tuple((int(i), str(n), int(d)) for i, n, d in sizes)
        kept = tuple(map(int, changed))
        around = Around(reads, bool(rerun), bool(draws), kept, bool(grad))
        return Loaded(
            tuple(_typed(reader.all(found), Guard)),
            _typed([reader.at(plan)], Plan)[0],
            tuple(reader.all(inputs)),
            None if graph is None else _graph(reader, graph, folder),
            around,
            None if ending is None else _read_suspension(reader, ending),
            str(rest["name"]),
            tuple(map(str, rest["operators"])),
            rest["code"],
            None if rest["broken"] is None else tuple(rest["broken"]),
            bool(rest["steady"]),
            tuple(rest["ranges"]),
            graph is not None and graph[0] == "kernels",
        )
    except (Stale, Damaged):
        raise
    except Exception as error:
        raise Damaged(f"{type(error).__name__}: {error}") from error


def _typed(found: Sequence[Any], kind: type) -> Sequence[Any]:
    if any(type(each) is not kind for each in found):
        raise Damaged(f"not a {kind.__name__}")
    return found


# ---------------------------------------------------------------------- graphs


def _graph(reader: Reader, row: Row, folder: Path) -> Callable[..., Any]:
    if row[0] == "graph":
        module = graphs.read(reader, row[1:])
        forward: Callable[..., Any] = module.forward
        return forward
    if row[0] != "kernels":
        raise Damaged("no graph")
    return _boxed(kernels.read(reader, row[1:3], folder), bool(row[3]))


def _boxed(inner: Callable[[list[Any]], Any], grad: bool) -> Callable[..., Any]:
    """As the driver calls kernels directly (backends/shortcut.py)."""
    set_grad_enabled = torch_set_grad_enabled

    def call(*args: Any) -> Any:
        return inner(list(args))

    def call_without_grad(*args: Any) -> Any:
        set_grad_enabled(False)
        try:
            return inner(list(args))
        finally:
            set_grad_enabled(True)

    return call_without_grad if grad else call


def around(graph: Callable[..., Any], what: Around) -> Callable[..., Any]:
    """The graph with what happens around it."""
    if what.sizes:
        reads = what.sizes
        if any(name not in ("size", "stride") for _, name, _ in reads):
            raise Damaged("no size")
        inner = graph

        def graph_of_numbers(*args: Any) -> Any:
            return inner(*[getattr(args[k], name)(dim) for k, name, dim in reads], *args)

        graph = graph_of_numbers
    return _in_grad_mode(graph) if what.grad else graph


def _in_grad_mode(graph: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that changes grad mode: it is as it was before, also when the graph raises."""
    set_grad_enabled = torch_set_grad_enabled

    def graph_in_grad_mode(*args: Any) -> Any:
        before = torch.is_grad_enabled()
        try:
            return graph(*args)
        except BaseException:
            if torch.is_grad_enabled() != before:
                set_grad_enabled(before)
            raise

    return graph_in_grad_mode


# ---------------------------------------------------------------------- endings


def _suspension(writer: Writer, found: Suspension) -> Row:
    step = found.step
    _check_text(step.text, step.objects, len(step.operands))
    held = {name: _written_object(writer, value) for name, value in step.objects.items()}
    exits = [_exit(writer, getattr(found, name)) for name in _EXITS]
    return [
        [step.text, len(step.operands), step.iterates, step.raises, step.later, held],
        list(found.operands),
        writer.all(found.places),
        writer.all(found.namespaces),
        found.handled,
        exits,
        found.catcher,
        len(found.values),
    ]


_OPERATIONS: Final = (getattr, setattr, delattr, iter, next, hasattr)
"""What single instructions do, on values that the program has on its stack."""


def _written_object(writer: Writer, value: Any) -> int:
    _check_object(value)
    return writer.of(value)


def _check_object(value: Any) -> None:
    known = value is NULL or type(value) is dict or objects.is_subtype(type(value), type)
    if not known and not any(value is each for each in _OPERATIONS):
        things.check_callable(value)


def _exit(writer: Writer, found: Exit | None) -> Row | None:
    if found is None:
        return None
    arguments = [each if type(each) is int else ["o", writer.of(each)] for each in found.arguments]
    return [writer.all(found.points), arguments]


def _read_suspension(reader: Reader, row: Row) -> Suspension:
    first, operands, places, namespaces, handled, exits, catcher, count = row
    text, size, iterates, raises, later, held = first
    found = {name: reader.at(number) for name, number in held.items()}
    for value in found.values():
        _check_object(value)
    _check_text(text, found, size)
    step = Step(
        text,
        (None,) * size,
        Way(0, ()),
        iterates=iterates,
        raises=raises,
        later=later,
        objects=found,
    )
    way, other, caught = (_read_exit(reader, each) for each in exits)
    if way is None:
        raise Damaged("no way on")
    given: Any = (None,) * count, step, tuple(operands), tuple(reader.all(places))
    rest: Any = tuple(reader.all(namespaces)), handled, way, other, caught, catcher
    return Suspension(*given, *rest)


def _read_exit(reader: Reader, row: Row | None) -> Exit | None:
    if row is None:
        return None
    points, arguments = row
    given = [each if type(each) is int else reader.at(each[1]) for each in arguments]
    return Exit(tuple(reader.all(points)), tuple(given))


_EXPRESSIONS: Final = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Tuple),
    *(ast.List, ast.Dict, ast.Set, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.operator),
    *(ast.unaryop, ast.Compare, ast.cmpop, ast.Attribute, ast.Starred, ast.IfExp, ast.BoolOp),
    *(ast.boolop, ast.JoinedStr, ast.FormattedValue),
)


def _check_text(text: str, held: dict[str, Any], operands: int) -> None:
    """The instruction as an expression: over its operands and named objects, nothing else."""
    if not text:
        return
    names = [f"operand_{number}" for number in range(operands)]
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
        if not all(f.isdecimal() or f in held for f in fields):
            raise Unstorable(Reason.STEP, text)
        tree = ast.parse(text.format(*names, **{name: name for name in held}), mode="eval")
    except (SyntaxError, ValueError, IndexError, KeyError):
        raise Unstorable(Reason.STEP, text) from None
    known = {*names, *held}
    for node in ast.walk(tree):
        if not isinstance(node, _EXPRESSIONS) or (
            isinstance(node, ast.Name) and node.id not in known
        ):
            raise Unstorable(Reason.STEP, text)
