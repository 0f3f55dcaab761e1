"""Calls in several threads, all started at the same moment; one that collects meanwhile."""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

LIMIT_S: Final = 120.0


def outcomes(*calls: Callable[[], Any]) -> list[Any]:
    """What each call returns or raises, in order."""
    found: list[Any] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(position: int, call: Callable[[], Any]) -> None:
        start.wait()
        try:
            found[position] = call()
        except BaseException as error:
            found[position] = error

    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return found


def in_threads(*calls: Callable[[], Any]) -> None:
    """Runs them at once; what one of them raises is raised here."""
    for outcome in outcomes(*calls):
        if isinstance(outcome, BaseException):
            raise outcome


@contextlib.contextmanager
def collecting() -> Iterator[None]:
    """Another thread is in the middle of a collection, in a finalizer that lets others run."""
    began, ended = threading.Event(), threading.Event()

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            began.set()
            ended.wait()

    def collect() -> None:
        Cycle()
        gc.collect()

    thread = threading.Thread(target=collect)
    thread.start()
    began.wait()
    try:
        yield
    finally:
        ended.set()
        thread.join()
