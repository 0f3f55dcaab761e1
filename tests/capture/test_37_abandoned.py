# mypy: ignore-errors
"""Generators that are given up half-way: their `finally` blocks run when CPython would run them."""

import asyncio
import contextlib
import sys

import pytest
import torch

import stator

from .harness import Program, Programs, check, t

programs = Programs()
LOG = []


def logged(fn):
    return programs(lambda: (t(3),), reset=LOG.clear, world=lambda: LOG, ops=["add"])(fn)


def items(x):
    try:
        yield x
        yield x
    finally:
        LOG.append("closed")


@contextlib.contextmanager
def block():
    LOG.append("in")
    try:
        yield
    finally:
        LOG.append("out")


@logged
def never_bound(x):
    first = next(items(x))
    LOG.append("after")
    return first + 1


@logged
def loop_left(x):
    for first in items(x):
        break
    LOG.append("after")
    return first + 1


@logged
def left_by_a_callee(x):
    def first():
        found = items(x)
        next(found)
        LOG.append("inside")
        return 1

    n = first()
    LOG.append("after")
    return x + n


@logged
def left_at_the_end(x):
    found = items(x)
    next(found)
    LOG.append("end")
    return x + 1


@logged
def deleted(x):
    found = items(x)
    next(found)
    del found
    LOG.append("after")
    return x + 1


@logged
def left_by_c_code(x):
    found = any(item is not None for item in items(x))
    pairs = list(zip([1], items(x), strict=False))
    LOG.append("after")
    return x + found, len(pairs)


@logged
def block_inside(x):
    def items():
        with block():
            yield x
            yield x

    for first in items():
        break
    LOG.append("after")
    return first + 1


@logged
def delegating(x):
    def outer():
        yield from items(x)

    first = next(outer())
    LOG.append("after")
    return first + 1


@logged
def before_a_change(x):
    counts = {}

    def items():
        try:
            yield 1
        finally:
            LOG.append(dict(counts))

    next(items())
    counts["a"] = 1
    return x + 1


class Step:
    def __await__(self):
        yield 1


@logged
def coroutine_left(x):
    async def work():
        try:
            await Step()
        finally:
            LOG.append("closed")

    found = work()
    found.send(None)
    LOG.append("end")
    return x + 1


def test_a_generator_lives_as_long_as_its_variable_across_breaks() -> None:
    def fn(x):
        found = items(x)
        next(found)
        stator.graph_break()
        LOG.append("end")
        return x + 1

    def call(run):
        LOG.clear()
        run(torch.ones(2))
        return list(LOG)

    compiled = stator.compile(fn, backend="eager")
    assert call(compiled) == call(compiled) == call(fn)


# ---------------------------------------------------------------------- what is thrown into them


class Quit(BaseException):
    pass


@logged
def thrown_past_exception(x):
    def items():
        with block():
            yield x

    found = items()
    next(found)
    try:
        found.throw(Quit(3))
    except Quit as error:
        LOG.append(error.args)
    return x + 1


@logged
def raised_past_exception(x):
    for kind in (Quit, KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(block())
                raise kind(1)
        except kind as error:
            LOG.append(error.args)
    return x + 1


@logged
def cancelled(x):
    async def work():
        with block():
            await Step()

    found = work()
    found.send(None)
    try:
        found.throw(asyncio.CancelledError("stop"))
    except asyncio.CancelledError as error:
        LOG.append(str(error))
    return x + 1


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


class _Sized:
    def __len__(self):
        stator.graph_break()
        return 2

    def __iter__(self):
        yield 1
        yield 2


def test_generators_that_die_with_a_trace_are_not_shown(monkeypatch, capfd):
    """C code has made one, asks for the length, which ends the trace, and lets it go."""

    def listed(x):
        return list(_Sized()), x * 2

    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    compiled = stator.compile(listed, backend="eager")
    x = torch.ones(2)
    assert repr(compiled(x)) == repr(listed(x))
    assert "Exception ignored" not in capfd.readouterr().err
