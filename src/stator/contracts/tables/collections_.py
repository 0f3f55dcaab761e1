"""`collections`, in C: deque, defaultdict, OrderedDict; and `_bisect`, `_heapq`."""

from collections import OrderedDict

from .containers import SET_VIEW, VIEW
from .iterators import ITERATOR
from .rows import COMPARE, Functions, Types, override

FUNCTIONS: Functions = {
    "_collections": {"mutates calls | dhm dhi": "_count_elements"},
    "_bisect": {
        "reads calls | dp dp sc": "bisect_left bisect_right",
        "mutates calls | dmp dp sc": "insort_left insort_right",
    },
    "_heapq": {
        "mutates calls | dmp dp": "heapify heappop heappush heappushpop heapreplace "
        "_heapify_max@-3.13 _heappop_max@-3.13 _heapreplace_max@-3.13 heapify_max@3.14+ "
        "heappop_max@3.14+ heappush_max@3.14+ heappushpop_max@3.14+ heapreplace_max@3.14+",
    },
}

_DEQUE_ITERATOR = override(
    ITERATOR,
    {
        "reads calls | s": "()",
        "reads calls | . s": "__new__",
    },
)

TYPES: Types = {
    "_collections:deque": {
        "reads | s": "__len__ __iter__ __reversed__",
        "reads | a": "maxlen",
        "reads calls | s": "__add__ __mul__ __rmul__ __copy__ copy __getitem__",
        "reads calls | as": "__reduce__",
        "reads calls | dp": COMPARE,
        "reads calls | dp dp s": "__contains__ count index",
        "reads calls identity | da": "__repr__",
        "reads calls | si s": "()",
        "pure | .": "__new__",
        "mutates | sm .": "append appendleft clear pop popleft reverse",
        "mutates calls | sm si s": "__init__ extend extendleft __iadd__",
        "mutates calls | sm s .": "insert __setitem__ __delitem__ __imul__ rotate",
        "mutates calls | dmp dp": "remove",
    },
    "_collections:defaultdict": {
        "reads calls | c dhi .": "()",
        "mutates calls | sm c dhi .": "__init__",
        "mutates calls | smc dh": "__missing__",
        "reads calls | s": "__or__ __ror__ __copy__ copy",
        "reads calls | as": "__reduce__",
        "reads calls identity | da": "__repr__",
    },
    "_collections:OrderedDict": {
        "reads calls | s": "__iter__ __reversed__ keys values items",
        "reads calls | sh": "copy __or__ __ror__",
        "reads calls | dp": COMPARE,
        "reads calls | as": "__reduce__",
        "reads calls identity | da": "__repr__",
        "reads calls | dhi .": "()",
        "reads calls | c dhi .": "fromkeys",
        "mutates calls | sm s": "clear popitem",
        "mutates calls | sm dh .": "__setitem__ __delitem__ pop setdefault move_to_end",
        "mutates calls | sm dhi .": "__init__ update __ior__",
    },
    type(OrderedDict().keys()): SET_VIEW,
    type(OrderedDict().items()): SET_VIEW,
    type(OrderedDict().values()): VIEW,
    type(iter(OrderedDict())): ITERATOR,
    "_collections:_deque_iterator": _DEQUE_ITERATOR,
    "_collections:_deque_reverse_iterator": _DEQUE_ITERATOR,
    "_collections:_tuplegetter": {
        "pure calls | s .": "()",
        "pure calls | . s .": "__new__",
        "reads | s s": "__get__",
        "pure | .": "__set__ __delete__",
        "reads | s": "__reduce__",
        "reads | d": "__repr__",
    },
}
