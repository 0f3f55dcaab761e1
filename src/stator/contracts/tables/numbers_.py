"""int, float, complex, bool. Numbers are immutable: their methods are pure."""

from .rows import COMPARE, Types

_ARITHMETIC = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __pow__ __rpow__ __truediv__ __rtruediv__"
)
_DIVISION = "__mod__ __rmod__ __divmod__ __rdivmod__ __floordiv__ __rfloordiv__"
_BITS = (
    "__lshift__ __rlshift__ __rshift__ __rrshift__ __and__ __rand__ __xor__ __rxor__ __or__ __ror__"
)
_UNARY = "__neg__ __pos__ __abs__ __bool__ __hash__ __repr__ __getnewargs__ conjugate real imag"
_ROUND = "__int__ __float__ __trunc__ __floor__ __ceil__ as_integer_ratio"

TYPES: Types = {
    int: {
        "pure | s": f"{_ARITHMETIC} {_DIVISION} {_BITS} {_UNARY} {_ROUND} {COMPARE} __invert__ "
        "__index__ bit_length bit_count numerator denominator is_integer@3.12+",
        "pure calls | s": "to_bytes __round__ __format__",
        "reads calls | s": "()",
        "reads calls | . s": "__new__",
        "reads calls | .c di s": "from_bytes",
    },
    float: {
        "pure | s": f"{_ARITHMETIC} {_DIVISION} {_UNARY} {_ROUND} {COMPARE} hex is_integer",
        "pure calls | s": "__round__ __format__",
        "reads calls | s": "()",
        "reads calls | . s": "__new__",
        "pure calls | .c s": "fromhex from_number@3.14+",
        "constant | . s": "__getformat__",
    },
    complex: {
        "pure | s": f"{_ARITHMETIC} {_UNARY} {COMPARE} __complex__",
        "pure calls | s": "() __format__",
        "pure calls | . s": "__new__",
        "pure calls | .c s": "from_number@3.14+",
    },
    bool: {
        "pure | s": "__and__ __rand__ __xor__ __rxor__ __or__ __ror__ __repr__ __invert__@3.12+",
        "reads calls | sp": "()",
        "reads calls | . sp": "__new__",
    },
}
