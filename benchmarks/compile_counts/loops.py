"""Loops with graph breaks: one graph per iteration, few compiles."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.compile_counts.program import Engine, program


@program
def modules(e: Engine) -> Iterator[Any]:
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        for layer in layers:
            x = layer(x)
            graph_break()
        return x

    for _ in range(5):
        yield run(torch.randn(2, 4))


@program
def modules_of_a_model(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])

        def forward(self, x: Tensor) -> Any:
            for layer in self.layers:
                x = layer(x).relu()
                graph_break()
            return x

    compiled = e.compile(Model())
    for _ in range(5):
        yield compiled(torch.randn(2, 4))


@program
def while_loop(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor, n: int) -> Any:
        i = 0
        while i < n:
            x = x.sin() + 1
            graph_break()
            i += 1
        return x

    for _ in range(5):
        yield run(torch.randn(4), 6)


@program
def while_on_values(e: Engine) -> Iterator[Any]:
    """torch splits at each test. The first graph here has the whole loop of the first call.

    It checks the tests at its end, and the next call, which goes round less often, shows that they
    vary; from then on there are as many graphs as in torch. Fewer graphs run in all.
    """

    @e.compile
    def run(x: Tensor) -> Any:
        while x.sum() < 50:
            x = x * 2
        return x

    for n in range(8):
        yield run(torch.ones(4) * (n + 1))


@program
def over_range(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor, n: int) -> Any:
        for _ in range(n):
            x = x.cos()
            graph_break()
        return x

    for _ in range(5):
        yield run(torch.randn(4), 6)


@program
def over_range_used(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        for i in range(6):
            x = x + i
            graph_break()
        return x

    for _ in range(5):
        yield run(torch.randn(4))


@program
def over_zip(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(xs: list[Tensor], ys: list[Tensor]) -> Any:
        total = torch.zeros(4)
        for x, y in zip(xs, ys, strict=True):
            total = total + x * y
            graph_break()
        return total

    for _ in range(5):
        yield run([torch.randn(4) for _ in range(6)], [torch.randn(4) for _ in range(6)])


@program
def over_enumerate(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(xs: list[Tensor]) -> Any:
        total = torch.zeros(4)
        for i, x in enumerate(xs):
            total = total + x * i
            graph_break()
        return total

    for _ in range(5):
        yield run([torch.randn(4) for _ in range(6)])


@program
def over_dict_items(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(xs: dict[str, Tensor]) -> Any:
        total = torch.zeros(4)
        for _name, x in xs.items():
            total = total + x
            graph_break()
        return total

    for _ in range(5):
        yield run({f"k{i}": torch.randn(4) for i in range(6)})


@program
def over_an_iterator(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(xs: Iterator[Tensor]) -> Any:
        total = torch.zeros(4)
        for x in xs:
            total = total + x
            graph_break()
        return total

    for _ in range(5):
        yield run(iter([torch.randn(4) for _ in range(6)]))


@program
def over_a_generator(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(xs: Iterator[Tensor]) -> Any:
        total = torch.zeros(4)
        for x in xs:
            total = total + x
        return total

    for _ in range(5):
        yield run(torch.randn(4) for _ in range(6))


@program
def nested(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        for _i in range(3):
            x = x * 2
            for _j in range(3):
                x = x.sin()
                graph_break()
        return x

    for _ in range(5):
        yield run(torch.randn(4))


@program
def in_a_comprehension(e: Engine) -> Iterator[Any]:
    """Iterations are joined: behind each break there is one graph, not two, and fewer run.

    So there are three: what is before the first break, between two breaks, behind the last one.
    """
    graph_break = e.graph_break

    def one(x: Tensor) -> Any:
        x = x.sin()
        graph_break()
        return x * 2

    @e.compile
    def run(xs: list[Tensor]) -> list[Tensor]:
        return [one(x) for x in xs]

    for _ in range(5):
        yield run([torch.randn(4) for _ in range(6)])


@program
def break_in_a_layer(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Any:
            x = self.linear(x)
            graph_break()
            return x.relu()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*[Layer() for _ in range(6)])

        def forward(self, x: Tensor) -> Any:
            return self.layers(x) + 1

    compiled = e.compile(Model())
    for _ in range(5):
        yield compiled(torch.randn(2, 4))


@program
def ten_then_twelve(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor, n: int) -> Any:
        for _ in range(n):
            x = x.cos()
            graph_break()
        return x

    for n in range(3, 12):
        yield run(torch.randn(4), n)


@program
def item_in_a_loop(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(xs: list[Tensor]) -> list[float]:
        found = []
        for x in xs:
            found.append(round(x.sum().item(), 3))
        return found

    for _ in range(5):
        yield run([torch.randn(4) for _ in range(6)])


@program
def disabled_in_a_loop(e: Engine) -> Iterator[Any]:
    log: list[float] = []

    @e.disable
    def note(value: Tensor) -> None:
        log.append(float(value.sum()))

    @e.compile
    def run(x: Tensor) -> Any:
        for _ in range(6):
            x = x.sin() + x
            note(x)
        return x

    for _ in range(5):
        yield run(torch.randn(4))
    yield len(log)


@program
def early_exit(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor) -> tuple[Tensor, int]:
        for i in range(8):
            x = x * 1.5
            if x.abs().max() > 10:
                return x, i
        return x, -1

    for n in range(8):
        yield run(torch.ones(4) * (n + 1))


@program
def list_filled_in_a_loop(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        found = []
        for _ in range(6):
            x = x.sin()
            graph_break()
            found.append(x)
        return torch.stack(found)

    for _ in range(5):
        yield run(torch.randn(4))


@program
def break_at_the_end_of_step(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break
    model = nn.Linear(4, 4)

    @e.compile
    def epoch(batches: list[Tensor]) -> list[Tensor]:
        losses = []
        for batch in batches:
            loss = model(batch).square().mean()
            losses.append(loss)
            graph_break()
        return losses

    for _ in range(5):
        yield epoch([torch.randn(2, 4) for _ in range(6)])


@program
def try_in_a_loop(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        for i in range(6):
            try:
                x = x.sin()
                graph_break()
                if i == 20:
                    raise ValueError
            except ValueError:
                x = x + 1
        return x

    for _ in range(5):
        yield run(torch.randn(4))


@program
def over_a_tensor(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        total = torch.zeros(3)
        for row in x:
            total = total + row.sin()
            graph_break()
        return total

    for _ in range(5):
        yield run(torch.randn(6, 3))


@program
def under_no_grad(e: Engine) -> Iterator[Any]:
    graph_break = e.graph_break

    @e.compile
    def run(x: Tensor) -> Any:
        with torch.no_grad():
            for _ in range(6):
                x = x.sin()
                graph_break()
        return x

    for _ in range(5):
        yield run(torch.randn(3))
