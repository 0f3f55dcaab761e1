# mypy: ignore-errors
"""The standard library where models use it: pure code is simply run."""

import collections.abc
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import operator
import re
import string
import textwrap
import threading
import typing
from fractions import Fraction

import pytest
import torch

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


@programs(one)
def itertools_basics(x):
    return [
        list(itertools.chain([x], [1, 2])),
        list(itertools.islice(itertools.count(3), 3)),
        list(itertools.product("ab", repeat=2)),
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.pairwise("abc")),
        x * sum(itertools.repeat(2, 3)),
    ]


@programs(one)
def itertools_with_functions(x):
    return [
        list(itertools.takewhile(lambda n: n < 3, range(9))),
        list(itertools.starmap(lambda a, b: x * a + b, [(1, 2), (3, 4)])),
        [(k, list(g)) for k, g in itertools.groupby("aabc")],
        list(itertools.filterfalse(lambda n: n % 2, range(5))),
        list(itertools.accumulate([x, x, x], lambda a, b: a * b)),
    ]


@programs(one)
def combinatorics(x):
    return (
        x * math.comb(5, 2),
        list(itertools.combinations(range(3), 2)),
        len(list(itertools.permutations("abc"))),
    )


@programs(one)
def tee_and_zip_longest(x):
    a, b = itertools.tee(iter([x, x + 1]))
    return list(a), list(b), list(itertools.zip_longest([1], [2, 3], fillvalue=0))


@programs(one)
def functools_basics(x):
    add = functools.partial(operator.add, 2)
    return (
        x * add(3),
        functools.reduce(operator.mul, [1, 2, 3]),
        sorted([3, 1], key=functools.cmp_to_key(lambda a, b: a - b)),
    )


@programs(one)
def operator_module(x):
    return (
        operator.add(x, 1),
        operator.itemgetter("k")({"k": 2}),
        operator.attrgetter("shape")(x),
        operator.contains([1], 1),
        operator.matmul(x, x),
        operator.getitem([4, 5], 1),
        operator.index(3),
        operator.not_(1),
    )


@programs(one)
def math_module(x):
    return (
        x * math.sqrt(x.shape[0]),
        math.prod([2, 3]),
        math.gcd(12, 18),
        math.isclose(1, 1 + 1e-12),
        math.ceil(2.1),
        math.log2(8),
        math.inf,
    )


@programs(one)
def regular_expressions(x):
    m = re.match(r"(\w+)\.(?P<n>\d+)", "layer.12.weight")
    return (
        x * int(m["n"]),
        m.groups(),
        re.sub(r"\d", "#", "a1b2"),
        re.findall("[a-z]", "a1b"),
        re.split(",", "a,b"),
    )


PATTERN = re.compile(r"block_(\d+)")


@programs(
    lambda: (t(3), "block_4"),
    changes={"text": lambda: (t(3), "block_5"), "no match": lambda: (t(3), "x")},
)
def compiled_pattern(x, name):
    m = PATTERN.fullmatch(name)
    return x * int(m.group(1)) if m else x


@programs(one)
def string_templates(x):
    return (
        x + 1,
        string.Template("$a-$b").substitute(a=1, b="z"),
        textwrap.dedent("  a"),
        "abc".translate({97: "z"}),
        "a".center(5, "*"),
    )


@programs(one)
def format_specs(x):
    return (
        x + 1,
        f"{3.14159:8.2f}",
        f"{255:#x}",
        f"{1234567:,}",
        f"{'a':^5}",
        format(0.5, "%"),
        "{0[k]}".format({"k": 1}),
    )


@programs(one)
def copy_shallow(x):
    a = {"x": x, "l": [1]}
    b = copy.copy(a)
    b["l"].append(2)
    return a, b


@programs(lambda: (t(3), {"l": [1, [2]], "n": 3}))
def deepcopy_of_containers(x, config):
    mine = copy.deepcopy(config)
    mine["l"][1].append(x + 1)
    return mine, config


class Thing:
    def __init__(self, n):
        self.n, self.items = n, [n]

    def __copy__(self):
        return Thing(self.n + 1)


@programs(lambda: (t(3), Thing(2)))
def copies_of_objects(x, thing):
    deep = copy.deepcopy(thing)
    deep.items.append(3)
    return x * copy.copy(thing).n, deep, thing


@programs(one, free=True)
def deepcopy_of_a_tensor(x):
    y = copy.deepcopy(x)
    y.add_(1)
    return y


@programs(one)
def contextlib_tools(x):
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(name)
        yield name
        log.append("end")

    with contextlib.ExitStack() as stack, contextlib.nullcontext(2) as n:
        stack.enter_context(scope("a"))
        x = x * n
    with contextlib.suppress(ValueError):
        raise ValueError
    return x, log


class Scoped(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


@Scoped()
def scoped(x):
    return x * 2


@programs(one)
def context_decorator(x):
    return scoped(x)


@dataclasses.dataclass
class Item:
    value: object
    size: int = 1
    tags: list = dataclasses.field(default_factory=list, repr=False)

    def __post_init__(self):
        self.total = self.size * 2


@dataclasses.dataclass(slots=True, kw_only=True)
class Slim:
    a: int = 1


@programs(one)
def dataclass_tools(x):
    item = Item(3, tags=["t"])
    bigger = dataclasses.replace(item, size=5)
    return (
        x * bigger.total,
        dataclasses.asdict(item),
        [f.name for f in dataclasses.fields(Item)],
        item,
        dataclasses.is_dataclass(item),
    )


@programs(one)
def dataclass_with_slots(x):
    return x * Slim(a=3).a, Slim(), Slim() == Slim(a=1)


@programs(one)
def dataclass_of_tensors(x):
    item = Item(x + 1)
    return item, item.value * item.size


class Mode(str, enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@programs(lambda: (t(3), "fast"), changes={"mode": lambda: (t(3), Mode.SLOW)})
def string_enum(x, mode):
    return (x * 2 if mode == Mode.FAST else x * 3), Level.HIGH + 1, Level(1).name, max(Level)


class Point(typing.NamedTuple):
    x: object
    y: int = 2


@programs(one)
def typing_named_tuple(x):
    p = Point(x)
    return p, p.x * p.y, p._replace(y=5).y, isinstance(p, tuple)


@programs(one)
def typing_tools(x):
    return (
        typing.cast(int, x) + 1,
        typing.get_origin(list[int]) is list,
        typing.Optional[int] == (int | None),
    )


class Ring(collections.abc.Sequence):
    def __init__(self, *items):
        self.items = items

    def __getitem__(self, i):
        return self.items[i % len(self.items)]

    def __len__(self):
        return len(self.items)


class Registry(collections.abc.MutableMapping):
    def __init__(self):
        self.data = {}

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key.lower()] = value

    def __delitem__(self, key):
        del self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


@programs(one)
def abstract_sequence(x):
    r = Ring(x, x + 1)
    return r[3], list(reversed(r)), len(r), isinstance(r, collections.abc.Sequence)


@programs(lambda: (t(3), Registry()))
def abstract_mapping(x, r):
    r["A"] = x + 1
    r.update({"B": 2})
    return r.pop("a"), dict(r), r.get("zz", 4), r.setdefault("c", 5)


@programs(one)
def abc_checks(x):
    return (
        x + isinstance([], collections.abc.Iterable),
        isinstance({}, collections.abc.Mapping),
        isinstance(len, collections.abc.Callable),
        issubclass(dict, collections.abc.Hashable),
    )


@programs(one)
def fractions(x):
    f = Fraction(1, 3) + Fraction(1, 6)
    return x * float(f), f.numerator, str(f)


@programs(one)
def inspect_signature(x):
    def f(a, b=2, *, c):
        return a

    return x + len(inspect.signature(f).parameters), list(inspect.signature(f).parameters)


@programs(one)
def builtin_conversions(x):
    return (
        x + int("7", 16),
        chr(65),
        ord("a"),
        bin(5),
        hex(255),
        list("ab"),
        tuple([1]),
        complex("1+2j"),
        bytes([65]),
        str(1.5),
        ascii("é"),
    )


@programs(one)
def builtin_iteration(x):
    return (
        list(enumerate("ab", 1)),
        list(zip("ab", (x, 1))),
        list(reversed([1, 2])),
        sorted([3, 1], reverse=True),
        list(filter(None, [0, 1])),
        divmod(7, 2),
    )


@programs(one)
def builtin_introspection(x):
    return (
        x + callable(len),
        type("T", (), {"a": 1}).a,
        getattr(3, "real"),
        vars(Thing(1)),
        dir(Slim())[-1],
        hash("") == hash(""),
    )


@programs(one)
def bound_builtin_methods(x):
    a = []
    append = a.append
    for n in range(3):
        append(x * n)
    join = "-".join
    return a, join(["a", "b"])


LOCK = threading.Lock()


@programs(one, world=LOCK.locked)
def lock_as_context_manager(x):
    with LOCK:
        y = x + 1
    with LOCK:
        return y * 2


@functools.total_ordering
class Version:
    def __init__(self, *parts):
        self.parts = parts

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts


@programs(one)
def total_ordering(x):
    return (
        x + (Version(1, 2) >= Version(1, 1)),
        Version(2) > Version(1),
        max(Version(1), Version(3)).parts,
    )


@programs(one)
def torch_tree_functions(x):
    tree = {"a": [x, 1], "b": (x + 1,)}
    mapped = torch.utils._pytree.tree_map(lambda leaf: leaf * 2, tree)
    leaves, _ = torch.utils._pytree.tree_flatten(mapped)
    return mapped, len(leaves)


@programs(one)
def heap_and_bisect(x):
    import bisect
    import heapq

    heap = [5, 1, 4]
    heapq.heapify(heap)
    return x * heapq.heappop(heap), heap, bisect.bisect([1, 3, 5], 4), heapq.nlargest(2, [1, 5, 3])


@programs(one)
def json_and_hashes(x):
    import json

    return (
        x + 1,
        json.dumps({"b": [1, None], "a": 1.5}, sort_keys=True),
        json.loads('{"k": [1, 2]}'),
    )


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
