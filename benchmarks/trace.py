"""How long tracing takes, and what a compiled function keeps in memory.

    python -m benchmarks.trace [--quick] [--json] [--engines torch,stator:compile] [NAME ...]

Tracing time is the CPU time of the first compiled call over eager's, with a backend that does
nothing. Every measurement has a fresh process, in which libraries are imported and the engine has
compiled one tiny model before; the engines take turns. Medians count.

Kept memory is what Python has allocated more after a compilation than before it (the graph is
dropped, it belongs to the backend); the last row is the growth of the process per small function.
"""

import gc
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.runner import (
    DEFAULT_ENGINES,
    arguments,
    in_process,
    parsed,
    print_json,
    problems,
    shown,
    versions,
)
from benchmarks.zoo.case import Case, hf, ids
from benchmarks.zoo.cases import ZOO
from benchmarks.zoo.cases.shared import LLM, labelled, pair, text
from benchmarks.zoo.engines import load
from benchmarks.zoo.measure import error_line, import_libraries, warm_up
from benchmarks.zoo.report import geometric_mean
from stator.cli.timing import PresetBackend

SMALL_FUNCTIONS: Final = 100
SMALL: Final = "small functions"


class Residual(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        out = channels * stride
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Conv2d(channels, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet() -> Case:
    """ResNet-18's layout, narrow."""
    blocks = [Residual(4 << (i // 2) if i % 2 == 0 else 8 << (i // 2), 2 - i % 2) for i in range(6)]
    layers = [nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU(), *blocks]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))
    return Case(model, (torch.randn(2, 3, 16, 16),))


GPT2: Final = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
T5: Final = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
MODELS: Final[Mapping[str, Callable[[], Case]]] = {
    "Bert": ZOO["BertModel"].build,
    "GPT2": hf("GPT2Model", "GPT2Config", GPT2, text, "").build,
    "Llama": hf("LlamaForCausalLM", "LlamaConfig", LLM, labelled, "").build,
    "ResNet": resnet,
    "ViT": ZOO["ViTModel"].build,
    "T5": hf("T5Model", "T5Config", T5, pair, "").build,
}


def cpu_of(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def resident() -> int:
    """Bytes of physical memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def ready(spec: str) -> Any:
    import_libraries()
    engine = load(spec)
    warm_up(engine)
    return engine


def fresh(name: str) -> Case:
    torch.manual_seed(0)
    case = MODELS[name]()
    case.target.eval()
    return case


def traced(spec: str, name: str) -> dict[str, float]:
    """Tracing time and kept memory of one model, in this process."""
    engine = ready(spec)
    with torch.no_grad():
        return {
            "trace_cpu_s": first_call(engine, fresh(name)),
            "kept_bytes": kept_by(engine, fresh(name)),
        }


def first_call(engine: Any, case: Case) -> float:
    """CPU seconds of the first compiled call over those of a warm eager one."""
    for _ in range(2):
        eager = cpu_of(lambda: case.target(*case.args, **case.kwargs))
    backend = PresetBackend()
    fn = engine.compile(case.target, backend=backend, fullgraph=True)
    seconds = cpu_of(lambda: fn(*case.args, **case.kwargs)) - eager
    if backend.graphs != 1:
        raise AssertionError(f"{backend.graphs} graphs")
    return seconds


def kept_by(engine: Any, case: Case) -> int:
    """Python memory that stays when a second instance of a model is compiled and has run."""
    engine.clear()
    backend = PresetBackend()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    fn = engine.compile(case.target, backend=backend, fullgraph=True)
    fn(*case.args, **case.kwargs)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return kept if backend.graphs else 0


def small_function(number: int) -> Any:
    """Each with a code object of its own."""
    space: dict[str, Any] = {}
    exec(f"def fn{number}(x):\n    return (x * {number} + 1).relu()", space)
    return space[f"fn{number}"]


def small_functions(spec: str) -> dict[str, float]:
    """Growth of the process per compiled function, after the first ones have filled caches."""
    engine = ready(spec)
    x = ids(2, 4).float()
    kept = []

    def compile_some(begin: int, count: int) -> None:
        for number in range(begin, begin + count):
            fn = engine.compile(small_function(number), backend=PresetBackend(), fullgraph=True)
            fn(x)
            kept.append(fn)

    with torch.no_grad():
        compile_some(0, 20)
        gc.collect()
        before = resident()
        trace_s = cpu_of(lambda: compile_some(20, SMALL_FUNCTIONS))
        gc.collect()
    grown = resident() - before
    return {"trace_cpu_s": trace_s / SMALL_FUNCTIONS, "kept_bytes": grown / SMALL_FUNCTIONS}


def child(spec: str, name: str) -> dict[str, Any]:
    try:
        return small_functions(spec) if name == SMALL else traced(spec, name)
    except Exception as error:
        return {"failed": error_line(error)}


def measure(name: str, engines: list[str], rounds: int) -> dict[str, Any]:
    """One fresh process per engine and round, in turns."""
    samples: dict[str, list[dict[str, Any]]] = {spec: [] for spec in engines}
    for turn in range(rounds):
        for spec in engines if turn % 2 == 0 else reversed(engines):
            samples[spec].append(in_process("benchmarks.trace", ["--child", spec, name]))
    errors = {
        spec: sample["failed"]
        for spec, got in samples.items()
        for sample in got
        if "failed" in sample
    }
    found = {
        spec: {
            key: statistics.median(sample[key] for sample in got)
            for key in ("trace_cpu_s", "kept_bytes")
        }
        for spec, got in samples.items()
        if spec not in errors
    }
    return {"name": name, "engines": found, "errors": errors}


def value(result: dict[str, Any], spec: str, key: str) -> float | None:
    got = result["engines"].get(spec)
    return None if got is None else float(got[key])


def ratio(result: dict[str, Any], engines: list[str], key: str) -> float | None:
    """Of the last engine to the first; below 1, the last needs less."""
    first, last = value(result, engines[0], key), value(result, engines[-1], key)
    return last / first if first and last else None


def head(engines: list[str]) -> str:
    names = "".join(f"{spec:>17}" for spec in engines)
    seconds = "".join(f"{'ms CPU':>17}" for _ in engines)
    memory = "".join(f"{'KiB kept':>17}" for _ in engines)
    return (
        f"{'model':<16}{names} {'ratio':>8}{names} {'ratio':>8}\n"
        f"{'':<16}{seconds} {'':>8}{memory} {'':>8}"
    )


def row(result: dict[str, Any], engines: list[str]) -> str:
    line = f"{result['name']:<16}"
    for key, scale in (("trace_cpu_s", 1e3), ("kept_bytes", 1 / 1024)):
        line += "".join(f"{shown(value(result, spec, key), scale, 1):>17}" for spec in engines)
        line += f" {shown(ratio(result, engines, key), 1, 3):>8}"
    return line


def main(argv: list[str] | None = None) -> int:
    names = (*MODELS, SMALL)
    parser = arguments("Tracing time and memory.", names)
    parser.add_argument("--engines", default=DEFAULT_ENGINES, help="default: %(default)s")
    options = parsed(parser, names, argv)
    if options.child:
        print(json.dumps(child(options.child, options.names[0])))
        return 0
    engines, rounds = options.engines.split(","), 1 if options.quick else 3
    if not options.json:
        print(f"{versions()}, median of {rounds}\n{head(engines)}")
    results = []
    for name in options.names or names:
        results.append(measure(name, engines, rounds))
        if not options.json:
            print(row(results[-1], engines), flush=True)
    ratios = [ratio(each, engines, "trace_cpu_s") for each in results if each["name"] != SMALL]
    mean = geometric_mean(each for each in ratios if each is not None and each > 0)
    if options.json:
        print_json(models=results, mean_ratio=mean)
    else:
        width = 17 * len(engines)
        print(f"{'geometric mean':<16}{'':{width}} {shown(mean, 1, 3):>8}")
        for line in problems(results):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
