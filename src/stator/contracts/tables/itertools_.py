"""`itertools`: constructors take iterators of their arguments, `__next__` drives them."""

from .iterators import DRIVER
from .rows import Functions, Rows, Types, override


def _driver(arguments: str, *more: tuple[str, str]) -> Rows:
    return override(
        DRIVER,
        {
            f"reads calls | {arguments}": "()",
            f"reads calls | . {arguments}": "__new__",
            **dict(more),
        },
    )


FUNCTIONS: Functions = {"itertools": {"reads calls | si s": "tee"}}

TYPES: Types = {
    "itertools:accumulate": _driver("di c"),  # it adds them
    "itertools:batched@3.12+": _driver("si s"),
    "itertools:chain": _driver("si", ("reads calls | . di", "from_iterable")),
    "itertools:combinations": _driver("si s"),
    "itertools:combinations_with_replacement": _driver("si s"),
    "itertools:compress": _driver("si di"),
    "itertools:count": {
        "pure calls | sp": "()",
        "pure calls | . sp": "__new__",
        "reads | s": "__iter__ __reduce__",
        "reads calls identity | da": "__repr__",
        "mutates calls | smp": "__next__",
    },
    "itertools:cycle": _driver("si"),
    "itertools:dropwhile": _driver("c si"),
    "itertools:filterfalse": _driver("c si"),
    "itertools:groupby": _driver("di c"),  # it compares them
    "itertools:islice": _driver("si s"),
    "itertools:pairwise": _driver("si"),
    "itertools:permutations": _driver("si s"),
    "itertools:product": _driver("si"),
    "itertools:repeat": override(
        DRIVER,
        {
            "pure calls | . s": "()",
            "pure calls | . . s": "__new__",
            "reads | s": "__iter__ __length_hint__ __reduce__",
            "mutates | sm": "__next__",
            "reads calls identity | da": "__repr__",
        },
    ),
    "itertools:starmap": _driver("c di"),
    "itertools:takewhile": _driver("c si"),
    "itertools:zip_longest": _driver("si"),
    "itertools:_grouper": _driver("s"),
    "itertools:_tee": override(_driver("si"), {"reads | s": "__iter__ __copy__"}),
    "itertools:_tee_dataobject": _driver("si d"),
}
