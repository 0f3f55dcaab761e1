"""Operators of torch by name: `torch.ops.library.operator.overload`.

Stage: capture, for `Attributes`. In: one of torch's objects behind `torch.ops`, and a name. Out:
nothing; but the object has the attribute then, if there is such an operator. torch looks for one
when it is first asked, and keeps what it has found: that is no effect of the program, which could
not tell whether somebody else has asked before.
"""

import contextlib
from typing import Any, Final

import torch

from stator import objects
from stator.torchlib.operators import OpNamespace, OpOverloadPacket

PACKETS: Final = objects.TypeSet(OpOverloadPacket)
NAMESPACES: Final = objects.TypeSet(type(torch.ops), OpNamespace)


def find(owner: Any, name: str) -> None:
    """Has torch look for an operator that nobody has asked for yet."""
    own = objects.instance_dict(owner)
    if own is not None and name not in own and not name.startswith("__"):
        with contextlib.suppress(AttributeError):
            getattr(owner, name)
