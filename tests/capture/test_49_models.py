# mypy: ignore-errors
"""What models do beside computing: caches of sizes, tables by type, checks of values.

Small programs in the idiom of models and libraries that were found to break, or to be compiled
too often.
"""

import functools
import operator

import pytest
import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

import stator
from stator import CaptureError

from .harness import Recording, t


def same(function, *calls, fullgraph=True):
    """Each call as in eager; answers how many graphs were compiled."""
    backend = Recording()
    compiled = stator.compile(function, backend=backend, fullgraph=fullgraph)
    for args in calls:
        torch.manual_seed(3)
        expected = function(*args)
        torch.manual_seed(3)
        torch.testing.assert_close(compiled(*args), expected, rtol=0, atol=0)
    return len(backend.graphs)


# ---------------------------------------------------------------------- caches of sizes


@functools.lru_cache(256)
def plan(shape, merged):
    """As einops: what to do for a shape, remembered for each shape."""
    sizes = [shape[0], shape[1] * shape[2]] if merged else list(shape)
    return sizes, {"last": shape[-1]}, (shape[0] + 1, None)


def planned(x):
    sizes, named, (more, _) = plan(tuple(x.shape), True)
    return x.reshape(sizes) * named["last"] + more


def planned_by_size(x):
    sizes, _, (more, _) = plan(x.shape, True)
    return x.reshape(sizes) + more


@pytest.mark.parametrize("function", [planned, planned_by_size])
def test_a_cache_of_sizes(function):
    """Once the size is open, no call compiles again, whatever the cache holds by then."""
    assert same(function, *((t(n, 2, 3),) for n in (2, 3, 4, 3, 7, 5))) == 2


class Recipe:
    """As that of einops: one cache answers with it, another is asked by it."""

    def __init__(self, sizes):
        self.sizes = sizes


@functools.lru_cache(256)
def recipe_of(pattern):
    return Recipe([len(part) for part in pattern.split()])


@functools.lru_cache(1024)
def applied(recipe, shape, names):
    return tuple(size * shape[0] for size in recipe.sizes), (recipe.sizes, names)


def by_recipes(x):
    first, _ = applied(recipe_of("a bb"), tuple(x.shape), ("n",))
    again, _ = applied(recipe_of("a bb"), tuple(x.shape), ("n",))
    other, _ = applied(recipe_of("a bbb"), tuple(x.shape), ())
    return x * first[1] + again[0] - other[1]


def test_a_cache_that_is_asked_by_the_answer_of_another():
    """Nobody keeps the answer, though the second cache would: one graph, and no other later."""
    for filled in (False, True):
        recipe_of.cache_clear()
        applied.cache_clear()
        x = t(3)
        expected = by_recipes(x) if filled else x * 6 + 3 - 9
        backend = Recording()
        compiled = stator.compile(by_recipes, backend=backend, fullgraph=True)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)
        assert len(backend.graphs) == 1


LENGTH = torch.tensor(3)


@functools.lru_cache(None)
def length_of(_):
    return [LENGTH.item()]


def by_length(x):
    return x * length_of(len(x.shape))[0]


def test_a_cached_value_of_a_tensor_is_not_read_again():
    """The cache remembers what the tensor held: a graph that reads it would see what it holds."""
    x = t(2)
    length_of.cache_clear()
    by_length(x)
    LENGTH.fill_(5)
    try:
        compiled = stator.compile(by_length, backend="eager")
        torch.testing.assert_close(compiled(x), x * 3, rtol=0, atol=0)
        torch.testing.assert_close(compiled(x), x * 3, rtol=0, atol=0)
    finally:
        LENGTH.fill_(3)
        length_of.cache_clear()


# ---------------------------------------------------------------------- tables by type


class Registered(type):
    """A metaclass that leaves comparison alone, as that of tensors does."""


class Named(metaclass=Registered):
    pass


TABLE = {(torch.Tensor,): "one", (torch.Tensor, torch.Tensor): "two", (Named, int): "named"}
KINDS = {torch.Tensor, torch.nn.Parameter, Named}


def looked_up(x, *others):
    table = dict(TABLE)
    table.update({(int,): "other"})
    which = table[tuple(type(each) for each in (x, *others))]
    names = sorted(each.__name__ for each in KINDS)
    return x * len(which) + len(table) + len("".join(names)), type(x) in KINDS


def test_classes_in_keys():
    assert same(looked_up, (t(2),), (t(2), t(3)), (t(2),)) == 2


def test_a_table_by_type_that_changes():
    compiled = stator.compile(looked_up, backend="eager", fullgraph=True)
    x = t(2)
    torch.testing.assert_close(compiled(x), looked_up(x), rtol=0, atol=0)
    TABLE[(torch.Tensor,)] = "another"
    try:
        torch.testing.assert_close(compiled(x), looked_up(x), rtol=0, atol=0)
    finally:
        TABLE[(torch.Tensor,)] = "one"


class Odd(type):
    """A metaclass whose classes are equal: their own `__eq__` would have to be asked."""

    def __eq__(cls, other):
        return isinstance(other, Odd)

    def __hash__(cls):
        return 5


class First(metaclass=Odd):
    pass


class Second(metaclass=Odd):
    pass


ODD = {First: 2, int: 3}


def odd(x):
    table = dict(ODD)
    return x * table[Second]


def test_classes_that_compare_by_themselves():
    assert same(odd, (t(2),), (t(3),), fullgraph=False) <= 2


# ---------------------------------------------------------------------- operators


WINDOW = torch.hann_window(16)


def resynthesized(x):
    spectrum = torch.stft(x, 16, 4, window=WINDOW, return_complex=True)
    return torch.istft(spectrum * 0.5, 16, 4, window=WINDOW, length=x.shape[-1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_istft(backend):
    x = t(2, 64)
    compiled = stator.compile(resynthesized, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), resynthesized(x))


def bad_window(x):
    spectrum = torch.stft(x, 16, 4, window=WINDOW, return_complex=True)
    return torch.istft(spectrum, 16, 4, window=torch.zeros(16))


def test_istft_that_refuses():
    with pytest.raises(RuntimeError) as eager:
        bad_window(t(2, 64))
    with pytest.raises(RuntimeError) as found:
        stator.compile(bad_window, backend="eager")(t(2, 64))
    assert str(found.value).splitlines()[0] == str(eager.value).splitlines()[0]


def unused_in_try(x, mask):
    try:
        ~mask
        torch.nn.functional.normalize(x, dim=0)
        torch.nn.functional.poisson_nll_loss(x, x)
        x = x * 2
    except RuntimeError:
        x = x * 3
    return x


def test_operators_that_cannot_refuse_values():
    assert same(unused_in_try, (t(3), torch.tensor([True, False, True]))) == 1


def inverted_in_try(x):
    try:
        torch.linalg.inv(x)
        x = x * 2
    except RuntimeError:
        x = x * 3
    return x


def test_operators_that_can():
    assert same(inverted_in_try, (torch.eye(2),), (torch.zeros(2, 2),)) == 1


def old_constructors(x):
    scale = torch.FloatTensor([0.5, 2.0]) + torch.IntTensor([[1], [2]])
    picked = x[torch.LongTensor([1, 0])] * torch.BoolTensor((True, False))
    room = torch.DoubleTensor(2, x.shape[1]).fill_(3)
    same = torch.FloatTensor(x)
    same.add_(1)
    return picked * scale, room, x, torch.LongTensor().numel(), torch.ShortTensor(x.size()).shape


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_constructors_by_dtype(backend):
    compiled = stator.compile(old_constructors, backend=backend, fullgraph=True)
    for _ in range(2):
        expected = old_constructors(torch.ones(2, 2))
        torch.testing.assert_close(compiled(torch.ones(2, 2)), expected, rtol=0, atol=0)


# ---------------------------------------------------------------------- masks, made by `vmap`


def masked(ids, seen):
    """As attention masks are written: one element, by indices that are tensors."""

    def allowed(b, q, k):
        return (ids[b, q] == ids[b, k]) | seen[b, k] & (q >= k) & seen[b][0]

    for dims in ((None, None, 0), (None, 0, None), (0, None, None)):
        allowed = torch.vmap(allowed, in_dims=dims, out_dims=0)
    batch, length = ids.shape
    with TransformGetItemToIndex():
        mask = allowed(torch.arange(batch), torch.arange(length), torch.arange(length))
    return mask, ids[0]


def masks(batch, length=5):
    return torch.arange(batch * length).view(batch, length) % 3, torch.ones(batch, length).bool()


def test_indices_that_are_tensors():
    assert same(masked, masks(2), masks(3), masks(4), masks(5)) == 2


def copied(x, i):
    """Under the mode, items by numbers are copies; slices are views as ever."""
    with TransformGetItemToIndex():
        parts = [x[0], x[i], x[[0, 1]], x[True], x.__getitem__(1), operator.getitem(x, 1)]
        parts += map(x.__getitem__, [0, 1])
        for part in parts:
            part.add_(1)
        x[0:1].mul_(2)
        x[..., 0].mul_(3)
        x[None].mul_(5)
    x[1].mul_(7)
    return x, parts


def test_items_are_copies():
    expected = copied(torch.ones(2, 3), torch.tensor(1))
    compiled = stator.compile(copied, backend="eager", fullgraph=True)
    for _ in range(2):
        found = compiled(torch.ones(2, 3), torch.tensor(1))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def entered(x):
    TransformGetItemToIndex().__enter__()
    return x[0]


def test_a_mode_that_is_not_left():
    with pytest.raises(CaptureError, match="entered, and not left"):
        stator.compile(entered, backend="eager", fullgraph=True)(t(2))
    assert torch._C._len_torch_function_stack() == 0


class Other(TransformGetItemToIndex):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {})) * 2


def other(x):
    with Other():
        return x + 1


@pytest.mark.filterwarnings("ignore")
def test_other_modes():
    with pytest.raises(CaptureError, match="a torch function mode is entered"):
        stator.compile(other, backend="eager", fullgraph=True)(t(2))
    same(other, (t(2),), fullgraph=False)


# ---------------------------------------------------------------------- scripts


@pytest.fixture(scope="module")
def scripts():
    return {f.__name__: torch.jit.script(f) for f in (scaled, optional, asking)} | {
        "traced": torch.jit.trace(traced, torch.ones(2))
    }


def scaled(x, scale: int, more: float = 0.5):
    if x.size(0) > 3:
        return x * scale
    return torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * scale) * x + more


def optional(x, other: torch.Tensor | None = None):
    return x if other is None else x + other


def asking(x):
    if torch.jit.is_scripting():
        return x * 2
    return x * 3


def traced(x):
    return x * 2 if bool(x.sum() > 0) else x * 3


@pytest.mark.filterwarnings("ignore")
def test_scripts(scripts):
    script, maybe = scripts["scaled"], scripts["optional"]

    def program(x):
        return maybe(script(x, 3) + script(x, scale=2, more=1.5), x), maybe(x)

    assert same(program, (t(2, 3),), (t(4, 3),), (t(2, 3),)) <= 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "args"),
    [("scaled", (2, 3)), ("asking", ()), ("traced", ())],
    ids=["a number that is made a float", "asks", "traced"],
)
def test_scripts_that_are_not_their_source(scripts, name, args):
    script = scripts[name]

    def program(x):
        return script(x.int() if args else x, *args) + 1

    with pytest.raises(CaptureError, match=r"torch\.jit"):
        stator.compile(program, backend="eager", fullgraph=True)(-t(2, 3).abs())
    same(program, (-t(2, 3).abs(),), fullgraph=False)


# ---------------------------------------------------------------------- tables by address


class Item:
    pass


def numbered(x):
    """As solvers do: what is known of an object, by its address, also inside of a text."""
    first, second = Item(), Item()
    known = {id(first): 1.0, id(second): 2.0}
    name = f"value[{id(first)}]"
    return x + known[id(second)] * (int(name[6:-1]) == id(first))


def numbered_across_a_break(x):
    first = Item()
    known = {id(first): 1.0, hash(first): 2.0}
    name = f"value[{id(first)}]"
    stator.graph_break()
    return x + known.get(id(first), 100.0) + known.get(hash(first), 10) + len(name) * 0


def returned(x):
    item = Item()
    return x + 1, item, id(item)


def test_addresses():
    assert same(numbered, (t(2),), (t(2),)) == 1


def test_addresses_across_a_break():
    """The object is made again behind a break: its address is another one there."""
    same(numbered_across_a_break, (t(2),), (t(2),), fullgraph=False)


def test_an_address_of_what_is_returned():
    x = t(2)
    made, item, address = stator.compile(returned, backend="eager")(x)
    assert id(item) == address
    torch.testing.assert_close(made, x + 1, rtol=0, atol=0)
    with pytest.raises(CaptureError, match="the address of a new object"):
        stator.compile(returned, backend="eager", fullgraph=True)(x)
