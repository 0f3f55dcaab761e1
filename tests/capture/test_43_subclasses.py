# mypy: ignore-errors
"""Subclasses of Tensor: classes with and without `__torch_function__`, as inputs, made inside,
returned. The graph holds plain operators on plain tensors.
"""

import abc
import contextlib
import copy
import math
import re
from typing import Any

import numpy
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import stator

from .describe import describe
from .harness import Program, Programs, call, check, t

programs = Programs()
pytestmark = pytest.mark.filterwarnings("ignore")
LOG: list[Any] = []


class Plain(torch.Tensor):
    """Results are of the class, as torch.Tensor has it."""


class Derived(Plain):
    """Another one, which comes first."""


class Logged(torch.Tensor):
    """Tells what it is asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((cls.__name__, func.__name__, len(types), len(args), kwargs is None))
        return super().__torch_function__(func, types, args, kwargs)


class Deeper(Logged):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(("deeper", types))
        return super().__torch_function__(func, types, args, kwargs)


class Doubled(torch.Tensor):
    """Plain results, of other values."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            made = func(*args, **(kwargs or {}))
        return made * 2 if isinstance(made, torch.Tensor) else made


class Replaced(torch.Tensor):
    """Other functions in the place of some."""

    table = {torch.sin: torch.cos, torch.Tensor.add: torch.Tensor.sub}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        func = cls.table.get(func, func)
        return super().__torch_function__(func, types, args, kwargs or {})


class Unwrapped(torch.Tensor):
    """Works on plain tensors, and makes itself again."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, cls) else a for a in args]
        made = func(*plain, **(kwargs or {}))
        return made.as_subclass(cls) if isinstance(made, torch.Tensor) else made


class Silent(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append(func.__name__)
        return NotImplemented


class Raising(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.add:
            raise ValueError(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Mixin:
    handlers: dict[Any, Any] = {}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in cls.handlers:
            return cls.handlers[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            return func(*args, **(kwargs or {}))


class Mixed(Mixin, torch.Tensor):
    """A table of functions, from a class that is no tensor's."""


def _handled(x, y):
    return torch.exp(x) * y


Mixin.handlers[torch.mul] = _handled


class Untouched(torch.Tensor):
    """Does not want to be asked: results are plain."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs or {})
        for each in args:
            if isinstance(each, Tagged) and isinstance(made, Tagged):
                made.origin = getattr(each, "origin", None)
        return made


class Rich(torch.Tensor):
    """Methods, properties, attributes."""

    scale = 3

    def __new__(cls, data, unit="m"):
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data, unit="m"):
        self.unit = unit

    def __getattr__(self, name):
        if name in ("unknown", "failing"):
            return name
        raise AttributeError(name)

    @property
    def failing(self):
        raise AttributeError("asks __getattr__")

    @property
    def doubled(self):
        return self * 2

    @property
    def size_in(self):
        return self.unit

    @size_in.setter
    def size_in(self, unit):
        self.unit = unit

    @classmethod
    def made_of(cls, data):
        return cls(data, "s")

    @staticmethod
    def shifted(data):
        return data + 1

    def scaled(self, by):
        return super().mul(by) * self.scale


class Masked(torch.Tensor):
    """Other answers in the place of torch's."""

    @property
    def shape(self):
        return "mine"

    def size(self, *dim):
        return super().size(*dim) if dim else "size"

    def dim(self):
        return LOG.append("dim")


class Weight(nn.Parameter):
    """A parameter of its own class: torch does not ask it."""


class Layer(nn.Module):
    def __init__(self, cls):
        super().__init__()
        self.weight = nn.Parameter(t(3, 3).as_subclass(cls))
        self.register_buffer("offset", t(3).as_subclass(cls))

    def forward(self, x):
        return F.linear(x, self.weight) + self.offset


def of(cls, *shape, **attributes):
    """A tensor of a class, with attributes."""
    made = t(*(shape or (3,))).as_subclass(cls)
    vars(made).update(attributes)
    return made


def leaf(cls, *shape):
    with torch._C.DisableTorchFunctionSubclass():
        return of(cls, *shape).requires_grad_()


# ---------------------------------------------------------------------- inputs


@programs(lambda: (of(Plain), t(3)), ops=["mul", "sum", "add"])
def an_input(s, y):
    return type(s), s.__class__, isinstance(s, Plain), (s * y).sum(), s + 1, s.shape, s.dtype


@programs(
    lambda: (of(Plain),),
    changes={
        "class": lambda: (of(Derived),),
        "unasked class": lambda: (of(Untouched),),
        "plain": lambda: (t(3),),
        "shape": lambda: (of(Plain, 4),),
        "logged": lambda: (of(Logged),),
    },
    keeps={"attribute": lambda: (of(Plain, other=1),)},
    reset=LOG.clear,
    world=lambda: LOG,
)
def another_class(s):
    return torch.sin(s) + 1


@programs(lambda: (leaf(Plain), t(3, grad=True)))
def gradients_reach_the_input(s, y):
    return (s * y).sin(), s * 2


@programs(lambda: (leaf(Logged), t(3, grad=True)), reset=LOG.clear, world=lambda: LOG)
def gradients_reach_a_logged_input(s, y):
    return (s * y).sin(), s * 2


@programs(lambda: ([of(Plain), {"a": of(Derived)}],))
def in_containers(items):
    s, d = items[0], items[1]["a"]
    both = s + d
    return [both, d + s, type(both), {"x": s}]


@programs(lambda: (of(Untouched), t(3)))
def not_asked(s, y):
    both = s + y
    return both, type(both), type(s), s


@programs(lambda: (Weight(t(3)), t(3)))
def a_parameter_of_its_own_class(w, x):
    return isinstance(w, nn.Parameter), type(w), w * x, w, w.requires_grad


@programs(lambda: (Layer(Plain), t(2, 3)))
def parameters_of_modules(layer, x):
    return layer(x), isinstance(layer.weight, nn.Parameter), len(list(layer.parameters()))


@programs(
    lambda: (of(Masked, 3, 4),),
    changes={"shape": lambda: (of(Masked, 4, 4),), "again": lambda: (of(Masked, 5, 4),)},
    reset=LOG.clear,
    world=lambda: LOG,
)
def other_answers(s):
    with torch._C.DisableTorchFunctionSubclass():
        shape = torch.Tensor.shape.__get__(s)
    return s.shape, s.size(), s.size(1), super(Masked, s).shape, s.dim(), s + 1, shape


# ---------------------------------------------------------------------- operations


@programs(lambda: (of(Plain), t(3)))
def operators_of_all_kinds(s, y):
    return y - s, 2 - s, -s, s == y, s > 0, s @ y, s[0], s[1:], s**2, ~(s > 0), s // 2


@programs(lambda: (of(Plain), t(3)))
def functions_of_all_kinds(s, y):
    return (
        torch.cat([y, s]),
        torch.stack((s, s)),
        torch.where(s > 0, s, y),
        F.relu(s),
        F.pad(s, (1, 1)),
        torch.max(s, 0),
        torch.split(s, 1),
        s.to(torch.float64),
        torch.zeros_like(s),
        s.new_ones(2),
        torch.einsum("i,i->", s, y),
    )


@programs(lambda: (of(Plain),), ops=["sigmoid"])
def functions_that_ask_nobody_themselves(s):
    return F.sigmoid(s)


@programs(lambda: (of(Plain),))
def unpacking(s):
    a, b, c = s
    return a + b * c, list(s), len(s), [x + 1 for x in s], sum([a, b])


@programs(lambda: (of(Plain), t(3)), ops=["mul_", "setitem", "copy_", "add_"])
def in_place(s, y):
    s.mul_(2)
    s[0] = 5
    y.copy_(s)
    y += s
    return s, y, s


@programs(lambda: (of(Plain, 2, 3),))
def views(s):
    view = s.view(3, 2)
    view.add_(1)
    return s, view, s.T, s.detach(), s.data, s[0]


@programs(lambda: (of(Plain),))
def numbers(s):
    return s.sum().item(), s.dim(), s.numel(), torch.is_tensor(s), s.requires_grad, s.is_leaf


@programs(lambda: (of(Plain),), raises=AttributeError)
def no_such_attribute(s):
    return s.missing


@programs(lambda: (leaf(Plain),))
def without_grad(s):
    with torch.no_grad():
        a = s * 2
        b = s.as_subclass(Derived)
    return a, b, b + 1


# ---------------------------------------------------------------------- __torch_function__


@programs(lambda: (of(Logged), t(3)), reset=LOG.clear, world=lambda: LOG)
def everything_is_asked(s, y):
    z = torch.relu(s) + y
    z = F.relu(2 - z)
    return z[0], z.shape, z.requires_grad, len(z), z.T, torch.cat([y, z]), z.sum()


@programs(lambda: (of(Logged), of(Deeper)), reset=LOG.clear, world=lambda: LOG)
def derived_classes_first(s, d):
    return s + d, d * s, torch.stack([s, d])


@programs(lambda: (of(Plain), of(Logged)), reset=LOG.clear, world=lambda: LOG, raises=TypeError)
def strangers(s, d):
    return s + d


@programs(lambda: (of(Silent),), reset=LOG.clear, world=lambda: LOG, raises=TypeError)
def nobody_answers(s):
    return torch.relu(s)


@programs(lambda: (of(Silent), t(3)), reset=LOG.clear, world=lambda: LOG, raises=TypeError)
def nobody_answers_an_operator(s, y):
    return y - s


@programs(lambda: (of(Silent), of(Doubled)), reset=LOG.clear, world=lambda: LOG)
def the_second_answers(s, d):
    return torch.add(s, d)


@programs(lambda: (of(Doubled), t(3)), ops=["add", "mul", "sin", "getitem", "mul"])
def other_results(s, y):
    return torch.sin(s + y), s[0], s.shape


@programs(lambda: (of(Replaced),), ops=["cos", "sub"])
def other_functions(s):
    return torch.sin(s) + 1


@programs(lambda: (of(Mixed), t(3)), ops=["exp", "mul", "sin"])
def a_table_of_functions(s, y):
    return torch.mul(s, y), torch.sin(s)


@programs(lambda: (of(Raising),), raises=ValueError)
def raising(s):
    return s * 2 + 1


@programs(lambda: (of(Raising),), ops=["mul"], dead=True)
def raising_and_catching(s):
    try:
        return s + 1
    except ValueError as error:
        return s * 2, str(error)


@programs(lambda: (of(Unwrapped), t(3)), ops=["mul", "sum"])
def unwrapped_and_wrapped(s, y):
    return (s * y).sum()


def _other_answer():
    Replaced.table = {torch.sin: torch.tan}
    return (of(Replaced),)


def _other_code():
    Replaced.__torch_function__ = Doubled.__dict__["__torch_function__"]
    return (of(Replaced),)


_TABLE, _CODE = Replaced.table, Replaced.__dict__["__torch_function__"]


def _reset_replaced():
    Replaced.table = _TABLE
    Replaced.__torch_function__ = _CODE


@programs(
    lambda: (of(Replaced),),
    reset=_reset_replaced,
    changes={"table": _other_answer, "code": _other_code},
)
def the_class_changes(s):
    return torch.sin(s) + 1


@programs(lambda: (of(Logged),), reset=LOG.clear, world=lambda: LOG)
def switched_off(s):
    with torch._C.DisableTorchFunctionSubclass():
        a = s + 1
        with torch._C.DisableTorchFunctionSubclass():
            b = a * s
    return a, b, s + 1


@programs(lambda: (of(Logged),), under=torch._C.DisableTorchFunctionSubclass, reset=LOG.clear)
def switched_off_outside(s):
    more = s + 1
    return more, type(more)


@programs(lambda: (of(Logged),), reset=LOG.clear, world=lambda: LOG)
def is_anybody_asked(s):
    one = torch.overrides.has_torch_function((s,)), torch.overrides.has_torch_function_unary(s)
    with torch._C.DisableTorchFunctionSubclass():
        two = torch.overrides.has_torch_function((s,))
    return one, two, s + 1


# ---------------------------------------------------------------------- made inside


@programs(lambda: (t(3, grad=True),), ops=["relu"])
def made_of_an_input(x):
    s = x.as_subclass(Plain)
    return s, x, s.relu(), s is x, type(s)


@programs(lambda: (t(3),), ops=["sin", "add_"])
def made_of_a_result(x):
    y = torch.sin(x)
    s = y.as_subclass(Plain)
    s.tag = 1
    s.add_(1)
    return {"plain": y, "made": s, "again": [s, s.as_subclass(torch.Tensor)]}


@programs(lambda: (t(3),))
def made_by_calls(x):
    return Plain(x), torch.Tensor._make_subclass(Plain, x), Plain([1.0, 2.0]), Plain(2, 3).shape


@programs(lambda: (t(3),))
def made_by_its_own_code(x):
    r = Rich(x, unit="km")
    other = Rich.made_of(x)
    return (
        r,
        r.unit,
        r.scale,
        r.doubled,
        r.scaled(2),
        other.unit,
        r.shifted(x),
        r.unknown,
        r.failing,
    )


# ---------------------------------------------------------------------- attributes


@programs(
    lambda: (of(Rich, unit="cm"),),
    changes={"unit": lambda: (of(Rich, unit="mm"),), "no unit": lambda: (of(Rich, other=1),)},
)
def attributes_of_inputs(r):
    if getattr(r, "unit", None) == "cm":
        r.size_in = "m"
        r.seen = True
        return r / 100, r.unit
    return r, hasattr(r, "unit")


def _other_scale():
    Rich.scale = 5
    return (of(Rich),)


@programs(
    lambda: (of(Rich),),
    changes={"class attribute": _other_scale},
    reset=lambda: setattr(Rich, "scale", 3),
)
def attributes_of_classes(r):
    return r.scaled(2) * r.scale


@programs(
    lambda: (of(Tagged, origin="here"),),
    ops=["sin", "add"],
    changes={"origin": lambda: (of(Tagged, origin="there"),), "none": lambda: (of(Tagged),)},
)
def attributes_of_results(s):
    y = torch.sin(s) + 1
    return y, y.origin


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


# ---------------------------------------------------------------------- other backends, splits


@pytest.mark.parametrize("program", programs, ids=str)
def test_aot(program: Program) -> None:
    """The same with a backend that has an autograd of its own."""
    stator.reset()
    compiled = stator.compile(program.fn, backend="aot_eager")
    for seed in (1, 2):
        expected, found = call(program, program.fn, seed), call(program, compiled, seed)
        assert _unnamed(found.lines) == _unnamed(expected.lines)


def test_a_special_method_that_comes_later() -> None:
    class Growing(torch.Tensor):
        pass

    compiled = stator.compile(lambda s: s + 1, backend="eager")
    given = torch.ones(3).as_subclass(Growing)
    assert type(compiled(given)) is Growing
    Growing.__add__ = lambda self, other: "added"
    assert compiled(given) == "added"


def _trained(compiling: Any, cls: type) -> object:
    torch.manual_seed(0)
    layer = Layer(cls)
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        layer.weight.copy_(torch.arange(9.0).reshape(3, 3) / 9)
        layer.offset.copy_(torch.ones(3))
    step = compiling(lambda x: layer(x).sin().sum())
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = step(torch.arange(6.0).reshape(2, 3))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().as_subclass(torch.Tensor))
    return losses, dict(layer.named_parameters())


@pytest.mark.parametrize("cls", [Plain, Logged])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training(backend: str, cls: type) -> None:
    stator.reset()
    compiled = _trained(lambda f: stator.compile(f, backend=backend, fullgraph=True), cls)
    assert describe(compiled) == describe(_trained(lambda f: f, cls))


def _unnamed(lines: list[str]) -> list[str]:
    """Without the names of autograd's nodes, which are a backend's own."""
    return [re.sub(r"grad_fn=(?!None)\S+", "grad_fn", line) for line in lines]


def _in_place_and_back(s, y):
    s.mul_(2)
    r = torch.sin(s) * y
    r.title = "r"
    return r, s, r.as_subclass(torch.Tensor), r[0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_another_backend(dynamic: bool) -> None:
    stator.reset()
    compiled = stator.compile(
        _in_place_and_back, backend="aot_eager", dynamic=dynamic, fullgraph=True
    )
    for size in (3, 5, 7):
        given = [(of(Plain, size), torch.ones(size, requires_grad=True)) for _ in range(2)]
        given[1][0].copy_(given[0][0])
        expected = _in_place_and_back(*given[0])
        found = compiled(*given[1])
        lines = _unnamed(describe((found, given[1])))
        assert lines == _unnamed(describe((expected, given[0])))


def _split(s):
    a = s + 1
    a.note = "split"
    print(a)
    with torch._C.DisableTorchFunctionSubclass():
        b = a + s
        print(b)
        c = b + a
    return a * 2, b, c, a.note


def test_splits(capsys: pytest.CaptureFixture[str]) -> None:
    stator.reset()
    LOG.clear()
    expected = describe(_split(torch.ones(2).as_subclass(Logged)))
    shown = capsys.readouterr().out
    asked = list(LOG)
    LOG.clear()
    found = describe(stator.compile(_split, backend="eager")(torch.ones(2).as_subclass(Logged)))
    assert (found, capsys.readouterr().out, LOG) == (expected, shown, asked)
    LOG.clear()


def _by_c_code(s):
    first = max(s), min(s[0], s[1]), sorted(s), sum(s), any(s), s.sum() in [1, s.sum()]
    return first, math.sqrt(s[0] * s[0]), round(float(s[1]), 2), int(s[1]), [1, 2][s[0].long() * 0]


def _by_numpy(s):
    return numpy.sin(s).sum(), numpy.asarray(s).shape, s.tolist()


def _by_values(s):
    if s.sum() > 100:
        return s
    return s - 1, not s[0], torch.full((2,), s[0]), s.any() and s.all()


@pytest.mark.parametrize("cls", [Plain, Logged, Doubled, Untouched])
@pytest.mark.parametrize("function", [_by_c_code, _by_numpy, _by_values])
def test_asked_by_other_code(function: Any, cls: type) -> None:
    """Where other code than the program's calls torch, it is split as needed."""
    stator.reset()
    outcomes = []
    for fn in (function, stator.compile(function, backend="eager")):
        LOG.clear()
        outcomes.append((describe(fn(torch.tensor([0.5, 2.0, -1.0]).as_subclass(cls))), list(LOG)))
    LOG.clear()
    assert outcomes[0] == outcomes[1]


def _looks_up(s, i):
    s.add_(1)
    try:
        return s[i]
    except IndexError:
        return s.sum()


@pytest.mark.parametrize("cls", [Plain, Logged])
def test_a_kernel_that_refuses(cls: type) -> None:
    """The `try` is outside of the code that C code has called; the graph is undone."""
    stator.reset()
    compiled = stator.compile(_looks_up, backend="eager", fullgraph=True)
    for index in (1, 9, 2):
        outcomes = []
        for fn in (_looks_up, compiled):
            LOG.clear()
            given = torch.ones(3).as_subclass(cls)
            outcomes.append((describe((fn(given, torch.tensor([index])), given)), list(LOG)))
        assert outcomes[0] == outcomes[1]
    LOG.clear()


class Dispatched(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


class Added(torch.Tensor):
    def __add__(self, other):
        return "added"


class Everything(type(torch.Tensor)):
    def __instancecheck__(cls, value):
        return True


class Anything(torch.Tensor, metaclass=Everything):
    """Results of operators are taken for instances."""


class Abstract(abc.ABC):
    """Has tensors among its virtual subclasses."""


Abstract.register(Plain)


def _pattern(s):
    match s:
        case Plain():
            return s + 1
    return s


def _sizes(s):
    s.unsqueeze_(0)
    return s


def _data(s):
    s.data = torch.zeros(3)
    return s


@pytest.mark.parametrize(
    ("function", "cls"),
    [
        (lambda s: s + 1, Dispatched),
        (lambda s: s + 1, Added),
        (lambda s: s + 1, Anything),
        (copy.deepcopy, Plain),
        (lambda s: s.requires_grad_(), Plain),
        (lambda s: nn.Parameter(s), Plain),
        (lambda s: repr(s), Plain),
        (_pattern, Plain),
        (lambda s: isinstance(s, Abstract), Plain),
        (_sizes, Plain),
        (_data, Plain),
    ],
)
def test_left_to_eager(function: Any, cls: type) -> None:
    """What is not captured is eager's, with a reason."""
    stator.reset()
    given = [torch.ones(3).as_subclass(cls) for _ in range(2)]
    outcomes = []
    for each, fn in zip(given, (function, stator.compile(function, backend="eager")), strict=True):
        try:
            outcomes.append((fn(each), each))
        except RuntimeError as error:
            outcomes.append(str(error))
    assert describe(outcomes[0]) == describe(outcomes[1])
    with contextlib.suppress(RuntimeError), pytest.raises(stator.CaptureError, match="SB00"):
        stator.compile(function, backend="eager", fullgraph=True)(given[0])
