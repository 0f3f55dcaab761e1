# mypy: ignore-errors
"""What a program shows: `print`, `logging`, `warnings`. One graph, and eager's output, in order."""

import contextlib
import dataclasses
import functools
import io
import logging
import pprint
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch

import stator

from . import harness
from .harness import Program, Programs, Recording, module, t

shown = Programs()


def one():
    return (t(3),)


def trained():
    return (t(3, grad=True),)


class Shouting:
    def __init__(self, x):
        self.x = x

    def __str__(self):
        return f"SHOUT {self.x}!"

    def __repr__(self):
        return f"Shouting({self.x!r})"


class Refusing:
    def __str__(self):
        raise ValueError("no text")


@dataclasses.dataclass
class Point:
    where: object
    name: str = "p"


class Name(str):
    def __str__(self):
        return Name("again")


ITEMS = [1]


def reset():
    ITEMS[:] = [1]


# --- print


@shown(one)
def prints_constants(x):
    print("a", 1, 2.5, None, (1, "b"), sep=" | ", end="!\n")
    print()
    print("flushed", flush=True)
    return x + 1


@shown(one)
def prints_tensors(x):
    y = x * 2
    print("x", x, "y", y, y.sum(), y.shape, y.dtype)
    print(x.view(3, 1) + torch.zeros(30), x.to(torch.int64), x > 0)
    return y


@shown(one)
def prints_containers(x):
    print([x, x + 1], {"a": (x,)}, Point(x), Shouting(x), [Shouting([x])])
    print(*(f"{i}: {v}" for i, v in enumerate(x)), sep=", ")
    return x + 1


@shown(one)
def prints_in_a_loop(x):
    for i in range(4):
        x = x * 2
        if i % 2:
            print(i, x)
    return x


@shown(one)
def prints_the_value_of_the_moment(x):
    y = x + 1
    print(y)
    y.add_(1)
    print(y, x)
    y[0] = 7
    x.mul_(2)
    print(y, x, x[1:])
    x.zero_()
    return y


@shown(one)
def prints_a_view_that_is_changed_through_its_base(x):
    y = x.clone()
    z = y[1:]
    print(z)
    y.mul_(3)
    print(z)
    w = y.detach()
    w.add_(1)
    return y


@shown(one, reset=reset)
def prints_objects_that_change_later(x):
    print(ITEMS)
    ITEMS.append(2)
    point = Point(3)
    print(ITEMS, point)
    point.name = "q"
    ITEMS.clear()
    print(ITEMS, point)
    return x + 1


@shown(one, raises=RuntimeError)
def prints_before_an_exception(x):
    print("before", x)
    raise RuntimeError(f"with {x + 1}")


@shown(one)
def prints_half_a_line(x):
    try:
        print("a", x, Refusing(), "b", sep="-")
    except ValueError as error:
        print("caught", error)
    try:
        print(Refusing())
    except ValueError:
        print("nothing of it")
    try:
        print("c", sep=1)
    except TypeError as error:
        print(error)
    return x + 1


@shown(one)
def prints_to_files(x):
    print("to stderr", x, file=sys.stderr)
    print("explicitly", file=sys.stdout)
    with contextlib.redirect_stdout(io.StringIO()) as caught:
        print("mine")
    sys.stdout.write("written ")
    sys.stdout.write(f"{x}\n")
    sys.stderr.write(caught.getvalue())
    sys.stdout.flush()
    return x + sys.stdout.write("four")


@shown(one)
def prints_strings_of_a_class_of_their_own(x):
    print(Name("once"), [Name("in a list")])
    return x + 1


@shown(one)
def prints_with_formats(x):
    s = x.sum()
    print(f"{s:.3f} {s} {x!r} {x=} {x!s:>60}|")
    print("%s %r %.2f %5d%% %-30s|" % (x, [x], s, 3, x))
    print("{} {:.1f} {a!r} {b[0]} {c.shape}".format(x, s, a=x, b=[x], c=x))
    print(", ".join(["a", str(x), repr(x)]) + f" {x}")
    return s


@shown(one)
def prints_sizes_that_depend_on_values(x):
    y = x[x > 0]
    print(y.shape, y.shape[0], f"{len(y):03d}", [y.shape[0]], y)
    return y


@shown(one)
def prints_numbers_that_are_values(x):
    print(x.sum().item(), f"{x[0].item():.2f}", x.tolist())
    return x + 1


@shown(one)
def prints_prettily(x):
    pprint.pprint({"a": ["b" * 40, "c" * 40], "d": 1})
    return x + 1


@shown(trained)
def prints_what_requires_grad(w):
    y = w * 2
    z = torch.relu(y + 1)
    print(w, y, z.view(3, 1), z.sum(), y.detach())
    with torch.no_grad():
        print(w * 3)
    print(f"{z.sum()} {z.sum():.2f}")
    return z.sum()


@shown(lambda: (module(torch.nn.Linear, 3, 2), t(4, 3)))
def prints_parameters(linear, x):
    print(linear)
    print(linear.weight, [linear.bias])
    y = linear(x)
    print(y)
    return y


@shown(lambda: (module(torch.nn.BatchNorm1d, 3), t(4, 3)))
def prints_statistics_that_change(norm, x):
    print(norm.running_mean)
    y = norm(x)
    print(norm.running_mean, norm.num_batches_tracked)
    return y


@shown(one)
def prints_in_called_functions(x):
    def inner(v):
        print("inner", v)
        return v + 1

    list(map(print, ["mapped", x]))
    functools.partial(print, "partial", sep="")(x)
    return sum(map(inner, [x, x * 2]))


# --- logging

LOG = logging.getLogger("stator.tests.output")
LOG.propagate = False
LOG.setLevel(logging.INFO)


class Writing(logging.Handler):
    """Writes to whatever sys.stderr is."""

    def emit(self, record):
        print(self.format(record), file=sys.stderr)


_handler = Writing()
_handler.setFormatter(
    logging.Formatter("%(name)s %(levelname)s %(filename)s:%(lineno)d %(funcName)s: %(message)s")
)
LOG.addHandler(_handler)


@shown(one)
def logs(x):
    LOG.debug("not this %s", x)
    LOG.info("x is %s, %d %s", x, 3, "c")
    LOG.warning(f"text {x * 2}")
    LOG.error("objects %s %r", [x], Shouting(x))
    LOG.log(25, "%(a)s and %(b).1f", {"a": x, "b": 2})
    LOG.info(Shouting(1))
    return x + 1


@shown(trained)
def logs_tensors_as_they_look(w):
    y = w + 1
    LOG.info("%s %s", w, y)
    LOG.info("scalar %.3f", y.detach().sum())
    return y


def _from_here(x):
    LOG.info("helper")
    LOG.info("its caller", stacklevel=2)
    LOG.info("the caller of that", stacklevel=3)


@shown(one)
def logs_places(x):
    _from_here(x)
    list(map(_from_here, [1]))
    return x + 1


@shown(one)
def logs_with_an_adapter(x):
    adapter = logging.LoggerAdapter(LOG, {"user": "me"})
    adapter.info("adapted %s", x)
    return x + 1


@shown(one)
def logs_exceptions(x):
    try:
        raise KeyError("k")
    except KeyError as error:
        LOG.exception("failed with %s", x)
        LOG.info("again", exc_info=error)
    LOG.info("no error", exc_info=False)
    return x + 1


@shown(one)
def logs_what_changes_later(x):
    items = [1]
    LOG.info("items %s", items)
    items.append(2)
    LOG.info("items %s %s", items, x)
    x.add_(1)
    return x


# --- warnings


@shown(one)
def warns(x):
    warnings.warn("plain")
    warnings.warn(f"tensor {x}", RuntimeWarning)
    warnings.warn(FutureWarning("an instance"))
    for _ in range(2):
        warnings.warn("in a loop", stacklevel=1)
    return x + 1


def _warns_its_caller():
    warnings.warn("its caller", stacklevel=2)
    warnings.warn("a caller of the function", stacklevel=3)


@shown(one)
def warns_callers(x):
    _warns_its_caller()
    warnings.warn_explicit("explicit", UserWarning, "some_file.py", 3)
    return x + 1


@shown(one)
def warns_with_its_own_filters(x):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("always")
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("once per place")
        warnings.simplefilter("once")
        for _ in range(2):
            warnings.warn("once")
        warnings.simplefilter("ignore")
        warnings.warn("ignored")
    warnings.warn("afterwards")
    return x + 1


@shown(one)
def warns_into_a_list(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("collected")
    print(len(caught), caught[0].lineno, caught[0].message)
    return x + 1


@shown(one)
def everything_in_order(x):
    print("1", x)
    LOG.info("2")
    warnings.warn("3")
    sys.stderr.write("4\n")
    print("5", x + 1, file=sys.stderr)
    return x + 1


# --- functions with a cache


@functools.lru_cache(None)
def say_once(text):
    print("once:", text)


def _deep(text):
    print("deep:", text)


@functools.lru_cache(None)
def say_deeper(text):
    _deep(text)


@functools.lru_cache(None)
def _warning_once(self, *args, **kwargs):
    self.warning(*args, **kwargs)


class OnceLogger(logging.Logger):
    warning_once = _warning_once


ONCE = OnceLogger("stator.tests.once")
ONCE.addHandler(_handler)


@shown(one)
def speaks_once(x):
    say_once("a")
    say_once("b")
    say_once("a")
    say_deeper("a")
    say_deeper("a")
    ONCE.warning_once("only once")
    ONCE.warning_once("and %s", 3)
    ONCE.warning_once("only once")
    return x + 1


def _showwarning(message, category, filename, lineno, file=None, line=None):
    """As Python's own, which pytest has replaced."""
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _output(program: Program, fn, calls: int) -> list[str]:
    """What some calls show, each in a fresh state of what was shown before."""
    say_once.cache_clear()
    say_deeper.cache_clear()
    _warning_once.cache_clear()
    globals().pop("__warningregistry__", None)
    harness.__dict__.pop("__warningregistry__", None)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = _showwarning
        for seed in range(calls):
            out, err = io.StringIO(), io.StringIO()
            both = contextlib.ExitStack()
            with both:
                both.enter_context(contextlib.redirect_stdout(out))
                both.enter_context(contextlib.redirect_stderr(err))
                given = program.given(seed)
                try:
                    fn(*given.args)
                except RuntimeError as error:
                    assert program.raises is RuntimeError, error
                    print(error)
            found += [out.getvalue(), err.getvalue()]
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", shown, ids=str)
def test_output_is_eagers(program: Program, backend: str) -> None:
    expected = _output(program, program.fn, 3)
    assert any(expected)
    graphs = Recording()

    def count(graph, inputs):
        graphs(graph, inputs)
        return stator.backends.lookup(backend)(graph, inputs)

    harness.reset_engine()
    compiled = stator.compile(program.fn, backend=count, fullgraph=True)
    assert _output(program, compiled, 3) == expected
    assert len(graphs.graphs) <= 1
    assert compiled.statistics()["misses"] == 1
    if program.reset is not None:
        program.reset()


@pytest.mark.parametrize("program", shown, ids=str)
def test_a_trace_shows_nothing(program: Program) -> None:
    def refuse(graph, inputs):
        raise harness.RefusedError

    harness.reset_engine()
    compiled = stator.compile(program.fn, backend=refuse, fullgraph=True)
    out, err = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(Exception, match=r".*") as caught,
    ):
        warnings.simplefilter("default")
        warnings.showwarning = _showwarning
        compiled(*program.given(1).args)
    if program.raises is None:
        assert any(type(error) is harness.RefusedError for error in harness._chain(caught.value))
        assert (out.getvalue(), err.getvalue()) == ("", "")


# --- what only a part of the machinery shows


def test_print_goes_where_stdout_is_at_run_time(capsys) -> None:
    compiled = stator.compile(prints_tensors, fullgraph=True, backend="eager")
    with contextlib.redirect_stdout(io.StringIO()):
        compiled(torch.ones(3))
    assert capsys.readouterr().out == ""
    compiled(torch.zeros(3))
    seen = capsys.readouterr().out
    prints_tensors(torch.zeros(3))
    assert seen == capsys.readouterr().out
    assert compiled.statistics() == {"hits": 1, "misses": 1}


def test_records_have_values_and_places(caplog) -> None:
    logger = logging.getLogger("stator.tests.records")

    def fn(x):
        y = x * 2
        logger.warning("a %s b %d", y, 3, extra={"field": "value"})
        return y

    compiled = stator.compile(fn, fullgraph=True, backend="eager")
    compiled(torch.ones(2))
    fn(torch.ones(2))
    found, expected = caplog.records
    assert type(found.args[0]) is torch.Tensor
    assert torch.equal(found.args[0], expected.args[0])
    for name in ("name", "msg", "levelname", "pathname", "lineno", "funcName", "field", "thread"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.getMessage() == expected.getMessage()


def test_levels_are_guarded(caplog) -> None:
    logger = logging.getLogger("stator.tests.levels")

    def fn(x):
        logger.info("told")
        return x + 1

    def told():  # torch has loggers of its own
        return [record for record in caplog.records if record.name == logger.name]

    compiled = stator.compile(fn, fullgraph=True, backend="eager")
    logger.setLevel(logging.ERROR)
    compiled(torch.ones(2))
    assert told() == []
    logger.setLevel(logging.INFO)
    for _ in range(2):
        compiled(torch.ones(2))
    assert len(told()) == 2
    assert compiled.statistics()["misses"] == 2
    logging.disable(logging.CRITICAL)
    try:
        compiled(torch.ones(2))
    finally:
        logging.disable(logging.NOTSET)
    assert len(told()) == 2


class OwnRecords(logging.Logger):
    def makeRecord(self, *args, **kwargs):  # noqa: N802
        return super().makeRecord(*args, **kwargs)


def test_a_logger_that_makes_its_own_records_breaks() -> None:
    logger = OwnRecords("own")

    def fn(x):
        logger.error("told")
        return x + 1

    with pytest.raises(stator.CaptureError, match="makeRecord"):
        stator.compile(fn, fullgraph=True, backend="eager")(torch.ones(2))


def test_warnings_are_recorded(recwarn) -> None:
    def fn(x):
        warnings.warn(f"about {x}", UserWarning, stacklevel=1)
        return x + 1

    fn(torch.ones(1))
    stator.compile(fn, fullgraph=True, backend="eager")(torch.ones(1))
    expected, found = recwarn
    assert str(found.message) == str(expected.message) == "about tensor([1.])"
    assert (found.filename, found.lineno) == (expected.filename, expected.lineno)
    assert found.category is UserWarning


def test_filters_that_raise_are_guarded() -> None:
    def fn(x):
        try:
            warnings.warn("maybe", UserWarning)
        except UserWarning:
            return x - 1
        return x + 1

    compiled = stator.compile(fn, fullgraph=True, backend="eager")
    for action, result in (("ignore", 2.0), ("error", 0.0), ("always", 2.0), ("error", 0.0)):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            assert compiled(torch.ones(1)).item() == result


def test_a_filter_that_would_raise_depending_on_the_text_breaks() -> None:
    def fn(x):
        warnings.warn(f"about {x}", UserWarning)
        return x + 1

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="about tensor")
        with pytest.raises(stator.CaptureError, match="text of a warning"):
            stator.compile(fn, fullgraph=True, backend="eager")(torch.ones(1))


@functools.lru_cache(None)
def count_and_say(text):
    ITEMS.append(text)
    print(text)


@functools.lru_cache(None)
def answer_and_say(text):
    print(text)
    return 3


@pytest.mark.parametrize("cached", [count_and_say, answer_and_say])
def test_functions_with_a_cache_that_do_more_break(cached, capsys) -> None:
    def fn(x):
        cached("a")
        return x + 1

    before = cached.cache_info()
    with pytest.raises(stator.CaptureError, match="cache"):
        stator.compile(fn, fullgraph=True, backend="eager")(torch.ones(1))
    assert capsys.readouterr().out == ""
    assert cached.cache_info() == before
    assert ITEMS == [1]


def test_the_cache_of_a_method_is_filled_behind_the_graph() -> None:
    class Cached:
        @functools.lru_cache(None)  # noqa: B019
        def double(self, y):
            return y * 2

    cached = Cached()

    def fn(x):
        return x + cached.double(3)

    compiled = stator.compile(fn, fullgraph=True, backend="eager")
    for hits in range(3):
        assert compiled(torch.ones(1)).item() == 7
        assert Cached.double.cache_info() == (hits, 1, None, 1)


def test_output_of_a_region_breaks() -> None:
    def body(x):
        print("inside")
        return x * 2

    def fn(x):
        return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)

    with pytest.raises(stator.CaptureError, match="region"):
        stator.compile(fn, fullgraph=True, backend="eager")(t(3, grad=True))


def test_gradients_flow_past_what_is_shown(capsys) -> None:
    def fn(w):
        y = w * 2
        print(y)
        z = y * y
        print(z)
        return z.sum()

    w = torch.ones(2, requires_grad=True)
    stator.compile(fn, fullgraph=True, backend="aot_eager")(w).backward()
    assert torch.equal(w.grad, torch.full((2,), 8.0))
    assert "MulBackward0" in capsys.readouterr().out


def test_output_around_a_break(capsys) -> None:
    def fn(x):
        text = f"{x}"
        print("before", text)
        x = x * 2
        stator.graph_break()
        print("after", text, x)
        return x

    fn(torch.ones(2))
    expected = capsys.readouterr().out
    compiled = stator.compile(fn, backend="eager")
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(torch.ones(2))
        assert capsys.readouterr().out == expected


def test_the_root_logger_is_configured_when_it_is_first_used() -> None:
    program = """
        import logging, sys, torch, stator
        def fn(x):
            logging.warning("first %s", x)
            logging.warning("second")
            return x + 1
        fn = stator.compile(fn, fullgraph=True, backend="eager") if sys.argv[1] == "c" else fn
        fn(torch.ones(2)); fn(torch.ones(2))
    """
    found = [
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program), how],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for how in "ec"
    ]
    assert found[0] == found[1]
    assert found[0].count("WARNING:root:first tensor([1., 1.])") == 2
