"""What can't be done with numpy inside of a graph."""

from stator.diagnostics.breaks import Break


class ArrayFunction(Break):
    """A function of numpy that has no equivalent."""

    id = "SB0036"
    title = "numpy is asked for something that torch can't do in its place"
    what = (
        "The program calls a function, method or operator of numpy on an array that depends on the "
        "inputs, and no operation of torch gives the same; or it needs the array's values."
    )
    why = (
        "Such an array is a tensor of the graph. Functions of numpy that have an exact equivalent "
        "become nodes; the others need the values, which are not known while tracing."
    )
    fix = "use functions of torch on tensors, or call numpy outside of the compiled function"
    example = """\
import numpy as np
import torch

def program(x):
    return torch.from_numpy(np.unique(x.numpy())) + 1

def arguments():
    return (torch.ones(4),)
"""
    fixed = """\
import torch

def program(x):
    return torch.unique(x) + 1

def arguments():
    return (torch.ones(4),)
"""


class ArrayKind(Break):
    """An array that no tensor is like."""

    id = "SB0037"
    title = "a numpy array is of a kind that tensors don't have"
    what = (
        "An array holds texts, dates or objects, has a dtype or strides that tensors don't have, "
        "or is read-only and made into a tensor."
    )
    why = "In the graph, an array is a tensor with the same dtype and layout. There is none."
    fix = """\
convert the array before the call: a.astype(...), np.ascontiguousarray(a), a.copy()
Texts become numbers there: `np.unique(texts, return_inverse=True)`, or a mask such as
`texts == "cat"`; `texts.tolist()` is a list, whose items are constants of the graph."""
    example = """\
import numpy as np
import torch

def program(a):
    return torch.from_numpy(a) + 1

def arguments():
    return (np.arange(3.0)[::-1],)
"""
    fixed = """\
import numpy as np
import torch

def program(a):
    return torch.from_numpy(a) + 1

def arguments():
    return (np.ascontiguousarray(np.arange(3.0)[::-1]),)
"""


class ArrayChanged(Break):
    """Arrays and tensors over the same memory."""

    id = "SB0038"
    title = "a numpy array is changed, or shares memory with something that is"
    what = (
        "The program changes an array in place in a way that a graph can't: at places that depend "
        "on values, where gradients are computed, though C code has views of it, or though another "
        "input has the same memory. Or it changes an array that it has made from constants and "
        "made a tensor of, or that tensor."
    )
    why = (
        "An array and the tensor made from it are one piece of memory. In a graph they are two "
        "values, and the change would be seen in one of them only."
    )
    fix = "change a copy (torch.tensor(a), a.copy()), or do it in torch"
    example = """\
import numpy as np
import torch

def program(x):
    a = np.ones(3)
    y = torch.from_numpy(a)
    a[0] = 5
    return x + y

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import numpy as np
import torch

def program(x):
    a = np.ones(3)
    a[0] = 5
    y = torch.from_numpy(a)
    return x + y

def arguments():
    return (torch.ones(3),)
"""
