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
from stator._native._core import CompiledFunction  # noqa: E402
from stator.guards import reference  # noqa: E402
from stator.guards import tensors as T  # noqa: E402, N812

from .dispatching import no_miss  # noqa: E402

FakeTensorMode: Any = torch._subclasses.fake_tensor.FakeTensorMode
X, Y = G.Local(0, "x"), G.Local(1, "y")
FALLBACKS = ("impl", "keys", "functions", "agreement", "attributes")


@pytest.fixture(params=["native", *FALLBACKS], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    missing = T.calibrate("" if request.param == "native" else request.param)
    if request.param == "native":
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
    assert tree.callbacks == (mode != "native")


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


def test_overlap_runs_no_python(mode: str) -> None:
    x, y = torch.randn(3), torch.randn(3)
    tree = G.compile([G.Guard(X, T.NoOverlap((Y,)))])
    assert tree.check((x, y), None)
    assert not tree.check((x, x[1:]), None)
    assert (tree.callbacks == 0) == (mode == "native")


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
