"""What a compile tells the other ranks, if there are any (`stator.distributed.agreement`).

Stage: driver. In: a function that is compiled, and what came of it. Out: nothing, as long as the
ranks fit together; `RankDivergence` if not.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from stator.distributed import agreement
from stator.distributed.digest import EAGER, FAILED, GRAPH, Record, exchanges_of, text_of
from stator.distributed.errors import RankDivergence
from stator.driver.label import Label
from stator.driver.ledger import Recompile
from stator.graph import Recorded

_NOTHING: Final[dict[str, set[int]]] = {}


@contextlib.contextmanager
def compiling(label: Label) -> Iterator[None]:
    """While a call is compiled: the others are to wait for this rank."""
    ranks = agreement.current()
    if ranks is None:
        yield
        return
    with ranks.presence.doing(f"compiling {label}"):
        try:
            yield
        except RankDivergence:
            raise
        except BaseException as error:
            lines = f"{type(error).__name__}: {error}".splitlines()
            number = ranks.number(str(label))
            ranks.note(Record(str(label), number, FAILED, why=lines[0]))
            raise


def captured(
    label: Label, recorded: Recorded | None, sizes: Mapping[str, set[int]], why: Recompile | None
) -> dict[str, set[int]]:
    """A graph was captured; answers with the sizes that any rank has left open."""
    ranks = agreement.current()
    if ranks is None:
        return _NOTHING
    exchanges = {} if recorded is None else exchanges_of(recorded.module)
    record = Record(
        str(label),
        ranks.number(str(label)),
        GRAPH,
        why="" if why is None else " ".join(str(why).split()),
        text=text_of(recorded.module) if recorded is not None and exchanges else "",
        exchanges=exchanges,
        opened={text: sorted(dims) for text, dims in sizes.items()} if exchanges else {},
    )
    if exchanges:
        return ranks.meet(record)
    ranks.note(record)
    return _NOTHING


def runs_eagerly(label: Label, why: str) -> None:
    """A call is not captured: it communicates as the program says."""
    ranks = agreement.current()
    if ranks is not None:
        number = ranks.number(str(label))
        ranks.note(Record(str(label), number, EAGER, why=why.partition("\n")[0]))
