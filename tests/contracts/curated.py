"""Arguments that chance would not find, by callable; and how to make objects of some types.

A string names a sample of the pool, a 1-tuple holds a constant.
"""

import array
import builtins
import hashlib
import importlib
import itertools
import struct
import types
import zlib
from collections import deque
from datetime import date, time, timedelta
from typing import Any, Generic, TypeVar

from .samples import Knobs, born, number, numbers, slotted, two_arguments

_abc_init = importlib.import_module("_abc")._abc_init


_STRUCTURES = {
    "struct_time": 9,
    "stat_result": 10,
    "terminal_size": 2,
    "uname_result": 5,
    "float_info": 11,
    "hash_info": 9,
}


def _digest(k: Knobs) -> bytes:
    return (b"abc", b"abd")[k.own]


def _format(k: Knobs) -> str:
    return ("i", "h")[k.own]


def _packed(k: Knobs) -> bytes:
    return (b"\1\0\0\0", b"\2\0\0\0")[k.own]


def _room(k: Knobs) -> bytearray:
    return bytearray(8 + k.own)


def _ordered(k: Knobs) -> Any:
    return born(sorted(numbers(k)))


def _abstract(k: Knobs) -> type:
    made = type("Abstract", (), {})
    _abc_init(made)
    return made


def _swapped(k: Knobs) -> Any:
    return born(list(reversed(numbers(k))))


T = TypeVar("T")
NAME = ("name",)
CLASS = ("__class__",)
EMPTY = ("",)

# By "owner.name", or "*.name" for all owners. "self" stands for another object of the owner.
CURATED: dict[str, list[tuple[Any, ...]]] = {
    "*.__getattribute__": [(CLASS,), (("__doc__",),), (NAME,)],
    "*.__setattr__": [(NAME, "number"), (("x",), "tokens"), (("__doc__",), "text")],
    "*.__delattr__": [(NAME,), (("x",),), (("__doc__",),)],
    "*.__format__": [(EMPTY,)],
    "*.__reduce_ex__": [((2,),), ((4,),)],
    "*.__setstate__": [((0,),), ((1,),), (((0,),),), (((0, 1),),)],
    "*.fromhex": [(("0a",),)],
    "*.fromisoformat": [(("2020-01-01",),), (("03:04",),)],
    **{f"KeyWrapper.__{name}__": [("self",)] for name in ("lt", "le", "eq", "ne", "gt", "ge")},
    "*.insert": [((1,), (2,))],
    "math.fmax": [("float", "float")],
    "binascii.a2b_base32": [((b"ME======",),)],
    **{
        f"unicodedata.{name}": [(("a",),)]
        for name in (
            *("block", "extended_pictographic", "grapheme_cluster_break", "indic_conjunct_break"),
            *("isxidcontinue", "isxidstart"),
        )
    },
    "*.__setitem__": [((0,), (2,)), ((0,), "token"), (("abc",), "token")],
    "*.__add__": [("self",)],
    "*.__iadd__": [("self",)],
    "type.__new__": [(("Made",), ((int,),), "mapping"), (("Made",), ((),), "mapping")],
    "type.()": [(("Made",), ((),), "mapping")],
    "BaseExceptionGroup.()": [("text", lambda k: [ValueError(*numbers(k))])],
    "ExceptionGroup.()": [("text", lambda k: [ValueError(*numbers(k))])],
    "BaseExceptionGroup.__new__": [("text", lambda k: [ValueError(*numbers(k))])],
    "BaseExceptionGroup.derive": [(lambda k: [ValueError(*numbers(k))],)],
    "BaseExceptionGroup.split": [((ValueError,),), ((KeyError,),)],
    "BaseExceptionGroup.subgroup": [((ValueError,),)],
    "BaseException.with_traceback": [((None,),)],
    "UnicodeDecodeError.()": [("text", "bytes", (0,), (1,), "text")],
    "UnicodeEncodeError.()": [("text", "text", (0,), (1,), "text")],
    "UnicodeTranslateError.()": [("text", (0,), (1,), "text")],
    "UnicodeDecodeError.__init__": [("text", "bytes", (0,), (1,), "text")],
    "UnicodeEncodeError.__init__": [("text", "text", (0,), (1,), "text")],
    "UnicodeTranslateError.__init__": [("text", (0,), (1,), "text")],
    "str.replace": [("text", "text")],
    "str.maketrans": [("mapping",), (lambda k: {97: numbers(k)[0]},), ("text", "text")],
    "str.translate": [(lambda k: {97: numbers(k)[0]},)],
    "bytes.join": [(lambda k: [b"ab", bytearray((b"cd", b"ef")[k.items])],)],
    "bytearray.join": [(lambda k: [b"ab", bytearray((b"cd", b"ef")[k.items])],)],
    "bytes.maketrans": [("bytes", "bytes")],
    "bytearray.maketrans": [("bytes", "bytearray")],
    "bytes.replace": [("bytes", "bytearray")],
    "bytearray.replace": [("bytes", "bytearray")],
    "bytearray.remove": [((97,),)],
    "int.from_bytes": [("bytes", ("little",)), (lambda k: [number(1 + k.items)], ("big",))],
    "memoryview._from_flags": [("bytes", (0,))],
    "memoryview.cast": [(("B",),)],
    "memoryview.__setitem__": [((0,), (1,))],
    "defaultdict.__init__": [((int,), "pairs")],
    "function.()": [(lambda k: two_arguments.__code__, "mapping")],
    "function.__new__": [(lambda k: two_arguments.__code__, "mapping")],
    "classmethod_descriptor.__call__": [((dict,), "numbers")],
    "member_descriptor.__get__": [(slotted,)],
    "member_descriptor.__set__": [(slotted, "token")],
    "member_descriptor.__delete__": [(slotted,)],
    "getset_descriptor.__get__": [("function",)],
    "getset_descriptor.__set__": [("function", "tuple")],
    "getset_descriptor.__delete__": [("function",)],
    "Pattern.sub": [("text", "text"), ("function", "text")],
    "Pattern.subn": [("text", "text")],
    "partial.__setstate__": [(lambda k: (two_arguments, tuple(numbers(k)), {}, None),)],
    "deque.__setitem__": [((0,), "token")],
    "deque.index": [((2001,),)],
    "deque.remove": [((2001,),)],
    "list.index": [((2001,),)],
    "list.remove": [((2001,),)],
    "OrderedDict.move_to_end": [(("abc",),)],
    "Struct.()": [(_format,)],
    "Struct.__init__": [(_format,)],
    "Struct.pack_into": [(_room, (0,), "number")],
    "Struct.unpack": [(_packed,)],
    "date.()": [((2020,), (1,), lambda k: 1 + k.own)],
    "date.__new__": [((2020,), (1,), lambda k: 1 + k.own)],
    "date.fromisocalendar": [((2020,), (1,), lambda k: 1 + k.own)],
    "datetime.()": [((2020,), (1,), lambda k: 1 + k.own)],
    "datetime.__new__": [((2020,), (1,), lambda k: 1 + k.own)],
    "datetime.combine": [(lambda k: date(2020, 1, 1 + k.own), lambda k: time(3))],
    "timezone.()": [(lambda k: timedelta(hours=1 + k.own),)],
    "timezone.__new__": [(lambda k: timedelta(hours=1 + k.own),)],
    "array._array_reconstructor": [
        ((array.array,), ("i",), (8,), lambda k: bytes(range(8 + 4 * k.own)))
    ],
    "array.()": [(("i",), "numbers")],
    "array.__new__": [(("i",), "numbers")],
    "array.index": [((2002,),)],
    "array.remove": [((2002,),)],
    **{
        f"{name}.{way}": [(lambda k, size=size: tuple(range(size)),)]
        for name, size in _STRUCTURES.items()
        for way in ("()", "__new__")
    },
    "IsoCalendarDate.()": [("number", (1,), (1,))],
    "IsoCalendarDate.__new__": [("number", (1,), (1,))],
    "_lru_cache_wrapper.()": [("function", (None,), (False,), (tuple,))],
    "_lru_cache_wrapper.__new__": [("function", (None,), (False,), (tuple,))],
    "_tuplegetter.()": [("index", "text")],
    "_deque_iterator.()": [(lambda k: deque(numbers(k)),)],
    "_deque_iterator.__new__": [(lambda k: deque(numbers(k)),)],
    "_deque_reverse_iterator.()": [(lambda k: deque(numbers(k)),)],
    "_deque_reverse_iterator.__new__": [(lambda k: deque(numbers(k)),)],
    "builtins.issubclass": [("class", "class"), ("class", lambda k: (int, str))],
    "builtins.getattr": [("plain", NAME), ("plain", ("missing",), "token")],
    "builtins.hasattr": [("plain", NAME)],
    "builtins.setattr": [("plain", NAME, "token")],
    "builtins.delattr": [("plain", NAME)],
    "builtins.divmod": [("number", "index"), ("float", "number")],
    "builtins.pow": [("number", "index"), ("index", "index", "number")],
    "builtins.ord": [(lambda k: "ab"[k.own],), (lambda k: bytearray((b"a", b"b")[k.own]),)],
    "builtins.sorted": [("numbers",), ("words",)],
    "builtins.max": [("number", "number"), ("numbers",)],
    "builtins.sum": [("numbers", "number"), ("lists", lambda k: [])],
    "_operator._compare_digest": [("bytes", "bytearray"), ("text", "text")],
    "_operator.indexOf": [("numbers", (2001,))],
    "_operator.countOf": [("numbers", (2001,))],
    "_operator.contains": [("numbers", (2001,)), ("mapping", "text")],
    "_operator.setitem": [("numbers", "index", "token"), ("mapping", "text", "token")],
    "_operator.delitem": [("numbers", "index"), ("mapping", ("abc",))],
    "_operator.getitem": [("numbers", "index"), ("mapping", ("abc",)), ("text", "slice")],
    "_operator.iconcat": [("numbers", "iterator"), ("tuple", "tuple")],
    "_operator.concat": [("numbers", "tokens"), ("text", "text")],
    **{
        f"_operator.{name}": [("number", "number"), ("float", "number"), ("number", "index")]
        for name in (
            "sub",
            "mul",
            "floordiv",
            "truediv",
            "lshift",
            "rshift",
            "pow",
            "lt",
            "le",
            "gt",
            "ge",
            "eq",
            "ne",
            "isub",
            "imul",
            "ifloordiv",
            "itruediv",
            "ilshift",
            "irshift",
            "imod",
            "ipow",
        )
    },
    **{
        f"_operator.{name}": [("number", "number"), ("set", lambda k: {1, 2}), ("set", "set")]
        for name in ("and_", "or_", "xor", "sub", "iand", "ior", "ixor", "isub")
    },
    "_operator.add": [("numbers", "tokens"), ("tuple", "tuple"), ("number", "float")],
    "_operator.iadd": [("numbers", "iterator"), ("tuple", "tuple"), ("number", "float")],
    "_operator.mul": [("numbers", "index"), ("number", "index"), ("text", "index")],
    "_operator.imul": [("numbers", (2,)), ("number", "index")],
    "_operator.mod": [("number", "index"), (("%s",), "tuple"), (("%s",), "plain")],
    "_bisect.bisect_left": [(_ordered, "number")],
    "_bisect.bisect_right": [(_ordered, "number")],
    "_bisect.insort_left": [(_ordered, "number")],
    "_bisect.insort_right": [(_ordered, "number")],
    **{
        f"_heapq.{name}": [(_ordered, (5000,)), (_swapped, (5000,))]
        for name in ("heappush", "heappushpop", "heapreplace", "_heapreplace_max")
    },
    **{
        f"_heapq.{name}": [(_ordered, (5000,)), (_swapped, (5000,)), (_ordered, (1,))]
        for name in ("heappush_max", "heappushpop_max", "heapreplace_max")
    },
    **{
        f"math.{name}": [("float", "float"), ("index", "index"), ("number", "index")]
        for name in (
            "atan2",
            "comb",
            "fmod",
            "isclose",
            "nextafter",
            "pow",
            "remainder",
            "perm",
            "ldexp",
            "dist",
        )
    },
    "math.dist": [("numbers", "numbers")],
    "math.sumprod": [("numbers", "numbers")],
    "math.fma": [("float", "float", "number")],
    "cmath.isclose": [("complex", "float")],
    "_statistics._normal_dist_inv_cdf": [("float", "float", "float")],
    "_abc._abc_instancecheck": [(_abstract, "plain")],
    "_abc._abc_subclasscheck": [(_abstract, "class")],
    "_abc._abc_register": [(_abstract, "class")],
    "_weakref._remove_dead_weakref": [("mapping", ("zzz",))],
    "_struct.calcsize": [(_format,)],
    "_codecs.utf_32_ex_decode": [(lambda k: "abc"[k.own :].encode("utf-32"),)],
    "_hashlib.new": [(("sha1",), _digest)],
    "_hashlib.hmac_new": [(_digest, _digest, ("sha1",))],
    "_hashlib.hmac_digest": [(_digest, _digest, ("sha1",))],
    "_hashlib.pbkdf2_hmac": [(("sha1",), _digest, _digest, (2,))],
    "_hashlib.compare_digest": [(_digest, _digest)],
    "Decompress.decompress": [(lambda k: zlib.compress(b"abc", wbits=15 - k.own),)],
    "zlib.decompress": [(lambda k: zlib.compress(_digest(k)),)],
    "_struct.iter_unpack": [(("i",), _packed)],
    "_struct.pack": [(_format, "number")],
    "_struct.unpack": [(("i",), _packed)],
    "_struct.unpack_from": [(("i",), _packed)],
    "_struct.pack_into": [(("i",), _room, (0,), "number")],
    "_json.scanstring": [(('"abc"',), (1,))],
    **{f"{owner}.normalize": [(("NFC",), "text")] for owner in ("unicodedata",)},
    "unicodedata.is_normalized": [(("NFC",), "text")],
    "unicodedata.lookup": [(("DIGIT ONE",),)],
    **{
        f"unicodedata.{name}": [(lambda k: "12"[k.own],)]
        for name in (
            "bidirectional",
            "category",
            "combining",
            "decimal",
            "decomposition",
            "digit",
            "east_asian_width",
            "mirrored",
            "name",
            "numeric",
        )
    },
    "binascii.crc_hqx": [("bytes", "index")],
    "binascii.a2b_uu": [((b"#86)C",),)],
    **{
        f"_codecs.{name}_decode": [((b"\0\0\0\0",),)]
        for name in ("utf_32", "utf_32_be", "utf_32_le")
    },
}

SELVES_BY_CALL: dict[str, list[Any]] = {
    **{f"sha3_{size}": [(_digest,)] for size in (224, 256, 384, 512)},
    **{f"blake2{kind}": [(_digest,)] for kind in "bs"},
    "HASH": [lambda k: hashlib.sha1(_digest(k))],
    "HMAC": [lambda k: importlib.import_module("_hashlib").hmac_new(_digest(k), b"", "sha1")],
    "Compress": [lambda k: zlib.compressobj(1 + k.own)],
    "Decompress": [lambda k: zlib.decompressobj(15 - k.own)],
    "unpack_iterator": [lambda k: struct.iter_unpack("b", _digest(k))],
    "IsoCalendarDate": [lambda k: date(2020 + k.own, 1, 1).isocalendar()],
    "enumerate": [("numbers",)],
    "reversed": [("numbers",)],
    "zip": [("numbers", "iterator")],
    "map": [("function", "numbers")],
    "filter": [((bool,), "numbers")],
    "accumulate": [("numbers",)],
    "batched": [("numbers", (2,))],
    "chain": [("numbers", "iterator")],
    "combinations": [("numbers", (2,))],
    "combinations_with_replacement": [("numbers", (2,))],
    "compress": [("numbers", "words")],
    "count": [("number",)],
    "cycle": [("numbers",)],
    "dropwhile": [("function", "numbers")],
    "filterfalse": [("function", "numbers")],
    "groupby": [("numbers",)],
    "islice": [("numbers", (2,))],
    "pairwise": [("numbers",)],
    "permutations": [("numbers",)],
    "product": [("numbers",)],
    "repeat": [("numbers", (2,))],
    "starmap": [("function", "pairs")],
    "takewhile": [((bool,), "numbers")],
    "zip_longest": [("numbers", "iterator")],
    "_tee": [("numbers",)],
    "attrgetter": [(("name",),)],
    "itemgetter": [((0,),), (("abc",),)],
    "methodcaller": [(("copy",),)],
    "Struct": [(("i",),)],
    "array": [(("i",), lambda k: [2001, 2002, 2003][k.own :])],
    "date": [((2020,), (1,), lambda k: 1 + k.own)],
    "datetime": [((2020,), (1,), lambda k: 1 + k.own)],
    "time": [((3,), "index")],
    "timedelta": [("index",)],
    "ZoneInfo": [(("UTC",),)],
    "Decimal": [("number",)],
    "ReferenceType": [("plain",)],
    **{name: [((tuple(range(size)),),)] for name, size in _STRUCTURES.items()},
    "_tuplegetter": [((0,), ("doc",))],
    "TypeVar": [(("T",),)],
    "TypeVarTuple": [(("Ts",),)],
    "ParamSpec": [(("P",),)],
    "ParamSpecArgs": [("plain",)],
    "ParamSpecKwargs": [("plain",)],
    "TypeAliasType": [(("Alias",), "class")],
    "frozendict": [("mapping",), lambda k: vars(builtins)["frozendict"](enumerate(numbers(k)))],
    "sentinel": [(("NAME",),)],
}
# The class that class methods get, where it is not the owner itself.
CLASSES: dict[str, Any] = {
    "Generic": lambda k: types.new_class("Box", (Generic[T],)),  # type: ignore[index]
}
# Besides all that is named __call__: arguments behind the first go to what is called.
DELEGATES = {"_operator.call"}
# A sequence times a symbolic integer asks it for its value: it specializes itself.
SYMBOLIC_ANYWAY = {"_operator.mul", "_operator.imul"}

# Callables that no sample makes succeed, and why that is all right.
NEVER_SUCCEED = {
    **dict.fromkeys(
        (
            "unpack_iterator.()",
            "unpack_iterator.__new__",
            "reader.()",
            "writer.()",
            "ZoneInfo.__init_subclass__",  # takes a class
            "ZoneInfo.fromutc",  # takes a time of this very zone
            "flags.()",
            "version_info.()",
            "_hashlib.scrypt",  # takes a keyword
            "type.__abstractmethods__",
            "BaseException.__delattr__",
            "OSError.characters_written",
            "GenericAlias.__instancecheck__",
            "GenericAlias.__subclasscheck__",
            "GenericAlias.__getitem__",
            "UnionType.__getitem__",
            "memoryview.__hash__",
            "memoryview.__delitem__",
            "mappingproxy.__lt__",
            "mappingproxy.__le__",
            "mappingproxy.__gt__",
            "mappingproxy.__ge__",
            "mappingproxy.__ior__",
            "method.__setattr__",
            "method.__delattr__",
            "_tuplegetter.__set__",
            "_tuplegetter.__delete__",
            "ReferenceType.__hash__",
            "Struct.__setattr__",
            "Struct.__delattr__",
            "array.__release_buffer__",
            "bytearray.__release_buffer__",
            "memoryview.__release_buffer__",
            "mappingproxy.__hash__",
            "array.fromunicode",
            "array.tounicode",
            "Token.()",
            "Token.__new__",
            *(
                SINCE_12 := (
                    *(
                        f"{name}.__mro_entries__"
                        for name in (
                            *("TypeVar", "TypeVarTuple", "ParamSpec"),
                            *("ParamSpecArgs", "ParamSpecKwargs"),
                        )
                    ),
                    "TypeVarTuple.__typing_subst__",
                    "TypeAliasType.__getitem__",
                )
            ),
            *(SINCE_14 := ("NotImplementedType.__bool__", "Union.__getitem__")),
            *(SINCE_14_ONLY := ("Union.__mro_entries__", "memoryview.index", "Struct.__new__")),
        ),
        "raises for every object made here, or for all there are",
    ),
    "generator.throw": "raises what it is given",
    **dict.fromkeys(
        (
            "code.()",
            "code.__new__",
            "traceback.()",
            "traceback.__new__",
            "_sre.compile",
            "_sre.template",
            "Scanner.()",
            "Scanner.__new__",
            "Encoder.()",
            "Encoder.__new__",
            "_tee_dataobject.()",
            "_tee_dataobject.__new__",
            "_grouper.()",
            "_grouper.__new__",
            *(
                PREPARED := tuple(
                    f"{name}.__typing_prepare_subst__"
                    for name in ("TypeVar", "TypeVarTuple", "ParamSpec")
                )
            ),
            "_tee.__setstate__",
            "chain.__setstate__",
            "cycle.__setstate__",
            "groupby.__setstate__",
            "permutations.__setstate__",
        ),
        "wants objects that only the interpreter or a pickle holds",
    ),
    **dict.fromkeys(
        ("builtins.aiter", "builtins.anext", "_operator.matmul", "_operator.imatmul"),
        "no C type of the samples has the protocol",
    ),
}
# Mutations that the samples do not bring about, or that can not be seen from outside.
UNSEEN: dict[str, str] = {
    **{
        f"{name}.update": "a digest shows what it was given when it is asked"
        for name in ("HASH", "HMAC", "blake2b", "blake2s", "sha3_224", "sha3_256")
    },
    **{f"sha3_{size}.update": "the same" for size in (384, 512)},
    **dict.fromkeys(("Compress.compress", "Compress.flush"), "kept where nobody sees it"),
    **dict.fromkeys(("Decompress.decompress", "Decompress.flush"), "kept where nobody sees it"),
    "type.__annotations__": "left out of the description",
    "BaseException.with_traceback": "tracebacks are left out of the description",
    "property.__set_name__": "the name is not kept before 3.13",
    **{
        f"{cls.__name__}.__init__": "__new__ has done it, unless a subclass overrides it"
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, OSError)
    },
    **dict.fromkeys(
        (
            "memory_iterator.__next__",
            "arrayiterator.__next__",
            "arrayiterator.__setstate__",
            "callable_iterator.__next__",
            "odict_iterator.__next__",
            "pairwise.__next__",
            "batched.__next__",
            "SRE_Scanner.match",
            "SRE_Scanner.search",
            "SRE_Scanner.prefixmatch",
            "OrderedDict.move_to_end",
            "_abc._abc_register",
            "_weakref._remove_dead_weakref",
        ),
        "the state does not show",
    ),
    **dict.fromkeys(
        LAZY := (
            *("TypeVar.__bound__", "TypeVar.__constraints__", "TypeVar.__default__"),
            *("TypeVarTuple.__default__", "ParamSpec.__default__", "TypeAliasType.__value__"),
        ),
        "it is there already, unless a type parameter list made the object",
    ),
    "Generic.__init_subclass__": "making the class has called it",
    "SimpleNamespace.__init__": "keywords only, before 3.13",
    "Struct.__init__": "__new__ has done it, since 3.14",
}
if "__reduce__" not in vars(itertools.chain):
    UNSEEN |= {
        f"{cls.__name__}.__next__": "the state does not show since 3.14"
        for cls in (*vars(itertools).values(), type(itertools.tee([])[0]))
        if isinstance(cls, type) and hasattr(cls, "__next__")
    }
OTHER_VERSIONS = {
    "BaseException.__delattr__",
    "array.__release_buffer__",
    "bytearray.__release_buffer__",
    "memoryview.__release_buffer__",
    "mappingproxy.__hash__",
    "_sre.template",
    "batched.__next__",
    "method.__setattr__",
    "method.__delattr__",
    "UnionType.__getitem__",  # it is typing.Union since 3.14
    # Since 3.14 they have none of their own, or itertools does not show what is in iterators.
    *(f"{cls.__name__}.__init__" for cls in OSError.__subclasses__()),
    *(f"{cls.__name__}.__init__" for cls in ConnectionError.__subclasses__()),
    *("_grouper.__next__", "_tee.__setstate__", "chain.__setstate__", "cycle.__setstate__"),
    *("groupby.__setstate__", "permutations.__setstate__"),
    *("SRE_Scanner.prefixmatch", "Generic.__init_subclass__", *SINCE_12, *PREPARED, *LAZY),
    *SINCE_14,
    *SINCE_14_ONLY,
}

# Keyword arguments: the positional ones, the keyword, and a value that works.
KEYWORDS: dict[str, tuple[list[Any], str, Any]] = {
    "builtins.sorted": ([numbers], "key", len),
    "builtins.max": ([numbers], "key", len),
    "builtins.min": ([numbers], "default", 1),
    "builtins.sum": ([numbers], "start", 1),
    "list.sort": ([numbers], "key", len),
    "list.()": ([], "iterable", ()),
    "dict.()": ([], "key", 1),
    "dict.update": ([lambda k: {}], "key", 1),
    "int.()": ([], "base", 10),
    "str.()": ([], "object", 1),
    "str.split": ([lambda k: "a b"], "maxsplit", 1),
    "str.encode": ([lambda k: "a b"], "errors", "strict"),
    "str.format": ([lambda k: "{key}"], "key", 1),
    "enumerate.()": ([numbers], "start", 1),
    "zip.()": ([numbers], "strict", True),
    "partial.()": ([lambda k: len], "key", 1),
    "deque.()": ([numbers], "maxlen", 1),
    "accumulate.()": ([numbers], "func", max),
    "groupby.()": ([numbers], "key", len),
    "product.()": ([numbers], "repeat", 2),
    "property.()": ([], "fget", len),
    "math.prod": ([numbers], "start", 1),
    "math.isclose": ([lambda k: 1, lambda k: 2], "rel_tol", 1),
    "_bisect.bisect_left": ([numbers, lambda k: 1], "key", abs),
    "SimpleNamespace.()": ([], "key", 1),
}
