"""What a user gets with Inductor on the CPU: time per call of tiny transformer models.

    python -m benchmarks.end_to_end [--quick] [--json] [--engines torch,stator:compile] [NAME ...]

"graph" is Inductor's compiled graph of the same model, called directly with its inputs: what no
front end can beat without changing the backend. A training step is forward and backward; the
gradients are dropped after it. Each case has its own process, in which all take turns; medians of
CPU time with one thread count.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.runner import by_case, shown
from benchmarks.zoo.case import ids, library
from benchmarks.zoo.engines import PEER, load
from benchmarks.zoo.measure import error_line, import_libraries
from stator.cli.timing import Call, interleaved

EAGER, GRAPH = "eager", "graph"
TOLERANCE: Final = 1e-4
SIZES: Final = {
    "bert": {
        "vocab_size": 99,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0,  # Inductor's random numbers differ from eager's
        "attention_probs_dropout_prob": 0.0,
    },
    "gpt": {
        "vocab_size": 99,
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "use_cache": False,
    },
}
NAMES: Final = {"bert": ("BertModel", "BertConfig"), "gpt": ("GPT2Model", "GPT2Config")}


class Encoded(nn.Module):
    """A model of transformers from tokens to a tensor: hidden states, or a loss in training."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        model, config = NAMES[kind]
        self.model = library("transformers", model)(library("transformers", config)(**SIZES[kind]))

    def forward(self, tokens: Tensor) -> Any:
        states = self.model(input_ids=tokens)[0]
        return states.square().mean() if self.training else states


CASES: Final[Mapping[str, tuple[str, bool]]] = {
    "bert_eval": ("bert", False),
    "bert_train": ("bert", True),
    "gpt_eval": ("gpt", False),
    "gpt_train": ("gpt", True),
}


def built(name: str) -> tuple[Encoded, Tensor]:
    kind, training = CASES[name]
    torch.manual_seed(0)
    model = Encoded(kind)
    model.train(training)
    return model, ids(2, 16)


def step(fn: Callable[..., Any], parameters: list[nn.Parameter], *args: Any) -> Any:
    """A training step without an optimizer."""
    loss = fn(*args)
    if isinstance(loss, tuple | list):
        (loss,) = loss  # the bare graph's convention
    loss.backward()
    for parameter in parameters:
        parameter.grad = None
    return loss


def callable_for(model: Encoded, fn: Callable[..., Any]) -> Callable[..., Any]:
    return partial(step, fn, list(model.parameters())) if model.training else fn


class InductorGraph:
    """A backend that keeps Inductor's compiled graph and the inputs of its first call."""

    def __init__(self) -> None:
        self.run: Callable[..., Any] | None = None
        self.inputs: tuple[Any, ...] = ()

    def __call__(self, graph: Any, example_inputs: Any) -> Callable[..., Any]:
        compile_fx = library("torch._inductor.compile_fx", "compile_fx")
        compiled: Callable[..., Any] = compile_fx(graph, example_inputs)
        self.run = compiled

        def first(*args: Any) -> Any:
            self.inputs = args
            return compiled(*args)

        return first


def bare_graph(name: str) -> Call:
    """Inductor's compiled graph and its inputs, by way of torch.compile."""
    model, tokens = built(name)
    backend = InductorGraph()
    torch.compile(model, backend=backend, fullgraph=True)(tokens)
    if backend.run is None:
        raise AssertionError("no graph")
    load(PEER).clear()  # or the peer, measured next, would find this entry before its own
    return callable_for(model, backend.run), backend.inputs


def compiled(name: str, spec: str) -> Call:
    model, tokens = built(name)
    expected = model(tokens)
    fn = load(spec).compile(model, backend="inductor", fullgraph=True)
    if not torch.allclose(fn(tokens), expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise AssertionError("the compiled result differs from eager")
    return callable_for(model, fn), (tokens,)


def measure(name: str, engines: list[str], rounds: int) -> dict[str, Any]:
    import_libraries()
    calls: dict[str, Call] = {}
    errors: dict[str, str] = {}
    with torch.set_grad_enabled(CASES[name][1]):
        model, tokens = built(name)
        calls[EAGER] = callable_for(model, model), (tokens,)
        sources = {GRAPH: partial(bare_graph, name)}
        sources |= {spec: partial(compiled, name, spec) for spec in engines}
        for label, source in sources.items():
            try:
                calls[label] = source()
            except Exception as error:
                errors[label] = error_line(error)
        times = interleaved(calls, rounds, 0.03)
    return {"name": name, "times": times, "errors": errors}


def head(engines: list[str]) -> str:
    columns = [EAGER, GRAPH, *engines]
    names = "".join(f"{name:>17}" for name in columns)
    units = "".join(f"{'µs (× eager)':>17}" for _ in columns)
    return f"{'case':<12}{names}\n{'':<12}{units}"


def row(result: dict[str, Any], engines: list[str]) -> str:
    times = result.get("times") or {}
    line = f"{result['name']:<12}"
    for name in (EAGER, GRAPH, *engines):
        seconds = times.get(name)
        share = f" ({seconds / times[EAGER]:.2f})" if seconds else ""
        line += f"{shown(seconds, digits=0) + share:>17}"
    return line


def main(argv: list[str] | None = None) -> int:
    description = "Time per call with Inductor on the CPU."
    return by_case("benchmarks.end_to_end", description, CASES, measure, head, row, argv)


if __name__ == "__main__":
    sys.exit(main())
