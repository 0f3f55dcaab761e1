"""Classes of wrappers, in all places where a tensor can be, under many operators."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import stator
from tests.subclasses.classes import Offset, Scaled, Switched, Tagged, two
from tests.subclasses.compared import compared

KINDS = {
    "two": lambda: (two(3, 4),),
    "two, with grad": lambda: (two(3, 4, requires_grad=True),),
    "offset": lambda: (Offset(torch.randn(3, 4), 2.0),),
    "offset, with grad": lambda: (Offset(torch.randn(3, 4), 2.0).requires_grad_(),),
    "nested": lambda: (TwoTensor(two(3, 4), two(3, 4)),),
    "of another kind": lambda: (Offset(two(3, 4), 1.5),),
}
OPERATORS = {
    "mul": lambda a: a * 2,
    "add, sin": lambda a: (a + a).sin(),
    "sum": lambda a: a.sum(),
    "view": lambda a: a.view(4, 3) * 2,
    "only a view": lambda a: a.view(4, 3),
    "matmul": lambda a: a.t() @ a,
    "index": lambda a: a[1:, 2] + 1,
    "cat": lambda a: torch.cat([a, a]),
    "chunk": lambda a: [part * 2 for part in a.chunk(2, 1)],
    "clone": lambda a: a.clone(),
    "detach": lambda a: a.detach() * 2,
    "to": lambda a: a.to(torch.float64) + 1,
    "in place": lambda a: (a * 2).add_(1),
    "linear": lambda a: F.linear(a, a),
    "softmax": lambda a: torch.softmax(a, -1),
    "its class": lambda a: (a * 2, type(a * 2) is type(a), isinstance(a, TwoTensor)),
    "shape": lambda a: a * a.shape[0] + a.dim() + a.size(1),
    "zeros_like": lambda a: torch.zeros_like(a) + a,
    "in containers": lambda a: pytree.tree_map(lambda t: t * 2, {"a": a, "b": [a, 3]}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator: str, kind: str) -> None:
    make = KINDS[kind]
    assert compared(OPERATORS[operator], make, make) == [1, 1]


@pytest.mark.parametrize("kind", ["two, with grad", "offset, with grad", "of another kind"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_operator_under_aot(operator: str, kind: str) -> None:
    make = KINDS[kind]
    assert compared(OPERATORS[operator], make, make, backend="aot_eager") == [1, 1]


def offset() -> Any:
    return (Offset(torch.randn(3, 4), 2.0),)


def plain() -> Any:
    return (torch.randn(3, 4),)


def weight() -> Any:
    return Scaled.from_float(torch.randn(3, 4)), torch.randn(2, 4)


class Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(two(4, 4))
        self.register_buffer("bias", Offset(torch.randn(4), 1.0))

    def forward(self, x: Any) -> Any:
        return (F.linear(x, self.weight.a) * self.bias.elem).sin()


class Quantized(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        given = Scaled.from_float(self.layer.weight.detach())
        self.layer.weight = torch.nn.Parameter(given, requires_grad=False)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


PROGRAMS = {
    "an input is changed": (lambda a: a.mul_(2), offset),
    "an input is changed, and used": (lambda a: (a.mul_(2), a + 1)[1], offset),
    "a part is changed": (lambda a: (a.elem.add_(1), a * 2)[1], offset),
    "flatten": (lambda a: [getattr(a, n) * 2 for n in a.__tensor_flatten__()[0]], offset),
    "attribute": (lambda a: a * a.offset, offset),
    "property": (lambda a: a * a.doubled, offset),
    "method": (lambda a: a.plain(), offset),
    "part": (lambda a: a.elem * 2 + (a * 2).elem, offset),
    "made": (lambda x: Offset(x, 3.0) * 2, plain),
    "made by a class method": (lambda x: Offset.of(x) * 2, plain),
    "made, its part": (lambda x: Offset(x * 2, 3.0).elem + 1, plain),
    "made and returned": (lambda x: Offset(x, 3.0), plain),
    "made, its attribute": (lambda x: x * (Offset(x, 3.0) * 2).offset, plain),
    "put together": (
        lambda a: Offset.__tensor_unflatten__({"elem": a.elem * 2}, (1.0, "n"), None, None),
        offset,
    ),
    "asked by torch": (
        lambda a: torch.sin(a) + a.sin(),
        lambda: (Tagged(torch.randn(3), 1.0),),
    ),
    "a global is read": (lambda a: a * 2, lambda: (Switched(torch.randn(3), 1.0),)),
    "quantized": (lambda w, x: F.linear(x, w), weight),
    "quantized here": (
        lambda w, x: F.linear(x, Scaled.from_float(w)),
        lambda: (torch.randn(3, 4), torch.randn(2, 4)),
    ),
    "attributes of a weight": (lambda w, x: x * w.config.group * w.scale.sum(), weight),
    "of a module": (lambda m, x: m(x), lambda: (Mixed(), torch.randn(2, 4))),
    "a quantized layer": (lambda m, x: m(x), lambda: (Quantized(), torch.randn(2, 4))),
    "a parameter": (
        lambda a: a * 2 if isinstance(a, torch.nn.Parameter) else a,
        lambda: (torch.nn.Parameter(two(3)),),
    ),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, backend: str) -> None:
    function, make = PROGRAMS[name]
    assert compared(function, make, make, backend=backend) == [1, 1]


def test_identity() -> None:
    given = Offset(torch.ones(3), 1.0)

    @stator.compile(backend="aot_eager", fullgraph=True)
    def parts(a: Any) -> Any:
        return a, a.elem, a * 2

    whole, part, _ = parts(given)
    assert whole is given and part is given.elem
