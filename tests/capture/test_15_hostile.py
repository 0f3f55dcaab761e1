# mypy: ignore-errors
"""Objects that raise, lie or have effects in their dunders; cycles, finalizers, odd containers."""

import collections
import gc
import weakref

import pytest
import torch

from .harness import Program, Programs, check, t

programs = Programs()
LOG = []


def logged(name, answer):
    def method(self, *args):
        LOG.append(name)
        return answer

    return method


def with_log(make, **claims):
    return programs(make, reset=LOG.clear, world=lambda: LOG, **claims)


def _raise(self, *args, **kwargs):
    raise RuntimeError("touched")


DUNDERS = (
    *("__eq__", "__ne__", "__hash__", "__bool__", "__len__", "__iter__", "__repr__", "__str__"),
    *(
        "__contains__",
        "__getitem__",
        "__call__",
        "__lt__",
        "__getattr__",
        "__format__",
        "__index__",
    ),
)
Raising = type("Raising", (), dict.fromkeys(DUNDERS, _raise))


class Untouchable:
    def __getattribute__(self, name):
        raise RuntimeError(f"touched {name}")


@programs(lambda: (t(3), Raising()))
def unused_raising_object(x, r):
    return x + 1


@programs(lambda: (t(3), Raising(), [Raising()]))
def returned_raising_object(x, r, items):
    return x + 1, r, items, items[0]


@programs(lambda: (t(3), Untouchable()))
def returned_untouchable_object(x, u):
    return x + 1, u, u is None, [u]


@programs(lambda: (t(3), Raising(), []))
def stored_raising_object(x, r, items):
    items.append(r)
    items.append(x + 1)


@programs(lambda: (t(3), Raising()), raises=RuntimeError)
def touched_raising_object(x, r):
    return x + 1 if r else x


@programs(lambda: (t(3), Raising()))
def caught_raising_object(x, r):
    try:
        len(r)
    except RuntimeError as error:
        return x + 1, str(error)


class Loud:
    __eq__ = logged("eq", True)
    __hash__ = logged("hash", 3)
    __bool__ = logged("bool", False)
    __len__ = logged("len", 7)
    __contains__ = logged("contains", True)
    __lt__ = logged("lt", True)
    __index__ = logged("index", 1)
    __repr__ = logged("repr", "loud")
    __format__ = logged("format", "formatted")


@with_log(lambda: (t(3), Loud()))
def truth_with_an_effect(x, loud):
    return x + 1 if loud or not loud else x - 1


@with_log(lambda: (t(3), Loud()))
def equality_with_an_effect(x, loud):
    return x + (loud == 5), loud != 5, 3 in [loud], [loud].index(9), [loud].count(4)


@with_log(lambda: (t(3), Loud()))
def hash_with_an_effect(x, loud):
    d = {loud: 1, 2: 2}
    return x * d[loud], Loud() in d, len({loud, Loud()})


@with_log(lambda: (t(3), Loud()))
def length_and_index_with_an_effect(x, loud):
    return x * len(loud), [4, 5, 6][loud], range(loud), "a" in loud


@with_log(lambda: (t(3), [Loud(), Loud()]))
def comparison_with_an_effect(x, items):
    return x + len(sorted(items)), min(items) is items[0], f"{items[0]} {items!r}"


@with_log(lambda: (t(3), {Loud(): 1}))
def argument_with_a_loud_key(x, d):
    return x + sum(d.values()), len(d)


class LyingClass:
    @property
    def __class__(self):
        return dict


@programs(lambda: (t(3), LyingClass()))
def lying_class(x, liar):
    return x + 1, isinstance(liar, dict), type(liar) is LyingClass, isinstance(liar, list)


class Everything(type):
    def __instancecheck__(cls, instance):
        LOG.append("instancecheck")
        return True

    def __subclasscheck__(cls, sub):
        LOG.append("subclasscheck")
        return False


class Any(metaclass=Everything):
    pass


@with_log(lambda: (t(3),))
def lying_instance_check(x):
    return x + isinstance(3, Any), isinstance(x, Any), issubclass(int, Any)


class OddDict(dict):
    def __getitem__(self, key):
        LOG.append(key)
        return dict.__getitem__(self, key) * 10

    def __missing__(self, key):
        return -1

    def __iter__(self):
        return iter(["only"])

    def __len__(self):
        return 99


@with_log(lambda: (t(3), OddDict(a=1)))
def dict_subclass_with_overrides(x, d):
    return x * d["a"], len(d), list(d), d.get("a"), "a" in d, dict.__len__(d)


class Missing(dict):
    def __missing__(self, key):
        self[key] = value = len(key)
        return value


@programs(lambda: (t(3), Missing(a=1)))
def dict_with_missing(x, d):
    return x * d["long"] + d["a"]


class OddList(list):
    def __iter__(self):
        yield from ("x", "y")

    def __getitem__(self, i):
        return "item"

    def append(self, item):
        LOG.append("append")


@with_log(lambda: (t(3), OddList([1, 2])))
def list_subclass_with_overrides(x, items):
    items.append(5)
    items += [6]
    return x + len(items), list(items), items[0], sum(1 for _ in items), items


class OddStr(str):
    def __eq__(self, other):
        LOG.append("eq")
        return True

    __hash__ = str.__hash__


@with_log(lambda: (t(3), OddStr("k"), {"k": 2}))
def string_subclass_as_key(x, key, d):
    return x * d[key], key == "other", key


class OddInt(int):
    def __add__(self, other):
        return 100

    __radd__ = __add__


@programs(lambda: (t(3), OddInt(2)))
def int_subclass(x, n):
    return x * int(n), n + 1, 1 + n, n * 3, sum([n, n])


class Tracing:
    def __get__(self, obj, cls):
        LOG.append("get")
        return len(LOG)

    def __set__(self, obj, value):
        LOG.append(value)


class WithTracing:
    field = Tracing()


@with_log(lambda: (t(3), WithTracing()))
def descriptor_with_effects(x, w):
    w.field = 5
    return x * w.field + w.field


class Unstable:
    def __init__(self):
        self.n = 0

    @property
    def value(self):
        self.n += 1
        return self.n


@programs(lambda: (t(3), Unstable()))
def property_that_counts(x, u):
    return x * u.value + u.value, u.n


def shared():
    inner = [1]
    return t(3), {"a": inner, "b": (inner,)}, inner


@programs(shared, changes={"not shared": lambda: (t(3), {"a": [1], "b": ([1],)}, [1])})
def one_object_by_three_paths(x, d, inner):
    d["a"].append(2)
    d["b"][0].append(3)
    return x * len(inner), d["a"] is inner


def cyclic():
    a = [1]
    a.append(a)
    d = {"self": None}
    d["self"] = d
    return t(3), a, d


@programs(cyclic)
def cyclic_arguments(x, a, d):
    a[1][1].append(2)
    return x * len(a), d["self"]["self"] is d, a


class Dying:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(f"{self.name} dies")


@with_log(lambda: (t(3),))
def finalizer_of_a_new_object(x):
    d = Dying("new")
    y = x * len(d.name)
    del d
    return y + len(LOG)


@with_log(lambda: (t(3), [Dying("held")]))
def finalizer_of_a_world_object(x, items):
    items.clear()
    return x + 1


@with_log(lambda: (t(3), Dying("kept")))
def object_with_a_finalizer_survives(x, d):
    d.name = "renamed"
    return x + len(d.name), d


def closing(x):
    try:
        yield x * 2
        yield x * 3
    finally:
        LOG.append("closed")


@with_log(lambda: (t(3),))
def generator_that_a_loop_leaves(x):
    for y in closing(x):  # noqa: B007
        break
    return y + len(LOG)


@with_log(lambda: (t(3),))
def generator_that_a_function_leaves(x):
    def first():
        made = closing(x)
        return next(made)

    return first() + len(LOG)


@with_log(lambda: (t(3),))
def generator_that_is_replaced(x):
    made = closing(x)
    y = next(made)
    made = None
    return y + len(LOG), made


class Plain:
    def __init__(self, n=0):
        self.n = n


@programs(lambda: (t(3), Plain(2)))
def weak_reference(x, p):
    r = weakref.ref(p)
    return x * r().n, r() is p


def weakly():
    p = Plain(3)
    return t(3), p, weakref.ref(p)


@programs(weakly)
def weak_reference_of_the_world(x, p, r):
    return x * r().n, r() is p


class BadCompare:
    def __eq__(self, other):
        return "not a bool"

    __hash__ = None


@programs(lambda: (t(3), BadCompare()))
def comparison_that_is_no_bool(x, b):
    return x + 1, b == 1, 1 in [b]


@programs(lambda: (t(3), float("nan")))
def nan_in_containers(x, n):
    return x + 1, n in [n], [n] == [n], {n: 1}.get(n), [n].index(n)


@programs(lambda: (t(3), True), changes={"one": lambda: (t(3), 1), "float": lambda: (t(3), 1.0)})
def equal_keys_of_other_types(x, key):
    d = {1: "int"}
    d[key] = "changed"
    return x + 1, d, [type(k).__name__ for k in d]


class Duck:
    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(func.__name__)
        return func(*(a.value if isinstance(a, Duck) else a for a in args), **(kwargs or {}))


@with_log(lambda: (t(3), Duck(t(3))))
def torch_function_of_a_duck(x, duck):
    return torch.add(x, duck), torch.sin(duck)


class Loudly(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@with_log(lambda: (t(3).as_subclass(Loudly), t(3)))
def torch_function_of_a_subclass(x, y):
    z = x + y
    return z, type(z).__name__, torch.sin(y)


class Hidden(torch.nn.Module):
    def __getattr__(self, name):
        LOG.append(name)
        if name == "virtual":
            return 3
        return super().__getattr__(name)

    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.p + self.virtual


@with_log(lambda: (Hidden(), t(3)))
def module_with_its_own_getattr(m, x):
    return m(x)


class Mutating:
    def __init__(self):
        self.items = []

    def __iter__(self):
        self.items.append(len(self.items))
        return iter(self.items)


@programs(lambda: (t(3), Mutating()))
def iteration_that_mutates(x, m):
    return [x * n for n in m], list(m), [*m]


class Growing(list):
    def __len__(self):
        list.append(self, 0)
        return list.__len__(self)


@programs(lambda: (t(3), Growing()))
def length_that_grows(x, g):
    return x * len(g) + len(g)


class Swapped:
    def __iadd__(self, other):
        return [other]


@programs(lambda: (t(3), Swapped()))
def augmented_assignment_returns_another(x, s):
    before = s
    s += 3
    return x * s[0], before is s


class Reentrant:
    def __init__(self):
        self.d = {self: 1}

    def __hash__(self):
        return 1

    def __eq__(self, other):
        if isinstance(other, Reentrant) and other is not self:
            other.d["seen"] = True
        return self is other


@programs(lambda: (t(3), Reentrant(), Reentrant()))
def equality_that_mutates(x, a, b):
    return x + (b in a.d), sorted(map(str, b.d)) != [], len(b.d)


class Meta(type):
    def __getattribute__(cls, name):
        if not name.startswith("__"):
            LOG.append(name)
        return super().__getattribute__(name)


class Watched(metaclass=Meta):
    size = 4


@with_log(lambda: (t(3),))
def metaclass_getattribute(x):
    return x * Watched.size, Watched().size


class Iter:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i


@programs(lambda: (t(3), Iter()))
def old_iteration_protocol(x, it):
    return [x * n for n in it], 2 in it, list(it)


@programs(lambda: (t(3), collections.UserDict(a=1), collections.UserList([1])))
def user_containers(x, d, items):
    d["b"] = x + 1
    items.append(2)
    return x * d["a"] + len(items), d, items


@programs(lambda: (t(3), [Plain(n) for n in (3, 1, 2)]))
def sort_with_effects_in_the_key(x, items):
    def key(p):
        p.n += 10
        return p.n

    items.sort(key=key)
    return [x * p.n for p in items]


@programs(lambda: (t(3), [3, 1, 2]), raises=ValueError)
def list_changed_while_sorting(x, items):
    items.sort(key=lambda n: items.append(n) or n)
    return x


class Suppressing:
    def __enter__(self):
        raise ValueError("on enter")

    def __exit__(self, *error):
        LOG.append("never")


@with_log(lambda: (t(3),), raises=ValueError)
def context_manager_that_fails_on_entry(x):
    with Suppressing():
        return x + 1


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    gc.collect(0)
    check(program)
