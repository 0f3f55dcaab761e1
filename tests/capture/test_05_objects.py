# mypy: ignore-errors
"""Classes and instances: attributes, descriptors, dunders, inheritance, dataclasses, enums."""

import abc
import dataclasses
import enum
import functools
import types

import pytest
import torch

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


class Scale:
    kind = "scale"
    default = 2

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

    def shifted(self, x, n=1):
        return self(x) + n

    @classmethod
    def standard(cls):
        return cls(cls.default)

    @staticmethod
    def double(x):
        return x * 2

    @property
    def twice(self):
        return self.by * 2


class Bigger(Scale):
    default = 5

    def shifted(self, x, n=1):
        return super().shifted(x, n) * 10

    @property
    def twice(self):
        return super().twice + 1


@programs(
    lambda: (t(3), Scale(3)),
    changes={"attribute": lambda: (t(3), Scale(4)), "class": lambda: (t(3), Bigger(3))},
    keeps={"attribute": lambda: (t(3), Scale(3))},
)
def method_of_argument(x, s):
    return s.shifted(x)


@programs(one, ops=["mul", "add"])
def instance_made_inside(x):
    return Scale(3).shifted(x)


@programs(one)
def instance_returned(x):
    s = Scale(x + 1)
    s.extra = [s.by]
    return s


@programs(one)
def inheritance_and_super(x):
    return Bigger(2).shifted(x, n=3), Bigger(2).twice, Bigger.standard().by, Scale.double(x)


@programs(lambda: (t(3), Bigger(2)), changes={"value": lambda: (t(3), Bigger(7))})
def property_of_argument(x, s):
    return x * s.twice


@programs(lambda: (t(3), Scale(2)))
def bound_methods(x, s):
    f = s.shifted
    return f(x), f.__self__ is s, f.__func__ is Scale.shifted, s.shifted == s.shifted


@programs(lambda: (t(3), Scale(2)))
def attribute_functions(x, s):
    setattr(s, "extra", 5)
    found = getattr(s, "extra"), getattr(s, "none", None), hasattr(s, "zz"), hasattr(s, "by")
    del s.extra
    return x * s.by, found, "extra" in vars(s)


@programs(lambda: (t(3), Scale(2)), raises=AttributeError)
def missing_attribute(x, s):
    return x + s.no_such


@programs(lambda: (t(3), Scale(2)), changes={"shadowed": lambda: (t(3), shadowed())})
def class_attribute(x, s):
    return x * s.default, s.kind, type(s).default


def shadowed():
    s = Scale(2)
    s.default = 9
    return s


@programs(lambda: (t(3), Scale(2)))
def isinstance_and_type(x, s):
    return (
        x * isinstance(s, Scale),
        isinstance(s, (int, Bigger)),
        issubclass(Bigger, Scale),
        type(s) is Scale,
        type(s).__name__,
        s.__class__ is Scale,
    )


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, cls=None):
        return self if obj is None else getattr(obj, self.name) + 1

    def __set__(self, obj, value):
        if value < 0:
            raise ValueError(f"{self.name} is negative: {value}")
        setattr(obj, self.name, value)


class WithDescriptor:
    size = Positive()

    def __init__(self, size):
        self.size = size


@programs(lambda: (t(3), WithDescriptor(4)), changes={"value": lambda: (t(3), WithDescriptor(0))})
def data_descriptor(x, w):
    w.size = w.size + 1
    return x * w.size


@programs(one, raises=ValueError)
def descriptor_that_refuses(x):
    WithDescriptor(3).size = -1
    return x


class Lazy:
    def __init__(self):
        self.made = 0

    @functools.cached_property
    def table(self):
        self.made += 1
        return [1, 2, 3]


@programs(lambda: (t(3), Lazy()))
def cached_property(x, lazy):
    return x * len(lazy.table) + len(lazy.table), lazy.made


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@programs(lambda: (t(3), Slotted(2)), changes={"value": lambda: (t(3), Slotted(3))})
def slots(x, s):
    s.b = x * s.a
    return s.b, s


@programs(lambda: (t(3), Slotted(2)), raises=AttributeError)
def empty_slot(x, s):
    return s.b


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    sizes: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.scale + sum(self.sizes)


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: str = "x"


@programs(lambda: (t(3), Config(3.0, [1])), changes={"field": lambda: (t(3), Config(3.0, [2]))})
def dataclass_argument(x, config):
    return x * config.total(), config


@programs(one)
def dataclass_made_inside(x):
    c = Config(x, [1])
    return c, dataclasses.replace(Config(1.0), scale=2.0), Config(1.0) == Config(1.0)


@programs(one)
def frozen_dataclass(x):
    f = Frozen(1)
    return x + f.a, f < Frozen(2), {f: 1}[Frozen(1)], repr(f), dataclasses.astuple(f)


@programs(one, raises=dataclasses.FrozenInstanceError)
def frozen_dataclass_refuses(x):
    Frozen(1).a = 2
    return x


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def weight(self):
        return self.value * 10


class Flags(enum.IntFlag):
    A = 1
    B = 2


@programs(lambda: (t(3), Color.RED), changes={"member": lambda: (t(3), Color.BLUE)})
def enum_member(x, color):
    if color is Color.RED:
        return x * color.weight, color.name
    return x + color.weight, color


@programs(one)
def enum_lookups(x):
    return (
        x + len(Color),
        Color(2),
        Color["RED"],
        list(Color),
        Flags.A | Flags.B,
        Flags.A in Flags(3),
    )


class Fallback:
    def __init__(self):
        self.real = 2

    def __getattr__(self, name):
        if name.startswith("n"):
            return len(name)
        raise AttributeError(f"no {name}")


@programs(lambda: (t(3), Fallback()))
def getattr_hook(x, f):
    return x * f.real + f.nnn, hasattr(f, "other"), getattr(f, "zz", 7)


class Watched:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __getattribute__(self, name):
        if name != "log":
            object.__getattribute__(self, "log").append(name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        object.__getattribute__(self, "log").append(name + "=")
        object.__setattr__(self, name, value)


@programs(lambda: (t(3), Watched()))
def getattribute_hook(x, w):
    w.size = 3
    return x * w.size, w.log


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.__name__.lower()
        return made

    @property
    def size(cls):
        return 4

    def __contains__(cls, item):
        return item == 3


class Tagged(metaclass=Meta):
    pass


@programs(one)
def metaclass(x):
    return x * Tagged.size, Tagged().tag, 3 in Tagged, type(Tagged) is Meta


class Vec:
    def __init__(self, *items):
        self.items = items

    def __add__(self, other):
        return Vec(*(a + b for a, b in zip(self.items, other.items)))

    def __radd__(self, other):
        return Vec(*(other + a for a in self.items))

    def __mul__(self, n):
        return Vec(*(a * n for a in self.items)) if isinstance(n, int) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __iadd__(self, other):
        self.items = self.items + other.items
        return self

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)

    def __eq__(self, other):
        return isinstance(other, Vec) and len(self) == len(other)

    __hash__ = None

    def __lt__(self, other):
        return len(self) < len(other)

    def __contains__(self, item):
        return any(item is i for i in self.items)

    def __bool__(self):
        return len(self) > 1


@programs(lambda: (t(3), t(3)))
def operator_overloading(x, y):
    v = Vec(x, y) + Vec(y, y)
    w = 3 * v + -v
    w += Vec(x)
    return v, w, 1 + Vec(2), Vec(1) == Vec(2), Vec(1) < Vec(1, 2), x in w, bool(Vec(1)), len(w)


@programs(one, raises=TypeError)
def unsupported_operand(x):
    return Vec(1) * "a"


@programs(one)
def sequence_protocol(x):
    v = Vec(x, x + 1, x + 2)
    return [i * 2 for i in v], v[0], v[1:], list(v), v[-1] is v.items[2]


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@programs(lambda: (t(3), Countdown(4)))
def iterator_class(x, countdown):
    for n in countdown:
        x = x + n
        if n == 2:
            break
    return x, list(countdown), sum(Countdown(3))


class Scope:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind and kind.__name__)
        return self.swallow


@programs(lambda: (t(3), []))
def context_manager_class(x, log):
    with Scope(log) as outer, Scope(outer.log, swallow=True):
        x = x + 1
        raise ValueError("swallowed")
    return x * 2


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return 4


@programs(one)
def abstract_class(x):
    return x * Square().area(), isinstance(Square(), Shape)


@programs(one, raises=TypeError)
def abstract_instantiation(x):
    return Shape()


@programs(one)
def class_defined_inside(x):
    class Local(Scale):
        factor = 3

        def __call__(self, y):
            return super().__call__(y) * self.factor + x

    return Local(2)(x), Local.__mro__[1] is Scale


class A:
    def who(self):
        return ["A"]


class B(A):
    def who(self):
        return ["B", *super().who()]


class C(A):
    def who(self):
        return ["C", *super().who()]


class D(B, C):
    def who(self):
        return ["D", *super().who()]


@programs(one)
def diamond(x):
    return x + len(D().who()), D().who(), [k.__name__ for k in D.__mro__]


class Registry:
    classes = {}

    def __init_subclass__(cls, /, name, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.name = name


@programs(one)
def init_subclass(x):
    class Child(Registry, name="child"):
        pass

    return x + 1, Child.name


class Single:
    made = None

    def __new__(cls, *args):
        if cls.made is None:
            cls.made = super().__new__(cls)
        return cls.made


@programs(one, reset=lambda: setattr(Single, "made", None), world=lambda: Single.made)
def new_with_class_state(x):
    return x + 1, Single() is Single()


@programs(lambda: (t(3), types.SimpleNamespace(n=2, deep=types.SimpleNamespace(m=3))))
def simple_namespace(x, ns):
    ns.n += 1
    return x * ns.n + ns.deep.m, types.SimpleNamespace(y=x)


@programs(lambda: (t(3), Scale(2)))
def instance_dict(x, s):
    s.__dict__["by"] = 5
    return x * s.by, dict(vars(s)), list(s.__dict__)


class Text:
    def __repr__(self):
        return "<text>"

    def __str__(self):
        return "text"

    def __format__(self, spec):
        return f"[{spec}]"

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return isinstance(other, Text)


@programs(one)
def textual_dunders(x):
    a = Text()
    return x + 1, f"{a} {a!r} {a:>3}", str(a), repr([a]), {a: 1}[Text()], hash(a), a in [Text()]


class Chain:
    def __init__(self):
        self.steps = []

    def then(self, step):
        self.steps.append(step)
        return self

    def run(self, x):
        for step in self.steps:
            x = step(x)
        return x


@programs(one)
def fluent_interface(x):
    return Chain().then(torch.sin).then(lambda y: y + 1).then(Scale(2)).run(x)


class Node:
    def __init__(self, value, parent=None):
        self.value, self.parent, self.children = value, parent, []
        if parent is not None:
            parent.children.append(self)

    def total(self):
        return self.value + sum(child.total() for child in self.children)


def tree():
    root = Node(t(3))
    Node(t(3), Node(t(3), root))
    return (root,)


@programs(tree)
def object_graph_with_cycles(root):
    return root.total(), root.children[0].parent is root


@programs(one)
def object_graph_made_inside(x):
    root = Node(x)
    Node(x + 1, root)
    return root


class Proxy:
    def __init__(self, target):
        self._target = target

    def __getattr__(self, name):
        return getattr(self._target, name)

    def __call__(self, *args):
        return self._target(*args)


@programs(lambda: (t(3), Proxy(Scale(3))))
def delegation(x, proxy):
    return proxy(x) + proxy.by, proxy.shifted(x)


class Holder:
    def __init__(self, x):
        self.x = x


def held_twice():
    x = t(3)
    return Holder(x), Holder(x)


@programs(held_twice, changes={"sharing": lambda: (Holder(t(3)), Holder(t(3)))})
def one_tensor_in_two_objects(a, b):
    a.x.add_(1)
    return b.x * 2, a.x is b.x


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
