# mypy: ignore-errors
"""Breaks and exceptions: raised by the break, before it, behind it, and while one is handled."""

import sys

import pytest

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check
from .kinds import BREAK

constructs = Constructs()
LOG = []


def log():
    return list(LOG)


@constructs(reset=LOG.clear, world=log)
def try_except(x):
    try:
        y = BREAK(x * 2)
        LOG.append("passed")
    except ValueError as error:
        LOG.append(str(error))
        y = x * 3
    return y + 1


@constructs(reset=LOG.clear, world=log)
def try_else_finally(x):
    try:
        y = BREAK(x * 2)
    except (KeyError, ValueError) as error:
        y = x * 3
        LOG.append(type(error).__name__)
    else:
        y = y + BREAK(y)
        LOG.append("else")
    finally:
        LOG.append("finally")
        y = BREAK(x)
    return y * 2


@constructs(reset=LOG.clear, world=log)
def finally_only(x):
    try:
        y = x * 2
        return BREAK(y) + 1
    finally:
        LOG.append("finally")


@constructs(reset=LOG.clear, world=log)
def finally_breaks(x):
    try:
        raise KeyError("out")
    finally:
        LOG.append(BREAK(x * 2).shape)


@constructs(reset=LOG.clear, world=log)
def other_exception(x):
    try:
        y = BREAK(x * 2)
    except KeyError:
        y = x * 3
    return y + 1


@constructs()
def handler_breaks(x):
    try:
        raise KeyError("text")
    except KeyError as error:
        y = BREAK(x * 2)
        return y + 1, error.args


@constructs()
def handler_breaks_and_goes_on(x):
    try:
        {}["missing"]
    except KeyError:
        y = BREAK(x * 2)
    return y + 1, sys.exc_info()


@constructs()
def raised_behind_a_break(x):
    y = BREAK(x * 2)
    raise KeyError(len(y))


@constructs()
def raised_in_a_handler(x):
    try:
        raise KeyError("first")
    except KeyError:
        y = BREAK(x)
        raise IndexError(len(y))


@constructs()
def raised_from(x):
    try:
        raise KeyError("first")
    except KeyError as error:
        y = BREAK(x)
        raise IndexError(len(y)) from error


@constructs()
def bare_raise(x):
    try:
        raise KeyError("first")
    except KeyError:
        BREAK(x * 2)
        raise


@constructs()
def bare_raise_of_the_break(x):
    try:
        y = BREAK(x * 2)
    except ValueError:
        BREAK_HANDLED = x + 1
        raise
    return y


@constructs()
def exc_info(x):
    try:
        raise KeyError("first")
    except KeyError as error:
        before = sys.exc_info()[1] is error
        BREAK(x)
        after = sys.exc_info()[1] is error, sys.exc_info()[0]
    return before, after, sys.exc_info()[0], x + 1


@constructs()
def nested_handlers(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            y = BREAK(x)
            raise IndexError("outer") from None
    except IndexError as outer:
        z = BREAK(x * 2)
        return y + z, repr(outer.__context__), outer.__cause__


@constructs()
def handlers_around(x):
    try:
        raise KeyError("outer")
    except KeyError:
        try:
            raise IndexError("inner")
        except IndexError:
            y = BREAK(x)
            seen = sys.exc_info()[0]
        z = BREAK(y)
        return z, seen, sys.exc_info()[0]


def handling():
    return sys.exc_info()[0]


@constructs()
def handled_by_a_caller(x):
    def inner(x):
        y = BREAK(x * 2)
        return y, handling()

    try:
        raise KeyError("outer")
    except KeyError:
        y, seen = inner(x)
        return y + 1, seen


@constructs()
def caught_by_a_caller(x):
    def inner(x):
        y = BREAK(x * 2)
        return y + 1

    try:
        y = inner(x) * 2
    except ValueError as error:
        return str(error), x * 3, error.__traceback__ is not None
    return y


@constructs(reset=LOG.clear, world=log)
def passes_several_frames(x):
    def inner(x):
        try:
            return BREAK(x * 2) + 1
        finally:
            LOG.append("inner")

    def middle(x):
        try:
            return inner(x + 1) * 2
        except KeyError:
            LOG.append("not here")

    try:
        return middle(x) - 1
    except ValueError as error:
        LOG.append(str(error))
        raise RuntimeError("wrapped") from error


@constructs()
def context_of_the_break(x):
    try:
        raise KeyError("first")
    except KeyError:
        try:
            y = BREAK(x)
        except ValueError as error:
            return repr(error.__context__), x + 1
    return y


@constructs(whole=True)
def groups(x):
    try:
        raise ExceptionGroup("several", [KeyError("a"), IndexError("b")])
    except* KeyError as group:
        y = BREAK(x * 2)
        kept = group.exceptions
    except* IndexError:
        y = BREAK(x + y)
    return y + 1, len(kept)


@constructs()
def groups_that_remain(x):
    try:
        raise ExceptionGroup("several", [KeyError("a"), IndexError("b")])
    except* KeyError:
        x = BREAK(x * 2)


@constructs(reset=LOG.clear, world=log)
def loop_of_handlers(x):
    for i in range(3):
        try:
            x = BREAK(x * 2)
            if i == 1:
                continue
            raise KeyError(i)
        except KeyError as error:
            x = x + error.args[0]
        except ValueError:
            LOG.append(i)
        finally:
            LOG.append("finally")
    return x


@constructs()
def return_from_finally(x):
    try:
        raise KeyError("gone")
    finally:
        y = BREAK(x * 2)
        return y


@constructs()
def error_variable_is_gone(x):
    try:
        raise KeyError("gone")
    except KeyError as error:
        BREAK(x)
    try:
        error  # noqa: F821
    except UnboundLocalError as unbound:
        return str(unbound), x + 1


@constructs()
def error_is_kept(x):
    kept = None
    try:
        raise KeyError("kept")
    except KeyError as error:
        kept = error
    y = BREAK(x * 2)
    return y, kept.args, kept.__context__


@constructs()
def attributes_of_an_error(x):
    error = RuntimeError("made")
    error.data = x * 2
    error.add_note("noted")
    BREAK(x)
    raise error


@constructs(whole=True)
def operator_error(x):
    y = BREAK(x * 2)
    return y @ x[:2]


@constructs()
def operator_error_before(x):
    try:
        x @ x[:2]
    except RuntimeError as error:
        y = BREAK(x)
        return str(error), y
    return x


@constructs()
def zero_division(x):
    n = len(BREAK(x)) - 3
    return x / (1 // n)


@constructs()
def stop_iteration(x):
    numbers = iter([1])
    next(numbers)
    BREAK(x)
    try:
        return next(numbers)
    except StopIteration as stop:
        return stop.value, x + 1


@constructs(anew=True, whole=True)
def exception_class_made_here(x):
    class Special(Exception):
        pass

    try:
        BREAK(x)
        raise Special("made")
    except Special as error:
        return str(error), x + 1


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_exceptions(construct, kind, depth):
    check(construct, kind, depth)
