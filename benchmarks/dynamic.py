"""Models whose batch and length change: how often are they compiled, and is the result right?

    python -m benchmarks.dynamic [--only A,B] [--engines stator:compile,torch] [--out FILE]

Each model is called on six shapes, compiled with `dynamic=True` and with `dynamic=None`, each in a
process of its own with a time limit. In a row: how many graphs the backend was given for the six
calls, `+break` if the model is no full graph, the CPU time of the first call with `dynamic=True`,
and that over the time of the first call with `dynamic=False`. The goal is two graphs at most, no
break, and the results of eager.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from benchmarks.zoo.cases import ZOO
from benchmarks.zoo.engines import Engine, load
from benchmarks.zoo.measure import error_line, import_libraries, seed, warm_up
from benchmarks.zoo.server import die_with_parent, in_child
from benchmarks.zoo.values import difference, flat
from benchmarks.zoo_shapes import MODELS, SHAPES, Given, Model

Result = dict[str, Any]
MODES: Final[dict[str, bool | None]] = {"true": True, "none": None}
MOST: Final = 2  # graphs that a model may need


class Counting:
    """A backend that counts graphs and leaves them to another one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.graphs = 0

    def __call__(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs += 1
        if self._name == "eager":
            forward: Callable[..., Any] = module.forward
            return forward
        # The same for each engine: what an engine adds to its own backends is not the question.
        from stator.backends import lookup  # noqa: PLC0415 - stator only where it is needed

        made: Callable[..., Any] = lookup(self._name)(module, inputs)
        return made


# ---------------------------------------------------------------- one model, in this process


def built(name: str) -> nn.Module:
    seed(1234)
    target = ZOO[name].build().target
    assert isinstance(target, nn.Module)
    return target.eval()


def called(run: Callable[..., Any], given: Given) -> Any:
    args, kwargs = given
    seed(7)
    with torch.no_grad():
        return flat(run(*args, **kwargs))


def inputs(model: Model, shape: tuple[int, int]) -> Given:
    seed(11)
    return model.inputs(*shape)


def first_call(engine: Engine, model: Model, dynamic: bool | None) -> float:
    """CPU seconds of the first call."""
    engine.clear()
    target = built(model.name)
    run = engine.compile(target, backend=Counting("eager"), fullgraph=False, dynamic=dynamic)
    given = inputs(model, SHAPES[0])
    called(target, given)
    began = time.process_time()
    called(run, given)
    return time.process_time() - began


def measured(engine: Engine, model: Model, dynamic: bool | None, fullgraph: bool) -> Result:
    """All shapes; what is wrong ends the run."""
    engine.clear()
    entry = ZOO[model.name]
    eager, target = built(model.name), built(model.name)
    counting = Counting(model.backend)
    run = engine.compile(target, backend=counting, fullgraph=fullgraph, dynamic=dynamic)
    result: Result = {"graphs": [], "seconds": 0.0}
    for shape in SHAPES:
        expected = called(eager, inputs(model, shape))
        began = time.process_time()
        try:
            actual = called(run, inputs(model, shape))
        except Exception as error:
            return result | {"error": f"{shape}: {error_line(error)}"}
        finally:
            result["seconds"] += time.process_time() - began
            result["graphs"].append(counting.graphs)
        if problem := difference(expected, actual, entry.rtol, entry.atol):
            return result | {"mismatch": f"{shape}: {problem}"}
    return result


def measure(engine: Engine, model: Model) -> Iterator[Result]:
    """The result after each mode, so that what hangs loses nothing else."""
    whole: Result = {"name": model.name, "backend": model.backend}
    try:
        for mode, dynamic in MODES.items():
            result = measured(engine, model, dynamic, fullgraph=True)
            if "error" in result:
                split = measured(engine, model, dynamic, fullgraph=False)
                result = split | {"broken": result["error"]}
            whole[mode] = result
            yield whole
        for mode, dynamic in (("true", True), ("false", False)):
            whole[f"first_{mode}"] = first_call(engine, model, dynamic)
    except Exception as error:
        whole["failed"] = error_line(error)
    yield whole


# ---------------------------------------------------------------- processes


def isolated(engine: Engine, model: Model, limit_s: float) -> Result:
    """What a child measures, as far as it comes."""
    ended = in_child(lambda: measure(engine, model), limit_s)
    found = ended.last or {"name": model.name, "backend": model.backend}
    return found | ({"failed": ended.how} if ended.status else {})


def work(spec: str, names: Iterable[str], limit_s: float, backend: str) -> None:
    """One engine's process: a line of JSON for each model."""
    die_with_parent()
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # libraries print
        import_libraries()
        engine = load(spec)
        warm_up(engine)
        for name in names:
            model = MODELS[name]
            if backend:
                model = model._replace(backend=backend)
            print(json.dumps(isolated(engine, model, limit_s)), file=out, flush=True)


def results(spec: str, names: Sequence[str], options: Any) -> Iterator[Result]:
    command = [sys.executable, "-m", "benchmarks.dynamic", "--work", spec, "--only"]
    command += [",".join(names), "--timeout", str(options.timeout), "--backend", options.backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)


# ---------------------------------------------------------------- the table


def cell(result: Result | None) -> str:
    if result is None:
        return "-"
    text = str(result["graphs"][-1])
    if "broken" in result:
        text += "+break"
    if "error" in result:
        text += "+error"
    return text + ("+WRONG" if "mismatch" in result else "")


def is_good(result: Result | None) -> bool:
    """At most two graphs, no break, right on all shapes."""
    return cell(result) in map(str, range(1, MOST + 1))


def problem(result: Result) -> str:
    if "failed" in result:
        return str(result["failed"])
    for mode in MODES:
        part = result.get(mode, {})
        for kind in ("mismatch", "error", "broken"):
            if kind in part:
                return f"{mode}: {part[kind]}"
    return ""


def ratio(result: Result) -> str:
    if "first_false" not in result:
        return "-"
    return f"{result['first_true'] / result['first_false']:.1f}x"


def row(result: Result) -> str:
    modes = [result.get(mode) for mode in MODES]
    seconds = f"{result['first_true']:6.2f}" if "first_true" in result else "     -"
    cells = " ".join(f"{cell(mode):12}" for mode in modes)
    name = f"{result['name']:32} {result.get('backend', ''):9}"
    return f"{name} {cells} {seconds} {ratio(result):>6}  {problem(result)[:150]}"


def report(spec: str, found: Sequence[Result]) -> list[str]:
    good = {mode: sum(is_good(each.get(mode)) for each in found) for mode in MODES}
    counts = {
        mode: sum(each[mode]["graphs"][-1] for each in found if mode in each) for mode in MODES
    }
    parts = [f"dynamic={mode}: {good[mode]} good, {counts[mode]} graphs" for mode in MODES]
    return [f"{spec}: {len(found)} models; {'; '.join(parts)}"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--engines", default="stator:compile,torch")
    add("--only", default="", metavar="A,B", help="models whose name contains one of these")
    add("--backend", default="", help="for all models, instead of the table's")
    add("--timeout", type=float, default=240.0, metavar="S", help="for one model and engine")
    add("--out", default="", metavar="FILE", help="results as JSON")
    add("--work", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    words = [word for word in options.only.split(",") if word]
    names = [name for name in MODELS if not words or any(word in name for word in words)]
    if options.work:
        work(options.work, names, options.timeout, options.backend)
        return 0
    everything: dict[str, list[Result]] = {}
    for spec in options.engines.split(","):
        print(f"\n==== {spec}: {'model':23} backend   true         none        first s  ratio")
        found = everything[spec] = []
        for result in results(spec, names, options):
            found.append(result)
            print(row(result), flush=True)
            if options.out:
                Path(options.out).write_text(json.dumps(everything, indent=1))
    print()
    for spec, found in everything.items():
        for line in report(spec, found):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
