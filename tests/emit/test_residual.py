"""The text of residual functions: short where little is to be done, readable, stable."""

import collections
import dis
import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from stator.effects import (
    AttrSet,
    Constant,
    Effect,
    Fetched,
    KeySet,
    ListContents,
    Output,
    Ref,
    plan,
)
from stator.emit import Residual, residual
from stator.guards import Attr, Fixed, Global, Guard, Local, Source, TypeIs
from stator.guards import compile as compile_guards

X, Y = Local(0, "x"), Local(1, "y")


class Tensor:
    """Stands for a graph output."""

    def __init__(self, index: int) -> None:
        self.index = index


class Shadow:
    """Stands for an object of the world."""

    def __init__(self, source: Source) -> None:
        self.source = source


class Point:
    def __init__(self, x: Any) -> None:
        self.x = x


def resolve(value: Any) -> Ref | None:
    match value:
        case Tensor():
            return Output(value.index)
        case Shadow():
            return Fetched(value.source)
        case type() | types.FunctionType():
            return Constant(value)
        case _:
            return None


def f(x: Any, y: Any) -> None: ...


def emitted(
    result: Any,
    effects: Sequence[Effect] = (),
    *,
    code: types.CodeType = f.__code__,
    inputs: Sequence[Source] = (X, Y),
    graph: Callable[..., Any] | None = lambda *args: args,
    raises: bool = False,
) -> Residual:
    made = plan(result, effects, resolve, raises=raises)
    return residual(made, code=code, inputs=inputs, graph=graph, name="f")


def body(made: Residual) -> str:
    """The text without its first line."""
    head, _, rest = made.text.partition("\n")
    assert head.startswith("def ")
    return "\n".join(line.removeprefix("    ") for line in rest.splitlines())


# -- the hot path --


def test_one_output() -> None:
    made = emitted(Tensor(0))
    assert made.text == "def f(x, y):\n    return graph(x, y)[0]\n"
    assert made.sources == ()
    assert made.function("a", "b") == "a"


def test_one_output_is_the_plain_expression() -> None:
    """Instruction by instruction what a programmer would have written."""

    def made_by(graph: Any) -> Any:
        def f(x: Any, y: Any) -> Any:
            return graph(x, y)[0]

        return f

    expected = [(i.opname, i.argrepr) for i in dis.get_instructions(made_by(None))]
    assert [
        (i.opname, i.argrepr) for i in dis.get_instructions(emitted(Tensor(0)).function)
    ] == expected


def test_nothing_but_the_graph() -> None:
    assert body(emitted(None)) == "graph(x, y)\nreturn None"


def test_no_graph() -> None:
    made = emitted([1, Shadow(Y)], graph=None)
    assert body(made) == "return [1, y]"
    assert made.function("a", "b") == [1, "b"]


def test_no_graph_but_outputs() -> None:
    with pytest.raises(ValueError, match="outputs of a graph"):
        emitted(Tensor(0), graph=None)


def test_several_outputs() -> None:
    made = emitted((Tensor(1), [Tensor(0), "s"], {"k": Tensor(1)}))
    assert body(made) == (
        "outputs = graph(x, y)\nreturn (outputs[1], [outputs[0], 's'], {'k': outputs[1]})"
    )
    assert made.function("a", "b") == ("b", ["a", "s"], {"k": "b"})


def test_a_string_that_looks_like_an_output() -> None:
    assert emitted(("outputs[0]", Tensor(0))).function("a", "b") == ("outputs[0]", "a")


# -- parameters and what is fetched --


def every_kind(a: Any, /, b: Any, *args: Any, c: Any, **kwargs: Any) -> None: ...


def test_parameters_come_in_the_order_of_locals() -> None:
    result = [Shadow(Local(i)) for i in range(5)]
    made = emitted(result, code=every_kind.__code__, graph=None)
    assert made.text.startswith("def every_kind(a, b, c, args, kwargs):\n")
    assert made.function(1, 2, 3, (4,), {"k": 5}) == [1, 2, 3, (4,), {"k": 5}]


def test_names_that_are_none() -> None:
    code = next(
        c for c in eval("lambda x: (i for i in x)").__code__.co_consts if hasattr(c, "co_name")
    )
    made = emitted(Shadow(Local(0)), code=code, graph=None)
    assert made.text == "def genexpr(local_0):\n    return local_0\n"
    assert made.function.__name__ == made.function.__code__.co_name == "<genexpr>"


def test_names_that_the_parser_changes() -> None:
    fish = type("\ufb01sh", (), {})
    assert type(emitted([fish()], graph=None).function(1, 2)[0]) is fish
    code = f.__code__.replace(co_varnames=("\ufb01", "y"))
    assert emitted(Shadow(Local(0)), code=code, graph=None).function(1, 2) == 1


def test_names_that_are_taken() -> None:
    def clash(graph: Any, fetched: Any, outputs: Any, Point: Any) -> None: ...  # noqa: N803

    result = [Tensor(0), Tensor(0), Shadow(Global("g")), Shadow(Local(3)), globals()["Point"](1)]
    made = emitted(result, code=clash.__code__, inputs=[Local(0)])
    values = made.function(("g",), "a", "b", "c", "d")
    assert values[:4] == ["a", "a", "g", "d"]
    assert type(values[4]) is globals()["Point"]


def test_fetched() -> None:
    made = emitted([Shadow(Global("g")), Shadow(X), Shadow(Global("g"))], inputs=[Attr(X, "w")])
    assert made.text == (
        "def f(fetched, x, y):\n    graph(fetched[0])\n    return [fetched[1], x, fetched[1]]\n"
    )
    assert list(map(str, made.sources)) == ["x.w", "global g"]
    assert made.function(("w", "g"), "x", "y") == ["g", "x", "g"]


def test_fixed_objects_need_no_fetching() -> None:
    held = [1]
    made = emitted([Shadow(Fixed(held, "held"))], graph=None)
    assert body(made) == "return [held]"
    assert made.function(1, 2)[0] is held


PARAMETERS = [Attr(X, f"p{i}") for i in range(6)]


@pytest.mark.parametrize(
    ("inputs", "result", "text"),
    [
        (PARAMETERS, None, "graph(*fetched)"),
        ([Y, *PARAMETERS], None, "graph(y, *fetched)"),
        ([*PARAMETERS, Y], None, "graph(*fetched, y)"),
        (PARAMETERS, Shadow(Global("g")), "graph(*fetched[:6])"),
        ([*PARAMETERS[:5], Y, PARAMETERS[5]], None, "graph(*fetched[:5], y, fetched[5])"),
        ([PARAMETERS[0], Y, *PARAMETERS[1:]], None, "graph(fetched[0], y, *fetched[1:])"),
        ([*PARAMETERS, PARAMETERS[0]], None, "graph(*fetched, fetched[0])"),
        (PARAMETERS[:3], None, "graph(fetched[0], fetched[1], fetched[2])"),
        ([], None, "graph()"),
    ],
)
def test_inputs_in_a_row(inputs: list[Source], result: Any, text: str) -> None:
    seen: list[Any] = []
    made = emitted(result, inputs=inputs, graph=lambda *args: seen.extend(args))
    assert body(made).startswith(f"{text}\n")
    values = tuple(str(source) for source in made.sources)
    made.function(*([values] if values else []), "x", "y")
    assert seen == [str(source) for source in inputs]


def test_equal_sources_are_fetched_once() -> None:
    made = emitted([Shadow(Attr(X, "a")), Shadow(Attr(Local(0), "a")), Shadow(Attr(Y, "a"))])
    assert len(made.sources) == 2


def test_with_guards() -> None:
    """The guards' tree fetches what the residual function takes."""
    holder, called = Point([1]), cast(types.FunctionType, f)
    made = emitted([Shadow(Attr(X, "x")), Shadow(Y)], [KeySet(Global("WRITTEN"), "k", Tensor(0))])
    tree = compile_guards([Guard(X, TypeIs(Point))], outputs=made.sources)
    arguments = (holder, "y")
    fetched = tree.values(arguments, called)
    assert fetched is not None
    later = made.function(fetched, *arguments)
    assert later[0] is holder.x and later[1] == "y"
    assert WRITTEN["k"] is holder
    assert tree.values((1, 2), called) is None


WRITTEN: dict[str, Any] = {}

# -- the text --


def everything() -> tuple[Any, list[Effect]]:
    point = Point(Tensor(0))
    point.other = [point]  # type: ignore[attr-defined]
    numbers = collections.OrderedDict(a=1, b=Tensor(1))
    return (point, numbers, functools.partial(print, sep="")), [
        ListContents(X, (point, 1)),
        AttrSet(Y, "name", numbers, Point),
        KeySet(Global("g"), "k", (1, [Tensor(1)])),
    ]


TEXT = """\
def f(fetched, x, y):
    outputs = graph(x, y)
    point_1 = object_new(Point)
    list_2 = []
    dict_update(dict_of_Point(point_1), {'x': outputs[0], 'other': list_2})
    list_extend(list_2, [point_1])
    ordereddict_3 = OrderedDict_new(OrderedDict)
    fill_ordered(ordereddict_3, (('a', 1), ('b', outputs[1])))
    dict_4 = {'sep': ''}
    partial_5 = partial_new(partial, nothing)
    partial_setstate(partial_5, (print, (), dict_4, None))
    set_list(x, [point_1, 1])
    set_key(dict_of_Point(y), 'name', ordereddict_3)
    set_key(fetched[0], 'k', (1, [outputs[1]]))
    return (point_1, ordereddict_3, partial_5)
"""


def test_text() -> None:
    assert emitted(*everything()).text == TEXT


def test_text_is_stable() -> None:
    assert len({emitted(*everything()).text for _ in range(5)}) == 1


def test_text_is_what_runs() -> None:
    made = emitted(*everything())
    names = made.function.__code__.co_freevars
    lines = [f"def around({', '.join(names)}):", *(f"    {line}" for line in made.text.split("\n"))]
    namespace: dict[str, Any] = {}
    exec("\n".join([*lines, "    return f"]), namespace)
    again = namespace["around"](*names)
    assert again.__code__.co_code == made.function.__code__.co_code


def test_names_of_the_function() -> None:
    made = emitted(Tensor(0))
    code = made.function.__code__
    assert (code.co_name, code.co_filename) == ("f", "<stator f#0>")
    assert code.co_qualname == f.__code__.co_qualname


def test_constants_are_not_copied() -> None:
    big, text = 10**40, "t" * 1000
    value = emitted([big, text, Point], graph=None).function(1, 2)
    assert value[0] is big and value[1] is text and value[2] is Point


def test_many_values() -> None:
    values = [[i] for i in range(3000)]
    assert emitted(values, graph=None).function(1, 2) == values


# -- exceptions that leave --


def chain(error: BaseException | None) -> list[str]:
    found: list[str] = []
    while error is not None and len(found) < 9:
        found.append(str(error))
        error = error.__context__
    return found


def inner_and_outer() -> ValueError:
    outer = ValueError("outer")
    outer.__context__ = KeyError("inner")
    return outer


def test_raises() -> None:
    target: list[Any] = []
    made = emitted(inner_and_outer(), [ListContents(X, (1,))], graph=None, raises=True)
    with pytest.raises(ValueError, match="outer") as caught:
        made.function(target, None)
    assert target == [1]  # effects come first
    assert chain(caught.value) == ["outer", "'inner'"]


def test_raises_while_another_is_handled() -> None:
    """As in the program: what the caller handles becomes the context of the first."""
    made = emitted(inner_and_outer(), graph=None, raises=True)
    for _ in range(2):
        try:
            raise IndexError("handled")
        except IndexError:
            try:
                made.function(1, 2)
            except ValueError as error:
                assert chain(error) == ["outer", "'inner'", "handled"]


def test_raises_without_our_helper_in_the_traceback() -> None:
    made = emitted(inner_and_outer(), graph=None, raises=True)
    try:
        made.function(1, 2)
    except ValueError as error:
        names = []
        step = error.__traceback__
        while step is not None:
            names.append(step.tb_frame.f_code.co_filename)
            step = step.tb_next
    assert names == [__file__]


@pytest.mark.skipif(sys.gettrace() is not None, reason="references are held by the tracer")
def test_nothing_of_a_call_is_kept() -> None:
    class Watched:
        pass

    made = emitted((Tensor(0), [Tensor(0)]), graph=lambda x, y: (x,))
    value = Watched()
    before = sys.getrefcount(value)
    made.function(value, value)
    assert sys.getrefcount(value) == before
