# mypy: ignore-errors
"""The harness itself: what it compares, and that wrong engines don't get past it."""

import collections
import importlib

import pytest
import torch

from . import harness
from .describe import describe, same
from .harness import MismatchError, Program, check, t
from .known_breaks import KNOWN_BREAKS

SHARED = torch.ones(3)
LIST = [1]


class Silent:
    def __eq__(self, other):
        return True

    def __hash__(self):
        raise RuntimeError("touched")

    def __getattribute__(self, name):
        raise RuntimeError("touched")


class Other(Silent):
    pass


DIFFERENT = {
    "values": (torch.ones(3), torch.zeros(3)),
    "last bit": (torch.ones(1), torch.ones(1) + 1.2e-7),
    "dtype": (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    "strides": (torch.ones(3, 3), torch.ones(3, 3).t()),
    "offset": (torch.ones(4)[:3], torch.ones(4)[1:]),
    "requires_grad": (torch.ones(3), torch.ones(3, requires_grad=True)),
    "parameter": (torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(3))),
    "grad_fn": (torch.ones(3, requires_grad=True) * 2, torch.ones(3, requires_grad=True) + 1),
    "negative zero": (0.0, -0.0),
    "bool and int": (True, 1),
    "int and float": (1, 1.0),
    "same object": ([LIST, LIST], [[1], [1]]),
    "shared memory": ([SHARED, SHARED[:]], [SHARED, torch.ones(3)]),
    "dict order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "dict class": ({"a": 1}, collections.OrderedDict(a=1)),
    "lying equality": (Silent(), Other()),
    "maxlen": (collections.deque([1]), collections.deque([1], maxlen=2)),
    "exception": (ValueError("a"), ValueError("b")),
    "tensor attribute": (torch.ones(3), setattr(SHARED, "tag", 1) or SHARED),
    "iterator": (iter([1, 2]), iter([2, 1])),
    "list and tuple": ([1], (1,)),
    "default factory": (collections.defaultdict(list), collections.defaultdict(int)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_differences_are_seen(name) -> None:
    a, b = DIFFERENT[name]
    assert not same(a, b)
    assert same(a, a) and same(b, b)


def test_equal_structures_are_the_same() -> None:
    def make():
        x = torch.arange(6.0).view(2, 3)
        cycle = [x, x[0]]
        cycle.append(cycle)
        return {"a": cycle, "n": float("nan"), "s": Silent(), "f": lambda: x}

    assert same(make(), make())


def test_descriptions_are_readable() -> None:
    text = "\n".join(describe([torch.ones(2), 3]))
    assert "torch.float32 cpu (2,)" in text and "[1] 3" in text


class Engine:
    """Stands in for the compiler: calls `run(fn, backend, args, kwargs)`."""

    def __init__(self, fn, backend, run):
        self.fn, self.backend, self.run = fn, backend, run
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.run(self, *args, **kwargs)

    def statistics(self):
        return {"hits": max(0, self.calls - 1), "misses": min(1, self.calls)}


def honest(engine, *args):
    """A compiler for functions of one tensor that FX can trace."""
    if engine.calls == 1:
        engine.graph = engine.backend(torch.fx.symbolic_trace(engine.fn), list(args))
    return engine.graph(*args)


def nothing(engine, *args):
    return engine.fn(*args)


def baked(engine, *args):
    if engine.calls == 1:
        engine.answer = honest(engine, *args)
    return engine.answer


def touching(engine, *args):
    if engine.calls == 1:
        args[0].neg_()
        engine.graph = engine.backend(torch.fx.symbolic_trace(engine.fn), list(args))
        args[0].neg_()  # not reached when the backend refuses
    return engine.graph(*args)


def reseeding(engine, *args):
    torch.manual_seed(0)
    return honest(engine, *args)


def recompiling(engine, *args):
    return engine.backend(torch.fx.symbolic_trace(engine.fn), list(args))(*args)


def copying(engine, *args):
    return honest(engine, *args).clone()


def partly(engine, *args):
    if engine.calls == 1:
        engine.graph = engine.backend(torch.fx.symbolic_trace(lambda x: x.sin()), list(args))
    return engine.graph(*args) + 1


def program(x):
    return x.sin() + 1


def viewing(x):
    return x.view(3, 1)


WRONG = {
    "does nothing": (nothing, program, "0 graphs"),
    "answers the same again": (baked, program, "the second call differs"),
    "changes arguments while tracing": (touching, program, "the trace changed something"),
    "changes random state": (reseeding, program, "differs"),
    "compiles each time": (recompiling, program, "was compiled anew"),
    "loses aliasing": (copying, viewing, "differs"),
    "captures a part": (partly, program, "operators in graphs"),
}


def use(monkeypatch, run):
    monkeypatch.setattr(harness, "reset_engine", lambda: None)
    monkeypatch.setattr(
        harness, "compile_with", lambda fn, backend, fullgraph: Engine(fn, backend, run)
    )


@pytest.mark.parametrize("name", WRONG)
def test_wrong_engines_fail(name, monkeypatch) -> None:
    run, fn, message = WRONG[name]
    use(monkeypatch, run)
    with pytest.raises(MismatchError, match=message):
        check(Program("p", fn, lambda: (t(3),)))


@pytest.mark.parametrize("fn", [program, viewing])
def test_an_honest_engine_passes(fn, monkeypatch) -> None:
    use(monkeypatch, honest)
    check(Program("p", fn, lambda: (t(3),)))


def test_claims_about_graphs_are_checked(monkeypatch) -> None:
    use(monkeypatch, honest)
    check(Program("p", program, lambda: (t(3),), ops=["sin", "add"]))
    with pytest.raises(MismatchError, match="claimed"):
        check(Program("p", program, lambda: (t(3),), ops=["cos", "add"]))
    with pytest.raises(MismatchError, match="graphs instead"):
        check(Program("p", program, lambda: (t(3),), graphs=2))


def test_an_undeclared_exception_is_an_error_of_the_test(monkeypatch) -> None:
    use(monkeypatch, honest)
    with pytest.raises(ValueError, match="raised"):
        check(Program("p", lambda x: x.no_such, lambda: (t(3),)))


def test_known_breaks_name_programs() -> None:
    names = {key.partition(".")[0] for key in KNOWN_BREAKS}
    found = {p.key for n in names for p in importlib.import_module(f"{__package__}.{n}").programs}
    assert not {key.partition(":")[0] for key in KNOWN_BREAKS} - found
