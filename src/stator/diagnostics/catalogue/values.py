"""Python code that depends on the values in a tensor."""

from stator.diagnostics.breaks import Break


class BranchOnValues(Break):
    """`if x.sum() > 0:`."""

    id = "SB0013"
    title = "a branch depends on values that show at run time"
    what = (
        "`if`, `while`, `and`, `not` or `in` needs the values in a tensor, or a number that is "
        "drawn at random (`random.random()`), to say which way it goes."
    )
    why = (
        "While a program is traced, tensors have shapes and dtypes but no values, and nothing is "
        "drawn. The graph holds "
        "one side of a branch. Where that can be checked and undone, it is the side that was taken "
        "first, and the graph stands for the calls that take it again; not so in a long loop. "
        "Other calls run without that graph, under `fullgraph=True` eagerly."
    )
    fix = """\
use torch.where, state what is known with torch._check, or move the branch out of the function
A loop becomes as many rounds as can be needed, with a mask that says when it is over. `where`
computes both sides: neither may fail, and a nan of the one not taken spoils gradients. Without
`fullgraph=True`, the program goes on in two graphs, one per side."""
    example = """\
import torch

def program(x):
    while x.sum() < 1000:
        x = x + 4
    return x

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    done = torch.tensor(False)
    for _ in range(90):  # never more, with inputs of 3 that are not negative
        done = done | ~(x.sum() < 1000)
        x = torch.where(done, x, x + 4)
    return x

def arguments():
    return (torch.ones(3),)
"""


class ValueNeeded(Break):
    """A number or a bool that Python code needs."""

    id = "SB0014"
    title = "Python needs the value of a tensor"
    what = (
        "A number or a bool is read from a tensor (`item()`, `int()`, `torch.equal`) and used "
        "where it must be known: as the end of a `range`, as a key or an index of a list, as the "
        "argument of a C function, in an operation that a graph does not have."
    )
    why = (
        "Numbers that are read from tensors are symbols while tracing. There is arithmetic with "
        "them, they can be sizes and indices of tensors, but their value shows at run time."
    )
    fix = "compute with tensors instead, or read the value before the compiled function"
    example = """\
import torch

def program(x, y):
    same = torch.equal(x, y)
    return x + same

def arguments():
    return torch.ones(3), torch.ones(3)
"""
    fixed = """\
import torch

def program(x, y):
    same = (x == y).all()
    return x + same

def arguments():
    return torch.ones(3), torch.ones(3)
"""


class LengthOfValues(Break):
    """A list whose length depends on values."""

    id = "SB0015"
    title = "a list of a tensor's values is long, or of a length that depends on values"
    what = (
        "A list is made from a tensor that is large, or whose size depends on values (such as "
        "`x[x > 0]`); or an operation makes one that a graph can't describe."
    )
    why = (
        "Each item of a list is an object of its own in the trace: how many there are must be "
        "known, and they must be few."
    )
    fix = """\
keep the values in a tensor, and make the list after the compiled function
A tensor whose size depends on values, such as `x[x > 0]`, can be in a graph, and be returned."""
    example = """\
import torch

def program(x):
    return [value + 1 for value in x.tolist()]

def arguments():
    return (torch.arange(5000),)
"""
    fixed = """\
import torch

def program(x):  # whoever calls it can make the list
    return x + 1

def arguments():
    return (torch.arange(5000),)
"""


class TextOfTensor(Break):
    """A text that mentions a tensor is looked at."""

    id = "SB0016"
    title = "a text that mentions a tensor is looked at"
    what = (
        "A tensor, or a number from one, is formatted, and the text is compared, measured, cut, or "
        "used as a key. To show, join, keep or return it would be fine. Or C code raises an error "
        "that names the type of a number that is open, or of one of several kinds of tensors."
    )
    why = "The text is made at run time, when the values are known."
    fix = "show or return the text as it is; look at shapes and dtypes instead of at the text"
    example = """\
import torch

def program(x):
    label = f"mean {x.mean()}"
    return x, label.upper()

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return x, f"MEAN {x.mean()}"

def arguments():
    return (torch.ones(3),)
"""
