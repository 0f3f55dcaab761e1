# mypy: ignore-errors
"""Coroutines that asyncio runs in the call: those that never have to wait are captured."""

import asyncio
import contextlib
import contextvars
import warnings

import pytest
import torch

import stator

from .harness import Programs, check, t
from .test_40_objects import agree

programs = Programs()
LEVEL = contextvars.ContextVar("LEVEL", default=2)
LOG = []


def one():
    return (t(3),)


def captured(fn):
    return programs(one, world=lambda: LOG, reset=LOG.clear)(fn)


class Resource:
    def __init__(self, name):
        self.name = name

    async def __aenter__(self):
        LOG.append(f"enter {self.name}")
        return self

    async def __aexit__(self, kind, error, traceback):
        LOG.append(f"exit {self.name} {kind and kind.__name__}")
        return kind is ValueError


@contextlib.asynccontextmanager
async def managed(name):
    LOG.append(f"enter {name}")
    try:
        yield name
    finally:
        LOG.append(f"exit {name}")


async def counted(limit):
    for number in range(limit):
        await asyncio.sleep(0)
        yield number


@captured
def plain(x):
    async def inner(y):
        return y + 1

    async def main():
        return await inner(x) * 2

    return asyncio.run(main())


@captured
def context_managers(x):
    async def main():
        async with Resource("a") as first, managed("b") as second:
            y = x + len(first.name) + len(second)
        async with Resource("c"):
            raise ValueError("suppressed")
        return y

    return asyncio.run(main())


@captured
def exit_stacks(x):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            first = await stack.enter_async_context(Resource("a"))
            await stack.enter_async_context(managed("b"))
            stack.callback(LOG.append, "callback")
            stack.push_async_exit(Resource("d"))
            return x * len(first.name)

    return asyncio.run(main())


@captured
def generators(x):
    async def main():
        total = 0
        async for number in counted(4):
            total += number
        return x + total, [number async for number in counted(3) if number]

    return asyncio.run(main())


@captured
def in_a_context_of_its_own(x):
    async def main():
        before = LEVEL.get()
        LEVEL.set(5)
        return x * LEVEL.get(), before

    return *asyncio.run(main()), LEVEL.get()


@captured
def exceptions_inside(x):
    async def failing():
        raise KeyError("inner")

    async def main():
        try:
            await failing()
        except KeyError as error:
            return x + 1, str(error)

    return asyncio.run(main())


@captured
def twice(x):
    async def main(number):
        await asyncio.sleep(0)
        return number

    return x + asyncio.run(main(1)) + asyncio.run(main(2))


@captured
def exceptions_that_leave(x):
    async def main():
        LOG.append("main")
        raise ValueError("left")

    try:
        return asyncio.run(main())
    except ValueError as error:
        return x + 1, str(error), error.__context__, error.__cause__


@programs(one, raises=KeyError)
def exceptions_that_leave_the_call(x):
    async def main():
        raise KeyError("left")

    asyncio.run(main())
    return x


@pytest.mark.parametrize("program", programs, ids=str)
def test_coroutines(program):
    check(program)


def _waits(x):
    async def main():
        await asyncio.sleep(0.001)
        return x + 1

    return asyncio.run(main())


def _task(x):
    async def inner():
        return x + 1

    async def main():
        return await asyncio.create_task(inner())

    return asyncio.run(main())


def _gathered(x):
    async def inner(number):
        LOG.append(number)
        await asyncio.sleep(0)
        LOG.append(number)
        return x + number

    async def main():
        return await asyncio.gather(inner(1), inner(2))

    return asyncio.run(main())


def _interrupted(x):
    async def main():
        raise KeyboardInterrupt

    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        return x + 1


def _half_way(x):
    async def main():
        async for number in counted(4):
            return x + number

    return asyncio.run(main())


def _nested(x):
    async def main():
        inner = counted(1).__anext__()
        try:
            return asyncio.run(inner)
        except RuntimeError as error:
            return x, str(error)
        except ValueError as error:
            return x, str(error)[:20]

    return asyncio.run(main())


@pytest.mark.parametrize("fn", [_waits, _task, _gathered, _interrupted, _half_way, _nested])
def test_what_is_not_captured(fn):
    agree(fn, one, ".", world=lambda: LOG, reset=LOG.clear)


def test_the_thread_has_no_loop_afterwards():
    async def main(y):
        return y + 1

    def program(x):
        return asyncio.run(main(x))

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for function in (program, compiled, compiled):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            asyncio.set_event_loop(loop := asyncio.new_event_loop())
        function(torch.ones(3))
        with pytest.raises(RuntimeError, match="no current event loop"):
            asyncio.get_event_loop()
        loop.close()


def test_loops_of_the_world():
    async def main(y):
        await asyncio.sleep(0)
        return y + 1

    def program(x, loop):
        return loop.run_until_complete(main(x))

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    loop = asyncio.new_event_loop()
    try:
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(3), loop), torch.full((3,), 2.0))
        assert compiled.statistics()["misses"] == 1
        loop.call_soon(LOG.append, "called")
        LOG.clear()
        with pytest.raises(stator.CaptureError):
            compiled(torch.ones(3), loop)
        assert not LOG
        open_ = stator.compile(program, backend="eager")
        assert torch.equal(open_(torch.ones(3), loop), torch.full((3,), 2.0))
        assert LOG == ["called"]
    finally:
        loop.close()
    with pytest.raises(RuntimeError, match="closed"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stator.compile(program, backend="eager")(torch.ones(3), loop)


def test_hooks_are_put_back():
    import sys

    before = sys.get_asyncgen_hooks()
    for fn in (_waits, _interrupted, generators):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stator.compile(fn, backend="eager")(torch.ones(3))
        assert sys.get_asyncgen_hooks() == before
