# mypy: ignore-errors
"""What Python does with numbers that are read from tensors, operator by operator, kind by kind.

Each expression is compiled once per kind of number and called with all values of it: the result, to
the bit, and the exception are eager's. Those in `CAPTURED` must be one graph.
"""

import copy
import functools
import itertools
import linecache
import math
import operator
import os
import warnings

import pytest
import torch

import stator

INTEGERS = [3, 0, -2, 40, 2**53 + 1, -(2**63), 2**63 - 1]
FLOATS = [2.5, -0.0, -1.75, 0.1, math.nan, -math.inf, 1e300, 2.0**53 + 2, 2.675]
KINDS = {
    "int": (torch.int64, INTEGERS),
    "byte": (torch.uint8, [3, 0, 255]),
    "bool": (torch.bool, [True, False]),
    "double": (torch.float64, FLOATS),
    "half": (torch.float16, [2.5, 0.0, -0.0, -1.75, math.nan, math.inf]),
}
FLOATING = ("double", "half")
WHOLE = ("int", "byte", "bool")
EVERY = ("double", "int", "bool")

_MATH_FLOATS = (
    "acos acosh asin asinh atan atanh cos cosh degrees erf erfc exp expm1 fabs gamma lgamma log "
    "log10 log1p log2 radians sin sinh sqrt tan tanh ulp frexp modf isnan isinf isfinite"
)
_MATH_PAIRS = "atan2 copysign fmod hypot log pow remainder nextafter isclose"
_TYPED_METHODS = (
    "__add__ __rsub__ __mul__ __truediv__ __floordiv__ __mod__ __lt__ __eq__ __divmod__"
)

# Expressions of a number n that are captured, and for which kinds.
CAPTURED = {
    **dict.fromkeys(
        [
            *(
                "-n",
                "+n",
                "abs(n)",
                "n + 1",
                "2 * n",
                "n - 0.5",
                "n / 3",
                "0.0 * n",
                "n * math.inf",
            ),
            *("n // 2", "n % 3", "n // -3", "n % -2.5", "n // 0.1", "7.5 // n", "7 % n", "1 / n"),
            *("divmod(n, 3)", "divmod(n, -2.5)", "n ** 2", "n ** -1", "n ** 0.5", "pow(n, 3)"),
            *("round(n)", "round(n, 2)", "round(n, -1)", "round(n, None)", "round(n, ndigits=1)"),
            *("int(n)", "float(n)", "math.floor(n)", "math.ceil(n)", "math.trunc(n)"),
            *("n < 2", "n == 3.0", "n != n", "n > 1e300", "n == None", "n == 'a'"),
            *("str(n)", "repr(n)", "f'{n}'", "f'{n!r:>8}'", "'%s' % n", "'{} {}'.format(n, n)"),
            *("n.__repr__()", "n.__str__()", "f'{[n]} {n=}'", "ascii(n)"),
            *(
                "n.real",
                "n.imag",
                "n.conjugate()",
                "n.__class__",
                "type(n)",
                "n.as_integer_ratio()",
            ),
            *("n.__abs__()", "n.__neg__()", "n.__float__()", "n.__round__()", "n.__add__('a')"),
            *(
                "[n] * 2",
                "(n, [n + 1])",
                "{'a': n}",
                "[*[n], 1]",
                "(lambda a, *b: (a, b))(*[n, n])",
            ),
            *(
                "sum([n, n, 1])",
                "sum([n], 0.5)",
                "math.prod([n, 2])",
                "max(n, n)",
                "min([n, n + 1])",
            ),
            *("max(n, 1)", "min([2.5, n])", "max([n, 2], key=lambda v: -v)"),
            *("n in (1, 2, 3)", "[n].index(n)", "[n, n].count(n)", "n is n", "n is None"),
            *("copy.deepcopy([n])", "functools.reduce(operator.add, [n, 1, 2])", "any([n])"),
            *("list(map(abs, [n]))", "dir(n)"),
            *(
                "torch.sym_max(n, 1.5)",
                "torch.sym_min(1, n)",
                "torch.sym_sqrt(n)",
                "torch.sym_not(n)",
            ),
            *("torch.sym_sum([n, n])", "torch.sym_float(n)", "torch.tensor([n, 1])", "t + n"),
            *(f"operator.{name}(n, 4)" for name in "add sub mul truediv floordiv mod".split()),
            *(f"math.{name}(n)" for name in _MATH_FLOATS.split()),
            *(f"math.{name}(n, 2)" for name in _MATH_PAIRS.split()),
            *(f"math.{name}(2.5, n)" for name in _MATH_PAIRS.split()),
            *(f"n.{name}(3)" for name in _TYPED_METHODS.split()),
        ],
        EVERY,
    ),
    **dict.fromkeys(
        [
            *("n.is_integer()", "n.hex()", "f'{n:.3f}'", "'%.2f' % n", "f'{n:%}'", "n.__int__()"),
            *(
                "math.fsum([n, 0.1, n])",
                "sorted([n, 2, 1.5])",
                "sum([0.1, n, 0.3, n])",
                "n.__format__('.1e')",
            ),
        ],
        FLOATING,
    ),
    **dict.fromkeys(
        [
            *("~n", "n & 6", "n | 9", "n ^ 5", "n << 2", "n >> 1", "True & n", "n.bit_length()"),
            *("n.bit_count()", "n.numerator", "n.denominator", "bin(n)", "hex(n)", "oct(n)"),
            *("pow(n, 2, 7)", "math.gcd(n, 4)", "math.lcm(n, 2)", "math.isqrt(abs(n))", "n is 3"),
            *("f'{n:x}'", "'%d' % n", "'{:,}'.format(n)", "n.__and__(3)", "n.__index__()"),
            *("math.comb(5, n)", "n is True", "n * 10**18", "n + 2**63", "n * n * n"),
        ],
        WHOLE,
    ),
}
# Some of them, one for each way in which a graph computes it.
WITH_AOT = [
    *("n // 0.1", "divmod(n, -2.5)", "n ** 0.5", "round(n, 2)", "math.exp(n)", "math.frexp(n)"),
    *("n & 6", "n << 2", "pow(n, 2, 7)", "n.bit_length()", "max(n, 1)", "sum([n, n, 1])"),
    *(
        "n.is_integer()",
        "n.hex()",
        "bin(n)",
        "math.atan2(2.5, n)",
        "int(n)",
        "torch.sym_max(n, 1.5)",
    ),
    *("n * n * n", "t + n", "math.sqrt(n)", "n.as_integer_ratio()", "torch.sym_not(n)", "n is 3"),
]
# For which the number itself is needed, or which raise.
BROKEN = [
    *("complex(n)", "hash(n)", "{n: 1}", "{1: 2, 2.5: 3}.get(n)", "n + 'a'", "n / 0", "n % 0"),
    *("n.foo", "type(n.__add__)", "n()", "n[0]", "len(n)", "n.to_bytes(16, 'big', signed=True)"),
    *("1 << n if n < 99 else 0", "n << 2", "n & 6", "(1, 2, 3)[n:]", "[1, 2, 3][n]", "n + 1j"),
    *("2 ** n if abs(n) < 99 else 0", "chr(n)", "len(str(n))", "n is n + 0", "('%5d' % n)[1:]"),
]
GIVEN = {
    "math": math,
    "torch": torch,
    "operator": operator,
    "copy": copy,
    "functools": functools,
    "itertools": itertools,
}


def program(expression: str):
    source = f"def program(t):\n    n = t.item()\n    return {expression}\n"
    name = f"<numbers {expression}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = dict(GIVEN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, name, "exec"), namespace)
    return namespace["program"]


def shown(value):
    """A value with its types, to the bit; all nans are alike."""
    kind = type(value)
    if kind is float:
        return "nan" if value != value else value.hex()
    if kind is complex:
        return shown(value.real), shown(value.imag)
    if kind in (list, tuple):
        return kind, [shown(item) for item in value]
    if kind is dict:
        return [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, shown(value.tolist())
    return kind, value


def outcome(function, tensor):
    try:
        return shown(function(tensor))
    except Exception as error:
        return type(error), str(error)


def compared(expression, kind, **options):
    function = program(expression)
    compiled = stator.compile(function, **options)
    dtype, values = KINDS[kind]
    for value in [*values, values[0]]:
        tensor = torch.tensor(value, dtype=dtype)
        expected, found = outcome(function, tensor), outcome(compiled, tensor)
        assert found == expected, f"{expression} for {value!r}: {found}, eager: {expected}"


def is_captured(expression, kind):
    dtype, values = KINDS[kind]
    compiled = stator.compile(program(expression), backend="eager", fullgraph=True)
    try:
        compiled(torch.tensor(values[0], dtype=dtype))
    except stator.CaptureError:
        return False
    except Exception:  # the program's own
        return True
    return True


@pytest.fixture(autouse=True)
def _fresh():
    stator.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    stator.reset()


@pytest.mark.parametrize("expression", CAPTURED)
def test_captured(expression):
    for kind in CAPTURED[expression]:
        assert is_captured(expression, kind), kind
        compared(expression, kind, backend="eager")


@pytest.mark.parametrize("expression", WITH_AOT)
def test_captured_with_aot(expression):
    compared(expression, CAPTURED[expression][0], backend="aot_eager")


@pytest.mark.parametrize("expression", BROKEN)
def test_broken(expression):
    for kind in ("int", "bool", "double"):
        compared(expression, kind, backend="eager")


PAIRS = [
    *(f"a {sign} b" for sign in "+ - * / // % & | ^ < <= == != > >=".split()),
    *("divmod(a, b)", "max(a, b)", "min(b, a, 1)", "a ** b if abs(a) < 9 and abs(b) < 9 else 0"),
    *("a << b if abs(b) < 70 else 0", "a >> b", "a is b", "round(a, b) if abs(b) < 20 else 0"),
    *("math.copysign(a, b)", "math.fmod(a, b)", "sorted([a, b])", "(a, b) < (b, a)"),
    *("(a > 1) + (b > 1)", "(a > 1) & (b > 1)", "(a > 1) ^ (b > 1)", "a / 3 + b / 7"),
    *("torch.sym_max(a, b)", "f'{a} {b}'", "a.__rsub__(b)", "x * a + b", "sum([a, b, 0.1])"),
]
SOME = {"int": [3, 0, -2, 2**62], "bool": [True, False], "double": [2.5, -0.0, math.nan, 1e300]}


ALL = os.environ.get("STATOR_OPERATORS") == "all"
BACKENDS = [(each, backend) for each in PAIRS for backend in ("eager", "aot_eager")]
IN_TURNS = [BACKENDS[2 * i + i % 2] for i in range(len(PAIRS))]


@pytest.mark.parametrize(("expression", "backend"), BACKENDS if ALL else IN_TURNS)
def test_pairs(expression, backend):
    function = program(f"(lambda a, b, x: {expression})(n, u.item(), t.new_ones(2))")
    source = function.__globals__
    kinds = SOME if backend == "eager" else ("int", "double")
    for first, second in itertools.product(kinds, kinds):
        stator.reset()
        compiled = stator.compile(function, backend=backend)
        for a, b in itertools.product(SOME[first], SOME[second]):
            source["u"] = torch.tensor(b, dtype=KINDS[second][0])
            given = torch.tensor(a, dtype=KINDS[first][0])
            assert outcome(compiled, given) == outcome(function, given), (first, second, a, b)


def test_one_graph_serves_all_values():
    """Nothing is taken for granted of what only the graph computes."""
    graphs = []

    def backend(module, inputs):
        graphs.append([node.target for node in module.graph.nodes if node.op == "call_function"])
        return module.forward

    def program(t):
        loss = t.mean().item()
        return {"loss": round(loss, 4), "perplexity": math.exp(loss)}, t * math.tanh(loss)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for value in (0.123456, 3.0, -20.5, math.nan):
        given = torch.full((3,), value, dtype=torch.float64)
        (found, scaled), (expected, other) = compiled(given), program(given)
        assert shown(found) == shown(expected) and shown(scaled) == shown(other)
    assert len(graphs) == 1
    assert graphs[0].count(torch.ops.stator.number.default) == 3
    with pytest.raises(OverflowError, match="math range error"):
        compiled(torch.full((3,), 1e3, dtype=torch.float64))


def test_numbers_of_lists():
    def program(t):
        values = t.tolist()
        best = max(values)
        rounded = [round(value, 1) for value in values]
        return (
            values.index(best),
            rounded,
            math.fsum(values),
            sum(values) / len(values),
            min(rounded),
        )

    for backend in ("eager", "aot_eager"):
        stator.reset()
        compiled = stator.compile(program, backend=backend)
        for values in ([0.15, 2.25, -1.0], [5.0, 1e16, -1e16], [-0.0, 0.0, -1.5], [0.1] * 3):
            given = torch.tensor(values, dtype=torch.float64)
            assert outcome(compiled, given) == outcome(program, given), (backend, values)


def test_inputs_change_once():
    """A function without a result: what the graph has written before is put back."""

    def program(t):
        t.add_(1)
        return t * math.log(t[0].item())

    compiled = stator.compile(program, backend="eager")
    for first in (1.0, 3.0, -5.0, 2.0):
        ours, theirs = torch.tensor([first, 2.0]), torch.tensor([first, 2.0])
        assert outcome(compiled, ours) == outcome(program, theirs)
        assert torch.equal(ours, theirs)


def test_sizes_have_attributes():
    def program(x):
        return x.shape[0].bit_length(), x.shape[0].real, x * x.shape[1].__add__(2)

    for dynamic in (None, True):
        stator.reset()
        compiled = stator.compile(program, backend="eager", dynamic=dynamic, fullgraph=True)
        for rows in (3, 4, 9, 3):
            x = torch.ones(rows, rows + 1)
            found, expected = compiled(x), program(x)
            assert found[:2] == expected[:2] and torch.equal(found[2], expected[2])
