"""Prints docs/configuration.md: the settings, from src/stator/config.py, and the environment.

    python tools/configuration.py > docs/configuration.md

The texts are those in config.py; a test compares the page with what is printed here.
"""

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).parents[1] / "src" / "stator"

ENVIRONMENT: Final = {
    "STATOR_LOGS": "Which logs are shown, as for `stator.set_logs` (docs/diagnostics.md).",
    "STATOR_LOGS_OUT": "A file for the logs, instead of standard error.",
    "STATOR_TRACE": "A folder for the events of the run, from which `stator report` makes a page.",
    "STATOR_ARTEFACTS": "The setting `artefacts`.",
    "STATOR_PROGRESS": "`0`: the setting `progress` is off.",
    "STATOR_CACHE": "`1`: the setting `cache` is on.",
    "STATOR_CACHE_DIR": "The setting `cache_dir`.",
    "STATOR_CACHE_KEY": "A secret with which files of the cache are signed; others are refused "
    "(docs/cache.md).",
    "STATOR_STRICT": "`1`: the setting `strict` is on.",
    "STATOR_TENSOR_GUARDS": "For tests: parts of the calibration that are not to be used "
    "(docs/guards.md).",
}

_PAGE: Final = """\
# Configuration

`stator.config` holds the settings. They are for the whole process. A name that is not a setting,
and a value of the wrong type, are refused.

```python
import stator

stator.config.recompile_limit = 4               # from now on

with stator.config.patch(recompile_limit=16):   # for a while
    assert stator.config.recompile_limit == 16

@stator.config.patch(suppress_errors=True)      # during each call of a function
def train():
    return stator.config.suppress_errors

assert train() and not stator.config.suppress_errors
stator.config.recompile_limit = 8
```

What concerns one function only is an argument of `stator.compile` ([usage.md](usage.md)); stances,
which hold for all compiled functions, are in [recompiles.md](recompiles.md).

## Settings

{settings}

## Environment variables

{environment}

Made by `python tools/configuration.py`; the texts are in `src/stator/config.py`.
"""


class Setting(NamedTuple):
    name: str
    kind: str
    default: object
    text: str


def settings() -> Iterator[Setting]:
    """Each setting, with the text that stands below it."""
    body = ast.parse((SOURCE / "config.py").read_text()).body
    for node, below in itertools.pairwise(body):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and not node.target.id.startswith("_")
            and node.value is not None
        ):
            assert isinstance(below, ast.Expr), f"{node.target.id} needs a text below it"
            text = ast.literal_eval(below.value)
            kind = ast.unparse(node.annotation)
            yield Setting(node.target.id, kind, _default(node.value), " ".join(text.split()))


def _default(value: ast.expr) -> object:
    """Without anything in the environment."""
    names = {"os": SimpleNamespace(environ={})}
    return eval(compile(ast.Expression(value), "config.py", "eval"), names)


def variables() -> set[str]:
    """The names of environment variables that occur in the package."""
    return {
        name
        for path in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.c")]
        for name in re.findall(r"\"(STATOR_[A-Z_]+)\"", path.read_text())
    }


def page() -> str:
    rows = [
        f"| `{each.name}` | {each.kind} | `{each.default!r}` | {each.text} |" for each in settings()
    ]
    table = ["| setting | type | default | |", "|---|---|---|---|", *rows]
    others = [f"| `{name}` | {text} |" for name, text in ENVIRONMENT.items()]
    return _PAGE.format(
        settings="\n".join(table),
        environment="\n".join(["| variable | |", "|---|---|", *others]),
    )


if __name__ == "__main__":
    sys.stdout.write(page())
