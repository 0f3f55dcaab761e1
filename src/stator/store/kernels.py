"""What Inductor has made of a graph for the CPU, without Inductor.

Stage: store. In: the generated Python function that calls kernels in order, and the native modules
the kernels are in. Out: the function's text, checked against a small grammar, the objects it names,
and the modules' bytes. It is made again from these alone: torch's own operators, kernels, and what
makes tensors; neither Inductor nor torch's tracer is loaded.

Native code runs as it is, so it is only loaded from files that this user alone can write, or that
are signed (`files.py`).
"""

import ast
import builtins
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch

from stator.store import things
from stator.store.codec import Reader, Row, Writer
from stator.store.files import native_file
from stator.store.reasons import Damaged, Reason, Stale, Unstorable
from stator.torchlib.generated import TENSOR_DATA, tensor_data_pointer
from stator.torchlib.operators import OpNamespace

_BUILTINS: Final = frozenset({"min", "max", "int", "float", "bool", "len", "tuple", "abs", "range"})
_EXTERN: Final = "extern_kernels"
_NODES: Final = (
    *(ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Delete, ast.Assign),
    *(ast.Expr, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Store, ast.Del, ast.Constant),
    *(ast.Tuple, ast.List, ast.Attribute, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp),
    *(ast.operator, ast.unaryop, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.IfExp),
    *(ast.If, ast.Pass, ast.Starred, ast.AugAssign, ast.Assert),
)
_LIBRARIES: Final = ("aten", "inductor_ops", "_quantized", _EXTERN)
_METHODS: Final = frozenset({"clear", "item", "size", "stride", "default", "out", "copy_"})


def write(writer: Writer, graph: Any) -> Row:
    """A compiled graph of Inductor, as it is to be called: with a list of inputs."""
    call = graph.current_callable
    runner: Any = getattr(call, "__self__", None)
    namespace: Any = getattr(call, "__globals__", None) or getattr(
        getattr(call, "__func__", None), "__globals__", None
    )
    plain = type(runner).__name__ == "Runner" and namespace is not None
    if not plain or graph.constants or graph.torchbind_constants or graph.frozen_param_names:
        raise Unstorable(Reason.KERNELS, "the graph has constants, or is called in another way")
    if runner.partitions or graph.inputs_to_check:
        raise Unstorable(Reason.KERNELS, "the graph is in parts, or inputs are moved before")
    devices = {str(each) for each in graph.device_types}
    if not devices <= {"cpu"}:
        raise Unstorable(Reason.KERNELS, f"kernels for {', '.join(sorted(devices))}")
    text = _function(graph.source_code)
    tree = _parsed(text)
    names = {}
    for name in sorted(_globals(tree)):
        names[name] = _written(writer, tree, name, namespace)
    return [text, names]


def read(reader: Reader, row: Row, folder: Path) -> Callable[[list[Any]], Any]:
    """The function, with its kernels loaded from files in a folder."""
    text, names = row
    tree = _parsed(text)
    if _globals(tree) - names.keys():
        raise Damaged("a name without an object")
    namespace: dict[str, Any] = {"__builtins__": {}}
    for name, what in names.items():
        namespace[name] = _read(reader, what, folder)
    code = compile(tree, "<stator kernels>", "exec", dont_inherit=True)
    exec(code, namespace)
    call: Any = namespace["call"]

    def run(args: list[Any]) -> Any:
        return call(None, args)

    return run


# ---------------------------------------------------------------------- the function


def _function(source: str) -> str:
    """The text of `Runner.call`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == "Runner":
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "call":
                    return ast.unparse(each)
    raise Unstorable(Reason.KERNELS, "the generated code has no Runner")


def _parsed(text: str) -> ast.Module:
    """The tree, if it is in the grammar: one function that calls what it names, in order."""
    tree = ast.parse(text)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise Unstorable(Reason.KERNELS, "not one function")
    function = tree.body[0]
    if function.name != "call" or [each.arg for each in function.args.args] != ["self", "args"]:
        raise Unstorable(Reason.KERNELS, "another function")
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise Unstorable(Reason.KERNELS, f"generated code with {type(node).__name__}")
        if isinstance(node, ast.FunctionDef) and (node is not function or node.decorator_list):
            raise Unstorable(Reason.KERNELS, "generated code with functions")
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            raise Unstorable(Reason.KERNELS, f"generated code with {node.attr}")
    for chain in _chains(tree):
        _check_chain(chain)
    return tree


def _chains(tree: ast.AST) -> Iterator[list[str]]:
    """Dotted names, as far as they begin with a name."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            parts: list[str] = []
            step: ast.AST = node
            while isinstance(step, ast.Attribute):
                parts.append(step.attr)
                step = step.value
            root = step.id if isinstance(step, ast.Name) else ""
            yield [root, *reversed(parts)]


def _check_chain(chain: list[str]) -> None:
    root, first = chain[0], chain[1]
    if root == "torch":
        known = first == "ops" and len(chain) > 3  # operators, and nothing that loads them
        if not known and type(torch.__dict__.get(first)) is not torch.dtype:
            raise Unstorable(Reason.KERNELS, f"generated code with torch.{first}")
    elif root == "math":
        if len(chain) != 2:
            raise Unstorable(Reason.KERNELS, "generated code with parts of math")
    elif root not in _LIBRARIES and not set(chain[1:]) <= _METHODS:
        raise Unstorable(Reason.KERNELS, f"generated code with {'.'.join(chain)}")


def _globals(tree: ast.Module) -> set[str]:
    stored = {"self", "args"}
    loaded: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else stored).add(node.id)
    return loaded - stored


# ---------------------------------------------------------------------- what it names


def _written(writer: Writer, tree: ast.Module, name: str, namespace: dict[str, Any]) -> Row:
    if name not in namespace:
        if name in _BUILTINS:
            return ["builtin", name]
        raise Unstorable(Reason.KERNELS, f"generated code with {name}")
    value = namespace[name]
    if name == _EXTERN:
        used = sorted({chain[1] for chain in _chains(tree) if chain[0] == _EXTERN})
        found = {each: _called(writer, getattr(value, each)) for each in used}
        return ["extern", found]
    if type(value) is OpNamespace:
        return ["library", value.name]
    if value is torch or name == "math":
        return ["value", writer.of(value)]
    if type(value) is types.BuiltinFunctionType:
        file = _native_file(value)
        if file is not None:
            return ["kernel", value.__name__, writer.blob(file.read_bytes())]
        things.check_callable(value)
        return ["value", writer.of(value)]
    if type(value) in (float, int, bool, torch.dtype):
        return ["value", writer.of(value)]
    raise Unstorable(Reason.KERNELS, f"generated code with {name}")


def _called(writer: Writer, value: Any) -> int:
    if type(value) is not types.BuiltinFunctionType:
        raise Unstorable(Reason.KERNELS, f"generated code calls {value}")
    things.check_callable(value)
    return writer.of(value)


def _native_file(function: Any) -> Path | None:
    """The file of the native module of a kernel; None of torch's own functions."""
    module = function.__self__
    file = getattr(module, "__file__", None) if type(module) is types.ModuleType else None
    if file is None or Path(file).is_relative_to(Path(torch.__file__).parent):
        return None
    return Path(file)


def _read(reader: Reader, what: Row, folder: Path) -> Any:
    tag = what[0]
    if tag == "builtin" and what[1] in _BUILTINS:
        return getattr(builtins, what[1])
    if tag == "value":
        return reader.at(what[1])
    if tag == "library":
        found = getattr(torch.ops, what[1])
        if type(found) is not OpNamespace:
            raise Damaged("no operators")
        return found
    if tag == "extern":
        return types.SimpleNamespace(**{k: reader.at(n) for k, n in what[1].items()})
    if tag == "kernel":
        return getattr(_native(reader.blobs[what[2]], folder), what[1])
    raise Damaged("no object of generated code")


def _native(data: bytes, folder: Path) -> types.ModuleType:
    """The module in a native library, which is loaded from a file of its own name."""
    path = native_file(data, folder)
    name = f"stator_{path.stem}.kernel"
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, str(path), loader=loader)
    assert spec is not None
    before = os.environ.get(TENSOR_DATA)
    os.environ[TENSOR_DATA] = str(tensor_data_pointer())
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise Stale(f"native code can't be loaded here: {error}") from None
    finally:
        if before is None:
            del os.environ[TENSOR_DATA]
        else:
            os.environ[TENSOR_DATA] = before
    return module
