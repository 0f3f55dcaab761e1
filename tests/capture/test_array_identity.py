"""Whether a method or function of numpy answers with the array itself, a view, or another array."""

# mypy: ignore-errors

import numpy as np
import pytest
import torch

import stator

CALLS = {
    "real": lambda a: a.real,
    "conj": lambda a: a.conj(),
    "conjugate": lambda a: a.conjugate(),
    "asarray": lambda a: np.asarray(a),
    "asanyarray": lambda a: np.asanyarray(a),
    "ascontiguousarray": lambda a: np.ascontiguousarray(a),
    "asfortranarray": lambda a: np.asfortranarray(a),
    "atleast_1d": lambda a: np.atleast_1d(a),
    "atleast_2d": lambda a: np.atleast_2d(a),
    "__array__": lambda a: a.__array__(),
    "np.real": lambda a: np.real(a),
    "np.conj": lambda a: np.conj(a),
    "astype": lambda a: a.astype(a.dtype, copy=False),
    "require": lambda a: np.require(a),
    "squeeze": lambda a: np.squeeze(a),
    "ravel": lambda a: a.ravel(),
    "reshape": lambda a: a.reshape(-1),
    "round": lambda a: a.round(),
    "view": lambda a: a.view(),
    "positive": lambda a: +a,
    "T": lambda a: a.T,
    "clip": lambda a: a.clip(0, 9),
    "around": lambda a: np.around(a),
    "items": lambda a: a[...],
    "in place": lambda a: a.__iadd__(1),
}
DTYPES = {"float64": torch.float64, "int64": torch.int64, "complex128": torch.complex128}


def outcome(function, given):
    try:
        return repr(function(given))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("of", ["an array", "a tensor"])
@pytest.mark.parametrize("name", CALLS)
def test_identity(name, of) -> None:
    call = CALLS[name]

    def program(given):
        a = given if type(given) is np.ndarray else given.numpy()
        b = call(a)
        same = b is a
        b[0] = 7
        return same, a

    for dtype, kind in DTYPES.items():
        stator.reset()
        compiled = stator.compile(program, backend="eager")
        for _ in range(2):
            ours, theirs = (
                np.ones(3, dtype) if of == "an array" else torch.ones(3, dtype=kind) for _ in "ab"
            )
            assert outcome(compiled, ours) == outcome(program, theirs)
            assert repr(ours) == repr(theirs)
