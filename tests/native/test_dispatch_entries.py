"""Entries: which one runs, in which order they are tried, and changes while they run."""

import functools
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from stator._native import _core
from stator._native._core import CALL_ORIGINAL, Bucket, CompiledFunction
from stator.evaluator import run
from tests.native.buckets import Mode, compiled, mode

from .dispatching import entered, no_miss, targets, type_is, when, wrap


def identity(x: Any) -> Any:
    return x


def one(x: Any) -> Any:
    return "one", x


def two(x: Any) -> Any:
    return "two", x


def three(x: Any) -> Any:
    return "three", x


@pytest.fixture(autouse=True)
def mode_is_restored() -> Iterator[None]:
    yield
    assert _core.get_mode() == Mode.DISPATCH


# ---- which one runs ----


def test_guards_choose() -> None:
    c = wrap(identity)
    c.add_entry(type_is(0, int), one)
    c.add_entry(type_is(0, str), two)
    assert [c(1), c("a"), c(2)] == [("one", 1), ("two", "a"), ("one", 2)]
    with pytest.raises(AssertionError, match="has no entry"):
        c(1.5)
    assert c.statistics() == {"hits": 3, "misses": 1}
    assert {e.target: e.hits for e in c.entries()} == {one: 2, two: 1}


def test_none_always_holds() -> None:
    entry = (c := wrap(identity)).add_entry(None, one)
    assert entry.guards is None
    assert c(object)[0] == "one"


def test_most_recently_hit_is_tried_first() -> None:
    c = wrap(identity)
    for cls, target in ((int, one), (str, two), (float, three)):
        c.add_entry(type_is(0, cls), target)
    assert targets(c.entries()) == [three, two, one]  # a new one comes first
    c(1)
    assert targets(c.entries()) == [one, three, two]
    c(1.0)
    assert targets(c.entries()) == [three, one, two]
    c(1.0)
    assert targets(c.entries()) == [three, one, two]


def test_order_decides_when_several_hold() -> None:
    c = wrap(identity)
    c.add_entry(None, one)
    c.add_entry(type_is(0, int), two)
    assert c(1)[0] == "two"
    assert c("")[0] == "one"
    assert c(1)[0] == "one"


def test_keyword_calls_find_the_same_entries() -> None:
    c = entered(identity, type_is(0, int), one)
    assert c(x=1) == ("one", 1)


def test_targets_of_every_kind() -> None:
    class Callable:
        def method(self, x: Any) -> Any:
            return "method", x

        def __call__(self, x: Any) -> Any:
            return "call", x

    obj = Callable()
    assert entered(identity, target=obj)(1) == ("call", 1)
    assert entered(identity, target=obj.method)(1) == ("method", 1)
    assert entered(identity, target=functools.partial(one))(1) == ("one", 1)
    assert entered(identity, target=len)("abc") == 3
    assert entered(identity, target=entered(identity, target=one))(1) == ("one", 1)
    assert entered(lambda a, b=2, *, k=3: None, target=max)(1) == 3


# ---- changes ----


def test_remove_and_clear() -> None:
    c = wrap(identity, lambda _, bound: "missed")
    a = c.add_entry(type_is(0, int), one)
    b = c.add_entry(type_is(0, str), two)
    snapshot = c.entries()
    assert c.remove_entry(a)
    assert not c.remove_entry(a)
    assert c.entries() == (b,)
    assert c(1) == "missed"
    c.clear()
    assert c.entries() == ()
    assert c("") == "missed"
    assert snapshot == (b, a)  # what was handed out does not change


@pytest.mark.parametrize(
    ("guards", "target", "error"),
    [
        (5, one, "guards must be a GuardTree or None, not int"),
        (None, 5, "target must be callable, not int"),
    ],
)
def test_refused_entries(guards: Any, target: Any, error: str) -> None:
    c = wrap(identity)
    with pytest.raises(TypeError, match=error):
        c.add_entry(guards, target)
    assert c.entries() == ()


def test_guards_on_parameters_the_function_has_not() -> None:
    with pytest.raises(ValueError, match="the guards read 2 parameters; identity has 1"):
        wrap(identity).add_entry(type_is(1, int), one)


def test_refused_arguments() -> None:
    with pytest.raises(TypeError):
        CompiledFunction(len, no_miss)
    with pytest.raises(TypeError, match="miss must be callable"):
        CompiledFunction(identity, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name must be a string"):
        CompiledFunction(identity, no_miss, name=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bucket must be a Bucket"):
        CompiledFunction(identity, no_miss, bucket=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shared is for another code object"):
        CompiledFunction(identity, no_miss, shared=Bucket(one.__code__))


def test_entries_cannot_be_made_apart_from_a_bucket() -> None:
    with pytest.raises(TypeError):
        _core.Entry()
    bucket = Bucket(identity.__code__)
    entry = bucket.add(None, one)
    assert bucket.entries() == (entry,)
    assert bucket.code is identity.__code__
    assert "1 entries for identity" in repr(bucket)


def test_entry_removed_while_its_target_runs() -> None:
    c = wrap(identity, lambda _, bound: "missed")

    def target(x: Any) -> Any:
        c.clear()
        return c(x)

    c.add_entry(None, target)
    del target
    assert c(1) == "missed"


def test_entry_removed_while_its_guard_runs() -> None:
    c = wrap(identity, lambda _, bound: "missed")

    def clearing(x: Any) -> bool:
        c.clear()
        return bool(x == 1)

    for target in (one, two, three):
        c.add_entry(when(clearing), target)
    assert c(1)[0] == "three"  # it was valid when the call began
    assert c.entries() == ()
    c.add_entry(when(clearing), one)
    assert c(2) == "missed"


def test_entries_added_while_a_guard_runs() -> None:
    c = wrap(identity)

    def adding(x: Any) -> bool:
        c.add_entry(type_is(0, str), two)
        return True

    c.add_entry(when(adding), one)
    c.add_entry(type_is(0, float), three)
    assert c(1)[0] == "one"
    assert targets(c.entries()) == [two, three, one]  # not reordered: it had changed


def test_a_guard_that_calls_the_function() -> None:
    c = wrap(identity)

    def recursive(x: Any) -> bool:
        return bool(x == 0 or c(x - 1)[0] == "one")

    c.add_entry(when(recursive), one)
    assert c(5) == ("one", 5)
    assert c.statistics()["hits"] == 6


# ---- miss ----


def test_miss_compiles_once() -> None:
    def miss(c: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        return c.add_entry(type_is(0, type(bound[0])), one)

    c = wrap(identity, miss)
    assert [c(1), c(2), c("a")] == [("one", 1), ("one", 2), ("one", "a")]
    assert c.statistics() == {"hits": 1, "misses": 2}


def test_miss_may_call_the_original() -> None:
    def f(a: Any, *args: Any, k: Any = 3) -> Any:
        return a, args, k

    c = wrap(f, lambda _, bound: CALL_ORIGINAL)
    assert c(1, 2, k=4) == (1, (2,), 4)
    assert repr(CALL_ORIGINAL) == "CALL_ORIGINAL"


def test_miss_that_raises() -> None:
    def miss(c: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        wrap(identity, miss)(1)


def test_miss_that_calls_the_function() -> None:
    def miss(c: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        (n,) = bound
        return 0 if n == 0 else 1 + c(n - 1)

    c = wrap(identity, miss)
    assert c(50) == 50
    assert c.statistics()["misses"] == 51


def test_find() -> None:
    c = wrap(identity)
    entry = c.add_entry(type_is(0, int), one)
    assert c.find((1,)) is entry
    assert c.find(("",)) is None
    assert c.statistics() == {"hits": 0, "misses": 0}
    assert entry.hits == 0
    with pytest.raises(ValueError, match="identity has 1 parameters, 2 values were given"):
        c.find((1, 2))
    with pytest.raises(TypeError, match="the tuple of bound parameters"):
        c.find([1])  # type: ignore[arg-type]


# ---- buckets ----


def make(name: str = "") -> Any:
    def made(x: Any) -> Any:
        return x

    return made


def test_own_bucket_then_the_shared_one() -> None:
    function = make()
    shared = Bucket(function.__code__)
    shared.add(type_is(0, int), one)
    shared.add(type_is(0, str), two)
    c = CompiledFunction(function, no_miss, shared=shared)
    order = shared.entries()
    assert c.shared is shared
    assert c.bucket is not shared
    assert c(1)[0] == "one"
    assert shared.entries() == order  # read only
    c.add_entry(type_is(0, int), three)
    assert c(1)[0] == "three"
    assert c("")[0] == "two"
    assert shared.entries() == order
    assert len(c.entries()) == 1
    c.clear()
    assert c(1)[0] == "one"


def test_wrappers_of_one_code_object_share_or_isolate() -> None:
    first = compiled(make(), no_miss)
    second = compiled(make(), no_miss)
    isolated = compiled(make(), no_miss, isolate=True)
    assert first.bucket is second.bucket is isolated.shared
    first.add_entry(type_is(0, int), one)
    assert [first(1), second(1), isolated(1)] == [("one", 1)] * 3
    isolated.add_entry(None, two)
    assert [first(1), second(1), isolated(1)] == [("one", 1), ("one", 1), ("two", 1)]
    assert _core.lookup(make().__code__) is first
    del first
    assert _core.lookup(make().__code__) is None
    assert compiled(make(), no_miss).bucket is second.bucket


def test_another_code_voids_the_entries() -> None:
    function, other = make(), make()
    shared = Bucket(function.__code__)
    old = Bucket(function.__code__)
    c = CompiledFunction(function, lambda _, bound: ("missed", bound), bucket=old, shared=shared)
    sibling = CompiledFunction(other, no_miss, bucket=old)
    shared.add(type_is(0, str), two)
    c.add_entry(type_is(0, int), one)
    assert c(1)[0] == "one"

    def changed(x: Any, y: Any = 5, *z: Any) -> Any:
        return x

    function.__code__ = changed.__code__
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        c(1)
    assert c(1, 2, 3) == ("missed", (1, 2, (3,)))
    assert c("", 2) == ("missed", ("", 2, ()))
    assert c.bucket.code is changed.__code__
    assert c.entries() == ()
    assert sibling(1)[0] == "one"  # its function still has that code
    c.add_entry(None, lambda x, y, z: ("three", x, y, z))
    assert c(1, 2, 3) == ("three", 1, 2, (3,))
    assert c.__code__ is changed.__code__
    function.__code__ = identity.__code__
    assert c.entries() == ()


def test_entry_for_a_bucket_taken_before_the_code_changed() -> None:
    """A driver that compiled for the old code must not enter the result for the new one."""
    function = make()
    c = wrap(function, lambda _, bound: "missed")
    bucket = c.bucket
    function.__code__ = two.__code__
    c.add_entry(None, one, bucket=bucket)
    assert c(1) == "missed"
    assert len(bucket.entries()) == 1


# ---- by code object ----


def test_attach_and_lookup() -> None:
    function = make()
    code = function.__code__.replace(co_name="attached")
    c = wrap(function)
    assert _core.lookup(code) is None
    _core.attach(code, c)
    assert _core.lookup(code) is c
    _core.attach(code, None)
    assert _core.lookup(code) is None
    _core.attach(code, c)
    del c
    assert _core.lookup(code) is None
    with pytest.raises(TypeError):
        _core.attach(code, function)
    with pytest.raises(TypeError):
        _core.lookup(function)
    with pytest.raises(TypeError):
        _core.shared_bucket(function)


# ---- modes ----


def test_modes() -> None:
    def f(a: Any, b: Any = 2) -> Any:
        return "original", a, b

    c = wrap(f, lambda _, bound: ("missed", *bound))
    c.add_entry(None, lambda a, b: ("entry", a, b))
    assert c(1) == ("entry", 1, 2)
    with mode(Mode.EAGER):
        assert c(1) == c(a=1) == ("original", 1, 2)
        with mode(Mode.MISS):
            assert c(1) == c(1, 2) == ("missed", 1, 2)
        assert c(1) == ("original", 1, 2)
    assert c(1, 2) == ("entry", 1, 2)
    with pytest.raises(ValueError, match="no mode 99"):
        _core.set_mode(99)
    assert c.statistics() == {"hits": 2, "misses": 2}


# ---- exceptions and recursion ----


def test_no_frame_of_ours_in_a_traceback() -> None:
    def target(x: Any) -> Any:
        return 1 / 0

    def names(c: CompiledFunction, *args: Any, **kwargs: Any) -> list[str]:
        try:
            c(*args, **kwargs)
        except ZeroDivisionError as exc:
            tb, found = exc.__traceback__, []
            while tb is not None:
                found.append(tb.tb_frame.f_code.co_name)
                tb = tb.tb_next
            return found
        raise AssertionError

    assert names(entered(identity, target=target), 1) == ["names", "target"]
    assert names(entered(identity, target=target), x=1) == ["names", "target"]
    compiling = wrap(identity, lambda c, _: c.add_entry(None, target))
    assert names(compiling, 1) == ["names", "target"]


def test_handled_exception_is_visible_to_the_target() -> None:
    c = entered(identity, target=lambda x: sys.exc_info()[1])
    try:
        raise ValueError
    except ValueError as exc:
        assert c(1) is exc
    assert c(1) is None


def recursive(kwargs: dict[str, Any]) -> CompiledFunction:
    def f(n: int, **kw: Any) -> int:
        return 0

    def target(n: int, kw: Any) -> int:
        return 0 if n == 0 else 1 + int(c(n - 1, **kwargs))

    c = entered(f, target=target)
    return c


@pytest.mark.parametrize("kwargs", [{}, {"k": 1}])
def test_recursion_is_limited_as_for_the_function(kwargs: dict[str, Any]) -> None:
    c = recursive(kwargs)
    limit = sys.getrecursionlimit()
    depth = len(list(iter_frames()))
    assert c(limit - depth - 10) == limit - depth - 10
    with pytest.raises(RecursionError):
        c(limit)
    assert c(10) == 10


def iter_frames() -> Iterator[Any]:
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


@pytest.mark.parametrize("kwargs", [{}, {"k": 1}])
def test_recursion_beyond_the_c_stack(kwargs: dict[str, Any]) -> None:
    c = recursive(kwargs)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        assert c(3000) == 3000
        with pytest.raises(RecursionError):
            c(10**6 - 1000)
        assert c(3000) == 3000
    finally:
        sys.setrecursionlimit(limit)


def test_recursion_without_frames() -> None:
    c = wrap(identity)
    c.add_entry(None, c)
    with pytest.raises(RecursionError):
        c(1)
    c.clear()


# ---- under the evaluator's frame hook ----


def test_targets_are_evaluated_inside_a_window() -> None:
    """The shortcut that pushes the target's frame must not bypass a frame hook."""

    def target(x: Any) -> Any:
        return sorted(x, key=lambda y: -y)

    c = entered(identity, target=target)

    def program() -> Any:
        return c([1, 3, 2])

    before = _core.frames_evaluated()
    assert run(program) == [3, 2, 1]
    assert _core.frames_evaluated() - before == 5  # program, target, three keys
    assert c([1, 2]) == [2, 1]
    assert _core.frames_evaluated() - before == 5
