"""What programs do with wrappers besides operators: as in eager, in a graph or beside it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from tests.subclasses.classes import Offset, Scaled
from tests.subclasses.compared import Counted, same


def offset() -> Any:
    return (Offset(torch.ones(3), 2.0),)


def with_grad() -> Any:
    return (Offset(torch.ones(3), 2.0).requires_grad_(),)


def no_leaf() -> Any:
    return (Offset(torch.ones(3), 2.0).requires_grad_() * 2,)


def scaled() -> Any:
    return (Scaled.from_float(torch.ones(3, 3)),)


def noted(a: Any) -> Any:
    a.note = 5
    return a * 2, a.note


def shifted(a: Any) -> Any:
    a.offset = 5.0
    return a + 2, a.offset


def refilled(a: Any) -> Any:
    a.elem = torch.zeros(3)
    return a + 2


def backward(a: Any) -> Any:
    (a * 2).sum().backward()
    return a.grad


def without_grad(a: Any) -> Any:
    with torch.no_grad():
        a.mul_(2)
    return a * 3


def broken(a: Any) -> Any:
    y = a * 2
    stator.graph_break()
    return y.sin() + a


def handled(a: Any) -> Any:
    try:
        return a.sin()
    except NotImplementedError:
        return a * 2


def kept(a: Any) -> Any:
    found: list[Any] = []
    found.append(a * 2)
    return found


USES: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "repr": (lambda a: (repr(a), a * 2), offset),
    "format": (lambda a: (f"{a}", a * 2), offset),
    "deepcopy": (lambda a: copy.deepcopy(a) * 2, offset),
    "copy": (lambda a: copy.copy(a) * 2, offset),
    "item of a part": (lambda a: (a.sum().elem.item(), a * 2), offset),
    "item": (lambda a: a.sum().item(), offset),
    "a branch": (lambda a: a * 2 if a.sum().elem > 0 else a * 3, offset),
    "leaf": (lambda a: (a.is_leaf, a * 2), with_grad),
    "no leaf": (lambda a: (a.is_leaf, a.requires_grad, a * 2), no_leaf),
    "grad_fn": (lambda a: (a.grad_fn is None, (a * 2).grad_fn is None), no_leaf),
    "backward": (backward, with_grad),
    "a leaf is changed": (without_grad, with_grad),
    "a note": (noted, offset),
    "metadata is set": (shifted, offset),
    "a part is set": (refilled, offset),
    "data": (lambda a: a.data * 2, offset),
    "Parameter": (lambda a: torch.nn.Parameter(a) * 2, offset),
    "checkpoint": (lambda a: checkpoint(lambda x: x.sin(), a, use_reentrant=False), with_grad),
    "vmap": (lambda a: torch.vmap(lambda x: x * 2)(a), offset),
    "as a key": (lambda a: {a: 1}[a], offset),
    "vars": (lambda a: sorted(vars(a)), offset),
    "an attribute that is not there": (lambda a: (getattr(a, "nope", 3), a * 2), offset),
    "split": (lambda a: a.split([1, 2]), offset),
    "a part is changed by a view": (lambda a: (a[0].add_(1), a)[1], offset),
    "a view and its base": (lambda a: (a.view(3), a), offset),
    "an operator that it has not": (handled, scaled),
    "made of what requires grad": (
        lambda x: Offset(x, 1.0) * 2,
        lambda: (torch.ones(3, requires_grad=True),),
    ),
    "swapped": (
        lambda a, b: (torch.utils.swap_tensors(a, b), a * 2)[1],
        lambda: (Offset(torch.ones(3), 1.0), Offset(torch.zeros(3), 2.0)),
    ),
    "a break": (broken, offset),
    "kept": (kept, offset),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", USES)
@pytest.mark.filterwarnings("ignore")
def test_use(name: str, backend: str) -> None:
    function, make = USES[name]
    given, twin = make(), make()
    compiled: Any = stator.compile(function, backend=Counted(backend))
    try:
        expected = function(*given)
    except Exception as error:
        with pytest.raises(type(error)) as raised:
            compiled(*twin)
        assert str(raised.value) == str(error)
    else:
        same(expected, compiled(*twin))
        same(list(given), list(twin))
