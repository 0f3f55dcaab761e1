# mypy: ignore-errors
"""Operators between tensors and objects of the program's classes: one graph, eager's answers."""

import operator

import pytest
import torch

import stator

pytestmark = pytest.mark.usefixtures("leaves_no_trace")

ARITHMETIC = "add sub mul truediv matmul pow floordiv mod and_ or_ xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()
IN_PLACE = ["iadd", "imul", "isub", "imatmul"]
OPERATORS = [*ARITHMETIC, *COMPARISONS, *IN_PLACE]


def special(name, side=""):
    return f"__{side}{name.rstrip('_')}__"


def unit(name, answers=True):
    """A class with this operator, its reflection and what is done in place."""

    def plain(self, other):
        self.asked += 1
        return other * self.factor + 1 if answers else NotImplemented

    def reflected(self, other):
        self.asked += 10
        return other * self.factor + 2 if answers else NotImplemented

    def __init__(self, factor):
        self.factor, self.asked = factor, 0

    word = name[1:] if name in IN_PLACE else name
    methods = {special(word): plain, special(word, "r"): reflected, special(name): plain}
    if name in COMPARISONS:
        methods = {special(each): plain for each in COMPARISONS}
    return type("Unit", (), {"__init__": __init__, "__hash__": object.__hash__, **methods})


def outcome(function, *args):
    try:
        made = function(*args)
    except TypeError as error:
        return str(error)
    return made.tolist() if isinstance(made, torch.Tensor) else made


def compared(program, calls, backend):
    """What is seen in each call, in eager and compiled, and the graphs."""
    graphs = []

    def note(module, inputs):
        graphs.append([node.name for node in module.graph.nodes if node.op.startswith("call")])
        return stator.backends.lookup(backend)(module, inputs)

    compiled = stator.compile(program, backend=note)
    for make in calls:
        mine, theirs = make(), make()
        assert outcome(compiled, *mine) == outcome(program, *theirs)
        assert [vars(each) for each in mine if hasattr(each, "factor")] == [
            vars(each) for each in theirs if hasattr(each, "factor")
        ]
    return graphs


def x():
    return torch.tensor([1.0, -2.0, 3.0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPERATORS)
def test_either_side_is_one_graph(name, backend):
    cls, function = unit(name), getattr(operator, name)
    for left in (True, False):

        def program(a, b, function=function):
            return function(a, b)

        calls = [
            (lambda v=v, left=left: (cls(v), x()) if left else (x(), cls(v)))
            for v in (2.0, 2.0, 3.0, x())
        ]
        graphs = compared(program, calls, backend)
        assert len(graphs) == 3  # the factor, then any factor, then a tensor
        assert all(graph[-2:] == ["mul", "add"] for graph in graphs), graphs


@pytest.mark.parametrize("name", OPERATORS)
def test_methods_without_an_answer(name):
    cls, function = unit(name, answers=False), getattr(operator, name)

    def program(a, b):
        try:
            return function(a, b)
        except TypeError as error:
            return str(error)

    for left in (True, False):
        compared(
            program, [lambda left=left: (cls(2.0), x()) if left else (x(), cls(2.0))] * 2, "eager"
        )


def test_the_class_changes_between_calls():
    class Unit:
        def __radd__(self, other):
            return other * 2

    def program(a, b):
        return a + b

    compiled = stator.compile(program, backend="eager")
    assert torch.equal(compiled(x(), Unit()), x() * 2)
    Unit.__radd__ = lambda self, other: other * 3
    assert torch.equal(compiled(x(), Unit()), x() * 3)
    Unit.__array__ = lambda self: None
    assert torch.equal(compiled(x(), Unit()), x() * 3)
    marked = Unit()
    marked.__torch_function__ = lambda *args, **kwargs: "asked"
    assert outcome(compiled, x(), marked) == outcome(program, x(), marked)
    del Unit.__radd__
    assert outcome(compiled, x(), Unit()) == outcome(program, x(), Unit())


class Metres(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("left", [True, False])
def test_a_tensor_of_a_subclass(left):
    shapes = []

    class Unit:
        def __add__(self, other):
            shapes.append((type(other), tuple(other.shape)))
            return other * 2

        __radd__ = __add__

    def program(a, b):
        return a + b

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        metres = x().as_subclass(Metres)
        made = compiled(Unit(), metres) if left else compiled(metres, Unit())
        assert type(made) is Metres and made.tolist() == [2.0, -4.0, 6.0]
    assert shapes == [(Metres, (3,))] * 2


class Hooked(str):
    __slots__ = ()

    def __rmod__(self, template):
        return f"{str(self)} in {template}"


class Unhooked(str):
    __slots__ = ()


@pytest.mark.parametrize("cls", [Hooked, Unhooked])
def test_a_subclass_of_str_behind_percent(cls):
    """Its `__rmod__` comes before `str.__mod__`, if it has one."""

    def program(a, b):
        return len(a), "<%s>" % b

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for text in ("a", "a", "b"):
        assert outcome(compiled, x(), cls(text)) == outcome(program, x(), cls(text))
    cls.__rmod__ = lambda self, template: "another"
    assert outcome(compiled, x(), cls("a")) == outcome(program, x(), cls("a"))
