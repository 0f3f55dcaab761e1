"""Say plainly what is missing on this machine before a virtual environment is made.

Run by the Makefile with the Python the user chose, which may be too old for stator:
keep to syntax that Python 3.6 parses.
"""

import os
import shlex
import shutil
import sys
import sysconfig

OLDEST, NEWEST = (3, 11), (3, 15)


def problems() -> "list[str]":
    """The reasons why stator can't be built with this Python, each with its remedy."""
    running = sys.version_info[:2]
    found = f"{running[0]}.{running[1]}"
    if sys.implementation.name != "cpython" or not OLDEST <= running <= NEWEST:
        return [
            "stator needs CPython 3.11 to 3.15, and "
            f"{sys.executable} is {sys.implementation.name} {found}.\n"
            "  Choose another one, for example:  make PYTHON=python3.11 ..."
        ]
    missing = []
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        missing.append(
            f"stator does not support free-threaded Python, which {sys.executable} is.\n"
            "  Choose a build with the global interpreter lock (python3.14, not python3.14t)."
        )
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        missing.append(
            f"stator needs a C compiler, and '{compiler}' was not found.\n"
            "  Install one (Debian: build-essential) or name yours:  make CC=clang ..."
        )
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if not os.path.exists(header):
        missing.append(
            f"stator's extension needs the headers of Python {found}, and {header} is missing.\n"
            f"  Install them (Debian: python{found}-dev)."
        )
    return missing


if __name__ == "__main__":
    reasons = problems()
    if reasons:
        sys.exit("\n".join("error: " + reason for reason in reasons))
