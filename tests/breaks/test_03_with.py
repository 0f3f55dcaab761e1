# mypy: ignore-errors
"""Breaks inside of `with`: managers that were entered stay entered, and are left as in eager."""

import contextlib
import threading

import pytest
import torch

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, t
from .kinds import BREAK

constructs = Constructs()
LOCK = threading.Lock()
RLOCK = threading.RLock()
LOG = []


def log():
    return list(LOG)


class Manager:
    """A user's manager that tells what happens to it."""

    def __init__(self, swallow=False):
        self.swallow = swallow

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        LOG.append(f"exit {kind and kind.__name__} {error}")
        return self.swallow


@contextlib.contextmanager
def generated(name):
    LOG.append(f"enter {name}")
    try:
        yield len(name)
    finally:
        LOG.append(f"exit {name}")


@constructs(reset=LOG.clear, world=log)
def user_manager(x):
    with Manager() as manager:
        y = BREAK(x * 2) + 1
    return y, manager.swallow


@constructs(reset=LOG.clear, world=log)
def user_manager_swallows(x):
    with Manager(swallow=True):
        y = x * 2
        x = BREAK(x + 1)
        raise KeyError(len(x))
    return x + y


@constructs(reset=LOG.clear, world=log)
def user_manager_and_an_error(x):
    with Manager():
        y = BREAK(x * 2)
        raise KeyError(len(y))


@constructs(reset=LOG.clear, world=log)
def return_inside(x):
    with Manager():
        y = x * 2
        return BREAK(y) + 1


@constructs(reset=LOG.clear, world=log)
def before_and_behind(x):
    y = BREAK(x)
    with Manager():
        y = y * 2
    return BREAK(y)


class Breaking:
    """A manager that breaks while it enters and leaves."""

    def __enter__(self):
        self.x = BREAK(torch.ones(3))
        return self.x

    def __exit__(self, kind, error, traceback):
        LOG.append(kind and kind.__name__)
        self.x = BREAK(self.x)


@constructs(reset=LOG.clear, world=log, whole=True)
def manager_that_breaks(x):
    manager = Breaking()
    with manager as y:
        z = BREAK(x) + y
    return z, manager.x


@constructs(reset=LOG.clear, world=log)
def contextmanager_function(x):
    with generated("abc") as n:
        y = BREAK(x * n)
    return y + 1


@constructs(reset=LOG.clear, world=log)
def contextmanager_and_an_error(x):
    try:
        with generated("abc") as n:
            y = BREAK(x * n)
            raise KeyError("inside")
    except KeyError as error:
        return str(error), y


@constructs(lambda: (t(3, grad=True),))
def no_grad(x):
    with torch.no_grad():
        y = x * 2
        z = BREAK(y) * x
    return y.requires_grad, z.requires_grad, (z * x).requires_grad


@constructs(lambda: (t(3, grad=True),), backward=True)
def no_grad_ends(x):
    with torch.no_grad():
        y = BREAK(x) * 2
    return (y * x).sum()


@constructs(lambda: (t(3, grad=True),))
def enable_grad_inside(x):
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = BREAK(x * 2)
        w = BREAK(x) * 2
    return y.requires_grad, z.requires_grad, w.requires_grad


@constructs(lambda: (t(3, grad=True),))
def grad_mode_left_changed(x):
    torch.set_grad_enabled(False)
    y = BREAK(x) * 2
    return y.requires_grad


@constructs(lambda: (t(3, 3),))
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        z = BREAK(x) @ x
    return y.dtype, z.dtype, (z.float() @ x).dtype


@constructs()
def suppress(x):
    with contextlib.suppress(ValueError, KeyError):
        x = x * 2
        x = BREAK(x)
        raise KeyError("gone")
    return x + 1


@constructs(reset=LOG.clear, world=log)
def exit_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager())
        stack.callback(LOG.append, "called back")
        x = BREAK(x * 2)
        stack.enter_context(Manager())
        x = BREAK(x + 1)
    return x


@constructs(whole=True)
def lock(x):
    with LOCK:
        y = BREAK(x * 2)
        held = LOCK.locked()
    return y + 1, held, LOCK.locked()


@constructs(whole=True)
def lock_and_an_error(x):
    with RLOCK, LOCK:
        x = BREAK(x)
        raise KeyError("inside")


@constructs(reset=LOG.clear, world=log)
def several(x):
    with Manager() as a, Manager(), torch.no_grad():
        y = BREAK(x) * 2
    return y, a.swallow


@constructs(reset=LOG.clear, world=log)
def nested(x):
    with Manager():
        y = BREAK(x)
        with Manager(swallow=True):
            y = BREAK(y) * 2
            raise IndexError(1)
        y = BREAK(y) + 1
    return y


@constructs(reset=LOG.clear, world=log)
def in_a_loop(x):
    for i in range(3):
        with Manager():
            if i == 1:
                continue
            x = BREAK(x + i)
    return x


@constructs(reset=LOG.clear, world=log)
def loop_inside(x):
    with Manager():
        for i in range(3):
            x = BREAK(x * 2) + i
            if i == 1:
                break
    return x


@constructs(reset=LOG.clear, world=log)
def managers_of_callers(x):
    def inner(x):
        with Manager():
            return BREAK(x * 2) + 1

    with Manager(), torch.no_grad():
        y = inner(x) * 2
    return y


@constructs()
def null_context(x):
    with contextlib.nullcontext(3) as n:
        x = BREAK(x * n)
    return x


@constructs(anew=True, whole=True)
def closing(x):
    class Resource:
        closed = False

        def close(self):
            self.closed = True

    with contextlib.closing(Resource()) as resource:
        x = BREAK(x * 2)
    return x, resource.closed


@constructs()
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        z = BREAK(y) + 1
    return y.is_inference(), z.is_inference()


@constructs()
def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(2)
        BREAK(x)
        z = torch.ones(2)
    finally:
        torch.set_default_dtype(torch.float32)
    return y, z, torch.ones(2)


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_with(construct, kind, depth):
    check(construct, kind, depth)
