"""`stator.install()`: torch.compile is stator's, and afterwards everything is what it was."""

import inspect
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import stator
from stator._native._core import CompiledFunction
from stator.dropin import compiling
from stator.dropin.arrival import Arrivals
from stator.dropin.compiling import for_programs
from stator.dropin.patches import Patches
from stator.dropin.settings import Settings
from tests.cli.compare import run
from tests.versions import newest_names


@pytest.fixture
def installed() -> Iterator[None]:
    stator.install()
    yield
    stator.uninstall()


PLACES: list[Any] = [torch, torch.compiler, nn.Module]


def attributes() -> list[tuple[str, dict[str, Any]]]:
    """Everything that might be changed, by identity."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("torch._dynamo")]
    owners = [*PLACES, *loaded]
    found = [(str(owner), {**vars(owner), "class": type(owner)}) for owner in owners]
    return [*found, ("finders", dict(enumerate(sys.meta_path)))]


def test_everything_is_restored() -> None:
    stator.compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # loads torch._dynamo
    before, settings = attributes(), {n: getattr(stator.config, n) for n in ("recompile_limit",)}
    stator.install()
    stator.install(fullgraph=True)
    assert torch.compile is not dict(before)[str(torch)]["compile"]
    theirs: Any = sys.modules["torch._dynamo.config"]
    theirs.recompile_limit = 3
    assert stator.config.recompile_limit == 3
    theirs.recompile_limit = 8
    stator.uninstall()
    assert torch.compile is not dict(before)[str(torch)]["compile"]  # one is left
    stator.uninstall()
    stator.uninstall()  # nothing
    for (name, was), (_, now) in zip(before, attributes(), strict=True):
        assert was.keys() == now.keys(), name
        assert all(was[key] is now[key] for key in was), name
    assert settings == {name: getattr(stator.config, name) for name in settings}


def test_nothing_is_loaded_and_what_is_loaded_later_is_changed(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "import sys, torch, stator\n"
        "before = torch.compile\n"
        "stator.install()\n"
        "compiled = torch.compile(torch.nn.Linear(2, 2), backend='eager')\n"
        "torch.compiler.disable(lambda: 0), torch.compiler.reset()\n"
        "assert not [name for name in sys.modules if name.startswith('torch._dynamo')]\n"
        "def asks(x):\n"
        "    torch._dynamo.graph_break()\n"  # this trace is what loads it
        "    return x + 1\n"
        "assert [each.id for each in stator.explain(asks)(torch.ones(1)).breaks] == ['SB0001']\n"
        "import torch._dynamo\n"
        "module = sys.modules['torch._dynamo']\n"
        "assert type(module.__loader__).__name__ == 'SourceFileLoader'\n"
        "assert module.__spec__.loader is module.__loader__\n"
        "assert isinstance(compiled, torch._dynamo.OptimizedModule)\n"
        "assert not isinstance(torch.nn.ReLU(), torch._dynamo.OptimizedModule)\n"
        "assert torch._dynamo.explain.__wrapped__.__module__ == 'torch._dynamo.eval_frame'\n"
        "stator.uninstall()\n"
        "assert torch.compile is before\n"
        "assert 'stator' not in torch._dynamo.explain.__code__.co_filename\n"
        "print('good')\n"
    )
    found = run(["late.py"], tmp_path)
    assert found.output == "good\n", found.errors


@pytest.mark.usefixtures("installed")
def test_functions() -> None:
    def double(x: Any) -> Any:
        """Twice."""
        return x * 2

    compiled: Any = torch.compile(double, backend="eager")
    assert isinstance(compiled, CompiledFunction)
    assert compiled.__name__ == "double"
    assert inspect.signature(compiled) == inspect.signature(double)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert stator.testing.count(compiled).compiles == 1
    decorated: Any = torch.compile(backend="eager", fullgraph=True)(double)
    assert decorated(torch.ones(1)).tolist() == [2]
    assert torch.compile(double, disable=True) is double


def test_signatures_stay(installed: None) -> None:
    assert list(inspect.signature(torch.compile).parameters)[:3] == [
        "model",
        "fullgraph",
        "dynamic",
    ]
    assert torch.compile.__name__ == "compile"
    assert "model" in (torch.compile.__doc__ or "")


@pytest.mark.usefixtures("installed")
def test_modules() -> None:
    inner = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    compiled: Any = torch.compile(inner, backend="eager")
    assert type(compiled).__name__ == "OptimizedModule"
    x = torch.randn(4, 2)
    assert_close(compiled(x), inner(x))
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [name for name, _ in compiled.named_children()] == ["_orig_mod"]
    assert (len(compiled), bool(compiled), compiled._orig_mod is inner) == (2, True, True)
    compiled.extra = 3
    assert inner.extra == 3
    del compiled.extra
    assert not hasattr(inner, "extra")
    with pytest.raises(AttributeError, match="nothing"):
        _ = compiled.nothing
    assert "add_module" in dir(compiled)
    assert not compiled.eval()._orig_mod.training
    again: Any = torch.compile(compiled, backend="eager")
    assert again._orig_mod is inner
    copied = pickle.loads(pickle.dumps(torch.compile(nn.Linear(2, 2), backend="eager")))
    assert copied(torch.ones(1, 2)).shape == (1, 2)
    whole: Any = stator.compile(nn.Sequential(compiled, nn.Tanh()), backend="eager", fullgraph=True)
    assert_close(whole(x), inner(x).tanh())


@pytest.mark.usefixtures("installed")
def test_classes() -> None:
    @torch.compile(backend="eager")
    class Doubles(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 + torch.compiler.is_compiling()

    @torch.compiler.disable
    class Plain(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 + torch.compiler.is_compiling()

    compiled: Any = stator.compile(lambda module, x: module(x), backend="eager")
    assert Doubles()(torch.ones(1)).tolist() == [3]
    assert compiled(Plain(), torch.ones(1)).tolist() == [2]
    assert nn.ReLU()(torch.ones(1)).tolist() == [1]  # the others are left alone


@pytest.mark.usefixtures("installed")
def test_refused() -> None:
    with pytest.raises(RuntimeError, match="not both"):
        torch.compile(len, mode="default", options={"a": 1})
    with pytest.raises(NotImplementedError, match="use_aoti"):
        torch.compile(len, options={"use_aoti": True})
    with pytest.raises(stator.UnknownBackendError, match="Did you mean 'eager'"):
        torch.compile(backend="eagr")


@newest_names
@pytest.mark.usefixtures("installed")
def test_a_refused_default() -> None:
    with pytest.raises(TypeError, match="not int"):
        torch.compiler.set_default_backend(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"])
def test_switched_off(variable: str, installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    assert torch.compile(len) is len


def test_what_holds_for_all() -> None:
    stator.install(backend="eager", fullgraph=True)
    try:
        compile: Any = torch.compile
        compiled = compile(lambda x: x + 1, mode="max-autotune")
        assert compiled(torch.ones(1)).tolist() == [2]
        options = compiled.miss.options
        assert (options.backend, options.fullgraph, options.mode) == ("eager", True, None)
    finally:
        stator.uninstall()
    assert not compiling.forced


@pytest.mark.usefixtures("installed")
def test_torchs_own_code_keeps_torchs_functions() -> None:
    seen: list[str] = []
    either = for_programs(
        partial(seen.append, "torch"), partial(seen.append, "stator"), lambda: either
    )
    either()
    exec("either()", {"__name__": "torch.somewhere", "either": either})
    exec("either()", {"__name__": "torchvision", "either": either})
    assert seen == ["stator", "torch", "stator"]


@pytest.mark.usefixtures("installed")
def test_compiling_in_compiled_code_is_a_break() -> None:
    def increased(x: Any) -> Any:
        return x + 1

    def program(x: Any) -> Any:
        compiled: Any = torch.compile(increased, backend="eager")
        return compiled(x * 2)

    told = stator.explain(program)(torch.ones(1))
    assert told.result.tolist() == [3]
    assert [found.id for found in told.breaks][:1] == ["SB0003"]


@pytest.mark.usefixtures("installed")
def test_marks() -> None:
    compiler: Any = torch.compiler

    def kernel(x: Any) -> Any:
        return x * 2

    def constant() -> int:
        return 3

    def never(x: Any) -> Any:
        raise NotImplementedError

    @torch.compiler.substitute_in_graph(never)
    def instead(x: Any) -> Any:
        return x - 1

    assert compiler.allow_in_graph(kernel) is kernel
    assert compiler.assume_constant_result(constant) is constant
    told = stator.explain(lambda x: never(kernel(x) + constant()))(torch.ones(1))
    assert told.result.tolist() == [4]
    assert told.ops_per_graph == (("kernel", "add", "sub"),)
    assert compiler.allow_in_graph([kernel]) == [kernel]


@pytest.mark.usefixtures("installed")
def test_explain() -> None:
    stator.compile(lambda x: x + 1, backend="eager")(torch.ones(1))  # loads torch._dynamo
    dynamo: Any = sys.modules["torch._dynamo"]

    def program(x: Any) -> Any:
        y = torch.sin(x)
        dynamo.graph_break()
        return torch.cos(y)

    found = dynamo.explain(program)(torch.ones(1))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    assert found.ops_per_graph == [[torch.sin], [torch.cos]]
    assert [type(graph).__name__ for graph in found.graphs] == ["GraphModule"] * 2
    (reason,) = found.break_reasons
    assert reason.user_stack[-1].name.endswith("program")
    assert "graph break" in reason.reason
    assert str(found).startswith("Graph Count: 2\nGraph Break Count: 1\nOp Count: 2\n")
    assert found.explanation.break_count == 1
    with pytest.warns(FutureWarning, match="deprecated"):
        assert dynamo.explain(program, torch.ones(1)).graph_count == 2


# ---------------------------------------------------------------------- the parts


def test_settings_are_followed() -> None:
    class Config(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "unknown":
                raise AttributeError(name)
            super().__setattr__(name, value)

    module: Any = Config("settings")
    patches, settings = Patches(), Settings()
    module.recompile_limit = 5
    settings.follow(module, patches)
    assert stator.config.recompile_limit == 5
    module.suppress_errors = True
    assert stator.config.suppress_errors
    module.verbose = True
    module.recompile_limit = None
    assert stator.config.recompile_limit == 5  # what stator can't take, it leaves
    with pytest.raises(AttributeError):
        module.unknown = 1
    patches.undo()
    settings.restore()
    assert type(module) is Config
    assert (stator.config.recompile_limit, stator.config.suppress_errors) == (8, False)


def test_patches_leave_what_others_have_done() -> None:
    module: Any = ModuleType("m")
    patches = Patches()
    module.a = 1
    patches.set(module, "a", 2)
    patches.set(module, "a", 3)
    patches.set(module, "b", 4)
    patches.set(module, "c", 5)
    module.c = 6
    patches.undo()
    assert (module.a, module.c, hasattr(module, "b")) == (1, 6, False)


def test_arrivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arrives_late.py").write_text("x = 1\n")
    (tmp_path / "arrives_never.py").write_text("raise ValueError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[ModuleType] = []
    arrivals = Arrivals()
    before = list(sys.meta_path)
    try:
        arrivals.expect("json", seen.append)
        assert [module.__name__ for module in seen] == ["json"]
        assert sys.meta_path == before  # nothing to wait for
        arrivals.expect("arrives_late", lambda module: seen.append(module))
        arrivals.expect("arrives_never", lambda module: seen.append(module))
        __import__("arrives_late")
        with pytest.raises(ValueError, match="no"):
            __import__("arrives_never")
        assert [module.__name__ for module in seen] == ["json", "arrives_late"]
        assert inspect.getsource(seen[1]) == "x = 1\n"
    finally:
        arrivals.stop()
        sys.modules.pop("arrives_late", None)
    assert sys.meta_path == before
