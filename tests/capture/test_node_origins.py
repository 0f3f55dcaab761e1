# mypy: ignore-errors
"""`nn_module_stack` and `source_fn_stack`: which module a node belongs to, as in torch.compile.

The oracle is torch.compile itself: the same program, the same operators in the same order, and for
each the same paths and classes. Only the calls of torch.compile's own are different: it leaves out
the module that is compiled, and modules that are made in the trace.
"""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified

import stator


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.lin(x)) + x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.shared = self.layers[0]
        self.named = nn.ModuleDict({"a": Block(), "b": nn.Linear(4, 4)})
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.GELU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.shared(x) * 2
        x = self.named["b"](self.named["a"](x))
        x = self.layers[1].lin(x)
        x = self.seq(self.helper(x))
        values, _ = x.max(0)
        return values

    def helper(self, x):
        return x.sin()


class Derived(nn.Linear):
    """A class of the user's own: its operators are not torch's layer."""


class Own(Derived):
    def forward(self, x):
        return super().forward(x) + 1


class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Own(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        for _ in range(3):
            x = self.norm(self.cell(x))
        return x


class Holder:
    def __init__(self, net):
        self.net = net


MODEL = Model().eval()
HELD = {"m": MODEL}
HOLDER = Holder(MODEL)


def in_a_global(x):
    return MODEL(x) + 1


def in_a_dict(x):
    return HELD["m"](x)


def in_an_attribute(x, holder):
    return holder.net(x)


def as_an_argument(module, x):
    return module(x)


def in_a_closure():
    net = MODEL

    def call(x):
        return net(x)

    return call


def forward_alone(module, x):
    return module.forward(x)


X = torch.randn(4, 4)
PROGRAMS = {
    "module": (MODEL, (X,)),
    "sequential": (nn.Sequential(MODEL, nn.Tanh()), (X,)),
    "looped": (Looped(), (X,)),
    "encoder": (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (X[None],)),
    "batch_norm": (nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.0)).train(), (X,)),
    "global": (in_a_global, (X,)),
    "dict": (in_a_dict, (X,)),
    "attribute": (in_an_attribute, (X, HOLDER)),
    "argument": (as_an_argument, (MODEL, X)),
    "closure": (in_a_closure(), (X,)),
    "forward": (forward_alone, (MODEL, X)),
}


def recorded(compile, function, args):
    """The operators of all graphs: target, stack, origin."""
    found = []

    def backend(module, inputs):
        found.extend(node for node in module.graph.nodes if node.op.startswith("call_"))
        return module.forward

    compile(function, backend=backend)(*args)
    return [node for node in found if "log_api_usage" not in str(node.target)]


def told(node, root):
    """What both must say alike: paths from the compiled module on, the calls of it left out."""
    stack = []
    for key, (path, cls) in node.meta.get("nn_module_stack", {}).items():
        relative = path
        if root:
            _, _, rest = path.partition("]")
            relative = rest
        if relative:
            stack.append((relative, cls, key.partition("@")[2]))
    ((_, origin),) = node.meta["source_fn_stack"]
    return node.op, node.target, stack, origin


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_torch_compile(name):
    function, args = PROGRAMS[name]
    root = isinstance(function, nn.Module)
    ours = [told(node, root) for node in recorded(stator.compile, function, args)]
    torchs = [told(node, root) for node in recorded(torch.compile, function, args)]
    torch.compiler.reset()
    assert ours == torchs
    assert any(stack for _, _, stack, _ in ours)


def paths(node):
    return [path for path, _ in node.meta.get("nn_module_stack", {}).values()]


def test_the_compiled_module_is_the_outermost():
    nodes = recorded(stator.compile, MODEL, (X,))
    assert all(paths(node)[0] == "L['self']" for node in nodes)
    key, (_, cls) = next(iter(nodes[0].meta["nn_module_stack"].items()))
    assert (key, cls) == (str(id(MODEL)), Model)


def test_in_place():
    model = stator.compile_module_(Looped(), backend="eager")
    stator.reset()
    nodes = recorded(lambda m, backend: stator.compile_module_(m, backend=backend), model, (X,))
    assert paths(nodes[0]) == ["L['self']", "L['self'].cell"]


def test_made_in_the_trace():
    def run(x):
        return nn.Sequential(nn.ReLU(), nn.Tanh())(x) + 1

    relu, tanh, add = recorded(stator.compile, run, (X,))
    assert paths(relu) == ["Sequential()", "ReLU()"]
    assert paths(tanh) == ["Sequential()", "Tanh()"]
    assert paths(add) == []
    assert relu.meta["source_fn_stack"] == [(relu.name, nn.ReLU)]


def test_each_call_has_a_key():
    keys = [
        list(node.meta["nn_module_stack"])[-1].partition("@")[2]
        for node in recorded(stator.compile, Looped(), (X,))
        if node.target is torch.nn.functional.layer_norm
    ]
    assert keys == ["", "1", "2"]


def test_behind_a_break():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            stator.graph_break()
            return self.second(x).relu()

    before, after, relu = recorded(stator.compile, nn.Sequential(Broken()), (X,))
    assert paths(before)[-1] == "L['self'].0.first"
    assert paths(after)[-1] == "L['self'].second"
    assert paths(after)[-1] not in paths(relu)


def test_called_by_c_code():
    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return sum(map(self.layer, [x, x + 1]))

    nodes = recorded(stator.compile, Mapped(), (X,))
    linear = [node for node in nodes if node.target is torch._C._nn.linear]
    assert len(linear) == 2
    assert all(paths(node) == ["L['self']", "L['self'].layer"] for node in linear)
    assert all("sum(map(self.layer, [x, x + 1]))" in node.stack_trace for node in linear)


def test_nodes_that_change_a_state():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        @torch.no_grad()
        def forward(self, x):
            return self.layer(x) + torch.tensor([1.0])

    nodes = recorded(stator.compile, nn.Sequential(Frozen()), (X,))
    assert {node.target.__name__ for node in nodes} >= {"_set_grad_enabled", "linear", "add"}
    assert all(paths(node)[0] == "L['self']" for node in nodes)


def test_reaches_the_operators_of_aot_autograd():
    """Tools read the stack from the graphs behind AOTAutograd as well."""
    seen = []

    def compiler(module, inputs):
        seen.extend(module.graph.nodes)
        return module.forward

    def backend(module, inputs):
        return aot_module_simplified(module, inputs, fw_compiler=compiler)

    with torch.no_grad():
        stator.compile(MODEL, backend=backend)(X)
    found = [node for node in seen if node.op == "call_function"]
    assert found
    with_stack = [node for node in found if "nn_module_stack" in node.meta]
    assert len(with_stack) == len(found)
    assert any(paths(node)[-1] == "L['self'].layers.1.lin" for node in with_stack)


def test_keeps_no_module_alive():
    model = Looped()
    nodes = recorded(stator.compile, as_an_argument, (model, X))
    gone = weakref.ref(model)
    del model
    stator.reset()
    gc.collect()
    assert gone() is None
    assert nodes
