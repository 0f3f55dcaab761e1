"""The catalogue of reasons why a function is compiled again: one for each `Cause`.

Stage: diagnostics. The driver finds the cause of a recompile; here is what can be said about it in
general, with a program whose calls show it, and one that is compiled once. The first line of a fix
is the remedy, which messages show. To add one: a member of `Cause`, with its remedy, an entry here
with the next number, and `python -m stator.diagnostics.catalogue recompiles`.
"""

from dataclasses import dataclass
from typing import Final

from stator.diagnostics.recompiles import REMEDIES, Cause


@dataclass(frozen=True)
class RecompileReason:
    """Something that differs between a call and those for which code was compiled."""

    id: str
    """SR and four digits. It stays the same for ever."""
    cause: Cause
    title: str
    what: str
    """What differs."""
    why: str
    """Why what was compiled can't serve the call."""
    more: str
    """What else is to be said about the remedy."""
    example: str
    """`program`, and `calls(program)`, in which it is compiled again for this reason."""
    fixed: str
    """The same work, compiled once."""

    @property
    def fix(self) -> str:
        return f"{REMEDIES[self.cause] or 'look at the guard that failed'}\n{self.more}"


_REASONS: Final = (
    RecompileReason(
        id="SR0001",
        cause=Cause.SIZES,
        title="a tensor has other sizes or strides",
        what="A tensor has other sizes or strides than that for which code was compiled.",
        why=(
            "A graph is made for the sizes of the first call. If a later call differs in nothing "
            "but sizes, these are left open in the next graph, which then serves them all "
            "(docs/dynamic.md). That does not happen with `dynamic=False`, for sizes 0 and 1, for "
            "parameters, and where a transposed tensor comes instead of a contiguous one."
        ),
        more=(
            "One recompile for sizes is normal with `dynamic=None`; `dynamic=True` saves it. "
            "For 0 and 1, `stator.mark_unbacked`; for strides, `x.contiguous()` before the call."
        ),
        example="""\
import torch

options = {"dynamic": False}

def program(x):
    return torch.relu(x) + 1

def calls(program):
    for n in (2, 3, 4):
        program(torch.ones(n))
""",
        fixed="""\
import torch

options = {"dynamic": True}

def program(x):
    return torch.relu(x) + 1

def calls(program):
    for n in (2, 3, 4):
        program(torch.ones(n))
""",
    ),
    RecompileReason(
        id="SR0002",
        cause=Cause.CONDITION,
        title="the program asks something about a size or number, and the answer is another one",
        what=(
            "A size or an int is left open, the program asks something about it (`if n > 10`, "
            "`n % 8`), and the answer is not the one of the trace. Libraries ask, too: `Fraction` "
            "about its numbers."
        ),
        why=(
            "A graph holds one side of a branch: it serves the sizes and numbers for which that "
            "side is taken."
        ),
        more=(
            "`torch.sym_min`, `torch.sym_max`, `max`, `min`, `//` and `%` compute with sizes "
            "without asking; `torch._check` states what always holds. A number that is no size can "
            "be a tensor."
        ),
        example="""\
import torch

options = {"dynamic": True}

def program(x):
    if x.shape[0] > 10:
        return x.sum() / 10
    return x.sum() / x.shape[0]

def calls(program):
    program(torch.ones(4))
    program(torch.ones(40))
""",
        fixed="""\
import torch

options = {"dynamic": True}

def program(x):
    return x.sum() / torch.sym_min(x.shape[0], 10)

def calls(program):
    program(torch.ones(4))
    program(torch.ones(40))
""",
    ),
    RecompileReason(
        id="SR0003",
        cause=Cause.TENSOR,
        title="a tensor is of another kind",
        what=(
            "A tensor has another dtype, device, number of dimensions or class than that for which "
            "code was compiled, or requires a gradient where that one did not."
        ),
        why="All of these decide which kernels run; a graph is for one kind of tensor.",
        more="`x.float()`, `x.to(device)`, `x[None]`, `x.detach()`, where the tensors are made.",
        example="""\
import torch

def program(x):
    return torch.sin(x.float())

def calls(program):
    program(torch.ones(3))
    program(torch.ones(3, dtype=torch.float64))
""",
        fixed="""\
import torch

def program(x):
    return torch.sin(x)

def calls(program):
    program(torch.ones(3))
    program(torch.ones(3, dtype=torch.float64).float())
""",
    ),
    RecompileReason(
        id="SR0004",
        cause=Cause.NUMBER,
        title="a number is another one",
        what="An int or a float has another value: an argument, an attribute, a global variable.",
        why=(
            "Numbers are constants of a graph at first. One that changes is left open in the next "
            "graph, which then serves all values. That does not happen with `dynamic=False`, and "
            "where the program needs to know the number: it decides something by it, uses it as a "
            "key or as the end of a loop. `dynamic=True` leaves int arguments open from the start, "
            "but no floats and no attributes."
        ),
        more=(
            "So one recompile for a number is normal. A learning rate, a temperature, a weight of "
            "a loss can be tensors from the start: `torch.tensor(rate)`, outside of the compiled "
            "function. Mind its dtype: it is a float32, and a Python float has more digits. A "
            "float64 without dimensions has them all, and leaves a float tensor with dimensions "
            "the dtype that it has; but an integer tensor, or one without dimensions, becomes "
            "float64 by it: `.to(dtype)`."
        ),
        example="""\
import torch

options = {"dynamic": False}

def program(weight, gradient, rate):
    return weight - rate * gradient

def calls(program):
    for n in range(3):
        program(torch.ones(3), torch.ones(3), 0.1 * 0.5 ** n)
""",
        fixed="""\
import torch

options = {"dynamic": False}

def program(weight, gradient, rate):
    return weight - rate * gradient

def calls(program):
    for n in range(3):
        program(torch.ones(3), torch.ones(3), torch.tensor(0.1 * 0.5 ** n))
""",
    ),
    RecompileReason(
        id="SR0005",
        cause=Cause.MODE,
        title="a module is in the other mode",
        what="`module.training` is True in one call and False in another.",
        why="Dropout, batch normalization and others compute something else in training.",
        more="A third variant for this reason means that some submodules are in one mode only.",
        example="""\
import torch

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))

def program(x):
    return model(x)

def calls(program):
    program(torch.ones(1, 2))
    model.eval()
    program(torch.ones(1, 2))
""",
        fixed="""\
import torch

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))

def program(x):
    return model(x)

def calls(program):
    model.eval()
    program(torch.ones(1, 2))
    program(torch.ones(1, 2))
""",
    ),
    RecompileReason(
        id="SR0006",
        cause=Cause.VALUE,
        title="a constant is another one",
        what=(
            "A bool, a string, None, a dtype or another constant that the program looks at is "
            "another one than in the trace."
        ),
        why="What the program does may depend on it, so each value has its own graph.",
        more=(
            "A constant that is passed along and not looked at is not guarded. None at first, a "
            "tensor later: begin with zeros. A text that is taken apart: do that outside."
        ),
        example="""\
import torch

def program(x, name):
    return name.upper(), torch.sin(x)

def calls(program):
    for n in range(3):
        program(torch.ones(3), f"step {n}")
""",
        fixed="""\
import torch

def program(x):
    return torch.sin(x)

def calls(program):
    for n in range(3):
        message = f"step {n}".upper(), program(torch.ones(3))
""",
    ),
    RecompileReason(
        id="SR0007",
        cause=Cause.IDENTITY,
        title="there is another object in the same place",
        what="A function, a class, a module or another object is not the one of the trace.",
        why=(
            "Which code runs depends on the object. Functions with the same code, and modules of "
            "one class, share a graph; others can't."
        ),
        more=(
            "Objects that are made in each call (partials, classes, bound methods of new objects) "
            "can be made once, outside. Different functions are different programs: compile each."
        ),
        example="""\
import torch

def program(x, activation):
    return activation(x) * 2

def calls(program):
    for activation in (torch.tanh, torch.sigmoid):
        program(torch.ones(3), activation)
""",
        fixed="""\
import torch

def program(x, slope):
    return torch.tanh(x * slope) * 2

def calls(program):
    for slope in (1.0, 0.5):
        program(torch.ones(3), torch.tensor(slope))
""",
    ),
    RecompileReason(
        id="SR0008",
        cause=Cause.ALIASES,
        title="arguments are the same object, or share memory, and others were not",
        what=(
            "The program compares two arguments by identity, or changes one of them in place, and "
            "whether they are the same, or overlap, is otherwise than in the trace."
        ),
        why="A graph whose inputs are two tensors is wrong if a change of one shows in the other.",
        more="`x.clone()` for one of them; don't use `is` between tensors to save work.",
        example="""\
import torch

def program(x, y):
    return x * 2 if x is y else x + y

def calls(program):
    x = torch.ones(3)
    program(x, torch.ones(3))
    program(x, x)
""",
        fixed="""\
import torch

def program(x, y):
    return x + y

def calls(program):
    x = torch.ones(3)
    program(x, torch.ones(3))
    program(x, x)
""",
    ),
    RecompileReason(
        id="SR0009",
        cause=Cause.CONTENTS,
        title="a container or an object has other contents",
        what=(
            "A list has another length, a dict other keys, or an object has or lacks an attribute, "
            "other than in the trace."
        ),
        why="A loop over a list is unrolled: how many items there are is part of the graph.",
        more=(
            "Stack what grows into a tensor, whose size can be left open; set all attributes in "
            "`__init__`; keep records of steps outside of the compiled function."
        ),
        example="""\
import torch

def program(tensors):
    return sum(tensors)

def calls(program):
    for n in (2, 3):
        program([torch.ones(2)] * n)
""",
        fixed="""\
import torch

options = {"dynamic": True}

def program(stacked):
    return stacked.sum(0)

def calls(program):
    for n in (2, 3):
        program(torch.stack([torch.ones(2)] * n))
""",
    ),
    RecompileReason(
        id="SR0010",
        cause=Cause.TYPE,
        title="an object is of another class",
        what="An argument, an attribute or an item is of another class than in the trace.",
        why="What operations on it mean depends on its class.",
        more="`list(x)`, `float(x)`, where the object is made. Make classes once, not per call.",
        example="""\
import torch

def program(tensors):
    return torch.cat(tensors)

def calls(program):
    program([torch.ones(2), torch.ones(2)])
    program((torch.ones(2), torch.ones(2)))
""",
        fixed="""\
import torch

def program(tensors):
    return torch.cat(tensors)

def calls(program):
    program([torch.ones(2), torch.ones(2)])
    program(list((torch.ones(2), torch.ones(2))))
""",
    ),
    RecompileReason(
        id="SR0011",
        cause=Cause.STATE,
        title="torch is in another state",
        what=(
            "Grad mode, inference mode, autocast, the default dtype or device, or deterministic "
            "mode is otherwise than in the trace."
        ),
        why="What operations compute, and whether they record gradients, depends on it.",
        more="A variant for training and one for `torch.no_grad()` is normal.",
        example="""\
import torch

def program(x):
    return x.sin()

def calls(program):
    program(torch.ones(3))
    with torch.no_grad():
        program(torch.ones(3))
""",
        fixed="""\
import torch

def program(x):
    return x.sin()

def calls(program):
    with torch.no_grad():
        program(torch.ones(3))
        program(torch.ones(3))
""",
    ),
    RecompileReason(
        id="SR0012",
        cause=Cause.OTHER,
        title="something else differs",
        what=(
            "An object differs that is compared by Python code: a `bytearray`, a `Decimal`, the "
            "bound of a `deque`; or where in its memory a tensor begins."
        ),
        why="The program has read it, so that the graph is right for what was there.",
        more="The message names the object, what was expected, and what is there.",
        example="""\
import torch

FLAGS = bytearray(b"\\x01\\x02")

def program(x):
    return x * FLAGS[0]

def calls(program):
    program(torch.ones(3))
    FLAGS[0] = 5
    program(torch.ones(3))
""",
        fixed="""\
import torch

FLAGS = torch.tensor([1, 2])

def program(x):
    return x * FLAGS[0]

def calls(program):
    program(torch.ones(3))
    FLAGS[0] = 5
    program(torch.ones(3))
""",
    ),
)
_BY_CAUSE: Final = {reason.cause: reason for reason in _REASONS}
_BY_ID: Final = {reason.id: reason for reason in _REASONS}


def all_recompile_reasons() -> tuple[RecompileReason, ...]:
    """Every reason, by number."""
    return _REASONS


def reason_of(cause: Cause) -> RecompileReason:
    """What can be said about a cause in general."""
    return _BY_CAUSE[cause]


def recompile_reason(id: str) -> RecompileReason:
    """The reason with a number: `SR0004` or `sr4`."""
    digits = id.strip().upper().removeprefix("SR")
    found = _BY_ID.get(f"SR{digits:0>4}")
    if found is None:
        raise KeyError(
            f"there is no reason {id!r}: {_REASONS[0].id} to {_REASONS[-1].id} are known"
        )
    return found
