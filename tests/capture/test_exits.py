# mypy: ignore-errors
"""`sys.exit` raises an exception, which the program may handle, and which else leaves the call."""

import sys

import pytest
import torch

import stator

DONE = []


def handled(x):
    found = []
    for code in (None, 3, "text", (1, 2), SystemExit(4)):
        try:
            sys.exit(code)
        except SystemExit as end:
            found.append((end.code, end.args, end.__context__))
    return x + 1, found


def without_a_code(x):
    try:
        sys.exit()
    except SystemExit as end:
        return x + 1, end.code, end.args


def with_two(x):
    try:
        sys.exit(1, 2)
    except TypeError as error:
        return x + 1, str(error)


def with_a_tensor(x):
    try:
        sys.exit(x + 1)
    except SystemExit as end:
        return end.code


def while_handling(x):
    try:
        try:
            raise KeyError(3)
        except KeyError:
            sys.exit(5)
    except SystemExit as end:
        return x + 1, repr(end.__context__)


@pytest.mark.parametrize(
    "program", [handled, without_a_code, with_two, with_a_tensor, while_handling]
)
def test_handled(program) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(program(torch.ones(1)))
    assert stator.testing.count(compiled) == (1, 1)


def test_not_handled() -> None:
    def leave(code):
        try:
            sys.exit(code)
        finally:
            DONE.append("left")

    def program(x):
        DONE.append((x + 1).sum())
        leave("bye")

    def lines(error):
        found, step = [], error.__traceback__.tb_next
        while step is not None:
            found.append((step.tb_frame.f_code.co_name, step.tb_lineno))
            step = step.tb_next
        return found

    outcomes = []
    for function in (program, *[stator.compile(program, backend="eager", fullgraph=True)] * 2):
        DONE.clear()
        with pytest.raises(SystemExit) as raised:
            function(torch.ones(1))
        outcomes.append((raised.value.args, lines(raised.value), repr(DONE)))
    assert outcomes[0] == outcomes[1] == outcomes[2]
