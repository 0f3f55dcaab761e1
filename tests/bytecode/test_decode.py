"""Decoding of chosen functions: long arguments, all kinds of code, bad input."""

import dis
import sys
from types import CodeType, FunctionType
from typing import Any

import pytest

from stator.bytecode import BytecodeError, Decoded, Instruction, check, decode


def function(source: str, name: str = "f") -> FunctionType:
    namespace: dict[str, Any] = {}
    exec(compile(source, "<test>", "exec"), namespace)
    made = namespace[name]
    assert isinstance(made, FunctionType)
    return made


def decoded(source: str, name: str = "f") -> Decoded:
    """A function's code, checked and compared with `dis`."""
    result = decode(function(source, name).__code__)
    check(result)
    theirs = [
        (each.offset // 2, each.opname, each.arg or 0)
        for each in dis.get_instructions(result.code)
        if each.opname != "EXTENDED_ARG"
    ]
    assert [(each.unit, each.name, each.arg) for each in result.instructions] == theirs
    return result


def prefixes(instruction: Instruction) -> int:
    return instruction.unit - instruction.start


def test_empty_function() -> None:
    result = decoded("def f(): pass")
    assert result.handlers == ()
    assert result.localsplus == ()
    assert result.instructions[0].name == "RESUME"
    assert result.instructions[-1].name in {"RETURN_VALUE", "RETURN_CONST"}


def test_many_constants() -> None:
    result = decoded("def f():\n" + "".join(f" x = {n}.5\n" for n in range(300)))
    loads = [each for each in result.instructions if each.name == "LOAD_CONST"]
    assert {prefixes(each) for each in loads} == {0, 1}


def test_many_names() -> None:
    result = decoded("def f():\n" + "".join(f" name{n}\n" for n in range(300)))
    loads = [each for each in result.instructions if each.name == "LOAD_GLOBAL"]
    assert {prefixes(each) for each in loads} == {0, 1}
    assert loads[-1].arg >> 1 == 299


def test_many_locals() -> None:
    result = decoded("def f(v0):\n" + "".join(f" v{n} = v{n - 1}\n" for n in range(1, 300)))
    assert any(prefixes(each) for each in result.instructions if each.name == "STORE_FAST")
    assert len(result.localsplus) == 300


def test_many_units_per_instruction_are_all_covered() -> None:
    result = decoded("def f():\n" + "".join(f" name{n}\n" for n in range(300)))
    long = [each for each in result.instructions if each.name == "LOAD_GLOBAL"][-1]
    assert long.start < long.unit < long.next - 1
    assert {result.at(unit) for unit in range(long.start, long.next)} == {long}
    assert result.at(long.next).start == long.next
    assert result.at(long.start - 1).next == long.start


@pytest.mark.parametrize(("lines", "longest"), [(100, 1), (20_000, 2)])
def test_long_jumps(lines: int, longest: int) -> None:
    body = "   a.b.c\n" * lines
    result = decoded(f"def f(a):\n while a:\n  for x in a:\n{body}  if a:\n{body} return a\n")
    jumps = [each for each in result.instructions if each.target is not None]
    assert max(prefixes(each) for each in jumps) == longest
    assert {each.target < each.unit for each in jumps if each.target is not None} == {True, False}


def test_a_jump_lands_on_the_prefix_of_its_target() -> None:
    names = "".join(f" name{n}\n" for n in range(300))
    result = decoded(f"def f():\n{names} for x in ():\n  late\n  late2\n if a: late\n late2\n")
    landed = [result.at(each.target) for each in result.instructions if each.target is not None]
    assert any(prefixes(each) for each in landed)
    assert all(
        result.at(each.target).start == each.target
        for each in result.instructions
        if each.target is not None
    )


KINDS = {
    "generator": "def f(a):\n x = yield a\n yield from a\n return x",
    "coroutine": "async def f(a):\n async with a as b:\n  await b\n async for c in a: pass",
    "async generator": "async def f(a):\n yield [b async for b in a]\n yield (c for c in await a)",
    "match": """
def f(a):
    match a:
        case [1, *rest]: return rest
        case {"k": v, **more}: return v, more
        case str(x) | bytes(x): return x
        case object(real=0, imag=y) if y: return y
        case None: return 0
    """,
    "except star": """
def f(a):
    try:
        a()
    except* (TypeError, ValueError) as group:
        return_later = group
    except* OSError:
        pass
    else:
        a = 1
    finally:
        a = 2
    """,
    "nested try": """
def f(a):
    for x in a:
        try:
            with x as y, y:
                try: x()
                except KeyError as e: raise ValueError from e
                finally: y()
        except ValueError: continue
        else: break
    return [y for x in a for y in x if y], {x: y for x, y in a}, {*a}
    """,
    "closure": """
def f(a, b, *args, c=1, **kw):
    d = 1
    def g():
        nonlocal b
        b = c
        return a, d, kw
    return [lambda: x for x in args], g
    """,
    "class": """
def f(base):
    class C(base):
        x: int = 1
        def m(self): return super().m(__class__)
        y = [x for x in (1, 2)]
    return C
    """,
    "text": "def f(a): return f'{a!r:>{a}}{a!s}{a}', a[1:2], a < 1 < 2, not a, a is None",
    "import": "def f():\n import a.b as c\n from d import e\n global g\n del e\n g @= 1; assert g",
}


@pytest.mark.parametrize("source", KINDS.values(), ids=KINDS.keys())
def test_kinds_of_code(source: str) -> None:
    result = decoded(source)
    for constant in result.code.co_consts:
        if isinstance(constant, CodeType):
            check(decode(constant))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of 3.12")
def test_type_parameters() -> None:
    result = decoded("def f():\n def g[T: int, *A, **P](x: T) -> T: return x\n type L[T] = T")
    for constant in result.code.co_consts:
        if isinstance(constant, CodeType):
            check(decode(constant))


def test_captured_arguments_have_one_slot() -> None:
    result = decoded("def f(a, b):\n c = 1\n return lambda: (b, c)")
    assert result.localsplus == ("a", "b", "c")
    inner = decode(next(c for c in result.code.co_consts if isinstance(c, CodeType)))
    assert inner.localsplus == ("b", "c")


def test_specialized_code_decodes_as_its_base_form() -> None:
    source = "def f(n):\n t = 0\n for i in range(n): t = t + i * len('ab')\n return t"
    run, fresh = function(source), function(source)
    for _ in range(100):
        run(10)
    assert decode(run.__code__).instructions == decode(fresh.__code__).instructions


def test_traced_code_decodes_as_its_base_form() -> None:
    source = "def f(n):\n t = 0\n for i in range(n): t = t + i\n return super, t"
    run, fresh = function(source), function(source)

    def trace(*_: object) -> Any:
        during.append(decode(run.__code__).instructions)
        return trace

    during: list[tuple[Instruction, ...]] = []
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(3)
    finally:
        sys.settrace(before)
    expected = decode(fresh.__code__).instructions
    assert during
    assert all(instructions == expected for instructions in during)


def test_lines_agree_with_a_traceback() -> None:
    f = function("def f(a):\n b = (\n  a +\n  a.missing\n )\n return b")
    with pytest.raises(AttributeError) as caught:
        f(1)
    traceback = caught.tb
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    result = decode(f.__code__)
    unit = traceback.tb_lasti // 2
    assert result.at(unit).name == "LOAD_ATTR"
    assert result.line_of(unit) == traceback.tb_lineno == 4
    assert result.positions_of(unit) == (4, 4, 2, 11)


def test_a_stripped_line_table() -> None:
    result = decode(function("def f(a): return a.b").__code__.replace(co_linetable=b""))
    assert {result.line_of(unit) for unit in range(result.units)} == {None}
    assert {result.positions_of(unit)[0] for unit in range(result.units)} == {None}


def test_the_handler_is_the_innermost() -> None:
    result = decoded(KINDS["nested try"])
    raising = [each for each in result.instructions if each.name == "RAISE_VARARGS"]
    handler = result.handler_for(raising[0].unit)
    assert handler is not None
    assert handler.lasti
    around = [each for each in result.handlers if each.start <= raising[0].unit < each.end]
    assert around == [handler]
    assert result.handler_for(0) is None
    assert result.handler_for(result.units) is None


@pytest.mark.parametrize("unit", [-1, 10_000])
@pytest.mark.parametrize("method", [Decoded.at, Decoded.index, Decoded.line_of])
def test_units_outside(method: Any, unit: int) -> None:
    result = decoded("def f(): pass")
    with pytest.raises(IndexError, match=f"unit {unit} is outside of <Decoded f"):
        method(result, unit)
    with pytest.raises(IndexError):
        result.positions_of(unit)


@pytest.mark.parametrize("thing", [None, len, test_empty_function, "x = 1", b"\x00", CodeType])
def test_not_a_code_object(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"decode\(\) needs a code object, not "):
        decode(thing)


def test_an_invalid_opcode() -> None:
    code = function("def f(): pass").__code__
    cache = code.replace(co_code=bytes(2) + code.co_code)
    with pytest.raises(BytecodeError, match="no valid opcode at unit 0: 0"):
        decode(cache)


def test_a_prefix_at_the_end() -> None:
    code = function("def f(): pass").__code__
    cut = code.replace(co_code=code.co_code + bytes([dis.EXTENDED_ARG, 1]))
    with pytest.raises(BytecodeError, match="ends within an instruction"):
        decode(cut)
