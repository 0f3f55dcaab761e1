"""Runs a program as Python itself would: as `__main__`, with its arguments, its path, its status.

In: a script or the name of a module, and arguments. Out: the program's end: `SystemExit` passes
through, any other exception is shown by `sys.excepthook` without a frame of ours.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, Final, NamedTuple

from stator.bytecode.tables import TABLES
from stator.cli.errors import UsageError

# The modules that were `__main__` before: functions of theirs may still run.
_kept: Final[list[ModuleType | None]] = []


class Program(NamedTuple):
    """What is to run."""

    argv: list[str]
    folder: str
    """The first place in which its imports are looked for."""
    module: str | None = None
    """Its name, if it is found by the import system."""

    @classmethod
    def script(cls, argv: Sequence[str]) -> "Program":
        path = Path(argv[0])
        if path.is_dir():
            if not (path / "__main__.py").is_file():
                raise UsageError(f"{path} is a folder without a __main__.py; name a script in it")
            return cls(list(argv), os.path.abspath(path), "__main__")
        if not path.exists():
            raise UsageError(f"{path}: no such file; to run a module, say -m {path.stem}")
        if not os.access(path, os.R_OK):
            raise UsageError(f"{path}: can't be read; look at its permissions")
        return cls(list(argv), str(path.resolve().parent))

    @classmethod
    def named(cls, argv: Sequence[str]) -> "Program":
        return cls(list(argv), os.getcwd(), argv[0])

    def run(self) -> int:
        """The exit status, unless the program leaves with an exception of its own."""
        if not sys.flags.safe_path:
            sys.path[:1] = [self.folder]
        elif self.module == "__main__":
            sys.path.insert(0, self.folder)
        sys.argv[:] = self.argv
        main = ModuleType("__main__")
        _kept.append(sys.modules.pop("__main__", None))
        try:
            code = self._found(main)
            sys.modules["__main__"] = main
            exec(code, main.__dict__)
        except (SystemExit, UsageError):
            raise
        except BaseException as error:
            return _shown(error)
        return 0

    def _found(self, main: ModuleType) -> CodeType:
        """The code, and the module in which it runs as Python would have made it."""
        spec: ModuleSpec | None
        if self.module is None:
            path, spec = os.path.abspath(self.argv[0]), None
            loader: Any = SourceFileLoader("__main__", path)
            code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        else:
            if self.module != "__main__":
                sys.argv[0] = "-m"
            code, spec = _module(self.module)
            path, loader = spec.origin or "", spec.loader
            if self.module != "__main__":
                sys.argv[0] = path
        given: dict[str, Any] = {
            "__annotations__": {},
            "__cached__": None if spec is None else spec.cached,
        }
        main.__dict__.update(
            {name: given[name] for name in TABLES.main_names},
            __builtins__=sys.modules["builtins"],
            __file__=path,
            __loader__=loader,
            __package__=None if spec is None else spec.parent,
            __spec__=spec,
        )
        return code


def _module(name: str) -> tuple[CodeType, ModuleSpec]:
    find: Any = runpy._get_module_details  # type: ignore[attr-defined]
    try:
        _, spec, code = find(name, error=_MissingError)
    except _MissingError as problem:
        raise UsageError(f"{problem}; is it installed, and is this the right folder?") from None
    return code, spec


class _MissingError(Exception):
    """There is no such module."""


def _shown(error: BaseException) -> int:
    """Shows an error as Python shows one that nobody has caught."""
    traceback = error.__traceback__
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    error.__traceback__ = traceback
    vars(sys).update(
        last_exc=error, last_type=type(error), last_value=error, last_traceback=traceback
    )
    sys.excepthook(type(error), error, traceback)
    if isinstance(error, KeyboardInterrupt):
        # Python ends by the signal, once everything is cleaned up; it was told already.
        sys.excepthook = _nothing
        raise KeyboardInterrupt
    return 1


def _is_ours(traceback: TracebackType) -> bool:
    file = traceback.tb_frame.f_code.co_filename
    return file in (__file__, runpy.__file__) or file.startswith("<frozen runpy")


def _nothing(*args: object) -> None:
    """Shows nothing."""
