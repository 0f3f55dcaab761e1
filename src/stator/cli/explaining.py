"""`stator explain`: what became of one call of a function, or of those that a `main` makes.

In: a file, a function in it, and where its arguments are, or a `main(function)` that makes the
calls. Out: the explanation, as text or as a page. What the function prints goes to standard output
as well, before.
"""

import argparse
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, NamedTuple, TypeGuard

from torch import nn

from stator import api
from stator.backends import UnknownBackendError
from stator.cli import files, screen
from stator.cli.errors import UsageError
from stator.diagnostics.explained import lines as explained_lines
from stator.diagnostics.explanation import Explanation
from stator.dropin.modules import unwrapped
from stator.dropin.switch import install, uninstall
from stator.evaluator import PACKAGE

_NAMES: Final = ("arguments", "example_inputs")
_DRIVER: Final = "main"
_MISSING: Final = object()


def main(given: argparse.Namespace) -> int:
    file, separator, name = given.function.rpartition("::")
    if not separator or not file or not name:
        raise UsageError(f"{given.function}: write FILE::NAME, such as model.py::forward")
    page = None if given.report is None else files.writable(given.report)
    install()  # marks and compiled functions in the file are stator's
    try:
        return _explained(given, file, name, page)
    finally:
        uninstall()


def _explained(given: argparse.Namespace, file: str, name: str, page: Path | None) -> int:
    module = _imported(file)
    function = _found(module, file, name)
    source = module if given.inputs is None else _imported(given.inputs)
    calls = _calls(source, given.inputs or file, function, name)
    try:
        explained = api.explain(function, **{**calls.options, "backend": given.backend})
    except UnknownBackendError as unknown:
        raise UsageError(str(unknown)) from None
    except (TypeError, ValueError) as wrong:
        if not calls.options:
            raise
        raise UsageError(f"`options` in {given.inputs or file}: {wrong}") from None
    told: list[Explanation] = []

    def step(*args: Any, **kwargs: Any) -> Any:
        told.append(explained(*args, **kwargs))
        return told[-1].result

    try:
        calls.make(step)
    except Exception as error:
        _show(error)
        return 1
    if not told:
        raise UsageError(f"{_DRIVER} in {given.inputs or file} does not call {name}")
    screen.lines(explained_lines(told[-1], guards=given.guards), sys.stdout)  # since the first call
    if page is not None:
        told[-1].report(page, editor=given.editor)
        print(f"\nthe report is {page}", file=sys.stderr)
    return 0


# ---------------------------------------------------------------------- the function


def _imported(name: str) -> ModuleType:
    """A file as a module. Its own folder is where its imports are looked for first."""
    path = Path(name).absolute()
    if not path.is_file():
        raise UsageError(f"{name}: no such file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{name} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        _show(error)
        raise UsageError(f"{name} can't be imported: {type(error).__name__}: {error}") from None
    return module


def _found(module: ModuleType, file: str, name: str) -> Any:
    """What a dotted name means; methods come bound, if there is an instance."""
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, _MISSING)
        if value is _MISSING:
            known = ", ".join(_callables(module)) or "none"
            raise UsageError(f"{file} has no {name!r}. Functions and modules in it: {known}")
    if isinstance(value, type):
        raise UsageError(f"{name} is a class; name a function, an instance or Class.method")
    if not callable(value):
        raise UsageError(f"{name} can't be called: it is of type {type(value).__name__}")
    return unwrapped(value) if isinstance(value, nn.Module) else value


def _callables(module: ModuleType) -> list[str]:
    """What of a module can be explained: made in it, and no class."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name not in _NAMES
        and not isinstance(value, type)
        and (isinstance(value, nn.Module) or _is_of(value, module))
    ]


def _is_of(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


# ---------------------------------------------------------------------- the arguments


class _Calls(NamedTuple):
    make: Callable[[Callable[..., Any]], Any]
    """Makes them, with the function that it is given."""
    options: Mapping[str, Any] = {}
    """For `stator.explain`."""


class _Call(NamedTuple):
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


def _calls(module: ModuleType, file: str, function: Callable[..., Any], name: str) -> _Calls:
    """By its arguments, if the file has them, or else as `main` makes them."""
    driver = vars(module).get(_DRIVER)
    has_arguments = any(each in vars(module) for each in _NAMES)
    if not has_arguments and driver is not function and _takes_a_function(driver):
        options = vars(module).get("options")
        return _Calls(driver, options if isinstance(options, dict) else {})
    call = _call(module, file, function, name)
    return _Calls(lambda step: step(*call.args, **call.kwargs))


def _takes_a_function(driver: Any) -> TypeGuard[Callable[..., Any]]:
    if not inspect.isfunction(driver):
        return False
    needed = [
        each
        for each in inspect.signature(driver).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    return len(needed) == 1 and needed[0].kind is not needed[0].KEYWORD_ONLY


def _call(module: ModuleType, file: str, function: Callable[..., Any], name: str) -> _Call:
    given = next((vars(module)[each] for each in _NAMES if each in vars(module)), _MISSING)
    if given is _MISSING:
        if _needs_nothing(function):
            return _Call()
        raise UsageError(
            f"{file} does not say what to call {name} with: define `arguments` in it, such as "
            f"`def arguments(): return (torch.ones(3),)`, or `main(step)`, which makes the calls, "
            f"or name another file with --inputs"
        )
    call = _shaped(given() if inspect.isfunction(given) else given)
    try:
        _signature(function).bind(*call.args, **call.kwargs)
    except TypeError as misfit:
        raise UsageError(f"{name} can't be called with the arguments in {file}: {misfit}") from None
    except ValueError:
        pass  # it has no signature
    return call


def _shaped(value: Any) -> _Call:
    """As the help of the command says."""
    if isinstance(value, dict):
        return _Call((), value)
    if isinstance(value, tuple | list):
        if len(value) == 2 and isinstance(value[0], tuple | list) and isinstance(value[1], dict):
            return _Call(tuple(value[0]), value[1])
        return _Call(tuple(value))
    return _Call((value,))


def _needs_nothing(function: Callable[..., Any]) -> bool:
    try:
        _signature(function).bind()
    except (TypeError, ValueError):
        return False
    return True


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function.forward if isinstance(function, nn.Module) else function)


def _show(error: BaseException) -> None:
    """An error of the program, without our frames."""
    found: TracebackType | None = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(PACKAGE):
        found = found.tb_next
    traceback.print_exception(type(error), error, found)
