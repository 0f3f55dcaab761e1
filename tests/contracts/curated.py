"""Arguments that chance would not find, by callable; and how to make objects of some types.

A string names a sample of the pool, a 1-tuple holds a constant.
"""

from typing import Any

CURATED: dict[str, list[tuple[Any, ...]]] = {}
SELVES_BY_CALL: dict[str, list[Any]] = {
    "enumerate": [("numbers",)],
    "reversed": [("numbers",)],
    "zip": [("numbers", "iterator")],
    "map": [("function", "numbers")],
    "filter": [("function", "numbers")],
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
    "takewhile": [("function", "numbers")],
    "zip_longest": [("numbers", "iterator")],
    "_tee": [("numbers",)],
    "attrgetter": [(("name",),)],
    "itemgetter": [((0,),), (("abc",),)],
    "methodcaller": [(("copy",),)],
    "Struct": [(("i",),)],
    "array": [(("i",), lambda k: [1001, 1002, 1003][k.own :])],
    "date": [((2020,), (1,), lambda k: 1 + k.own)],
    "datetime": [((2020,), (1,), lambda k: 1 + k.own)],
    "time": [((3,), "index")],
    "timedelta": [("index",)],
    "Decimal": [("number",)],
    "ReferenceType": [("plain",)],
    "struct_time": [((tuple(range(9)),),)],
    "_tuplegetter": [((0,), ("doc",))],
}
# Besides all that is named __call__: arguments behind the first go to what is called.
DELEGATES = {"_operator.call"}
