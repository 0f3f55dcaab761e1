# mypy: ignore-errors
"""`with torch.autocast(...):` around a split: entered behind a graph, left in the next one."""

import pytest
import torch

import stator

LINEAR = torch.nn.Linear(4, 4)
OTHER = torch.nn.Linear(4, 4)


@torch.library.custom_op("stator_autocast_test::refusing", mutates_args=())
def refusing(x: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("refused")


@refusing.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def state():
    torch.autocast_increment_nesting()
    return (
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.autocast_decrement_nesting(),
    )


def bfloat16(**options):
    return torch.autocast("cpu", dtype=torch.bfloat16, **options)


def around(x):
    with bfloat16():
        y = LINEAR(x)
        stator.graph_break()
        y = OTHER(y)
    return y, LINEAR(x), torch.is_autocast_enabled("cpu")


def around_nested(x):
    with bfloat16(cache_enabled=False):
        with torch.autocast("cpu", enabled=False):
            y = LINEAR(x)
            stator.graph_break()
            z = LINEAR(x)
        v = torch.is_autocast_cache_enabled(), torch.is_autocast_enabled("cpu")
        w = LINEAR(x)
    return y, z, v, w, LINEAR(x)


def entered_again(x):
    with bfloat16():
        stator.graph_break()
        y = LINEAR(x)
    with torch.autocast("cpu", dtype=torch.float16):
        z = torch.mm(x, x.T)
    return y, z, torch.mm(x, x.T)


@bfloat16()
def decorated(x):
    y = LINEAR(x)
    stator.graph_break()
    return OTHER(y)


def calls_decorated(x):
    return decorated(x), LINEAR(x)


def raised_inside(x):
    try:
        with bfloat16():
            stator.graph_break()
            raise ValueError(str(LINEAR(x).dtype))
    except ValueError as error:
        return str(error), LINEAR(x)


class Logged(torch.autocast):
    log = []

    def __enter__(self):
        self.log.append("enter")
        return super().__enter__()

    def __exit__(self, *args):
        self.log.append("exit")
        return super().__exit__(*args)


def logged(x):
    Logged.log.clear()
    with Logged("cpu", dtype=torch.bfloat16):
        stator.graph_break()
        y = LINEAR(x)
    return y, LINEAR(x), list(Logged.log)


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.requires_grad, value.detach().float().tolist()
    return list(map(shown, value)) if isinstance(value, tuple) else value


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    yield
    assert state() == (False, torch.bfloat16, True, 0)


ONCE = [around, around_nested, entered_again, calls_decorated, raised_inside, logged]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", ONCE)
def test_one_break(function, backend):
    compiled = stator.compile(function, backend=backend)
    for factor in (1, 2, 3):
        x = torch.ones(2, 4) * factor
        Logged.log.clear()
        assert shown(compiled(x)) == shown(function(x))
    counts = stator.counters()
    assert (counts["graph_breaks"], counts["compiles"], counts["recompiles"]) == (1, 2, 0)
    with bfloat16():
        expected = shown(function(x)), state()
    with bfloat16():
        assert (shown(compiled(x)), state()) == expected


def test_the_surroundings_of_the_block_are_guarded():
    """What was before the block is in the object that left it, and is looked at."""

    def program(x):
        with torch.autocast("cpu", enabled=False):
            stator.graph_break()
            y = LINEAR(x)
        return y, torch.mm(x, x.T)

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(2, 4)
    for _ in range(2):
        assert shown(compiled(x)) == shown(program(x))
        with bfloat16():
            assert shown(compiled(x)) == shown(program(x))
        with torch.autocast("cpu", dtype=torch.float16):
            assert shown(compiled(x)) == shown(program(x))


@pytest.mark.parametrize("nested", [False, True])
def test_cast_weights_are_dropped_where_the_outermost_block_is_left(nested):
    def program(x, weight):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=nested), bfloat16():
            stator.graph_break()
            a = torch.mm(x, weight)
        weight.detach().mul_(2)
        with bfloat16():
            return a, torch.mm(x, weight)

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        made = [torch.ones(4, 4, requires_grad=True) for _ in range(2)]
        x = torch.ones(2, 4)
        assert shown(compiled(x, made[0])) == shown(program(x, made[1]))


def test_a_kernel_refuses_behind_the_block():
    def program(x, i):
        with bfloat16():
            stator.graph_break()
            y = LINEAR(x)
        return LINEAR(x)[i] + y

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(2, 4)
    assert shown(compiled(x, torch.tensor([1]))) == shown(program(x, torch.tensor([1])))
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([100]))
        assert state() == (False, torch.bfloat16, True, 0)


def test_where_the_rest_can_not_be_undone_it_is_left_before_that():
    def program(x):
        with bfloat16():
            stator.graph_break()
            y = LINEAR(x)
        x.add_(1)
        return refusing(y)

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="refused"):
            compiled(torch.ones(2, 4))
        assert state() == (False, torch.bfloat16, True, 0)
    assert stator.counters()["graph_breaks"] == 2
