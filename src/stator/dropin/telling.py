"""`torch._logging.set_logs`: what a program asks of torch's logs holds for stator's.

In: the switches of torch, by name. Out: stator's logs of these names are on, and the others off, as
torch's are. If an environment variable says which logs there are, calls of the program change
nothing: so it is with torch.
"""

import logging
import os
from collections.abc import Callable
from typing import Any, Final

from stator.diagnostics import logs

_VARIABLES: Final = ("STATOR_LOGS", "TORCH_LOGS")


def for_both(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch's `set_logs`, which sets stator's, too."""

    def set_logs(**switches: Any) -> None:
        original(**switches)
        if any(os.environ.get(name) for name in _VARIABLES):
            return
        asked = [_asked(name, switch) for name, switch in switches.items() if switch]
        logs.set_logs(logs.of_torch(",".join(asked)))

    return set_logs


def _asked(name: str, switch: Any) -> str:
    """A switch of torch as text: True, or a level; errors alone are nothing that stator logs."""
    if switch is True or switch == logging.INFO:
        return name
    if type(switch) is int and switch < logging.INFO:
        return f"+{name}"
    return ""
