"""Operators that write to memory which they also read, where nobody knows how large it is.

Generated: each method of `torch.Tensor` that changes its tensor and takes another, and functions
with `out=`, on two parts of one tensor whose bounds are open, or depend on values. Eager refuses
some overlaps, and not others; results and refusals are compared over calls with other bounds.
"""

# mypy: ignore-errors

import inspect
import os
import warnings

import pytest
import torch

import stator
from stator.backends.registry import lookup
from tests.versions import sizes_of_slices

BACKENDS = ("eager", "aot_eager")
SHAPES = (
    "resize_ resize_as_ resize_as_sparse_ as_strided_ t_ transpose_ swapaxes_ swapdims_ squeeze_"
)
STATE = "requires_grad_ set_ share_memory_ apply_ map_ map2_ detach_ rename_ unsqueeze_"
RANDOM = "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_"
LEFT_OUT = frozenset(f"{SHAPES} {STATE} {RANDOM} sparse_resize_ sparse_resize_and_clear_".split())


def positions(v):
    return torch.zeros(v.shape[0], dtype=torch.long)


ARGUMENTS = {
    "v": lambda w, v: (v,),
    "v v": lambda w, v: (v, v),
    "v 1": lambda w, v: (v, 1),
    "0 i v": lambda w, v: (0, positions(v), v),
    "0 i v sum": lambda w, v: (0, positions(v), v, "sum"),
    "0 i v mean": lambda w, v: (0, positions(v), v, "mean"),
    "(i) v": lambda w, v: ((positions(v),), v),
    "i v": lambda w, v: (positions(v), v),
    "0 i v[0]": lambda w, v: (0, positions(v)[:1], v[0]),
    "v[0]": lambda w, v: (v[0],),
}


def memory(dtype):
    return (torch.arange(12) % 5 + 1).to(dtype)


def signatures():
    """How each method can be called on two tensors that share nothing."""
    names = [name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_")]
    for name in sorted(set(names) - LEFT_OUT):
        found = next(filter(None, (_runs(name, how) for how in ARGUMENTS)), None)
        if found is not None:
            yield f"{name}({found[0]})", name, *found


def _runs(name, how):
    for dtype in (torch.float32, torch.int64, torch.bool):
        try:
            w, v = memory(dtype)[:4], memory(dtype)[4:8]
            with warnings.catch_warnings(action="ignore"):
                getattr(w, name)(*ARGUMENTS[how](w, v))
        except (RuntimeError, TypeError, IndexError):
            continue
        return how, dtype
    return None


METHODS = {label: rest for label, *rest in signatures()}
KINDS = (
    *"add_ copy_ addcmul_ masked_scatter_ masked_fill_ lerp_ fill_".split(),
    *"index_copy_ index_put_ scatter_ put_".split(),
)
CHOSEN = [
    label
    for label, (name, *_) in METHODS.items()
    if name in KINDS or os.environ.get("STATOR_OPERATORS") == "all"
]


def on_parts(name, how):
    """Between two parts of an argument, of unknown bounds."""

    def program(x, i):
        n = i.item()
        w, v = x[:4], x[n : n + 4]
        getattr(w, name)(*ARGUMENTS[how](w, v))
        return w.clone(), v.clone()

    return program


def on_masked(name, how):
    """Between a tensor of unknown size and its first rows."""

    def program(x, i):
        y = x[: i.item()]
        y = y[y != 99]
        v = y[:4]
        getattr(y, name)(*ARGUMENTS[how](y, v))
        return y

    return program


def on_open(name, how):
    """Between two halves, of a size that is open, that touch or not."""

    def program(x, i):
        n = x.shape[0] // 2
        w, v = x[:n], x[i.shape[0] : i.shape[0] + n]
        getattr(w, name)(*ARGUMENTS[how](w, v))
        return w.clone(), v.clone()

    return program


def outcome(program, *args):
    with warnings.catch_warnings(action="ignore"):
        try:
            result = program(*args)
        except (RuntimeError, IndexError) as error:
            # What an operator has done before it refuses is eager's business.
            return type(error), str(error)
    results = result if isinstance(result, tuple) else (result,)
    return str([(r.tolist(), r.dtype) for r in results]), str([a.tolist() for a in args])


def compared(program, worlds, backend, dynamic):
    stator.reset()
    compiled = stator.compile(program, backend=backend, dynamic=dynamic)
    for world in worlds:
        assert outcome(compiled, *world()) == outcome(program, *world())


def at(dtype, *numbers):
    return [lambda n=n: (memory(dtype), torch.tensor(n)) for n in numbers]


@pytest.mark.parametrize("label", CHOSEN)
def test_parts_with_unknown_bounds(label) -> None:
    name, how, dtype = METHODS[label]
    # Apart, the same, overlapping, apart again.
    compared(on_parts(name, how), at(dtype, 5, 0, 2, 8, 2), "eager", None)
    compared(on_parts(name, how), at(dtype, 2, 8, 0), "aot_eager", None)


@pytest.mark.parametrize("label", CHOSEN)
def test_parts_of_unknown_size(label) -> None:
    name, how, dtype = METHODS[label]
    compared(on_masked(name, how), at(dtype, 6, 4, 1, 0, 7), "eager", None)
    compared(on_masked(name, how), at(dtype, 4, 6, 0), "aot_eager", True)


@pytest.mark.parametrize("label", CHOSEN)
def test_parts_of_open_size(label) -> None:
    name, how, dtype = METHODS[label]
    sizes = ((12, 6), (12, 4), (10, 5), (10, 3), (8, 4), (9, 4))
    worlds = [
        lambda size=size, n=n: (memory(dtype)[:size].clone(), torch.zeros(n)) for size, n in sizes
    ]
    compared(on_open(name, how), worlds, "eager", True)
    compared(on_open(name, how), worlds[:3], "aot_eager", True)


# ---------------------------------------------------------------------------- functions with `out=`

OUTS = {
    "cat": lambda x, n: torch.cat([x[n : n + 2], x[n : n + 2]], out=x[:4]),
    "stack": lambda x, n: torch.stack([x[n], x[n + 1]], out=x[:2]),
    "gather": lambda x, n: torch.gather(
        x[n : n + 4], 0, torch.zeros(4, dtype=torch.long), out=x[:4]
    ),
    "index_select": lambda x, n: torch.index_select(
        x[n : n + 4], 0, torch.zeros(4, dtype=torch.long), out=x[:4]
    ),
    "take": lambda x, n: torch.take(x[n:], torch.zeros(4, dtype=torch.long), out=x[:4]),
    "where": lambda x, n: torch.where(x[:4] > 0, x[n : n + 4], x[:4], out=x[:4]),
    "cumsum": lambda x, n: torch.cumsum(x[n : n + 4], 0, out=x[:4]),
    "sin": lambda x, n: torch.sin(x[n : n + 4], out=x[:4]),
    "sum": lambda x, n: torch.sum(x[n : n + 4], 0, keepdim=True, out=x[:1]),
    "foreach": lambda x, n: torch._foreach_add_([x[:4]], [x[n : n + 4]]),
    "foreach of two": lambda x, n: torch._foreach_mul_([x[:4], x[n : n + 4]], 2.0),
    "foreach copy": lambda x, n: torch._foreach_copy_([x[:4]], [x[n : n + 4]]),
    "items": lambda x, n: x.__setitem__(slice(0, 4), x[n : n + 4]),
    "item": lambda x, n: x.__setitem__(0, x[n]),
    "items of a mask": lambda x, n: x.__setitem__(x > 3, x[n]),
    "items of indices": lambda x, n: x.__setitem__(torch.tensor([0, 1]), x[n : n + 2]),
    "in place": lambda x, n: x[n : n + 4].__iadd__(x[:4]),
    "expanded": lambda x, n: x[:1].expand(n + 1).add_(1),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OUTS)
def test_functions_that_write(name, backend) -> None:
    def program(x, i):
        OUTS[name](x, i.item())
        return x.clone()

    compared(program, at(torch.float32, 5, 0, 2, 8, 3), backend, None)
    compared(program, at(torch.float32, 0, 5, 2), backend, True)


# ---------------------------------------------------------------------------- all of it

WHOLE = {
    "masked_scatter": lambda x: x.masked_scatter_(x > 2, x),
    "addmm": lambda x: x.view(3, 4)[:, :3].addmm_(x.view(3, 4)[:, :3], x.view(3, 4)[:, :3]),
    "matmul": lambda x: torch.matmul(x[:4].view(2, 2), x[:4].view(2, 2), out=x[:4].view(2, 2)),
    "mul": lambda x: x.mul_(x),
    "imul": lambda x: x.__imul__(x),
    "out": lambda x: torch.add(x, x, out=x),
    "copy": lambda x: x.copy_(x),
    "masked_fill": lambda x: x.masked_fill_(x > 2, 0.0),
    "foreach": lambda x: torch._foreach_mul_([x], [x]),
}
OF_ITS_ELEMENT = {"mul", "imul", "out", "copy", "masked_fill"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_all_elements_are_read_and_written(name, backend) -> None:
    def program(x):
        x = x + 1
        WHOLE[name](x)
        return x

    worlds = [lambda n=n: (torch.arange(12.0).roll(n) % 5,) for n in range(4)]
    compared(program, worlds, backend, None)
    compared(program, worlds, backend, True)
    breaks = stator.explain(program)(*worlds[0]()).breaks
    assert bool(breaks) is (name not in OF_ITS_ELEMENT)


# ---------------------------------------------------------------------------- what is captured


def assigned(x, i, j):
    x[i.item()] = x[j.item()]


def swapped(x, i, j):
    n, m = i.item(), j.item()
    x[n], x[m] = x[m].clone(), x[n]


def assigned_to_first(x, i, j):
    x[0] = x[j.item()]


def grown(x, i, j):
    x[i.item() :] += x[i.item() :]


def first_two(x, i, j):
    x[0] = x[1]


def halves(x, i, j):
    half = x.shape[0] // 2
    x[:half].copy_(x[half:-1])


SLICED = ("a part of itself", "a part that grows")
ROWS = {
    "assigned": assigned,
    "assigned to the first": assigned_to_first,
    "swapped": swapped,
    "copied": lambda x, i, j: x[i.item()].copy_(x[0]),
    "added": lambda x, i, j: x[i.item()].add_(x[j.item()]),
    "a part of itself": lambda x, i, j: x[i.item() :].mul_(x[i.item() :]),
    "a part that grows": grown,
    "its own square": lambda x, i, j: (y := x[x > 2]).mul_(y),
    "open rows": first_two,
    "open halves": halves,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[sizes_of_slices] * (name in SLICED)) for name in ROWS]
)
def test_rows_are_the_same_or_apart(name, backend) -> None:
    """For any numbers in one graph, which is right for all of them."""
    graphs = []

    def count(module, inputs):
        graphs.append(module)
        return lookup(backend)(module, inputs)

    def program(x, i, j):
        ROWS[name](x, i, j)
        return x + 1

    open_sizes = name.startswith("open")
    compiled = stator.compile(
        program, backend=count, fullgraph=True, dynamic=True if open_sizes else None
    )
    for i, j in ((0, 1), (2, 0), (1, 1), (2, 1), (0, 0)):
        size = 5 + 2 * i if open_sizes else 5
        args = torch.arange(float(size * 3)).view(size, 3), torch.tensor(i), torch.tensor(j)
        wanted = outcome(program, *(a.clone() for a in args))
        assert outcome(compiled, *args) == wanted
    assert len(graphs) == 1


# ---------------------------------------------------------------------------- lists of tensors

SGD = {
    **{"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0},
    **{"nesterov": False, "maximize": False, "is_first_step": False},
}
LISTS = {
    "added": lambda x, y: torch._foreach_add_([x], [y]),
    "copied": lambda x, y: torch._foreach_copy_([x], [y]),
    "by name": lambda x, y: torch._foreach_mul_(self=[x], scalar=2.0),
    "two": lambda x, y: torch._foreach_sqrt_([x, y]),
    "fused": lambda x, y: torch._fused_sgd_([x], [y], [], **SGD),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LISTS)
def test_changes_of_lists_are_seen(name, backend) -> None:
    """A graph that is tried and refused has changed nothing; texts are of before the change."""
    if name == "fused" and backend == "aot_eager":
        pytest.skip("torch has no fake kernel for it")

    def branches(x, y):
        LISTS[name](x, y)
        return x * 2 if x.sum() > 3 else x - 1

    def told(x, y):
        text = f"{x}"
        LISTS[name](x, y)
        return text

    for program in (branches, told):
        stator.reset()
        compiled = stator.compile(program, backend=backend)
        for scale in (2.0, 0.1, 0.1, 2.0, 0.1):
            ours, theirs = ((torch.full((4,), scale), torch.full((4,), scale)) for _ in "ab")
            assert str(compiled(*ours)) == str(program(*theirs))
            assert str(ours) == str(theirs)
            assert [t._version for t in ours] == [t._version for t in theirs]


def test_methods_are_found() -> None:
    found = {rest[0] for rest in METHODS.values()}
    assert {"add_", "copy_", "index_copy_", "scatter_", "masked_fill_", "put_"} <= found
    assert len(METHODS) > 50
    assert all(inspect.ismethoddescriptor(getattr(torch.Tensor, name)) for name in found)
