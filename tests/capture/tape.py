"""Which operators run, below Python: the measure of what was captured."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from torch.utils._python_dispatch import TorchDispatchMode

# Bookkeeping around constants and `.data`, which a trace may do once instead of in each call.
_IGNORED: Final = frozenset(
    {
        "aten::lift_fresh",
        "aten::detach",
        "aten::detach_",
        "aten::alias",
        "aten::set_.source_Tensor",
    }
)


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every operator that reaches a kernel while it is active."""

    def __init__(self, tape: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tape = tape

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.tape.append(func.name())  # type: ignore[attr-defined]
        return func(*args, **(kwargs or {}))


def same_operators(eager: Sequence[str], captured: Sequence[str], partial: bool) -> str | None:
    """What is wrong with the operators that ran inside of graphs; None if nothing is.

    They are those of eager in the same order; with `partial`, some of them may be missing.
    """
    wanted = [name for name in eager if name not in _IGNORED]
    found = [name for name in captured if name not in _IGNORED]
    if partial:
        rest = iter(wanted)
        if all(name in rest for name in found):
            return None
    elif found == wanted:
        return None
    return f"operators in graphs: {found}, in eager: {wanted}"
