"""Tracing and compiling a model of many equal layers, with regions and without.

In: a Llama-like model of 2, 8, 24 and 48 layers. Out: for each, and for four ways to compile it,
the processor's time of tracing and of the backend, and the time of a call. One run, one process:

    python benchmarks/regions.py --layers 2 8 24 48 --backend inductor
"""

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import stator
from stator.driver import backend as stator_backend


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(made.transpose(1, 2).reshape(batch, length, width))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = Attention(width, heads)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        x = x + self.attention(self.before(x), cos, sin)
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Marked(Layer):
    forward = torch.compiler.nested_compile_region(Layer.forward)


class Model(nn.Module):
    def __init__(self, layers: int, width: int, kind: type[Layer] = Layer) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList(kind(width, 4) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, 1000, bias=False)

    def forward(self, tokens: torch.Tensor) -> Any:
        x = self.embed(tokens)
        places = torch.arange(tokens.shape[1])[:, None] * torch.arange(x.shape[-1] // 4) * 0.01
        cos, sin = places.cos(), places.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Timed:
    """A backend, and how long the processor has worked for it."""

    def __init__(self, backend: str) -> None:
        self.name = backend
        self.seconds = 0.0

    @contextlib.contextmanager
    def of_stator(self) -> Iterator[None]:
        """While it is entered, the time of stator's own backends counts."""
        module: Any = stator_backend
        compiled: Any = module._compiled

        def timed(*given: Any) -> Any:
            began = time.process_time()
            try:
                return compiled(*given)
            finally:
                self.seconds += time.process_time() - began

        module._compiled = timed
        try:
            yield
        finally:
            module._compiled = compiled

    def __call__(self, module: Any, inputs: Any) -> Any:
        began = time.process_time()
        if self.name == "eager":
            made = module.forward
        else:
            from torch._inductor.compile_fx import compile_fx  # noqa: PLC0415 - takes long

            made = compile_fx(module, inputs)
        self.seconds += time.process_time() - began
        return made


def measured(make: Callable[[Any], Any], tokens: torch.Tensor, backend: str) -> tuple[float, ...]:
    """Tracing, backend, call: seconds; what the first call takes to run is no tracing."""
    timed = Timed(backend)
    with torch.no_grad(), timed.of_stator():
        function = make(timed)
        began = time.process_time()
        function(tokens)
        traced = time.process_time() - began - timed.seconds
        times = []
        for _ in range(20):
            began = time.perf_counter()
            function(tokens)
            times.append(time.perf_counter() - began)
    return max(traced - min(times), 0.0), timed.seconds, statistics.median(times)


def _by_layer(model: Model, backend: Any) -> Any:
    for layer in model.layers:
        layer.compile(backend=backend)
    return model


WAYS: dict[str, tuple[type[Layer], Callable[[Any, Any], Any]]] = {
    "stator": (Layer, lambda m, b: stator.compile(m, backend=b.name)),
    "stator auto": (Layer, lambda m, b: stator.compile(m, backend=b.name, regions="auto")),
    "torch marked": (Marked, lambda m, b: torch.compile(m, backend=b)),
    "torch by layer": (Layer, _by_layer),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8, 24, 48])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--backend", choices=["eager", "inductor"], default="inductor")
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    tokens = torch.randint(0, 1000, (1, 32))
    print(f"{'':16}{'layers':>8}{'trace s':>10}{'backend s':>11}{'call ms':>9}")
    for way in given.ways:
        kind, make = WAYS[way]
        warm = Model(2, given.width, kind)
        measured(partial(make, warm), tokens, given.backend)  # what is loaded once
        for layers in given.layers:
            stator.reset()
            torch.compiler.reset()
            model = Model(layers, given.width, kind).eval()
            traced, backend, call = measured(partial(make, model), tokens, given.backend)
            print(f"{way:16}{layers:8}{traced:10.3f}{backend:11.3f}{call * 1000:9.2f}", flush=True)


if __name__ == "__main__":
    main()
