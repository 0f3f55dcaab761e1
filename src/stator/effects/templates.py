"""Recipes for template strings (3.14+), which are C objects that can't change.

Stage: effects.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from stator.bytecode import TABLES
from stator.effects.node import Node, Recipe, raws
from stator.effects.steps import Call

_FIELDS: Final = ("value", "expression", "conversion", "format_spec")


def _recipes() -> dict[type, Recipe]:
    if "BUILD_TEMPLATE" not in TABLES.opmap:
        return {}
    library = import_module("string.templatelib")
    template, interpolation = library.Template, library.Interpolation

    def template_node(value: Any) -> Node:
        """Of its parts, in order; empty strings between them come by themselves."""
        parts = tuple(template.__iter__(value))
        return Node(value, Call(template, raws(parts), "template"))

    def interpolation_node(value: Any) -> Node:
        parts = tuple(interpolation.__dict__[name].__get__(value) for name in _FIELDS)
        return Node(value, Call(interpolation, raws(parts), "interpolation"))

    return {template: template_node, interpolation: interpolation_node}


RECIPES: Final[dict[type, Recipe]] = _recipes()
