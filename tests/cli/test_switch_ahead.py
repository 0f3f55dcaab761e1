"""`aot_compile` and what goes with it, by torch's names."""

import functools
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import stator

pytestmark = pytest.mark.skipif(
    not hasattr(torch.compiler, "load_compiled_function"), reason="torch has no such name"
)


@pytest.fixture
def installed() -> Iterator[None]:
    stator.reset()
    stator.install()
    yield
    stator.uninstall()
    stator.reset()


SEEN: list[int] = []


def program(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    SEEN.append(n)
    return torch.relu(x) * n


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 3


X = torch.linspace(-1, 1, 5)


def test_functions(installed: None, tmp_path: Path) -> None:
    SEEN.clear()
    compiled: Any = torch.compile(program, backend="eager", fullgraph=True)
    made = compiled.aot_compile(((X,), {}))
    assert SEEN == []
    path = tmp_path / "program"
    made.save_compiled_function(str(path))
    with path.open("rb") as file:
        again: Any = torch.compiler.load_compiled_function(file, f_globals=program.__globals__)
    for each in (made, again):
        assert torch.equal(each(X), torch.relu(X) * 2)
        with pytest.raises(RuntimeError, match="n: expected 2, got 3"):
            each(X, 3)
        (source,) = each.source_info().inlined_sources
        assert source.module == __name__
        lines, first = inspect.getsourcelines(program)
        assert (source.firstlineno, source.lastlineno) == (first, first + len(lines))
        assert source.content == Path(__file__).read_text()
        each.disable_guard_check()
        assert torch.equal(each(X, 3), torch.relu(X) * 2)
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        compiled = torch.compile(program, backend="eager")
        compiled.aot_compile(((X,), {}))


def test_methods(installed: None, tmp_path: Path) -> None:
    """As with torch, `self` is not among the inputs, but among the arguments of the result."""
    model = Model()
    compiled: Any = torch.compile(model.forward, backend="eager", fullgraph=True)
    made = compiled.aot_compile(((X,), {}))
    assert torch.equal(made(model, X), model(X))
    path = tmp_path / "program"
    made.save_compiled_function(path)
    with path.open("rb") as file:
        again = torch.compiler.load_compiled_function(file, f_globals=Model.forward.__globals__)
    assert torch.equal(again(model, X), model(X))


def test_files_of_torch(installed: None, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"something that is not stator's")
    with path.open("rb") as file, pytest.raises(Exception, match=r"pickle|unpickling|load key"):
        torch.compiler.load_compiled_function(file)


def test_files_of_torch_with_a_wrapper_around(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a library puts one there."""
    ours = torch.compiler.load_compiled_function

    @functools.wraps(ours)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    monkeypatch.setattr(torch.compiler, "load_compiled_function", wrapper)
    test_files_of_torch(None, tmp_path)


def test_uninstalled() -> None:
    before = torch.compiler.load_compiled_function
    stator.install()
    try:
        assert torch.compiler.load_compiled_function is not before
    finally:
        stator.uninstall()
    assert torch.compiler.load_compiled_function is before
