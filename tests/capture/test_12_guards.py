# mypy: ignore-errors
"""Guards: each kind of change after the first compilation, and changes that must not matter."""

import collections
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .harness import Change, Program, Programs, check, given, module, t

programs = Programs()


class Box:
    level = 1

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def scaled(self, x):
        return x * 2


def box(**attributes):
    return lambda: (t(3), Box(**attributes))


@programs(lambda: (t(6)[:3],), changes={"offset": lambda: (t(6)[3:],)}, dead=True)
def where_a_tensor_begins(x):
    return x + x.storage_offset(), x[1:].storage_offset()


# --- constants and types of arguments


@programs(
    lambda: (t(3), 1),
    changes={
        "value": lambda: (t(3), 2),
        "float": lambda: (t(3), 1.0),
        "bool": lambda: (t(3), True),
        "negative": lambda: (t(3), -1),
    },
)
def number(x, n):
    return x * n, n


@programs(
    lambda: (t(3), 0.0),
    changes={"sign": lambda: (t(3), -0.0), "nan": lambda: (t(3), float("nan"))},
)
def zeros_of_both_signs(x, n):
    return x + 1, n, str(n)


@programs(lambda: (t(3), float("nan")), changes={"number": lambda: (t(3), 1.0)})
def not_a_number(x, n):
    return x * 2 if n != n else x * n


@programs(lambda: (t(3), "relu"), changes={"value": lambda: (t(3), "tanh")})
def string(x, name):
    return getattr(torch, name)(x)


@programs(
    lambda: (t(3), None), changes={"number": lambda: (t(3), 1), "tensor": lambda: (t(3), t(3))}
)
def none(x, y):
    return x if y is None else x + y


@programs(
    lambda: (t(3), (1, 2)), changes={"item": lambda: (t(3), (1, 3)), "type": lambda: (t(3), [1, 2])}
)
def tuple_or_list(x, pair):
    return x * pair[0] + pair[1], isinstance(pair, tuple)


@programs(
    lambda: (t(3), 5), keeps={"unread number": lambda: (t(3), 6), "type": lambda: (t(3), "a")}
)
def unread_argument(x, n):
    return x + 1


# It need not be guarded; that it is costs a recompile (docs/capture.md, known limits).
@programs(lambda: (t(3), 5), changes={"other number": lambda: (t(3), 6)})
def argument_passed_through(x, n):
    return x + 1, n


class Small(int):
    pass


@programs(lambda: (t(3), Small(2)), changes={"class": lambda: (t(3), 2)})
def subclass_of_int(x, n):
    return x * n, type(n).__name__


# --- containers


@programs(
    lambda: ([t(3), t(3)],),
    changes={
        "longer": lambda: ([t(3)] * 3,),
        "empty": lambda: ([],),
        "distinct": lambda: ([t(3), t(3), t(3)],),
    },
)
def length_of_a_list(items):
    total = 0
    for item in items:
        total = total + item
    return total


@programs(lambda: (t(3), [1, [2, 3]]), changes={"deep item": lambda: (t(3), [1, [2, 4]])})
def nested_list(x, items):
    return x * items[1][1]


@programs(lambda: (t(3), [1, 2, 3]), keeps={"item that is not read": lambda: (t(3), [1, 9, 3])})
def one_item_of_a_list(x, items):
    return x * items[0] + items[-1]


@programs(
    lambda: ({"a": t(3), "b": t(3)},),
    changes={
        "keys": lambda: ({"a": t(3), "c": t(3)},),
        "order": lambda: ({"b": t(3), "a": t(3)},),
        "more": lambda: ({"a": t(3), "b": t(3), "c": t(3)},),
        "type": lambda: (collections.OrderedDict(a=t(3), b=t(3)),),
    },
)
def keys_of_a_dict(d):
    total = 0
    for key, value in d.items():
        total = total * len(key) - value
    return total, type(d).__name__


@programs(lambda: (t(3), {"a": 1}), changes={"present": lambda: (t(3), {"a": 1, "b": 5})})
def absent_key(x, d):
    return x * d.get("b", 2), "b" in d


@programs(lambda: (t(3), {1, 2}), changes={"member": lambda: (t(3), {1, 3})})
def members_of_a_set(x, s):
    return x * len(s) + (2 in s)


@programs(
    lambda: (t(3), collections.deque([1])),
    changes={"longer": lambda: (t(3), collections.deque([1, 2]))},
)
def deque(x, d):
    return x * d[-1]


@programs(
    lambda: given(t(3), a=1),
    changes={"names": lambda: given(t(3), b=1), "more": lambda: given(t(3), a=1, b=2)},
)
def keyword_arguments(x, **kwargs):
    return x * sum(kwargs.values()), list(kwargs)


@programs(lambda: (t(3), 1), changes={"count": lambda: (t(3), 1, 2)})
def positional_arguments(x, *rest):
    return x + len(rest), rest


# --- tensors


@programs(
    lambda: (t(4, 3),),
    changes={
        "size": lambda: (t(5, 3),),
        "rank": lambda: (t(4, 3, 2),),
        "dtype": lambda: (t(4, 3, dtype=torch.float64),),
        "strides": lambda: (t(3, 4).t(),),
        "requires_grad": lambda: (t(4, 3, grad=True),),
        "device": lambda: (torch.empty(4, 3, device="meta"),),
    },
)
def metadata(x):
    return x * 2, x.shape, x.dtype, x.stride(), x.requires_grad, x.device.type


@programs(
    lambda: (t(4),),
    changes={
        "empty": lambda: (t(0),),
        "one": lambda: (t(1),),
        "offset": lambda: (t(5)[1:],),
        "expanded": lambda: (t(1).expand(4),),
    },
)
def sizes_that_broadcast(x):
    return x + torch.ones(4) if x.numel() == 4 else x + 1


@programs(
    lambda: (t(4, dtype=torch.complex64),),
    changes={"conjugate": lambda: (t(4, dtype=torch.complex64).conj(),)},
)
def conjugate_bit(x):
    return x * 2, x.is_conj()


@programs(
    lambda: (t(3),),
    changes={
        "parameter": lambda: (nn.Parameter(t(3)),),
        "buffer": lambda: (nn.Buffer(t(3)),),
    },
)
def class_of_a_tensor(x):
    return type(x).__name__, x + 1


@programs(lambda: (t(3), t(3)), changes={"same": lambda: (t(3),) * 2})
def same_tensor_or_not(a, b):
    a.add_(1)
    return a * b, a is b


@programs(lambda: (t(3), t(3)), changes={"overlap": lambda: overlapping()}, free=True)
def overlapping_memory(a, b):
    a.mul_(2)
    return b + 1


def overlapping():
    base = t(4)
    return base[:3], base[1:]


@programs(
    lambda: (t(3), 2.0), changes={"number": lambda: (t(3), t(3)), "zero-dim": lambda: (t(3), t())}
)
def tensor_or_number(x, y):
    return x * y


@programs(
    lambda: (tagged(1),), changes={"attribute": lambda: (tagged(2),), "absent": lambda: (t(3),)}
)
def attribute_of_a_tensor(x):
    return x * getattr(x, "tag", 5)


def tagged(n):
    x = t(3)
    x.tag = n
    return x


# --- state of torch


@programs(
    lambda: (t(3, grad=True),),
    changes={
        "grad mode": Change(under=torch.no_grad),
        "inference mode": Change(under=torch.inference_mode),
    },
)
def grad_mode(x):
    return x * 2, torch.is_grad_enabled()


@programs(
    lambda: (t(4, 4), t(4, 4)),
    changes={
        "autocast": Change(under=lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
        "other dtype": Change(under=lambda: torch.autocast("cpu", dtype=torch.float16)),
    },
)
def autocast(x, y):
    return x @ y


class default_dtype:
    def __enter__(self):
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *error):
        torch.set_default_dtype(torch.float32)


@programs(
    lambda: (t(3, dtype=torch.float32),), changes={"default dtype": Change(under=default_dtype)}
)
def new_tensors_have_the_default_dtype(x):
    return torch.ones(3), torch.tensor([1.0]), x + 1


@programs(
    lambda: (t(3),),
    dead=True,
    changes={"default device": Change(under=lambda: torch.device("meta"))},
)
def new_tensors_are_on_the_default_device(x):
    return torch.ones(3), torch.zeros(2).device.type


class deterministic:
    def __enter__(self):
        torch.use_deterministic_algorithms(True)

    def __exit__(self, *error):
        torch.use_deterministic_algorithms(False)


@programs(lambda: (t(3),), changes={"deterministic": Change(under=deterministic)})
def deterministic_flag(x):
    return x * 2 if torch.are_deterministic_algorithms_enabled() else x * 3


# --- globals, closures, functions, classes

FACTOR = 2
TABLE = {"n": 1, "deep": [1, 2]}
HELPERS = types.ModuleType("helpers_of_guard_tests")


def double(x):
    return x * 2


def triple(x):
    return x * 3


step = double


def reset():
    global FACTOR, step
    FACTOR, step = 2, double
    TABLE.clear()
    TABLE.update(n=1, deep=[1, 2])
    HELPERS.__dict__.update(n=1, f=double)
    Box.level = 1
    Box.scaled = original_scaled
    for name in ("added", "__getattr__", "__bool__"):
        if name in vars(Box):
            delattr(Box, name)
    double.__defaults__ = None
    with_default.__defaults__ = (1,)
    with_default.__code__ = default_code


def after(change, make=lambda: (t(3),)):
    """A change of the world before the arguments are made; `reset` undoes it."""

    def made():
        change()
        return make()

    return made


def put(**values):
    return after(lambda: globals().update(values))


@programs(
    lambda: (t(3),),
    reset=reset,
    changes={"value": put(FACTOR=3), "tensor": put(FACTOR=torch.ones(3))},
)
def global_rebound(x):
    return x * FACTOR


@programs(
    lambda: (t(3),),
    reset=reset,
    changes={"function": put(step=triple), "C function": put(step=torch.sin)},
)
def global_function_rebound(x):
    return step(x)


@programs(
    lambda: (t(3),),
    reset=reset,
    changes={
        "item": after(lambda: TABLE.update(n=5)),
        "deep item": after(lambda: TABLE["deep"].append(7)),
    },
)
def global_dict_changed(x):
    return x * TABLE["n"] + sum(TABLE["deep"])


@programs(lambda: (t(3),), reset=reset, keeps={"unread item": after(lambda: TABLE.update(other=5))})
def global_dict_with_unread_items(x):
    return x * TABLE["n"]


@programs(
    lambda: (t(3),),
    reset=reset,
    changes={
        "number": after(lambda: setattr(HELPERS, "n", 4)),
        "function": after(lambda: setattr(HELPERS, "f", triple)),
    },
)
def module_attribute_changed(x):
    return HELPERS.f(x) + HELPERS.n


def shadow_builtin():
    globals()["len"] = lambda items: 42


def unshadow():
    globals().pop("len", None)


@programs(
    lambda: (t(3), [1]),
    reset=unshadow,
    changes={"builtin": after(shadow_builtin, lambda: (t(3), [1]))},
)
def builtin_shadowed_by_a_global(x, items):
    return x * len(items)


def with_default(x, n=1):
    return x * n


default_code = with_default.__code__


@programs(
    lambda: (t(3),),
    reset=reset,
    changes={
        "default": after(lambda: setattr(with_default, "__defaults__", (5,))),
        "code": after(lambda: setattr(with_default, "__code__", (lambda x, n=1: x - n).__code__)),
    },
)
def function_changed(x):
    return with_default(x)


def adder(n):
    def add(x):
        return x + n

    return add


@programs(
    lambda: (t(3), adder(1)),
    changes={"cell": lambda: (t(3), adder(2)), "code": lambda: (t(3), double)},
)
def closure_of_an_argument(x, f):
    return f(x)


cell_value = adder(1)


def set_cell(n):
    cell_value.__closure__[0].cell_contents = n


programs.add(
    "own_closure_cell",
    cell_value,
    lambda: (t(3),),
    reset=lambda: set_cell(1),
    changes={
        "contents": after(lambda: set_cell(5)),
        "tensor": after(lambda: set_cell(torch.ones(3))),
    },
)

original_scaled = Box.scaled


@programs(
    lambda: (t(3), Box()),
    reset=reset,
    changes={
        "method": after(
            lambda: setattr(Box, "scaled", lambda self, x: x * 7), lambda: (t(3), Box())
        ),
        "on the instance": lambda: (t(3), Box(scaled=triple)),
    },
)
def method_replaced(x, b):
    return b.scaled(x)


@programs(
    lambda: (t(3), Box()),
    reset=reset,
    changes={
        "class attribute": after(lambda: setattr(Box, "level", 5), lambda: (t(3), Box())),
        "instance attribute": lambda: (t(3), Box(level=9)),
    },
)
def class_attribute_changed(x, b):
    return x * b.level


@programs(
    lambda: (t(3), Box()),
    reset=reset,
    changes={
        "on the class": after(lambda: setattr(Box, "added", 5), lambda: (t(3), Box())),
        "on the instance": lambda: (t(3), Box(added=2)),
        "by __getattr__": after(
            lambda: setattr(Box, "__getattr__", lambda s, n: 8), lambda: (t(3), Box())
        ),
    },
)
def attribute_added(x, b):
    return x * getattr(b, "added", 1), hasattr(b, "added")


@programs(
    lambda: (t(3), Box()),
    reset=reset,
    changes={
        "__bool__": after(lambda: setattr(Box, "__bool__", lambda s: False), lambda: (t(3), Box()))
    },
)
def dunder_added_to_a_class(x, b):
    return x + 1 if b else x - 1


@programs(
    box(a=1, b=2),
    changes={"attribute": box(a=3, b=2)},
    keeps={"unread attribute": box(a=1, b=5, c=6)},
)
def attributes_of_an_instance(x, b):
    return x * b.a


@programs(box(a=1), changes={"deleted": box(), "tensor": lambda: (t(3), Box(a=t(3)))})
def attribute_deleted(x, b):
    return x * b.a if "a" in vars(b) else x


class Other:
    level = 3
    scaled = triple

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@programs(box(a=1), changes={"class": lambda: (t(3), Other(a=1))})
def class_of_an_instance(x, b):
    return x * b.a * b.level


@programs(lambda: (t(3), Box), changes={"class": lambda: (t(3), Other)})
def class_argument(x, cls):
    return x * cls.level, cls().__class__.__name__


@programs(
    lambda: (t(3), double),
    changes={"function": lambda: (t(3), triple), "builtin": lambda: (t(3), torch.neg)},
)
def function_argument(x, f):
    return f(x)


@programs(
    lambda: (t(3), Box().scaled),
    changes={"method": lambda: (t(3), types.MethodType(lambda s, x: x * 5, Box()))},
)
def bound_method_argument(x, f):
    return f(x)


# --- modules


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 3)
        self.register_buffer("shift", torch.ones(3))
        self.scale = 2

    def forward(self, x):
        return F.dropout(self.proj(x), 0.5, self.training) * self.scale + self.shift


def net(change=lambda m: None, x=lambda: t(2, 3)):
    def make():
        m = module(Net)
        change(m)
        return m, x()

    return make


def doubled_data(m):
    m.proj.weight.data = m.proj.weight.data * 2


def double_all(m):
    m.double()


NETS = {
    "parameter values": lambda m: m.proj.weight.data.mul_(2),
    "parameter data": doubled_data,
    "parameter object": lambda m: setattr(m.proj, "weight", nn.Parameter(torch.ones(3, 3))),
    "buffer": lambda m: setattr(m, "shift", torch.zeros(3)),
}


@programs(
    net(),
    keeps={name: net(change) for name, change in NETS.items()},
    changes={
        "training": net(lambda m: m.eval()),
        "dtype": net(double_all, lambda: t(2, 3, dtype=torch.float64)),
        "requires_grad": net(lambda m: m.requires_grad_(False)),
        "scale": net(lambda m: setattr(m, "scale", 5)),
        "no bias": net(lambda m: m.proj.register_parameter("bias", None)),
    },
)
def module_state(m, x):
    return m(x)


@programs(
    net(),
    changes={
        "submodule": net(lambda m: setattr(m, "proj", nn.Identity())),
        "other size": net(
            lambda m: (
                setattr(m, "proj", module(nn.Linear, 3, 4, bias=False))
                or setattr(m, "shift", torch.ones(4))
            )
        ),
        "hook": net(lambda m: m.proj.register_forward_hook(lambda m, a, out: out * 3)),
        "pre-hook": net(lambda m: m.register_forward_pre_hook(lambda m, a: (a[0] + 1,))),
        "forward on the instance": net(lambda m: setattr(m, "forward", lambda x: x * 9)),
    },
)
def module_structure(m, x):
    return m(x)


def global_hook():
    handles.append(nn.modules.module.register_module_forward_hook(lambda m, a, out: out + 1))


handles = []


def remove_hooks():
    while handles:
        handles.pop().remove()


@programs(net(), reset=remove_hooks, changes={"global hook": after(global_hook, net())})
def hook_for_all_modules(m, x):
    return m(x)


@programs(
    lambda: (module(lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU())), t(2, 3)),
    changes={
        "layers": lambda: (
            module(lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))),
            t(2, 3),
        )
    },
)
def layers_of_a_sequential(m, x):
    return m(x)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
