"""Run one case with one engine in this process.

In: an ``Entry``, an ``Engine``. Out: a JSON-able dict for each mode, eval and train:

``status``        full_graph, graph_break, no_graph, mismatch, error, eager_error (ok with --check)
``graphs, ops``   of the first compiled call, ``ops_per_graph``, ``graph_execs``
``breaks``        graphs - 1; ``stats`` has the engine's own count and reasons
``mismatch``      None if the first compiled call agrees with eager
``trace_s``       wall time of the first compiled call over eager's; ``trace_cpu_s`` is CPU time
``coverage``      share of the aten operators of a warm call that ran inside captured graphs
``fullgraph``     whether fullgraph=True works; ``fullgraph_error``, ``fullgraph_mismatch``
"""

import importlib
import logging
import random
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from benchmarks.zoo.case import Case, Entry
from benchmarks.zoo.engines import Engine
from benchmarks.zoo.values import Leaves, difference, flat, has_nan

Result = dict[str, Any]
MARK: Final = "##graph##"
CALLS: Final = frozenset({"call_function", "call_method", "call_module"})


@dataclass(frozen=True)
class Options:
    """What to measure; the same for all cases of a run."""

    eval_only: bool = False
    check: bool = False  # build and run eagerly, nothing else
    quick: bool = False  # first compiled call only: for timing
    coverage: bool = True
    dynamic: bool | None = None


class CountingBackend:
    """Counts graphs and their operators, and runs them as captured."""

    def __init__(self) -> None:
        self.ops: list[int] = []
        self.execs = 0
        self.marking = False

    def __call__(self, graph: Any, example_inputs: Any) -> Callable[..., Any]:
        self.ops.append(sum(node.op in CALLS for node in graph.graph.nodes))
        forward = graph.forward

        def run(*args: Any) -> Any:
            self.execs += 1
            if self.marking:
                with torch.profiler.record_function(MARK):
                    return forward(*args)
            return forward(*args)

        return run


@dataclass(frozen=True)
class Run:
    """One execution: how long, and what came out (gradients included)."""

    wall_s: float
    cpu_s: float
    leaves: Leaves


class Subject:
    """A freshly built case; two of them are equal."""

    def __init__(self, entry: Entry, train: bool) -> None:
        seed(1234)
        self.case: Case = entry.build()
        self.train = train
        module = self.case.target if self.case.module is None else self.case.module
        self.module: nn.Module | None = module if isinstance(module, nn.Module) else None
        if self.module is not None:
            self.module.train(train)

    def compiled(
        self, engine: Engine, backend: CountingBackend, options: Options, fullgraph: bool
    ) -> Callable[..., Any]:
        target, dynamic = self.case.target, options.dynamic
        made: Callable[..., Any] = engine.compile(
            target, backend=backend, fullgraph=fullgraph, dynamic=dynamic
        )
        return made

    def drive(self, fn: Callable[..., Any]) -> Any:
        return self.case.driver(fn, self.case.args, self.case.kwargs)

    def infer(self, fn: Callable[..., Any]) -> Any:
        # A function of the user's decides itself about gradients; a module is run without.
        plain_module = self.module is not None and self.module is self.case.target
        with torch.no_grad() if plain_module else torch.enable_grad():
            return self.drive(fn)

    def run(self, fn: Callable[..., Any]) -> Run:
        seed(7)
        began, cpu_began = time.perf_counter(), time.process_time()
        if self.train:
            leaves = flat(self.drive(fn))
            backward(leaves)
        else:
            leaves = flat(self.infer(fn))
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu_began
        kept = [(path, detached(value)) for path, value in leaves]
        if self.train and self.module is not None:
            for name, parameter in self.module.named_parameters():
                if parameter.grad is not None:
                    kept.append((f"grad:{name}", detached(parameter.grad)))
            self.module.zero_grad(set_to_none=True)
        return Run(wall, cpu, kept)


def seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def backward(leaves: Leaves) -> None:
    loss = sum(
        value.float().pow(2).mean()
        for _, value in leaves
        if isinstance(value, torch.Tensor) and value.requires_grad and value.is_floating_point()
    )
    if isinstance(loss, torch.Tensor):  # else nothing needs gradients
        loss.backward()  # type: ignore[no-untyped-call]


def error_line(error: BaseException) -> str:
    """The type, the first line of the message, and the line that explains it, if there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    starts = ("Explanation:", "Graph break reason", "Unsupported")
    why = next((line for line in lines if line.startswith(starts)), None)
    return f"{type(error).__name__}: {text}{f' | {why}' if why else ''}"[:300]


def failure(status: str, error: BaseException) -> Result:
    return {
        "status": status,
        "error": error_line(error),
        "traceback": "".join(traceback.format_exception(error))[-1500:],
    }


def coverage(subject: Subject, fn: Callable[..., Any], backend: CountingBackend) -> float | None:
    """Of the aten operators that a warm call runs at top level, how many inside graphs."""
    backend.marking = True
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            seed(7)
            subject.infer(fn)
    finally:
        backend.marking = False
    events: list[Any] = [
        event
        for event in profile.events() or ()
        if event.name == MARK or event.name.startswith("aten::")
    ]
    events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
    total = inside = 0
    graph_end = operator_end = -1.0
    for event in events:
        span = event.time_range
        if event.name == MARK:
            graph_end = max(graph_end, span.end)
        elif span.start >= operator_end:  # not called by another operator
            operator_end = span.end
            total += 1
            inside += span.end <= graph_end
    return round(inside / total, 3) if total else None


def has_breaks(result: Result) -> bool:
    """By the engine's own count; without one, more graphs for one call than fullgraph needs."""
    stats = result.get("stats") or {}
    if "graph_breaks" in stats:
        return bool(stats["graph_breaks"] or stats.get("skips"))
    return bool(result["graphs"] > max(1, result.get("fullgraph_graphs", 1)))


def eager(entry: Entry, train: bool, result: Result) -> Run:
    """The reference: a first instance warms up, the second is timed, a third checks the second."""
    subject = Subject(entry, train)
    subject.run(subject.case.target)
    subject = Subject(entry, train)
    reference = subject.run(subject.case.target)
    subject = Subject(entry, train)
    again = subject.run(subject.case.target)
    result["eager_s"] = reference.wall_s
    result["ref_nan"] = has_nan(reference.leaves)
    result["ref_outputs"] = len(reference.leaves)
    same = difference(reference.leaves, again.leaves, entry.rtol, entry.atol)
    result["deterministic"] = same is None
    return reference


def against(reference: Run, run: Run, entry: Entry, result: Result) -> str | None:
    if not result["deterministic"]:
        return None
    return difference(reference.leaves, run.leaves, entry.rtol, entry.atol)


def with_breaks_allowed(
    entry: Entry, engine: Engine, train: bool, options: Options, reference: Run, result: Result
) -> None:
    """fullgraph=False, cold; then a second call, which should not compile again."""
    backend = CountingBackend()
    engine.clear()
    try:
        subject = Subject(entry, train)
        fn = subject.compiled(engine, backend, options, fullgraph=False)
        first = subject.run(fn)
        result["first_s"] = first.wall_s
        result["trace_s"] = first.wall_s - reference.wall_s
        result["trace_cpu_s"] = first.cpu_s - reference.cpu_s
        result |= {
            "graphs": len(backend.ops),
            "ops": sum(backend.ops),
            "ops_per_graph": list(backend.ops),
            "graph_execs": backend.execs,
            "breaks": max(len(backend.ops) - 1, 0),
            "stats": engine.stats(),
            "mismatch": against(reference, first, entry, result),
        }
    except Exception as error:
        result |= failure("error", error)
        result["graphs"] = len(backend.ops)
        result["breaks"] = max(len(backend.ops) - 1, 0)
        result["stats"] = engine.stats()
        return
    if options.quick:
        return
    try:
        graphs = len(backend.ops)
        result["second_s"] = subject.run(fn).wall_s
        result["recompiles_2nd"] = len(backend.ops) - graphs
        if not train and options.coverage:
            result["coverage"] = coverage(subject, fn, backend)
    except Exception as error:
        result["second_error"] = error_line(error)


def with_fullgraph(
    entry: Entry, engine: Engine, train: bool, options: Options, reference: Run, result: Result
) -> None:
    backend = CountingBackend()
    engine.clear()
    try:
        subject = Subject(entry, train)
        run = subject.run(subject.compiled(engine, backend, options, fullgraph=True))
        result["fullgraph"] = True
        result["fullgraph_graphs"] = len(backend.ops)
        result["fullgraph_mismatch"] = against(reference, run, entry, result)
    except Exception as error:
        result["fullgraph"], result["fullgraph_error"] = False, error_line(error)


def status_of(result: Result, quick: bool) -> str:
    if result["mismatch"]:
        return "mismatch"
    if result["graphs"] == 0:
        return "no_graph"
    if not quick and result["fullgraph"] and result.get("fullgraph_mismatch"):
        return "mismatch"
    full = (quick or result["fullgraph"]) and not has_breaks(result)
    return "full_graph" if full else "graph_break"


def measure(entry: Entry, engine: Engine, train: bool, options: Options) -> Result:
    result: Result = {"mode": "train" if train else "eval"}
    try:
        reference = eager(entry, train, result)
    except Exception as error:
        return result | failure("eager_error", error)
    if options.check:
        return result | {"status": "ok"}
    with_breaks_allowed(entry, engine, train, options, reference, result)
    if not options.quick:
        with_fullgraph(entry, engine, train, options, reference, result)
    if "status" not in result:
        result["status"] = status_of(result, options.quick)
    return result


def modes(entry: Entry, options: Options) -> tuple[str, ...]:
    return ("eval", "train") if entry.train and not options.eval_only else ("eval",)


def measure_all(entry: Entry, engine: Engine, options: Options) -> Iterator[Result]:
    """The case's result after each mode, so that a crash in the second loses nothing."""
    whole: Result = {"name": entry.name, "family": entry.family, "tag": entry.tag}
    began = time.time()
    for mode in modes(entry, options):
        try:
            whole[mode] = measure(entry, engine, mode == "train", options)
        except BaseException as error:
            whole[mode] = {"mode": mode} | failure("harness_error", error)
        yield whole | {"wall_s": time.time() - began}


def import_libraries() -> None:
    """What every case needs already imported."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    for name in ("modeling_utils", "cache_utils", "masking_utils"):
        importlib.import_module(f"transformers.{name}")
    importlib.import_module("transformers").logging.set_verbosity_error()


def warm_up(engine: Engine) -> None:
    """Pay the engine's own start-up before anything is measured."""
    tiny = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    fn = engine.compile(tiny, backend=lambda graph, _: graph.forward, fullgraph=False, dynamic=None)
    with torch.no_grad():
        fn(torch.randn(2, 4))
    engine.clear()
