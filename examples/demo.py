"""What `make demo` shows: a small transformer, captured, guarded, recompiled and timed.

Each step says what it does before it does it. Nothing is cached between runs except by Inductor.
"""

import inspect
import shutil
import textwrap
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

import stator
from stator.driver.ledger import Compilation
from stator.testing import compilations, count, recompiles

BACKEND = "inductor" if shutil.which("g++") else "aot_eager"
WIDTH = 100

# ---- the program


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.into(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        result: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch, length, width))
        return result


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        return torch.add(x, self.mlp(self.norms[1](x)))


class Transformer(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.last: tuple[int, ...] = ()

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        self.last = tuple(x.shape)  # a side effect: it happens after the graph, on the real module
        for layer in self.layers:
            x = layer(x)
        return x * scale


# ---- showing it

_began = time.perf_counter()


def title(text: str) -> None:
    print(f"\n── {text} {'─' * (WIDTH - len(text) - 4)}", flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Says what is going on, and how long it took."""
    print(f"[{time.perf_counter() - _began:5.1f} s] {text} …", end="", flush=True)
    start = time.perf_counter()
    yield
    print(f" {time.perf_counter() - start:.2f} s", flush=True)


def show(text: str, lines: int) -> None:
    """The beginning of a longer text."""
    found = [line for line in textwrap.dedent(text).splitlines() if line.strip()]
    for line in found[:lines]:
        print("  " + (line if len(line) < WIDTH else line[: WIDTH - 1] + "…"))
    if len(found) > lines:
        print(f"  … and {len(found) - lines} lines more")


def show_guards(compiled: Compilation) -> None:
    """Some guards of each kind, in words."""
    texts = [str(guard) for guard in compiled.guards]
    own = [text for text in texts if not text.startswith(("class ", "globals", "torch "))]
    picked = [text for text in own if "args" in text]
    picked += [text for text in own if "Parameter(" in text][:2]
    picked += [text for text in own if "hooks" in text][:1]
    picked += [text for text in own if "heads" in text][-1:]
    picked += [text for text in texts if text.startswith("torch ")][:2]
    for text in dict.fromkeys(picked):
        print(f"  {text}"[:WIDTH])
    print(f"  … {len(texts)} in all; checking them is one walk in C, most of it skipped while")
    print("  dicts and classes are unchanged")


def microseconds(function: Callable[[], Any]) -> float:
    timer = timeit.Timer(function)
    number = max(1, int(0.1 / max(timer.timeit(5) / 5, 1e-7)))
    return min(timer.repeat(5, number)) / number * 1e6


def table(rows: dict[str, float]) -> None:
    longest = max(rows.values())
    for name, value in rows.items():
        print(f"  {name:<16} {value:10.2f} µs  {'█' * max(1, round(value / longest * 50))}")


# ---- the demo


def tiny(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is small: more would measure how busy the machine is
    title("the program")
    show(inspect.getsource(Transformer) + inspect.getsource(Layer), 32)

    model = Transformer().eval()
    compiled = stator.compile(model, backend=BACKEND, fullgraph=True)
    x = torch.randn(2, 16, 32)
    with torch.no_grad():
        title(f"compiled = stator.compile(model, backend={BACKEND!r}, fullgraph=True)")
        with step("eager"):
            expected = model(x)
            model.last = ()
        with step("first call: trace, guards, backend"):
            result = compiled(x)
        print(f"  same result as eager: {torch.allclose(result, expected, atol=1e-5)}")
        print(f"  the side effect: model.last == {model.last}")

        first = compilations(compiled)[0]
        title("the captured graph (parameters are inputs)")
        show(str(first.graph), 14)
        title("what runs from now on, if the guards hold")
        show(first.residual, 12)
        title("the guards, in words")
        show_guards(first)

        title("a call that the guards don't allow: compiled again, and why")
        with step("compiled(x[:1], scale=0.5)"):
            compiled(x[:1], scale=0.5)
        print(textwrap.indent(str(recompiles(compiled)[-1]), "  "))
        compiled(x)
        made, hits = count(compiled)
        print(f"  compiled(x) again is a hit: {made} graphs, {hits} call served by the first one")

        title("time per call")
        theirs = torch.compile(Transformer().eval(), backend=BACKEND, fullgraph=True)
        with step("torch.compile of the same model"):
            theirs(x)
        their_tiny = torch.compile(tiny, backend="eager", fullgraph=True)
        our_tiny = stator.compile(tiny, backend="eager", fullgraph=True)
        one = torch.ones(1)
        with step("measuring"):
            whole = {
                "eager": microseconds(lambda: model(x)),
                "torch.compile": microseconds(lambda: theirs(x)),
                "stator": microseconds(lambda: compiled(x)),
            }
            their_tiny(one)
            our_tiny(one)
            small = {
                "eager": microseconds(lambda: tiny(one)),
                "torch.compile": microseconds(lambda: their_tiny(one)),
                "stator": microseconds(lambda: our_tiny(one)),
            }
        print(f"\n  the transformer, {BACKEND}:")
        table(whole)
        print("\n  `x + 1` on one number, eager backend (what the front end costs):")
        table(small)
    print(f"\n[{time.perf_counter() - _began:5.1f} s] done. docs/usage.md goes on from here.")


if __name__ == "__main__":
    main()
