"""Tensor checks, natively and by each fallback; skipped without torch."""

import gc
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("torch._subclasses.fake_tensor")

from stator import guards as G  # noqa: E402, N812
from stator._native._core import CompiledFunction, tensor_words  # noqa: E402
from stator.guards import reference  # noqa: E402
from stator.guards import tensors as T  # noqa: E402, N812

from .dispatching import no_miss  # noqa: E402

FakeTensorMode: Any = torch._subclasses.fake_tensor.FakeTensorMode
X, Y = G.Local(0, "x"), G.Local(1, "y")
NATIVE = ("native", "words")  # by words of the impl, and by functions alone
FALLBACKS = ("impl", "keys", "functions", "agreement", "attributes")


@pytest.fixture(params=[*NATIVE, *FALLBACKS], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    missing = T.calibrate("" if request.param == "native" else request.param)
    words = {"metadata", "autograd", "leaf"} if request.param == "native" else set()
    assert {name for name, found in tensor_words().items() if found} == words
    if request.param in NATIVE:
        assert missing is None, f"tensors cannot be read natively here: no {missing}"
    else:
        assert missing is not None
    yield request.param
    T.calibrate("")


class Sub(torch.Tensor):  # type: ignore[misc]
    pass


def zoo() -> dict[str, Any]:
    """Tensors of many kinds, no two of which match the same guard."""
    x = torch.randn(3, 4)
    found: dict[str, Any] = {
        "plain": x,
        "grad": torch.randn(3, 4, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.randn(3, 4)),
        "frozen": torch.nn.Parameter(torch.randn(3, 4), requires_grad=False),
        "double": x.double(),
        "half": x.half(),
        "bool": x > 0,
        "int": torch.ones(3, 4, dtype=torch.int64),
        "wide": torch.randn(4, 3),
        "transposed": torch.randn(4, 3).t(),
        "sliced": torch.randn(3, 8)[:, ::2],
        "expanded": torch.randn(3, 1).expand(3, 4),
        "deep": torch.randn(3, 4, 1),
        "five": torch.randn(3, 4, 1, 2, 3),
        "five transposed": torch.randn(3, 4, 3, 2, 1).transpose(2, 4),
        "six": torch.randn(3, 4, 1, 2, 3, 2),
        "six transposed": torch.randn(3, 4, 1, 2, 2, 3).transpose(4, 5),
        "result": torch.randn(4, 4, requires_grad=True) * 2,
        "vector": torch.randn(12),
        "scalar": torch.tensor(1.0),
        "empty": torch.empty(0, 4),
        "complex": torch.randn(3, 4, dtype=torch.complex64),
        "conj": torch.randn(3, 4, dtype=torch.complex64).conj(),
        "neg": torch.randn(3, 4, dtype=torch.complex64).conj().imag,
        "meta": torch.empty(3, 4, device="meta"),
        "sub": torch.randn(3, 4).as_subclass(Sub),
        "sparse": torch.eye(3).to_sparse(),
        "csr": torch.eye(3).to_sparse_csr(),
    }
    with torch.inference_mode():
        found["inference"] = torch.randn(3, 4)
    if torch.cuda.is_available():
        found["cuda"] = x.cuda()
        found["cuda half"] = x.cuda().half()
        found["cuda parameter"] = torch.nn.Parameter(x.cuda())
    return found


def agreed(guards: list[G.Guard], *locals: Any) -> bool:
    tree = G.compile(guards)
    expected = reference.check(guards, locals)
    assert [tree.check(locals, None) for _ in range(4)] == [expected] * 4
    failure = tree.explain(locals, None)
    assert (failure is None) == expected
    assert failure is None or str(failure)
    return expected


def test_each_kind_matches_itself_only() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = zoo()
        for name, tensor in tensors.items():
            guards = [G.Guard(X, T.tensor_match(tensor))]
            for other, candidate in tensors.items():
                assert agreed(guards, candidate) == (name == other), (name, other)
            strangers: list[Any] = [None, 1, [], torch.float32]
            assert not any(agreed(guards, stranger) for stranger in strangers)


def test_no_python_runs_natively(mode: str) -> None:
    tree = G.compile([G.Guard(X, T.tensor_match(torch.randn(2, 3)))])
    assert tree.check((torch.randn(2, 3),), None)
    assert tree.callbacks == (mode not in NATIVE)


def test_fake_tensors_are_refused_quickly() -> None:
    tree = G.compile([G.Guard(X, T.tensor_match(torch.empty(3, 4)))])
    with FakeTensorMode():
        assert not tree.check((torch.empty(3, 4),), None)


def test_guards_may_be_compiled_under_a_fake_mode() -> None:
    real = torch.randn(3, 4).bfloat16()
    with FakeTensorMode():
        tree = G.compile([G.Guard(X, T.tensor_match(real))])
    assert tree.check((real,), None)
    assert not tree.check((real.float(),), None)


def test_changes_in_place_are_seen() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

    model = Model()
    weight = G.Key(G.Attr(G.Key(G.Attr(X, "_modules"), "inner"), "_parameters"), "weight")
    guards = [G.Guard(X, G.TypeIs(Model)), G.Guard(weight, T.tensor_match(model.inner.weight))]
    tree = G.compile(guards)

    def now() -> bool:
        answers = {tree.check((model,), None) for _ in range(4)}
        assert answers == {reference.check(guards, (model,))}
        return answers.pop()

    parameter = model.inner.weight
    assert now()
    for change, undo in (
        (lambda: model.half(), lambda: model.float()),
        (lambda: parameter.requires_grad_(False), lambda: parameter.requires_grad_(True)),
        (
            lambda: setattr(parameter, "data", torch.randn(4, 3)),
            lambda: setattr(parameter, "data", torch.randn(3, 4)),
        ),
        (
            lambda: setattr(parameter, "data", torch.randn(4, 3).t()),
            lambda: setattr(parameter, "data", torch.randn(3, 4)),
        ),
        (lambda: delattr(model.inner, "weight"), lambda: setattr(model.inner, "weight", parameter)),
        (
            lambda: setattr(parameter, "__class__", torch.nn.parameter.UninitializedParameter),
            lambda: setattr(parameter, "__class__", torch.nn.Parameter),
        ),
    ):
        change()
        assert model.inner._parameters.get("weight") is None or model.inner.weight is parameter
        assert not now()
        undo()
        assert now()
    model.inner.weight = torch.nn.Parameter(torch.randn(3, 4))
    assert now()  # another tensor of the same kind is as good


def elsewhere(tensor: Any) -> Any:
    """The same metadata, at an offset into its storage, as parameters in one buffer have it."""
    buffer = torch.randn(tensor.numel() + 5, dtype=tensor.dtype)
    return torch.nn.Parameter(buffer[5:].view(tensor.shape), requires_grad=tensor.requires_grad)


CHANGES: dict[str, Any] = {
    "nothing": lambda t, h: None,
    "data of its kind": lambda t, h: setattr(t, "data", torch.randn(3, 4)),
    "data with strides": lambda t, h: setattr(t, "data", torch.randn(4, 3).t()),
    "data of another shape": lambda t, h: setattr(t, "data", torch.randn(12)),
    "data of many dimensions": lambda t, h: setattr(t, "data", torch.randn(3, 4, 1, 1, 1, 1)),
    "data of another dtype": lambda t, h: setattr(t, "data", torch.randn(3, 4).double()),
    "data elsewhere": lambda t, h: setattr(t, "data", elsewhere(t).data),
    "transposed": lambda t, h: t.data.t_(),
    "transposed itself": lambda t, h: no_grad(t.t_),
    "resized": lambda t, h: None if t.requires_grad else t.resize_(2, 2),
    "frozen": lambda t, h: t.requires_grad_(False),
    "a gradient": lambda t, h: (t * 2).sum().backward() if t.requires_grad else None,
    "swapped for one of its kind": lambda t, h: torch.utils.swap_tensors(t, like(t)),
    "swapped for another": lambda t, h: torch.utils.swap_tensors(
        t, torch.nn.Parameter(torch.randn(3, 5))
    ),
    "replaced by its kind": lambda t, h: setattr(h, "t", like(t)),
    "replaced elsewhere": lambda t, h: setattr(h, "t", elsewhere(t)),
    "replaced by a tensor": lambda t, h: setattr(h, "t", t.detach()),
    "replaced by no tensor": lambda t, h: setattr(h, "t", 1),
    "another class": lambda t, h: setattr(t, "__class__", SubParameter),
}


class SubParameter(torch.nn.Parameter):  # type: ignore[misc]
    pass


def no_grad(function: Any, *args: Any) -> None:
    with torch.no_grad():
        function(*args)


def like(tensor: Any) -> Any:
    return torch.nn.Parameter(torch.randn(3, 4), requires_grad=tensor.requires_grad)


class Holder:
    pass


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_a_held_tensor_that_changes(name: str, grad: bool) -> None:
    """What the levels skip, the tests of tensors still see; before and after they are warm."""
    for warm in (0, 1, 5):
        holders = [Holder() for _ in range(30)]
        for holder in holders:
            holder.t = torch.nn.Parameter(torch.randn(3, 4), requires_grad=grad)  # type: ignore[attr-defined]
        example = T.tensor_match(like(holders[0].t))  # type: ignore[attr-defined]
        guards = [G.Guard(G.Attr(G.Index(X, i), "t"), example) for i in range(30)]
        tree = G.compile(guards)
        for _ in range(warm):
            assert tree.check((holders,), None)
        for index in (29, 3):
            tensor = holders[index].t  # type: ignore[attr-defined]
            CHANGES[name](tensor, holders[index])
            expected = reference.check(guards, (holders,))
            for _ in range(3):
                assert tree.check((holders,), None) == expected, (warm, index)


def test_equal_tensors_share_their_description() -> None:
    with torch.no_grad():
        tensors = [torch.nn.Parameter(torch.randn(3, 4)) for _ in range(4)]
        guards = [G.Guard(G.Index(X, i), T.tensor_match(t)) for i, t in enumerate(tensors)]
    tree = G.compile(guards)
    kept = weakref.ref(tensors[0])
    assert tree.check((tensors,), None)
    for _ in range(3):
        gc.collect()
    assert tree.check((tensors,), None)
    del tensors
    gc.collect()
    assert kept() is None
    del tree
    gc.collect()


def test_dynamic_sizes_and_relations() -> None:
    x, y = torch.randn(8, 3), torch.randn(3, 8)
    rows, columns = G.SizeOf(X, 0), G.SizeOf(Y, 1)
    guards = [
        G.Guard(X, T.tensor_match(x, dynamic={0})),
        G.Guard(Y, T.tensor_match(y, dynamic={1})),
        G.Guard(None, G.Holds(rows == columns)),
        G.Guard(None, G.Holds(rows % 2 == 0)),
        G.Guard(None, G.Holds(rows >= 2)),
        G.Guard(None, G.Holds(G.StrideOf(Y, 0) == columns)),
    ]
    for n in (2, 4, 100):
        assert agreed(guards, torch.randn(n, 3), torch.randn(3, n))
    assert not agreed(guards, torch.randn(3, 3), torch.randn(3, 3))
    assert not agreed(guards, torch.randn(0, 3), torch.randn(3, 0))
    assert not agreed(guards, torch.randn(4, 3), torch.randn(3, 6))
    assert not agreed(guards, torch.randn(4, 4), torch.randn(3, 4))
    assert not agreed(guards, torch.randn(3, 4).t(), torch.randn(3, 4))
    assert not agreed(guards, torch.randn(4, 3), torch.randn(4, 3).t())
    assert not agreed([G.Guard(None, G.Holds(G.SizeOf(X, 2) > 0))], x)


def test_the_size_of_a_fake_tensor() -> None:
    with FakeTensorMode():
        fake = torch.empty(3, 4)
    assert agreed([G.Guard(None, G.Holds(G.SizeOf(X, 0) == 3))], fake)
    assert not agreed([G.Guard(None, G.Holds(G.SizeOf(X, 0) == 4))], fake)


def test_a_tensor_subclass_with_its_own_dispatch() -> None:
    class Wrapper(torch.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise AssertionError("user code ran")

    value = Wrapper(torch.randn(2, 3))
    guards = [G.Guard(X, T.tensor_match(value))]
    assert agreed(guards, value)
    assert not agreed(guards, Wrapper(torch.randn(3, 2)))
    assert not agreed(guards, torch.randn(2, 3))


def test_a_type_that_is_no_tensor_is_refused() -> None:
    spec = T.TensorMatch(int, 0, False, torch.float32, torch.device("cpu"), (), ())
    with pytest.raises(TypeError, match="tensor type"):
        G.compile([G.Guard(X, spec)])


def overlap_zoo() -> dict[str, tuple[Any, ...]]:
    x = torch.randn(4, 6)
    y = torch.randn(4, 6)
    with FakeTensorMode():
        fake = torch.empty(3, 4)
        fakes = fake, fake[1:], torch.empty(3, 4)
    return {
        "apart": (x, y, torch.randn(4, 6, dtype=torch.float64)),
        "itself": (x, x),
        "a view": (x, y, x[2:, 3:]),
        "of a view": (x[2:, 3:], y, x.T),
        "parts that do not meet": (x[:2], x[2:]),
        "another dtype": (x[1:], x.view(torch.int32)),
        "a parameter": (torch.nn.Parameter(x), x),
        "the others": (x, y, y),
        "empty": (x[:0], x, y),
        "of empty": (x, x[:0], x[4:]),
        "complex": (torch.view_as_complex(x.view(4, 3, 2)), y, x),
        "conjugate": (torch.view_as_complex(x.view(4, 3, 2)).conj(), x),
        "no tensor": (x, 1),
        "no tensor here": (None, x),
        "fake": fakes[:2],
        "fake apart": (fakes[0], fakes[2]),
        "meta": (torch.empty(3, device="meta"), torch.empty(3, device="meta")),
        "many apart": tuple(torch.empty(1) for _ in range(200)),
        "many": (*(torch.empty(1) for _ in range(200)), y, x, x)[::-1],
    }


APART = {"apart", "the others", "empty", "of empty", "fake apart", "meta", "many apart"}


@pytest.mark.parametrize("name", overlap_zoo())
def test_overlap(name: str) -> None:
    values = overlap_zoo()[name]
    sources = [G.Local(i) for i in range(len(values))]
    guards = [G.Guard(sources[0], T.NoOverlap(tuple(sources[1:])))]
    tree = G.compile(guards)
    for _ in range(3):
        assert tree.check(values, None) == (name in APART)
    assert reference.check(guards, values) == (name in APART)
    failure = tree.explain(values, None)
    assert (failure is None) == (name in APART)
    assert failure is None or "shares no memory with local 1" in failure.expected


@pytest.mark.parametrize("n", [2, 5, 300])
def test_overlap_of_many_that_are_written_to(n: int) -> None:
    values = tuple(torch.randn(2) for _ in range(n))
    sources = [G.Local(i) for i in range(n)]
    for written in {1, 2, n // 2 + 1, n}:
        guards = [G.Guard(sources[0], T.NoOverlap((*sources[written:],), (*sources[1:written],)))]
        tree = G.compile(guards)
        assert tree.check(values, None)
        for i, j in ((0, 1), (1, 0), (n - 2, n - 1), (n - 1, 0), (n // 2, n - 1), (0, n // 2)):
            if i == j:
                continue
            changed = (*values[:i], values[j][1:], *values[i + 1 :])
            expected = min(i, j) >= written
            assert tree.check(changed, None) == expected == reference.check(guards, changed)
        assert tree.check(values, None)


def test_overlap_runs_no_python(mode: str) -> None:
    x, y = torch.randn(3), torch.randn(3)
    tree = G.compile([G.Guard(X, T.NoOverlap((Y,)))])
    assert tree.check((x, y), None)
    assert not tree.check((x, x[1:]), None)
    assert (tree.callbacks == 0) == (mode in NATIVE)


def test_overlap_of_what_changes_in_place() -> None:
    x, y = torch.randn(3), torch.randn(3)
    tree = G.compile([G.Guard(X, T.NoOverlap((Y,)))])
    assert tree.check((x, y), None)
    y.data = x[1:]
    assert not tree.check((x, y), None)
    x.set_(torch.randn(3))
    assert tree.check((x, y), None)


def test_fetched_parameters_are_not_kept_alive() -> None:
    """A dropped model is freed while what was compiled for it lives."""

    def forward(model: Any, x: Any) -> Any: ...

    def target(fetched: Any, model: Any, x: Any) -> Any:
        return x @ fetched[0] + fetched[1]

    def linear() -> Any:
        return torch.nn.Linear(4, 4)

    model, x = linear(), torch.randn(2, 4)
    parameters = [G.Key(G.Attr(X, "_parameters"), name) for name in ("weight", "bias")]
    guards = [G.Guard(X, G.TypeIs(torch.nn.Linear)), G.Guard(Y, T.tensor_match(x))]
    guards += [
        G.Guard(source, T.tensor_match(parameter))
        for source, parameter in zip(parameters, model.parameters(), strict=True)
    ]
    compiled = CompiledFunction(forward, no_miss)
    compiled.add_entry(G.compile(guards, outputs=parameters), target, fetch=True)
    for _ in range(5):
        assert torch.equal(compiled(model, x), x @ model.weight + model.bias)
    with torch.no_grad():
        model.weight.zero_()
    model.bias = torch.nn.Parameter(torch.ones(4))
    assert torch.equal(compiled(model, x), torch.ones(2, 4))
    dying = [weakref.ref(o) for o in (model, model.weight, model.bias)]
    del model
    gc.collect()
    assert [ref() for ref in dying] == [None] * 3
    other = linear()
    assert torch.equal(compiled(other, x), x @ other.weight + other.bias)
    other.half()
    with pytest.raises(AssertionError, match="has no entry"):
        compiled(other, x)


def test_gradients_are_read_though_nobody_holds_them() -> None:
    """The Python side of a gradient stays while its tensor does: the tree has it borrowed."""
    field = G.Field(X, torch._C.TensorBase.__dict__["grad"])
    example = torch.ones(3)
    tree = G.compile([G.Guard(field, T.tensor_match(example))], outputs=(field,))
    for _ in range(5):
        leaf = torch.ones(3, requires_grad=True)
        assert not tree.check((leaf,), None)
        (leaf * 2).sum().backward()  # made in C++: there is no Python object for it yet
        values = tree.values((leaf,), None)
        assert values is not None
        (found,) = values
        assert found is leaf.grad
        assert found.tolist() == [2.0, 2.0, 2.0]
        leaf.grad = None
        assert not tree.check((leaf,), None)
    dead = weakref.ref(found)
    del found, leaf, values
    gc.collect()
    assert dead() is None
