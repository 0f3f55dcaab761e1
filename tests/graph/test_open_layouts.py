"""Where results lie in memory is answered as in eager while sizes are open, or depend on values.

Each operator is called on tensors that lie in memory in many ways, with sizes that change between
calls, 0 and 1 among them. A slice of the operators runs here, all under `STATOR_OPERATORS=all`
(`make stress`).
"""

# mypy: ignore-errors

import os

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import stator

ALL = os.environ.get("STATOR_OPERATORS") == "all"
PART = 1 if ALL else 23

OPERATORS = {
    "neg": lambda x: -x,
    "relu": torch.relu,
    "add": lambda x: x + 1,
    "rsub": lambda x: 1 - x,
    "pow": lambda x: x**2,
    "rpow": lambda x: 2**x,
    "eq": lambda x: x == 0,
    "clamp": lambda x: x.clamp(0, 1),
    "double": lambda x: x.double(),
    "int32": lambda x: x.to(torch.int32),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "zeros_like": torch.zeros_like,
    "empty_like": torch.empty_like,
    "full_like": lambda x: torch.full_like(x, 2),
    "new_zeros": lambda x: x.new_zeros(x.shape),
    "gelu": F.gelu,
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "hardtanh": F.hardtanh,
    "threshold": lambda x: F.threshold(x, 0, 1),
    "logsigmoid": F.logsigmoid,
    "prelu": lambda x: F.prelu(x, torch.ones(1)),
    "nan_to_num": torch.nan_to_num,
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(0)[0],
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "dropout": lambda x: F.dropout(x, 0.5, False),
    "transpose": lambda x: x.transpose(0, -1),
    "movedim": lambda x: x.movedim(0, -1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "reshape": lambda x: x.reshape(-1),
    "reshape rows": lambda x: x.reshape(x.shape[0], -1),
    "view of a copy": lambda x: x.contiguous().view(-1),
    "reshape, ones": lambda x: x.reshape(1, *x.shape, 1),
    "reshape, ones inside": lambda x: x.unsqueeze(0).reshape(1, x.shape[0], 1, -1),
    "unflatten": lambda x: x.reshape(x.shape[0], 1, -1).unflatten(-1, (1, -1)),
    "view, ones dropped": lambda x: x[None, :, None].reshape(x.shape),
    "flatten": lambda x: x.flatten(),
    "slice": lambda x: x[1:],
    "step": lambda x: x[::2],
    "narrow": lambda x: x[..., :1],
    "select": lambda x: x[..., 0],
    "expand": lambda x: x.expand(2, *x.shape),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 1, 1),
    "chunk": lambda x: x.chunk(2)[0],
    "index": lambda x: x[torch.arange(x.shape[0])],
    "repeat": lambda x: x.repeat(*[2] * x.dim()),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x], -1),
    "sum": lambda x: x.sum(0),
    "sum, kept": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1),
    "pad": lambda x: F.pad(x, (1, 1)),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "tril": lambda x: x.tril(),
    "frexp": lambda x: torch.frexp(x)[0],
    "ldexp": lambda x: torch.ldexp(x, x),
    "complex": lambda x: torch.complex(x, x),
    "round": lambda x: x.round(decimals=1),
    "one_hot": lambda x: F.one_hot((x > 0).long(), 2),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "transposed": lambda x: x.mT * 2,
    "gaps": lambda x: x[..., ::2] + 1,
    "dtypes": lambda x: x + x.double(),
    "row": lambda x: x + torch.ones(1, x.shape[-1]),
    "column": lambda x: x * torch.ones(x.shape[-2], 1),
    "two orders": lambda x: x + x.mT.contiguous().mT,
    "other order": lambda x: x.mT.contiguous().mT + x,
    "outer": lambda x: x.unsqueeze(0) + x.unsqueeze(1),
}
LAYOUTS = {
    "new": lambda a, b: torch.ones(a, b),
    "transposed": lambda a, b: torch.ones(b, a).t(),
    "gaps": lambda a, b: torch.ones(a, 2 * b)[:, ::2],
    "rows": lambda a, b: torch.ones(2 * a, b)[::2],
    "one row": lambda a, b: torch.ones(1, b).expand(a, b),
    "one column": lambda a, b: torch.ones(a, 1).expand(a, b),
    "offset": lambda a, b: torch.ones(a + 1, b)[1:],
    "three": lambda a, b: torch.ones(a, 2, b),
    "three, transposed": lambda a, b: torch.ones(b, 2, a).transpose(0, 2),
    "three, permuted": lambda a, b: torch.ones(2, a, b).permute(1, 2, 0),
    "images": lambda a, b: torch.ones(2, 3, a, b).contiguous(memory_format=torch.channels_last),
    "four, permuted": lambda a, b: torch.ones(a, 3, b, 2).permute(0, 3, 1, 2),
}
SIZES = [(4, 3), (5, 3), (3, 3), (1, 4), (4, 1), (6, 2), (1, 1), (0, 3), (3, 0)]
# Without elements, of which nobody can tell the order.
KNOWN = {("images", "masked_fill"), ("four, permuted", "masked_fill")}
OF_ROWS = {
    "new": lambda y: y,
    "transposed": lambda y: y.t(),
    "gaps": lambda y: y[:, ::2],
    "three": lambda y: y.unsqueeze(1),
    "expanded": lambda y: y.unsqueeze(1).expand(-1, 2, -1),
}
ROWS = [(1, 1, 0, 1), (1, 1, 1, 1), (0, 1, 0, 0), (1, 0, 0, 1), (0, 0, 0, 0), (1, 1, 1, 0)]


def lies(made):
    return tuple(made.shape), tuple(made.stride()), made.is_contiguous(), made.storage_offset()


def outcome(function, *args):
    try:
        return function(*args)
    except (RuntimeError, IndexError) as error:
        return type(error)


def part(number):
    names = list(OPERATORS)
    return names[number % PART :: PART]


def differing(functions, calls, dynamic):
    """Which calls are answered in another way than in eager."""
    found = []
    for name, function in functions.items():
        stator.reset()
        compiled = stator.compile(function, backend="eager", dynamic=dynamic)
        for args in calls:
            wanted, got = outcome(function, *args), outcome(compiled, *args)
            if wanted != got:
                found.append(f"{name}, {[tuple(each.shape) for each in args]}: {wanted}, {got}")
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sizes_that_are_open(layout):
    functions = {
        name: lambda x, operator=OPERATORS[name]: lies(operator(x))
        for name in part(list(LAYOUTS).index(layout))
        if (layout, name) not in KNOWN
    }
    calls = [(LAYOUTS[layout](*each),) for each in SIZES]
    found = differing(functions, calls, True)
    assert not found, "\n".join(found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", OF_ROWS)
def test_sizes_that_depend_on_values(layout):
    def rows(operator):
        return lambda x, keep: lies(operator(OF_ROWS[layout](x[keep])))

    functions = {name: rows(OPERATORS[name]) for name in part(list(OF_ROWS).index(layout) + 5)}
    x = torch.arange(12.0).reshape(4, 3)
    calls = [(x, torch.tensor(each, dtype=torch.bool)) for each in ROWS]
    found = differing(functions, calls, None)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dropout_in_evaluation_is_its_argument(backend, dynamic):
    def f(x):
        y = F.dropout(x * 2, 0.5, training=False)
        z = F.dropout(x, p=0.0)
        y.add_(1)
        return y, F.dropout(y, 0.1, False) is y, z is x, y.sum()

    for size in (3, 5, 1):
        x = torch.ones(size, 2 * size)[:, ::2]
        found, wanted = stator.compile(f, backend=backend, dynamic=dynamic)(x), f(x)
        assert found[1:3] == wanted[1:3] == (True, True)
        assert torch.equal(found[0], wanted[0]) and torch.equal(found[3], wanted[3])


VIEWS = {
    "einsum": lambda x: torch.einsum("bhid,bhjd->bhij", x, x),
    "einsum, summed": lambda x: torch.einsum("bhid,bhjd->bij", x, x),
    "heads": lambda x: x.transpose(1, 2).reshape(1, x.shape[2], -1).unflatten(-1, (2, -1)).mT,
    "view": lambda x: x.transpose(1, 2)[:, :, None].view(1, x.shape[2], 1, 1, 2, 4),
    "rows": lambda x: x.permute(2, 0, 1, 3).reshape(x.shape[2], 1, 8),
    "unsafe": lambda x: torch.bmm(x[0], x[0].mT).view(1, 2, x.shape[2], 1, x.shape[2]),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_size_of_one_beside_an_open_one_fixes_nothing(name, backend):
    """A batch of one, whose sequences differ in length: one graph for all but the first."""
    stator.reset()

    def program(x):
        made = VIEWS[name](x)
        return made, lies(made)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for length in (3, 5, 6, 9, 2):
        x = torch.arange(8.0 * length).reshape(1, 2, length, 4)
        (found, place), (wanted, right) = compiled(x), program(x)
        assert torch.equal(found, wanted) and place == right == lies(found)
    assert stator.testing.count(compiled).compiles == 2
