# mypy: ignore-errors
"""Exceptions: raised, caught, chained, in finally and with; those of torch; those that leave.

PYTEST_DONT_REWRITE: the asserts in programs are theirs.
"""

import contextlib

import pytest
import torch

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


class Custom(Exception):
    def __init__(self, code, *details):
        super().__init__(code, *details)
        self.code = code

    def __str__(self):
        return f"custom {self.code}"


@programs(one, ops=["add"])
def caught(x):
    try:
        raise ValueError("no")
    except ValueError:
        return x + 1


@programs(one)
def caught_with_name(x):
    try:
        raise Custom(7, "detail")
    except Custom as error:
        return x * error.code, str(error), error.args


@programs(one)
def caught_by_base_class(x):
    try:
        [][3]
    except LookupError as error:
        return x + 1, type(error).__name__, str(error)


@programs(one)
def caught_by_tuple(x):
    try:
        {}["k"]
    except (ValueError, KeyError) as error:
        return x + 1, error.args


@programs(one)
def second_handler(x):
    try:
        int("no number")
    except TypeError:
        return x
    except ValueError as error:
        return x + 1, str(error)
    except Exception:
        return x + 2


@programs(one)
def else_and_finally(x):
    log = []
    try:
        y = x + 1
    except ValueError:
        log.append("except")
    else:
        log.append("else")
    finally:
        log.append("finally")
    return y, log


@programs(one)
def finally_overrides_return(x):
    def f():
        try:
            return 1
        finally:
            return 2  # noqa: B012

    return x * f()


@programs(one)
def finally_in_a_loop(x):
    log = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            x = x + i
        finally:
            log.append(i)
    return x, log


def fails(depth):
    if depth == 0:
        raise Custom(depth)
    fails(depth - 1)


@programs(one)
def raised_in_a_deep_call(x):
    try:
        fails(4)
    except Custom as error:
        return x + 1, error.code


@programs(one)
def reraised(x):
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            x = x + 1
            raise
    except ValueError as error:
        return x, str(error)


@programs(one)
def chained(x):
    try:
        try:
            raise ValueError("low")
        except ValueError as low:
            raise Custom(1) from low
    except Custom as error:
        return x + 1, str(error.__cause__), error.__suppress_context__


@programs(one)
def implicit_context(x):
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise KeyError("second")
    except KeyError as error:
        return x + 1, error.__context__.args, error.__cause__


@programs(one)
def from_none(x):
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            raise Custom(2) from None
    except Custom as error:
        return x + 1, error.__cause__, type(error.__context__).__name__


@programs(one)
def returned_exception(x):
    try:
        raise Custom(3, x + 1)
    except Custom as error:
        return error


@programs(one, raises=ValueError)
def leaves_the_function(x):
    y = x + 1
    raise ValueError(f"shape {tuple(y.shape)}")


@programs(one, raises=Custom)
def leaves_from_a_deep_call(x):
    fails(3)
    return x


@programs(one, raises=Custom)
def leaves_with_a_cause(x):
    try:
        {}["missing"]
    except KeyError as error:
        raise Custom(5) from error


@programs(one, raises=KeyError)
def leaves_with_a_context(x):
    try:
        raise ValueError("first")
    except ValueError:
        return {}["second"]


@programs(one, raises=ZeroDivisionError)
def leaves_through_finally(x):
    log = []
    try:
        return x / (1 // 0)
    finally:
        log.append("done")


@programs(lambda: (t(3), 0), raises=ZeroDivisionError, changes={"no error": lambda: (t(3), 2)})
def raises_for_some_arguments(x, n):
    return x * (6 // n)


@programs(lambda: (t(3), 2), changes={"error": lambda: (t(3), 0)})
def fails_for_other_arguments(x, n):
    return x * (6 // n)


@programs(one, raises=Custom)
def exception_with_a_tensor(x):
    raise Custom(1, x + 1)


@programs(one, dead=True)
def torch_error_is_caught(x):
    try:
        return x + torch.zeros(7)
    except RuntimeError:
        return x + 1


@programs(one, dead=True)
def torch_error_text(x):
    try:
        x.view(2, 2)
    except RuntimeError as error:
        return x + 1, str(error)


@programs(one, raises=RuntimeError)
def torch_error_leaves(x):
    y = x * 2
    return torch.matmul(y, torch.zeros(5, 5))


@programs(one, raises=TypeError)
def operator_error_leaves(x):
    return x + "text"


@programs(one, raises=AttributeError)
def attribute_error_leaves(x):
    return (x + 1).no_such


@programs(one)
def suppressed(x):
    with contextlib.suppress(KeyError):
        {}["a"]
        x = x * 100
    return x + 1


@contextlib.contextmanager
def converting():
    try:
        yield
    except KeyError as error:
        raise ValueError("converted") from error


@programs(one, raises=ValueError)
def converted_by_a_context_manager(x):
    with converting():
        {}["key"]
    return x


@programs(one)
def converted_and_caught(x):
    try:
        with converting():
            {}["key"]
    except ValueError as error:
        return x + 1, str(error), type(error.__cause__).__name__


@programs(one)
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, 1)
        stack.callback(log.append, 2)
        x = x + 1
    return x, log


@programs(one)
def stop_iteration_as_control(x):
    it = iter([1, 2])
    while True:
        try:
            x = x + next(it)
        except StopIteration:
            return x


@programs(one)
def exception_groups(x):
    seen = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        seen.append(len(group.exceptions))
    except* KeyError as group:
        seen.append(group.exceptions[0].args)
    return x + 1, seen


@programs(one)
def exception_variable_is_deleted(x):
    error = 1
    try:
        raise ValueError
    except ValueError as error:
        pass
    try:
        error
    except UnboundLocalError:
        return x + 1


@programs(one, raises=TypeError)
def raising_something_else(x):
    raise 3


@programs(one)
def notes(x):
    try:
        error = ValueError("a")
        error.add_note("note")
        raise error
    except ValueError as caught:
        return x + 1, caught.__notes__


@programs(one, raises=NotImplementedError)
def not_implemented(x):
    raise NotImplementedError


@programs(one, raises=StopIteration)
def stop_iteration_leaves(x):
    return next(iter([]))


@programs(one)
def error_in_a_handler_is_caught_outside(x):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            raise IndexError(2)
        finally:
            x = x + 1
    except IndexError as error:
        return x, error.args


@programs(one)
def asserts_are_caught(x):
    try:
        assert x.shape[0] == 99, "wrong"
    except AssertionError as error:
        return x + 1, str(error)


@programs(lambda: (t(3), "7"), changes={"bad number": lambda: (t(3), "x")})
def fallback_on_error(x, text):
    try:
        n = int(text)
    except ValueError:
        n = -1
    return x * n


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
