"""Results of runs as files.

A run is a dict: what was measured (engine, versions, totals, reasons) and ``results``, one dict
per case with a dict per mode (see ``measure``). A file holds one run, or several under ``runs``.
"""

import json
import os
import platform
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.zoo.measure import Result

Run = dict[str, Any]
MODES: Final = ("eval", "train")
# What a comparison needs; the rest is for finding out why.
KEPT: Final = (
    "status",
    "graphs",
    "ops",
    "breaks",
    "fullgraph",
    "coverage",
    "trace_cpu_s",
    "deterministic",
    "error",
    "mismatch",
    "fullgraph_error",
    "fullgraph_mismatch",
)


def new_run(engine: str, settings: Iterable[str], label: str) -> Run:
    return {
        "engine": engine,
        "settings": list(settings),
        "label": label,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "when": time.strftime("%F %T"),
        "results": [],
    }


def load(path: str) -> list[Run]:
    document = json.loads(Path(path).read_text())
    runs: list[Run] = document.get("runs") or [document]
    return runs


def failed_in(path: str, engines: Iterable[str]) -> set[str]:
    """Cases that are not one full graph in every mode.

    Of the runs in a file, those of the given engines count; if there are none, the last one.
    """
    runs = load(path)
    wanted = [run for run in runs if run["engine"] in set(engines)] or runs[-1:]
    return {
        result["name"]
        for run in wanted
        for result in run["results"]
        if any(part["status"] not in ("full_graph", "ok") for _, part in parts(result))
    }


def parts(result: Result) -> Iterator[tuple[str, Result]]:
    """(mode, its dict) for the modes that were measured."""
    for mode in MODES:
        if result.get(mode):
            yield mode, result[mode]


def compacted(run: Run) -> Run:
    results = []
    for result in run["results"]:
        short = {key: result[key] for key in ("name", "family", "tag")}
        for mode, part in parts(result):
            short[mode] = {key: part[key] for key in KEPT if part.get(key) is not None}
            if "trace_cpu_s" in part:
                short[mode]["trace_cpu_s"] = round(part["trace_cpu_s"], 4)
            stats = part.get("stats") or {}
            counts = {key: stats[key] for key in ("graph_breaks", "skips") if key in stats}
            if counts:
                short[mode]["stats"] = counts
        results.append(short)
    head = {key: value for key, value in run.items() if key not in ("results", "top_reasons")}
    return head | {"results": results}


def to_text(runs: list[Run]) -> str:
    """JSON with one line per case, so that two files can be compared as text."""

    def one(run: Run) -> str:
        head = json.dumps(run | {"results": None})
        lines = ",\n".join(json.dumps(result) for result in run["results"])
        return head.replace('"results": null', f'"results": [\n{lines}\n]')

    if len(runs) == 1:
        return one(runs[0]) + "\n"
    return '{"runs": [\n' + ",\n".join(map(one, runs)) + "\n]}\n"


def save(path: str, runs: list[Run], compact: bool) -> None:
    """All or nothing: a reader never sees half a file."""
    text = to_text([compacted(run) for run in runs] if compact else runs)
    temporary = Path(f"{path}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)
