"""Runs generated programs in eager and compiled, and tells where they differ.

    python -m tests.unknown.compared FIRST LAST [PROCESSES]

Comes in: a `Generated`. Goes out: what differs, as text; nothing if all calls agree in results,
strides, exceptions, effects on arguments and gradients.
"""

import contextlib
import difflib
import io
import multiprocessing
import random
import re
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, Final

import torch

import stator
from stator.driver.errors import RecompileLimitError
from tests.capture.describe import describe
from tests.dynamic.harness import forget_marks, outcome

from .generate import WIDE, Generated, generate

_OURS: Final = (stator.CaptureError, RecompileLimitError)
_FAILURE: Final = re.compile(r"failed here|InternalError|failed to compile")
_LAYOUT: Final = re.compile(r"\(([^()]*)\)( requires_grad[^()]*?)strides=\(([^()]*)\)")
_GRADIENT: Final = re.compile(r"^gradient .*", re.MULTILINE)
_NUMBER: Final = re.compile(r"-?\d+\.\d+(e-?\d+)?")
_NODE: Final = re.compile(r"grad_fn=(?!None)\S+")  # a backend's graph is a node of its own


class _NotCapturedError(BaseException):
    """One of ours, which tells why there can't be a single graph."""


def differences(
    program: Generated, backend: str, dynamic: bool | None, fullgraph: bool = False
) -> Iterator[str]:
    """What differs in which call. With `fullgraph`, up to the first error that says why not."""
    stator.reset()
    function, same = program.function(), program.function()
    compiled = stator.compile(same, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    pairs = zip(program.calls(), program.calls(), strict=True)
    for number, (plain, given) in enumerate(pairs):
        wanted = _ran(function, plain, number)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found = _ran(compiled, given, number)
            except _NotCapturedError:
                if fullgraph:
                    return
                raise
        for warning in warned:
            # What a backend can't do runs uncompiled; all other failures are ours.
            if _FAILURE.search(str(warning.message)):
                yield f"call {number} of {backend}, dynamic={dynamic}: {warning.message}"
        if backend != "eager":
            wanted, found = _comparable(wanted), _comparable(found)
        if wanted != found:
            lines = difflib.unified_diff(wanted.split("\n"), found.split("\n"), n=0, lineterm="")
            shown = "\n".join(list(lines)[2:])
            yield f"call {number} of {backend}, dynamic={dynamic}: {plain[2:]}\n{shown}"


def _comparable(text: str) -> str:
    """AOTAutograd lays out dimensions of size 0 and 1, and adds gradients up, in its own way."""

    def rounded(match: re.Match[str]) -> str:
        return f"{float(match[0]):.4g}"

    def gradient(match: re.Match[str]) -> str:
        return _NUMBER.sub(rounded, match[0])

    def plain(match: re.Match[str]) -> str:
        sizes, between, strides = match[1].split(","), match[2], match[3].split(",")
        if any(size.strip() in ("0", "1") for size in sizes):
            return f"({match[1]}){between}strides"
        return f"({match[1]}){between}strides=({','.join(strides)})"

    return _GRADIENT.sub(gradient, _LAYOUT.sub(plain, text))


def _ran(function: Any, args: tuple[Any, ...], seed: int) -> str:
    """What a call does, and the gradients behind it."""
    torch.manual_seed(seed)
    random.seed(seed)
    results: list[Any] = []
    shown = io.StringIO()

    def kept(*given: Any) -> Any:
        try:
            with contextlib.redirect_stdout(shown):
                made = function(*given)
        except _OURS as error:
            raise _NotCapturedError(error) from None
        results.append(made)
        return made

    try:
        text = _NODE.sub("grad_fn", outcome(kept, args))
    except RuntimeError as error:  # a view that can't be looked at any more
        return f"{type(error).__name__} afterwards"
    text += f"\n{shown.getvalue()}"
    state = getattr(function, "__wrapped__", function).__globals__["state"]
    text += f"\nthe next draws: {torch.rand(()).item()} {random.random()}\n{state.values()}\n"
    forget_marks(state.memory)
    text += "\n".join(describe((state.count, state.seen, state.memory)))
    leaf = args[0]
    if leaf.requires_grad:
        text += f"\ngrad {leaf.grad}"
        total = sum(
            (each.sum() for each in _tensors(results) if each.requires_grad), torch.zeros(())
        )
        if total.requires_grad:
            text += f"\n{_gradient(total, leaf)}"
    return text


def _gradient(total: torch.Tensor, leaf: torch.Tensor) -> str:
    try:
        (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        return f"no gradient: {type(error).__name__}"
    return f"gradient {None if gradient is None else gradient.tolist()}"


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def checked(seed: int) -> tuple[int, list[str], float]:
    """One program with both backends; which sizes are open depends on its number."""
    began = time.perf_counter()
    program = generate(seed)
    dynamic = (None, True, None, False)[seed % 4]
    found: list[str] = []
    whole = seed >= WIDE and seed % 5 == 0
    for backend in ("eager", "aot_eager"):
        try:
            found += differences(program, backend, dynamic, whole)
        except (Exception, _NotCapturedError) as error:  # of ours, where nothing may raise
            found.append(f"{backend}: {type(error).__name__}: {error}")
    return seed, found, time.perf_counter() - began


def main(first: int, last: int, processes: int = 1) -> int:
    torch.set_num_threads(1)
    wrong, slow = 0, 0.0
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for seed, found, seconds in pool.imap_unordered(checked, range(first, last), 8):
            slow = max(slow, seconds)
            if found:
                wrong += 1
                print(f"==== {seed}: {len(found)} differ\n{generate(seed).source}\n{found[0]}")
                sys.stdout.flush()
    print(f"{last - first} programs, {wrong} differ, the slowest took {slow:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
