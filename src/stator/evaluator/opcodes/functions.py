"""Making functions and classes, and imports."""

import builtins
from typing import Any, Final

from stator._native import _core as core
from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, ArgKind, Decoded, Instruction
from stator.bytecode.arguments import imported, name
from stator.evaluator.registry import Handler, opcode, select

_IMPORT: Final = builtins.__import__


@opcode("MAKE_FUNCTION")
def make_function(f: Frame, flags: int) -> None:
    """3.13+ passes no flags and sets the attributes by SET_FUNCTION_ATTRIBUTE."""
    stack = f.stack
    function = f.ops.make_function(f, stack.pop())
    for flag in (0x08, 0x04, 0x02, 0x01):
        if flags & flag:
            core.set_function_attribute(function, flag, stack.pop())
    stack.append(function)


@opcode("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(f: Frame, flag: int) -> None:
    """3.13+"""
    stack = f.stack
    function = stack.pop()
    core.set_function_attribute(function, flag, stack.pop())
    stack.append(function)


@opcode("LOAD_BUILD_CLASS")
def load_build_class(f: Frame, _: Any) -> None:
    function = f.ops.lookup_name(f, f.builtins, "__build_class__")
    if function is NULL:
        core.raise_user(NameError("__build_class__ not found"))
    f.stack.append(function)


@select("IMPORT_NAME")
def select_import(decoded: Decoded, instruction: Instruction) -> tuple[Handler, Any]:
    """3.15+ says whether the import may be lazy."""
    if TABLES.kinds["IMPORT_NAME"] is ArgKind.NAME_IMPORT:
        module, lazy, eager = imported(decoded, instruction)
        if not eager:
            return import_lazily, (module, lazy)
    return import_name, name(decoded, instruction)


def import_lazily(f: Frame, module_and_lazy: tuple[str, bool]) -> None:
    """3.15+, in modules only: settings of the program decide, too."""
    stack = f.stack
    fromlist = stack.pop()
    level = stack.pop()
    stack.append(core.import_lazily(f, module_and_lazy[0], fromlist, level, module_and_lazy[1]))


def import_name(f: Frame, module: str) -> Any:
    """Modules are imported by CPython; a user's own `__import__` is called like any function."""
    stack = f.stack
    fromlist = stack.pop()
    level = stack.pop()
    function = f.ops.lookup_name(f, f.builtins, "__import__")
    if function is NULL:
        core.raise_user(ImportError("__import__ not found"))
    args = [module, f.globals, f.namespace, fromlist, level]
    if function is _IMPORT:
        result = f.ops.call_native(f, function, *args)
    else:
        result = f.ops.call(f, function, args, None)
        if type(result) is Frame:
            return result
    stack.append(result)
    return None


@opcode("IMPORT_STAR")
def import_star(f: Frame, _: Any) -> None:
    """As import_all_from() in Python/ceval.c: 3.11; an intrinsic later."""
    ops = f.ops
    module = f.stack.pop()
    skip_private = False
    try:
        public = ops.getattr(f, module, "__all__")
    except AttributeError:
        skip_private = True
        try:
            namespace = ops.getattr(f, module, "__dict__")
        except AttributeError:
            core.raise_user(ImportError("from-import-* object has no __dict__ and no __all__"))
        keys = ops.call_native(f, ops.getattr(f, namespace, "keys"))
        public = ops.call_native(f, list, keys)
    position = 0
    while True:
        try:
            attribute = ops.getitem(f, public, position)
        except IndexError:
            return
        position += 1
        if type(attribute) is not str:
            where = "__dict__" if skip_private else "__all__"
            what = "Key" if skip_private else "Item"
            module_name = ops.getattr(f, module, "__name__")
            text = f"{what} in {module_name}.{where} must be str, not {type(attribute).__name__}"
            core.raise_user(TypeError(text))
        if skip_private and attribute[:1] == "_":
            continue
        ops.store_name(f, attribute, ops.getattr(f, module, attribute))
