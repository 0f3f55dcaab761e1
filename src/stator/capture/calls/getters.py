"""`operator.attrgetter`, `itemgetter`, `methodcaller`: what they read is seen by the tracer.

In: a getter that is called. Out: a twin in Python, which is evaluated in its place, so that each
attribute and item is read as the program's own instructions would. C code would read the attributes
of an attribute (`attrgetter("a.b")`) without asking.
"""

import operator
from typing import TYPE_CHECKING, Any, Final

from stator.capture.calls.python_calls import ours
from stator.guards import Fixed
from stator.objects import TypeSet
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

GETTERS: Final = TypeSet(operator.attrgetter, operator.itemgetter, operator.methodcaller)


def twin(calls: "Calls", getter: Any) -> tuple[Any, Any]:
    """The function to be called instead, and what it is given before the arguments."""
    make, given = getter.__reduce__()
    keywords: dict[str, Any] = {}
    if type(getter) is operator.methodcaller and make is not operator.methodcaller:
        given, keywords = (*make.args, *given), dict(make.keywords)  # a partial of it
    if calls.world.is_world(getter):
        given = tuple(_wrapped(calls, each) for each in given)
        keywords = {name: _wrapped(calls, each) for name, each in keywords.items()}
    if type(getter) is operator.attrgetter:
        function: Any = _attributes
        given = tuple(tuple(name.split(".")) for name in given)
    elif type(getter) is operator.itemgetter:
        function = _items
    else:
        function = _method
        given = (given[0], given[1:], keywords)
    ours(calls, function)
    return function, given


def _wrapped(calls: "Calls", value: Any) -> Any:
    """What a getter of the world holds: its identity is guarded, and it never changes."""
    return value if CONSTANTS.holds(type(value)) else calls.world.wrap(value, Fixed(value))


def _attributes(names: tuple[tuple[str, ...], ...], obj: Any) -> Any:
    found = []
    for parts in names:
        value = obj
        for part in parts:
            value = getattr(value, part)
        found.append(value)
    return found[0] if len(names) == 1 else tuple(found)


def _items(keys: tuple[Any, ...], obj: Any) -> Any:
    if len(keys) == 1:
        return obj[keys[0]]
    return tuple([obj[key] for key in keys])


def _method(call: tuple[str, tuple[Any, ...], dict[str, Any]], obj: Any) -> Any:
    name, args, keywords = call
    return getattr(obj, name)(*args, **keywords)
