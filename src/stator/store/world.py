"""What an entry depends on besides the program: versions, settings, the machine.

Stage: store. Out: the world as names and texts, written into each entry and compared when it is
loaded. `difference` says in words what is not as it was.
"""

import functools
import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from stator import config
from stator.torchlib.settings import FLAGS, own_passes

_UNIMPORTANT: Final = frozenset(
    {"artefacts", "cache", "cache_dir", "cache_size", "progress", "strict", "suppress_errors"}
)
_PREFIXES: Final = ("TORCHINDUCTOR_", "TORCH_COMPILE", "TORCH_LOGS", "AOT_", "PYTORCH_", "ATEN_")
_IGNORED: Final = frozenset(
    {"TORCHINDUCTOR_CACHE_DIR", "TORCH_LOGS", "TORCH_LOGS_OUT", "TORCHINDUCTOR_COMPILE_THREADS"}
)
_ROOT: Final = Path(__file__).parents[1]


def world(*, native: bool) -> dict[str, str]:
    """The world as it is now; what `native` code depends on, too."""
    found = dict(_fixed())
    for name, value in config.settings().items():
        if name not in _UNIMPORTANT:
            found[f"config.{name}"] = repr(value)
    for name, value in os.environ.items():
        if name.startswith(_PREFIXES) and name not in _IGNORED:
            found[f"environment {name}"] = value
    for name, flag in FLAGS.items():
        found[f"torch {name}"] = repr(flag.read())
    found["asserts"] = str(__debug__)
    if native:
        found["threads"] = str(torch.get_num_threads())
        found["processor"] = _processor()
        for name in ("torch._inductor.config", "torch._functorch.config"):
            found[name] = _changed_settings(name)
    return found


@functools.cache
def _fixed() -> tuple[tuple[str, str], ...]:
    return (
        ("python", f"{sys.version} {sys.implementation.cache_tag}"),
        ("torch", f"{torch.__version__} {torch.version.git_version}"),
        ("stator", _own_version()),
        ("platform", f"{sys.platform} {platform.machine()}"),
        ("cpu", torch.backends.cpu.get_cpu_capability()),
    )


def _own_version() -> str:
    """What this stator is: names and contents of its files."""
    told = hashlib.blake2b(digest_size=16)
    for path in sorted(_ROOT.rglob("*")):
        if path.suffix in (".py", ".so", ".pyd"):
            told.update(f"{path.relative_to(_ROOT)} {path.stat().st_size}\n".encode())
            if path.suffix == ".py" and _IS_CHECKOUT:
                told.update(path.read_bytes())
    return told.hexdigest()


_IS_CHECKOUT: Final = (_ROOT.parents[1] / ".git").exists()
"""Files are edited then, without another size or version."""


@functools.cache
def _processor() -> str:
    """What the processor can do, where the system says it."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    lines = [
        line for line in text.splitlines() if line.startswith(("flags", "Features", "model name"))
    ]
    return hashlib.blake2b("\n".join(sorted(set(lines))).encode(), digest_size=8).hexdigest()


def _changed_settings(name: str) -> str:
    """Settings of torch that the program has changed: none, if it has not even loaded them."""
    module: Any = sys.modules.get(name)
    if module is None:
        return ""
    return "\n".join(filter(None, (str(module.codegen_config()), *own_passes(module))))


def difference(stored: Mapping[str, Any], now: Mapping[str, str]) -> str | None:
    """In words, what of the world is not as an entry has it."""
    for name in sorted({*stored, *now}):
        was, found = stored.get(name), now.get(name)
        if was != found:
            return f"{name} was {_short(was)}, and is {_short(found)}"
    return None


def _short(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
