"""Errors in compiled graphs: tracebacks are those of the program, without generated frames."""

import dis
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from stator.capture.tensors import refused_values
from stator.evaluator import PACKAGE

X = torch.arange(4.0)
GOOD, BAD = torch.tensor([0, 1]), torch.tensor([0, 9])


def picked(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x[i]


def plain(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y[i] + 1


def nested(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = picked(y, i)
    return z + 1


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return nested(x, i)


def before_a_break(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = picked(x, i)
    time.sleep(0)
    return y + 1


def pausing(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    time.sleep(0)
    return picked(x, i)


def behind_a_break(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return pausing(y, i) + 1


def in_a_loop(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        both = [picked(x, i) for _ in range(2)]
        x = x + both[1].sum()
    return x


def with_effects(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    SEEN.append(len(SEEN))
    return picked(x, i)


def changing(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x.mul_(1)
    return nested(x, i)


def changing_before_a_break(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x.mul_(1)
    return before_a_break(x, i)


def changing_behind_a_break(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    time.sleep(0)
    return changing(x, i)


def changing_without_grad(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return changing(x, i)


def in_a_region(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = checkpoint(picked, x, i, use_reentrant=False)
    return y + 1


SEEN: list[int] = []
PROGRAMS = [
    plain,
    nested,
    Net(),
    before_a_break,
    behind_a_break,
    in_a_loop,
    with_effects,
    lambda x, i: picked(x, i),
]
# Their graphs may be half done when they raise. What they change is small, and is put back, so that
# these run again without; but not with `half_done`.
CHANGING = [
    changing,
    changing_before_a_break,
    changing_behind_a_break,
    changing_without_grad,
]


@pytest.fixture
def half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """No graph is undone when it raises, however little it changes: its exception leaves."""
    monkeypatch.setattr(refused_values, "_SMALL", -1)


def raised(function: Callable[..., Any], *args: Any) -> BaseException:
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def users(error: BaseException) -> list[tuple[str, int | None, str]]:
    """The lines of a traceback behind the call, but those of torch."""
    shown = traceback.extract_tb(error.__traceback__)
    return [
        (each.filename, each.lineno, each.name)
        for each in shown[1:]
        if "site-packages" not in each.filename
    ]


def _name(program: Any) -> str:
    return str(getattr(program, "__name__", "module"))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [*PROGRAMS, *CHANGING], ids=_name)
def test_as_eager(program: Any, backend: str) -> None:
    check_as_eager(program, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", CHANGING, ids=_name)
@pytest.mark.usefixtures("half_done")
def test_as_eager_if_half_done(program: Any, backend: str) -> None:
    check_as_eager(program, backend)


def check_as_eager(program: Any, backend: str) -> None:
    SEEN.clear()
    wanted = raised(program, X, BAD)
    seen = [*SEEN]
    compiled = stator.compile(program, backend=backend)
    for _ in range(2):
        compiled(X, GOOD)
        SEEN.clear()
        error = raised(compiled, X, BAD)
        assert (type(error), str(error)) == (type(wanted), str(wanted))
        assert users(error) == users(wanted)
        assert not hasattr(error, "__notes__")
        assert seen == SEEN


def test_in_a_region() -> None:
    """The graph runs the region as a whole; which line of it fails is known to torch only."""
    compiled = stator.compile(in_a_region, backend="eager")
    x = X.clone().requires_grad_()
    compiled(x, GOOD)
    assert users(raised(compiled, x, BAD))[0] == users(raised(in_a_region, x, BAD))[0]


@pytest.mark.usefixtures("half_done")
def test_nothing_of_torch_is_lost() -> None:
    """Frames of torch that eager has, too."""

    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.mul_(1)
        return torch.nn.functional.embedding(i, x)

    weights = torch.ones(4, 2)
    compiled = stator.compile(program, backend="eager")
    compiled(weights, GOOD)
    found, wanted = raised(compiled, weights, BAD), raised(program, weights, BAD)
    lines = [traceback.format_tb(error.__traceback__)[1:] for error in (found, wanted)]
    shown = ["".join(each).replace("^", "").replace("~", "").split() for each in lines]
    assert shown[0] == shown[1]


@pytest.mark.usefixtures("half_done")
def test_where_nobody_knows_the_line() -> None:
    """A backend's own code: the residual function is shown, and what the graph computes."""

    def opaque(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise ZeroDivisionError("in a kernel")

        return run

    for program in (changing, changing_before_a_break):
        error = raised(stator.compile(program, backend=opaque), X, GOOD)
        lines = traceback.format_exception(error)
        assert str(error) == "in a kernel"
        (where,) = (line for line in lines if "<stator " in line)
        assert f"<stator {program.__name__}#" in where
        assert "graph(x, i)" in where  # its source
        assert traceback.extract_tb(error.__traceback__)[-1].name == "run"
        (note,) = error.__notes__
        assert note.startswith(f"This happened in stator:{program.__name__} graph ")
        line = picked.__code__.co_firstlineno + 1
        assert f"  {__file__}:{line}: return x[i]" in note
        assert PACKAGE not in "".join(lines)


@pytest.mark.usefixtures("half_done")
def test_the_same_exception_twice() -> None:
    """An exception that exists once has one note, and keeps no frames of earlier calls."""
    single = ValueError("again")

    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise single

        return run

    compiled = stator.compile(changing, backend=backend)
    for _ in range(3):
        assert raised(compiled, X, GOOD) is single
    assert len(single.__notes__) == 1


def test_the_hot_path_is_the_same() -> None:
    """Watching for errors adds no instruction before the return."""
    compiled: Any = stator.compile(plain, backend="eager")
    compiled(X, GOOD)
    (entry,) = compiled.entries()
    code = entry.target.function.__code__
    text = "def _(graph):\n    def plain(x, i):\n        return graph(x, i)[0]\n"
    outer = compile(text, "", "exec").co_consts[0]
    bare = next(each for each in outer.co_consts if hasattr(each, "co_code"))
    hot, wanted = ([each.opname for each in dis.get_instructions(c)] for c in (code, bare))
    assert hot[: len(wanted)] == wanted
    assert hot[len(wanted)] == "PUSH_EXC_INFO"
