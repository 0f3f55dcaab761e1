"""stator: graph capture for PyTorch, sound by construction.

The public names are here and nowhere else; torch is loaded when one of them is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stator import config, testing
    from stator.api import (
        CacheError,
        Explanation,
        allow_in_graph,
        assume_constant_result,
        compile_module_,
        counters,
        debug_grad_log,
        disable,
        error_on_graph_break,
        explain,
        graph_break,
        install_debug_prints,
        is_compiling,
        leaf_function,
        mark_dynamic,
        mark_static,
        mark_unbacked,
        maybe_mark_dynamic,
        nested_compile_region,
        nonstrict_trace,
        print,
        reset,
        reset_code,
        save,
        set_logs,
        set_stance,
        skip_frame,
        substitute_in_graph,
    )
    from stator.backends import (
        BackendError,
        UnknownBackendError,
        list_backends,
        register_backend,
    )
    from stator.capture import CaptureError
    from stator.distributed.errors import RankDivergence
    from stator.driver.errors import (
        RecompileError,
        RecompileLimitError,
        SideEffectError,
        SpecializedError,
    )
    from stator.dropin.switch import install, uninstall
    from stator.evaluator import InternalError
    from stator.front import compile, load, load_compiled_function

__version__ = "0.2.0"

__all__ = [
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
]

_HOMES = {
    "stator.api": (
        "CacheError Explanation allow_in_graph assume_constant_result compile_module_ counters "
        "debug_grad_log disable error_on_graph_break explain graph_break install_debug_prints "
        "is_compiling leaf_function mark_dynamic mark_static mark_unbacked maybe_mark_dynamic "
        "nested_compile_region nonstrict_trace print reset reset_code save set_logs set_stance "
        "skip_frame substitute_in_graph"
    ),
    "stator.backends": "BackendError UnknownBackendError list_backends register_backend",
    "stator.capture": "CaptureError",
    "stator.distributed.errors": "RankDivergence",
    "stator.driver.errors": "RecompileError RecompileLimitError SideEffectError SpecializedError",
    "stator.dropin.switch": "install uninstall",
    "stator.evaluator": "InternalError",
    "stator.front": "compile load load_compiled_function",
}


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - `import stator` loads nothing else

    if name in ("config", "testing"):
        return import_module(f"{__name__}.{name}")  # which binds the name
    for module, names in _HOMES.items():
        if name in names.split():
            # All names at once: a trace that reads one of them sees them all in place.
            from stator.torchlib.loading import loaded  # noqa: PLC0415

            try:
                home = loaded(module)
            except ModuleNotFoundError as error:
                if error.name != "torch":
                    raise
                from stator.torchlib.supported import WORDS  # noqa: PLC0415

                what = f"stator.{name} needs torch {WORDS}, and there is none"
                raise ImportError(f"{what}: `pip install torch`", name="torch") from None
            globals().update({each: getattr(home, each) for each in names.split()})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
