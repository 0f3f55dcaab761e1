"""Errors while a continuation is compiled: the program is left as by an unhandled exception."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx as fx

import stator

X = torch.arange(4.0)


class Failing:
    """A backend that fails from some graph on."""

    def __init__(self, first: int = 2) -> None:
        self.left = first - 1

    def __call__(self, module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.left -= 1
        if self.left < 0:
            raise ZeroDivisionError("no more")
        forward: Callable[..., Any] = module.forward
        return forward


def compiled(function: Any, **options: Any) -> Any:
    return stator.compile(function, **{"backend": Failing(), "isolate_recompiles": True, **options})


def test_blocks_are_left() -> None:
    log = []

    class Manager:
        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
            log.append("out" if kind is not None else "left without an exception")

    def inner(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = x * 2
            time.sleep(0)
            return x + 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        try:
            with Manager():
                return inner(x) * 3
        finally:
            log.append("finally")

    call = compiled(outer)
    with pytest.raises(stator.BackendError, match="no more"):
        call(X)
    assert log == ["in", "out", "finally"]
    assert torch.is_grad_enabled()


def test_the_next_call_is_like_the_first() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = x * 2
            time.sleep(0)
            return x + 1

    backend = Failing()
    call = compiled(function, backend=backend)
    for _ in range(2):
        with pytest.raises(stator.BackendError):
            call(X)
    backend.left = 1
    assert torch.equal(call(X), X * 2 + 1)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("caught", [Exception, stator.BackendError, BaseException])
def test_no_handler_takes_the_error_for_its_own(caught: type[BaseException]) -> None:
    def function(x: torch.Tensor) -> Any:
        try:
            x = x * 2
            time.sleep(0)
            return x + 1
        except caught:
            return "handled"

    with pytest.raises(stator.BackendError):
        compiled(function)(X)


def test_what_cleaning_up_raises() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            x = x * 2
            time.sleep(0)
            return x + 1
        finally:
            raise KeyError

    with pytest.raises(stator.BackendError):
        compiled(function)(X)


def test_in_a_loop() -> None:
    """The point is the start of the next iteration, or the end of the loop."""
    ends = []

    def function(x: torch.Tensor) -> torch.Tensor:
        for i in range(3):
            try:
                x = x + 1
                time.sleep(0)
            finally:
                ends.append(i)
        return x

    for first in range(2, 8):
        ends.clear()
        with contextlib.suppress(stator.BackendError):
            assert torch.equal(compiled(function, backend=Failing(first))(X), X + 3)
        assert ends in ([0], [0, 1], [0, 1, 2])


class Noting:
    def __init__(self, ends: list[Any]) -> None:
        self.ends = ends

    def __enter__(self) -> None:
        time.sleep(0)

    def __exit__(self, *_: object) -> None:
        self.ends.append("with")


def fails() -> None:
    raise KeyError


def last_of_the_block(x: torch.Tensor, ends: list[Any]) -> torch.Tensor:
    try:
        x = x * 2
        time.sleep(0)
    finally:
        ends.append("finally")
    return x + 1


def stored_last(x: torch.Tensor, ends: list[Any]) -> Any:
    try:
        x = x * 2
        now = time.time()
    finally:
        ends.append("finally")
    return x + 1, now


def returned(x: torch.Tensor, ends: list[Any]) -> Any:
    try:
        x = x * 2
        return time.sleep(0)
    finally:
        ends.append("finally")
        ends.append(x + 1)


def returned_in_with(x: torch.Tensor, ends: list[Any]) -> Any:
    with Noting(ends):
        x = x * 2
        for _ in range(2):
            return time.time(), x + 1
    return None


def entered(x: torch.Tensor, ends: list[Any]) -> torch.Tensor:
    x = x * 2
    with Noting(ends):
        return x + 1


def nested(x: torch.Tensor, ends: list[Any]) -> torch.Tensor:
    try:
        try:
            x = x * 2
            time.sleep(0)
        finally:
            ends.append("inner")
        x = x + 1
    finally:
        ends.append("finally")
    return x


def in_a_call(x: torch.Tensor, ends: list[Any]) -> torch.Tensor:
    def sleeps() -> None:
        time.sleep(0)

    try:
        x = x * 2
        sleeps()
    finally:
        ends.append("finally")
    return x + 1


def raised(x: torch.Tensor, ends: list[Any]) -> torch.Tensor:
    try:
        x = x * 2
        stator.disable(fails)()
    except KeyError:
        x = x + 1
    finally:
        ends.append("finally")
    return x


def raised_out(x: torch.Tensor, ends: list[Any]) -> None:
    try:
        x = x * 2
        stator.disable(fails)()
    finally:
        ends.append("finally")
        ends.append(x + 1)


BLOCKS = {
    last_of_the_block: ["finally"],
    stored_last: ["finally"],
    returned: ["finally"],
    returned_in_with: ["with"],
    entered: ["with"],
    nested: ["inner", "finally"],
    in_a_call: ["finally"],
    raised: ["finally"],
    raised_out: ["finally"],
}


@pytest.mark.parametrize("function", BLOCKS)
def test_blocks_that_end_where_it_is_left(function: Any) -> None:
    ends: list[Any] = []
    with pytest.raises(stator.BackendError):
        compiled(function)(X, ends)
    assert [each for each in ends if type(each) is str] == BLOCKS[function]


def test_a_handled_exception_stays_as_it_was() -> None:
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError("first")
        except KeyError:
            try:
                x = x * 2
                time.sleep(0)
                return x + 1
            finally:
                seen.append("inner")

    with pytest.raises(stator.BackendError) as info:
        compiled(function)(X)
    assert seen == ["inner"]
    assert isinstance(info.value.__cause__, ZeroDivisionError)


def test_graph_break_that_is_an_error() -> None:
    ends = []

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            with torch.no_grad():
                time.sleep(0)
                with stator.error_on_graph_break(True):
                    x = x + 1
                    time.sleep(0)
        finally:
            ends.append(torch.is_grad_enabled())
        return x

    call = compiled(function, backend="eager")
    for _ in range(2):
        with pytest.raises(stator.CaptureError, match=r"time\.sleep"):
            call(X)
    assert ends == [True, True]
    assert torch.is_grad_enabled()
