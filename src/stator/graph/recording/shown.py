"""What a graph shows while it runs: texts with the values of tensors, in forward and backward.

In: a format and its fields. Out: `torch.ops.stator.show`, an operator without a result that
backends keep, in its order. While a compiled call runs its graph, texts wait (`around`): if the
graph refuses, the program itself shows them. Behind the graph they come in program order, among
what `print` and logging have put off (`until`). What a backward shows, nobody has to wait for.
"""

import builtins
import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.fx as fx

from stator.torchlib.operators import keep_in_order

ANYWHERE: Final = -1
"""The number of a text that has no place in the forward: what a gradient shows."""

_library: Final[Any] = torch.library  # which has no annotations
_LIBRARY: Final[Any] = _library.Library("stator", "FRAGMENT")  # alive as long as we are
_LIBRARY.define("show(str text, Tensor[] values, str fields, str ranks, int number) -> ()")


class _Waiting(threading.local):
    """The texts of graphs that run, and of those that have just run, the innermost last."""

    def __init__(self) -> None:
        self.running: list[list[tuple[int, str]]] = []
        self.ready: list[list[tuple[int, str]]] = []
        self.tracing = 0


_waiting: Final = _Waiting()


@contextlib.contextmanager
def nothing_shown() -> Iterator[None]:
    """While a program is traced: parts of its graph may run, to know a value."""
    _waiting.tracing += 1
    try:
        yield
    finally:
        _waiting.tracing -= 1


# ---------------------------------------------------------------------- texts


def wanted(ranks: Collection[int] | None) -> bool:
    """Whether this process is among those that are to show something."""
    return ranks is None or not _distributed() or dist.get_rank() in ranks


def line(text: str) -> str:
    """A text, with the rank of this process in front if there are several."""
    return f"[rank {dist.get_rank()}] {text}" if _distributed() else text


def _distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def plain(value: Any) -> Any:
    """A tensor without its part in autograd, which differs from backend to backend."""
    return value.detach() if isinstance(value, torch.Tensor) else value


def show(text: str) -> None:
    """Shows a line now, or when the graph has run that is running."""
    _put(ANYWHERE, text)


def _put(number: int, text: str) -> None:
    if _waiting.running:
        _waiting.running[-1].append((number, text))
    else:
        builtins.print(text)


# ---------------------------------------------------------------------- the operator


class Fields:
    """What a format is filled with, apart into tensors and all else, as text."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []

    def tensor(self, value: Any) -> dict[str, Any]:
        self.tensors.append(value)
        return {"tensor": len(self.tensors) - 1}

    def number(self, value: Any) -> dict[str, Any]:
        """A tensor that stands for a number of Python."""
        self.tensors.append(value)
        return {"number": len(self.tensors) - 1}


def written(args: Sequence[Any], keywords: Mapping[str, Any], tensors: int) -> str:
    """The fields as an argument of the operator: nothing, if all are its tensors."""
    if not keywords and args == [{"tensor": place} for place in range(tensors)]:
        return ""
    return json.dumps([list(args), dict(keywords)])


def _read(part: Any, values: Sequence[torch.Tensor]) -> Any:
    if not isinstance(part, dict):
        return part
    ((kind, content),) = part.items()
    match kind:
        case "tensor":
            return plain(values[content])
        case "number":
            return values[content].item()
        case "name":
            return getattr(torch, content)
    made = [_read(each, values) for each in content]
    return _KINDS[kind](made)


_KINDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "list": list,
    "tuple": tuple,
    "size": torch.Size,
}


def _show(text: str, values: Sequence[torch.Tensor], fields: str, ranks: str, number: int) -> None:
    if _waiting.tracing or not wanted(json.loads(ranks) if ranks else None):
        return
    if fields:
        args, keywords = json.loads(fields)
        given = [_read(each, values) for each in args]
        named = {name: _read(each, values) for name, each in keywords.items()}
    else:
        given, named = [plain(each) for each in values], {}
    _put(number, line(text.format(*given, **named)))


def _nothing(
    text: str, values: Sequence[torch.Tensor], fields: str, ranks: str, number: int
) -> None:
    """Without values, there is nothing to show."""


_LIBRARY.impl("show", _show, "CompositeExplicitAutograd")
_library.register_fake("stator::show", _nothing, lib=_LIBRARY)

SHOW: Final = torch.ops.stator.show.default
keep_in_order(SHOW)


# ---------------------------------------------------------------------- around a graph


def shows(nodes: Collection[fx.Node] | Any) -> bool:
    """Whether there is something among the nodes that shows texts when it runs."""
    return any(node.target is SHOW or node.target is LOG_GRADIENT for node in nodes)


def around(
    graph: Callable[..., Sequence[Any]], runs_again: Callable[[BaseException], bool]
) -> Callable[..., Sequence[Any]]:
    """The graph, as a function whose texts wait for `until` and `rest`.

    If it raises, and the program does not run in its place (`runs_again`), they are shown at once.
    """

    def waiting(*args: Any) -> Sequence[Any]:
        texts: list[tuple[int, str]] = []
        _waiting.running.append(texts)
        try:
            outputs = graph(*args)
        except BaseException as error:
            _waiting.running.pop()
            if not runs_again(error):
                for number, text in texts:
                    _put(number, text)
            raise
        _waiting.running.pop()
        _waiting.ready.append(texts)
        return outputs

    return waiting


def until(number: int) -> None:
    """Shows what the graph that has just run wanted to show, up to this text of it."""
    texts = _waiting.ready[-1]
    while texts and texts[0][0] <= number:
        show(texts.pop(0)[1])


def rest() -> None:
    """Shows all that is left."""
    for _, text in _waiting.ready.pop():
        show(text)


# ---------------------------------------------------------------------- gradients


def describe(value: torch.Tensor) -> tuple[str, list[torch.Tensor]]:
    """A format for what is to know of a tensor, and what to fill it with."""
    kind = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if value.numel() == 0 or value.is_complex() or value.layout is not torch.strided:
        return kind, []
    numbers = value.detach()
    if not numbers.is_floating_point() or numbers.dtype.itemsize < 4:
        numbers = numbers.float()
    parts = [numbers.mean(), numbers.std(correction=0), numbers.amin(), numbers.amax()]
    return f"{kind} mean={{:.6g}} std={{:.6g}} min={{:.6g}} max={{:.6g}}", parts


def escaped(text: str) -> str:
    """A text that stands for itself in a format."""
    return text.replace("{", "{{").replace("}", "}}")


def log_gradient(tensor: torch.Tensor, text: str, ranks: str, whole: bool) -> None:
    """When the gradient of a tensor is computed, it is shown: `whole`, or what is to know of it.

    In a graph that AOTAutograd differentiates, the hook is traced with the backward.
    """
    if not tensor.requires_grad:
        return

    def hook(gradient: torch.Tensor | None) -> None:
        if gradient is None:
            return
        form, parts = ("{}", [gradient]) if whole else describe(gradient)
        SHOW(f"{escaped(text)}: {form}", parts, "", ranks, ANYWHERE)

    register: Any = tensor.register_hook
    register(hook)


LOG_GRADIENT: Final = log_gradient
log_gradient.stator_computes = True  # type: ignore[attr-defined]
