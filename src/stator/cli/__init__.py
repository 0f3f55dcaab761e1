"""The command line: `stator run | explain | why | doctor | bench | report | cache`.

Stage: above everything. In: arguments. Out: text, and an exit status: 0, 1 if the command found a
problem, 2 if it can't do what it was asked. Each command is a module, loaded when it is used.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from stator.cli.errors import NO_TORCH, UsageError
from stator.cli.parser import MODULES, parse


def main(arguments: Sequence[str] | None = None) -> int:
    """What the command `stator` and `python -m stator` do."""
    given = parse(arguments)
    command: str = given.command
    try:
        status: int = import_module(f"stator.cli.{MODULES[command]}").main(given)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        print(f"stator {command}: {NO_TORCH}", file=sys.stderr)
        return 2
    except UsageError as mistake:
        print(f"stator {command}: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever was reading has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
