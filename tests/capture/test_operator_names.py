# mypy: ignore-errors
"""Operators of torch.ops that nobody has asked for before: torch looks for them by name."""

import pytest
import torch

import stator

LIBRARY = torch.library.Library("stator_names", "DEF")


def define(name):
    """An operator, in a library that Python code has not seen yet."""
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, lambda x: x + 1, "CPU")
    torch.library.register_fake(f"stator_names::{name}", torch.empty_like, lib=LIBRARY)


def packet(x):
    return torch.ops.stator_names.first(x) * 2


def overload(x):
    return torch.ops.stator_names.second.default(x) * 2


def named_overload(x):
    return torch.ops.stator_names.third.named(x) * 2


def by_getattr(x):
    return getattr(getattr(torch.ops, "stator_" + "names"), "fourth")(x) * 2


def asked(x):
    return torch.ops.stator_names.fifth(x) * hasattr(torch.ops.stator_names, "fifth")


NAMES = {
    packet: "first",
    overload: "second",
    named_overload: "third.named",
    by_getattr: "fourth",
    asked: "fifth",
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", NAMES, ids=lambda each: each.__name__)
def test_found_while_tracing(program, backend):
    if backend == "eager":  # the first of the two
        define(NAMES[program])
    stator.reset()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for size in (3, 3, 4):
        assert torch.equal(compiled(torch.ones(size)), program(torch.ones(size)))
    assert stator.testing.count(compiled).compiles == 2


def missing(x):
    try:
        return torch.ops.stator_names.nothing(x)
    except AttributeError as error:
        return x + 1, str(error)


def test_one_that_is_defined_later():
    compiled = stator.compile(missing, backend="eager")
    assert compiled(torch.ones(2))[1] == missing(torch.ones(2))[1]
    define("nothing")
    assert torch.equal(compiled(torch.ones(2)), missing(torch.ones(2)))
