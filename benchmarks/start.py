"""Seconds from the start of a process to its first result: eager, and cold and warm compiled.

    python -m benchmarks.start [--programs bert llama …] [--peer]

Each number is a process of its own: imports, making the model, the first call. Warm is the second
process with one cache folder. With `--peer`, torch.compile, too, with Inductor's own caches warm.
The file is also the program that is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

LAYERS = 12
WIDTH = 256
RUNS = 3


def models() -> dict[str, Any]:
    class Attention(nn.Module):
        def __init__(self, causal: bool) -> None:
            super().__init__()
            self.heads = 4
            self.causal = causal
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            shape = batch, length, self.heads, width // self.heads
            q, k, v = (part(x).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            return self.o(y.transpose(1, 2).reshape(x.shape))

    class BertLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention(causal=False)
            self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            x = self.norms[0](x + self.attention(x))
            return self.norms[1](x + self.down(functional.gelu(self.up(x))))

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

    class LlamaLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention(causal=True)
            self.norms = nn.ModuleList(Norm() for _ in range(2))
            self.gate, self.up = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
            self.down = nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norms[0](x))
            y = self.norms[1](x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Model(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.embedding = nn.Embedding(1000, WIDTH)
            self.layers = nn.ModuleList(layer() for _ in range(LAYERS))
            self.head = nn.Linear(WIDTH, 1000)

        def forward(self, ids: Any) -> Any:
            x = self.embedding(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    return {"bert": lambda: Model(BertLayer).eval(), "llama": lambda: Model(LlamaLayer).eval()}


def broken(x: Any, n: int) -> Any:
    """Five breaks."""
    for _ in range(5):
        x = (x * n).sin()
        sys.stderr.write("")
    return x.cos()


def program(name: str, how: str, backend: str) -> None:
    """The process that is measured."""
    torch.manual_seed(0)
    if how == "stator":
        compile_: Any = partial(import_module("stator").compile, backend=backend)
    else:
        compile_ = partial(torch.compile, backend=backend, disable=how == "eager")
    if name == "breaks":
        f = compile_(broken)
        x = torch.randn(64)
        for n in range(2, 6):
            f(x, n)
        return
    model = models()[name.removesuffix("-training")]()
    ids = torch.randint(0, 1000, (1, 32))
    call = compile_(model)
    if name.endswith("-training"):
        call(ids).sum().backward()
    else:
        with torch.no_grad():
            call(ids)


def measured(name: str, how: str, backend: str, environment: dict[str, str]) -> list[float]:
    """Seconds and processor seconds of one process."""
    command = [sys.executable, "-m", "benchmarks.start", "--run", name, how, backend]
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, **environment})
    seconds, after = time.perf_counter() - began, os.times()
    used = after.children_user - before.children_user + after.children_system
    return [round(seconds, 2), round(used - before.children_system, 2)]


def best(name: str, how: str, backend: str, environment: dict[str, str]) -> list[float]:
    return min(measured(name, how, backend, environment) for _ in range(RUNS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    known = ["bert", "llama", "bert-training", "breaks"]
    parser.add_argument("--programs", nargs="+", default=known)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--peer", action="store_true")
    given = parser.parse_args()
    if given.run:
        program(*given.run)
        return
    for name in given.programs:
        with tempfile.TemporaryDirectory() as folder:
            off = {"STATOR_CACHE": "0", "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "inductor")}
            on = {**off, "STATOR_CACHE": "1", "STATOR_CACHE_DIR": str(Path(folder) / "stator")}
            row: dict[str, Any] = {"program": name, "backend": given.backend}
            row["eager"] = best(name, "eager", given.backend, off)
            row["cold"] = measured(name, "stator", given.backend, on)
            row["warm"] = best(name, "stator", given.backend, on)
            if given.peer:
                measured(name, "torch", given.backend, off)
                row["torch.compile, warm"] = best(name, "torch", given.backend, off)
            row["warm to eager"] = round(row["warm"][0] / row["eager"][0], 2)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
