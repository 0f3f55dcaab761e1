# mypy: ignore-errors
"""Texts that mention tensors: they can be put together, kept and returned; nobody looks at them."""

import dataclasses
import sys

import pytest
import torch

import stator

from . import harness
from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


@dataclasses.dataclass
class Point:
    where: object
    name: str = "p"


@programs(one, free=True)
def texts_are_returned(x):
    y = x * 2
    s = y.sum()
    return f"{x}", str([y]), repr((y,)), f"{s:.2f}", "%s" % y, "{:>40}|".format(str(s)), y


@programs(one, free=True)
def texts_are_kept(x):
    point = Point(f"{x}")
    point.name = str(point)
    more = {i: str(v) for i, v in enumerate(x)}
    return point, [f"{x}"] * 2, {"a": f"{x + 1}"}, {"b": f"{x}", "c": 1}, more


@programs(one, free=True)
def texts_are_of_their_moment(x):
    before = f"{x}"
    x.add_(1)
    after = f"{x}"
    x.zero_()
    return before, after, x


@programs(one, raises=ValueError, free=True)
def texts_in_exceptions(x):
    try:
        raise KeyError(f"{x}")
    except KeyError as error:
        raise ValueError(f"{error!r} of {x}") from error


@programs(one, free=True)
def texts_are_strings(x):
    text = f"{x}"
    shown = "shown" if text and f"{x.sum()}" else "not"
    return isinstance(text, str), type(text) is str, isinstance(text, (int, list)), shown, x + 1


@programs(one, free=True)
def formats_that_raise(x):
    texts = []
    for make in (
        lambda: f"{x:.2f}",
        lambda: f"{x.sum():d}",
        lambda: "{} {}".format(*[x]),
        lambda: "{0} {}".format(*[x, x]),  # noqa: F525
        lambda: f"{str(x):q}",
    ):
        try:
            texts.append(make())
        except (TypeError, ValueError, IndexError) as error:
            texts.append(f"{type(error).__name__}: {error}")
    return texts, x + 1


@pytest.mark.parametrize("program", programs, ids=str)
def test_texts(program: Program) -> None:
    check(program)


LOOKS = {
    "length": lambda x: len(f"{x}"),
    "comparison": lambda x: f"{x}" == "a",
    "key": lambda x: {f"{x}": 1},
    "method": lambda x: f"{x}".upper(),
    "membership": lambda x: f"{x}" in ["a"],
    "containment": lambda x: "a" in f"{x}",
    "hash": lambda x: hash(f"{x}") and None,
    "item": lambda x: f"{x}"[0],
    "truth": lambda x: bool(f"{x}"),
    "truth of what is cut off": lambda x: "a" if "%.0s" % x else "b",
    "order": lambda x: sorted(["b", f"{x}"]),
    "iteration": lambda x: [*f"{x}"],
    "repetition": lambda x: str(x) * 2,
    "replacement": lambda x: "abc".replace("a", str(x)),
    "a set of a generator": lambda x: {s for s in (f"{v}" for v in x)} and None,
    "the number of characters": lambda x: sys.stderr.write(f"{x}\n"),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_nobody_looks_at_a_text(look) -> None:
    harness.reset_engine()
    with pytest.raises(stator.CaptureError, match=r"text|characters|StringIO|EncodedFile|Text"):
        stator.compile(look, fullgraph=True, backend="eager")(torch.ones(3))
    assert stator.compile(look, backend="eager")(torch.ones(3)) == look(torch.ones(3))
