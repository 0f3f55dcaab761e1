"""torch's own database of operators, with inputs that lie in memory in all kinds of ways.

Its module imports `expecttest`, which nothing here needs: a stand-in will do.
"""

import importlib
import itertools
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from stator.graph.fakes.fake_mode import fake_mode
from stator.graph.unknown.environment import Environment

LARGEST: Final = 200_000  # elements of a sample


def database() -> Sequence[Any]:
    stub = types.ModuleType("expecttest")
    stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stub)
    with warnings.catch_warnings(action="ignore"):
        found = importlib.import_module("torch.testing._internal.common_methods_invocations")
    return list(found.op_db)


# ---------------------------------------------------------------------------- layouts


def _given(t: torch.Tensor) -> torch.Tensor:
    return t.clone() if t.is_contiguous() else t


def _permuted(t: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    inverse = [order.index(dim) for dim in range(t.dim())]
    return t.permute(*order).contiguous().permute(*inverse)


def _transposed(t: torch.Tensor) -> torch.Tensor | None:
    return t.mT.contiguous().mT if t.dim() > 1 else None


def _reversed(t: torch.Tensor) -> torch.Tensor | None:
    return _permuted(t, range(t.dim() - 1, -1, -1)) if t.dim() > 2 else None


def _gaps(t: torch.Tensor) -> torch.Tensor | None:
    if not t.dim():
        return None
    wide = torch.empty(*t.shape[:-1], t.shape[-1] * 2 + 1, dtype=t.dtype)
    return wide[..., 1::2].copy_(t)


def _expanded(t: torch.Tensor) -> torch.Tensor | None:
    return t[:1].expand(t.shape) if t.dim() and t.shape[0] > 1 else None


def _channels_last(t: torch.Tensor) -> torch.Tensor | None:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else None


LAYOUTS: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor | None]]] = {
    "given": _given,
    "transposed": _transposed,
    "reversed": _reversed,
    "gaps": _gaps,
    "expanded": _expanded,
    "channels last": _channels_last,
}


class Laid:
    """Makes tensors lie in another way: all of them, or every second one."""

    def __init__(self, name: str, every: int = 1) -> None:
        self._lay, self._every = LAYOUTS[name], every
        self._made: dict[int, torch.Tensor] = {}
        self.changed = name == "given"

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._made:
            plain = value.detach()
            turn = len(self._made) % self._every == 0
            made = self._lay(plain) if turn else None
            self.changed = self.changed or made is not None
            made = _given(plain) if made is None else made
            self._made[id(value)] = made.requires_grad_() if value.requires_grad else made
        return self._made[id(value)]


# ---------------------------------------------------------------------------- programs


def _is_dense(tensor: torch.Tensor) -> bool:
    strided = tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested
    return strided and tensor.numel() <= LARGEST and type(tensor) is torch.Tensor


def tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]


def _forms(operator: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "function", operator.op
    for name in ("method", "inplace", "operator"):
        form = getattr(operator, f"{name}_variant", None)
        if form is not None:
            yield name, form


def programs(operator: Any, limit: int, layouts: Sequence[tuple[str, int]]) -> Iterator[Any]:
    """Calls of an operator: what it is, and a function without arguments that makes it."""
    supported = operator.supported_dtypes("cpu")
    kinds = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16)
    dtypes = [dtype for dtype in kinds if dtype in supported]
    for dtype in dtypes:
        grad = operator.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        try:
            made = operator.sample_inputs("cpu", dtype, requires_grad=bool(grad))
            count = limit if dtype is dtypes[0] else max(1, limit // 4)
            samples = list(itertools.islice(made, count))
        except Exception:
            continue  # the database needs something that is not installed
        for number, sample in enumerate(samples):
            given = ((sample.input, *sample.args), sample.kwargs)
            if not all(map(_is_dense, tensors(given))):
                continue
            for layout, every in layouts:
                for form, function in _forms(operator):
                    what = f"{operator.name} ({form}, {dtype}, sample {number}, {layout}/{every})"
                    laid = Laid(layout, every)
                    try:
                        args, kwargs = pytree.tree_map(laid, given)
                    except RuntimeError:
                        break
                    if not laid.changed:
                        break
                    if form == "operator" and kwargs:
                        continue
                    if form == "inplace":
                        args, kwargs = pytree.tree_map_only(
                            torch.Tensor, torch.Tensor.detach, (args, kwargs)
                        )
                    yield what, Laid(layout), function, args, kwargs


def run(program: Any, compare: "Comparison") -> None:
    """A call with what is behind it: its operators, and those of its derivative."""
    what, laid, function, args, kwargs = program
    compare.where = what
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"), compare:
        try:
            results = [each for each in tensors(function(*args, **kwargs)) if each.requires_grad]
            inputs = [each for each in tensors((args, kwargs)) if each.requires_grad]
            if results and inputs:
                grads = [laid(torch.ones_like(each)) for each in results]
                torch.autograd.grad(results, inputs, grads, allow_unused=True)
        except Exception:
            return  # what eager refuses is no program


# ---------------------------------------------------------------------------- the comparison


def _number(value: Any) -> Any:
    return value.node.hint if isinstance(value, torch.SymInt) else value


def describe(tensor: torch.Tensor, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """What a program can ask about a tensor besides its values; who shares memory with one that
    has no elements, nobody can tell."""
    memory = tensor.untyped_storage()._cdata if 0 not in tensor.shape else None
    return {
        "shape": tuple(map(_number, tensor.shape)),
        "stride": tuple(map(_number, tensor.stride())),
        "offset": _number(tensor.storage_offset()) if tensor.numel() else 0,
        "dtype": tensor.dtype,
        "device": str(tensor.device),
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "contiguous": tensor.is_contiguous(),
        "is": [i for i, each in enumerate(inputs) if each is tensor],
        "shares": [i for i, e in enumerate(inputs) if e.untyped_storage()._cdata == memory],
    }


def _signature(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    place = tuple(value.shape), value.stride(), value.storage_offset()
    return (*place, value.dtype, value.is_conj(), value.is_neg())


class Comparison(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls each operator of aten on fakes, too, twice, and compares what comes out of it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self.counts: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        self.differences: dict[str, str] = {}
        self.changed: dict[str, str] = {}
        """Operators that have given an argument another layout, or other memory."""
        self.where = ""
        self._seen: set[Any] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inputs = tensors((args, kwargs))
        signature = str(func), *map(_signature, pytree.tree_leaves((args, kwargs)))
        if signature in self._seen or not all(map(_is_dense, inputs)):
            return func(*args, **kwargs)
        self._seen.add(signature)
        mode = fake_mode(
            Environment(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        )
        fakes = {id(t): mode.from_tensor(t.detach(), static_shapes=True) for t in inputs}
        before = [describe(each, inputs) for each in inputs]
        result = func(*args, **kwargs)
        after = [describe(each, inputs) for each in inputs]
        if before != after:
            self.changed.setdefault(str(func), self.where)
        real = [describe(each, inputs) for each in tensors(result)] + after
        again = not func._schema.is_mutable
        for _ in range(1 + again):  # the second time, torch may remember
            found = self._fake(mode, func, args, kwargs, fakes, inputs)
            if found is None:
                break
            self.counts["compared"] += 1
            self.operators[str(func)] += 1
            if found != real:
                self._note(str(func), real, found)
                break
        return result

    def _fake(
        self, mode: Any, func: Any, args: Any, kwargs: Any, fakes: Any, inputs: Any
    ) -> list[dict[str, Any]] | None:
        """The same of fakes; None where there is none, or sizes depend on values."""
        swap = pytree.tree_map_only(torch.Tensor, lambda t: fakes[id(t)], (args, kwargs))
        try:
            with mode:
                made = func(*swap[0], **swap[1])
        except Exception:
            self.counts["refused"] += 1
            return None
        own = [fakes[id(each)] for each in inputs]
        try:
            found = [describe(each, own) for each in (*tensors(made), *own)]
        except Exception:
            found = [{"shape": (None,)}]
        if any(None in each["shape"] for each in found):
            self.counts["depend on values"] += 1
            return None
        return found

    def _note(self, name: str, real: Sequence[Any], found: Sequence[Any]) -> None:
        if name in self.known:
            self.counts["known to differ"] += 1
            return
        self.counts["differ"] += 1
        pairs = zip(real, found, strict=False)
        facts = [(k, a[k], b.get(k)) for a, b in pairs for k in a if a[k] != b.get(k)]
        self.differences.setdefault(name, f"{self.where}: {facts}")
