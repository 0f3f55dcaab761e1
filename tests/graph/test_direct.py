"""Fake kernels of our own: they say what real kernels do, and answer what they are there for."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from stator.graph.fakes import direct as kernels
from stator.graph.fakes import fake_mode as modes
from stator.graph.unknown.environment import Environment

from .operators import LAYOUTS, Comparison, database, programs, run, tensors

ALL: Final = os.environ.get("STATOR_OPERATORS") == "all"
EVERY: Final = [(name, 1) for name in LAYOUTS]
MIXED: Final = [(name, 2) for name in LAYOUTS if name != "given"]
# Names in the database of what comes to the operators that have kernels of their own.
NAMES: Final = (
    "abs cos erf exp log neg reciprocal nn.functional.relu rsqrt sigmoid nn.functional.silu sin "
    "sqrt tanh pow __rpow__ div minimum maximum nn.functional.gelu add sub mul eq ne lt le gt "
    "ge where mm bmm addmm matmul nn.functional.linear softmax log_softmax "
    "nn.functional.layer_norm nn.functional.batch_norm nn.functional.conv1d "
    "nn.functional.conv2d nn.functional.conv3d nn.functional.embedding cat stack mean sum clone "
    "to float half long view reshape unsqueeze transpose t permute expand select narrow squeeze "
    "split unbind as_strided chunk flatten __getitem__ nn.functional.instance_norm "
    "nn.functional.mse_loss addcmul lerp "
)


def chosen() -> list[Any]:
    names = set(NAMES.split())
    return [each for each in database() if each.name in names]


class Answered:
    """Which operators our kernels have answered."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[Any] = Counter()
        patch.setattr(modes, "direct", self)

    def __call__(self, mode: Any, operator: Any, args: Any, kwargs: Any) -> Any:
        made = kernels.direct(mode, operator, args, kwargs)
        self.counts[operator] += made is not NotImplemented
        return made


def test_they_say_what_real_kernels_do(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Answered(monkeypatch)
    compare = Comparison({})
    compared = {str(operator) for operator in kernels.KERNELS}
    for operator in chosen():
        limit = 20 if ALL else 2
        for program in programs(operator, limit, EVERY + MIXED if ALL else EVERY):
            run(program, compare)
    for sizes in ((2, 3, 5, 4), (1, 3, 1, 4), (2, 1, 4, 4), (3, 3)):  # outside of training
        for lay in LAYOUTS.values():
            given = lay(torch.randn(sizes))
            if given is not None:
                layer = torch.nn.modules.batchnorm._BatchNorm(sizes[1]).eval()
                layer._check_input_dim = lambda _: None  # type: ignore[method-assign]
                run((f"batch_norm {sizes}", None, layer, (given.detach(),), {}), compare)
    wrong = {name: text for name, text in compare.differences.items() if name in compared}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    never = {str(operator) for operator in kernels.KERNELS if not answered.counts[operator]}
    assert not never


class Refused(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Asks our kernels about what the real ones refuse."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        self.answered: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception as error:
            if func in kernels.KERNELS:
                self.count += 1
                self._ask(func, args, kwargs or {}, error)
            raise

    def _ask(self, func: Any, args: Any, kwargs: Any, error: Exception) -> None:
        mode = modes.fake_mode(Environment())
        given = {id(t): t for t in tensors((args, kwargs))}
        fakes = {key: mode.from_tensor(t.detach()) for key, t in given.items()}
        swap = pytree.tree_map_only(torch.Tensor, lambda t: fakes[id(t)], (args, kwargs))
        try:
            made = kernels.direct(mode, func, *swap)
        except Exception as own:
            assert str(own) == str(error), func
            return
        if made is not NotImplemented:
            self.answered.append(f"{func}: {error}")


def refused() -> Iterator[tuple[Any, Sequence[Any], Mapping[str, Any]]]:
    """Calls that torch's database has for errors, and some more."""
    for operator in chosen():
        for each in operator.error_inputs("cpu") if operator.error_inputs_func else ():
            sample = each.sample_input
            yield operator.op, (sample.input, *sample.args), sample.kwargs
    f, i, b = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3).bool()
    aten = torch.ops.aten
    settings = None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    for wrong in (
        (aten.add.Tensor, (f, torch.ones(4))),
        (aten.sub.Tensor, (b, b)),
        (aten.mm.default, (f, f)),
        (aten.mm.default, (f, torch.ones(3, 2).double())),
        (aten.bmm.default, (torch.ones(2, 3, 4), torch.ones(3, 4, 5))),
        (aten.addmm.default, (torch.ones(4), f, torch.ones(3, 5))),
        (aten.view.default, (f, [7])),
        (aten.view.default, (f.t(), [6])),
        (aten.transpose.int, (f, 0, 5)),
        (aten.select.int, (f, 0, 5)),
        (aten.expand.default, (f, [2, 2])),
        (aten._softmax.default, (f, 4, False)),
        (aten.native_layer_norm.default, (f, [4], None, None, 1e-5)),
        (aten.embedding.default, (f, f)),
        (aten.cat.default, ([f, torch.ones(3, 4)],)),
        (aten.mean.dim, (f, [4])),
        (aten.mean.dim, (i, [0])),
        (aten.sum.dim_IntList, (f, [0, 0])),
        (aten.where.self, (f, f, torch.ones(5))),
        (aten.convolution.default, (torch.ones(1, 3, 4, 4), torch.ones(2, 2, 3, 3), *settings)),
        (aten.convolution.default, (torch.ones(1, 2, 2, 2), torch.ones(2, 2, 3, 3), *settings)),
    ):
        yield *wrong, {}
    yield aten.gelu.default, (f,), {"approximate": "other"}


def test_what_real_kernels_refuse_is_left_to_torch() -> None:
    asked = Refused()
    with warnings.catch_warnings(action="ignore"), asked:
        for function, args, kwargs in refused():
            try:
                function(*args, **kwargs)
            except Exception:
                continue
    assert asked.count > 20
    assert not asked.answered, "\n".join(asked.answered)


def test_symbols_constants_and_other_devices_are_left_to_torch() -> None:
    mode = modes.fake_mode(Environment())
    add = torch.ops.aten.add.Tensor
    with mode:
        here, there = torch.ones(2), torch.ones(2, device="meta") if mode.allow_meta else None
        constant = torch.tensor(1.0)
    assert kernels.direct(mode, add, (here, here), {}) is not NotImplemented
    assert kernels.direct(mode, add, (here, constant), {}) is NotImplemented
    assert kernels.direct(mode, add, (here, 1j), {}) is NotImplemented
    assert kernels.direct(mode, add, (here, torch.ones(2)), {}) is NotImplemented
    assert there is None or kernels.direct(mode, add, (here, there), {}) is NotImplemented
    for operator in kernels.KERNELS:  # numbers where tensors are meant, as torch gives them
        required = [each for each in operator._schema.arguments if not each.has_default_value()]
        given = [[2] if str(each.type).startswith("List") else 2 for each in required]
        assert kernels.direct(mode, operator, given, {}) is NotImplemented
    other = modes.fake_mode(Environment())
    with other:
        stranger = torch.ones(2)
    assert kernels.direct(mode, add, (here, stranger), {}) is NotImplemented
