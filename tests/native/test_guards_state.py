"""Guards on torch's global state, and torch's constants; skipped without torch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("torch.overrides")

from stator import guards as G  # noqa: E402, N812
from stator.guards import state  # noqa: E402
from stator.guards import tensors as T  # noqa: E402, N812

from .test_guards_sources import X, agreed  # noqa: E402


@pytest.fixture(params=["probes", "functions"], autouse=True)
def probes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What torch's C++ functions say, and the same without them."""
    if request.param == "functions":
        monkeypatch.setattr(state, "_probes", dict.fromkeys(state.STATES))
    return str(request.param)


@contextmanager
def changed(change: Callable[[Any], None], value: Any, back: Any) -> Iterator[None]:
    change(value)
    try:
        yield
    finally:
        change(back)


class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"user code ran: {function}")


CHANGES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast cpu": lambda: torch.autocast("cpu"),
    "autocast cpu float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast without cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "default dtype": lambda: changed(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": lambda: changed(torch.use_deterministic_algorithms, True, False),
    "deterministic, warn": lambda: changed(
        lambda on: torch.use_deterministic_algorithms(on, warn_only=on), True, False
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_state_is_seen(change: str) -> None:
    """From the usual state to another one and back, and the other way round."""
    usual = T.torch_state_guards()
    tree = G.compile(usual)
    for _ in range(2):
        assert agreed(usual)
        assert tree.check((), None)
        with CHANGES[change]():
            assert not agreed(usual)
            assert not tree.check((), None)
            assert "torch" in str(tree.explain((), None))
            unusual = T.torch_state_guards()
            assert agreed(unusual)
        assert not agreed(unusual)


def test_unusual_states_differ() -> None:
    for change in CHANGES.values():
        with change():
            guards = T.torch_state_guards()
        for other in CHANGES.values():
            with other():
                assert agreed(guards) == (change is other)


def test_a_mode_is_not_asked() -> None:
    """torch answers some questions through an active mode: its code must not run."""
    guards = T.torch_state_guards()
    tree = G.compile(guards)
    with Mode():
        assert not tree.check((), None)
        failure = tree.explain((), None)
    assert failure.path == "torch torch_function_modes"
    assert tree.check((), None)


def test_autocast_is_one_guard_when_off() -> None:
    found = T.torch_state_guards(["autocast"])
    assert len(found) == 1
    with torch.autocast("cpu"):
        assert len(T.torch_state_guards(["autocast"])) > 3


def test_probes_are_found(probes: str) -> None:
    """They must all be known for this torch; else they cost speed, nothing more."""
    for name in state.PROBES:
        assert (T.TorchState(name).probe is not None) == (probes == "probes"), name


@pytest.mark.parametrize(
    "known",
    [
        state.PROBES["grad_mode"]._replace(symbol="_ZN3c108GradMode9is_enablEv"),
        state.PROBES["grad_mode"]._replace(symbol=state.PROBES["inference_mode"].symbol),
        state.PROBES["grad_mode"]._replace(symbol=state.PROBES["default_dtype"].symbol),
        state.PROBES["grad_mode"]._replace(bits=0),
        state.PROBES["grad_mode"]._replace(argument=lambda: 1 // 0),
    ],
)
def test_a_wrong_probe_is_not_used(known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(state.PROBES, "grad_mode", known)
    assert state.verified("grad_mode") is None
    assert torch.is_grad_enabled()


def test_verification_leaves_the_state_alone() -> None:
    for change in [*CHANGES.values(), nullcontext]:
        with change():
            before = [function(*args) for function, args in asked()]
            for name in state.PROBES:
                state.verified(name)
            assert [function(*args) for function, args in asked()] == before


def asked() -> list[Any]:
    return [value for name, value in T.STATES.items() if not name.startswith("autocast_")]


def test_threads_have_their_own_state() -> None:
    guards = T.torch_state_guards()
    tree = G.compile(guards)
    assert tree.check((), None)
    found = []

    def work() -> None:
        found.append(tree.check((), None))
        with torch.no_grad():
            found.append(tree.check((), None))
            found.append(agreed(guards))
        found.append(tree.check((), None))

    with torch.no_grad():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert not tree.check((), None)
    assert found == [True, False, False, True]
    assert tree.check((), None)


def test_names() -> None:
    found = T.torch_state_guards(["grad_mode", "num_threads"])
    assert [str(guard) for guard in found] == [
        "torch grad_mode: True",
        f"torch num_threads: {torch.get_num_threads()}",
    ]
    with pytest.raises(KeyError):
        T.torch_state_guards(["gard_mode"])


def test_every_state_has_a_source() -> None:
    for name, (function, arguments) in T.STATES.items():
        try:
            value = function(*arguments)
        except RuntimeError:  # a device this build does not know
            continue
        assert agreed([G.Guard(T.TorchState(name), G.Equal(value))])
        assert not agreed([G.Guard(T.TorchState(name), G.Equal("something else"))])


CONSTANTS = [
    torch.float32, torch.float64, torch.device("cpu"), torch.device("meta"),
    torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cuda"),
    torch.strided, torch.sparse_coo,
    torch.contiguous_format, torch.channels_last, torch.Size([1, 2]), torch.Size([1, True]),
    torch.Size([]), (1, 2), (torch.float32, torch.device("cpu"), torch.Size([1, 2])),
    (torch.float32, torch.device("cpu"), (1, 2)), frozenset({torch.float32, torch.Size([2])}),
    slice(None, torch.Size([1]), torch.float32), (), None, "cpu", "torch.float32",
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(CONSTANTS)))
def test_torch_constants(index: int) -> None:
    constant = CONSTANTS[index]
    for other, value in enumerate(CONSTANTS):
        assert agreed([G.Guard(X, G.Equal(constant))], value) == (index == other), value


def test_equal_torch_constants() -> None:
    pairs = [
        (torch.device("cuda", 1), torch.device("cuda:1")),
        (torch.Size([2, 3]), torch.empty(2, 3).shape),
        (torch.float32, torch.empty(1).dtype),
        (torch.strided, torch.empty(1).layout),
    ]
    for constant, value in pairs:
        assert agreed([G.Guard(X, G.Equal(constant))], value)
