"""Ranks agree: before a graph with new collectives runs, they tell each other what is in it.

In: the `Record` of a graph. Out: nothing, if all ranks that take part have a graph that
communicates alike; `RankDivergence` on each of them if not. They meet at the store by which the
process group was made, never in the group itself: what the program sends there is not touched.

A rank that has agreed on the same collectives for the same function before does not wait again: it
may compile another variant alone, for another size or flag, as long as it communicates as before.
Nothing happens in calls of what is compiled.

Each rank that has compiled anything tells once a second that it lives, what it does and where it
is (`presence.py`). So the others know of one that has died, has raised, has ended, or stands in a
collective to which they will not come.
"""

import os
import time
import weakref
from collections import Counter
from typing import Any, Final

from stator import config
from stator.distributed.digest import EAGER, FAILED, GRAPH, Record, difference, told
from stator.distributed.errors import RankDivergence
from stator.distributed.presence import Presence, Sight
from stator.torchlib import distributed

_POLL: Final = 0.01  # seconds
_SLOWEST_POLL: Final = 0.2
_LOOK: Final = 0.5  # how often a rank that waits looks what the others do
_GRACE: Final = 5.0  # for a rank that has come elsewhere: it may still come


class Agreement:
    """The ranks of one default process group."""

    def __init__(self, group: Any, epoch: int) -> None:
        self.group = weakref.ref(group)
        self.rank: int = group.rank()
        self.size: int = group.size()
        self._prefix = f"stator/{epoch}"
        self._counts: Counter[str] = Counter()  # meetings, by group
        self._ordinals: Counter[str] = Counter()  # compiles, by function
        self._agreed: set[Any] = set()
        self.presence = Presence(self._store, self._prefix, self.rank)
        self.process = os.getpid()

    # ------------------------------------------------------------------ what a rank tells

    def number(self, label: str) -> int:
        """Which compile of the function this is, on this rank."""
        self._ordinals[label] += 1
        return self._ordinals[label]

    def note(self, record: Record) -> None:
        """Tells what this rank has made of a call, for those who wait for it."""
        self._call("set", f"{self._prefix}/last/{self.rank}", record.written())

    def meet(self, record: Record) -> dict[str, set[int]]:
        """Waits for the others; answers with the sizes that any of them has left open."""
        self.note(record)
        opened: dict[str, set[int]] = {}
        for group in sorted(record.exchanges):
            key = (record.label, group, tuple(each.mark for each in record.exchanges[group]))
            if not group or key in self._agreed:
                continue
            for each in self._meet(record, group).values():
                for source, dims in each.opened.items():
                    opened.setdefault(source, set()).update(dims)
            self._agreed.add(key)
        return opened

    # ------------------------------------------------------------------ a meeting

    def _meet(self, record: Record, group: str) -> dict[int, Record]:
        members = [int(each) for each in group.split(",")]
        self._counts[group] += 1
        place = f"{self._prefix}/meet/{group}/{self._counts[group]}"
        self._call("set", f"{place}/{self.rank}", record.written())
        found = {self.rank: record}
        waiting = [each for each in members if each != self.rank]
        with self.presence.doing(f"waiting for the others at {record.label}"):
            self._gather(record, group, place, waiting, found)
        text = difference(found, group)
        if text is not None:
            what = f"{record.label}: the ranks have captured different programs"
            self._raise(f"{what}\n{text}", members)
        return found

    def _gather(
        self, record: Record, group: str, place: str, waiting: list[int], found: dict[int, Record]
    ) -> None:
        """Until each of them is there, or it is clear that one will not come."""
        began = looked = time.monotonic()
        sights: dict[int, Sight] = {}
        poll = _POLL
        while waiting:
            for other in list(waiting):
                text = self._get(f"{place}/{other}")
                if text is not None:
                    found[other] = Record.read(text)
                    waiting.remove(other)
            if difference(found, group) is not None:
                return  # there is no need for the others
            error = self._get(f"{place}/error")
            if error is not None:
                raise RankDivergence(error, tuple(waiting))
            now = time.monotonic()
            if waiting and now - looked >= _LOOK:
                looked = now
                for other in range(self.size):
                    if other != self.rank:
                        sights.setdefault(other, Sight(now)).update(self.presence.of(other), now)
                self._judge(record, place, waiting, sights, now - began)
            time.sleep(poll)
            poll = min(poll * 1.2, _SLOWEST_POLL)

    def _judge(
        self,
        record: Record,
        place: str,
        waiting: list[int],
        sights: dict[int, Sight],
        waited: float,
    ) -> None:
        """Whether one that is waited for will not come."""
        now = time.monotonic()
        for other in list(waiting):
            sight = sights[other]
            last = self._get(f"{self._prefix}/last/{other}")
            theirs = None if last is None else Record.read(last)
            same = theirs is not None and theirs.label == record.label
            late = same and theirs is not None and theirs.ordinal >= record.ordinal
            if theirs is not None and late and theirs.kind == EAGER:
                waiting.remove(other)  # it communicates as the program says
                continue
            why = sight.gone(now)
            if why is None and theirs is not None and late and theirs.kind == FAILED:
                why = f"could not compile it: {theirs.why}"
            if why is None and any(each.compiling for each in sights.values()):
                continue  # there is reason to wait
            # One that runs may come yet, and so may one that waits for it.
            waits = all(each.waits(now, _GRACE) for each in sights.values())
            if why is None and waits and waited > _GRACE:
                if theirs is not None and late and theirs.kind == GRAPH:
                    here = [each for found in theirs.exchanges.values() for each in found]
                    shown = "".join(f"\n    {each}" for each in here) or " none"
                    why = f"has compiled it with other collectives:{shown}"
                elif (where := sight.stands(now, _GRACE)) is not None:
                    why = f"is {where}, and does not compile it again"
            if why is None and waits:
                why = f"is elsewhere: {sight.told}"
            if why is None and waited > config.rank_timeout:
                why = f"has not come for {config.rank_timeout} seconds ({sight.told})"
            if why is not None:
                mine = "".join(
                    f"\n    {each}" for found in record.exchanges.values() for each in found
                )
                text = (
                    f"{record.label}: rank {self.rank} has captured collectives in which rank "
                    f"{other} would not take part\n  rank {other} {why}\n  rank {self.rank} has "
                    f"compiled it{told(record)}:{mine}"
                )
                self._call("set", f"{place}/error", text)
                self._raise(text, [other])

    def _raise(self, text: str, ranks: list[int]) -> None:
        self.presence.warn(text)
        raise RankDivergence(text, tuple(ranks))

    # ------------------------------------------------------------------ the store

    def _get(self, key: str) -> str | None:
        if not self._call("check", [key]):
            return None
        found: bytes = self._call("get", key)
        return found.decode()

    def _call(self, method: str, *args: Any) -> Any:
        """The process that holds the store may have died."""
        try:
            return getattr(self._store(), method)(*args)
        except (RuntimeError, ConnectionError) as error:
            text = "the store of the process group does not answer: a rank has ended, or has died"
            raise RankDivergence(text) from error

    def _store(self) -> Any:
        """Asked for each time: it must not live longer than the process group."""
        store = distributed.store_between_processes(self.group())
        if store is None:
            raise ConnectionError("the process group was destroyed")
        return store


# ---------------------------------------------------------------------- for the driver

_epochs: Final[list[Any]] = []  # weak references to the default groups that were
_current: Agreement | None = None
_none: Any = None  # the group with which nobody can agree


def current() -> Agreement | None:
    """How ranks agree, if there are several, and it is wanted."""
    global _current, _none
    if not config.check_ranks:
        return None
    group = distributed.default_group()
    if group is None or (_none is not None and _none() is group):
        return None
    if _current is not None and _current.group() is group:
        return _current if _current.process == os.getpid() else None
    if _current is not None:
        _current.presence.end()
    _epochs.append(weakref.ref(group))
    if group.size() == 1 or distributed.store_between_processes(group) is None:
        _none = weakref.ref(group)
        return None
    _current = Agreement(group, len(_epochs))
    return _current
