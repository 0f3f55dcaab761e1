# mypy: ignore-errors
"""Lists, tuples, dicts, sets and the classes of collections; comprehensions, slices, sorting."""

import collections
import typing

import pytest
import torch

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


def listed():
    return ([t(3), t(3), t(3)],)


def mapped():
    return ({"a": t(3), "b": t(3)},)


@programs(one)
def list_display(x):
    return [x, x + 1, [x * 2], []]


@programs(listed)
def list_indexing(items):
    return items[0] + items[-1], items[1], items[1:], items[::-1], len(items)


@programs(one)
def list_methods(x):
    a = [1, 2]
    a.append(x + 1)
    a.extend([3, x])
    a.insert(0, "first")
    a.remove(2)
    return a.pop() + a[2], a, a.index(1), a[:2].count("first"), a.copy()


@programs(one)
def list_operators(x):
    a = [1, 2]
    b = a + [x] * 2
    a *= 2
    a += (9,)
    return a, b, a == [1, 2, 1, 2, 9], [1] < [2], a != b[:2]


@programs(one, dead=True)
def list_slices_assigned(x):
    a = list(range(6))
    a[1:3] = [x, x + 1, x + 2]
    del a[0], a[-1]
    a[::2] = "abc"
    return a


@programs(listed, changes={"length": lambda: ([t(3), t(3)],), "type": lambda: ((t(3), t(3)),)})
def list_comprehension(items):
    return [item * i for i, item in enumerate(items) if i != 1]


@programs(one)
def nested_comprehension(x):
    return [[x * i + j for j in range(2)] for i in range(2)], [(i, j) for i in "ab" for j in "cd"]


@programs(mapped)
def dict_comprehension(items):
    return {k.upper(): v + 1 for k, v in items.items()}


@programs(one)
def set_comprehension(x):
    return x + len({n % 3 for n in range(10)}), {n % 3 for n in range(10)}


@programs(
    mapped,
    changes={
        "order": lambda: ({"b": t(3), "a": t(3)},),
        "more": lambda: ({"a": t(3), "b": t(3), "c": t(3)},),
    },
)
def dict_iteration_order(items):
    total = 0
    for key in items:
        total = total * 2 + items[key]
    return total, list(items)


@programs(mapped, keeps={"unread item": lambda: ({"a": t(3), "b": t(5)},)})
def dict_reads_one_key(items):
    return items["a"] + 1


@programs(mapped)
def dict_methods(items):
    new = dict(items, c=1)
    new.update(d=2)
    a = new.pop("a")
    return a + new.get("zz", 3), new.setdefault("e", []), new, "b" in new, new.popitem()


@programs(mapped, raises=KeyError)
def missing_key(items):
    return items["zz"]


@programs(lambda: ([],), raises=IndexError)
def missing_index(items):
    return items[3]


@programs(one)
def dict_views(x):
    d = {"a": 1, "b": 2}
    return x + sum(d.values()), d.keys() & {"a"}, sorted(d.items()), list(reversed(d))


@programs(one)
def dict_operators(x):
    a, b = {"x": 1}, {"x": 2, "y": x}
    return a | b, b | a, a == {"x": 1}, {**a, **b}


@programs(one)
def dict_with_various_keys(x):
    d = {1: x, "1": x + 1, (1, 2): x + 2, None: x + 3, torch.float32: 4}
    return d[1] + d["1"] + d[1, 2] + d[None] + d[torch.float32]


@programs(one)
def tensor_as_dict_key(x):
    y = x + 1
    d = {x: "x", y: "y"}
    return d[x], d[y], y in d, y


@programs(one)
def tuples(x):
    a = (x, x + 1)
    b = a + (3,)
    return b, a[0], a[-1:], len(b), (1, 2) < (1, 3), a * 2, (1, 2, 1).count(1), ()


@programs(one)
def sets(x):
    s = {1, 2, 3}
    s.add(4)
    s.discard(9)
    s -= {1}
    return x + len(s), s | {7}, s & {2}, s ^ {3}, {2} <= s, s.isdisjoint({8}), frozenset(s)


@programs(lambda: (t(3), {1, 2}), changes={"members": lambda: (t(3), {1, 2, 3})})
def set_argument(x, members):
    return x * len(members), 2 in members, sorted(members)


@programs(one)
def deque(x):
    d = collections.deque([1, 2], maxlen=4)
    d.append(x + 1)
    d.appendleft(0)
    d.rotate(1)
    return d, d.popleft(), len(d)


@programs(one)
def ordered_dict(x):
    d = collections.OrderedDict(a=1, b=x + 1, c=3)
    d.move_to_end("a")
    return d, list(d), d.popitem(last=False)


@programs(one)
def default_dict(x):
    d = collections.defaultdict(list)
    d["a"].append(x + 1)
    d["a"].append(2)
    return d, d["b"], len(d)


@programs(one)
def counter(x):
    c = collections.Counter("abracadabra")
    c.update("aa")
    return x * c["a"], c.most_common(2), c["zz"], c - collections.Counter("aaa")


@programs(one)
def chain_map(x):
    c = collections.ChainMap({"a": 1}, {"a": 2, "b": x})
    return c["a"], c["b"] + 1, sorted(c)


Pair = collections.namedtuple("Pair", ["left", "right"])


class Typed(typing.NamedTuple):
    value: object
    scale: int = 2

    def scaled(self):
        return self.value * self.scale


@programs(one)
def named_tuple(x):
    p = Pair(x + 1, right=2)
    a, b = p
    return p, p.left * p.right, p._replace(right=3), p._asdict(), a is p[0], Pair._fields


@programs(lambda: (Pair(t(3), 4),), changes={"field": lambda: (Pair(t(3), 5),)})
def named_tuple_argument(pair):
    return pair.left * pair.right, pair


@programs(one)
def typed_named_tuple(x):
    return Typed(x).scaled(), Typed(x, 3), Typed.__annotations__.keys()


@programs(one)
def sorting(x):
    a = [3, 1, 2]
    b = sorted(a, reverse=True)
    a.sort()
    return x + a[0], a, b, sorted("hello"), sorted({"b": 1, "a": 2})


@programs(one)
def sorting_with_key(x):
    items = [("b", x + 1), ("a", x + 2), ("c", x + 3)]
    items.sort(key=lambda item: item[0])
    return [v for _, v in items], max(items, key=lambda p: p[0])[0], min([3, -5], key=abs)


@programs(lambda: ([t(2), t(5), t(3)],))
def sorting_by_shape(items):
    return [i + 1 for i in sorted(items, key=lambda i: -i.shape[0])]


@programs(one)
def starred_targets(x):
    first, *middle, last = [1, 2, x, 4]
    *init, end = "abc"
    return first, middle[1] + last, init, end


@programs(listed)
def unpack_argument(items):
    a, b, c = items
    return a + b * c


@programs(listed, raises=ValueError)
def unpack_too_few(items):
    a, b, c, d = items
    return a


@programs(one)
def zip_and_enumerate(x):
    return list(zip("ab", [x, x + 1])), dict(enumerate("ab")), list(zip(*[(1, 2), (3, 4)]))


@programs(one, raises=ValueError)
def strict_zip(x):
    return list(zip([x], [], strict=True))


@programs(one)
def slices_as_objects(x):
    s = slice(1, None)
    return x[s], [1, 2, 3][s], s.indices(3), (1, 2, 3)[slice(None, None, 2)]


@programs(one)
def ranges(x):
    r = range(2, 20, 3)
    return x + len(r), r[1], r[-1], 5 in r, list(r[1:3]), r.index(8), r


@programs(one)
def iterators(x):
    it = iter([x, x + 1, x + 2])
    first = next(it)
    return first + next(it), list(it), next(it, "end")


@programs(one)
def aliased_containers(x):
    inner = [x]
    outer = [inner, inner]
    inner.append(x + 1)
    return outer, outer[0] is outer[1]


@programs(one)
def cyclic_list(x):
    a = [x + 1]
    a.append(a)
    return a


@programs(lambda: ([[t(3)], {"k": (t(3), [t(3)])}],))
def nested_arguments(tree):
    return tree[0][0] + tree[1]["k"][0] * tree[1]["k"][1][0]


def shared():
    x = t(3)
    return [x, x], x


@programs(shared, changes={"sharing": lambda: ([t(3), t(3)], t(3))})
def the_same_tensor_twice(items, x):
    return items[0] + items[1], items[0] is x


@programs(one)
def tree_of_results(x):
    return {"loss": x.sum(), "aux": [x + 1, (x + 2, {"deep": x + 3})]}


@programs(one)
def copies(x):
    a = [x, [1]]
    b, c, d = a[:], list(a), a.copy()
    b[1].append(2)
    return a, b, c, d, b is a, b[1] is a[1]


@programs(one)
def strings_as_sequences(x):
    s = "stator"
    return x + len(s), s[::-1], [c for c in s if c > "r"], "".join(sorted(s)), list(s)


@programs(one)
def bool_of_containers(x):
    return x + bool([0]), bool({}), bool(()), bool(""), not {1}


class Stack(list):
    def push(self, item):
        self.append(item)
        return self


class Config(dict):
    def __getattr__(self, name):
        return self[name]


@programs(lambda: (t(3), Stack([1])), changes={"content": lambda: (t(3), Stack([1, 2]))})
def list_subclass(x, stack):
    return stack.push(x + 1)[-1] * len(stack), Stack([2])


@programs(
    lambda: (t(3), Config(scale=2, deep=Config(n=1))),
    changes={"value": lambda: (t(3), Config(scale=3, deep=Config(n=1)))},
)
def dict_subclass(x, config):
    return x * config.scale + config.deep.n, config


@programs(one)
def chunks(x):
    items = list(range(7))
    return [items[i : i + 3] for i in range(0, 7, 3)], x + 1


@programs(one)
def flatten_a_tree(x):
    def flat(tree):
        return [leaf for item in tree for leaf in flat(item)] if isinstance(tree, list) else [tree]

    return flat([x, [x + 1, [x + 2]], []])


@programs(one)
def group_by_key(x):
    groups = {}
    for n in range(6):
        groups.setdefault(n % 3, []).append(x * n)
    return groups


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
