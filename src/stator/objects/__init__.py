"""The object model: what CPython would do with an object, found out without doing it.

Stage: below the evaluator's tracer and the world. In: any object, hostile ones included. Out: facts
about it (its type's attributes, its layout, its instance dict) and *plans*: which attribute an
access finds and where, what a call ends up calling.

Nothing in here runs the program's code: no `getattr`, `isinstance`, `==`, `len` on its objects. The
only tools are `type(x)`, `is`, and descriptors of CPython's own types, taken once at import. Plain
evaluation does not need it, CPython carries operations out there; a tracer does, to know what an
operation would read before it happens.
"""

from stator.objects.attributes import AttributePlan, Found, plan_attribute
from stator.objects.callables import CallKind, CallPlan, plan_call
from stator.objects.layout import instance_dict, known_dict, layout_base, slots
from stator.objects.types import TypeSet, is_subtype, lookup, mro, special, type_dict

__all__ = [
    "AttributePlan",
    "CallKind",
    "CallPlan",
    "Found",
    "TypeSet",
    "instance_dict",
    "is_subtype",
    "known_dict",
    "layout_base",
    "lookup",
    "mro",
    "plan_attribute",
    "plan_call",
    "slots",
    "special",
    "type_dict",
]
