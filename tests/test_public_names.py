"""What users may rely on.

A change here is a change of the public interface: say so in CHANGELOG.md.
"""

import subprocess
import sys
from importlib import import_module, metadata

import pytest

import stator

PUBLIC = {
    "stator": [
        "BackendError",
        "CacheError",
        "CaptureError",
        "Explanation",
        "InternalError",
        "RankDivergence",
        "RecompileError",
        "RecompileLimitError",
        "SideEffectError",
        "SpecializedError",
        "UnknownBackendError",
        "__version__",
        "allow_in_graph",
        "assume_constant_result",
        "compile",
        "compile_module_",
        "config",
        "counters",
        "debug_grad_log",
        "disable",
        "error_on_graph_break",
        "explain",
        "graph_break",
        "install",
        "install_debug_prints",
        "is_compiling",
        "leaf_function",
        "list_backends",
        "load",
        "load_compiled_function",
        "mark_dynamic",
        "mark_static",
        "mark_unbacked",
        "maybe_mark_dynamic",
        "nested_compile_region",
        "nonstrict_trace",
        "print",
        "register_backend",
        "reset",
        "reset_code",
        "save",
        "set_logs",
        "set_stance",
        "skip_frame",
        "substitute_in_graph",
        "testing",
        "uninstall",
    ],
    "stator.backends": [
        "Backend",
        "BackendError",
        "Compiled",
        "UnknownBackendError",
        "check",
        "list_backends",
        "lookup",
        "register_backend",
    ],
    "stator.evaluator": [
        "PACKAGE",
        "PLAIN",
        "Abort",
        "InternalError",
        "Operations",
        "Statistics",
        "plain",
        "run",
        "run_with",
        "statistics",
    ],
    "stator.report": ["EDITORS", "build"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module: str) -> None:
    if module == "stator.backends":
        pytest.importorskip("torch")
    found = import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module])
    assert set(found.__all__) <= set(dir(found))


@pytest.mark.parametrize("name", PUBLIC["stator"])
def test_lazy_names(name: str) -> None:
    pytest.importorskip("torch")
    assert getattr(stator, name) is not None


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="module 'stator' has no attribute 'compiel'"):
        _ = stator.compiel


def test_version() -> None:
    assert stator.__version__ == metadata.version("stator")


def test_import_is_light() -> None:
    """`import stator` loads no torch, no evaluator, no extension: nothing but itself."""
    program = (
        "import sys; before = set(sys.modules); import stator; print(*(set(sys.modules) - before))"
    )
    output = subprocess.check_output([sys.executable, "-I", "-c", program], text=True)
    assert output.split() == ["stator"]
