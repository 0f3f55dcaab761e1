"""That a rank lives, what it does and where it stands, told once a second by a thread of its own.

In: what the rank is doing. Out: entries in the store, and what is to be thought of those of the
others. The thread is one that programs do not see, and holds nothing up: while the rank is in a
collective, it tells so.
"""

import _thread
import atexit
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

_PERIOD: Final = 1.0
_DEAD: Final = 12.0  # seconds without a sign
_OURS: Final = "<stator "
# Code that waits for other processes; other parts of torch.distributed read and write files.
_COMMUNICATION: Final = (
    "/torch/distributed/_functional_collectives.py",
    "/torch/distributed/distributed_c10d.py",
    "/torch/distributed/fsdp/",
    "/torch/distributed/nn/",
    "/torch/distributed/tensor/",
    "/torch/nn/parallel/distributed.py",
)


class Presence:
    """The signs of life of one rank."""

    def __init__(self, store: Callable[[], Any], prefix: str, rank: int) -> None:
        self._store = store
        self._prefix = prefix
        self._rank = rank
        self._doing: list[str] = []
        self._count = 0
        self._main = _thread.get_ident()
        self._process = os.getpid()
        self._stood: tuple[Any, float] = (None, time.monotonic())
        self._warned: set[str] = set()
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        self._tell()
        _thread.start_new_thread(self._run, ())
        atexit.register(self.end)

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """What the rank does meanwhile, besides running its program."""
        self._doing.append(what)
        self._main = _thread.get_ident()
        try:
            self._tell()
            yield
        finally:
            self._doing.pop()
            self._tell()

    def of(self, rank: int) -> dict[str, Any] | None:
        """The last sign of another rank."""
        key = f"{self._prefix}/alive/{rank}"
        if not self._store().check([key]):
            return None
        found: dict[str, Any] = json.loads(self._store().get(key).decode())
        return found

    def warn(self, text: str) -> None:
        """Tells the other ranks that there is an error, also those that can't be asked."""
        with contextlib.suppress(RuntimeError, ConnectionError):
            self._store().set(f"{self._prefix}/error", json.dumps([self._rank, text]))

    def end(self) -> None:
        """The process ends, or its process group does."""
        if self._process == os.getpid() and self._ended.locked():
            self._doing = ["ended"]
            with contextlib.suppress(Exception):  # the store may be gone
                self._tell()
            self._ended.release()
            atexit.unregister(self.end)

    def _run(self) -> None:
        while not self._ended.acquire(timeout=_PERIOD):
            if sys.is_finalizing():
                return
            try:
                self._store()  # it may be gone: whoever needs it finds out
                self._tell()
                self._look()
            except Exception:
                return

    def _tell(self) -> None:
        self._count += 1
        doing = self._doing[-1] if self._doing else ""
        where, at = ("", 0) if doing else self._where()
        if (doing, where, at) != self._stood[0]:
            self._stood = (doing, where, at), time.monotonic()
        sign = {
            "count": self._count,
            "doing": doing,
            "where": where,
            "since": time.monotonic() - self._stood[1],
        }
        with contextlib.suppress(RuntimeError, ConnectionError):
            self._store().set(f"{self._prefix}/alive/{self._rank}", json.dumps(sign))

    def _where(self) -> tuple[str, int]:
        """In which communication the program stands, if in any; and a mark of that place."""
        frame: FrameType | None = sys._current_frames().get(self._main)
        own: FrameType | None = None
        found = ""
        mark = 0 if frame is None else id(frame) + frame.f_lasti  # it moves while it computes
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_OURS):
                found = f"in {frame.f_code.co_name}, which was compiled before"
            elif any(part in file for part in _COMMUNICATION):
                found = found or f"in {frame.f_code.co_name} of torch.distributed"
            elif own is None and found:
                own = frame
            frame = frame.f_back
        if own is not None:
            name = own.f_code.co_filename.rpartition("/")[2]
            found = f"{found} ({name}:{own.f_lineno})"
        return found, mark if found else 0

    def _look(self) -> None:
        """Another rank has raised while this one may stand in a collective: it is told why."""
        key = f"{self._prefix}/error"
        if not self._store().check([key]):
            return
        rank, text = json.loads(self._store().get(key).decode())
        if rank != self._rank and text not in self._warned:
            self._warned.add(text)
            if not self._doing and self._where()[0]:
                os.write(
                    2, f"[rank {self._rank}] stator: rank {rank} has raised\n{text}\n".encode()
                )


class Sight:
    """What one rank has seen of another."""

    def __init__(self, now: float) -> None:
        self._seen = now  # when the last new sign came
        self._sign: dict[str, Any] | None = None

    def update(self, sign: dict[str, Any] | None, now: float) -> None:
        """A look at the other."""
        if sign is not None and (self._sign is None or sign["count"] != self._sign["count"]):
            self._seen = now
            self._sign = sign

    @property
    def compiling(self) -> bool:
        """Whether it is about to come, or may be."""
        return self._sign is not None and self._sign["doing"].startswith("compiling")

    @property
    def told(self) -> str:
        """What it does, in words."""
        if self._sign is None:
            return "it has compiled nothing yet"
        return self._sign["doing"] or self._sign["where"] or "it runs"

    def gone(self, now: float) -> str | None:
        """Why it will never come, if that is sure."""
        if self._sign is None:
            return None
        if self._sign["doing"] == "ended":
            return "has ended"
        if now - self._seen > _DEAD:
            what = f" while it was {self._sign['doing']}" if self._sign["doing"] else ""
            return f"has given no sign for {_DEAD:.0f} seconds{what}: it has died"
        return None

    def waits(self, now: float, long: float) -> bool:
        """Whether it will do nothing before another rank does."""
        if self.gone(now) is not None:
            return True
        if self._sign is None or self._sign["since"] < long:
            return False
        return bool(self._sign["where"]) or self._sign["doing"].startswith("waiting")

    def stands(self, now: float, long: float) -> str | None:
        """In which communication it waits for so long already."""
        if self._sign is None or not self._sign["where"]:
            return None
        where: str = self._sign["where"]
        return where if self._sign["since"] >= long else None
