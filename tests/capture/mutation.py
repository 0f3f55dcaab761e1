"""Guard soundness by mutation: change one thing of the world, and compare with eager again.

A compiled program is called on worlds that each differ from the first one in one place. The places
are all that can be reached from the arguments, the closure and the globals that the function names,
through containers, instances, classes and functions. Either a guard fails and the program is
compiled anew, or the result is that of eager anyway.

A `Mutation` is a path and a change. Paths, not objects: the same change is made to the fresh
arguments of the eager call and to those of the compiled one.
"""

import collections
import difflib
import dis
import enum
import itertools
import random
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from tests.walk import inherits

from . import harness
from .harness import Given, MismatchError, Outcome, Program, Recording

Undo: TypeAlias = Callable[[], object]
DEPTH: Final = 5
WIDTH: Final = 6
_NOTHING: Final = object()


# ---------------------------------------------------------------------- places


@dataclass(frozen=True)
class Step:
    """How to get from an object to a part of it, and to put another one there."""

    kind: str  # "item", "attribute", "global", "cell"
    key: Any

    def __str__(self) -> str:
        return f".{self.key}" if self.kind == "attribute" else f"[{self.kind} {self.key!r}]"


Path: TypeAlias = tuple[Step, ...]


class World:
    """The arguments of one call and the function's surroundings."""

    def __init__(self, program: Program, given: Given) -> None:
        self.fn: Any = program.fn
        self.args = list(given.args)
        self.kwargs = given.kwargs

    def get(self, path: Path) -> Any:
        """What is at a path; raises LookupError where the world has no such place (any more)."""
        found: Any = self
        for step in path:
            found = _get(self, found, step)
        return found

    def put(self, path: Path, value: Any) -> Undo:
        """Puts another object at a path; returns what undoes that."""
        owner, step = self.get(path[:-1]), path[-1]
        old = _get(self, owner, step)
        _set(self, owner, step, value)
        return lambda: _set(self, owner, step, old)

    def roots(self) -> Iterator[Step]:
        yield from (Step("argument", i) for i in range(len(self.args)))
        yield from (Step("keyword", name) for name in self.kwargs)
        yield from (Step("cell", i) for i in range(len(self.fn.__closure__ or ())))
        names = (i.argval for i in dis.get_instructions(self.fn) if i.opname == "LOAD_GLOBAL")
        yield from (Step("global", n) for n in dict.fromkeys(names) if n in self.fn.__globals__)


def _get(world: World, owner: Any, step: Step) -> Any:
    key = step.key
    match step.kind:
        case "argument":
            return world.args[key]
        case "keyword":
            return world.kwargs[key]
        case "cell":
            function = world.fn if owner is world else owner
            return function.__closure__[key].cell_contents
        case "global":
            return world.fn.__globals__[key]
        case "attribute":
            return object.__getattribute__(owner, "__dict__")[key]
        case "class attribute":
            return type.__getattribute__(owner, "__dict__")[key]
        case "class":
            return type(owner)
    return owner[key]


def _set(world: World, owner: Any, step: Step, value: Any) -> None:
    key = step.key
    match step.kind:
        case "argument":
            world.args[key] = value
        case "keyword":
            world.kwargs[key] = value
        case "cell":
            function = world.fn if owner is world else owner
            function.__closure__[key].cell_contents = value
        case "global":
            world.fn.__globals__[key] = value
        case "attribute":
            object.__getattribute__(owner, "__dict__")[key] = value
        case "class attribute":
            setattr(owner, key, value)
        case "class":
            owner.__class__ = value
        case _:
            owner[key] = value


def _user_class(cls: type) -> bool:
    """Classes of the test files: others are not ours to change, even for a moment.

    Nor are the insides of enums, which nobody changes.
    """
    return not inherits(cls, enum.Enum) and cls.__module__.startswith("tests.capture.test_")


def parts(value: Any) -> Iterator[Step]:
    """The places inside an object."""
    cls = type(value)
    if inherits(cls, type):
        if _user_class(value):
            names = type.__getattribute__(value, "__dict__")
            yield from (Step("class attribute", n) for n in names if not n.startswith("__"))
        return
    if cls in (list, collections.deque, dict, collections.OrderedDict, collections.defaultdict):
        keys = value if inherits(cls, dict) else range(len(value))
        yield from (Step("item", key) for key in list(keys)[:WIDTH])
    elif cls is types.FunctionType:
        yield from (Step("cell", i) for i in range(len(value.__closure__ or ())))
    elif inherits(cls, nn.Module) or cls is types.SimpleNamespace or _user_class(cls):
        with suppress(AttributeError):
            space = object.__getattribute__(value, "__dict__")
            yield from (Step("attribute", n) for n in list(space) if "_hooks" not in n)
        if _user_class(cls):
            yield Step("class", None)


def places(world: World) -> Iterator[tuple[Path, Any]]:
    """Every place that can be reached, with what is there; each object is entered once."""
    pending: collections.deque[Path] = collections.deque((step,) for step in world.roots())
    seen: set[int] = set()
    while pending:
        path = pending.popleft()
        try:
            value = world.get(path)
        except (LookupError, ValueError, TypeError, AttributeError):
            continue
        yield path, value
        if len(path) < DEPTH and id(value) not in seen:
            seen.add(id(value))
            pending.extend((*path, step) for step in parts(value))


# ---------------------------------------------------------------------- changes


@dataclass(frozen=True)
class Mutation:
    """A change at a place: `apply(world)` makes it and returns what undoes it."""

    path: Path
    name: str
    apply: Callable[[World], Undo]

    def __str__(self) -> str:
        return f"{self.name} at {''.join(map(str, self.path))}"


def _replacing(path: Path, name: str, change: Callable[[Any], Any]) -> Mutation:
    return Mutation(path, name, lambda world: world.put(path, change(world.get(path))))


def _in_place(path: Path, name: str, change: Callable[[Any], Undo]) -> Mutation:
    return Mutation(path, name, lambda world: change(world.get(path)))


# type -> (name, other value)
_CONSTANTS: Final[dict[type, Sequence[tuple[str, Callable[[Any], Any]]]]] = {
    bool: [("negated", lambda v: not v), ("as int", int)],
    int: [("plus one", lambda v: v + 1), ("as float", float), ("negative", lambda v: -v - 1)],
    float: [("plus a half", lambda v: v + 0.5), ("negative", lambda v: -v - 1.0)],
    str: [("longer", lambda v: v + "x")],
    type(None): [("a number", lambda v: 3)],
}

_TENSORS: Final[Sequence[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]] = [
    ("other values", lambda v: v.detach().clone().zero_().requires_grad_(v.requires_grad)),
    ("other dtype", lambda v: v.detach().to(torch.float64)),
    ("integers", lambda v: v.detach().to(torch.int64)),
    ("longer", lambda v: torch.cat([v.detach(), v.detach()]) if v.dim() else v.detach()[None]),
    ("other strides", lambda v: torch.stack([v.detach(), v.detach()], -1)[..., 0]),
    ("other requires_grad", lambda v: v.detach().clone().requires_grad_(not v.requires_grad)),
    ("a parameter", lambda v: nn.Parameter(v.detach().clone())),
]


def _list_changes(path: Path) -> Iterator[Mutation]:
    def appended(items: Any) -> Undo:
        items.append(items[0] if len(items) else 1)
        return lambda: items.pop()

    def shortened(items: Any) -> Undo:
        last = items.pop()
        return lambda: items.append(last)

    def turned(items: Any) -> Undo:
        items.reverse()
        return lambda: items.reverse()

    yield _in_place(path, "appended", appended)
    yield _in_place(path, "shortened", shortened)
    yield _in_place(path, "reversed", turned)
    yield _replacing(path, "copied", lambda items: type(items)(items))
    yield _replacing(path, "a tuple", tuple)


def _dict_changes(path: Path) -> Iterator[Mutation]:
    def replaced(change: Callable[[Any], None]) -> Callable[[Any], Undo]:
        def apply(d: Any) -> Undo:
            before = list(dict.items(d))
            change(d)

            def undo() -> None:
                dict.clear(d)
                dict.update(d, before)

            return undo

        return apply

    def reordered(d: Any) -> None:
        # An OrderedDict keeps an order of its own, which dict's methods would leave behind.
        base: Any = collections.OrderedDict if isinstance(d, collections.OrderedDict) else dict
        items = list(base.items(d))[::-1]
        base.clear(d)
        base.update(d, items)

    yield _in_place(path, "a key added", replaced(lambda d: d.update(mutation_added=1)))
    yield _in_place(path, "a key removed", replaced(lambda d: d.popitem()))
    yield _in_place(path, "reordered", replaced(reordered))
    yield _replacing(path, "an ordered dict", collections.OrderedDict)


def _module_changes(path: Path) -> Iterator[Mutation]:
    def eval_mode(m: nn.Module) -> Undo:
        before = m.training
        m.train(not before)
        return lambda: m.train(before)

    def frozen(m: nn.Module) -> Undo:
        before = [(p, p.requires_grad) for p in m.parameters()]
        m.requires_grad_(False)
        return lambda: [p.requires_grad_(flag) for p, flag in before]

    def hooked(m: nn.Module) -> Undo:
        return m.register_forward_hook(lambda m, args, out: None).remove

    def pre_hooked(m: nn.Module) -> Undo:
        return m.register_forward_pre_hook(lambda m, args: (args[0] * 2, *args[1:])).remove

    yield _in_place(path, "other mode", eval_mode)
    yield _in_place(path, "frozen", frozen)
    yield _in_place(path, "a hook", hooked)
    yield _in_place(path, "a changing pre-hook", pre_hooked)
    yield _in_place(path, "in double precision", lambda m: m.double() and m.float)


def _instance_changes(path: Path, value: Any) -> Iterator[Mutation]:
    """Attributes that come and go; a class attribute of the same name is what then counts."""
    space = object.__getattribute__(value, "__dict__")

    def without(name: str) -> Callable[[Any], Undo]:
        def apply(obj: Any) -> Undo:
            inside = object.__getattribute__(obj, "__dict__")
            before = list(inside.items())
            inside.pop(name)

            def undo() -> None:
                inside.clear()
                inside.update(before)

            return undo

        return apply

    def added(obj: Any) -> Undo:
        inside = object.__getattribute__(obj, "__dict__")
        inside["mutation_added"] = 1
        return lambda: inside.pop("mutation_added")

    def shadowing(name: str) -> Callable[[Any], Undo]:
        def apply(obj: Any) -> Undo:
            inside = object.__getattribute__(obj, "__dict__")
            inside[name] = 3
            return lambda: inside.pop(name, None)

        return apply

    yield _in_place(path, "an attribute added", added)
    for name in list(space)[:WIDTH]:
        yield _in_place(path, f"without {name}", without(name))
    for name in [n for n in vars(type(value)) if not n.startswith("__") and n not in space][:WIDTH]:
        yield _in_place(path, f"{name} shadowed", shadowing(name))


def _class_changes(path: Path, value: type) -> Iterator[Mutation]:
    def with_dunder(name: str, method: Any) -> Callable[[Any], Undo]:
        def apply(cls: Any) -> Undo:
            old = type.__getattribute__(cls, "__dict__").get(name, _NOTHING)
            setattr(cls, name, method)
            return lambda: delattr(cls, name) if old is _NOTHING else setattr(cls, name, old)

        return apply

    for name, method in (
        ("__len__", lambda self: 2),
        ("__bool__", lambda self: False),
        ("__getattr__", lambda self, name: 5),
        ("__eq__", lambda self, other: False),
        ("mutation_added", lambda self: None),
    ):
        yield _in_place(path, f"{name} on the class", with_dunder(name, method))
    for name, member in list(vars(value).items()):
        if type(member) is types.FunctionType and not name.startswith("__"):
            yield _replacing((*path, Step("class attribute", name)), "other method", _returning_it)


def _returning_it(method: Any) -> Any:
    """A method that calls the old one and answers something else."""

    def other(self: Any, *args: Any, **kwargs: Any) -> Any:
        method(self, *args, **kwargs)
        return args[0] if args else None

    return other


def changes(path: Path, value: Any) -> Iterator[Mutation]:
    """What can be changed about the object at a place."""
    cls = type(value)
    if cls in _CONSTANTS:
        yield from (_replacing(path, name, change) for name, change in _CONSTANTS[cls])
    elif inherits(cls, torch.Tensor):
        yield from (_replacing(path, name, change) for name, change in _TENSORS)
        yield _replacing(path, "a number instead of a tensor", lambda v: 2.0)
        yield _in_place(path, "an attribute on a tensor", _tagged)
    elif cls in (list, collections.deque):
        yield from _list_changes(path)
    elif cls in (dict, collections.OrderedDict, collections.defaultdict):
        yield from _dict_changes(path)
    elif cls is types.FunctionType and path[-1].kind in ("global", "argument", "item"):
        yield _replacing(path, "other function", _wrapped)
        if value.__defaults__ and _user_function(value):
            yield _in_place(path, "other defaults", _other_defaults)
    elif inherits(cls, nn.Module):
        yield from _module_changes(path)
        yield from _instance_changes(path, value)
    elif inherits(cls, type) and _user_class(value):
        yield from _class_changes(path, value)
    elif cls is types.SimpleNamespace or _user_class(cls):
        with suppress(AttributeError):
            yield from list(_instance_changes(path, value))


def _user_function(value: types.FunctionType) -> bool:
    return value.__module__.startswith("tests.capture.test_")


def _wrapped(function: Any) -> Any:
    def other(*args: Any, **kwargs: Any) -> Any:
        return [function(*args, **kwargs)]

    return other


def _other_defaults(function: Any) -> Undo:
    before = function.__defaults__
    function.__defaults__ = (*before[:-1], 4)
    return lambda: setattr(function, "__defaults__", before)


def _tagged(tensor: Any) -> Undo:
    tensor.mutation_added = 1
    return lambda: delattr(tensor, "mutation_added")


def aliasing(world: World) -> Iterator[Mutation]:
    """Two places that hold the same tensor from now on."""
    found = [(path, v) for path, v in places(world) if inherits(type(v), torch.Tensor)]
    for (path, a), (other, b) in itertools.pairwise(found):
        if a is not b and type(a) is type(b):
            yield Mutation(path, f"the same as {''.join(map(str, other))}", _same_as(path, other))


def _same_as(path: Path, other: Path) -> Callable[[World], Undo]:
    return lambda world: world.put(path, world.get(other))


def mutations(program: Program) -> list[Mutation]:
    """All changes to the world of a program."""
    world = World(program, program.given(1))
    found = [m for path, value in places(world) for m in changes(path, value)]
    found += aliasing(world)
    return [m for m in found if not undefined(program, m)]


# Fused kernels given weights of two dtypes: eager's result depends on whether a dispatch mode (the
# tape) is active; the LSTM's backward kills the process for other changes, too. Running statistics
# with strides: eager reads memory it should not. The loops do not end for other numbers.
UNDEFINED: Final = {
    "lstm": "",
    "gru": "other dtype",
    "attention": "other dtype",
    "transformer_encoder_layer": "other dtype",
    "batch_norm_eval": "other strides",
    "collatz": "",
    "iterator_class": "",
}


def undefined(program: Program, mutation: Mutation) -> bool:
    """Changes after which eager itself has no definite result."""
    return UNDEFINED.get(program.name, "-") in str(mutation)


# ---------------------------------------------------------------------- the check


@contextmanager
def mutated(program: Program, mutation: Mutation, skipped: list[str]) -> Iterator[None]:
    """While this holds, the program's arguments come with the mutation."""
    original = program.given
    with ExitStack() as undoing:

        def given(seed: int, make: harness.Make | None = None) -> Given:
            made = original(seed, make)
            world = World(program, made)
            try:
                undoing.callback(_quietly, mutation.apply(world))
            except Exception as error:  # a mutation that this world has no place for
                skipped.append(f"{mutation}: {error!r}")
            return Given(tuple(world.args), world.kwargs)

        object.__setattr__(program, "given", given)
        try:
            yield
        finally:
            object.__delattr__(program, "given")


def _quietly(undo: Undo) -> None:
    with suppress(Exception):  # the program may have removed what was changed
        undo()


def _agree(expected: Outcome, found: Outcome) -> bool:
    """Equal; where a mutation makes the program raise, the type of the exception is enough.

    Texts and tracebacks are the business of the curriculum: here they would be noise.
    """
    if expected.error is not None:
        return type(expected.error) is type(found.error)
    return expected.lines == found.lines


class Survey:
    """The mutations of one program, tried one after the other against one compiled function."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.compiled: Any = None
        self.tried = 0
        self.skipped: list[str] = []
        self.compile()

    def compile(self) -> None:
        """A function with one entry, for the unchanged world."""
        harness.reset_engine()
        self.compiled = harness.compile_with(self.program.fn, backend=Recording())
        expected = harness.call(self.program, self.program.fn, 1)
        if not _agree(expected, harness.call(self.program, self.compiled, 1)):
            raise MismatchError(f"{self.program.name} differs before any mutation")

    def unseen(self, tried: Sequence[Mutation]) -> list[str]:
        """What the compiled function does not see, in words."""
        found = []
        for mutation in tried:
            try:
                self.tries(mutation)
            except MismatchError as mismatch:
                found.append(str(mismatch))
                self.compile()
        return found

    def tries(self, mutation: Mutation) -> None:
        """Raises `MismatchError` where the compiled function does not see the change."""
        program, before = self.program, len(self.skipped)
        with mutated(program, mutation, self.skipped):
            expected = harness.call(program, program.fn, 1)
        if len(self.skipped) > before:
            return
        with mutated(program, mutation, self.skipped):
            found = harness.call(program, self.compiled, 1)
        if not _agree(expected, found):
            diff = difflib.unified_diff(expected.lines, found.lines, "eager", "compiled", "", "", 0)
            text = f"{program.name}: {mutation} (eager {expected.error!r}, now {found.error!r})"
            raise MismatchError("\n".join([text, *itertools.islice(diff, 20)])) from found.error
        self.tried += 1
        if self.compiled.statistics()["misses"] > 4:  # stay under the limit of recompilations
            self.compile()


def chosen(
    programs: Sequence[Program], count: int | None, seed: int = 0
) -> list[tuple[Program, list[Mutation]]]:
    """The mutations to try, by program: all of them, or so many drawn over all programs."""
    every = [(program, mutation) for program in programs for mutation in mutations(program)]
    if count is not None and count < len(every):
        every = random.Random(seed).sample(every, count)
    by_program: dict[str, tuple[Program, list[Mutation]]] = {}
    for program, mutation in every:
        by_program.setdefault(program.name, (program, []))[1].append(mutation)
    return list(by_program.values())
