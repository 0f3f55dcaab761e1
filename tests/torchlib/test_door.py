"""One door to torch: no private name elsewhere, words where one is missing, a warning once."""

import ast
import collections
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Final

import pytest

from stator.torchlib.attributes import ATTRIBUTES
from stator.torchlib.supported import FIRST, LAST
from stator.torchlib.versions import release_of, warn_if_untested

from .names import DOOR, PACKAGE, attributes, defined, is_private, taken, used

FILES: Final = [path for path in sorted(PACKAGE.rglob("*.py")) if DOOR not in path.parents]
# Private attributes of Python's own library, and of what it returns.
OF_PYTHON: Final = {
    *("_Pickler", "_Unpickler", "_abc_instancecheck", "_abc_subclasscheck", "_actions", "_asdict"),
    *("_clear_cache", "_core", "_dtype", "_erased", "_find_impl", "_get_module_details", "_local"),
    *("_get_running_loop", "_lru_cache_wrapper", "_rand", "_showwarnmsg", "_srcfile", "_getframe"),
    *("_filters_mutated_lock_held", "_acquire_lock", "_release_lock", "_current_frames"),
    *("_strptime", "_strptime_datetime", "_strptime_time"),
    *("_dynamo",),  # torch's other compiler, by which `dropin` is known to programs
}
EVERY: Final = 12  # of the names, one in so many is taken away in a fast run


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_private_name_of_torch_elsewhere(path: Path) -> None:
    found = dict(used(ast.parse(path.read_text())))
    assert not found, f"take it through stator.torchlib: {found}"


def test_the_rule_sees() -> None:
    for text in (
        "import torch._C",
        "import torch\ntorch._C._get_grad()",
        "from torch.utils._pytree import tree_map",
        "from torch.utils import _pytree",
        "import torch.utils._device as device",
        "from torch import fx\nfx._symbolic_trace",
        "torch = import_module('torch')\ntorch._ops",
    ):
        assert list(used(ast.parse(text))), text
    for text in ("import torch\ntorch.Tensor.__dict__", "from torch.fx import Graph"):
        assert not list(used(ast.parse(text))), text


def test_private_attributes_of_torch_are_listed() -> None:
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    own = {name for tree in trees.values() for name in defined(tree)}
    found = collections.defaultdict(set)
    for path, tree in trees.items():
        for name, _ in attributes(tree):
            found[name].add(str(path.relative_to(PACKAGE)))
    unknown = {name: where for name, where in found.items() if name not in own}
    assert not {n: w for n, w in unknown.items() if n not in ATTRIBUTES and n not in OF_PYTHON}


def test_each_name_says_what_it_is_for() -> None:
    assert len(taken()) > 150
    for file in sorted(DOOR.glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [f"{getattr(node, 'module', None) or ''}.{a.name}" for a in node.names]
                assert not any(n.startswith("torch") and is_private(n) for n in names), file


def test_versions() -> None:
    assert release_of("2.15.0a0+git1234") == (2, 15)
    assert release_of("2.13.0+cpu") == (2, 13)
    assert release_of("main") == (0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for release in (FIRST, LAST):
            warn_if_untested("{}.{}.0".format(*release))
    for version in ("2.10.1", "2.16.0", "3.0.0"):
        with pytest.warns(RuntimeWarning, match=f"not with {version}"):
            warn_if_untested(version)


def test_without_a_name() -> None:
    """A torch that lacks one: everything works, or words say what is missing."""
    names = taken()
    if os.environ.get("STATOR_TORCHLIB") != "all":
        names = names[::EVERY]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.torchlib.without", *names],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    outcomes = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    assert list(outcomes) == names
    allowed = ("works", "words", "torch", "not there")
    assert not {name: told for name, told in outcomes.items() if told not in allowed}
    counted = collections.Counter(outcomes.values())
    assert counted["works"] and counted["words"], counted


NEWER: Final = """\
import warnings
import torch
from tests.torchlib.without import results
torch.__version__ = torch.version.__version__ = "2.99.0a0+git1"
expected = results(lambda function: function)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import stator
    graphs = []
    def backend(graph, inputs):
        graphs.append(len([node for node in graph.graph.nodes if node.op == "call_function"]))
        return graph.forward
    for _ in range(2):
        found = results(lambda function: stator.compile(function, backend=backend, fullgraph=True))
assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
print(graphs[:2], [str(w.message) for w in told if "was tested with torch" in str(w.message)])
"""


def test_a_newer_torch_is_used_as_it_is() -> None:
    """Not known, but nothing is missing: captured as ever, with one warning."""
    ran = subprocess.run(
        [sys.executable, "-c", NEWER],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert not ran.returncode, ran.stderr
    graphs, _, told = ran.stdout.partition("] ")
    assert graphs == "[3, 1"
    assert told.count("not with 2.99.0a0+git1") == 1
