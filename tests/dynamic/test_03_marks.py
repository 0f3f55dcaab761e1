# mypy: ignore-errors
"""What a user says of sizes: `mark_dynamic` and the like, and what is said when it can't be."""

import operator
import subprocess
import sys

import pytest
import torch

import stator

from .harness import Counting, compare, tensor


def marked(mark, *shape, dims=0, **options):
    x = tensor(*shape)
    mark(x, dims, **options)
    return x


def double(x):
    return x * 2


def run(program, *tensors, **options):
    counting = Counting()
    compiled = stator.compile(program, backend=counting, **options)
    for x in tensors:
        assert torch.equal(compiled(x), program(x))
    return len(counting.graphs)


def test_dynamic_from_the_start():
    first = marked(stator.mark_dynamic, 4, 3)
    assert run(double, first, tensor(5, 3), tensor(9, 3)) == 1


def test_several_dimensions():
    first = marked(stator.mark_dynamic, 4, 3, dims=[0, -1])
    assert run(double, first, tensor(5, 7), tensor(9, 2)) == 1


def test_a_range():
    first = marked(stator.mark_dynamic, 4, 3, min=3, max=6)
    assert run(double, first, tensor(3, 3), tensor(6, 3)) == 1
    assert run(double, first, tensor(7, 3), recompile_limit=9) == 2
    assert run(double, first, tensor(2, 3), recompile_limit=10) == 2


def test_torchs_own_marks_count():
    import torch._dynamo

    first = marked(torch._dynamo.mark_dynamic, 4, 3, min=2, max=8)
    assert run(double, first, tensor(5, 3), tensor(8, 3)) == 1
    first = marked(torch._dynamo.maybe_mark_dynamic, 4, 3)
    assert run(double, first, tensor(5, 3), recompile_limit=9) == 1
    first = marked(torch._dynamo.mark_static, 4, 3)
    assert run(double, first, marked(torch._dynamo.mark_static, 5, 3), dynamic=True) == 2


OURS_IN_TORCH = """
import torch
import stator

graphs = []

def backend(module, inputs):
    graphs.append(module.code)
    return module.forward

x = torch.ones(4, 3)
stator.mark_dynamic(x, 0, min=2, max=8)
compiled = torch.compile(lambda x: x * 2, backend=backend)
assert torch.equal(compiled(x), x * 2)
assert torch.equal(compiled(torch.ones(5, 3)), torch.ones(5, 3) * 2)
assert len(graphs) == 1
"""


def test_our_marks_are_torchs():
    # In a process of its own: torch.compile replaces functions of torch.
    subprocess.run([sys.executable, "-c", OURS_IN_TORCH], check=True, timeout=120)


def test_static():
    tensors = [marked(stator.mark_static, n, 3, dims=None) for n in (4, 5, 6)]
    assert run(double, *tensors) == 3
    tensors = [marked(stator.mark_static, n, n, dims=1) for n in (4, 5, 6)]
    assert run(double, *tensors, dynamic=True) == 3


def test_what_is_said_last_does_not_matter():
    """As in torch: dynamic goes before static."""
    for first, second in [
        (stator.mark_static, stator.mark_dynamic),
        (stator.mark_dynamic, stator.mark_static),
    ]:
        stator.reset()
        x = marked(first, 4, 3)
        second(x, 0)
        assert run(double, x, tensor(5, 3), tensor(9, 3)) == 1


def test_static_in_compiled_code():
    """There it fixes the size, and what the tensor is marked with is an error."""

    def program(x):
        stator.mark_static(x, 0)
        return x * 2

    counting = Counting()
    compiled = stator.compile(program, backend=counting, dynamic=True, fullgraph=True)
    for shape in [(4, 3), (4, 5), (5, 3), (5, 6)]:
        assert torch.equal(compiled(tensor(*shape)), tensor(*shape) * 2)
    assert len(counting.graphs) == 2
    with pytest.raises(stator.SpecializedError, match=r"stator.mark_static\(x, 0\)"):
        compiled(marked(stator.mark_dynamic, 7, 3))


TORCHS = ["mark_static", "mark_dynamic", "maybe_mark_dynamic", "decorators.mark_unbacked"]


@pytest.mark.parametrize("how", [{"index": 0}, {"index": [0]}, {"index": -2}, {"index": 9}, {}])
@pytest.mark.parametrize("name", TORCHS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torchs_own_in_compiled_code(name, how, backend):
    """As with ours: `mark_static` fixes sizes, the others come too late to say something."""
    import torch._dynamo

    mark = operator.attrgetter(name)(torch._dynamo)
    if name != "mark_static":
        how = {"index": 0}

    def program(x):
        mark(x, **how)
        return x * 2

    compiled = stator.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for shape in [(4, 3), (4, 3), (5, 3), (6, 3)]:
        assert torch.equal(compiled(tensor(*shape)), tensor(*shape) * 2)
    fixed = name == "mark_static" and how != {"index": 9}
    assert stator.testing.count(compiled).compiles == (3 if fixed else 1)


def test_torchs_mark_static_on_other_things():
    import torch._dynamo

    class Marked(torch.nn.Module):
        pass

    def program(x, what):
        return torch._dynamo.mark_static(what), x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    made, _ = compiled(tensor(2), Marked)
    assert made is Marked
    assert Marked._dynamo_marked_static is True
    for wrong in ("text", 3, None, int):
        with pytest.raises(TypeError) as theirs:
            program(tensor(2), wrong)
        with pytest.raises(TypeError) as ours:
            compiled(tensor(2), wrong)
        assert str(ours.value) == str(theirs.value)


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = tensor(2, 3)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        self.cache = torch.cat([self.cache, x])
        return self.cache.sum(0) + self.steps


@pytest.mark.parametrize(("sources", "compiles"), [("self.cache, self.ste*", 1), ("x", 2), ("", 2)])
def test_named_by_a_setting(sources, compiles):
    """Attributes, too, and by patterns."""
    counting, eager, model = Counting(), Cached(), Cached()
    with stator.config.patch(dynamic_sources=sources):
        compiled = stator.compile(model, backend=counting)
        for _ in range(8):
            assert torch.equal(compiled(tensor(1, 3)), eager(tensor(1, 3)))
    assert model.steps == eager.steps
    assert len(counting.graphs) == compiles


def test_parameters_are_open_if_they_are_marked():
    def scaled(x, weight):
        return x * weight

    def parameter(n, mark=True):
        weight = torch.nn.Parameter(tensor(n))
        if mark:
            stator.mark_dynamic(weight, 0)
        return weight

    counting = Counting()
    compiled = stator.compile(scaled, backend=counting)
    for n in (4, 5, 6):
        assert torch.equal(compiled(tensor(1), parameter(n)), tensor(1) * parameter(n))
    assert len(counting.graphs) == 1


@pytest.mark.parametrize(
    ("attributes", "compiles"),
    [
        ({"_dynamo_weak_dynamic_indices": {0}}, 1),
        ({"_dynamo_propagated_dynamic_indices": {0}}, 1),
        ({"_dynamo_strict_unbacked_indices": {0}}, 1),
        ({"_dynamo_unbacked_indices": {0}, "_dynamo_unbacked_bounds": {0: (0, 5)}}, 2),
        ({"_dynamo_static_indices": {0}, "_dynamo_weak_dynamic_indices": {0}}, 4),
        ({"_dynamo_dynamic_indices": "nonsense"}, 2),
    ],
    ids=str,
)
def test_as_torch_writes_it(attributes, compiles):
    """Marks of the user's, and what versions of AOTAutograd write on results."""

    def made(n):
        x = tensor(n, 3)
        x.__dict__.update(attributes)
        return x

    assert run(double, *map(made, (4, 5, 3, 7))) == compiles


def fixed_by_an_operator(x):
    y = x + 1
    return y + torch.ones(4, 3)


def fixed_by_a_branch(x):
    if x.shape[0] == 4:
        return x
    return x + 1


def fixed_by_a_range(x):
    total = x.sum()
    for i in range(x.shape[0]):
        total = total + i
    return total


def fixed_by_a_key(x):
    return x * {4: 2, 5: 3}[x.size(0)]


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (fixed_by_an_operator, "return y + torch.ones(4, 3)"),
        (fixed_by_a_branch, "if x.shape[0] == 4:"),
        (fixed_by_a_range, "for i in range(x.shape[0]):"),
        (fixed_by_a_key, "return x * {4: 2, 5: 3}[x.size(0)]"),
    ],
)
def test_what_fixes_a_size_is_named(program, line):
    compiled = stator.compile(program, backend="eager")
    with pytest.raises(stator.SpecializedError) as caught:
        compiled(marked(stator.mark_dynamic, 4, 3))
    text = str(caught.value)
    assert program.__name__ in text
    assert "x.size(0) must be 4, because of (x.size(0) == 4)" in text
    assert line in text
    assert __file__ in text
    weak = marked(stator.maybe_mark_dynamic, 4, 3)
    assert torch.equal(compiled(weak), program(tensor(4, 3)))


def test_a_backend_that_fixes_a_size():
    def backend(module, inputs):
        int(inputs[0].shape[0])
        return module.forward

    compiled = stator.compile(double, backend=backend)
    with pytest.raises(stator.SpecializedError, match=r"must be 4"):
        compiled(marked(stator.mark_dynamic, 4, 3))
    assert torch.equal(compiled(marked(stator.maybe_mark_dynamic, 5, 3)), tensor(5, 3) * 2)
    assert torch.equal(compiled(tensor(6, 3)), tensor(6, 3) * 2)  # its guard is ours


@pytest.mark.parametrize("size", [0, 1])
def test_zero_and_one(size):
    assert run(double, marked(stator.mark_dynamic, size, 3), dynamic=False) == 1

    compiled = stator.compile(double, backend="eager")
    with pytest.raises(stator.SpecializedError, match=f"is {size}: 0 and 1 are sizes of their own"):
        compiled(marked(stator.mark_dynamic, size, 3))


def test_outside_of_the_range():
    compiled = stator.compile(double, backend="eager")
    with pytest.raises(stator.SpecializedError, match="is 9, and marked as between 2 and 5"):
        compiled(marked(stator.mark_dynamic, 9, 3, min=2, max=5))


def test_unbacked_within_a_range():
    def made(n):
        return marked(stator.mark_unbacked, n, 3, min=1, max=5)

    counting = Counting()
    compiled = stator.compile(double, backend=counting)
    for n, graphs in [(3, 1), (1, 1), (5, 1), (0, 2), (7, 2), (2, 2)]:
        assert torch.equal(compiled(made(n)), made(n) * 2)
        assert len(counting.graphs) == graphs


def test_marks_that_make_no_sense():
    with pytest.raises(IndexError, match="no dimension 2"):
        stator.mark_dynamic(tensor(2, 2), 2)
    with pytest.raises(TypeError, match="not list"):
        stator.mark_dynamic([1], 0)
    with pytest.raises(ValueError, match="between 3 and 3"):
        stator.mark_dynamic(tensor(2, 2), 0, min=3, max=3)


def test_in_compiled_code_nothing_happens():
    def program(x):
        stator.mark_dynamic(x, 0)
        return x * 2

    x = tensor(4)
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x * 2)
    assert not x.__dict__


def any_size(x):
    return x * 2 + x.shape[0], x.reshape(-1), torch.zeros(x.shape[0])


def two_ways(x):
    return x + 1 if x.shape[0] > 3 else x - 1


def one_size(x):
    return x + torch.ones(4, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("program", "compiles"), [(any_size, 1), (two_ways, 2), (one_size, 6)])
def test_unbacked(program, compiles, backend):
    """0 and 1 are no sizes of their own."""
    calls = [lambda n=n: (marked(stator.mark_unbacked, n, 3),) for n in (4, 5, 1, 0, 7, 2)]
    found = compare(program, calls, backend)
    assert found.compiles <= compiles
