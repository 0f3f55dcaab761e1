"""Builds the sdist and one wheel per Python that is here, and tries each out where no source is.

    python tools/wheels.py [--out build/dist] [--torch 2.13.0] [PYTHON …]

Without names, every supported CPython on the PATH or under pyenv is taken. A wheel is made from the
sdist, installed into a fresh environment in a temporary folder, and `tools/smoke.py` runs there:
first without torch, then, for the Python that this runs on or where `--torch` is given, with it.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SMOKE: Final = ROOT / "tools" / "smoke.py"
PYTHONS: Final = tuple(f"3.{minor}" for minor in range(11, 16))
TORCH: Final = "2.13.0"
_ASK: Final = (
    "import sys, sysconfig; "
    "print('%d.%d' % sys.version_info[:2] if sys.implementation.name == 'cpython' "
    "and not sysconfig.get_config_var('Py_GIL_DISABLED') else 'other')"
)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; its errors are shown, and end this."""
    ran = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"error: {' '.join(map(str, command))}\n{ran.stdout}{ran.stderr}")
    return ran.stdout.strip()


def version_of(python: str) -> str | None:
    try:
        ran = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=False)
    except OSError:
        return None
    told = ran.stdout.strip()
    return told if ran.returncode == 0 and told in PYTHONS else None


def found() -> Iterator[tuple[str, str]]:
    """(version, command) of each supported Python here, one for each version."""
    known: set[str] = set()
    pyenv = Path.home() / ".pyenv" / "versions"
    candidates = [sys.executable, *(f"python{version}" for version in PYTHONS)]
    candidates += [str(path / "bin" / "python") for path in sorted(pyenv.glob("3.*"))]
    for command in candidates:
        version = version_of(command)
        if version is not None and version not in known:
            known.add(version)
            yield version, command


def environment(python: str, folder: Path) -> Path:
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def sdist(out: Path, folder: Path) -> Path:
    """The sdist, made by the tools of a fresh environment."""
    python = environment(sys.executable, folder / "sdist")
    run(python, "-m", "pip", "install", "--quiet", "setuptools>=77")
    code = f"from setuptools import build_meta as b; print(b.build_sdist({str(out)!r}))"
    name = run(python, "-c", code, cwd=ROOT).splitlines()[-1]
    return out / name


def wheel(source: Path, out: Path, version: str, command: str, folder: Path) -> Path:
    """A wheel of the sdist, for one Python."""
    python = environment(command, folder / f"build-{version}")
    run(python, "-m", "pip", "install", "--quiet", "setuptools>=77")
    made = folder / f"wheel-{version}"
    run(python, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps",
        "--wheel-dir", made, source)  # fmt: skip
    (path,) = made.glob("*.whl")
    return Path(shutil.copy(path, out))


def try_out(path: Path, version: str, command: str, torch: str | None, folder: Path) -> str:
    """Installs a wheel and runs the smoke test; what it printed."""
    python = environment(command, folder / f"try-{version}")
    run(python, "-m", "pip", "install", "--quiet", path)
    told = run(python, "-I", SMOKE, cwd=folder)
    if torch is not None:
        run(python, "-m", "pip", "install", "--quiet", f"torch=={torch}", "numpy")
        told = run(python, "-I", SMOKE, "--torch", cwd=folder)
    return told


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="sdist and wheels, each tried out")
    parser.add_argument("pythons", nargs="*")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "dist")
    parser.add_argument("--torch", help=f"for all Pythons; without, {TORCH} for this one only")
    given = parser.parse_args(arguments)
    pythons = [(version_of(each), each) for each in given.pythons] or list(found())
    out: Path = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    own = "{}.{}".format(*sys.version_info[:2])
    with tempfile.TemporaryDirectory(prefix="stator-wheels-") as name:
        folder = Path(name)
        source = sdist(out, folder)
        print(source.name, flush=True)
        for version, command in pythons:
            if version is None:
                raise SystemExit(f"error: {command} is none of CPython {', '.join(PYTHONS)}")
            path = wheel(source, out, version, command, folder)
            torch = given.torch or (TORCH if version == own else None)
            print(f"{path.name}: {try_out(path, version, command, torch, folder)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
