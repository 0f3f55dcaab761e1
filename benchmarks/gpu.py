"""What a user gets on a GPU: time per call, next to torch.compile and to the GPU's own time.

    python -m benchmarks.gpu [--rounds 7] [--json] [--engines eager,torch,...] [NAME ...]

Each case has its own process, in which all engines take turns on models with the same weights.
"limit" is the time of the GPU alone: the kernels of the graph that Inductor compiled, recorded as
one CUDA graph and started again and again. A training step is forward, backward, clipping and the
optimizer; "whole" engines compile all of it as one function. The program keeps its last result,
as loops do that keep a loss or logits. Times are those between the calls' begins, with a
synchronization at the end of each round: whichever is slower, host or GPU.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.zoo.case import library
from benchmarks.zoo.engines import load

MODES: Final = {
    "eager": None,
    "torch": ("torch", {}),
    "torch-ro": ("torch", {"mode": "reduce-overhead"}),
    "stator": ("stator", {}),
    "stator-ro": ("stator", {"mode": "reduce-overhead"}),
    "stator-cg": ("stator", {"backend": "cudagraphs"}),
}
WHOLE: Final = "-whole"
LIMIT: Final = "limit"


# ---------------------------------------------------------------------- models


class Block(nn.Module):
    """A layer of a decoder in GPT's form."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        made: Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return made


class GPT(nn.Module):
    """Tokens to a loss."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))[:, :-1]
        loss: Tensor = functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        return loss


def bert(layers: int, width: int, heads: int) -> nn.Module:
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }
    model: nn.Module = library("transformers", "BertModel")(
        library("transformers", "BertConfig")(**sizes)
    )
    return model.eval()


def llama(layers: int, width: int, heads: int) -> nn.Module:
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "vocab_size": 32000,
        "use_cache": False,
    }
    model: nn.Module = library("transformers", "LlamaForCausalLM")(
        library("transformers", "LlamaConfig")(**sizes)
    )
    return model.eval()


def tokens(batch: int, length: int, vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


INFERENCE: Final[dict[str, Callable[[], tuple[nn.Module, Tensor]]]] = {
    "bert-2x64": lambda: (bert(2, 64, 4), tokens(2, 16, 30000)),
    "bert-12x768": lambda: (bert(12, 768, 12), tokens(1, 128, 30000)),
    "llama-16x1024": lambda: (llama(16, 1024, 16), tokens(1, 1, 30000)),
}
TRAINING: Final[dict[str, Callable[[], tuple[nn.Module, Tensor]]]] = {
    "gpt-6x384": lambda: (GPT(6, 384, 6, 10000, 256), tokens(4, 256, 10000)),
    "gpt-12x768": lambda: (GPT(12, 768, 12, 50000, 512), tokens(8, 512, 50000)),
}


# ---------------------------------------------------------------------- engines


def compiled(engine: str, function: Any) -> Any:
    made = MODES[engine]
    if made is None:
        return function
    library, options = made
    if library == "torch":
        compile_: Any = torch.compile
        return compile_(function, **options)
    return load("stator:compile").compile(function, **options)


def inference(name: str, engine: str) -> Callable[[], Any]:
    """One call of a model, which keeps the result of the last one."""
    torch.manual_seed(0)
    model, ids = INFERENCE[name]()
    run = compiled(engine, model.to("cuda", torch.float16))
    kept: list[Any] = [None]

    def call() -> Any:
        with torch.no_grad():
            kept[0] = run(ids)
        return kept[0][0]

    return call


def training(name: str, engine: str) -> Callable[[], Any]:
    """One step, which keeps the loss of the last one."""
    torch.manual_seed(0)
    model, ids = TRAINING[name]()
    model = model.to("cuda")
    whole = engine.endswith(WHOLE)
    engine = engine.removesuffix(WHOLE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    forward = model if whole else compiled(engine, model)
    kept: list[Any] = [None]

    def step(ids: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.float16):
            loss = forward(ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        result: Tensor = loss.detach()
        return result

    run = compiled(engine, step) if whole else step

    def call() -> Any:
        kept[0] = run(ids)
        return kept[0]

    return call


def limit(name: str) -> Callable[[], Any]:
    """The kernels that Inductor compiled, as one CUDA graph."""
    call = inference(name, "stator")
    new: Any = torch.cuda.Stream
    stream = new()
    with torch.cuda.stream(stream):
        for _ in range(4):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay() -> None:
        graph.replay()
        held()  # the weights stay

    held = partial(id, call)
    return replay


# ---------------------------------------------------------------------- measuring


def per_call(call: Callable[[], Any], times: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times * 1e6


def measure(name: str, engines: list[str], rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    calls: dict[str, Callable[[], Any]] = {}
    for engine in engines:
        start = time.perf_counter()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        try:
            if engine == LIMIT:
                call = limit(name)
            else:
                call = (inference if name in INFERENCE else training)(name, engine)
            call()
            torch.cuda.synchronize()
            first = time.perf_counter() - start
            for _ in range(8):
                result = call()
            torch.cuda.synchronize()
            if engine != LIMIT:
                value = (result if isinstance(result, Tensor) else result[0]).float()
                found[f"{engine} value"] = value.mean().item()
        except Exception as error:
            found[f"{engine} error"] = f"{type(error).__name__}: {str(error)[:300]}"
            continue
        calls[engine] = call
        found[f"{engine} first s"] = round(first, 1)
        found[f"{engine} peak MB"] = (torch.cuda.max_memory_allocated() - before) >> 20
    times = {
        engine: max(3, min(300, int(2e5 / per_call(call, 3)))) for engine, call in calls.items()
    }
    taken: dict[str, list[float]] = {engine: [] for engine in calls}
    for _ in range(rounds):
        for engine, call in calls.items():
            call()
            taken[engine].append(per_call(call, times[engine]))
    found |= {engine: round(statistics.median(each), 1) for engine, each in taken.items()}
    return found


def lines(found: dict[str, Any], engines: list[str]) -> Iterator[str]:
    numbers = (found.get(engine, found.get(f"{engine} error", "-")) for engine in engines)
    yield f"| {found['name']} | {' | '.join(map(str, numbers))} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--engines", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here")
        return 1
    names = options.names or [*INFERENCE, *TRAINING]
    for name in names:
        engines = options.engines.split(",") if options.engines else default_engines(name)
        if options.child:
            print(json.dumps(measure(name, engines, options.rounds)))
            continue
        given = ["--engines", ",".join(engines), "--rounds", str(options.rounds), "--child", name]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu", *given],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        try:
            found = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            found = {"name": name, f"{engines[0]} error": f"exit {done.returncode}"}
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            print(
                f"| model | {' | '.join(engines)} |", *lines(found, engines), sep="\n", flush=True
            )
    return 0


def default_engines(name: str) -> list[str]:
    if name in INFERENCE:
        return [*MODES, LIMIT]
    return [*MODES, *(f"{each}{WHOLE}" for each in MODES if each != "eager")]


if __name__ == "__main__":
    sys.exit(main())
