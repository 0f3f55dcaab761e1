"""numpy's functions as graph nodes: they compute what numpy computes, special values included."""

import functools
import warnings
from typing import Any, Final

import numpy as np
import pytest
import torch

from stator.capture.arrays.array_tables import KEYWORDS, PARTIAL, SYMBOLIC
from stator.graph.recording.arrays import Edges, numpy_function

# These take other arguments: they have tests of their own below.
# With other arguments, or several results: tests/capture/test_numpy_functions.py.
_CALLED_OTHERWISE = frozenset(
    [
        "array_split",
        "convolve",
        "correlate",
        "cross",
        "dsplit",
        "gradient",
        "hsplit",
        "linalg.cholesky",
        "linalg.cond",
        "linalg.det",
        "linalg.eigvalsh",
        "linalg.inv",
        "linalg.matmul",
        "linalg.matrix_power",
        "linalg.multi_dot",
        "linalg.norm",
        "linalg.slogdet",
        "linalg.solve",
        "linalg.tensorinv",
        "linalg.tensorsolve",
        "median",
        "meshgrid",
        "pad",
        "quantile",
        "rollaxis",
        "searchsorted",
        "split",
        "take_along_axis",
        "unwrap",
        "vander",
        "vsplit",
    ]
)
_OTHERWISE: Final = frozenset(
    {
        "broadcast_to",
        "clip",
        "concatenate",
        "hstack",
        "moveaxis",
        "outer",
        "stack",
        "swapaxes",
        "vstack",
        "where",
    }
)
_SPECIAL: Final = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.5, 1.5, -2.5]


def _array(dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if dtype.startswith("float"):
        values = np.concatenate([rng.standard_normal(20) * 3, _SPECIAL])
    else:
        values = rng.integers(-50, 50, 32)
    rng.shuffle(values)
    return values.astype(dtype).reshape(4, 8)


def _tensor(value: Any) -> Any:
    return torch.tensor(value) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", SYMBOLIC)
def test_agrees_with_numpy(name: str) -> None:
    """Where torch's layer has another type or no answer, the tracer refuses: it is not compared."""
    compared = 0
    for dtype in ("float32", "float64", "int64", "bool"):
        given = _array(dtype, 1)
        for args in ((), (_array(dtype, 2),), (2,), ((8, 4),), (_array(dtype, 2).T,)):
            integers = dtype in ("int64", "bool")
            if name in PARTIAL and integers and args and not isinstance(args[0], int):
                continue
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    expected = getattr(np, name)(given, *args)
                    found = numpy_function(name)(_tensor(given), *map(_tensor, args)).numpy()
                except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
                    continue
            if found.dtype != expected.dtype or found.shape != expected.shape:
                continue
            compared += 1
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    others = name in _OTHERWISE or name in _CALLED_OTHERWISE
    assert compared or others or name.startswith("fft.")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("broadcast_to", ((2, 4, 8),)),
        ("swapaxes", (0, 1)),
        ("moveaxis", (0, 1)),
        ("clip", (-1.0, 1.0)),
        ("sum", (1,)),
        ("mean", (0,)),
        ("repeat", (2, 1)),
        ("expand_dims", (0,)),
        ("roll", (3, 1)),
    ],
)
def test_numbers_as_further_arguments(name: str, args: tuple[Any, ...]) -> None:
    given = np.nan_to_num(_array("float64", 3).clip(-9, 9))
    expected = getattr(np, name)(given, *args)
    found = numpy_function(name)(torch.tensor(given), *args).numpy()
    np.testing.assert_allclose(found, expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype


@pytest.mark.parametrize("name", ["concatenate", "hstack", "stack", "vstack"])
def test_sequences_of_arrays(name: str) -> None:
    a, b = _array("float32", 4), _array("float32", 5)
    found = numpy_function(name)([torch.tensor(a), torch.tensor(b)]).numpy()
    np.testing.assert_array_equal(found, getattr(np, name)([a, b]))


def test_where_and_outer() -> None:
    a, b = _array("float32", 6), _array("float32", 7)
    found = numpy_function("where")(torch.tensor(a > b), torch.tensor(a), 0.0).numpy()
    np.testing.assert_array_equal(found, np.where(a > b, a, np.float32(0.0)))
    line = np.arange(3.0)
    found = numpy_function("outer")(torch.tensor(line), torch.tensor(line)).numpy()
    np.testing.assert_array_equal(found, np.outer(line, line))


def _numpys(name: str) -> Any:
    return functools.reduce(getattr, name.split("."), np)


@pytest.mark.parametrize("name", [name for name in SYMBOLIC if name.startswith("fft.")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_fourier_transforms(name: str, dtype: str) -> None:
    given = np.nan_to_num(_array(dtype, 8).clip(-9, 9)) if dtype != "bool" else _array(dtype, 8)
    expected = _numpys(name)(given)
    found = numpy_function(name)(torch.tensor(given)).resolve_conj().numpy()
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


_REGULAR: Final = np.random.default_rng(9).standard_normal((6, 6)) + 6 * np.eye(6)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("linalg.cond", (_REGULAR,)),
        ("linalg.tensorinv", (_REGULAR.reshape(2, 3, 6),)),
        ("linalg.tensorsolve", (_REGULAR.reshape(6, 2, 3), np.arange(6.0))),
        ("angle", (np.array([1 + 1j, -1 + 0j, -1 - 0.5j, 0j, complex(-0.0, 0.0)]),)),
        ("angle", (np.array([1.0, -1.0, 0.0, -0.0, np.nan, -np.inf]), True)),
    ],
)
def test_of_regular_matrices_and_complex_numbers(name: str, args: tuple[Any, ...]) -> None:
    expected = _numpys(name)(*args)
    found = numpy_function(name)(*map(_tensor, args)).numpy()
    np.testing.assert_allclose(found, expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype


def test_pad() -> None:
    """With widths as torch has them: those of the last dimension come first."""
    given = _array("float32", 10)
    found = numpy_function("pad")(torch.tensor(given), [1, 2, 0, 3], 7.0).numpy()
    expected = np.pad(given, [(0, 3), (1, 2)], constant_values=7.0)
    np.testing.assert_array_equal(found, expected)


def test_one_target_for_a_name() -> None:
    assert numpy_function("sin") is numpy_function("sin")
    assert numpy_function("sin").__name__ == "numpy_sin"
    assert "out" not in KEYWORDS


def test_edges_convert_and_share_memory() -> None:
    def graph(x: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a.mul_(2)
        return x, a, a.sum()

    array = np.arange(3.0)
    x = torch.ones(2)
    same, found, total = Edges((1,), (1,), (2,)).around(graph)(x, array)
    assert same is x
    assert type(found) is np.ndarray and np.shares_memory(found, array)
    assert type(total) is np.float64 and total == 6.0
    assert Edges().around(graph) is graph
