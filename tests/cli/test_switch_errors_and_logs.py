"""Under `stator.install()`: errors are torch's as well, and torch's logs are stator's."""

import copy
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics import logs
from stator.dropin.exceptions import DYNAMOS, SHAPES
from tests.cli.compare import run

X = torch.ones(3)
LOGGING: Any = torch._logging
TORCH: Any = torch


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    stator.reset()
    stator.compile(lambda x: x + 1, backend="eager")(X)  # loads torch._dynamo
    stator.install()
    yield
    stator.uninstall()
    stator.set_logs()
    stator.reset()


def module(name: str) -> Any:
    return sys.modules[name]


def broken(x: torch.Tensor) -> torch.Tensor:
    stator.graph_break("here")
    return x + 1


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def failing(graph: Any, inputs: Any) -> Any:
    raise ZeroDivisionError("in the backend")


def split() -> None:
    torch.compile(broken, backend="eager", fullgraph=True)(X)


def again() -> None:
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    compiled(X, 1)
    with stator.config.patch(error_on_recompile=True):
        compiled(X, 2)


def limited() -> None:
    compiled = TORCH.compile(scaled, backend="eager", dynamic=False, recompile_limit=1)
    compiled(X, 1)
    with stator.config.patch(fail_on_recompile_limit_hit=True):
        compiled(X, 2)


def unknown() -> None:
    torch.compile(scaled, backend="nobody")


def backend() -> None:
    torch.compile(scaled, backend=failing)(X, 2)


def bug() -> None:
    raise stator.InternalError("a bug")


def specialized() -> None:
    marked = torch.ones(3)
    stator.mark_dynamic(marked, 0)
    torch.compile(lambda x: x if x.shape[0] == 3 else x + 1, backend="eager")(marked)


RAISES: dict[str, tuple[Callable[[], None], type[BaseException]]] = {
    "Unsupported": (split, stator.CaptureError),
    "RecompileError": (again, stator.RecompileError),
    "FailOnRecompileLimitHit": (limited, stator.RecompileLimitError),
    "InvalidBackend": (unknown, stator.UnknownBackendError),
    "BackendCompilerFailed": (backend, stator.BackendError),
    "InternalTorchDynamoError": (bug, stator.InternalError),
    "ConstraintViolationError": (specialized, stator.SpecializedError),
}


def theirs(name: str) -> type[BaseException]:
    shapes = name == "ConstraintViolationError"
    home = "torch.fx.experimental.symbolic_shapes" if shapes else "torch._dynamo.exc"
    found: type[BaseException] = getattr(module(home), name)
    return found


def test_every_error_is_here() -> None:
    assert {name for _, name, _ in (*DYNAMOS, *SHAPES)} == RAISES.keys()


@pytest.mark.parametrize("name", RAISES)
def test_is_both(name: str) -> None:
    raises, ours = RAISES[name]
    with pytest.raises(theirs(name)) as caught:
        raises()
    error = caught.value
    assert isinstance(error, ours)
    assert type(error).__name__ == ours.__name__
    stator.uninstall()
    stator.reset()
    with pytest.raises(ours) as plain:
        {"split": _plain_split, "unknown": _plain_unknown}.get(raises.__name__, _plainly(raises))()
    stator.install()
    assert not isinstance(plain.value, theirs(name)) or ours is plain.type
    assert type(plain.value) is ours


def _plain_split() -> None:
    stator.compile(broken, backend="eager", fullgraph=True)(X)


def _plain_unknown() -> None:
    stator.compile(scaled, backend="nobody")


def _plainly(raises: Callable[[], None]) -> Callable[[], None]:
    """The same with `stator.compile`."""

    def run() -> None:
        before, TORCH.compile = TORCH.compile, stator.compile
        try:
            raises()
        finally:
            TORCH.compile = before

    return run


def test_what_programs_read() -> None:
    with pytest.raises(theirs("Unsupported")) as caught:
        split()
    error: Any = caught.value
    assert error.msg == str(error)
    assert error.real_stack[-1].lineno == broken.__code__.co_firstlineno + 1
    assert error.reason.endswith("here")
    with pytest.raises(theirs("BackendCompilerFailed")) as failed:
        backend()
    failure: Any = failed.value
    assert isinstance(failure.inner_exception, ZeroDivisionError)
    assert failure.backend_name == "failing"


def test_travels() -> None:
    with pytest.raises(stator.CaptureError) as caught:
        split()
    for made in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert isinstance(made, stator.CaptureError)
        assert str(made) == str(caught.value)


def test_caught_by_the_base_class() -> None:
    with pytest.raises(theirs("Unsupported").__mro__[1]):  # TorchDynamoException
        split()


# ---------------------------------------------------------------------- logs


def on() -> set[str]:
    return {name for name in logs.LOGS if logs.on(name)}


def test_torchs_logs_are_stators(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATOR_LOGS", "TORCH_LOGS"):
        monkeypatch.delenv(name, raising=False)
    LOGGING.set_logs(graph_breaks=True, guards=True, output_code=True)
    assert on() == {"graph_breaks", "guards"}
    LOGGING.set_logs(dynamo=logging.DEBUG, recompiles_verbose=True)
    assert on() == {"dynamo", "recompiles"}
    assert logs.on("dynamo", verbose=True)
    assert logs.on("recompiles", verbose=True)
    LOGGING.set_logs(dynamo=logging.ERROR)
    assert on() == set()
    LOGGING.set_logs()
    assert on() == set()


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stator.set_logs("guards")
    monkeypatch.setenv("STATOR_LOGS", "guards")
    LOGGING.set_logs(graph=True)
    assert on() == {"guards"}
    LOGGING.set_logs()


def test_torchs_own_again() -> None:
    ours = LOGGING.set_logs
    stator.uninstall()
    assert LOGGING.set_logs is not ours
    LOGGING.set_logs(graph_breaks=True)
    assert on() == set()
    LOGGING.set_logs()
    stator.install()


LOOKS_LATER = """\
import sys
import torch, stator

stator.install()
for raised in (
    lambda: torch.compile(len, backend="nobody"),
    lambda: stator.config.patch(nonsense=1),
):
    try:
        raised()
    except AttributeError:
        print("no such setting")
    except torch._dynamo.exc.InvalidBackend as error:
        print(type(error).__name__, "no backend named 'nobody'" in str(error))
try:
    try:
        torch.compile(len, backend="nobody")
    except LookupError as error:
        raise ValueError from error
except ValueError as error:
    print(isinstance(error.__cause__, torch._dynamo.exc.InvalidBackend))
"""


def test_torchs_exceptions_are_loaded_only_when_one_is_looked_at() -> None:
    found = run(["-c", LOOKS_LATER])
    assert found.output == "UnknownBackendError True\nno such setting\nTrue\n", found.errors
