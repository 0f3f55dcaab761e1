"""The processes of one run: what each of them tells comes together where the summary is shown.

In: events, in the process that runs the program, in those that it starts through `multiprocessing`
or `os.fork`, and under torchrun in the other ranks of this machine. Out: all of them, in one
process: the first, and of several ranks the one with local rank 0. The others leave them in a
folder. Loads no torch.
"""

import json
import multiprocessing.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stator.diagnostics import journal
from stator.diagnostics.journal import Event, TraceFile

_STORY: Final = "stator.driver.story"
_PATIENCE: Final = 10.0  # seconds for which the first rank waits for the others
_LITTLE_PATIENCE: Final = 1.0  # if the user has interrupted it


class Elsewhere:
    """A listener in a process that does not show the summary: it writes, if there is something."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._file: TraceFile | None = None

    def __call__(self, event: Event) -> None:
        if self._file is None:
            if event["kind"] == "end":
                return  # of a process that has compiled nothing, such as one that loads data
            self._file = TraceFile(self.folder)
        self._file(event)


class Together:
    """A listener that has the events of this process, and finds those of its children."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._events: list[Event] = []
        self._elsewhere = Elsewhere(tempfile.mkdtemp(prefix="stator-run-"))
        multiprocessing.util.register_after_fork(self, _end_with_the_process)

    @property
    def folder(self) -> str:
        """Where children leave what they have to tell."""
        return self._elsewhere.folder

    def __call__(self, event: Event) -> None:
        if os.getpid() == self._process:
            self._events.append(event)
        else:
            self._elsewhere(event)

    def is_here(self) -> bool:
        """Whether this is the process that runs the program, and none that it has forked."""
        return os.getpid() == self._process

    def all(self) -> list[Event]:
        """What was told, by this process and its children. Only once."""
        found = [journal.header(), *self._events]
        with suppress(journal.TraceError):  # there is none, or one that was cut short
            found += journal.read(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        return found


def _end_with_the_process(together: Together) -> None:
    """For a process that `multiprocessing` has forked, which ends without `atexit`."""
    multiprocessing.util.Finalize(None, tell_the_end, exitpriority=-1000)


def tell_the_end() -> None:
    """How often what was compiled was used, in a process that was forked."""
    story: Any = sys.modules.get(_STORY)
    if story is not None and journal.on():
        story.ended()


def listen_in_child(folder: str) -> Callable[[], None]:
    """For a process that was spawned: it writes into the folder of the one that shows."""
    return journal.listen(Elsewhere(folder))


# ---------------------------------------------------------------------- ranks


@dataclass(frozen=True)
class Ranks:
    """The processes that torchrun has started on this machine, each of which is a `stator run`."""

    folder: Path
    rank: int
    count: int

    @classmethod
    def of_environment(cls) -> "Ranks | None":
        """As torchrun says; None if this is not one of several ranks."""
        try:
            rank, count = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
            run = os.environ["TORCHELASTIC_RUN_ID"]
        except (KeyError, ValueError):
            return None
        if count < 2:
            return None
        again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        words = "".join(letter for letter in f"{run}-{again}" if letter.isalnum() or letter == "-")
        name = f"stator-ranks-{os.getuid()}-{os.getppid()}-{words}"
        return cls(Path(tempfile.gettempdir()) / name, rank, count)

    @property
    def shows(self) -> bool:
        """Whether this rank is the one that shows the summary, for all of them."""
        return self.rank == 0

    def leave(self, events: list[Event]) -> None:
        """Hands the events of this rank to the one that shows them."""
        if not self._own_folder():
            return
        text = "".join(f"{json.dumps(event, default=str)}\n" for event in events)
        unfinished = self.folder / f"rank-{self.rank}.part"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.rename(self._file(self.rank))

    def others(self, *, hurry: bool = False) -> tuple[list[Event], int]:
        """The events of the other ranks, and of how many of them there are none."""
        until = time.monotonic() + (_LITTLE_PATIENCE if hurry else _PATIENCE)
        waiting = set(range(1, self.count))
        found: list[Event] = []
        if not self._own_folder():
            return found, len(waiting)
        while True:
            for rank in [each for each in waiting if self._file(each).exists()]:
                lines = self._file(rank).read_text(encoding="utf-8").splitlines()
                found += map(json.loads, lines)
                waiting.discard(rank)
            if not waiting or time.monotonic() >= until:
                break
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)
        return found, len(waiting)

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}.jsonl"

    def _own_folder(self) -> bool:
        """Whether there is a folder, which is nobody else's."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            return self.folder.lstat().st_uid == os.getuid() and not self.folder.is_symlink()
        return False
