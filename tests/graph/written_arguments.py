"""Calls of all operators that write to arguments, with arguments that are made up.

    python -m tests.graph.written_arguments FIRST STEP

Comes in: a schema of torch's. Goes out: `Call`s that eager accepts, with sizes that fit or don't,
empty ones among them; which arguments have other sizes, strides or memory afterwards; and, of those
calls, what is otherwise when they are compiled.

Made-up arguments crash some kernels, which are left out by name (`CRASHING`). Others spoil memory,
which shows later: each operator is called in a process of its own.
"""

import json
import os
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.utils._pytree as pytree

import stator

_SPACES: Final = frozenset({"aten", "prims", "quantized", "mkldnn", "onednn"})
_SHAPES: Final = ((3, 4), (3, 4), (3, 3), (4,), (3,), (2, 3, 4), (2, 3, 4, 4), (0,), (1,), ())
_TRIES: Final = 150
_ENOUGH: Final = 6
# Without a check of what they get, they read or write elsewhere; some never end.
CRASHING: Final = frozenset(
    [
        "_batch_norm_no_update",
        "_batch_norm_with_update",
        "_cholesky_solve_helper",
        "_chunk_cat",
        "_convert_indices_from_csr_to_coo",
        "_cummax_helper",
        "_cummin_helper",
        "_fft_r2c",
        "_foreach_copy",
        "_foreach_powsum",
        "_fused_adagrad",
        "_fused_adagrad_",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        "_nested_tensor_from_tensor_list",
        "_nnpack_spatial_convolution",
        "_segment_reduce_backward",
        "_sobol_engine_initialize_state_",
        "_transform_bias_rescale_qkv",
        "_weight_norm_interface",
        "_weight_norm_interface_backward",
        "cumprod_",
        "log_softmax",
        "mkldnn_rnn_layer",
        "mkldnn_rnn_layer_backward",
        "native_batch_norm",
        "native_batch_norm_backward",
        "prod",
        "smooth_l1_loss_backward",
        "softmax",
        "as_strided",
    ]
)


@dataclass(frozen=True)
class Call:
    """Arguments that eager accepts, and the names of those it has given another size."""

    operator: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    changed: frozenset[str]

    def given(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments anew."""
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (self.args, self.kwargs))
        return args, dict(kwargs)


def writing() -> list[Any]:
    """The operators that write to tensors, by their schemas."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        typed = " ".join(str(each.type) for each in schema.arguments)
        writes = any(
            each.alias_info is not None and each.alias_info.is_write and "Tensor" in str(each.type)
            for each in schema.arguments
        )
        if space in _SPACES and writes and "Dict" not in typed and name not in CRASHING:
            packet = getattr(getattr(torch.ops, space), name, None)
            operator = getattr(packet, schema.overload_name or "default", None)
            if operator is not None:
                found[str(operator)] = operator
    return [found[name] for name in sorted(found)]


def calls(operator: Any) -> Iterator[Call]:
    """Some calls that eager accepts."""
    draw = random.Random(str(operator))
    accepted = 0
    for _ in range(_TRIES):
        if accepted == _ENOUGH:
            return
        try:
            args, kwargs = _arguments(operator._schema, draw)
            call = Call(operator, args, kwargs, frozenset())
            used = call.given()
            before = _places(operator._schema, *used)
            operator(*used[0], **used[1])
            after = _places(operator._schema, *used)
        except Exception:
            continue  # what eager refuses is no call
        accepted += 1
        changed = frozenset(name for name, place in before if (name, place) not in after)
        yield Call(operator, args, kwargs, changed)


def place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What no operator changes that only writes values."""
    size = tensor.untyped_storage().nbytes()
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), size


def _places(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    names = (each.name for each in schema.arguments)
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    return [
        (f"{name}[{k}]", (place(each), each.untyped_storage()._cdata))
        for name, value in named.items()
        for k, each in enumerate(value if isinstance(value, list) else [value])
        if isinstance(each, torch.Tensor)
    ]


def _arguments(schema: Any, draw: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    same = _tensor(draw)
    for argument in schema.arguments:
        if argument.has_default_value() and draw.random() < 0.6:
            if not argument.kwarg_only:
                args.append(argument.default_value)
            continue
        value = None if argument.name in ("dtype", "layout") else _value(str(argument.type), draw)
        if draw.random() < 0.6:
            value = pytree.tree_map_only(torch.Tensor, lambda _: same.clone(), value)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _value(kind: str, draw: random.Random) -> Any:
    if kind.startswith("Optional["):
        return None if draw.random() < 0.5 else _value(kind[9:-1], draw)
    if kind.startswith("List["):
        return [_value(kind[5:-1], draw) for _ in range(draw.choice((1, 2, 2, 3)))]
    if kind == "Tensor":
        return _tensor(draw)
    if kind in ("int", "SymInt"):
        return draw.choice((0, 0, 1, 1, 2, -1, 3))
    if kind in ("float", "number", "SymFloat"):
        return draw.choice((0.5, 1.0, 1, 2.0))
    if kind == "bool":
        return draw.random() < 0.5
    if kind == "str":
        return draw.choice(("none", "mean", "linear", "ij", "reflect", "sum"))
    raise TypeError(kind)


def _tensor(draw: random.Random) -> torch.Tensor:
    shape = draw.choice(_SHAPES)
    count = torch.Size(shape).numel()
    made = torch.arange(count).reshape(shape) % 3
    kind = draw.choice("fffib")
    return made.float() if kind == "f" else made if kind == "i" else made > 0


# ---------------------------------------------------------------------------- compiled


_SECONDS: Final = 60
_BACKENDS: Final = ("eager", "aot_eager")


def examined(operator: Any) -> dict[str, Any] | None:
    """What a process of its own finds out; None if it has crashed, or does not end."""
    reading, writing_end = os.pipe()
    child = os.fork()
    if child == 0:
        with warnings.catch_warnings(action="ignore"):
            signal.alarm(_SECONDS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writing_end, json.dumps(_found(operator)).encode())
            os._exit(0)
    os.close(writing_end)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found


def _found(operator: Any) -> dict[str, Any]:
    made = list(calls(operator))
    kinds = {call.changed: call for call in made if call.changed}
    different = [
        f"{backend}: {text}"
        for call in kinds.values()
        for backend in _BACKENDS
        if (text := _difference(call, backend))
    ]
    changed = sorted({name for kind in kinds for name in kind})
    return {"calls": len(made), "changed": changed, "different": different}


def _difference(call: Call, backend: str) -> str:
    stator.reset()
    operator = call.operator

    def program(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    wanted, found = (_outcome(each, call) for each in (program, _compiled(program, backend)))
    return (
        ""
        if wanted[0] == found[0] and _are_equal(operator, wanted[1], found[1])
        else (f"{call.args} {call.kwargs}: {wanted} and {found}")
    )


def _compiled(program: Any, backend: str) -> Any:
    return stator.compile(program, backend=backend)


def _outcome(function: Any, call: Call) -> tuple[list[Any], list[torch.Tensor]]:
    args, kwargs = call.given()
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        return [type(error).__name__], []
    leaves = pytree.tree_leaves((args, kwargs, result))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    return [(tuple(each.shape), str(each.dtype)) for each in tensors], tensors


def _are_equal(operator: Any, wanted: Sequence[Any], found: Sequence[Any]) -> bool:
    tags = (torch.Tag.nondeterministic_seeded, torch.Tag.nondeterministic_bitwise)
    if any(tag in operator.tags for tag in tags) or "empty" in str(operator):
        return True
    pairs = zip(wanted, found, strict=True)
    return all(torch.allclose(one, two, equal_nan=True) for one, two in pairs)


def main(first: int, step: int) -> int:
    torch.set_num_threads(1)
    for backend in _BACKENDS:  # what they load is loaded once, and not in each process
        stator.compile(torch.sin, backend=backend)(torch.ones(2))
    counts: Counter[str] = Counter()
    for operator in writing()[first::step]:
        counts["operators"] += 1
        found = examined(operator)
        if found is None:
            counts["crashed"] += 1
            print(f"{operator}: crashed", flush=True)
            continue
        counts["called"] += bool(found["calls"])
        counts["resizes or sets an argument"] += bool(found["changed"])
        counts["different"] += bool(found["different"])
        for text in found["different"][:1]:
            print(f"{operator} {found['changed']}: {text[:600]}", flush=True)
    print(dict(counts))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
