# mypy: ignore-errors
# ruff: noqa: F401 - programs name these modules
"""Objects of every C type that a program can hold, as source text, for `c_types`.

A `Specimen` is how to make one (and others of the type, in another state), and what must not be
tried because it would never return. How two of them are compared is in `look`.
"""

import array
import collections
import contextlib
import contextvars
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import io
import itertools
import operator
import queue
import random
import re
import struct
import threading
import types
import weakref
from dataclasses import dataclass
from typing import Any

import numpy
import torch


class Plain:
    """An ordinary class of the program, where one is needed."""

    def __init__(self, n=1):
        self.n = n

    def method(self, k=2):
        return self.n + k

    def __repr__(self):
        return f"Plain({self.n})"


def colours():
    return enum.Enum("Colour", "RED BLUE", module=__name__)


def bits():
    return enum.Flag("Bits", "A B", module=__name__)


Point = collections.namedtuple("Point", "a b")
KEPT = [Plain(i) for i in range(4)]  # what weak references refer to
CONTEXT = contextvars.ContextVar("CONTEXT", default=3)


def counted(n=3):
    """A generator of a program."""
    for i in range(n):
        got = yield i
        if got is not None:
            yield ("got", got)


def plain_function(a, b=2, *, c=3):
    return (a, b, c)


def cached(limit=None):
    """A function with a cache, already asked once."""

    @functools.lru_cache(maxsize=limit)
    def twice(n):
        return n * 2

    twice(1)
    return twice


def dispatched():
    @functools.singledispatch
    def kind(value):
        return "object"

    kind.register(int, lambda value: "int")
    kind(1)
    return kind


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught.with_traceback(None)


def advanced(iterator, n=1):
    for _ in range(n):
        next(iterator, None)
    return iterator


def cell(value):
    return (lambda: value).__closure__[0]


def of_context(value):
    context = contextvars.Context()
    context.run(CONTEXT.set, value)
    return context


def exhausted_set():
    found = threading.Event()
    found.set()
    return found


@dataclass(frozen=True)
class Specimen:
    """One type: `makes` are expressions for objects of it, the first is the one under test."""

    name: str
    makes: tuple[str, ...]
    endless: bool = False  # it may be advanced, but never collected
    skip: frozenset[str] = frozenset()  # members that would wait, or are of the process
    extra: tuple[str, ...] = ()  # further statements on `o`


def specimen(name, *makes, endless=False, skip="", extra=()):
    return Specimen(name, makes, endless, frozenset(skip.split()), tuple(extra))


_WAITS = (
    "__init__ acquire acquire_lock release_lock wait wait_for get put join __enter__ __exit__ "
    "notify notify_all release start run"
)
SPECIMENS = [
    # ---------------------------------------------------------------- builtins
    specimen("list", "[3, 1, 2]", "[]", "[1, 'a']"),
    specimen("tuple", "(3, 1)", "(1, [2])", "()"),
    specimen("dict", "{'a': 1, 'b': 2}", "{}", "{'b': 2, 'a': 1}", "{1: 2}"),
    specimen("set", "{1, 2, 3}", "set()", "{'a'}"),
    specimen("frozenset", "frozenset({1, 2})", "frozenset({3})"),
    specimen("bytearray", "bytearray(b'abc')", "bytearray(b'')", "bytearray(b'xyz')"),
    specimen("bytes", "b'abc'", "b'xyz'"),
    specimen("str", "'abc'", "'Xyz'"),
    specimen("int", "3", "7"),
    specimen("float", "2.5", "-0.0"),
    specimen("complex", "1 + 2j", "3j"),
    specimen("range", "range(5)", "range(1, 9, 3)"),
    specimen("slice", "slice(1, 4, 2)", "slice(None)"),
    specimen("memoryview", "memoryview(bytearray(b'abcd'))", "memoryview(b'xy')"),
    # Nobody calls `__init__` of a descriptor again: what it holds is guarded where it is asked for.
    specimen("property", "property(plain_function)", "property()", skip="__init__"),
    specimen("staticmethod", "staticmethod(plain_function)", "staticmethod(len)", skip="__init__"),
    specimen("classmethod", "classmethod(plain_function)", "classmethod(len)", skip="__init__"),
    specimen("object", "object()"),
    specimen("instance", "Plain(1)", "Plain(5)", "Plain([1])"),
    specimen("class", "type('Made', (Plain,), {'level': 1})", "type('Other', (), {'level': 2})"),
    specimen(
        "function",
        "types.FunctionType(plain_function.__code__, globals(), 'f', (2,))",
        "types.FunctionType(counted.__code__, globals(), 'g', (2,))",
    ),
    specimen("method", "Plain(1).method", "Plain(4).method"),
    specimen("builtin_method", "[1, 2].append", "[1, 2].pop", "{1: 2}.get"),
    specimen("method_wrapper", "[1, 2].__len__", "[1].__len__"),
    specimen("cell", "cell(1)", "cell('a')"),
    specimen("module", "types.ModuleType('made')", "types.ModuleType('other')"),
    specimen("generator", "counted(3)", "advanced(counted(4))", "(i for i in [5])"),
    specimen("SimpleNamespace", "types.SimpleNamespace(a=1)", "types.SimpleNamespace(b=[1])"),
    specimen("mappingproxy", "types.MappingProxyType({'a': 1})", "types.MappingProxyType({})"),
    specimen("GenericAlias", "list[int]", "dict[str, int]"),
    specimen("UnionType", "int | str", "int | None"),
    specimen("ValueError", "ValueError(1)", "ValueError()", "raised(ValueError('a', [1]))"),
    specimen("OSError", "OSError(2, 'text', 'file')", "OSError(1)"),
    specimen("KeyError", "KeyError('a')", "KeyError(1)"),
    specimen("StopIteration", "StopIteration(3)", "StopIteration()"),
    specimen("ImportError", "ImportError('text', name='n')", "ImportError()"),
    specimen("AttributeError", "AttributeError('text', name='n', obj=3)", "AttributeError()"),
    specimen("NameError", "NameError('text', name='n')", "NameError()"),
    specimen("SyntaxError", "SyntaxError('text', ('f', 1, 2, 'line'))", "SyntaxError('a')"),
    specimen("UnicodeDecodeError", "UnicodeDecodeError('ascii', b'abc', 1, 2, 'why')"),
    specimen("SystemExit", "SystemExit(3)", "SystemExit()"),
    specimen("ExceptionGroup", "ExceptionGroup('g', [ValueError(1)])"),
    # ---------------------------------------------------------------- views, iterators
    specimen("dict_keys", "{'a': 1, 'b': 2}.keys()", "{}.keys()"),
    specimen("dict_values", "{'a': 1, 'b': 2}.values()", "{}.values()"),
    specimen("dict_items", "{'a': 1, 'b': 2}.items()", "{}.items()"),
    specimen("odict_keys", "collections.OrderedDict(a=1, b=2).keys()"),
    specimen("list_iterator", "iter([3, 1, 2])", "advanced(iter([5, 6]))", "iter([])"),
    specimen("list_reverseiterator", "reversed([3, 1, 2])", "advanced(reversed([5, 6]))"),
    specimen("tuple_iterator", "iter((3, 1, 2))", "advanced(iter((5, 6)))"),
    specimen("str_iterator", "iter('abc')", "advanced(iter('xyz'))"),
    specimen("unicode_iterator", "iter('äbc€')", "advanced(iter('€yz'))"),
    specimen("bytes_iterator", "iter(b'abc')", "advanced(iter(b'xyz'))"),
    specimen("bytearray_iterator", "iter(bytearray(b'abc'))", "iter(bytearray(b'x'))"),
    specimen("range_iterator", "iter(range(4))", "advanced(iter(range(9)))"),
    specimen("longrange_iterator", "iter(range(1 << 70, (1 << 70) + 3))"),
    specimen("set_iterator", "iter({1, 2, 3})", "advanced(iter({5, 6}))"),
    specimen("dict_keyiterator", "iter({'a': 1, 'b': 2})", "advanced(iter({1: 1, 2: 2}))"),
    specimen("dict_valueiterator", "iter({'a': 1, 'b': 2}.values())"),
    specimen("dict_itemiterator", "iter({'a': 1, 'b': 2}.items())"),
    specimen("dict_reversekeyiterator", "reversed({'a': 1, 'b': 2})"),
    specimen("odict_iterator", "iter(collections.OrderedDict(a=1, b=2))"),
    specimen("deque_iterator", "iter(collections.deque([1, 2]))"),
    specimen("callable_iterator", "iter(functools.partial(next, iter([1, 2, 3])), 3)"),
    specimen("iterator", "iter(Sequence())", "advanced(iter(Sequence()))"),
    specimen("reversed", "reversed((1, 2, 3))", "advanced(reversed('abc'))"),
    specimen("enumerate", "enumerate([5, 6])", "advanced(enumerate('ab', 4))"),
    specimen("zip", "zip([1, 2], 'ab')", "advanced(zip([1, 2], 'ab'))"),
    specimen("map", "map(str, [1, 2, 3])", "advanced(map(len, ['a', 'bb']))"),
    specimen("filter", "filter(None, [0, 1, 2])", "advanced(filter(str, [1, 2]))"),
    specimen("user_iterator", "Counting(3)", "Counting(1)"),
    # ---------------------------------------------------------------- collections
    specimen(
        "deque",
        "collections.deque([1, 2, 3], 5)",
        "collections.deque([1, 2, 3], 3)",
        "collections.deque([1, 2, 3])",
    ),
    specimen(
        "OrderedDict",
        "collections.OrderedDict(a=1, b=2, c=3)",
        "collections.OrderedDict(c=3, b=2, a=1)",
        "collections.OrderedDict()",
    ),
    specimen(
        "defaultdict",
        "collections.defaultdict(list, a=1)",
        "collections.defaultdict(int, a=1)",
        "collections.defaultdict(None)",
    ),
    specimen("Counter", "collections.Counter('aab')", "collections.Counter()"),
    specimen("ChainMap", "collections.ChainMap({'a': 1}, {'b': 2})", "collections.ChainMap()"),
    specimen("UserDict", "collections.UserDict(a=1)", "collections.UserDict()"),
    specimen("UserList", "collections.UserList([1, 2])", "collections.UserList()"),
    specimen("UserString", "collections.UserString('abc')", "collections.UserString('x')"),
    specimen("namedtuple", "Point(1, 2)", "Point('a', [])"),
    # ---------------------------------------------------------------- functools
    specimen(
        "partial",
        "functools.partial(plain_function, 1)",
        "functools.partial(plain_function, 1, c=9)",
        "functools.partial(len)",
    ),
    specimen("lru_cache", "cached()", "cached(2)", "cached(0)"),
    specimen("cached_property", "functools.cached_property(plain_function)"),
    specimen("partialmethod", "functools.partialmethod(plain_function, 1)"),
    specimen("cmp_to_key", "functools.cmp_to_key(operator.sub)(3)"),
    specimen("singledispatch", "dispatched()", extra=["o('a')", "o(1)", "o.register(str, len)"]),
    # ---------------------------------------------------------------- itertools
    specimen("count", "itertools.count()", "advanced(itertools.count(5, 2))", endless=True),
    specimen("cycle", "itertools.cycle([1, 2])", "advanced(itertools.cycle('ab'))", endless=True),
    specimen("repeat", "itertools.repeat(1, 3)", "advanced(itertools.repeat('a', 4))"),
    specimen("chain", "itertools.chain([1], [2, 3])", "advanced(itertools.chain([1], [2]))"),
    specimen("islice", "itertools.islice([1, 2, 3, 4], 1, 4)", "itertools.islice([5, 6], 1)"),
    specimen("accumulate", "itertools.accumulate([1, 2, 3])", "itertools.accumulate([5])"),
    specimen("compress", "itertools.compress([1, 2, 3], [1, 0, 1])"),
    specimen("dropwhile", "itertools.dropwhile(str.isalpha, ['a', '1', 'b'])"),
    specimen("takewhile", "itertools.takewhile(str.isalpha, ['a', '1', 'b'])"),
    specimen("filterfalse", "itertools.filterfalse(None, [0, 1, 0])"),
    specimen("groupby", "itertools.groupby([1, 1, 2])"),
    specimen("pairwise", "itertools.pairwise([1, 2, 3])"),
    specimen("starmap", "itertools.starmap(max, [(1, 2), (3, 0)])"),
    specimen("zip_longest", "itertools.zip_longest([1, 2], [3])"),
    specimen("product", "itertools.product([1, 2], 'ab')"),
    specimen("permutations", "itertools.permutations([1, 2, 3])"),
    specimen("combinations", "itertools.combinations([1, 2, 3], 2)"),
    specimen("combinations_with_replacement", "itertools.combinations_with_replacement([1, 2], 2)"),
    specimen("tee", "itertools.tee([1, 2, 3])[0]", "advanced(itertools.tee([1, 2])[1])"),
    # ---------------------------------------------------------------- operator, re, weakref
    specimen("itemgetter", "operator.itemgetter(0)", "operator.itemgetter(1, 0)"),
    specimen("attrgetter", "operator.attrgetter('n')", "operator.attrgetter('real')"),
    specimen("methodcaller", "operator.methodcaller('method')", "operator.methodcaller('pop')"),
    specimen("Pattern", "re.compile('a(b)?')", "re.compile('[0-9]+', re.I)"),
    specimen("Match", "re.match('a(b)?', 'abc')", "re.match('(?P<n>x)', 'x')"),
    specimen("ref", "weakref.ref(KEPT[0])", "weakref.ref(KEPT[1])", "weakref.ref(Plain())"),
    specimen("proxy", "weakref.proxy(KEPT[0])", "weakref.proxy(KEPT[1])"),
    specimen("WeakSet", "weakref.WeakSet(KEPT[:1])", "weakref.WeakSet()"),
    specimen("WeakKeyDictionary", "weakref.WeakKeyDictionary({KEPT[0]: 1})"),
    specimen("WeakValueDictionary", "weakref.WeakValueDictionary({'a': KEPT[0]})"),
    specimen("WeakMethod", "weakref.WeakMethod(KEPT[0].method)"),
    # ---------------------------------------------------------------- contexts
    specimen("ContextVar", "contextvars.ContextVar('v', default=1)", "CONTEXT"),
    specimen("Context", "of_context(1)", "of_context(5)"),
    specimen("Token", "contextvars.ContextVar('v').set(1)"),
    specimen("local", "threading.local()"),
    # ---------------------------------------------------------------- data
    specimen("array", "array.array('i', [1, 2, 3])", "array.array('d', [1.5])", skip="buffer_info"),
    specimen("Random", "random.Random(1)", "random.Random(2)", skip="seed __init__"),
    specimen("date", "datetime.date(2020, 1, 2)", "datetime.date(1999, 12, 31)", skip="today"),
    specimen("time", "datetime.time(1, 2, 3)", "datetime.time(4)"),
    specimen(
        "datetime",
        "datetime.datetime(2020, 1, 2, 3)",
        "datetime.datetime(1999, 1, 1, tzinfo=datetime.timezone.utc)",
        skip="now utcnow today",
    ),
    specimen("timedelta", "datetime.timedelta(1, 2)", "datetime.timedelta(0)"),
    specimen("timezone", "datetime.timezone.utc", "datetime.timezone(datetime.timedelta(hours=1))"),
    specimen("Decimal", "decimal.Decimal('1.50')", "decimal.Decimal('NaN')"),
    specimen("DecimalContext", "decimal.Context(prec=5)", "decimal.Context(prec=9)"),
    specimen("Fraction", "fractions.Fraction(1, 2)", "fractions.Fraction(5)"),
    specimen("Enum", "colours().RED", "colours().BLUE"),
    specimen("Flag", "bits().A", "bits()(3)"),
    specimen("Struct", "struct.Struct('ih')", "struct.Struct('>d')"),
    specimen("StringIO", "io.StringIO('a\\nb\\nc')", "io.StringIO()"),
    specimen("BytesIO", "io.BytesIO(b'a\\nb\\nc')", "io.BytesIO()"),
    specimen("hash", "hashlib.sha256(b'a')", "hashlib.sha256(b'b')"),
    # ---------------------------------------------------------------- threads
    specimen(
        "Lock",
        "threading.Lock()",
        skip=_WAITS,
        extra=["with o: pass", "o.acquire(); o.release()", "o.acquire(False); o.release()"],
    ),
    specimen(
        "RLock",
        "threading.RLock()",
        skip=_WAITS,
        extra=["with o: pass", "o.acquire(); o.release()", "o.acquire()", "o.release()"],
    ),
    specimen(
        "Semaphore",
        "threading.Semaphore(50)",
        "threading.Semaphore(60)",
        skip=_WAITS,
        extra=["with o: pass", "o.acquire()", "o.release()", "o.acquire(False)", "o.release(2)"],
    ),
    specimen(
        "BoundedSemaphore",
        "threading.BoundedSemaphore(50)",
        "threading.BoundedSemaphore(60)",
        skip=_WAITS,
        extra=["with o: pass", "o.acquire()", "o.release()", "o.acquire(); o.release()"],
    ),
    specimen(
        "Condition",
        "threading.Condition()",
        skip=_WAITS,
        extra=["with o: pass", "with o: o.notify()", "with o: o.notify_all()", "o.notify()"],
    ),
    specimen(
        "Event",
        "threading.Event()",
        "exhausted_set()",
        skip=_WAITS,
        extra=["o.set()", "o.clear()", "r = o.is_set()", "r = o.wait(0)"],
    ),
    specimen("Barrier", "threading.Barrier(1)", skip=_WAITS, extra=["o.wait()", "o.abort()"]),
    specimen("Thread", "threading.Thread(target=len, name='t')", skip=_WAITS),
    specimen(
        "Queue",
        "queue.Queue()",
        "advanced_queue(queue.Queue())",
        skip=_WAITS,
        extra=["o.put(1)", "r = o.get_nowait()", "o.put(1); r = o.get()", "r = o.qsize()"],
    ),
    specimen(
        "SimpleQueue",
        "queue.SimpleQueue()",
        "advanced_queue(queue.SimpleQueue())",
        skip=_WAITS,
        extra=["o.put(1)", "r = o.get_nowait()", "o.put(1); r = o.get()"],
    ),
    specimen("ExitStack", "contextlib.ExitStack()", extra=["with o: o.callback(len, [])"]),
    # ---------------------------------------------------------------- numpy, torch
    specimen("ndarray", "numpy.arange(3.0)", "numpy.ones((2, 2))", skip="tofile dump strides"),
    specimen("float64", "numpy.float64(1.5)", "numpy.float64(-2)", skip="tofile dump"),
    specimen("int64", "numpy.int64(3)", "numpy.int64(-2)", skip="tofile dump"),
    specimen("bool_", "numpy.bool_(True)", "numpy.bool_(False)", skip="tofile dump"),
    specimen("dtype", "numpy.dtype('f8')", "numpy.dtype('i4')"),
    specimen("Generator", "numpy.random.default_rng(1)", "numpy.random.default_rng(2)"),
    specimen(
        "RandomState",
        "numpy.random.RandomState(1)",
        "numpy.random.RandomState(2)",
        skip="seed __init__",
    ),
    specimen("Size", "torch.Size([2, 3])", "torch.Size([])"),
    specimen("torch_dtype", "torch.float32", "torch.int64"),
    specimen("device", "torch.device('cpu')", "torch.device('meta')", skip="__enter__ __exit__"),
    # torch crashes if its state is set to something else.
    specimen("torch_Generator", "torch.Generator().manual_seed(1)", skip="seed __setstate__"),
]


class Sequence:
    """Iterated by `__getitem__`."""

    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i


class Counting:
    """An iterator of a program."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


def advanced_queue(made):
    made.put(1)
    made.put("a")
    return made


# ---------------------------------------------------------------------- what they are

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_ITERATED = 12
_NOT_SHOWN = {"__traceback__", "__dict__", "__doc__", "__class__", "__weakref__"}


def look(value: Any, depth: int = 0) -> str:
    """What can be told of an object, once: iterators are used up."""
    cls = type(value)
    kind = f"{cls.__module__}.{cls.__qualname__}"
    if depth > 4:
        return kind
    for types_, told in _LOOKS:
        if isinstance(value, types_) if types_ else False:
            try:
                return f"{kind}({told(value, depth + 1)})"
            except Exception as error:
                return f"{kind} raised {type(error).__name__}: {_text(error)}"
    if cls is functools.singledispatch(len).__class__ and hasattr(value, "registry"):
        return f"dispatch {sorted(map(str, value.registry))}"
    if _is_iterator(cls):
        return f"{kind}[{_iterated(value, depth)}]"
    own = getattr(value, "__dict__", None) if cls.__module__ != "builtins" else None
    if isinstance(own, dict) and own and not isinstance(value, (type, enum.Enum)):
        return f"{kind} {_text(value)} {look(own, depth + 1)}"
    return f"{kind} {_text(value)}"


def _is_iterator(cls: type) -> bool:
    return hasattr(cls, "__next__") and not issubclass(cls, io.IOBase)


def _iterated(value: Any, depth: int) -> str:
    found = []
    try:
        for _ in range(_ITERATED):
            found.append(look(next(value), depth + 1))
    except StopIteration:
        found.append("end")
    except Exception as error:
        found.append(f"{type(error).__name__}: {_text(error)}")
    return ", ".join(found)


def _text(value: Any) -> str:
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception as error:
        return f"{type(error).__name__} in repr"


def _items(value, depth):
    return ", ".join(look(each, depth) for each in value)


def _elements(value, depth):
    """In their order, unless that is a matter of addresses."""
    found = [look(each, depth) for each in list(value)]
    placed = all(type(part) in (int, str) for each in value for part in _parts(each))
    return ", ".join(found if placed else sorted(found))


def _parts(value):
    return value if type(value) is tuple else (value,)


def _pairs(value, depth):
    return ", ".join(f"{look(k, depth)}: {look(v, depth)}" for k, v in list(value.items()))


def _mapping(value, depth):
    own = vars(value) if hasattr(value, "__dict__") else None
    factory = getattr(value, "default_factory", None)
    return f"{_pairs(value, depth)} {_text(factory)} {own and sorted(map(str, own))}"


def _exception(value, depth):
    names = sorted(set(dir(value)) - _NOT_SHOWN)
    held = {n: getattr(value, n, None) for n in names if not callable(getattr(value, n, None))}
    return f"{_text(value)} {_pairs(held, depth)} {vars(value)} {value.__traceback__ is not None}"


def _function(value, depth):
    names = ("__name__", "__qualname__", "__defaults__", "__kwdefaults__", "__doc__", "__module__")
    held = [getattr(value, n) for n in names]
    own = {name: each for name, each in vars(value).items() if name != "_clear_cache"}
    return f"{_items(held, depth)} {value.__code__.co_name} {look(own, depth)}"


def _namespace(value, depth):
    if value.__module__ not in (None, __name__) if isinstance(value, type) else depth > 2:
        return value.__name__  # not of the specimens
    held = {k: v for k, v in vars(value).items() if k not in ("__dict__", "__weakref__")}
    return f"{value.__name__} {_pairs(held, depth)}"


def _cell(value, depth):
    return look(value.cell_contents, depth)


def _view(value, depth):
    return _items(value, depth)


_LOOKS = [
    ((collections.deque,), lambda v, d: f"{_items(v, d)} {v.maxlen} {getattr(v, '__dict__', 0)}"),
    ((str, int, float, complex, bytes, bytearray), lambda v, d: _text(v)),
    ((list, tuple), _items),
    ((set, frozenset, weakref.WeakSet), _elements),
    ((dict, collections.UserDict, types.MappingProxyType, collections.ChainMap), _mapping),
    ((weakref.WeakKeyDictionary, weakref.WeakValueDictionary), _pairs),
    ((type({}.keys()), type({}.values()), type({}.items())), _view),
    ((BaseException,), _exception),
    ((types.FunctionType,), _function),
    ((type, types.ModuleType), _namespace),
    ((types.CellType,), _cell),
    ((types.MethodType,), lambda v, d: f"{v.__func__.__name__} {look(v.__self__, d)}"),
    ((type([].append), type([].__len__)), lambda v, d: f"{v.__name__} {look(v.__self__, d)}"),
    ((functools.partial,), lambda v, d: _items((v.func, v.args, v.keywords, vars(v)), d)),
    ((functools._lru_cache_wrapper,), lambda v, d: f"{v.cache_info()} {v(9)} {v(1)}"),
    ((memoryview,), lambda v, d: f"{bytes(v)} {v.format} {v.shape}"),
    ((property,), lambda v, d: _text((v.fget, v.fset, v.fdel, v.__doc__))),
    ((weakref.ref,), lambda v, d: look(v(), d)),
    ((contextvars.ContextVar,), lambda v, d: look(v.get(None), d)),
    ((contextvars.Context,), lambda v, d: _items(list(v.values()), d)),
    ((threading.local,), lambda v, d: look(vars(v), d)),
    ((random.Random,), lambda v, d: f"{v.random()}"),
    ((io.StringIO, io.BytesIO), lambda v, d: f"{v.closed or (v.tell(), v.getvalue())}"),
    ((type(hashlib.sha256()),), lambda v, d: v.hexdigest()),
    ((queue.Queue, queue.SimpleQueue), lambda v, d: _items([v.get() for _ in range(v.qsize())], d)),
    ((threading.Semaphore,), lambda v, d: f"{v._value}"),
    ((threading.Event,), lambda v, d: f"{v.is_set()}"),
    ((threading.Condition,), lambda v, d: f"{_text(v)}"),
    ((torch.Tensor,), lambda v, d: f"{v.tolist()} {v.dtype}"),
    ((numpy.ndarray,), lambda v, d: f"{v.tolist()} {v.dtype} {v.strides} {v.flags.writeable}"),
    ((numpy.random.Generator,), lambda v, d: f"{v.random()}"),
    ((numpy.random.RandomState,), lambda v, d: f"{v.random_sample()}"),
    ((torch.Generator,), lambda v, d: f"{v.initial_seed()} {torch.rand(1, generator=v)}"),
    ((contextlib.ExitStack,), lambda v, d: f"{len(v._exit_callbacks)}"),
]
