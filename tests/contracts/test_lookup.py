"""`lookup` finds the contract behind every form of a C callable, and runs nobody's code."""

import _pickle
import ast
import functools
import importlib.util
import math
import operator
import random
import re
import subprocess
import sys
import threading
import time
import types
from collections import OrderedDict, deque
from typing import Any

import pytest

from stator.contracts import Reason, SymInt, Verdict, known_type, lookup

from .canaries import LAYOUTS, LOG, Canary


class Numbers(list[int]):
    def append(self, x: int) -> None:
        super().append(x)


class Ordered(OrderedDict[str, int]):
    def below(self) -> Any:
        return super(OrderedDict, self).copy


class Open:
    """Has __dict__ and __weakref__, getset descriptors of a class made by Python."""


class Slotted:
    __slots__ = ("slot",)


def test_forms_of_one_method() -> None:
    expected = lookup(list.append)
    assert expected is not None
    assert expected.verdict is Verdict.MUTATES
    assert expected.mutates == (0,)
    forms: list[Any] = [[].append, super(Numbers, Numbers()).append, list.append.__get__([])]
    assert all(lookup(form) is expected for form in forms)
    assert lookup(Numbers().append) is None  # Python: evaluated


def test_slots() -> None:
    expected = lookup(list.__len__)
    assert expected is not None
    for form in ([].__len__, Numbers().__len__, super(Numbers, Numbers()).__len__):
        assert lookup(form) is expected
    assert lookup(object().__eq__) is lookup(object.__eq__)
    initializer = object.__getattribute__(Slotted(), "__init__")
    assert lookup(initializer) is lookup(object.__init__)


def test_the_c_function_counts_not_the_name() -> None:
    ordered = Ordered()
    assert lookup(ordered.copy) is lookup(OrderedDict.__dict__["copy"])
    assert lookup(ordered.below()) is lookup(dict.__dict__["copy"])
    assert lookup(dict.copy) != lookup(OrderedDict.copy)


def test_class_and_static_methods() -> None:
    assert lookup(dict.fromkeys) is lookup(dict.__dict__["fromkeys"])
    assert lookup(type("D", (dict,), {}).fromkeys) is lookup(dict.fromkeys)  # type: ignore[attr-defined]
    assert lookup(str.maketrans) is not None
    assert lookup(Numbers.__new__) is lookup(list.__new__)
    assert lookup(Numbers.mro) is lookup(type.mro)


def test_methods_that_want_their_class() -> None:
    assert lookup(re.compile("").match) is lookup(re.Pattern.match) is not None


def test_constructors() -> None:
    known: list[type] = [list, dict, zip, map, functools.partial, deque, int, type, ValueError]
    assert all(lookup(cls) for cls in known)
    unknown: list[type] = [Numbers, Ordered, Slotted, threading.Thread]
    assert not any(lookup(cls) for cls in unknown)


def test_callable_objects() -> None:
    getter = lookup(operator.itemgetter(0))
    assert getter is not None and getter.verdict is Verdict.READS
    partial = lookup(functools.partial(print))
    assert partial is not None and partial.argument(0).called
    cached = lookup(functools.lru_cache(lambda: 1))
    assert cached is not None and cached.reason is Reason.HIDDEN_STATE
    assert lookup(Canary()) is None
    assert lookup(types.MethodType(print, 1)) is lookup(print)


def test_attributes() -> None:
    slot = Slotted.__dict__["slot"]
    contract = lookup(slot)
    assert contract is not None and contract.argument(0).attributes
    getter = lookup(slot.__get__)
    assert getter is not None and getter.argument(1).attributes
    setter = lookup(slot.__set__)
    assert setter is not None and setter.mutates == (1,)
    code = lookup(types.FunctionType.__dict__["__code__"].__get__)
    assert code is not None and code.verdict is Verdict.READS
    # A getset descriptor of a type without a table can do anything.
    assert lookup(Open.__dict__["__weakref__"]) is None
    assert lookup(type(sys.flags).__dict__["optimize"]) is not None  # a member: a plain read


FORBIDDEN: dict[Reason, list[Any]] = {
    Reason.OUTPUT: [print],
    Reason.IO: [open, input],
    Reason.TIME: [time.time, time.sleep, time.perf_counter],
    Reason.RANDOM: [random.random, random.seed.__self__.getrandbits],  # type: ignore[attr-defined]
    Reason.LOCK: [threading.Lock().acquire, threading.Lock().__enter__, threading.RLock().release],
    Reason.IMPORT: [__import__],
    Reason.DEBUG: [breakpoint, sys.settrace],
    Reason.EXIT: [sys.exit],
    Reason.MEMORY: [sys.getrefcount, sys.getsizeof, [].__sizeof__],
}


@pytest.mark.parametrize("reason", FORBIDDEN)
def test_forbidden(reason: Reason) -> None:
    for function in FORBIDDEN[reason]:
        contract = lookup(function)
        assert contract is not None, function
        assert contract.verdict is Verdict.FORBIDDEN and not contract.runs
        assert contract.reason is reason, function


def test_other_verdicts() -> None:
    verdicts: dict[Any, Verdict] = {
        math.sqrt: Verdict.PURE,
        len: Verdict.READS,
        next: Verdict.MUTATES,
        sys.getrecursionlimit: Verdict.CONSTANT,
        importlib.util.find_spec: Verdict.CONSTANT,
        locals: Verdict.FRAME,
        super: Verdict.FRAME,
    }
    for function, verdict in verdicts.items():
        contract = lookup(function)
        assert contract is not None and contract.verdict is verdict, function


def test_symbolic_integers() -> None:
    for function, position, expected in [
        (list.append, 1, SymInt.PASS),
        (list.insert, 1, SymInt.SPECIALIZE),
        (list.insert, 2, SymInt.PASS),
        (dict.__setitem__, 1, SymInt.SPECIALIZE),
        (dict.__setitem__, 2, SymInt.PASS),
        (operator.add, 0, SymInt.PASS),
        (math.prod, 0, SymInt.PASS),
        (math.sqrt, 0, SymInt.SPECIALIZE),
        (isinstance, 0, SymInt.SPECIALIZE),
        (str, 0, SymInt.SPECIALIZE),
    ]:
        contract = lookup(function)
        assert contract is not None
        assert contract.argument(position).symint is expected, (function, position)


def test_known_types() -> None:
    assert known_type(list) and known_type(re.Pattern) and known_type(type(iter([])))
    assert known_type(Numbers) and known_type(Canary) and known_type(Slotted)
    assert not known_type(_pickle.Pickler)
    assert not known_type(type("Own", (_pickle.Pickler,), {}))
    assert not known_type(ast.AST) and not known_type(ast.Add)


class Meta(type):
    """A metaclass that must not be asked."""

    def __getattribute__(cls, name: str) -> Any:
        LOG.append((cls, name))
        return type.__getattribute__(cls, name)

    def __hash__(cls) -> int:
        LOG.append((cls, "__hash__"))
        return 0

    def __eq__(cls, other: object) -> bool:
        LOG.append((cls, "__eq__"))
        return cls is other

    def __instancecheck__(cls, instance: object) -> bool:
        LOG.append((cls, "__instancecheck__"))
        return False


class Watched(list[Any], metaclass=Meta):
    """A list of a watched class, with a watched attribute access."""

    def __getattribute__(self, name: str) -> Any:
        LOG.append((self, name))
        return list.__getattribute__(self, name)


def test_no_user_code_runs() -> None:
    watched = Watched()
    callables: list[object] = [
        watched,
        Watched,
        watched.append,
        watched.__len__,
        Watched.mro,
        Watched.__new__,
        super(Watched, watched).append,
        types.MethodType(list.append, watched),
        functools.partial(list.append, watched),
        Canary(),
        Canary,
        Canary.__call__,
        Canary().__call__,
        *(base() for base in LAYOUTS.values()),
        *(base().__class__ for base in LAYOUTS.values()),
        LAYOUTS[list]().append,
        LAYOUTS[dict].fromkeys,  # type: ignore[attr-defined]
        LAYOUTS[str]().upper,
        object.__getattribute__(Canary(), "__init__"),
    ]
    LOG.clear()
    for function in callables:
        lookup(function)
    assert LOG == []


def test_modules_loaded_later() -> None:
    """Nothing is imported for a table's sake, and a module loaded later is found."""
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from stator.contracts import lookup\n"
        "loaded = {'decimal', '_decimal', 'array', 'zlib', 'torch'} & set(sys.modules) - before\n"
        "import array\n"
        "print(loaded, lookup(array.array('i').append).mutates)\n"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output == "set() (0,)\n"
