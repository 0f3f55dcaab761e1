# mypy: ignore-errors
"""What can't be captured soundly: an error under fullgraph; without, the program is split there.

The line that can't be captured ends in `# break`.
"""

import inspect
import io
import os
import threading
import time
import warnings

import pytest
import torch

import stator

from . import harness
from .harness import Program, Programs, Recording, call, t

programs = Programs()
STREAM = io.StringIO()


def one():
    return (t(3),)


@programs(one)
def reads_a_stream(x):
    y = x + 1
    text = STREAM.getvalue()  # break
    return y * 2, text


@programs(one)
def clock(x):
    time.sleep(0)  # break
    return x * 2


@programs(one)
def reads_a_file(x):
    with open(os.devnull) as file:  # break
        return x + len(file.read())


@programs(one)
def text_of_a_tensor(x):
    return len(f"{x}")  # break


@programs(lambda: (t(3), (n for n in (1, 2, 3))))
def generator_of_the_world(x, g):
    return x * next(g)  # break


@programs(one)
def starts_a_thread(x):
    done = []
    thread = threading.Thread(target=done.append, args=(1,))  # break
    thread.start()
    thread.join()
    return x + len(done)


def inner(x):
    y = x * 2
    STREAM.getvalue()  # deep
    return y


@programs(one)
def break_in_a_called_function(x):
    return inner(x + 1) + 1  # break


@programs(one)
def break_inside_try(x):
    try:
        STREAM.getvalue()  # break
        return x + 1
    finally:
        x.add_(1)


@programs(one)
def break_after_an_effect(x):
    x.add_(1)
    harness_log.append("before")
    STREAM.getvalue()  # break
    harness_log.append("after")
    return x * 2


harness_log = []


@programs(one, raises=ValueError)
def break_before_an_exception(x):
    STREAM.getvalue()  # break
    raise ValueError("after a break")


def fresh(program: Program) -> Program:
    """The same program with this file's state put back before each call."""

    def reset():
        STREAM.seek(0)
        STREAM.truncate()
        harness_log.clear()
        os.environ.pop("STATOR_TEST", None)

    return Program(
        program.name,
        program.fn,
        program.make,
        reset=reset,
        world=lambda: [STREAM.getvalue(), harness_log, os.environ.get("STATOR_TEST")],
    )


def breaking_line(fn) -> int:
    lines, start = inspect.getsourcelines(fn)
    (line,) = (n for n, text in enumerate(lines, start) if text.endswith("# break\n"))
    return line


@pytest.mark.parametrize("program", programs, ids=str)
def test_fullgraph_names_line_and_reason(program: Program) -> None:
    program = fresh(program)
    harness.reset_engine()
    compiled = harness.compile_with(program.fn, backend="eager", fullgraph=True)
    given = program.given(1)
    before = harness._seen(program, given)
    with pytest.raises(stator.CaptureError) as caught:
        compiled(*given.args, **given.kwargs)
    assert harness._seen(program, given) == before, "the trace had an effect"
    text = str(caught.value)
    assert f"test_19_breaks.py:{breaking_line(program.fn)}" in text
    assert program.name in text.splitlines()[0]
    assert len(text.splitlines()[0]) > len(program.name) + 40, "no reason is given"


@pytest.mark.parametrize("program", programs, ids=str)
def test_without_fullgraph_the_result_is_eagers(program: Program) -> None:
    changes = [None, None, *program.changes.values(), None]
    program = fresh(program)
    harness.reset_engine()
    backend = Recording()
    compiled = harness.compile_with(program.fn, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parts that run eagerly, such as threading's own
        for seed, change in enumerate(changes):
            expected = call(program, program.fn, seed, change)
            found = call(program, compiled, seed, change)
            assert found.lines == expected.lines
    again = len(backend.graphs)
    call(program, compiled, 0, None)
    assert len(backend.graphs) == again


def test_the_place_inside_a_called_function_is_named() -> None:
    harness.reset_engine()
    compiled = harness.compile_with(break_in_a_called_function, backend="eager", fullgraph=True)
    with pytest.raises(stator.CaptureError) as caught:
        compiled(t(3))
    lines, start = inspect.getsourcelines(inner)
    (deep,) = (n for n, text in enumerate(lines, start) if text.endswith("# deep\n"))
    assert f"test_19_breaks.py:{deep} in inner" in str(caught.value)


def test_print_keeps_its_output(capsys) -> None:
    def fn(x):
        print("before", x.shape)
        return x + 1

    harness.reset_engine()
    compiled = harness.compile_with(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            compiled(torch.ones(3))
    assert capsys.readouterr().out == "before torch.Size([3])\n" * 2
