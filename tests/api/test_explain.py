"""`stator.explain`: what it tells, and what it leaves alone."""

import gc
import html
import re
import time
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.testing import compilations, count

from .tools import Block, Recording

X = torch.arange(4.0)


def helper(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    time.sleep(0)
    return y + 1


def nested(x: torch.Tensor) -> torch.Tensor:
    x = helper(x * 2)
    return x.relu()


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def signed(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


class TestWhatItTells:
    def test_one_graph(self) -> None:
        told = stator.explain(scaled)(X, 3)
        assert torch.equal(told.result, X * 3)
        assert (told.graph_count, told.break_count, told.op_count) == (1, 0, 1)
        (graph,) = told.graphs
        assert graph.operators == ("mul",)
        assert "x * 3" in (graph.code or "")
        assert "n: 3" in graph.guards
        assert any(guard.startswith("x: Tensor(4) of torch.float32") for guard in graph.guards)
        assert not (told.breaks or told.eager or told.recompiles)
        assert 0 < graph.trace_seconds < 60
        assert 0 < graph.backend_seconds < 60

    def test_values_for_which_a_graph_is_wrong(self) -> None:
        """What is compiled where a graph has taken too much for granted is told as well."""
        explained = stator.explain(signed)
        assert explained(X).break_count == 0
        told = explained(-X)
        assert torch.equal(told.result, -X - 1)
        assert (told.break_count, [each.id for each in told.careful_breaks]) == (0, ["SB0013"])
        assert [part.careful for part in told.parts] == [False, True, True]
        assert [part.resumed for part in told.parts] == [False, False, True]
        assert told.ops_per_graph == (("sum", "gt", "ne", "mul"), ("sum", "gt"), ("sub",))

    def test_graphs_come_in_the_order_of_the_program(self) -> None:
        told = stator.explain(nested)(X)
        assert torch.equal(told.result, nested(X))
        assert told.ops_per_graph == (("mul", "sin"), ("add", "relu"))

    def test_breaks(self) -> None:
        (found,) = stator.explain(nested)(X).breaks
        assert found.reason.startswith("time.sleep ")
        assert [place.function for place in found.stack] == ["nested", "helper"]
        assert found.place is not None
        assert found.place.file == __file__
        assert found.line == "time.sleep(0)"

    def test_a_break_in_a_loop_is_one(self) -> None:
        def loop(x: torch.Tensor) -> torch.Tensor:
            for _ in range(5):
                x = x + 1
                time.sleep(0)
            return x

        told = stator.explain(loop)(X)
        assert torch.equal(told.result, X + 5)
        assert [each.line for each in told.breaks].count("time.sleep(0)") == 1

    def test_what_runs_eagerly(self) -> None:
        def skips(x: torch.Tensor) -> torch.Tensor:
            stator.skip_frame("not worth it")
            return x + 1

        told = stator.explain(skips)(X)
        assert told.graphs == ()
        (part,) = told.eager
        assert part.eager == "the program asks not to be captured: not worth it"
        assert "not captured" in str(told)
        assert "1 part not captured" in repr(told)

    def test_recompiles(self) -> None:
        ask = stator.explain(scaled)
        assert ask(X, 2).recompiles == ()
        assert ask(X, 2).graph_count == 1
        told = ask(X, 3)
        assert told.graph_count == 2
        (why,) = told.recompiles
        assert "n: expected 2, got 3" in why

    def test_text(self) -> None:
        text = str(stator.explain(nested)(X))
        for wanted in (
            "nested (",
            "2 graphs, 1 graph break, 4 operators",
            "graph 1: nested",
            "2 operators: mul, sin",
            "break: time.sleep",
            "in helper\n",
            "time.sleep(0)",
            "called from ",
            "graph 2: nested, resumed in helper",
            "x: Tensor(4) of torch.float32 on cpu",
        ):
            assert wanted in text
        assert all(line == line.rstrip() for line in text.splitlines())

    def test_guards_that_every_program_has_are_counted(self) -> None:
        told = stator.explain(Block())(torch.ones(2, 4))
        (guards,) = told.guards
        shown = str(told).partition("\nguards\n")[2].splitlines()[1:]
        assert len(shown) < 40 < len(guards)
        assert not any("no attribute" in line for line in shown)
        counted = [re.fullmatch(r"    (?:… )?(\d+) (about .*|more …)", line) for line in shown]
        single = counted.count(None)
        assert single + sum(int(each[1]) for each in counted if each) == len(guards)
        assert re.search(r"^    \d+ about attributes that are not there$", str(told), re.MULTILINE)
        assert "args[0]: Tensor(2, 4) of torch.float32 on cpu" in str(told)
        everything = told.text(guards=True).partition("\nguards\n")[2].splitlines()[1:]
        assert [line.strip() for line in everything] == list(guards)

    def test_the_code_of_graphs_is_shown(self) -> None:
        told = stator.explain(nested)(X)
        assert "    def forward(self, x : torch.Tensor):" in str(told)
        assert "= None" not in str(told)
        long = stator.explain(many_operators)(X)
        assert re.search(r"^    … \d+ more lines …$", str(long), re.MULTILINE)

    def test_in_a_notebook(self) -> None:
        told = stator.explain(nested, name="<nested>")(X)
        shown = told._repr_html_()
        assert "&lt;nested&gt;" in shown
        assert "<nested>" not in shown
        text = re.sub(r"<summary>guards</summary>|<[^>]*>", "", shown)
        assert html.unescape(text).split() == str(told).replace("\nguards\n", "\n").split()
        assert shown.count("<details>") == 1  # the guards

    def test_repr_is_one_line(self) -> None:
        told = stator.explain(scaled, name="times")(X, 2)
        assert repr(told).startswith("<Explanation of times (")
        assert repr(told).endswith(": 1 graph, 0 graph breaks, 1 operator>")
        assert "\n" not in repr(told)


def many_operators(x: torch.Tensor) -> torch.Tensor:
    for _ in range(100):
        x = x.sin()
    return x


class TestWhatCanBeExplained:
    def test_method(self) -> None:
        class Holder:
            def __init__(self) -> None:
                self.calls = 0

            def method(self, x: torch.Tensor) -> torch.Tensor:
                self.calls += 1
                return x + self.calls

        holder = Holder()
        told = stator.explain(holder.method)(X)
        assert holder.calls == 1  # once, as in any call
        assert torch.equal(told.result, X + 1)
        assert told.graph_count == 1

    def test_module(self) -> None:
        block = Block()
        told = stator.explain(block)(torch.ones(2, 4))
        assert torch.equal(told.result, block(torch.ones(2, 4)))
        assert told.name.startswith("Block (")
        assert told.ops_per_graph == (("linear", "relu", "mul", "mul", "add"),)

    def test_compiled_module(self) -> None:
        backend = Recording()
        block = stator.compile(Block(), backend=backend)
        assert stator.explain(block)(torch.ones(2, 4)).graph_count == 1
        assert backend.graphs == []

    def test_other_callables(self) -> None:
        assert stator.explain(torch.neg)(X).ops_per_graph == (("neg",),)

    def test_refusals(self) -> None:
        wrong: list[Any] = [3, Block, staticmethod(scaled)]
        for each in wrong:
            with pytest.raises(TypeError, match=r"explain\(\) needs a function"):
                stator.explain(each)
        with pytest.raises(TypeError, match=r"explain\(\) has no option 'disable'"):
            stator.explain(scaled, disable=True)
        with pytest.raises(stator.UnknownBackendError):
            stator.explain(scaled, backend="indcutor")


class TestWhatItLeavesAlone:
    def test_other_wrappers(self) -> None:
        backend = Recording()
        mine = stator.compile(nested, backend=backend)
        mine(X)
        graphs, before = list(backend.graphs), compilations(mine)
        told = stator.explain(nested, backend=backend)(X)
        assert told.graph_count == 2  # not served by what was compiled
        assert len(backend.graphs) == len(graphs) + 2
        mine(X)
        assert compilations(mine) == before
        assert count(mine) == (1, 1)

    def test_limits(self) -> None:
        mine = stator.compile(scaled, backend="eager")
        with stator.config.patch(accumulated_recompile_limit=2), warnings.catch_warnings():
            warnings.simplefilter("error")
            mine(X, 0)
            for n in range(5):
                stator.explain(scaled)(X, n)
            mine(X, 1)
        assert count(mine).compiles == 2

    def test_a_compiled_function_inside(self) -> None:
        backend = Recording()
        inner = stator.compile(scaled, backend=backend)

        def outer(x: torch.Tensor) -> torch.Tensor:
            return inner(x + 1, 2)

        told = stator.explain(outer)(X)
        assert told.ops_per_graph == (("add", "mul"),)
        assert backend.graphs == []

    def test_the_programs_errors(self) -> None:
        def fails(x: torch.Tensor) -> torch.Tensor:
            raise KeyError("gone")

        with pytest.raises(KeyError, match="gone"):
            stator.explain(fails)(X)

    def test_fullgraph(self) -> None:
        with pytest.raises(stator.CaptureError, match=r"time\.sleep"):
            stator.explain(nested, fullgraph=True)(X)

    def test_nothing_is_kept_alive(self) -> None:
        module = nn.Linear(4, 4)
        told = stator.explain(module)(torch.ones(2, 4))
        reference = weakref.ref(module)
        del module
        gc.collect()
        assert reference() is None
        assert told.graph_count == 1
