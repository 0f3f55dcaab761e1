# mypy: ignore-errors
"""Tensors: methods, indexing, views, in-place operations, attributes, factories, conversions."""

import pytest
import torch
from torch import Tensor

from .harness import Program, Programs, check, ints, t

programs = Programs()


def one():
    return (t(3, 4),)


def two():
    return t(3, 4), t(3, 4)


@programs(one, ops=["sin", "cos", "clamp", "mul"])
def methods(x):
    return x.sin().cos().clamp(min=-0.5).mul(2)


@programs(one, ops=["sin", "add", "relu"])
def functions(x):
    return torch.relu(torch.add(torch.sin(x), x, alpha=2))


@programs(one)
def python_types_as_dtypes(x):
    made = torch.zeros(2, dtype=float), torch.tensor([1], dtype=bool)
    return x.to(int), x.sum(dtype=complex), *made


@programs(one, raises=ValueError)
def a_python_type_that_is_no_dtype(x):
    return x.type(int)


@programs(one)
def reductions(x):
    return x.sum(), x.mean(0), x.prod(dim=1, keepdim=True), x.amax((0, 1)), x.std(), x.norm()


@programs(one)
def reductions_with_indices(x):
    values, indices = x.max(dim=1)
    low = x.min(0)
    return values, indices, low.values + 1, low[1], torch.topk(x, 2), x.sort(descending=True)


@programs(one)
def named_results_keep_their_type(x):
    return x.max(dim=1), torch.linalg.qr(x).R, x.median(0)


@programs(lambda: (t(4, 5, 6),))
def integer_and_slice_indexing(x):
    return x[0], x[-1, 2], x[1:3], x[:, ::2], x[..., 0], x[0, ..., 1:], x[:, None], x[1, 2, 3]


@programs(lambda: (t(5, 4), ints(3, high=5), t(5) > 0))
def advanced_indexing(x, index, mask):
    return x[index], x[index, 1], x[:, [0, 2]], x[[0, 1], [1, 2]], x[torch.tensor([0, 3])]


@programs(lambda: (t(5, 4),))
def index_with_lists_and_bools(x):
    return x[[True, False, True, False, True]], x[(slice(1, 3), 0)], x[None, :, True]


@programs(lambda: (t(5, 4), t(4)))
def item_assignment(x, y):
    x[0] = 1.0
    x[1:3, 0] = y[:2]
    x[..., -1] = 5
    x[[3, 4]] = y
    return x.sum()


@programs(lambda: (t(5, 4), t(5, 4) > 0))
def masked_assignment(x, mask):
    z = x.clone()
    z[mask] = 0.0
    return z, torch.where(mask, x, -x), x.masked_fill(mask, 3)


@programs(lambda: (t(5, 4), ints(5, 2, high=4)))
def gather_and_scatter(x, index):
    g = x.gather(1, index)
    return g, torch.zeros(5, 4).scatter_(1, index, g), x.index_select(0, index[:, 0].clamp(max=3))


@programs(two, ops=["add_", "mul_", "sub_"])
def inplace_methods(x, y):
    x.add_(y).mul_(2)
    y.sub_(1)
    return x


@programs(one)
def inplace_on_a_view(x):
    x[0].zero_()
    x.t()[1].fill_(7)
    row = x[2]
    row += 1
    return row


@programs(one)
def returned_views_alias(x):
    return x[0], x.view(12), x.t(), x.reshape(2, 6), x.expand(2, 3, 4), x.unsqueeze(0)


@programs(one)
def views_of_temporaries_alias(x):
    y = x + 1
    return y, y[0], y.view(4, 3), y.detach()


@programs(lambda: (t(2, 3, 4),))
def shape_changes(x):
    b, s, d = x.shape
    y = x.view(b * s, d).transpose(0, 1).contiguous()
    return (
        y,
        x.permute(2, 0, 1),
        x.flatten(1),
        x.squeeze(),
        x.movedim(0, -1),
        x.unflatten(2, (2, 2)),
    )


@programs(lambda: (t(2, 3, 4),))
def attributes(x):
    return (
        x.shape,
        x.dtype,
        x.device,
        x.ndim,
        x.requires_grad,
        x.is_leaf,
        x.layout,
        x.itemsize,
        x.mT,
        x.nbytes,
        x.is_cuda,
        x.grad,
    )


@programs(lambda: (t(2, 3, 4).transpose(0, 1),))
def sizes_and_strides(x):
    return (
        x.size(),
        x.size(-1),
        x.stride(),
        x.stride(1),
        x.numel(),
        x.dim(),
        x.is_contiguous(),
        x.storage_offset(),
        x.element_size(),
        len(x),
        x.contiguous(),
    )


@programs(one)
def size_arithmetic(x):
    n, m = x.shape
    return x.reshape(m, n) * (n // 2) + x.size(0) ** 2, x.shape[1:], x.shape + (1,), x.shape.numel()


@programs(one)
def size_type(x):
    return type(x.shape) is torch.Size, isinstance(x.shape, tuple), x.shape == (3, 4), x.shape


@programs(one)
def dtype_conversions(x):
    return x.double(), x.to(torch.int32), x.half(), x.bool(), x.to(x.int()), x.type(torch.float64)


@programs(lambda: (t(3, dtype=torch.int32), t(3, dtype=torch.float64)))
def type_promotion(i, d):
    return i + d, i / 2, i // 2, i * 1.5, torch.result_type(i, d), i + True


@programs(one)
def conversion_to_the_same_type_aliases(x):
    return x.to(torch.float32)


@programs(one)
def dtype_properties(x):
    info = torch.finfo(x.dtype)
    return (
        x.clamp(info.min, info.max),
        info.eps,
        x.dtype.is_floating_point,
        torch.iinfo(torch.int8).max,
    )


@programs(one)
def factories(x):
    return (
        torch.zeros(2, 3),
        torch.ones_like(x),
        torch.full((2,), 7.0),
        torch.arange(5),
        torch.linspace(0, 1, 5),
        torch.eye(3),
        x.new_zeros(2),
        torch.empty(0),
        x.new_full((2, 2), 3),
    )


@programs(one)
def factories_from_shapes(x):
    n, m = x.shape
    return (
        torch.zeros(n, m) + x,
        torch.ones(x.shape),
        torch.arange(n, dtype=x.dtype),
        torch.eye(n, m),
    )


@programs(one)
def tensors_from_python_data(x):
    return (
        torch.tensor([1, 2, 3]),
        torch.tensor(2.5) + x,
        torch.tensor([[1.0], [2.0]]),
        torch.tensor([]),
    )


@programs(lambda: (t(3), 2.0), changes={"number": lambda: (t(3), 3.0)})
def tensor_from_argument(x, n):
    return x * torch.tensor(n), torch.as_tensor([n, n])


@programs(one)
def constant_that_is_changed(x):
    y = torch.tensor([1.0, 2.0, 3.0, 4.0])
    y += x[0]
    return y


@programs(two)
def joining(x, y):
    return (
        torch.cat([x, y]),
        torch.stack((x, y), dim=1),
        torch.hstack([x, y]),
        torch.cat([x, y], -1),
    )


@programs(one)
def splitting(x):
    a, b = x.split([1, 2])
    c, d = torch.chunk(x, 2, dim=1)
    first, *rest = x.unbind(0)
    return a + 1, b, c * d, first, rest, x.tensor_split(2)


@programs(one)
def unpacking_a_tensor(x):
    a, b, c = x
    return a + b * c


@programs(one, dead=True)
def tensor_in_a_loop(x):
    return [row.sum() for row in x], len(x), [i for i, _ in enumerate(x)]


@programs(lambda: (t(3, 4), t(4, 5), t(2, 3, 4), t(2, 4, 3)))
def matrix_products(a, b, c, d):
    return a @ b, torch.mm(a, b), torch.bmm(c, d), torch.einsum("ij,jk->ik", a, b), a.matmul(b)


@programs(lambda: (t(3), t(3), t(3)), ops=["add"])
def out_argument(x, y, out):
    return torch.add(x, y, out=out)


@programs(lambda: (t(3),))
def out_argument_inside(x):
    out = torch.empty(3)
    torch.mul(x, 2, out=out)
    return out + 1


@programs(one)
def types_of_tensors(x):
    y = x + 1
    return type(x) is Tensor, isinstance(y, Tensor), type(y).__name__, torch.is_tensor(x), y


def parameter():
    return (torch.nn.Parameter(t(3)),)


@programs(parameter, dead=True, changes={"tensor": lambda: (t(3, grad=True),)})
def types_of_parameters(p):
    return (
        type(p) is torch.nn.Parameter,
        isinstance(p, torch.nn.Parameter),
        type(p * 2) is Tensor,
        p,
    )


@programs(lambda: (t(3, grad=True),))
def detach_and_data(x):
    y = x * 2
    return y.detach(), x.data * 3, y.requires_grad, x.detach().requires_grad, y


@programs(lambda: (t(3, grad=True),), dead=True)
def requires_grad_of_results(x):
    y = x * 2
    return y.requires_grad, y.is_leaf, (x > 0).requires_grad, y


@programs(lambda: (t(3, dtype=torch.complex64),))
def complex_tensors(z):
    return z.real, z.imag, z.conj(), z.abs(), torch.view_as_real(z), z * 1j, z.conj() * 2


@programs(one)
def comparison_methods(x):
    return x.eq(x), x.gt(0).any(), x.isnan().all(), torch.equal, x.ge(0) & x.le(1), x.logical_not()


@programs(two)
def broadcasting(x, y):
    return x + y[0], x * y[:, :1], torch.broadcast_tensors(x[0], y), x - 1.5


@programs(one)
def copy_and_clone(x):
    y = x.clone()
    y.copy_(x * 2)
    z = torch.empty_like(x)
    z.copy_(y)
    return y, z, x.clone().data_ptr


@programs(lambda: (t(2, 3, 4, 4).to(memory_format=torch.channels_last),))
def memory_formats(x):
    y = x * 2
    return y, x.contiguous(), y.is_contiguous(memory_format=torch.channels_last), torch.relu(x)


@programs(one)
def cumulative_and_sorting(x):
    return x.cumsum(1), x.argsort(-1), x.argmax(), x.flip(0), x.roll(1, 1), x.diff(dim=0)


@programs(one)
def triangles_and_diagonals(x):
    return x.tril(), x.triu(1), torch.diagonal(x), torch.diag(x[0]), torch.outer(x[0], x[1])


@programs(lambda: (ints(6, high=4),))
def integer_operations(i):
    return i % 3, i // 2, torch.bitwise_and(i, 1), torch.nn.functional.one_hot(i, 4), i.float()


@programs(one)
def torch_function_with_keywords(x):
    return torch.clamp(input=x, min=0), torch.sum(x, dim=(0, 1)), torch.add(x, other=2, alpha=3)


@programs(one, raises=RuntimeError)
def shape_error(x):
    return x + torch.zeros(5)


@programs(one, raises=IndexError)
def index_error(x):
    return x.sum(dim=5)


@programs(one, raises=TypeError)
def type_error(x):
    return torch.sin(x, 3)


@programs(one, raises=AttributeError)
def attribute_error(x):
    return x.no_such_method()


@programs(one)
def setting_attributes_on_a_result(x):
    y = x + 1
    y.tag = "mine"
    return y, hasattr(x, "tag"), y.tag


@programs(lambda: (t(3),), world=lambda: None)
def setting_attributes_on_an_argument(x):
    x.seen = getattr(x, "seen", 0) + 1
    return x * x.seen


@programs(one)
def inplace_after_use(x):
    y = x * 2
    x.add_(1)
    z = x * 2
    return y, z


def aliased():
    base = t(6)
    return base[:4], base[2:]


@programs(aliased, changes={"memory": lambda: (t(4), t(4))}, free=True)
def overlapping_arguments(a, b):
    a.mul_(2)
    return a + b, b


@programs(lambda: (t(3),) * 2, changes={"sharing": lambda: (t(3), t(3))})
def the_same_argument_twice(a, b):
    a.add_(1)
    return b * 2, a is b


@programs(one)
def resize_and_set(x):
    y = torch.empty(0)
    y.resize_(2, 2).zero_()
    return y, x + 1


@programs(one)
def swap_rows_in_place(x):
    x[[0, 1]] = x[[1, 0]]
    return x


@programs(lambda: (t(4, 4),))
def linear_algebra(x):
    spd = x @ x.T + torch.eye(4) * 5
    return torch.linalg.cholesky(spd), torch.trace(x), spd.diagonal().prod()


@programs(
    lambda: (t(3), t(3)),
    changes={
        "dtype": lambda: (t(3, dtype=torch.float64), t(3)),
        "strides": lambda: (t(6)[::2], t(3)),
    },
)
def metadata_of_arguments(x, y):
    return x + y, x.stride(), x.dtype


@programs(lambda: (t(3), torch.float64), changes={"dtype": lambda: (t(3), torch.int8)})
def dtype_argument(x, dtype):
    return x.to(dtype), torch.zeros(2, dtype=dtype)


@programs(lambda: (t(3), torch.device("cpu")))
def device_argument(x, device):
    return x.to(device), torch.ones(3, device=device), device.type, x.device == device


@programs(lambda: (torch.empty(3, 4, device="meta"),))
def meta_tensor(x):
    return x + 1, x.device.type


@programs(one)
def apply_functions_by_name(x):
    return [getattr(torch, name)(x) for name in ("sin", "cos", "tanh")], getattr(x, "sum")()


@programs(one)
def scalars_from_zero_dim(x):
    s = x.sum()
    return s.dim(), s.shape, x / s, s[None], s.reshape(1, 1)


@programs(lambda: (t(8, 8),))
def tensor_slices_of_slices(x):
    return (
        x[1:][:-1][::2, 1:7:3],
        x[2:6, 2:6].sum(),
        x.narrow(0, 1, 3),
        x.select(1, 2),
        x.unfold(0, 2, 2),
    )


@programs(one)
def unused_views_and_dtypes(x):
    return x.view(torch.int32), x.view(dtype=torch.int32)[0], torch.as_strided(x, (2, 2), (1, 2))


@programs(lambda: (t(8),))
def masked(x):
    y = x[x > 0]
    return y * 2, y.shape[0]


@programs(lambda: (t(8),))
def size_of_a_masked_result(x):
    y = x[x > 0]
    return torch.zeros(y.shape[0] + 1), y.sum(), y.numel() * 2


@programs(lambda: (t(8),))
def masked_twice(x):
    y = x[x > 0]
    return torch.cat([y, y]).view(2, -1), y[y > 0.1].sum()


@programs(lambda: (t(4, 3),))
def unique_rows(x):
    return torch.unique((x * 2).round(), dim=0)


@programs(lambda: (t(4, 3),))
def where_indices(x):
    rows, columns = torch.where(x > 0)
    return x[rows, columns].sum(), rows


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
