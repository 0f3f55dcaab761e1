# mypy: ignore-errors
"""`out=` that resizes, `.data =`, `set_` and `swap_tensors`: eager's results, or a break."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
import torch

import stator
from stator.capture.tensors.resized import RELAID


def _floats(*sizes: int) -> torch.Tensor:
    count = int(torch.Size(sizes).numel())
    return torch.arange(float(count)).view(sizes)


def _ints() -> torch.Tensor:
    return torch.empty(0, dtype=torch.int64)


def _meta() -> torch.Tensor:
    return torch.empty(3, device="meta")


def out_of_one(x, out):
    torch.add(x, 1, out=out)
    return out * 2, out.stride(), tuple(out.shape)


def out_of_two(x, values, indices):
    r = torch.max(x, 0, out=(values, indices))
    return r[0] is values, values + 1, indices * 1


def out_in_a_loop(xs, out):
    total = torch.zeros(())
    for x in xs:
        torch.mul(x, 2, out=out)
        total = total + out.sum()
    return total


def out_made_inside(xs):
    out = torch.empty(0)
    for x in xs:
        torch.mul(x, 2, out=out)
    return out, tuple(out.shape)


def out_of_a_part(x, whole):
    part = whole[1:]
    torch.add(x, 1, out=part)
    return part * 2, tuple(part.shape)


def out_of_an_empty_part(x, whole):
    part = whole[:0]
    torch.add(x, 1, out=part)
    return part, whole + 0


def out_with_a_view(x, out):
    view = out.view(-1)
    torch.add(x, 1, out=out)
    return out + 0, view + 0


def data_assigned(x, y):
    x.data = y
    return x + 1, x.dtype, x.stride(), str(x.device)


def data_assigned_in_try(x, y):
    try:
        x.data = y
    except RuntimeError as error:
        return x + 1, str(error)
    return x * 2, ""


def data_assigned_twice(x, y):
    old = x[:1]
    x.data = y.double()
    x.data = x.data.float() + 1
    return x * 2, old + 0


def memory_set(x, y):
    x.set_(y)
    return x + 1, tuple(x.shape)


def swapped(x, y):
    torch.utils.swap_tensors(x, y)
    return x + 1, y * 2


def swapped_with_a_new_one(x):
    torch.utils.swap_tensors(x, x * 3)
    return x + 1


Calls = Sequence[Callable[[], tuple[Any, ...]]]
PROGRAMS: Final[dict[Callable[..., Any], Calls]] = {
    out_of_one: [
        lambda: (_floats(3, 4), torch.empty(0)),
        lambda: (_floats(2, 2), torch.empty(0)),
        lambda: (_floats(2, 2), torch.zeros(2, 2)),
        lambda: (_floats(3), torch.zeros(9)),
        lambda: (_floats(3, 3), torch.zeros(2)),
        lambda: (_floats(3, 4).t(), torch.empty(0)),
        lambda: (_floats(2, 3, 2, 2).to(memory_format=torch.channels_last), torch.empty(0)),
        lambda: (_floats(4, 4), torch.zeros(4, 8)[:, ::2]),
        lambda: (_floats(2, 3), torch.zeros(8)[2:2]),
    ],
    out_of_two: [
        lambda: (_floats(3, 4), torch.empty(0), _ints()),
        lambda: (_floats(3, 4), torch.zeros(4), torch.zeros(4, dtype=torch.int64)),
        lambda: (_floats(3, 2), torch.empty(0), torch.zeros(2, dtype=torch.int64)),
        lambda: (_floats(3, 2).t(), torch.empty(0), _ints()),
    ],
    out_in_a_loop: [
        lambda: ([_floats(2, 3), _floats(3), _floats(5, 5)], torch.empty(0)),
        lambda: ([_floats(3), _floats(3)], torch.empty(0)),
    ],
    out_made_inside: [
        lambda: ([_floats(2, 3), _floats(3), _floats(5, 5)],),
        lambda: ([_floats(2, 3).t()],),
    ],
    out_of_a_part: [
        lambda: (_floats(3, 4), torch.zeros(4, 4)),
        lambda: (_floats(2, 4), torch.zeros(4, 4)),
    ],
    out_of_an_empty_part: [lambda: (_floats(4), torch.zeros(6))],
    out_with_a_view: [
        lambda: (_floats(2, 3), torch.zeros(2, 3)),
        lambda: (_floats(2, 3), torch.zeros(2, 2)),
    ],
    data_assigned: [
        lambda: (_floats(3), _floats(3) + 1),
        lambda: (_floats(3), _floats(2, 2)),
        lambda: (_floats(3), _floats(3).double()),
        lambda: (_floats(3, 4), _floats(4, 3).t()),
        lambda: (_floats(3), _meta()),
        lambda: (_meta(), _floats(3)),
        lambda: (torch.nn.Parameter(_floats(3)), _floats(4)),
        lambda: (torch.nn.Parameter(_floats(3)), _meta()),
    ],
    data_assigned_in_try: [
        lambda: (_floats(3), _meta()),
        lambda: (_floats(3), _floats(3)),
        lambda: (torch.nn.Parameter(_floats(3)), _meta()),
    ],
    data_assigned_twice: [lambda: (_floats(3), _floats(4))],
    memory_set: [
        lambda: (_floats(3), _floats(2, 2)),
        lambda: (_floats(3), _meta()),
        lambda: (_floats(3), _floats(3).double()),
    ],
    swapped: [lambda: (_floats(3), _floats(4))],
    swapped_with_a_new_one: [lambda: (_floats(3),)],
}
# The first call of these is captured as one graph.
CAPTURED: Final = (
    out_of_one,
    out_of_two,
    out_made_inside,
    out_of_a_part,
    out_with_a_view,
    data_assigned,
    data_assigned_in_try,
    data_assigned_twice,
    memory_set,
)


def _seen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        values = None if value.is_meta else value.tolist()
        place = tuple(value.shape), value.stride(), value.storage_offset()
        return (*place, value.dtype, str(value.device), value.requires_grad, values)
    return [_seen(each) for each in value] if isinstance(value, tuple | list) else value


def _outcome(function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        made = _seen(function(*given))
    except RuntimeError as error:
        made = str(error)
    return made, _seen(given)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_eager(program: Any, backend: str) -> None:
    calls = PROGRAMS[program]
    for dynamic in (None, True):
        compiled = stator.compile(program, backend=backend, dynamic=dynamic, recompile_limit=32)
        for make in (*calls, *reversed(calls)):
            assert _outcome(compiled, make()) == _outcome(program, make())


@pytest.mark.parametrize("program", CAPTURED)
def test_captured_as_one_graph(program: Any) -> None:
    stator.compile(program, backend="eager", fullgraph=True)(*PROGRAMS[program][0]())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 6)])
@pytest.mark.parametrize("name", sorted(RELAID))
def test_parts_of_tensors_that_are_laid_out_anew(name: str, shape: Any, backend: str) -> None:
    """Also where the shape stays: AOTAutograd puts such an input to the beginning of its memory."""
    given: Any = {
        "as_strided_": (shape, torch.empty(shape).stride(), 1),
        "resize_": (shape,),
        "resize_as_": (torch.empty(shape),),
        "transpose_": (0, 0),
        "swapaxes_": (0, 0),
        "swapdims_": (0, 0),
        "unsqueeze_": (0,),
    }.get(name, ())

    def program(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        getattr(x, name)(*given)
        x.add_(1)
        return x.sigmoid()

    compiled = stator.compile(program, backend=backend)
    for start in (0, 1):  # the second one is a part
        whole = [torch.arange(8.0) for _ in range(2)]
        parts = [each[start : start + 6].view(shape) for each in whole]
        results = [run(part) for run, part in zip((program, compiled), parts, strict=True)]
        assert torch.equal(*results) and torch.equal(*whole)
        places = [(each.shape, each.stride(), each.storage_offset()) for each in parts]
        assert places[0] == places[1]


def test_operators_that_lay_tensors_out_anew_are_those_of_torch() -> None:
    tagged = {
        name
        for name in dir(torch.Tensor)
        if name.endswith("_") and not name.endswith("__") and hasattr(torch.ops.aten, name)
        for overload in [getattr(torch.ops.aten, name)]
        if any(torch.Tag.inplace_view in getattr(overload, n).tags for n in overload.overloads())
    }
    assert tagged - {"detach_", "set_", "resize_as_sparse_"} == RELAID
