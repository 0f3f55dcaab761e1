"""Functions made by `torch.jit.script`: the Python function they were made from is evaluated.

Stage: capture, for `Calls`. In: a call of one. Out: the function and its arguments, for `run`. The
two compute the same, as long as each argument is of the type that the script declares: a script
turns numbers into its own types, and copies lists. A traced function (`torch.jit.trace`) is not
what it was made from.
"""

from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.diagnostics.catalogue import AnotherTool
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tracers import is_scripting, jit_cached_function

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_TORCH: Final = str(Path(torch.__file__).parent)
SCRIPT: Final[type] = torch.jit.ScriptFunction
_TYPES: Final = {
    "Tensor": TypeSet(FakeTensor),
    "int": TypeSet(int, torch.SymInt),
    "float": TypeSet(float, torch.SymFloat),
    "bool": TypeSet(bool, torch.SymBool),
    "str": TypeSet(str),
    "NoneType": TypeSet(type(None)),
}
_jit: Final[Any] = torch.jit  # its public names are not all exported
_ASKING: Final = frozenset(map(id, (_jit.is_scripting, is_scripting)))


def run(function: Any, args: Any, kwargs: Any) -> Any:
    """What is evaluated for a call of a script."""
    return function(*args, **kwargs)


def scripted_behind(calls: "Calls", script: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """The function of a script that is called with these arguments."""
    if id(script) in calls.world.origins:
        script = calls.world.pin(script)
    function = getattr(script, "_torchdynamo_inline", None)
    if type(function) is not FunctionType or _script_of(function) != script.qualified_name:
        raise AnotherTool("torch.jit: a function that it made in another way than from source code")
    declared = script.schema.arguments
    named = {each.name: str(each.type) for each in declared}
    given = [*zip(named.values(), args, strict=False)]
    given += [(named.get(name, ""), value) for name, value in kwargs.items()]
    for expected, value in given:
        if not _fits(expected, type(value)):
            what = type(value).__qualname__
            raise AnotherTool(f"torch.jit: a script gets a {what} where it wants {expected}")
    return calls.world.know(function)


def _script_of(function: FunctionType) -> str | None:
    """How torch calls what it has made of the source code of a function."""
    found = jit_cached_function(function)
    return None if found is None else str(found.qualified_name)


def _fits(expected: str, cls: type) -> bool:
    if expected.startswith("Optional["):
        return cls is type(None) or _fits(expected[len("Optional[") : -1], cls)
    kinds = _TYPES.get(expected)
    return kinds is not None and kinds.holds(cls)


def check_asked(frame: Frame | None, function: Any) -> None:
    """Inside of a script, the answer of `torch.jit.is_scripting` is another one. torch's own code
    asks in order to leave out what scripts can't do.
    """
    if id(function) not in _ASKING or frame is None or frame.code.co_filename.startswith(_TORCH):
        return
    step: Frame | None = frame
    while step is not None:
        if step.code is run.__code__:
            raise AnotherTool("torch.jit.is_scripting is asked inside of a script")
        step = step.caller
