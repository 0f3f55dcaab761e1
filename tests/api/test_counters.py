# mypy: ignore-errors
"""How calls ran, in numbers: no call that ran as it is counts as a hit, or as captured.

Each way in which a call can run is a program here, with the numbers that `stator.counters()`, the
journal, the summary of a run and the report must tell of it.
"""

import gc
import itertools
import os
import subprocess
import sys
import warnings
from collections import Counter

import pytest
import torch
from torch import nn

import stator
from stator.cli.summary import Summary, lines
from stator.diagnostics import journal
from stator.driver import announcements
from stator.driver.tally import TOTALS, Why
from stator.report.data import page_data

X = torch.ones(3)
NAMES = itertools.count(1)
ZERO, NINE = torch.tensor([0]), torch.tensor([9])


def added(x):
    return x + 1


def scaled(x, n):
    return x * n


def split(x):
    x = x * 2
    stator.graph_break()
    return x + 1


def skipped(x):
    stator.skip_frame()
    return x + 1


def branching(x):
    return x + 1 if x.sum() > 0 else x - 1


def handling(x, index):
    x.mul_(1)
    try:
        return x[index] + 1
    except IndexError:
        return x


def indexed(x, index):
    return x[index] + 1


def failing(graph, inputs):
    raise ZeroDivisionError


def made(function, **options):
    """Compiled by a name of its own: the journal counts by name, for the whole process."""
    name = f"run {next(NAMES)}"
    return stator.compile(function, **{"backend": "eager", "name": name, **options})


def hit():
    compiled = made(added)
    for _ in range(3):
        compiled(X)


def broken():
    compiled = made(split)
    for _ in range(3):
        compiled(X)


def eager_path():
    compiled = made(skipped)
    for _ in range(3):
        compiled(X)


def recompiled():
    compiled = made(scaled, dynamic=False)
    for n in (1, 2, 1, 2):
        compiled(X, n)


def at_the_limit():
    compiled = made(scaled, dynamic=False, recompile_limit=1)
    for n in (1, 2, 3, 1):
        compiled(X, n)


def disabled():
    made(added, disable=True)(X)
    stator.disable(made(added))(X)


def forced_eager():
    compiled = made(added)
    with stator.set_stance("force_eager"):
        compiled(X)


def eager_on_recompile():
    compiled = made(added)
    compiled(X)
    with stator.set_stance("eager_on_recompile"):
        compiled(X)
        compiled(X.double())


def eager_then_compile():
    compiled = made(added)
    with stator.set_stance("eager_then_compile"):
        for _ in range(3):
            compiled(X)


def refused_with_a_careful_variant():
    compiled = made(branching)
    for x in (X, X, -X, -X, X):
        compiled(x)


def refused_under_fullgraph():
    compiled = made(branching, fullgraph=True)
    for x in (X, X, -X, -X, X):
        compiled(x)


def refused_and_run_as_it_is():
    compiled = made(handling)
    for index in (ZERO, NINE, NINE, ZERO):
        compiled(X, index)


def raised_later():
    compiled = made(indexed)
    compiled(X, ZERO)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(X, NINE)


def raised_at_once():
    compiled = made(indexed)
    with pytest.raises(IndexError):
        compiled(X, NINE)
    for _ in range(2):
        compiled(X, ZERO)


def suppressed():
    compiled = made(added, backend=failing)
    with stator.config.patch(suppress_errors=True):
        compiled(X)


def failed():
    with pytest.raises(stator.BackendError):
        made(added, backend=failing)(X)


def refused_by_fullgraph():
    with pytest.raises(stator.CaptureError):
        made(split, fullgraph=True)(X)


def shared_by_modules():
    name = f"run {next(NAMES)}"
    first, second = (made(nn.Linear(3, 3), name=name) for _ in range(2))
    for each in (first, second, first, second):
        each(X)


def in_place():
    module = stator.compile_module_(nn.Linear(3, 3), backend="eager", name=f"run {next(NAMES)}")
    for _ in range(3):
        module(X)


def forgotten_on_the_way():
    compiled = made(added)
    compiled(X)
    compiled(X)
    stator.reset_code(added)
    compiled(X)


# calls, hits, captured, why others ran as they are; graphs, places of breaks.
WAYS = {
    hit: (3, 2, 3, {}, 1, 0),
    broken: (3, 2, 3, {}, 2, 1),
    eager_path: (3, 0, 0, {Why.PATH: 3}, 0, 1),
    recompiled: (4, 2, 4, {}, 2, 0),
    at_the_limit: (4, 1, 2, {Why.LIMIT: 2}, 1, 0),
    disabled: (0, 0, 0, {}, 0, 0),
    forced_eager: (0, 0, 0, {}, 0, 0),
    eager_on_recompile: (3, 1, 2, {Why.STANCE: 1}, 1, 0),
    eager_then_compile: (3, 1, 2, {Why.STANCE: 1}, 1, 0),
    refused_with_a_careful_variant: (5, 3, 5, {}, 4, 1),
    refused_under_fullgraph: (5, 3, 5, {}, 4, 1),
    refused_and_run_as_it_is: (4, 1, 2, {Why.REFUSED: 2}, 1, 0),
    raised_later: (3, 0, 1, {Why.RAISED: 2}, 1, 0),
    raised_at_once: (3, 2, 2, {Why.RAISED: 1}, 1, 0),
    suppressed: (1, 0, 0, {Why.SUPPRESSED: 1}, 0, 0),
    failed: (1, 0, 0, {}, 0, 0),
    refused_by_fullgraph: (1, 0, 0, {}, 0, 1),
    shared_by_modules: (4, 3, 4, {}, 1, 0),
    in_place: (3, 2, 3, {}, 1, 0),
    forgotten_on_the_way: (3, 1, 3, {}, 2, 0),
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def way(request):
    stator.reset()
    return request.param


def test_counters(way):
    calls, hits, captured, eager, graphs, breaks = WAYS[way]
    way()
    found = stator.counters()
    assert (found["calls"], found["hits"], found["captured"]) == (calls, hits, captured)
    assert found["eager_reasons"] == {why.value: count for why, count in eager.items()}
    assert found["eager"] == sum(eager.values())
    assert found["hits"] <= found["captured"] <= found["calls"] - found["eager"]
    assert (found["unique_graphs"], found["graph_breaks"]) == (graphs, breaks)
    stator.reset()
    assert not any(stator.counters().values())


def test_the_journal_tells_the_same(way):
    calls, hits, captured, eager, _, _ = WAYS[way]
    heard = []
    stop = journal.listen(heard.append)
    way()
    announcements.ended()
    stop()
    roots = {e["id"] for e in heard if e["kind"] == "function" and e["parent"] is None}
    before = next(e for e in reversed(heard) if e["kind"] == "end")
    rows = [row for row in before["functions"] if row["function"] in roots]
    told = Counter()
    for row in rows:
        told.update({name: row[name] for name in ("calls", "hits", "captured")})
        told.update(row["eager"])
    assert +told == +Counter(
        {"calls": calls, "hits": hits, "captured": captured}
        | {why.value: count for why, count in eager.items()}
    )
    once = [event["why"] for event in heard if event["kind"] == "eager"]
    expected = {why.value: count for why, count in eager.items()}
    expected.pop(Why.PATH.value, None)  # it has an entry
    expected.pop(Why.LIMIT.value, None)  # it has an event of its own
    assert Counter(once) == expected


def test_summary_and_report_tell_the_same(way):
    calls, hits, _, eager, graphs, breaks = WAYS[way]
    heard = []
    stop = journal.listen(heard.append)
    way()
    announcements.ended()
    stop()
    summary = Summary.of(heard)
    assert (summary.hits, summary.hits + summary.misses) == (hits, calls)
    assert +summary.eager_calls == {why.value: count for why, count in eager.items()}
    assert (summary.graphs, len(summary.breaks)) == (graphs, breaks)
    text = "\n".join(lines(summary))
    assert ("ran eagerly" in text) == bool(eager)
    rows = [row for row in page_data(heard)["functions"] if row["parent"] is None]
    assert sum(row["hits"] or 0 for row in rows) == hits
    assert sum(row["calls"] or 0 for row in rows) == calls


def test_explain_tells_of_calls_that_ran_eagerly():
    explain = stator.explain(handling)
    assert explain(X, ZERO).ran_eagerly == ()
    told = explain(X, NINE)
    assert told.result is X
    assert told.ran_eagerly == (Why.REFUSED.value,)
    assert "1 call ran eagerly" in repr(told)
    assert f"1 call ran eagerly: {Why.REFUSED.value}" in str(told)


def test_hits_of_what_is_gone_are_kept():
    stator.reset()
    compiled = made(added, isolate_recompiles=True)
    for _ in range(4):
        compiled(X)
    del compiled
    assert (stator.counters()["calls"], stator.counters()["hits"]) == (4, 3)


def test_a_compiled_function_may_ask():
    @stator.compile(backend="eager")
    def asking(x):
        return x + stator.counters()["compiles"]

    assert asking(X).shape == (3,)


def test_nothing_is_kept_alive():
    stator.reset()
    compiled = made(branching, isolate_recompiles=True)
    compiled(X)
    compiled(-X)
    del compiled
    gc.collect()
    assert TOTALS.runs == TOTALS.gone  # no tally lives: the entries went with the function


def test_a_forked_process_counts_anew():
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork")
    program = (
        "import os, torch, stator\n"
        "f = stator.compile(lambda x: x + 1, backend='eager')\n"
        "for _ in range(3): f(torch.ones(2))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    f(torch.ones(2))\n"
        "    print(stator.counters()['calls'], stator.counters()['hits'], flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(stator.counters()['calls'], stator.counters()['hits'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "1 1\n3 2\n"


class TestTorchsCounters:
    """Under `stator.install()`, `torch._dynamo.utils.counters` counts what stator compiles."""

    @pytest.fixture
    def counters(self):
        stator.reset()
        made(added)(X)  # loads torch._dynamo
        stator.reset()
        found = sys.modules["torch._dynamo.utils"].counters
        found.clear()
        stator.install()
        yield found
        stator.uninstall()
        found.clear()

    def test_filled(self, counters):
        compiled = torch.compile(split, backend="eager")
        compiled(X)
        compiled(X)
        assert counters["stats"] == {"unique_graphs": 2, "calls_captured": 2}
        assert counters["frames"] == {"total": 2, "ok": 2}
        assert counters["graph_break"] == {"the program asks for a graph break": 1}

    def test_failures(self, counters):
        with pytest.raises(stator.CaptureError):
            torch.compile(split, backend="eager", fullgraph=True)(X)
        assert counters["frames"] == {"total": 1}
        assert sum(counters["graph_break"].values()) == 1

    def test_only_while_installed(self, counters):
        stator.uninstall()
        made(added)(X)
        assert not counters["stats"]
        stator.install()
