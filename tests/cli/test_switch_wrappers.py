"""What torch.compile returns while stator is installed: what libraries ask of it is there."""

import copy
import functools
import inspect
import pickle
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule as Imported  # before anything is installed

import stator
from stator._native._core import CompiledFunction
from stator.dropin import compiling, modules
from tests.cli.compare import run

TORCH: Any = torch


@pytest.fixture
def installed() -> Iterator[None]:
    stator.install()
    yield
    stator.uninstall()


def increased(x: Any) -> Any:
    return x + 1


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Any) -> Any:
        return x * self.factor

    def step(self, x: Any) -> Any:
        return self(x) + 1


# ---------------------------------------------------------------------- modules


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("disabled", [False, True])
def test_a_wrapper_is_of_torchs_class_whoever_has_imported_that_and_when(
    disabled: bool,
) -> None:
    made: Any = TORCH.compiler.disable(Scaled()) if disabled else torch.compile(Scaled())
    assert isinstance(made, Imported)
    assert isinstance(made, torch._dynamo.OptimizedModule)
    assert isinstance(made, torch._dynamo.eval_frame.OptimizedModule)
    assert isinstance(copy.deepcopy(made), Imported)
    stator.uninstall()
    try:
        assert isinstance(made, Imported)
    finally:
        stator.install()


def test_a_wrapper_that_is_made_before_dynamo_is_loaded() -> None:
    program = (
        "import sys, torch, stator\n"
        "stator.install()\n"
        "before = torch.compile(torch.nn.Linear(1, 1), backend='eager')\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "from torch._dynamo import OptimizedModule\n"
        "after = torch.compile(torch.nn.Linear(1, 1), backend='eager')\n"
        "print([isinstance(each, OptimizedModule) for each in (before, after)])\n"
        "print([callable(each.dynamo_ctx) for each in (before, after)])\n"
    )
    assert run(["-c", program]).recorded() == "[True, True]\n[True, True]\nexit status 0\n"


@pytest.mark.usefixtures("installed")
def test_the_context_of_a_module_compiles_other_things_the_same_way() -> None:
    module = Scaled()
    made: Any = torch.compile(module, backend="eager", fullgraph=True)
    step = made.dynamo_ctx(module.step)
    assert step(torch.ones(2)).tolist() == [3, 3]
    assert step.__func__.miss.options.fullgraph
    assert stator.testing.count(step).compiles == 1
    assert isinstance(made.dynamo_ctx(Scaled()), Imported)
    assert made._torchdynamo_orig_callable == module.forward

    off: Any = TORCH.compiler.disable(module)
    assert off.dynamo_ctx(increased)(torch.ones(1)).tolist() == [2]
    assert isinstance(off.dynamo_ctx(Scaled()), Imported)


@pytest.mark.usefixtures("installed")
def test_what_is_the_wrappers_own_and_what_is_the_modules() -> None:
    module = Scaled()
    made: Any = torch.compile(module, backend="eager")
    made.eval()
    assert (made.training, module.training) == (False, False)
    made.training = True
    assert module.training
    assert "training" not in made.__dict__
    made.label = "of the module"
    assert module.label == "of the module"
    calls: list[int] = []
    made.register_forward_hook(lambda *args: calls.append(1))
    assert not module._forward_hooks
    assert made(torch.ones(1)).tolist() == [2]
    assert calls == [1]
    made.forward = lambda x: x
    assert made(torch.ones(1)).tolist() == [1]
    assert module(torch.ones(1)).tolist() == [2]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
)
def test_copies_compile_again(copied: Callable[[Any], Any]) -> None:
    made: Any = torch.compile(Scaled(), backend="eager")
    made(torch.ones(2))
    again = copied(made)
    assert type(again) is type(made)
    assert again._orig_mod is not made._orig_mod
    with torch.no_grad():
        again.factor.fill_(5)
    assert (again(torch.ones(1)).item(), made(torch.ones(1)).item()) == (5, 2)
    assert list(again.state_dict()) == ["_orig_mod.factor"]
    assert again.dynamo_ctx(increased)(torch.ones(1)).tolist() == [2]


def test_torchs_own_methods_do_not_answer_for_a_wrapper() -> None:
    """What torch's class has of its own is there for its own instances only."""
    made = modules.wrapped(Scaled(), compiling._Compiling({"disable": False, "backend": "eager"}))
    for name in ("__init__", "__call__", "__getattr__", "__setattr__", "__delattr__", "__dir__"):
        found = next(cls for cls in type(made).__mro__ if name in vars(cls))
        assert found is not Imported, name
    for name in ("__len__", "__reduce__", "training"):
        found = next(cls for cls in type(made).__mro__ if name in vars(cls))
        assert found is modules.OptimizedModule, name


# ---------------------------------------------------------------------- functions


class Owner:
    def method(self, x: Any) -> Any:
        return x + 1


@pytest.mark.usefixtures("installed")
def test_the_function_behind_a_compiled_one() -> None:
    frames: Any = torch._dynamo.eval_frame
    owner, module = Owner(), Scaled()
    compile_ = functools.partial(torch.compile, backend="eager")
    for given in (increased, owner.method, module.step):
        for made in (compile_(given), compile_(compile_(given)), TORCH.compiler.disable(given)):
            assert frames.innermost_fn(made) == given
        assert frames.innermost_fn(given) == given
    compiled: Any = compile_(increased)
    assert compiled._torchdynamo_orig_callable is increased
    assert not hasattr(increased, "_torchdynamo_orig_callable")
    wrapped = functools.wraps(compiled)(lambda x: compiled(x) * 2)
    assert frames.innermost_fn(wrapped) is wrapped  # it does more than what it wraps
    assert frames.innermost_fn(compile_(module)) == module.forward
    assert isinstance(frames.innermost_fn(compile_(owner.method)), MethodType)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_code_looks_at_compiled_functions(backend: str) -> None:
    """Lightning asks for the signature of its compiled steps, inside of one of them."""

    def helped(x: Any, *, scale: int = 2) -> Any:
        """Helps."""
        return x * scale

    helper: Any = stator.compile(helped, backend=backend)

    def program(x: Any) -> Any:
        wanted = inspect.getfullargspec(helper).kwonlyargs
        texts = [helper.__name__, helper.__doc__, *inspect.signature(helper).parameters, *wanted]
        named = getattr(helper, "label", "none"), hasattr(helper, "other")
        assert helper.__wrapped__ is helped
        return helper(x), texts, named, helper.__kwdefaults__["scale"]

    compiled: Any = stator.compile(program, backend=backend, fullgraph=True)
    assert compiled(torch.ones(1)) == program(torch.ones(1))
    changes: tuple[Callable[[], None], ...] = (
        lambda: setattr(helper, "label", "set"),
        lambda: setattr(helper, "other", 1),
        lambda: setattr(helper, "__name__", "renamed"),
        lambda: setattr(helper, "__doc__", "Otherwise."),
        lambda: setattr(helped, "__kwdefaults__", {"scale": 3}),
        lambda: delattr(helper, "label"),
    )
    for change in changes:
        change()
        assert compiled(torch.ones(1)) == program(torch.ones(1))
    assert stator.testing.count(compiled).compiles == 7


# ---------------------------------------------------------------------- wrappers of torch.compile


def _noting(function: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    """As libraries do it, which want to know what was compiled."""

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["backend"])
        return function(*args, **kwargs)

    return noting


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("first", ["library", "stator"])
def test_a_library_wraps_torch_compile(
    layers: int, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(torch, "compile", torch.compile)  # put back at the end
    if first == "stator":
        stator.install()
    before: Any = torch.compile
    made: Any = before
    for _ in range(layers):
        made = _noting(made, seen)
    torch.compile = made
    if first == "library":
        stator.install()
    try:
        assert torch.compile is made
        assert isinstance(torch.compile(increased, backend="eager"), CompiledFunction)
        assert seen == ["eager"] * layers
        namespace: dict[str, Any] = {"__name__": "torch.somewhere", "torch": torch}
        exec("by_torch = torch.compile(lambda x: x, backend='eager')", namespace)
        assert not isinstance(namespace["by_torch"], CompiledFunction)
    finally:
        stator.uninstall()
    again: Any = torch.compile(increased, backend="eager")
    assert not isinstance(again, CompiledFunction)
