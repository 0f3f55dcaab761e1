"""What guards cost: unchanged, with one change, per tensor, and next to the alternatives.

    python -m benchmarks.guards [--no-torch] [--quick] [--json]

The model is 1,201 nn-like module objects with 5 guarded attributes each. All numbers of a run come
from the same process; ratios are to the native tree's unchanged case.
"""

import argparse
import importlib
import json
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from stator import guards as G  # noqa: N812
from stator._native import _core

MODULES: Final = 1200
ATTRIBUTES: Final = ("training", "in_features", "out_features", "eps", "name")
TARGETS: Final = {
    "unchanged": ("≤ 5 µs" if sys.version_info < (3, 12) else "≤ 1 µs + constant"),
    "tensor": "≤ 25 ns",
    "building": "≤ 13 ms",
    "source": "≤ 0.5 µs",
}


class Module:
    """As torch.nn.Module keeps its state."""

    def __init__(self, index: int) -> None:
        self.training = True
        self.in_features = 64
        self.out_features = index
        self.eps = 1e-5
        self.name = f"layer{index}"
        self._parameters: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self._modules: dict[str, Module] = {}


def model() -> Module:
    """A root with blocks of 11 layers: 1,201 modules."""
    root = Module(0)
    for block in range(MODULES // 12):
        parent = root._modules[f"b{block}"] = Module(block)
        for layer in range(11):
            parent._modules[f"l{layer}"] = Module(layer)
    return root


def guards_for(source: G.Source, module: Any, cls: type) -> list[G.Guard]:
    found = [G.Guard(source, G.TypeIs(cls))]
    found += [G.Guard(G.Attr(source, n), G.Equal(module.__dict__[n])) for n in ATTRIBUTES]
    children = G.Attr(source, "_modules")
    for name, child in module._modules.items():
        found += guards_for(G.Key(children, name), child, cls)
    return found


def python_function(source: G.Source, module: Any) -> Callable[[Any], bool]:
    """The same guards as straight Python code, prefixes shared."""
    lines = ["def check(m0):"]
    counter = iter(range(1, 10**9))

    def emit(name: str, node: Any) -> None:
        lines.append(f"    if type({name}) is not Module: return False")
        lines.append(f"    d = {name}.__dict__")
        for attribute in ATTRIBUTES:
            value = node.__dict__[attribute]
            lines.append(f"    v = d[{attribute!r}]")
            lines.append(
                f"    if type(v) is not {type(value).__name__} or v != {value!r}: return False"
            )
        if node._modules:
            kids = f"k{next(counter)}"
            lines.append(f"    {kids} = d['_modules']")
            for key, child in node._modules.items():
                inner = f"m{next(counter)}"
                lines.append(f"    {inner} = {kids}[{key!r}]")
                emit(inner, child)

    emit("m0", module)
    lines.append("    return True")
    namespace: dict[str, Any] = {"Module": Module}
    exec("\n".join(lines), namespace)
    check: Callable[[Any], bool] = namespace["check"]
    return check


def best(action: Callable[[], Any], rounds: int, inner: int = 1) -> float:
    """Seconds of the best round."""
    result = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            action()
        result = min(result, (time.perf_counter() - start) / inner)
    return result


def extra(action: Callable[[], Any], base: Callable[[], Any], rounds: int, inner: int) -> float:
    """Seconds that an action takes longer than another, measured in turns."""
    longer = shorter = float("inf")
    for _ in range(rounds):
        shorter = min(shorter, best(base, 1, inner))
        longer = min(longer, best(action, 1, inner))
    return longer - shorter


class Table:
    def __init__(self) -> None:
        self.rows: list[tuple[str, float, str]] = []

    def add(self, name: str, seconds: float, target: str = "") -> None:
        self.rows.append((name, seconds, target))

    def show(self, reference: float) -> None:
        for name, seconds, target in self.rows:
            amount = f"{seconds * 1e9:10.1f} ns" if seconds < 1e-6 else f"{seconds * 1e6:10.2f} µs"
            print(f"{name:58s} {amount} {seconds / reference:9.1f}×  {target}")


def measure_modules(table: Table, rounds: int) -> float:
    root = model()
    guards = guards_for(G.Local(0), root, Module)
    making = best(lambda: guards_for(G.Local(0), root, Module), max(rounds // 10, 5))
    table.add(f"making {len(guards)} guards, with their sources and checks", making)
    building = best(lambda: G.compile(guards), max(rounds // 10, 5))
    table.add("building the tree from them", building, TARGETS["building"])
    tree = G.compile(guards)
    arguments = (root,)
    empty = best(lambda: None, rounds, 200)
    source = G.Local(0)
    for kind, make in {
        "Attr(source, name)": lambda: G.Attr(source, "name"),
        "Equal(constant)": lambda: G.Equal(1),
        "Guard(source, check)": lambda: G.Guard(source, None),  # type: ignore[arg-type]
    }.items():
        table.add(f"making one {kind}", best(make, rounds, 200) - empty, TARGETS["source"])
    nothing = G.compile([])
    constant = best(lambda: nothing.check(arguments, None), rounds, 200) - empty
    table.add("an empty tree: the constant, called from Python", constant)
    for _ in range(5):
        assert tree.check(arguments, None)
    statistics = tree.statistics()
    assert statistics["recorded"] >= MODULES
    unchanged = best(lambda: tree.check(arguments, None), rounds, 50) - empty
    table.add("1,201 modules, unchanged", unchanged, TARGETS["unchanged"])
    table.add("1,201 modules, unchanged, without the constant", unchanged - constant)

    victim = root._modules["b50"]._modules["l5"]
    count = 0

    def change_one() -> None:
        nonlocal count
        count += 1
        victim.scratch = count  # type: ignore[attr-defined]
        tree.check(arguments, None)

    for _ in range(20):
        change_one()
    table.add("1,201 modules, one changed each time", best(change_one, rounds, 20) - empty)
    victim.eps = 2.0
    assert not tree.check(arguments, None)
    table.add(
        "1,201 modules, one fails (in the middle)",
        best(lambda: tree.check(arguments, None), rounds, 20) - empty,
    )
    victim.eps = 1e-5

    full = G.compile(guards, shortcuts=False)
    table.add(
        "1,201 modules, everything evaluated (no shortcuts)",
        best(lambda: full.check(arguments, None), rounds) - empty,
    )

    def all_changed() -> None:
        tree.forget()
        tree.check(arguments, None)

    table.add("1,201 modules, everything changed", best(all_changed, rounds))
    check = python_function(G.Local(0), root)
    assert check(root)
    table.add(
        "the same guards as a Python function", best(lambda: check(root), max(rounds // 10, 5))
    )
    return unchanged


def measure_distinct(table: Table, rounds: int) -> None:
    """One NotAliased guard over n parameters, less the same tree without it."""
    for n in (2, 8, 9, 100, 1000):
        values = tuple(object() for _ in range(n))
        sources = [G.Local(i) for i in range(n)]
        present = [G.Guard(source, G.IsNot(None)) for source in sources]
        base = G.compile([*present, G.Guard(sources[0], G.Aliased(()))])
        tree = G.compile([*present, G.Guard(sources[0], G.NotAliased(tuple(sources[1:])))])
        assert tree.check(values, None) and base.check(values, None)
        check, plain = partial(tree.check, values, None), partial(base.check, values, None)
        table.add(f"{n} distinct objects in one guard", extra(check, plain, rounds, 100))


def measure_outputs(table: Table, rounds: int) -> None:
    """Values fetched by the guards, of a dict that does not change."""
    for n in (1, 10, 1200):
        holder = Module(0)
        holder._parameters = {f"p{i}": object() for i in range(n)}
        source = G.Attr(G.Local(0), "_parameters")
        keys = [G.Key(source, f"p{i}") for i in range(n)]
        tree = G.compile([G.Guard(G.Local(0), G.TypeIs(Module))], outputs=keys)
        arguments = (holder,)
        assert all(tree.values(arguments, None) for _ in range(5))
        fetch, check = partial(tree.values, arguments, None), partial(tree.check, arguments, None)
        table.add(f"a tuple of {n} fetched values", extra(fetch, check, rounds, 50))


def measure_state(table: Table, rounds: int) -> None:
    torch = importlib.import_module("torch")
    T = importlib.import_module("stator.guards.tensors")  # noqa: N806
    values = (torch.randn(3, 4),)
    guards = [G.Guard(G.Local(0), T.tensor_match(values[0]))]
    states = T.torch_state_guards()
    alone = partial(G.compile(guards).check, values, None)
    every = partial(G.compile([*guards, *states]).check, values, None)
    cost = extra(every, alone, rounds, 200)
    table.add(f"{len(states)} states of torch, besides one tensor", cost)
    for state in states:
        one = partial(G.compile([*guards, state]).check, values, None)
        table.add(f"  {state.source}", extra(one, alone, rounds, 200))


def measure_tensors(table: Table, rounds: int) -> None:
    torch = importlib.import_module("torch")
    T = importlib.import_module("stator.guards.tensors")  # noqa: N806

    missing = T.calibrate()
    label = "natively" if missing is None else f"by attributes (no {missing})"
    n = 64
    for shape in ((3, 4), (2, 3, 4, 5)):
        values = tuple(torch.randn(*shape) for _ in range(n))
        tree = G.compile([G.Guard(G.Local(i), T.tensor_match(v)) for i, v in enumerate(values)])
        base = G.compile([G.Guard(G.Local(i), G.IsNot(None)) for i, _ in enumerate(values)])
        assert tree.check(values, None)
        cost = extra(
            partial(tree.check, values, None), partial(base.check, values, None), rounds, 50
        )
        table.add(f"one tensor check, {len(shape)}-D, {label}", cost / n, TARGETS["tensor"])
    many = tuple(torch.nn.Parameter(torch.randn(4, 4)) for _ in range(1200))
    holder = Module(0)
    holder._parameters = {f"p{i}": p for i, p in enumerate(many)}
    source = G.Attr(G.Local(0), "_parameters")
    tree = G.compile(
        [G.Guard(G.Key(source, f"p{i}"), T.tensor_match(p)) for i, p in enumerate(many)]
    )
    assert all(tree.check((holder,), None) for _ in range(5))
    table.add(
        "1,200 parameters in one unchanged dict", best(lambda: tree.check((holder,), None), rounds)
    )
    x = many[0]
    spec = T.tensor_match(x)
    table.add("one tensor check as a Python function", best(lambda: T.matches(spec, x), rounds, 20))


def measure_torch_compile(table: Table, rounds: int) -> None:
    """torch.compile's overhead per call: the model's layers do nothing but pass their input on."""
    torch: Any = importlib.import_module("torch")

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, index: int) -> None:
            super().__init__()
            self.in_features = 64
            self.out_features = index
            self.eps = 1e-5
            self.name = f"layer{index}"

        def forward(self, x: Any) -> Any:
            if (
                self.training
                and self.in_features
                and self.eps
                and self.name
                and self.out_features >= 0
            ):
                return x
            return x + 1

    class Block(Layer):
        def __init__(self, index: int) -> None:
            super().__init__(index)
            self.layers = torch.nn.ModuleList(Layer(i) for i in range(11))

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return super().forward(x)

    class Model(Layer):
        def __init__(self) -> None:
            super().__init__(0)
            self.blocks = torch.nn.ModuleList(Block(i) for i in range(MODULES // 12))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x + 1

    net = Model()
    compiled = torch.compile(net, backend="eager")
    x = torch.randn(2, 2)
    with torch.no_grad():
        start = time.perf_counter()
        compiled(x)
        table.add("torch.compile, backend eager: first call", time.perf_counter() - start)
        plain = best(lambda: x + 1, rounds, 50)
        per_call = best(lambda: compiled(x), rounds, 5)
    table.add("torch.compile, 1,201 modules: overhead per call", per_call - plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = 30 if options.quick else 300
    table = Table()
    unchanged = measure_modules(table, rounds)
    measure_distinct(table, rounds)
    measure_outputs(table, rounds)
    if not options.no_torch:
        try:
            measure_tensors(table, rounds)
            measure_state(table, rounds)
            measure_torch_compile(table, max(rounds // 5, 10))
        except ImportError as missing:
            print(f"without torch: {missing}", file=sys.stderr)
    if options.json:
        print(json.dumps({name: seconds for name, seconds, _ in table.rows}))
        return
    print(f"Python {platform.python_version()}, dict changes by {_core.guard_versions()}\n")
    table.show(unchanged)


if __name__ == "__main__":
    main()
