"""Objects that a trace can't follow, or can't make again."""

from stator.diagnostics.breaks import Break


class OpaqueObject(Break):
    """An object without a stand-in."""

    id = "SB0017"
    title = "an object is used whose contents can't be followed"
    what = (
        "The program reads, changes, iterates over or calls an object that existed before the "
        "call and that is implemented in C: a stream, a queue (`queue.SimpleQueue`), a "
        "`memoryview`, an object of an extension."
    )
    why = (
        "What is read must be guarded, and what is changed must be written back after the graph. "
        "Inside of such an object a trace can see neither. It may be passed along, and compared "
        "by identity."
    )
    fix = """\
use lists, dicts or plain Python objects, or use the object outside of the function
What the function would put into a queue or a stream it can return."""
    example = """\
import torch

WEIGHTS = memoryview(bytes([1, 2, 3]))

def program(x):
    return x * WEIGHTS[0]

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

WEIGHTS = bytes([1, 2, 3])

def program(x):
    return x * WEIGHTS[0]

def arguments():
    return (torch.ones(3),)
"""


class IteratorInUse(Break):
    """An iterator or generator that existed before the call."""

    id = "SB0018"
    title = "an iterator is advanced that existed before the call"
    what = (
        "The program takes items from a generator that was made before the call, or from an "
        "iterator that does not tell what it will give, or over something that the call changes."
    )
    why = (
        "What it gives can't be guarded, and it can't be taken back if the trace is abandoned. To "
        "leave a generator where the trace has come to, its code would have to run a second time."
    )
    fix = "pass a list, or make the iterator inside of the compiled function"
    example = """\
import torch

def program(x, numbers):
    for n in numbers:
        x = x * n
    return x

def arguments():
    return torch.ones(3), (n for n in (1, 2, 3))
"""
    fixed = """\
import torch

def program(x, numbers):
    for n in numbers:
        x = x * n
    return x

def arguments():
    return torch.ones(3), [1, 2, 3]
"""


class Finalizer(Break):
    """An object whose class has `__del__` is made, or a weak reference sees an object die."""

    id = "SB0019"
    title = "an object with a finalizer is made"
    what = (
        "The program makes an object of a class with `__del__`, or lets one go; or it has a weak "
        "reference that tells, or calls a function, when an object dies."
    )
    why = (
        "`__del__` runs when the last reference goes. Objects of a trace live and die at other "
        "moments than those of the program, so it would run too early, too late, or twice."
    )
    fix = "use a context manager instead of __del__, or make the object before the call"
    example = """\
import torch

class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1

def program(x):
    handle = Counted()
    return x + Counted.alive

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

class Counted:
    alive = 0

    def __enter__(self):
        Counted.alive += 1
        return self

    def __exit__(self, *error):
        Counted.alive -= 1

def program(x):
    with Counted():
        return x + Counted.alive

def arguments():
    return (torch.ones(3),)
"""


class KeyOfItsOwn(Break):
    """A key whose hash or equality is Python code."""

    id = "SB0020"
    title = "a dict or set has keys with their own equality"
    what = (
        "A dict or set that existed before the call has keys that define `__eq__` or `__hash__`, "
        "or an `OrderedDict` has objects as keys."
    )
    why = (
        "Looking for such a key runs the program's own code, once for each key that is like it. A "
        "guard, which must say that the same is found again, runs no Python code."
    )
    fix = "use numbers, strings, tuples of these, enum members or plain objects as keys"
    example = """\
import torch

class Key:
    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)

SCALES = {Key("a"): 2.0}

def program(x):
    return x * SCALES[Key("a")]

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

SCALES = {"a": 2.0}

def program(x):
    return x * SCALES["a"]

def arguments():
    return (torch.ones(3),)
"""


class ClassChanged(Break):
    """A class, a function, or the class of an object is changed."""

    id = "SB0021"
    title = "a class or function is changed that existed before the call"
    what = (
        "The program replaces a method or property of a class, deletes an attribute of one, gives "
        "an object another class, or changes the code or defaults of a function."
    )
    why = (
        "This changes what existing code means, for CPython and for the tracer, at once. Changes "
        "of a trace happen after the graph."
    )
    fix = "change classes and functions outside of the compiled function"
    example = """\
import torch

class Model:
    def scale(self):
        return 2.0

def program(x):
    Model.scale = lambda self: 3.0
    return x * Model().scale()

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

class Model:
    factor = 2.0

    def scale(self):
        return self.factor

def program(x):
    Model.factor = 3.0
    return x * Model().scale()

def arguments():
    return (torch.ones(3),)
"""


class OddNamespace(Break):
    """Variables that are not in a plain dict."""

    id = "SB0022"
    title = "a namespace is not a plain dict with strings as keys"
    what = (
        "The globals of a function, or the names that `eval` or `exec` is given, are an object of "
        "another type than dict, or an object or class has attributes whose names are no strings."
    )
    why = "Reading a name could run any code; a trace would have to guard what that code does."
    fix = """\
use a plain dict with strings as keys
Where unknown names have a default, enter it for all names that the code uses; `co_names` tells
them."""
    example = """\
import torch

class Names(dict):
    def __missing__(self, name):
        return 2.0

def program(x):
    return x * eval("two", Names())

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    code = compile("two", "formula", "eval")
    return x * eval(code, dict.fromkeys(code.co_names, 2.0))

def arguments():
    return (torch.ones(3),)
"""


class NotRebuilt(Break):
    """An object can't be made again at the end of a trace."""

    id = "SB0023"
    title = "an object made in the call can't be made again"
    what = (
        "The program returns or keeps an object for which there is no recipe: a generator that has "
        "begun, a class, a lock, an object of a C type that does not tell what it holds."
    )
    why = (
        "Each call must return a new object. After the graph, the objects that the trace has made "
        "are made anew from constants and tensors, without running the program's code."
    )
    fix = (
        "return plain data (lists, dicts, instances), and make such objects outside of the function"
    )
    example = """\
import torch

def program(x):
    return (x * n for n in range(3))

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return [x * n for n in range(3)]

def arguments():
    return (torch.ones(3),)
"""
