"""`stator doctor`: is everything here, and is it as fast as it can be?

In: this installation. Out: one line for each thing that matters, with what to do about it; the exit
status is 1 if something is missing.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

from stator.cli import screen
from stator.torchlib.supported import FIRST, LAST

State = Literal["ok", "slow", "missing", "note"]
SUPPORTED: Final = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))
TESTED: Final = (FIRST, LAST)  # the oldest and the newest torch
_COLOURS: Final[dict[State, str]] = {
    "ok": "green",
    "slow": "yellow",
    "missing": "bold red",
    "note": "cyan",
}
# What the environment may say to stator, or to torch about what stator replaces.
_VARIABLES: Final[dict[str, str]] = {
    "STATOR_LOGS": "",
    "STATOR_TRACE": "events of every compile are written: unset it when you measure",
    "TORCH_LOGS": "",
    "TORCH_COMPILE_DISABLE": "torch.compile does nothing: unset it",
    "TORCHDYNAMO_DISABLE": "torch.compile does nothing: unset it",
    "PYTHONSAFEPATH": "",
}


@dataclass(frozen=True)
class Finding:
    """One thing, and how it is."""

    name: str
    state: State
    text: str
    fix: str = ""


def main(given: argparse.Namespace) -> int:
    found = list(findings())
    if screen.is_terminal(sys.stdout):
        _draw(found)
    else:
        for each in found:
            print(f"{each.state:<8} {each.name:<16} {each.text}")
            if each.fix:
                print(f"{'':<25} → {each.fix}")
    return 1 if any(each.state == "missing" for each in found) else 0


def findings() -> Iterator[Finding]:
    """Everything that is looked at."""
    for look in _LOOKS:
        try:
            yield from look()
        except Exception as error:  # the others still count
            name = look.__name__.strip("_").replace("_", " ")
            yield Finding(name, "missing", f"looking at it failed: {type(error).__name__}: {error}")


# ---------------------------------------------------------------------- python and stator


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    name = f"{platform.python_implementation()} {version}, {platform.platform()}"
    if sys.version_info[:2] in SUPPORTED and platform.python_implementation() == "CPython":
        yield Finding("python", "ok", name)
    else:
        wanted = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
        yield Finding("python", "missing", name, f"use CPython {wanted}")


def _stator() -> Iterator[Finding]:
    stator: Any = import_module("stator")
    yield Finding("stator", "ok", str(stator.__version__))
    try:
        core: Any = import_module("stator._native._core")
    except ImportError as error:
        fix = "install a wheel for this Python, or a C compiler and `pip install stator` again"
        yield Finding("native core", "missing", str(error), fix)
        return
    told = f"objects that have not changed are known by version {core.guard_versions()}"
    yield Finding("native core", "ok", told)


def _hooks() -> Iterator[Finding]:
    core: Any = import_module("stator._native._core")
    if core.hook_installed():
        yield Finding("frame hook", "slow", "installed at rest, which slows all Python calls")
    else:
        yield Finding("frame hook", "ok", "installed only while stator traces")
    for name, get in (("tracing", sys.gettrace), ("profiling", sys.getprofile)):
        function = get()
        if function is not None:
            owner = type(function).__module__
            text = f"a {name} function is set ({owner}): Python runs slowly, compiled or not"
            yield Finding(name, "slow", text, "run without debugger, coverage or profiler")


# ---------------------------------------------------------------------- torch


def _torch() -> Iterator[Finding]:
    if find_spec("torch") is None:
        yield Finding("torch", "missing", "not installed", "`pip install torch`")
        return
    torch: Any = import_module("torch")
    version: str = torch.__version__
    oldest, newest = TESTED
    if oldest <= import_module("stator.torchlib.versions").release_of(version) <= newest:
        yield Finding("torch", "ok", version)
    else:
        known = " to ".join(f"{major}.{minor}" for major, minor in TESTED)
        fix = f"stator is tested with torch {known}; `stator explain` something small first"
        yield Finding("torch", "note", version, fix)
    yield from _tensor_checks()


def _tensor_checks() -> Iterator[Finding]:
    lacking = import_module("stator.guards.tensors").calibrate()
    core: Any = import_module("stator._native._core")
    words = core.tensor_words()
    if lacking is None:
        read = ", ".join(name for name, known in words.items() if known) or "all fields"
        yield Finding("tensor checks", "ok", f"native ({read})")
    else:
        text = f"through Python attributes, since {lacking}"
        fix = "each tensor costs some 100 ns more per call; use a torch that stator is tested with"
        yield Finding("tensor checks", "slow", text, fix)


def _compiler() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    named = os.environ.get("CXX")
    candidates = [named] if named else ["g++", "clang++", "c++"]
    path = next((found for each in candidates if (found := shutil.which(each))), None)
    if path is None:
        what = f"CXX={named} is not there" if named else "no g++ or clang++"
        fix = "install g++ (Debian: apt install g++), or use backend='aot_eager'"
        yield Finding("C++ compiler", "missing", f"{what}: Inductor can't compile for CPU", fix)
        return
    told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    yield Finding("C++ compiler", "ok", (told.stdout.splitlines() or [path])[0])


def _gpu() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        text = "torch sees none" if built else "torch is built for CPU only"
        yield Finding("GPU", "note", text)
        return
    names = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    yield Finding("GPU", "ok", ", ".join(sorted(names)))
    if find_spec("triton") is None:
        fix = "`pip install triton`: Inductor needs it on GPUs"
        yield Finding("triton", "missing", "not installed", fix)
    else:
        yield Finding("triton", "ok", str(getattr(import_module("triton"), "__version__", "")))


# ---------------------------------------------------------------------- around


def _packages() -> Iterator[Finding]:
    for name, what in (("numpy", "arrays in programs"), ("rich", "colours on terminals")):
        if find_spec(name) is None:
            yield Finding(name, "note", f"not installed ({what})", f"`pip install {name}`")
        else:
            version = import_module("importlib.metadata").version(name)
            yield Finding(name, "ok", version)


def _cache() -> Iterator[Finding]:
    config: Any = import_module("stator.config")
    folder: Any = import_module("stator.store.folder")
    if not config.cache:
        yield Finding("cache", "note", "off: each process compiles anew", "set STATOR_CACHE=1")
        return
    found = list(folder.listed())
    wrong = sum(isinstance(each, str) for _, each in found)
    text = f"{len(found)} entries in {folder.folder()}"
    if wrong:
        fix = "see `stator cache verify`"
        yield Finding("cache", "slow", f"{text}, {wrong} of which can't be used", fix)
    else:
        yield Finding("cache", "ok", text)


def _environment() -> Iterator[Finding]:
    for name, fix in _VARIABLES.items():
        value = os.environ.get(name)
        if value:
            yield Finding(name, "slow" if fix else "note", f"is set to {value!r}", fix)


_LOOKS: Final[tuple[Callable[[], Iterator[Finding]], ...]] = (
    _python,
    _stator,
    _hooks,
    _torch,
    _compiler,
    _gpu,
    _packages,
    _cache,
    _environment,
)


def _draw(found: list[Finding]) -> None:
    text = import_module("rich.text").Text
    grid = import_module("rich.table").Table(show_header=False, box=None, pad_edge=False)
    for wraps in (False, False, True):
        grid.add_column(no_wrap=not wraps)
    for each in found:
        cell = text(each.text)
        if each.fix:
            cell.append(f"\n→ {each.fix}", style="italic")
        grid.add_row(text(each.state, style=_COLOURS[each.state]), text(each.name), cell)
    screen.console(sys.stdout).print(grid)
