# mypy: ignore-errors
"""torch's tuples with names, `torch.return_types`, used as tuples and by name."""

from typing import Any, Final

import pytest
import torch
import torch.utils._pytree as pytree

import stator

pytestmark = pytest.mark.usefixtures("leaves_no_trace")

# A call for each type that there is on the CPU without a library of its own.
RESULTS: Final = {
    "aminmax": lambda x: torch.aminmax(x, dim=0),
    "cummax": lambda x: torch.cummax(x, 0),
    "cummin": lambda x: x.cummin(1),
    "frexp": torch.frexp,
    "geqrf": torch.geqrf,
    "kthvalue": lambda x: x.kthvalue(1),
    "linalg_cholesky_ex": lambda x: torch.linalg.cholesky_ex(x @ x.mT),
    "linalg_eigh": torch.linalg.eigh,
    "linalg_inv_ex": torch.linalg.inv_ex,
    "linalg_lu": torch.linalg.lu,
    "linalg_lu_factor": torch.linalg.lu_factor,
    "linalg_qr": torch.linalg.qr,
    "linalg_slogdet": torch.linalg.slogdet,
    "linalg_svd": torch.linalg.svd,
    "max": lambda x: x.max(0),
    "median": lambda x: x.median(1),
    "min": lambda x: torch.min(x, 0),
    "mode": lambda x: x.mode(0),
    "nanmedian": lambda x: x.nanmedian(0),
    **({"qr": torch.qr} if hasattr(torch.return_types, "qr") else {}),  # up to torch 2.14
    "slogdet": torch.slogdet,
    "sort": torch.sort,
    "svd": torch.svd,
    "topk": lambda x: x.topk(2),
}


def names(cls: type) -> list[str]:
    return list(cls.__match_args__)  # type: ignore[attr-defined]


def use(call, x):
    """What programs do with one."""
    r = call(x)
    kind = type(r)
    first, *others = r
    fields = [getattr(r, name) for name in names(kind)]
    return (
        r,
        kind.__name__,
        isinstance(r, tuple),
        kind is type(call(x)),
        len(r),
        r.n_fields,
        r[-1],
        r[::-1],
        tuple(r),
        [each is item for each, item in zip(r, fields, strict=True)],
        hasattr(r, "nothing"),
        first is r[0],
        len(others),
        {"kept": r}["kept"] is r,
        kind([each + 0 for each in r]),
        pytree.tree_map(lambda each: each * 2, r),
        r + (1,),
        bool(r),
    )


def look(r):
    """One that was made before the call."""
    first, *others = r
    return first + 1, [each * 2 for each in others], r, type(r).__name__, len(r), r[0] is first


def _seen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype, value.tolist()
    if isinstance(value, tuple | list):
        return type(value).__name__, type(value).__module__, [_seen(each) for each in value]
    return value


@pytest.mark.parametrize("name", RESULTS)
def test_used_as_tuples_and_by_name(name: str) -> None:
    call, kind = RESULTS[name], getattr(torch.return_types, name)
    torch.manual_seed(0)
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    assert type(call(x)) is kind
    compiled = stator.compile(use, backend="eager", fullgraph=True)
    for given in (x, y):
        assert _seen(compiled(call, given)) == _seen(use(call, given))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_made_before_the_call(backend: str) -> None:
    compiled = stator.compile(look, backend=backend, fullgraph=True)
    torch.manual_seed(0)
    for x in (torch.rand(3, 3), torch.rand(4, 3), torch.rand(3, 3)):
        for name in ("max", "min", "sort", "svd"):
            r = RESULTS[name](x)
            made = compiled(r)
            assert _seen(made) == _seen(look(r))
            assert made[2] is r
