"""Strings, numbers and objects that are only passed on: kept, returned, given to others."""

from collections import OrderedDict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.compile_counts.program import Engine, Holder, program


class Pair(NamedTuple):
    a: Tensor
    n: int


@program
def stored_in_an_attribute(e: Engine) -> Iterator[Any]:
    holder = Holder()

    @e.compile
    def run(x: Tensor, tag: str) -> Any:
        holder.tag = tag
        return x.sin()

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}"), holder.tag


@program
def stored_in_a_list(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, tag: str) -> tuple[Tensor, list[Any]]:
        return x.sin(), [tag, 1]

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")


@program
def stored_in_a_dict(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, tag: str) -> dict[str, Any]:
        return {"out": x.sin(), "tag": tag}

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")


@program
def returned(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, meta: Any) -> tuple[Tensor, Any]:
        return x.sin(), meta

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")


@program
def attribute_returned(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: Any) -> tuple[Tensor, Any]:
        return batch.x.sin(), batch.tag

    for n in range(10):
        yield run(Holder(x=torch.randn(4), tag=f"tag {n}"))


@program
def dict_value_returned(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any]) -> tuple[Tensor, Any]:
        return batch["x"].sin(), batch["tag"]

    for n in range(10):
        yield run({"x": torch.randn(4), "tag": f"tag {n}"})


@program
def forwarded_to_disabled(e: Engine) -> Iterator[Any]:
    notes: list[Any] = []

    @e.disable
    def note(tag: str) -> None:
        notes.append(tag)

    @e.compile
    def run(x: Tensor, tag: str) -> Any:
        x = x.sin()
        note(tag)
        return x.cos()

    for n in range(10):
        yield run(torch.randn(4), f"tag {n}")
    yield notes


@program
def attribute_forwarded(e: Engine) -> Iterator[Any]:
    notes: list[Any] = []

    @e.disable
    def note(tag: str) -> None:
        notes.append(tag)

    @e.compile
    def run(batch: Any) -> Any:
        x = batch.x.sin()
        note(batch.tag)
        return x.cos()

    for n in range(10):
        yield run(Holder(x=torch.randn(4), tag=f"tag {n}"))
    yield notes


@program
def without_tensors(e: Engine) -> Iterator[Any]:
    seen: list[Any] = []

    @e.compile
    def note(tag: str) -> None:
        seen.append(tag)

    for n in range(10):
        yield note(f"tag {n}")
    yield seen


@program
def passed_to_a_helper(e: Engine) -> Iterator[Any]:
    def helper(x: Tensor, tag: str, log: list[str]) -> Any:
        log.append(tag)
        return x.sin()

    @e.compile
    def run(x: Tensor, tag: str, log: list[str]) -> Any:
        return helper(x, tag=tag, log=log)

    log: list[str] = []
    for n in range(10):
        log.clear()
        yield run(torch.randn(4), f"tag {n}", log), list(log)


@program
def dict_with_an_id(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any]) -> dict[str, Any]:
        out = dict(batch)
        out["x"] = batch["x"].sin()
        return out

    for n in range(10):
        yield run({"x": torch.randn(4), "id": f"sample {n}"})


@program
def dict_merged(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(batch: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
        return {**batch, **extra, "x": batch["x"].sin()}

    for n in range(10):
        yield run({"x": torch.randn(4)}, {"epoch": n, "tag": f"t{n}"})


@program
def kwargs_forwarded(e: Engine) -> Iterator[Any]:
    def inner(x: Tensor, **kwargs: Any) -> tuple[Tensor, Any]:
        return x.sin(), kwargs

    @e.compile
    def run(x: Tensor, **kwargs: Any) -> Any:
        return inner(x, **kwargs)

    for n in range(10):
        yield run(torch.randn(4), tag=f"t{n}", name="x")


@program
def list_of_strings_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, names: list[str]) -> tuple[Tensor, list[str]]:
        return x.sin(), names

    for n in range(10):
        yield run(torch.randn(4), [f"a{n}", f"b{n}"])


@program
def tuple_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, meta: tuple[Any, ...]) -> tuple[Tensor, Any]:
        return x.sin(), meta

    for n in range(10):
        yield run(torch.randn(4), (f"a{n}", n, None))


@program
def named_tuple_fields(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(pair: Pair) -> Pair:
        return Pair(pair.a.sin(), pair.n)

    for n in range(10):
        yield run(Pair(torch.randn(4), n))


@program
def namespace_passed(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(ns: SimpleNamespace) -> SimpleNamespace:
        ns.out = ns.x.sin()
        return ns

    for n in range(10):
        yield run(SimpleNamespace(x=torch.randn(4), tag=f"t{n}")).out


@program
def ordered_outputs(e: Engine) -> Iterator[Any]:
    @e.compile
    def run(x: Tensor, epoch: int) -> Any:
        return OrderedDict(x=x.sin(), epoch=epoch)

    for n in range(10):
        yield run(torch.randn(4), n)


@program
def path_remembered(e: Engine) -> Iterator[Any]:
    holder = Holder(last=None)

    @e.compile
    def run(x: Tensor, name: str) -> Any:
        holder.previous = holder.last
        holder.last = name
        return x.sin()

    for n in range(10):
        yield run(torch.randn(4), f"n{n}"), holder.previous


@program
def string_built(e: Engine) -> Iterator[Any]:
    """torch gives up: a number that changes, in a text, makes it run further calls as they are."""

    @e.compile
    def run(x: Tensor, n: int) -> tuple[Tensor, str]:
        return x.sin(), f"step {n}"

    for n in range(10):
        yield run(torch.randn(4), n)
