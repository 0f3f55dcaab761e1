# mypy: ignore-errors
"""numpy: constants made from it, arrays as arguments, conversions."""

import numpy as np
import pytest
import torch

from .harness import Program, Programs, check, t

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


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
