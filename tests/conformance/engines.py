"""Engines: what turns a test method into the function that is run in its place.

An engine is a callable ``compile(fn, *, fullgraph, backend) -> callable``, or a class whose
instances are. It may carry these optional attributes:

``setup()``                once, before anything is forked
``before_test()``          before each compiled test
``verify(fn, compiled)``   after a test returned: None if the compiled path really ran, else the
                           reason why it did not, which fails the test
``shims()``                patches ``unittest.TestCase`` (in compiled runs only)
``applied``                settings to record with the results
``captures``               False for an engine that promises no graph; skips the graph probes
"""

import contextlib
import importlib
import inspect
import logging
import unittest
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, Protocol

Function = Callable[..., Any]


class Compiler(Protocol):
    def __call__(self, fn: Function, *, fullgraph: bool, backend: str) -> Function: ...


class Engine:
    """A compiler with every optional hook made callable."""

    def __init__(self, name: str, compiler: Compiler) -> None:
        self.name = name
        self.compiler = compiler

    def _hook(self, name: str, *args: Any) -> Any:
        hook = getattr(self.compiler, name, None)
        return None if hook is None else hook(*args)

    def compile(self, fn: Function) -> Function:
        return self.compiler(fn, fullgraph=True, backend="eager")

    def setup(self) -> None:
        self._hook("setup")

    def before_test(self) -> None:
        self._hook("before_test")

    def shims(self) -> None:
        self._hook("shims")

    def verify(self, fn: Function, compiled: Function) -> str | None:
        reason: str | None = self._hook("verify", fn, compiled)
        return reason

    @property
    def verified(self) -> bool:
        return hasattr(self.compiler, "verify")

    @property
    def captures(self) -> bool:
        return bool(getattr(self.compiler, "captures", True))

    @property
    def applied(self) -> dict[str, Any] | None:
        return getattr(self.compiler, "applied", None)


class Eager:
    """Runs the test natively: what the harness itself costs, and whether it is deterministic."""

    captures: ClassVar = False

    def __call__(self, fn: Function, *, fullgraph: bool, backend: str) -> Function:
        return fn


class Broken:
    """Negative control: refuses everything, so it must score 0."""

    def __call__(self, fn: Function, *, fullgraph: bool, backend: str) -> Function:
        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("deliberately broken engine")

        return refuse


class Torch:
    """torch.compile, with the settings of ``torch._dynamo.test_case.CPythonTestCase``."""

    flags: ClassVar = {
        "enable_trace_unittest": True,
        "enable_trace_load_build_class": True,
        "raise_on_ctx_manager_usage": True,
        "suppress_errors": False,
        "log_compilation_metrics": False,
        "nested_graph_breaks": True,
    }
    polyfilled: ClassVar = {
        "assertMultiLineEqual": "assert_multi_line_equal",
        "assertSequenceEqual": "assert_sequence_equal",
        "assertDictEqual": "assert_dict_equal",
    }

    def setup(self) -> None:
        self.torch = torch = importlib.import_module("torch")
        self.dynamo = importlib.import_module("torch._dynamo")
        torch.set_num_threads(1)
        self.applied = {k: v for k, v in self.flags.items() if hasattr(self.dynamo.config, k)}
        for name, value in self.applied.items():
            setattr(self.dynamo.config, name, value)
        logging.getLogger("torch").setLevel(logging.CRITICAL)

        def warm(x: Any) -> Any:
            with contextlib.nullcontext():
                return [x + i for i in range(2)]

        self(warm, fullgraph=True, backend="eager")(torch.ones(1))  # does the lazy imports
        self.dynamo.reset()

    def shims(self) -> None:
        """What CPythonTestCase overrides relative to unittest.TestCase."""
        polyfills = importlib.import_module("torch._dynamo.polyfills")
        for method, polyfill in self.polyfilled.items():
            if hasattr(polyfills, polyfill):
                setattr(unittest.TestCase, method, getattr(polyfills, polyfill))

        @contextlib.contextmanager
        def sub_test(self: unittest.TestCase, *args: Any, **kwargs: Any) -> Iterator[None]:
            yield

        unittest.TestCase.subTest = sub_test  # type: ignore[method-assign]

    def before_test(self) -> None:
        self.dynamo.reset()
        self.dynamo.utils.counters.clear()

    def __call__(self, fn: Function, *, fullgraph: bool, backend: str) -> Function:
        compiled: Function = self.torch.compile(fn, fullgraph=fullgraph, backend=backend)
        return compiled

    def verify(self, fn: Function, compiled: Function) -> str | None:
        """A compiled frame leaves a cache entry on its code object; a skipped one does not."""
        eval_frame = importlib.import_module("torch._dynamo.eval_frame")
        inner = getattr(compiled, "_torchdynamo_orig_callable", fn)
        code = getattr(getattr(inner, "__func__", inner), "__code__", None)
        if code is None:
            return "no code object to check"
        if not eval_frame._debug_get_cache_entry_list(code):
            return "test frame was skipped, not compiled (no cache entry)"
        if breaks := self.dynamo.utils.counters["graph_break"]:
            return f"graph break recorded: {next(iter(breaks))}"
        return None


class TorchErrorOnBreak(Torch):
    """The call PyTorch's own suite makes: error_on_graph_break instead of fullgraph."""

    def __call__(self, fn: Function, *, fullgraph: bool, backend: str) -> Function:
        optimize = self.dynamo.optimize("eager_noexcept", error_on_graph_break=fullgraph)
        compiled: Function = optimize(fn)
        return compiled


BUILT_IN: Final[dict[str, type[Compiler]]] = {
    "eager": Eager,
    "broken": Broken,
    "torch": Torch,
    "torch-eogb": TorchErrorOnBreak,
}


def load(spec: str) -> Engine:
    """The engine that ``--engine`` names: one of BUILT_IN or MODULE:ATTR."""
    if spec in BUILT_IN:
        return Engine(spec, BUILT_IN[spec]())
    module, _, path = spec.partition(":")
    found: Any = importlib.import_module(module)
    for name in (path or "compile").split("."):
        found = getattr(found, name)
    if inspect.isclass(found):
        found = found()
    return Engine(spec, found)
