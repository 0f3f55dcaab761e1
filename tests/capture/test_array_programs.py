# mypy: ignore-errors
"""Generated programs that change numpy arrays in place: views, tensors on their memory, breaks.

Each is called in several worlds, in some of which the arguments share memory. Results, what is in
the arguments afterwards, which results share memory and which are the same object are eager's.
`STATOR_ARRAY_PROGRAMS` says how many programs there are.
"""

import linecache
import os
import random
import warnings

import numpy as np
import pytest
import torch

import stator

from .test_numpy_functions import difference, outcome

pytestmark = pytest.mark.usefixtures("leaves_no_trace")

COUNT = int(os.environ.get("STATOR_ARRAY_PROGRAMS", "8"))
CHANGES = [
    *(
        "{a}[0] = 1",
        "{a}[1] = 2.5",
        "{a}[0] = {b}[0]",
        "{a}[1] = {b}.sum()",
        "{a}[0] = {t}[0].item()",
    ),
    *(
        "{a}[1:] = 3",
        "{a}[:1] = {b}[:1]",
        "{a}[::2] = {b}.max()",
        "{a}[...] = {b}[:1]",
        "{a}.sort()",
    ),
    *("{a} += 1", "{a} -= {b}[:1]", "{a} *= {b}.mean()", "{a}[{a} > 0] = -1", "{a}[{a} > 1] = 7.5"),
    *(
        "np.add({a}, 1, out={a})",
        "np.multiply({a}, {b}[:1], out={a})",
        "{a}.fill(2)",
        "{t}.add_(1)",
    ),
    *(
        "{t}[0] = 9",
        "np.copyto({a}, {b}[:1])",
        "{a}[0], {a}[1] = {a}[1], {a}[0]",
        "log.append({a})",
    ),
    *("stator.graph_break()", "{a}[1] = float({b}[1])"),
]
ARRAYS = [
    *(
        "{a}[1:]",
        "{a} * 2",
        "{a}.copy()",
        "np.zeros(4)",
        "{a}.reshape(-1)",
        "np.concatenate(({a}, {b}))",
    ),
    *(
        "{t}.numpy()",
        "{a}[:2]",
        "np.ones_like({a})",
        "{a}[::2]",
        "np.array([1.0, 2.0, 3.0])",
        "{a}.T",
    ),
]
TENSORS = [
    *("torch.from_numpy({a})", "{t} * 2", "{t}[1:]", "torch.tensor({a})"),
    "torch.from_numpy({a}) + 1",
]


def source(seed):
    choose = random.Random(seed)
    arrays, tensors, lines = ["a", "b"], ["t"], []
    for number in range(choose.randint(2, 7)):
        names = {
            "a": choose.choice(arrays),
            "b": choose.choice(arrays),
            "t": choose.choice(tensors),
        }
        kind = choose.random()
        if kind < 0.6:
            lines.append(choose.choice(CHANGES).format(**names))
        elif kind < 0.85:
            lines.append(f"c{number} = {choose.choice(ARRAYS).format(**names)}")
            arrays.append(f"c{number}")
        else:
            lines.append(f"d{number} = {choose.choice(TENSORS).format(**names)}")
            tensors.append(f"d{number}")
    lines.append(f"return [{', '.join(arrays)}], [{', '.join(tensors)}]")
    return "\n    ".join(["def program(a, b, t, log):", *lines]) + "\n"


def apart(values):
    return values[:4].copy(), values[4:].copy(), torch.from_numpy(values[2:6].copy())


def the_same(values):
    a = values[:4].copy()
    return a, a, torch.from_numpy(values[2:6].copy())


def overlapping(values):
    return values[:4], values[2:6], torch.from_numpy(values[4:].copy())


def on_a_tensor(values):
    return values[:4], values[4:].copy(), torch.from_numpy(values[2:6])


def world(number):
    make = (apart, apart, the_same, overlapping, on_a_tensor, apart)[number]
    return (*make(np.random.default_rng(number).normal(size=8)), [])


def shared(values):
    """Which share memory, and which are the same object."""
    arrays = [each.numpy() if isinstance(each, torch.Tensor) else each for each in values]
    memory = [[np.shares_memory(one, other) for other in arrays] for one in arrays]
    return memory, [[one is other for other in values] for one in values]


@pytest.mark.parametrize("seed", range(COUNT))
def test_as_in_eager(seed):
    text, name = source(seed), f"<arrays {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np, "torch": torch, "stator": stator}
    exec(compile(text, name, "exec"), namespace)
    program = namespace["program"]
    for backend in ("eager", "aot_eager") if seed % 3 == 0 else ("eager",):
        stator.reset()
        compiled = stator.compile(program, backend=backend)
        for number in range(6):
            ours, theirs = world(number), world(number)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected, found = outcome(program, theirs), outcome(compiled, ours)
            where = f"{backend}, world {number}\n{text}"
            assert difference(expected, found) is None, where
            assert difference(list(theirs), list(ours)) is None, where
            if isinstance(expected, tuple):
                seen = shared([*expected[0], *expected[1], *theirs[:3]])
                assert shared([*found[0], *found[1], *ours[:3]]) == seen, where
