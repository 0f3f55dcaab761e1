"""Several threads compile and call the same and different functions."""

import os
import random
import threading
import time
import traceback
from typing import Any, Final

import torch

import stator
import stator.testing
from tests.threads import collecting

SECONDS: Final = float(os.environ.get("STATOR_THREAD_SECONDS", "3"))
ENOUGH: Final = 50  # calls, however long they take


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.relu(x) * n + x.sum()


def stored(known: dict[str, Any], x: torch.Tensor) -> list[Any]:
    known["k"] = x + 1
    return [known["k"], len(known)]


def test_threads_compile_and_call() -> None:
    """Right results, no deadlock; a minute of it with STATOR_THREAD_SECONDS=60."""
    model = torch.nn.Linear(4, 4)
    compiled_scaled = stator.compile(scaled, backend="eager", recompile_limit=64)
    compiled_stored = stator.compile(stored, backend="eager", recompile_limit=64)
    compiled_model = stator.compile(model, backend="eager")
    errors: list[str] = []
    calls = [0]

    def one_call(choose: random.Random) -> None:
        x = torch.randn(choose.choice([2, 3, 4]))
        match choose.randrange(4):
            case 0:
                n = choose.randrange(3)
                assert torch.equal(compiled_scaled(x, n), scaled(x, n))
            case 1:
                known: dict[str, Any] = {}
                result = compiled_stored(known, x)
                assert torch.equal(result[0], x + 1)
                assert known["k"] is result[0]
            case 2:
                given = torch.randn(2, 4)
                assert torch.equal(compiled_model(given), model(given))
            case _:
                shift = choose.randrange(1000)

                def local(t: torch.Tensor) -> torch.Tensor:
                    return t.sin() + shift

                own = stator.compile(local, backend="eager", isolate_recompiles=True)
                assert torch.equal(own(x), local(x))
        calls[0] += 1

    def work(seed: int, until: float) -> None:
        choose = random.Random(seed)
        try:
            while time.monotonic() < until or (calls[0] <= ENOUGH and not errors):
                one_call(choose)
        except BaseException:
            errors.append(traceback.format_exc())

    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(seed, until)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 60)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors, errors[0]


def test_a_compile_while_another_thread_collects() -> None:
    """It is no finalizer, all of it is traced: the entry has its guards."""
    x = torch.randn(3)
    compiled = stator.compile(scaled, backend="eager", fullgraph=True, dynamic=False)
    with collecting():
        assert torch.equal(compiled(x, 2), scaled(x, 2))
    assert torch.equal(compiled(x, 3), scaled(x, 3))
    assert torch.equal(compiled(x, 2), scaled(x, 2))
    assert len(stator.testing.function_of(compiled).entries()) == 2
