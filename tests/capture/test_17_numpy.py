# mypy: ignore-errors
"""numpy: constants made from it, arrays as arguments, conversions."""

import numpy as np
import pytest
import torch

from .harness import Check, Program, Programs, check, given, t

programs = Programs()
TABLE = np.arange(6.0).reshape(2, 3)


@programs(lambda: (t(3), np.float64(2.5)), changes={"value": lambda: (t(3), np.float64(3.5))})
def numpy_scalar(x, n):
    return x * float(n)


@programs(lambda: (t(3), np.int64(2)), changes={"value": lambda: (t(3), np.int64(1))})
def numpy_integer_as_index(x, n):
    return x[int(n)] + 1


@programs(lambda: (t(3),), free=True)
def constant_array(x):
    return x + torch.from_numpy(TABLE)[0], torch.tensor(TABLE)


@programs(lambda: (t(3),), free=True)
def numpy_on_numbers(x):
    return x * float(np.sqrt(4.0)), float(np.pi), int(np.prod([2, 3]))


@programs(lambda: (t(3),))
def numpy_constants(x):
    return x * np.pi, x + np.e, np.inf


@programs(lambda: (t(3),), free=True)
def array_made_inside(x):
    a = np.linspace(0, 1, 3)
    return x + torch.from_numpy(a)


@programs(lambda: (t(3), np.ones(3, dtype=np.float32)), free=True)
def array_argument(x, a):
    return x + torch.from_numpy(a)


@programs(
    lambda: (t(3), np.ones(3)),
    changes={
        "shape": lambda: (t(3), np.ones((2, 3))),
        "dtype": lambda: (t(3), np.ones(3, dtype=np.int32)),
    },
)
def metadata_of_an_array(x, a):
    return x * a.ndim + len(a.shape), str(a.dtype)


@programs(lambda: (t(3),))
def dtypes(x):
    return x.to(torch.float64), np.dtype("float32").itemsize, np.float32 is np.dtype("f4").type


@programs(lambda: (t(3),), free=True)
def numpy_of_a_tensor(x):
    return torch.from_numpy(x.numpy() * 2)


# ------------------------------------------------------------------ scalars


class Holder:
    def __init__(self, scale):
        self.scale = scale


@programs(
    lambda: (t(3), np.float64(2.5)),
    changes={
        "value": lambda: (t(3), np.float64(0.5)),
        "type": lambda: (t(3), np.float32(2.5)),
        "kind": lambda: (t(3), 2.5),
    },
)
def scalar_next_to_a_tensor(x, n):
    return x * n, n * x, n - x, x / n, x > n, n


@programs(
    lambda: (t(3, dtype=torch.int32), np.int64(2)),
    changes={"type": lambda: (t(3, dtype=torch.int32), np.int32(2))},
)
def integer_next_to_a_tensor(x, n):
    return x + n, n * x, x // n, x[n], x[:n], x.view(n - 1, np.int64(3)), type(n) is np.int64


@programs(
    lambda: (t(3), Holder(np.float32(2.0))),
    changes={"value": lambda: (t(3), Holder(np.float32(3.0)))},
)
def scalar_as_an_attribute(x, holder):
    return x * holder.scale, holder.scale


@programs(lambda: (t(3), np.bool_(True)), changes={"value": lambda: (t(3), np.bool_(False))})
def numpy_bool_as_a_condition(x, flag):
    return (x + 1, flag) if flag else (x - 1, flag)


@programs(lambda: (t(3), np.float64(2.0)))
def arithmetic_on_scalars(x, n):
    a = n * 2 + 1
    b = np.sqrt(a) / np.int64(3)
    return x * float(b), a, b, a > 3, -n, round(n, 1), int(n) + 1, f"{n:.2f}", divmod(n, 2)


@programs(lambda: (t(2, 3, 4),))
def sizes_by_numpy(x):
    count = np.prod(x.shape)
    return x.reshape(int(count)), count, np.lcm(4, 6), int(np.ceil(7 / 2)), np.log2(8)


@programs(lambda: (t(3), np.float64("nan")), changes={"value": lambda: (t(3), np.float64(1))})
def scalar_that_is_not_equal_to_itself(x, n):
    return x * 2 if n == n else x * 3


@programs(lambda: (t(3), np.float64(0.0)), changes={"sign": lambda: (t(3), np.float64(-0.0))})
def signed_zero(x, n):
    return x + float(np.copysign(1.0, n))


@programs(lambda: (t(3), np.str_("abc")), changes={"value": lambda: (t(3), np.str_("abd"))})
def numpy_string(x, s):
    return x * len(s), s


@programs(lambda: (t(3), np.datetime64("2020-01-01")))
def numpy_date(x, day):
    return x * 2, day


@programs(lambda: (t(3), np.float64(2.5), np.float64(2.5)))
def scalars_keep_their_identity(x, a, b):
    return x * a, a is a, a is b, [a, b, a]


@programs(lambda: (t(3),), free=True)
def tensors_from_scalars(x):
    a, b = torch.tensor(np.float64(2.5)), torch.tensor(np.int32(3))
    return x + a, a, b, torch.as_tensor(np.float32(1.5)), torch.full((2,), np.float64(2.0))


@programs(lambda: (t(3),), raises=ZeroDivisionError)
def error_of_python_next_to_numpy(x):
    return x * float(np.float64(1.0)) / (int(np.int64(0)) and 1 or 1 // 0)


@programs(lambda: (t(3),), raises=ValueError, free=True)
def error_of_numpy(x):
    return x + torch.from_numpy(np.ones(3) + np.ones(4))


@programs(lambda: (t(3), np.dtype("float32")), changes={"value": lambda: (t(3), np.dtype("i8"))})
def dtype_argument(x, dtype):
    return x * dtype.itemsize, dtype, dtype.name, str(dtype), dtype == np.float32, dtype.kind


# ------------------------------------------------------------------ arrays made inside


@programs(lambda: (t(3),))
def known_array_returned(x):
    a = np.arange(6.0).reshape(2, 3)
    a[0, 1] = 7
    return x * 2, a


@programs(lambda: (t(3),))
def known_arrays_in_containers(x):
    a = np.array([1, 2, 3], dtype=np.int32)
    return {"x": x + 1, "a": a, "again": [a, a]}, a.tolist(), a.shape, a.sum(), a.dtype


@programs(lambda: (t(3),))
def python_over_a_known_array(x):
    a = np.array([3.0, 1.0, 2.0])
    a += 1
    a.sort()
    total = sum(float(v) for v in a)
    for v in a:
        x = x * v
    return x, total, list(a), max(a), a[::-1][0], 4.0 in a, len(a), (a > 2).any(), bool(a[0])


@programs(lambda: (t(4),), free=True)
def known_array_as_a_constant(x):
    window = np.hanning(4).astype(np.float32)
    return (
        x * torch.as_tensor(window),
        torch.tensor(window),
        torch.tensor(window, dtype=torch.int64),
    )


@programs(lambda: (t(4),), free=True)
def constant_of_numpy_is_fresh_every_time(x):
    y = torch.tensor(np.ones(4, dtype=np.float32))
    y += x
    return y


@programs(lambda: (t(4, 4),), free=True)
def transposed_constant(x):
    a = np.arange(16, dtype=np.float32).reshape(4, 4).T
    return x @ torch.from_numpy(a), torch.tensor(a)


@programs(lambda: (t(3),))
def positions(x):
    grid = np.stack(np.meshgrid(np.arange(2), np.arange(3), indexing="ij"), -1)
    return x * int(grid.max()), grid.reshape(-1, 2), np.where(grid > 1, 1, 0)


# ------------------------------------------------------------------ arrays of the world

WEIGHTS = np.linspace(0, 1, 3)


@programs(
    lambda: (t(3), np.arange(3.0)),
    keeps={"values": lambda: (t(3), np.ones(3))},
    changes={
        "shape": lambda: (t(3), np.arange(6.0).reshape(2, 3)),
        "dtype": lambda: (t(3), np.arange(3, dtype=np.int16)),
        "strides": lambda: (t(3), np.arange(6.0)[::2]),
        "type": lambda: (t(3), torch.arange(3.0)),
    },
    free=True,
)
def new_values_of_an_array(x, a):
    return x + torch.as_tensor(a)


@programs(lambda: (t(3), np.arange(3.0)), free=True)
def array_is_passed_on(x, a):
    return x * 2, a, [a, torch.tensor(a)], len(a), a.shape, a.size, isinstance(a, np.ndarray)


@programs(lambda: (np.arange(3.0),), free=True)
def tensor_on_the_memory_of_an_array(a):
    y = torch.from_numpy(a)
    y.mul_(2)
    return y, torch.from_numpy(a) + 1


@programs(lambda: (t(3), np.arange(3.0)), free=True)
def one_array_twice(x, a):
    y, z = torch.from_numpy(a), torch.as_tensor(a)
    return x + y, z, y is z


@programs(lambda: given(t(3), {"a": [np.arange(3.0)]}), free=True)
def array_in_a_container(x, d):
    d["b"] = d["a"][0]
    return x + torch.from_numpy(d["a"][0]), torch.from_numpy(WEIGHTS) * 2


@programs(lambda: (t(2, 3), np.asfortranarray(np.ones((2, 3), dtype=np.float32))), free=True)
def fortran_order(x, a):
    return x + torch.from_numpy(a), torch.tensor(a), torch.as_tensor(a, dtype=torch.float64)


# ------------------------------------------------------------------ array math


@programs(
    lambda: (np.arange(6.0, dtype=np.float32).reshape(2, 3),),
    keeps={"values": lambda: (np.ones((2, 3), dtype=np.float32),)},
    changes={"dtype": lambda: (np.arange(6.0).reshape(2, 3),)},
    free=True,
)
def math_on_an_array(a):
    b = a * 2 + 1
    return b, -a, a - b, 2 - a, a / 4, a > 2, np.maximum(a, 2), np.abs(a), np.square(a)


@programs(lambda: (np.arange(6.0).reshape(2, 3),), free=True)
def shapes_of_an_array(a):
    return (
        a.T,
        a.reshape(3, 2),
        a[0],
        a[:, 1:],
        a[..., None] @ a[:, None],
        a.ravel(),
        np.stack([a, a]),
        a.ndim,
    )


@programs(lambda: (np.arange(6.0).reshape(2, 3),), free=True)
def reductions_of_an_array(a):
    return a.sum(), a.sum(axis=0), a.max(), a.min(axis=1, keepdims=True), np.argmax(a), a.sum() * 2


@programs(lambda: (np.arange(6.0).reshape(2, 3), np.ones(3, dtype=np.float32)), free=True)
def arrays_of_two_types(a, b):
    known = np.array([1.0, 2.0, 3.0])
    return a + b, a * known, b.astype(np.float64), a.copy(), np.where(a > 2, a, 0.0), a @ known


@programs(lambda: (np.arange(6.0).reshape(2, 3),), free=True)
def rows_of_an_array(a):
    total = 0
    for row in a:
        total = total + row
    return total, [v * 2 for v in a[0]], len(a)


@programs(
    lambda: (t(3), np.ones(3)),
    free=True,
    changes={"values": lambda: (t(3), np.array([1.0, -2.0, 0.5]))},
)
def values_of_an_array_in_python(x, a):
    return x * len([v for v in a.tolist() if v > 0])


@programs(lambda: (t(2, 3),), free=True)
def array_of_a_tensor(x):
    a = x.numpy()
    b = a * 2
    x.add_(1)
    return a, b, a + b, torch.from_numpy(b) + x, np.asarray(x), type(a) is np.ndarray


@programs(lambda: (t(2, 3, grad=True),), free=True)
def array_of_a_detached_tensor(x):
    a = x.detach().numpy()
    return x * torch.from_numpy(a * 2).sum(), a[0].shape


@programs(lambda: (np.ones((2, 3)),), raises=ValueError, free=True)
def error_of_array_math(a):
    return a + a[:, :2]


@programs(lambda: (np.ones((2, 3)),), raises=AttributeError, free=True)
def missing_attribute_of_an_array(a):
    return torch.from_numpy(a) + a.nothing


@programs(lambda: (np.arange(1, 7).reshape(2, 3),), free=True)
def integers_become_floats(a):
    return a / 4, np.reciprocal(4.0) * a, a // 2, a**2, a * 2.5, a + np.ones(3)


# ------------------------------------------------------------------ what is refused

refused = Programs()


@refused(lambda: (t(3),))
def random_numbers(x):
    return x + float(np.random.RandomState(0).rand())


@refused(lambda: (t(3), np.ones(3)))
def value_of_an_array(x, a):
    return x * float(a[0]) if a[1] > 0 else x


@programs(lambda: (t(3), np.ones(3)), free=True)
def array_changed_in_place(x, a):
    a[0] = 5
    return x * 2


@programs(lambda: (t(3), np.ones(3)), free=True)
def array_added_to_in_place(x, a):
    a += 1
    return x * 2


@programs(lambda: (t(3), np.ones(3)), free=True)
def array_copied_into_a_known_one(x, a):
    b = np.zeros(3)
    b[:] = a
    return x + torch.from_numpy(b)


@programs(lambda: (t(3), np.ones(3)), free=True)
def array_as_an_output(x, a):
    np.add(a, 1, out=a)
    return x * 2


@refused(lambda: (t(3), np.ones(3)))
def mask(x, a):
    return x * 2, a[a > 0]


@refused(lambda: (t(3),))
def known_array_changed_behind_a_tensor(x):
    a = np.zeros(3, dtype=np.float32)
    y = torch.from_numpy(a)
    a[0] = 1
    return x + y


@refused(lambda: (t(3),))
def view_changed_behind_a_tensor(x):
    a = np.zeros((2, 3), dtype=np.float32)
    y = torch.from_numpy(a)
    for row in a:
        row[0] = 4
    return x + y


@refused(lambda: (t(3),))
def tensor_changed_behind_a_known_array(x):
    a = np.zeros(3, dtype=np.float32)
    torch.from_numpy(a).add_(1)
    return x + float(a.sum())


@refused(lambda: (t(3),))
def shared_memory_is_returned(x):
    a = np.zeros(3, dtype=np.float32)
    return x * 2, a, torch.from_numpy(a)


@refused(lambda: (t(3),))
def views_are_returned(x):
    a = np.zeros(3, dtype=np.float32)
    return x * 2, a, a[1:]


@programs(lambda: (t(3), np.ones(3)), free=True)
def input_changed_next_to_an_array(x, a):
    x.add_(1)
    return x + torch.from_numpy(a)


@refused(lambda: (t(3), np.array([1, "a"], dtype=object)))
def array_of_objects(x, a):
    return x * a[0]


@refused(lambda: (t(3), np.ones(3)))
def flags_of_an_array(x, a):
    return x * 2 if a.flags.writeable else x


@refused(lambda: (t(3), np.array([7, 8]), np.array([2, 3])))
def division_of_integers_that_may_be_zero(x, a, b):
    return x * 2, a // b


@refused(lambda: (t(3), np.ones(3)))
def error_state(x, a):
    with np.errstate(all="ignore"):
        return x * 2, a / 2


@refused(lambda: (t(3),))
def number_that_numpy_warns_of(x):
    return x * float(np.float64(1.0) / np.float64(0.0))


@refused(lambda: (t(3), np.bool_(True)))
def numpy_bool_next_to_a_tensor(x, flag):
    return x * flag


@refused(lambda: (t(3),))
def several_scalars_in_a_tensor(x):
    return x + torch.tensor([np.float64(1), np.float64(2), np.float64(3)])


@refused(lambda: (t(3), np.arange(3.0)))
def reversed_array(x, a):
    return x * 2, a[::-1]


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


@pytest.mark.parametrize("program", refused, ids=str)
def test_refused(program: Program) -> None:
    """Without a trace of the attempt; then what eager does."""
    Check(program).refused()
