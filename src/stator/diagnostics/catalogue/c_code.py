"""C code that can't run while a program is traced."""

from stator.diagnostics.breaks import Break


class UnknownCFunction(Break):
    """No contract says what it does."""

    id = "SB0005"
    title = "C code is called of which nothing is known"
    what = (
        "The program calls a function or class that is written in C, and is in no table of stator."
    )
    why = (
        "C code can read, change and do anything without being seen. It runs while tracing only if "
        "a contract says what it looks at and what it changes (docs/contracts.md); otherwise the "
        "trace could miss a side effect, or keep a result that is different in the next call."
    )
    fix = """\
call it outside of the compiled function, and pass the result in
Or wrap the call in a function with `stator.assume_constant_result`, if it always answers the same;
or use Python or torch code that does the same."""
    example = """\
import torch
from xml.etree import ElementTree

def program(x):
    return x * float(ElementTree.fromstring("<scale>2</scale>").text)

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch
from xml.etree import ElementTree

SCALE = float(ElementTree.fromstring("<scale>2</scale>").text)

def program(x):
    return x * SCALE

def arguments():
    return (torch.ones(3),)
"""


class InputOutput(Break):
    """Files, sockets, the operating system."""

    id = "SB0006"
    title = "files, devices or the operating system are used"
    what = (
        "The program opens, reads or writes a file or a socket, makes a folder, asks for input, "
        "starts a process, loads or saves tensors. What it only asks with constants (whether there "
        "is a file, what a small one holds, the working folder) is captured, and asked again in "
        "later calls, unless the answer was found to change."
    )
    why = (
        "It must happen in every call, and only then. Nothing happens while a program is traced, "
        "and a graph holds nothing but tensor operations."
    )
    fix = "read and write before or after the compiled function"
    example = """\
import os
import torch

def program(x):
    with open(os.devnull) as file:
        return x + len(file.read())

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import os
import torch

def program(x, text):
    return x + len(text)

def arguments():
    with open(os.devnull) as file:
        return torch.ones(3), file.read()
"""


class Clock(Break):
    """The time of day, or waiting."""

    id = "SB0007"
    title = "a clock is read"
    what = "The program asks for the time, or sleeps."
    why = "The time of the trace is not the time of a later call; a graph can't ask for it."
    fix = "measure around the compiled function, or pass the time in as a tensor"
    example = """\
import time
import torch

def program(x):
    began = time.perf_counter()
    y = x.sin()
    return y, time.perf_counter() - began >= 0

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):  # whoever calls it reads the clock
    return x.sin()

def arguments():
    return (torch.ones(3),)
"""


class Threads(Break):
    """Threads and processes."""

    id = "SB0008"
    title = "threads, or what connects them, are used"
    what = (
        "The program starts, joins or asks about threads or processes, or makes a queue or a pool "
        "of them."
    )
    why = (
        "A thread begins when it is started, not when the program is traced, and what it does "
        "meanwhile is not part of the sequence of operations that a graph is."
    )
    fix = """\
use threads outside of the compiled function
Operations of torch use all cores by themselves. In place of a queue that only the function uses,
`collections.deque`."""
    example = """\
import threading
import torch

def program(x):
    found = []
    worker = threading.Thread(target=lambda: found.append(x.sin()))
    worker.start()
    y = x.cos()
    worker.join()
    return y + found[0]

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return x.cos() + x.sin()

def arguments():
    return (torch.ones(3),)
"""


class LockHeld(Break):
    """A lock, other than around a block."""

    id = "SB0009"
    title = "a lock is used in a way that a trace can't follow"
    what = (
        "The program takes a lock and does not release it, or the other way round, asks whether it "
        "is held, or takes one that it holds already. A `queue.Queue` does so in its own code."
    )
    why = (
        "Locks are not taken while tracing: what happens in a `with lock:` block is applied in one "
        "go after the graph. That is right only for a lock that is taken and released in the call."
    )
    fix = "take the lock with `with lock:`, and release it in the same function"
    example = """\
import threading
import torch

LOCK = threading.RLock()

def program(x):
    LOCK.acquire()
    return x + 1

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import threading
import torch

LOCK = threading.RLock()

def program(x):
    with LOCK:
        return x + 1

def arguments():
    return (torch.ones(3),)
"""


class InterpreterState(Break):
    """The garbage collector, reference counts, the debugger …"""

    id = "SB0010"
    title = "state of the interpreter is asked for or changed"
    what = (
        "The program steers the garbage collector, counts references, changes settings of the "
        "interpreter, enters a debugger, ends the process, asks for the address (`id`) of a new "
        "object that it keeps, or lists the names of something that it has changed. With "
        "`fullgraph`, `gc.collect()` is captured where nothing of the call could be garbage."
    )
    why = (
        "While a program is traced, the state of the interpreter is that of the tracer: other "
        "objects are alive, other frames are on the stack. What it tells is not what the program "
        "would see, and what is changed would hit the tracer."
    )
    fix = "do it outside of the compiled function"
    example = """\
import gc
import torch

def program(x):
    y = x.sin()
    gc.freeze()
    return y

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):  # whoever calls it can do so afterwards
    return x.sin()

def arguments():
    return (torch.ones(3),)
"""


class HiddenState(Break):
    """Caches, contexts, codecs: state that can't be seen."""

    id = "SB0011"
    title = "state is used that can't be seen or undone"
    what = (
        "The program inspects or clears a cache (`functools.lru_cache`), changes or keeps a new "
        "object that it got from one, leaves another decimal context running or a new context "
        "variable set, or calls a codec or compressor."
    )
    why = (
        "C code keeps this state where a trace can't read, guard or restore it. So a later call "
        "could see another state, and an abandoned trace could leave a changed one behind."
    )
    fix = """\
use it outside of the compiled function, or put things back before it returns
A function with a cache may be called: if it answers with lists, dicts or objects, call it once
before."""
    example = """\
import functools
import torch

@functools.lru_cache
def scale(n):
    return n * 2

def program(x):
    y = x * scale(3)
    scale.cache_clear()
    return y

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import functools
import torch

@functools.lru_cache
def scale(n):
    return n * 2

def program(x):  # whoever calls it can clear the cache
    return x * scale(3)

def arguments():
    return (torch.ones(3),)
"""


class Import(Break):
    """A module that is not loaded yet."""

    id = "SB0012"
    title = "a module is imported"
    what = (
        "The program imports a module that is not loaded yet. (One of Python's own library is "
        "loaded before the call is traced again.)"
    )
    why = "Loading it runs its code and changes `sys.modules`; nothing may happen while tracing."
    fix = "import it at the top of the file, before the compiled function"
    module = ""
    """Which one."""
    example = """\
import sys
import torch

def program(x):
    import torch.utils.show_pickle
    return x * len(torch.utils.show_pickle.__all__)

def arguments():
    sys.modules.pop("torch.utils.show_pickle", None)  # as in a new process
    return (torch.ones(3),)
"""
    fixed = """\
import torch
import torch.utils.show_pickle

def program(x):
    return x * len(torch.utils.show_pickle.__all__)

def arguments():
    return (torch.ones(3),)
"""
