# mypy: ignore-errors
"""C objects from before the call, in programs: what they hold, and what is done to them."""

import collections
import functools
import gc
import sys
import threading
import types
import weakref

import pytest
import torch

import stator

BACKENDS = ("eager", "aot_eager")


class Plain:
    pass


class Counted:
    count = 0


def outcomes(make, program, changes, compiled, backend="eager", **options):
    """What the calls of a program answer, and leave behind, with changes between them."""
    stator.reset()
    graphs = []
    function = program
    if compiled:

        def note(module, inputs):
            graphs.append(module)
            return module.forward

        chosen = note if backend == "eager" else backend
        function = stator.compile(program, backend=chosen, **options)
    world = make()
    lines = []
    for number in range(len(changes) + 1):
        try:
            lines.append(repr(function(world, torch.arange(3.0) + number)))
        except Exception as error:
            assert not type(error).__module__.startswith("stator"), error
            lines.append(f"{type(error).__name__}: {error}")
        lines.append(repr(world))
        if number < len(changes):
            changes[number](world)
    return lines, len(graphs)


def agree(make, program, *changes, graphs=None, **options):
    expected, _ = outcomes(make, program, changes, compiled=False)
    for backend in BACKENDS:
        found, count = outcomes(make, program, changes, compiled=True, backend=backend, **options)
        assert found == expected
        if graphs is not None and backend == "eager":
            assert count == graphs


def again(world):
    """Nothing changes."""


# ---------------------------------------------------------------------- fields and state


def test_maxlen_is_read() -> None:
    def replaced(limit):
        return lambda world: world.__setitem__(0, collections.deque([1], limit))

    agree(
        lambda: [collections.deque([1], 5)],
        lambda world, x: x * (world[0].maxlen or 1),
        again,
        replaced(7),
        replaced(None),
        graphs=3,
        fullgraph=True,
    )


def test_a_deque_gets_another_maxlen() -> None:
    def program(world, x):
        world[0].__init__([1, 2, 3], 2)
        return x + len(world[0])

    agree(lambda: [collections.deque([1], 5)], program, again, again, fullgraph=True)


def test_a_partial_gets_another_state() -> None:
    def program(world, x):
        before = world[0](x)
        world[0].__setstate__((torch.mul, (), {"other": 3}, {"mark": 1}))
        return before, world[0](x), world[0].mark

    make = lambda: [functools.partial(torch.add, other=1)]  # noqa: E731
    agree(make, program, again, again, fullgraph=True)


def test_a_state_is_set_and_an_exception_leaves() -> None:
    def program(world, x):
        world[0].__setstate__((torch.mul, (), {"other": 3}, None))
        raise LookupError(world[0].func.__name__)

    agree(lambda: [functools.partial(torch.add, other=1)], program, again, fullgraph=True)


def test_callable_is_a_fact_of_the_class() -> None:
    def make():
        return [type("Made", (), {"__repr__": lambda self: "Made"})()]

    def add(world):
        type(world[0]).__call__ = lambda self: 1

    agree(make, lambda world, x: (callable(world[0]), x + 1), again, add, again, fullgraph=True)


@pytest.mark.parametrize("make", [Plain, types.SimpleNamespace, lambda: ValueError(1)])
def test_vars_is_the_object_s_own_dict(make) -> None:
    def program(o, x):
        own = vars(o)
        own["a"] = x + 1
        o.b = 2
        return own, own is o.__dict__

    o = make()
    found, same = stator.compile(program, backend="eager", fullgraph=True)(o, torch.ones(2))
    assert found is vars(o) and same and list(found) == ["a", "b"]
    made = make()
    assert stator.compile(lambda o, x: (o.__getstate__(), x + 1), backend="eager")(
        made, torch.ones(2)
    )[0] is (vars(made) or None)


def test_a_defaultdict_without_a_factory() -> None:
    def program(world, x):
        try:
            return x + world[0]["b"]
        except KeyError as error:
            return x + world[0]["a"], str(error)

    def give(world):
        world[0].default_factory = int

    agree(lambda: [collections.defaultdict(None, a=1)], program, again, give, again, fullgraph=True)


def test_attributes_of_a_function_hide_methods_of_its_type() -> None:
    def make():
        def made():
            """Nothing."""

        return types.SimpleNamespace(f=made, __repr__=None)

    def hide(world):
        world.f.__reduce_ex__ = 3

    def program(world, x):
        return x + 1, type(world.f.__reduce_ex__).__name__

    expected = []
    for compiled in (False, True):
        world = make()
        function = stator.compile(program, backend="eager") if compiled else program
        names = [function(world, torch.ones(1))[1]]
        hide(world)
        expected.append([*names, function(world, torch.ones(1))[1]])
    assert expected[0] == expected[1]


def test_an_unpacked_alias() -> None:
    agree(lambda: [list[int]], lambda world, x: ([*world[0]], x + 1), again, fullgraph=True)


# ---------------------------------------------------------------------- weak references


def test_callbacks_are_not_called_for_stand_ins() -> None:
    heard = []

    def program(world, item, x):
        world["set"].add(item)
        world["refs"].append(weakref.ref(item, heard.append))
        return x + 1

    for compiled in (False, True):
        heard.clear()
        world, item = {"set": weakref.WeakSet(), "refs": []}, Plain()
        function = stator.compile(program, backend="eager") if compiled else program
        for _ in range(3):
            function(world, item, torch.ones(1))
        gc.collect()
        assert (len(world["set"]), len(world["refs"]), len(heard)) == (1, 3, 0)
        del item
        gc.collect()
        assert (len(world["set"]), len(heard)) == (0, 3)


def test_a_weak_dict_is_updated_by_itself() -> None:
    kept = Plain()
    held = weakref.WeakKeyDictionary({kept: 1})

    def program(held, x):
        held.update(held)
        return x + len(held)

    function = stator.compile(program, backend="eager")
    for _ in range(3):
        assert function(held, torch.zeros(1)).item() == 1
        assert dict(held) == {kept: 1}


# ---------------------------------------------------------------------- caches


def cached(answer, limit=128):
    @functools.lru_cache(maxsize=limit)
    def asked(n):
        return answer(n)

    return asked


SIZES = (2, 3, 3, 4, 3)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("limit", [None, 2, 0])
@pytest.mark.parametrize("asks", ["size", "constant", "tensor"])
def test_caches_count(asks, limit, dynamic) -> None:
    given = {"size": lambda x: x.shape[0], "constant": lambda x: 7, "tensor": lambda x: x}[asks]
    answer = (lambda t: t.shape[0]) if asks == "tensor" else (lambda n: n * 2)

    def program(asked, x):
        return x + asked(given(x)) + asked(given(x))

    inputs = [torch.ones(size) for size in SIZES]
    found = []
    for compiled in (False, True):
        stator.reset()
        asked = cached(answer, limit)
        function = program
        if compiled:
            function = stator.compile(program, backend="eager", dynamic=dynamic, fullgraph=True)
        results = [function(asked, x).tolist() for x in inputs]
        found.append((results, asked.cache_info()))
    assert found[0] == found[1]


def test_the_same_open_size_gets_the_same_answer() -> None:
    asked = cached(lambda n: [n])

    @stator.compile(backend="eager", dynamic=True)
    def program(x):
        n = x.shape[0]
        return x + 1, asked(n) is asked(n), asked(n) is asked(n + 1)

    for size in SIZES:
        assert program(torch.ones(size))[1:] == (True, False)


# ---------------------------------------------------------------------- what is captured


def test_generic_functions() -> None:
    @functools.singledispatch
    def kind(value):
        return 1

    kind.register(int, lambda value: 2)
    kind.register(collections.abc.Mapping, lambda value: 3)
    for warm in (1, "a", [], {}):
        kind(warm)

    def program(world, x):
        return x + kind(1), kind("a"), kind({}), kind(x), kind(world)

    def register(world):
        kind.register(str, lambda value: 4)

    expected = [(2, 1, 3, 1, 1), (2, 1, 3, 1, 1), (2, 4, 3, 1, 1)]
    function = stator.compile(program, backend="eager", fullgraph=True)
    for number, wanted in enumerate(expected):
        first, *rest = function([], torch.zeros(1))
        assert (first.item(), *rest) == wanted
        if number:
            register(None)


def test_a_counter_of_a_class_is_left_open() -> None:
    Counted.count = 0
    graphs = []

    def note(module, inputs):
        graphs.append(module)
        return module.forward

    @stator.compile(backend=note, fullgraph=True)
    def program(x):
        Counted.count += 1
        return x * Counted.count

    assert [program(torch.ones(1)).item() for _ in range(12)] == [*range(1, 13)]
    assert Counted.count == 12 and len(graphs) <= 3


def test_modules_that_are_missing(tmp_path, monkeypatch) -> None:
    def program(x):
        try:
            import not_there_at_all.part as part
        except ImportError as error:
            return x + 1, str(error), error.name
        return x + part.VALUE, "", ""

    function = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(function(torch.zeros(1))) == repr(program(torch.zeros(1)))
    package = tmp_path / "not_there_at_all"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("VALUE = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert stator.compile(program, backend="eager")(torch.zeros(1))[0].item() == 5
        assert function(torch.zeros(1))[0].item() == 5
    finally:
        for name in [name for name in sys.modules if name.startswith("not_there_at_all")]:
            del sys.modules[name]


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition"])
def test_locks(kind) -> None:
    def program(lock, x):
        with lock:
            y = x + 1
        lock.acquire()
        lock.release()
        return y * 2

    lock = getattr(threading, kind)()
    function = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert function(lock, torch.zeros(1)).item() == 2
    assert getattr(lock, "_value", 1) == 1
    assert lock.acquire(blocking=False) if kind != "Condition" else lock.acquire()
    lock.release()


def test_semaphores_are_taken_and_events_set() -> None:
    def program(world, x):
        world["semaphore"].acquire()
        if world["event"].is_set():
            x = x + 1
        world["event"].set()
        return x * 2

    semaphore, event = threading.Semaphore(5), threading.Event()
    function = stator.compile(program, backend="eager", fullgraph=True)
    world = {"semaphore": semaphore, "event": event}
    assert [function(world, torch.ones(1)).item() for _ in range(3)] == [2, 4, 4]
    assert semaphore._value == 2 and event.is_set()
    event.clear()
    assert function(world, torch.ones(1)).item() == 2
