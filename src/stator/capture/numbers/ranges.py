"""What is known of a tensor's values without computing them.

In: the node of a tensor whose truth the program asks for. Out: the answer, if every value that the
node can have gives the same one. `torch.rand([]) < 0.0` is false, whatever is drawn: models write
it for layers that are dropped with probability 0.
"""

import operator
from typing import Any, Final

import torch
import torch.fx as fx

# Functions whose results lie in [0, 1).
_UNIT: Final = frozenset({torch.rand, torch.rand_like})
_MIRRORED: Final[dict[Any, Any]] = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
}


def truth(node: fx.Node) -> bool | None:
    """Whether a one-element tensor is true; None if that depends on its value."""
    compare: Any = node.target
    bound: Any
    if node.op != "call_function" or compare not in _MIRRORED or len(node.args) != 2:
        return None
    left: Any = node.args[0]
    right: Any = node.args[1]
    if isinstance(left, fx.Node) and type(right) in (int, float):
        drawn, bound = left, right
    elif isinstance(right, fx.Node) and type(left) in (int, float):
        drawn, bound, compare = right, left, _MIRRORED[compare]
    else:
        return None
    if drawn.op != "call_function" or drawn.target not in _UNIT or _changed(drawn, node):
        return None
    if drawn.meta["example_value"].dtype not in (torch.float32, torch.float64):
        return None  # narrower types round up to 1
    below = bound <= 0 if compare in (operator.lt, operator.ge) else bound < 0
    if below or bound >= 1:
        greater = compare in (operator.gt, operator.ge)
        return greater is below
    return None


def _changed(drawn: fx.Node, until: fx.Node) -> bool:
    """Whether anything but comparisons used the numbers: it might have changed them."""
    return any(user is not until and user.target not in _MIRRORED for user in drawn.users)
