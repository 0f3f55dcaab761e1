"""What can't be done with tensors inside of a graph."""

from stator.diagnostics.breaks import Break


class TensorSubclass(Break):
    """Objects that are almost tensors."""

    id = "SB0024"
    title = "a subclass of Tensor, or an object that acts like one, is used in a special way"
    what = (
        "Tensors of subclasses are captured, with their `__torch_function__`; so are tensors with "
        "`__torch_dispatch__` that say what they are made of (`__tensor_flatten__`). Not captured "
        "are: other classes with `__torch_dispatch__`, and those whose code changes or reads what "
        "can't be guarded, such as a list of calls; classes with operators of their own "
        "(`__add__`, `__len__` …); printing or copying such tensors, changing their "
        "`requires_grad`, `data` or sizes, reading their `grad`; and an operator between a tensor "
        "and an object that torch might take for one, or for a number (`__torch_function__`, "
        "`__array__`, `__float__` …)."
    )
    why = (
        "The graph holds operations of torch on plain tensors. They get the class back behind "
        "it, and what is done to more than their values would be lost. `__torch_dispatch__` is "
        "called by torch while a graph is made, and not again when it runs: what it does besides "
        "would happen at the wrong time."
    )
    fix = "use `__torch_function__`, or a plain tensor, such as x.as_subclass(torch.Tensor)"
    example = """\
import torch

class Named(torch.Tensor):
    def __add__(self, other):
        made = super().__add__(other)
        made.name_of_it = "sum"
        return made

def program(x):
    y = x + 1
    return y * 2, y.name_of_it

def arguments():
    return (torch.ones(3).as_subclass(Named),)
"""
    fixed = """\
import torch

class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs)
        if func is torch.Tensor.add:
            made.name_of_it = "sum"
        return made

def program(x):
    y = x + 1
    return y * 2, y.name_of_it

def arguments():
    return (torch.ones(3).as_subclass(Named),)
"""


class UnusualTensor(Break):
    """Sparse and other inputs."""

    id = "SB0025"
    title = "a tensor of an unusual kind is an input"
    what = (
        "An input is sparse or quantized, or belongs to a surrounding vmap or grad; or the text of "
        "a sparse tensor is made."
    )
    why = "No fake tensor can stand for it, so that the result of operations can't be told."
    fix = "make it a dense tensor before the call, or use it outside of the compiled function"
    example = """\
import torch

def program(x):
    return x * 2

def arguments():
    return (torch.eye(3).to_sparse(),)
"""
    fixed = """\
import torch

def program(x):
    return x * 2

def arguments():
    return (torch.eye(3).to_sparse().to_dense(),)
"""


class TensorDetail(Break):
    """Attributes that say how a tensor came about."""

    id = "SB0026"
    title = "an attribute of a tensor is read or set that a graph does not have"
    what = (
        "The program reads an attribute such as `_version` or `_base`, or sets one that is part of "
        "how torch implements the tensor."
    )
    why = "It belongs to the tensors of a run. Those of a trace, and of a backend, have others."
    fix = "compute what is needed from shapes, strides and values"
    example = """\
import torch

def program(x):
    y = x.view(-1)
    return y * 2, y._base is x

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    y = x.view(-1)
    return y * 2, y.shape == x.shape

def arguments():
    return (torch.ones(3),)
"""


class TensorMemory(Break):
    """Addresses and storages."""

    id = "SB0027"
    title = "the memory of a tensor is used directly"
    what = (
        "The program asks for the address or the storage of a tensor (`data_ptr()`, `storage()`, "
        "`untyped_storage()`), pins it, or shares it with a buffer or another library (DLPack)."
    )
    why = (
        "Tensors of a trace have no memory, and a compiled graph decides itself where results lie."
    )
    fix = """\
compute it from sizes and identity, or use the memory outside of the compiled function
What a tensor takes up is `x.numel() * x.element_size()`, unless it is a view of a larger one."""
    example = """\
import torch

def program(x, y):
    same = x.data_ptr() == y.data_ptr()
    return x + y, same

def arguments():
    return torch.ones(3), torch.ones(3)
"""
    fixed = """\
import torch

def program(x, y):
    return x + y, x is y

def arguments():
    return torch.ones(3), torch.ones(3)
"""


class TensorStateChanged(Break):
    """`requires_grad`, `data`, sizes in place: more than a graph can do."""

    id = "SB0028"
    title = "a tensor's data, size or requires_grad is changed in a way that a graph can't hold"
    what = (
        "The program sets `data`, `requires_grad` or the size of a tensor after it was used, or "
        "several times, or of one that others share memory with, or makes parameters that do."
    )
    why = (
        "A graph computes with the tensors as they come in. Such a change can be made before it or "
        "after it, so the operations must be all on one side of the change."
    )
    fix = "make the change before the tensor is used, or outside of the compiled function"
    example = """\
import torch

def program(weight):
    y = weight * 2
    weight.data = torch.zeros(3)
    return y

def arguments():
    return (torch.nn.Parameter(torch.ones(3)),)
"""
    fixed = """\
import torch

def program(weight):
    y = weight * 2
    with torch.no_grad():
        weight.zero_()
    return y.detach()

def arguments():
    return (torch.nn.Parameter(torch.ones(3)),)
"""


class SharedMemory(Break):
    """Inputs that overlap."""

    id = "SB0029"
    title = "a tensor is changed or copied that shares its memory with another"
    what = (
        "An input is changed in place, and another input is part of the same memory: one of them "
        "has gaps between its elements, requires grad, is of another dtype, or is no view of the "
        "same tensor. Or tensors that share memory are copied deeply."
    )
    why = (
        "The change shows in both. A graph gets such inputs as one piece of memory, of which it "
        "makes the views itself; that is only done where they are views of one tensor, without "
        "gaps."
    )
    fix = "give the function inputs that don't overlap, such as clones, or don't change them"
    example = """\
import torch

def program(x, y):
    x.add_(1)
    return y * 2

def arguments():
    both = torch.ones(3, 4)
    return both[:, :3], both[:, 1:]
"""
    fixed = """\
import torch

def program(x, y):
    x.add_(1)
    return y * 2

def arguments():
    both = torch.ones(4)
    return both[:3].clone(), both[1:].clone()
"""


class AutogradInside(Break):
    """`backward()` and hooks."""

    id = "SB0030"
    title = "gradients are computed, or the autograd graph is used, inside of the function"
    what = (
        "The program calls `backward()` or `torch.autograd.grad`, and more than the graph takes "
        "part: a tensor that was computed before the call, or one with hooks. Or the gradients "
        "are sparse, share memory, or can be differentiated in turn. Or the program registers a "
        "hook, returns a tensor whose gradient is kept (`retain_grad()`), or looks at `grad_fn`."
    )
    why = (
        "A captured graph holds gradients of what it computes itself. Whatever is behind its "
        "inputs is not part of it. The autograd graph of its results is made when it runs, and may "
        "be another one than eager's."
    )
    fix = """\
compute in the compiled function what it differentiates, or call backward() outside of it
For the gradient of an intermediate result, pass in zeros that require one and add them to it:
theirs is the same. To return it and call `retain_grad()` outside is no way: with a backend that
compiles gradients, none of a graph's results is computed from another, and `grad` stays None."""
    example = """\
import torch

def program(weight, x):
    hidden = torch.tanh(x @ weight)
    hidden.retain_grad()
    return hidden.sum(), hidden  # whoever calls it calls backward(), and reads hidden.grad

def arguments():
    return torch.ones(3, 2, requires_grad=True), torch.ones(4, 3)
"""
    fixed = """\
import torch

def program(weight, x, probe):  # whoever calls it calls backward(), and reads probe.grad
    hidden = torch.tanh(x @ weight) + probe
    return hidden.sum()

def arguments():
    probe = torch.zeros(4, 2, requires_grad=True)
    return torch.ones(3, 2, requires_grad=True), torch.ones(4, 3), probe
"""


class NoGraphOperation(Break):
    """A function of torch that can't be one node."""

    id = "SB0031"
    title = "a function of torch can't be in the graph"
    what = (
        "The program calls a function of torch that no rule of stator covers, that can't be "
        "carried out on tensors without values, or that calls Python for each element (`apply_`, "
        "`map_`)."
    )
    why = (
        "A node of a graph is an operation whose result can be described from the shapes and "
        "dtypes of its arguments, and that backends know."
    )
    fix = """\
use another function of torch that does the same, or call it outside of the compiled function
What Python does for each element, operations on whole tensors do: `max(a, b)` is
`torch.where(b > a, b, a)`, also for nan, where `torch.maximum` is not. A function of your own can
be a custom operator (`torch.library.custom_op`) with a fake kernel."""
    example = """\
import torch

def program(x):
    return x.clone().apply_(lambda value: value + 1)

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return x.clone().add_(1)

def arguments():
    return (torch.ones(3),)
"""
