"""The folder is the architecture: imports go one way, files stay small, C files are built."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "stator"
LINE_LIMIT: Final = 800

# From the bottom up: a package may import those before it, never those after it.
# `stator` itself (its __init__) holds the public names: nothing inside may import it.
ORDER: Final = (
    "_native",
    "bytecode",
    "objects",
    "evaluator",
    "config",
    "torchlib",
    "report",
    "diagnostics",
    "contracts",
    "guards",
    "world",
    "graph",
    "distributed",
    "effects",
    "capture",
    "emit",
    "backends",
    "store",
    "driver",
    "front",
    "api",
    "dropin",
    "cli",
    "testing",
    "__main__",
)
# Packages that work without torch; "" is stator itself.
TORCH_FREE: Final = frozenset(
    {"", "_native", "bytecode", "objects", "evaluator", "config", "contracts", "report"}
)
FORBIDDEN: Final = "torch._dynamo"


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def stage(path: Path) -> str:
    """The top-level package or module of stator a file belongs to; "" is stator/__init__.py."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def dotted(path: Path) -> tuple[str, ...]:
    """The package in which a file's relative imports are resolved."""
    return path.relative_to(PACKAGE.parent).parts[:-1]


def imported(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """(line, full dotted name) of everything a file imports, wherever in it."""
    for node in ast.walk(ast.parse(source, str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(dotted(path)[: 1 - node.level or None]) if node.level else []
            base += [node.module] if node.module else []
            yield from ((node.lineno, ".".join([*base, alias.name])) for alias in node.names)


def within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def problems(path: Path, source: str) -> Iterator[str]:
    """What is wrong with a file's imports, as lines for the developer."""
    here = stage(path)
    for line, name in imported(path, source):
        where = f"{path.relative_to(ROOT)}:{line} imports {name}"
        if within(name, FORBIDDEN):
            yield f"{where}: stator must work without {FORBIDDEN}"
        elif within(name, "torch") and here in TORCH_FREE:
            yield f"{where}: {here or 'stator'} must work without torch"
        elif within(name, "stator") and here:
            target = name.split(".")[1] if "." in name else ""
            if target not in ORDER:
                yield f"{where}: import from the package that defines it"
            elif ORDER.index(target) > ORDER.index(here):
                yield f"{where}: {here} comes before {target}, so it may not import it"


@pytest.mark.parametrize("path", python_files(PACKAGE), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    assert not list(problems(path, path.read_text()))


def test_every_package_has_its_place() -> None:
    found = {stage(path) for path in python_files(PACKAGE)} - {""}
    assert found <= set(ORDER), f"add to ORDER in {Path(__file__).name}: {found - set(ORDER)}"


@pytest.mark.parametrize(
    "line",
    [
        "from ..evaluator import run",
        "from .. import evaluator",
        "import stator.evaluator.frame",
        "from stator import evaluator",
        "from stator import __version__",
        "import torch",
        "from torch import _dynamo",
        "def f():\n    import torch._dynamo.utils",
    ],
)
def test_the_rule_sees(line: str) -> None:
    assert list(problems(PACKAGE / "bytecode" / "probe.py", line))


@pytest.mark.parametrize(
    "line",
    [
        "from . import decode",
        "from .tables import v311",
        "from .._native import _core",
        "import dis",
    ],
)
def test_the_rule_allows(line: str) -> None:
    assert not list(problems(PACKAGE / "bytecode" / "probe.py", line))


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples", "tools", "skills"])
def test_files_stay_small(folder: str) -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / folder).rglob("*")
        if path.parent != ROOT / "tests" / "evaluator"  # lists of programs: data, not code
        and path.suffix in {".py", ".c", ".h", ".pyi"}
        and (lines := len(path.read_text().splitlines())) > LINE_LIMIT
    }
    assert not long, f"over {LINE_LIMIT} lines; is there a second idea that wants its own file?"


def test_every_c_file_is_built() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (extension,) = settings["tool"]["setuptools"]["ext-modules"]
    listed = {*extension["sources"], *extension["depends"]}
    native = PACKAGE / "_native"
    present = {str(p.relative_to(ROOT)) for p in [*native.glob("*.c"), *native.glob("*.h")]}
    assert listed == present


def test_one_c_file_knows_versions_of_python() -> None:
    """What differs between them has a name in `compat.h`; no other file asks for the version."""
    asks = re.compile(r"PY_(VERSION_HEX|MAJOR|MINOR|MICRO)|\bSINCE\(")
    files = (PACKAGE / "_native").glob("*.[ch]")
    found = {path.name for path in files if asks.search(path.read_text())}
    assert found == {"compat.h"}


def test_one_c_file_measures_torch() -> None:
    """Where torch keeps what guards read is found by calibration, not written down."""
    files = (PACKAGE / "_native").glob("*.c")
    found = {path.name for path in files if 'dlsym(cpu, "aoti_torch' in path.read_text()}
    assert found == {"guards_calibrate.c"}


@pytest.mark.parametrize("package", ["graph", "capture"])
def test_the_rooms_of_a_package_are_in_the_architecture(package: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = dict(re.findall(rf"^\| `{package}/(\w+)/` \| (.*) \|$", page, re.MULTILINE))
    found = {path.parent.name: path for path in (PACKAGE / package).glob("*/__init__.py")}
    assert rooms.keys() == found.keys()
    for name, path in found.items():
        assert ast.get_docstring(ast.parse(path.read_text())) == rooms[name]
    flat = {path.name for path in (PACKAGE / package).glob("*.py")}
    assert flat == {"__init__.py"}, "a module belongs into one of the rooms"


def test_the_order_of_packages_is_in_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page[page.index("| package |") : page.index("| folder |")]
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \| (.*) \|$", table, re.MULTILINE)
    assert [name for name, _ in rows] == [name for name in ORDER if name != "__main__"]
    missing = {name for name, text in rows if not text.endswith("(planned)")} - {
        stage(path) for path in python_files(PACKAGE)
    }
    assert not missing
