# mypy: ignore-errors
"""The first reason in a report is the cause: it names what the program calls, and the user's line.

Each program has one cause, in a line with `# cause`. What follows from the split (an iterator that
is older than the rest of its loop, a file that was opened before) is behind it, if told at all.
"""

import array
import ctypes
import datetime
import functools
import gc
import io
import itertools
import json
import logging
import os
import pickle
import queue
import random
import re
import socket
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest
import torch
from torch import nn

import stator
from stator.cli.summary import Summary
from stator.diagnostics.breaks import concise

PROGRAMS = {}
LINES = Path(__file__).read_text().splitlines()


def cause(words, id):
    """Enters a program: what the reason must say, and its number."""

    def enter(program):
        PROGRAMS[program.__name__] = program, words, id
        return program

    return enter


def slow(x):
    time.sleep(0)  # cause
    return x + 1


# ---------------------------------------------------------------------- loops


@cause("time.sleep", "SB0007")
def sleep_in_a_loop(x):
    for i in range(3):
        x = x + i
        time.sleep(0)  # cause
    return x


@cause("time.sleep", "SB0007")
def an_iterator_by_hand(x):
    numbers = (abs(i) for i in range(3))
    while True:
        try:
            i = next(numbers)
        except StopIteration:
            return x
        x = slow(x) + i


@cause("time.sleep", "SB0007")
def over_a_generator(x):
    for i in (2 * i for i in range(3)):
        x = slow(x) + i
    return x


@cause("time.sleep", "SB0007")
def over_pairs(x):
    for i, (name, value) in zip(itertools.count(), {"a": 1, "b": 2}.items(), strict=False):
        x = slow(x) + i + value + len(name)
    return x


@cause("time.sleep", "SB0007")
def in_a_comprehension(x):
    return [x + (time.sleep(0) or i) for i in range(3)]  # cause


@cause("time.sleep", "SB0007")
def in_a_generator(x):
    def numbers():
        for i in range(2):
            time.sleep(0)  # cause
            yield i

    for i in numbers():
        x = x + i
    return x


class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = slow(layer(x))
        return x


MODEL = Slow()


@cause("time.sleep", "SB0007")
def over_layers(x):
    return MODEL(x)


# ---------------------------------------------------------------------- called from C


def waited(value):
    time.sleep(0)  # cause
    return value


@cause("time.sleep", "SB0007")
def as_a_key(x):
    return x + sorted([3, 1, 2], key=waited)[0]


@cause("time.sleep", "SB0007")
def in_map(x):
    return x + sum(map(waited, [1, 2, 3]))


@cause("time.sleep", "SB0007")
def in_reduce(x):
    return functools.reduce(lambda a, b: slow(a) + b, [1, 2], x)


class Manager:
    def __enter__(self):
        time.sleep(0)  # cause
        return self

    def __exit__(self, *args):
        return False


@cause("time.sleep", "SB0007")
def a_context_manager(x):
    with Manager():
        return x * 2


@cause("time.sleep", "SB0007")
def in_a_coroutine(x):
    async def run():
        return slow(x)

    running = run()
    try:
        running.send(None)
    except StopIteration as done:
        return done.value


@cause("time.sleep", "SB0007")
def behind_an_exception(x):
    try:
        raise KeyError(slow(x))
    except KeyError as error:
        return error.args[0]


# ---------------------------------------------------------------------- the world outside


@cause("time.time", "SB0007")
def a_clock(x):
    return x * 2, time.time() > 0  # cause


@cause("datetime.now", "SB0007")
def a_date(x):
    return x * 2, datetime.datetime.now().year > 0  # cause


@cause("open", "SB0006")
def a_file(x):
    with open(os.devnull, "w") as file:  # cause
        file.write("written")
    return x + 1


@cause("torch.save", "SB0006")
def a_checkpoint(x):
    torch.save(x, io.BytesIO())  # cause
    return x * 2


@cause("gethostname", "SB0006")
def a_network(x):
    return x + 1, socket.gethostname()  # cause


@cause("urandom", "SB0006")
def a_name(x):
    return x + 1, len(str(uuid.uuid4()))  # cause


@cause("umask", "SB0006")
def a_mask(x):
    os.umask(os.umask(0o22))  # cause
    return x + 1


@cause("getloadavg", "SB0006")
def a_load(x):
    return x + 1, len(os.getloadavg())  # cause


@cause("Popen", "SB0019")
def a_process(x):
    subprocess.run(["true"], check=True)  # cause
    return x + 1


@cause("thread", "SB0008")
def a_thread(x):
    thread = threading.Thread(target=len, args=([],))  # cause
    thread.start()
    thread.join()
    return x + 1


@cause("gc.freeze", "SB0010")
def the_collector(x):
    gc.freeze()  # cause
    return x + 1


class Finalized:
    def __del__(self):
        pass


@cause("Finalized is made, which has a finalizer", "SB0019")
def a_finalizer(x):
    Finalized()  # cause
    return x + 1


# ---------------------------------------------------------------------- objects from before


def _counting():
    yield from itertools.count()


COUNTING, NUMBERS = _counting(), (k for k in range(1000))
QUEUE, BUFFER = queue.SimpleQueue(), memoryview(array.array("d", [1.0]))


@cause("next reads an object of type generator", "SB0018")
def a_generator_from_outside(x):
    return x + next(COUNTING) * 0  # cause


@cause("next reads an object of type generator", "SB0018")
def a_generator_in_a_loop(x):
    for _ in range(2):
        x = x + next(NUMBERS) * 0  # cause
    return x


@cause("SimpleQueue is read: put", "SB0017")
def a_queue(x):
    QUEUE.put(1)  # cause
    return x + 1


@cause("an item of an object of type memoryview is set", "SB0017")
def a_view_of_an_array(x):
    BUFFER[0] = 2.0  # cause
    return x + 1


@cause("ctypes", "SB0005")
def a_c_extension(x):
    return x * ctypes.pythonapi.Py_IsInitialized()  # cause


# ---------------------------------------------------------------------- values and operators


@cause("drawn at random", "SB0014")
def a_random_key(x):
    return x, {0: "a", 1: "b"}[random.randint(0, 1)]  # cause


@cause("read from a tensor", "SB0014")
def a_key_from_a_tensor(x):
    return x, {0: "a", 4: "b"}[int(x.sum())]  # cause


@cause("shuffle", "SB0033")
def a_shuffled_list(x):
    numbers = [1, 2, 3]
    random.shuffle(numbers)  # cause
    return x * (numbers[0] > 0)


@cause("text that mentions a tensor", "SB0016")
def a_text(x):
    return x, f"{x}".upper()  # cause


@cause("getattr reads", "SB0016")
def a_name_from_a_tensor(x):
    return x, getattr(torch, "float" + str(int(x.sum()) * 8))  # cause


@cause("Encoder", "SB0014")
def as_json(x):
    return x, json.dumps({"a": x.tolist()})  # cause


@cause("Tensor.__reduce_ex__", "SB0014")
def as_a_pickle(x):
    return x, len(pickle.dumps(x))  # cause


@cause("data_ptr", "SB0027")
def an_address(x):
    return x, x.data_ptr() != 0  # cause


@cause("torch.jit", "SB0035")
def another_compiler(x):
    return torch.jit.trace(lambda value: value + 1, (x,))(x)  # cause


@cause("please", "SB0001")
def asked_for(x):
    for _ in range(2):
        stator.graph_break("please")  # cause
        x = x + 1
    return x


@stator.disable
def disabled(x):
    return x + 1


@cause("disabled", "SB0003")
def a_disabled_function(x):
    for _ in range(2):
        x = disabled(x)  # cause
    return x


LIBRARY = torch.library.Library("stator_causes", "DEF")
LIBRARY.define("unknown(Tensor x) -> Tensor")
LIBRARY.impl("unknown", lambda x: x + 1, "CPU")


@cause("stator_causes.unknown", "SB0031")
def an_operator_without_a_fake_kernel(x):
    return torch.ops.stator_causes.unknown(x) * 2  # cause


# ---------------------------------------------------------------------- tests


def is_cause(place):
    return place.file == __file__ and "# cause" in LINES[place.line - 1]


def check(reason, words, places):
    assert words in reason
    assert len(reason.splitlines()) <= 3, reason
    assert not re.search(r"frame #\d|\.cpp:|\bu\d+\b", reason), reason
    assert any(map(is_cause, places)), places


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    random.seed(0)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_reason_is_the_cause(name):
    program, words, id = PROGRAMS[name]
    explained = stator.explain(program)
    told = explained(torch.ones(4))
    first = told.breaks[0]
    check(first.reason, words, first.stack)
    assert first.id == id
    assert is_cause(first.place)
    shown = str(first).splitlines()
    assert shown[0] == first.reason.splitlines()[0]
    assert any("# cause" in line for line in shown[:5]), shown
    assert len(shown) < 15
    for _ in range(2):  # and of later calls nothing else is told first
        explained(torch.ones(4))
    summary = Summary.of(told.events)
    split, _ = summary.ranked()[0]
    assert words in split.reason
    assert "# cause" in LINES[int(re.search(r":(\d+) in ", split.place)[1]) - 1]
    assert next(summary.advice()).startswith(f"`stator why {id}`")


@pytest.mark.parametrize("name", PROGRAMS)
def test_so_is_that_of_the_error(name):
    program, words, id = PROGRAMS[name]
    with pytest.raises(stator.CaptureError) as caught:
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(4))
    check(caught.value.reason, words, caught.value.places)
    assert caught.value.id == id


def test_what_follows_from_a_split_says_so():
    told = stator.explain(an_iterator_by_hand)(torch.ones(4))
    _, second = told.breaks
    assert "next reads an object of type generator" in second.reason
    assert "remove that break first" in second.hint
    assert "this part of the program begins at line" in second.hint


def test_several_steps_at_one_line_are_one_break():
    told = stator.explain(a_queue)(torch.ones(4))
    assert len([part for part in told.parts if part.broken]) > 1  # to read `put`, and to call it
    assert len(told.breaks) == 1
    assert len(Summary.of(told.events).breaks) == 1


FROM_CPP = """\
mat1 and mat2 must be of one kind
Exception raised from common at ../aten/src/ATen/Common.cpp:31 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation) + 0xa8 (0x7f in libc10.so)
frame #1: c10::detail::torchCheckFail(char const*) + 0x6e (0x7f in libc10.so)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one line", "one line"),
        (FROM_CPP, "mat1 and mat2 must be of one kind"),
        (f"f failed: {FROM_CPP}", "f failed: mat1 and mat2 must be of one kind"),
        ("a\n\nb\n  c\nd\ne", "a\nb\n  c\n…"),
        ("x" * 400, "x" * 300 + "…"),
        ("bad\nTraceback (most recent call last):\n  File ...", "bad"),
    ],
)
def test_concise(text, expected):
    assert concise(text) == expected


def test_a_backtrace_of_cpp_is_not_told():
    LIBRARY.define("failing(Tensor x) -> Tensor")
    LIBRARY.impl("failing", lambda x: x + 1, "CPU")

    @torch.library.register_fake("stator_causes::failing", lib=LIBRARY)
    def _(x):
        raise NotImplementedError(FROM_CPP)

    told = stator.explain(lambda x: torch.ops.stator_causes.failing(x) * 2)(torch.ones(4))
    (found,) = told.breaks
    assert "failing" in found.reason
    assert "mat1 and mat2" in found.reason
    assert "frame #" not in str(told)


def test_the_log_names_the_cause_only(caplog):
    with caplog.at_level(logging.INFO, logger="stator.graph_breaks"):
        stator.compile(sleep_in_a_loop, backend="eager")(torch.ones(4))
    (line,) = [each.message for each in caplog.records if "graph break" in each.message]
    assert line.startswith("graph break: time.sleep ")
