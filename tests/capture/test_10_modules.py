# mypy: ignore-errors
"""nn.Module: layers, containers, parameters and buffers, hooks, modes, state changed in forward."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .harness import Program, Programs, check, module, t

programs = Programs()


def run(m, x):
    return m(x)


def layer(name, build, *shape, training=False, **claims):
    """A program that calls a layer of torch.nn."""

    def make():
        m = module(build)
        return m.train(training), t(*shape)

    programs.add(name, run, make, **claims)


layer("linear", lambda: nn.Linear(4, 3), 2, 4, ops=["linear"])
layer("linear_without_bias", lambda: nn.Linear(4, 3, bias=False), 2, 4)
layer("identity", nn.Identity, 3)
layer("conv1d", lambda: nn.Conv1d(2, 3, 3, padding=1), 1, 2, 8)
layer("conv2d", lambda: nn.Conv2d(2, 4, 3, stride=2, groups=2), 1, 2, 8, 8)
layer(
    "conv_circular_padding",
    lambda: nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"),
    1,
    1,
    5,
    5,
)
layer("conv_transpose2d", lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), 1, 2, 4, 4)
layer("batch_norm_eval", lambda: nn.BatchNorm1d(4), 5, 4)
layer("batch_norm_train", lambda: nn.BatchNorm1d(4), 5, 4, training=True)
layer(
    "batch_norm_without_statistics",
    lambda: nn.BatchNorm2d(2, track_running_stats=False),
    3,
    2,
    4,
    4,
    training=True,
)
layer("layer_norm", lambda: nn.LayerNorm(4), 3, 4)
layer("group_norm", lambda: nn.GroupNorm(2, 4), 2, 4, 3)
layer("instance_norm", lambda: nn.InstanceNorm1d(3, affine=True), 2, 3, 5, training=True)
layer("rms_norm", lambda: nn.RMSNorm(4), 3, 4)
layer("dropout_eval", lambda: nn.Dropout(0.5), 3, 4)
layer("dropout_train", lambda: nn.Dropout(0.5), 30, 4, training=True)
layer("max_pool", lambda: nn.MaxPool2d(2), 1, 1, 4, 4)
layer("adaptive_pool", lambda: nn.AdaptiveAvgPool2d(1), 1, 2, 4, 4)
layer(
    "activations",
    lambda: nn.Sequential(nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Softplus()),
    3,
    4,
)
layer("softmax", lambda: nn.Softmax(dim=-1), 3, 4)
layer("prelu", lambda: nn.PReLU(4), 3, 4)
layer(
    "flatten_and_unflatten", lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (2, 6))), 2, 3, 4
)
layer("upsample", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), 1, 1, 3, 3)
layer("pixel_shuffle", lambda: nn.PixelShuffle(2), 1, 4, 2, 2)
layer("zero_pad", lambda: nn.ZeroPad2d(1), 1, 1, 2, 2)
layer(
    "sequential",
    lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)),
    3,
    4,
    ops=["linear", "relu", "linear"],
)
layer(
    "nested_sequential",
    lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential()),
    3,
    4,
)
layer("gru", lambda: nn.GRU(4, 3, batch_first=True), 2, 5, 4)
layer("lstm", lambda: nn.LSTM(4, 3), 5, 2, 4)
layer("rnn_cell", lambda: nn.RNNCell(4, 3), 2, 4)
layer(
    "transformer_encoder_layer",
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    2,
    3,
    8,
    training=True,
)


@programs(lambda: (module(nn.Embedding, 10, 4), torch.tensor([[1, 2], [3, 9]])), ops=["embedding"])
def embedding(m, index):
    return m(index)


@programs(
    lambda: (module(nn.EmbeddingBag, 10, 3), torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2]))
)
def embedding_bag(m, index, offsets):
    return m(index, offsets)


@programs(lambda: (module(nn.MultiheadAttention, 8, 2, batch_first=True), t(2, 3, 8)))
def attention(m, x):
    out, weights = m(x, x, x)
    return out, weights


@programs(
    lambda: (
        nn.CrossEntropyLoss(label_smoothing=0.1),
        t(4, 5, grad=True),
        torch.tensor([1, 2, 0, 4]),
    )
)
def loss(m, x, y):
    return m(x, y)


class MLP(nn.Module):
    scale = 2

    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(4)) for _ in range(2)])
        self.table = nn.ParameterDict({"k": nn.Parameter(torch.zeros(4))})
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x, head="a"):
        for layer in self.layers:
            x = F.relu(layer(x)) * self.scale
        for weight in self.weights:
            x = x + weight
        return self.heads[head](x * self.table["k"])


def mlp(depth=2):
    return lambda: (module(MLP, depth), t(3, 4))


@programs(
    mlp(),
    changes={
        "depth": mlp(3),
        "head": lambda: (module(MLP), t(3, 4), "b"),
        "batch": lambda: (module(MLP), t(7, 4)),
    },
)
def containers_of_modules(m, x, head="a"):
    return m(x, head)


@programs(mlp())
def modules_by_index_and_name(m, x):
    return (
        m.layers[0](x) + m.layers[-1](x),
        m.heads["b"](x),
        len(m.layers),
        "a" in m.heads,
        [*m.heads],
    )


@programs(mlp())
def slices_of_module_lists(m, x):
    for layer in m.layers[:1]:
        x = layer(x)
    for name, head in m.heads.items():
        x = x + head(x).sum() * len(name)
    return x


@programs(mlp())
def parameters_by_name(m, x):
    return m.layers[0].weight @ x.t(), m.get_parameter("layers.0.bias"), m.get_submodule("layers.1")


@programs(mlp())
def named_parameters(m, x):
    total = x.sum()
    for name, p in m.named_parameters():
        total = total + p.sum() * len(name)
    return total, [n for n, _ in m.named_buffers()], sum(p.numel() for p in m.parameters())


@programs(mlp())
def walks_over_modules(m, x):
    kinds = [type(child).__name__ for child in m.modules()]
    return x + len(kinds), kinds, [name for name, _ in m.named_children()]


@programs(mlp())
def state_dict(m, x):
    state = m.state_dict()
    return x * len(state), list(state)


@programs(mlp(), changes={"mode": lambda: (module(MLP).eval(), t(3, 4))})
def training_flag(m, x):
    return F.dropout(x, 0.5, training=m.training), m.training


@programs(mlp())
def switch_modes_inside(m, x):
    m.eval()
    y = F.dropout(x, 0.5, m.training)
    m.train()
    return y, m.layers[0].training


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("steps", torch.tensor(0))
        self.calls = 0
        self.history = []

    def forward(self, x):
        self.calls += 1
        self.history.append(self.calls)
        self.steps += 1
        self.total.add_(x.detach())
        return x * self.calls + self.total / self.steps


@programs(lambda: (Counting(), t(3)))
def state_changed_in_forward(m, x):
    return m(x)


@programs(lambda: (Counting(), t(3)))
def state_changed_twice(m, x):
    return m(m(x))


class Caching(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", None, persistent=False)
        self.last = None

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.arange(3.0)
        self.last = x * self.cache
        return self.last


@programs(lambda: (Caching(), t(3)))
def buffer_replaced_in_forward(m, x):
    return m(x) + m.cache


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, index):
        return self.out(self.embed(index))


@programs(lambda: (module(Tied), torch.tensor([1, 3])))
def tied_weights(m, index):
    return m(index), m.out.weight is m.embed.weight


def untied():
    m = module(Tied)
    m.out.weight = nn.Parameter(t(5, 4))
    return m, torch.tensor([1, 3])


@programs(lambda: (module(Tied), torch.tensor([1, 3])), changes={"tie": untied})
def tied_weights_changed_in_place(m, index):
    with torch.no_grad():
        m.embed.weight.mul_(2)
    return m(index)


@programs(lambda: (nn.Sequential(*[module(nn.Linear, 4, 4)] * 3), t(2, 4)))
def one_layer_three_times(m, x):
    return m(x)


def hooked(log=None):
    m = module(nn.Linear, 4, 4)
    m.log = []
    m.register_forward_pre_hook(lambda mod, args: (args[0] + 1,))
    m.register_forward_hook(lambda mod, args, out: mod.log.append("out") or out * 2)
    return m, t(2, 4)


# The keys of hooks come from a counter of the process: a fresh module has other ones.
@programs(hooked, hits=False, changes={"hooks": lambda: (module(nn.Linear, 4, 4), t(2, 4))})
def forward_hooks(m, x):
    return m(x)


def hooked_with_kwargs():
    m = module(MLP)
    m.register_forward_pre_hook(
        lambda mod, args, kwargs: (args, {**kwargs, "head": "b"}), with_kwargs=True
    )
    return m, t(3, 4)


@programs(hooked_with_kwargs, hits=False)
def keyword_hooks(m, x):
    return m(x)


def backward_hooked():
    m = module(nn.Linear, 4, 4)
    m.weight.register_hook(lambda grad: grad * 2)
    return m, t(2, 4)


@programs(backward_hooked)
def hook_on_a_parameter(m, x):
    return m(x)


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return args[0] + self.inner(*args, **kwargs)


@programs(lambda: (module(lambda: Residual(Residual(nn.Linear(4, 4)))), t(2, 4)))
def wrapped_modules(m, x):
    return m(x)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return self.post(self.proj(x))

    def post(self, x):
        return x


class Derived(Base):
    def forward(self, x):
        return super().forward(x) * 2

    def post(self, x):
        return x.relu()


@programs(lambda: (module(Derived), t(2, 4)), changes={"class": lambda: (module(Base), t(2, 4))})
def inheritance(m, x):
    return m(x)


class WithProperty(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    @property
    def doubled(self):
        return self.weight * 2

    def __getitem__(self, i):
        return self.weight[i]

    def forward(self, x):
        return x * self.doubled + self[0]


@programs(lambda: (module(WithProperty), t(2, 4)))
def properties_and_dunders(m, x):
    return m(x)


@programs(lambda: (module(Base), t(2, 4)))
def method_other_than_forward(m, x):
    return m.post(x + 1), m.forward(x), Base.forward(m, x)


@programs(lambda: (module(nn.Linear, 4, 4), t(2, 4)))
def functional_call(m, x):
    return torch.func.functional_call(m, {"weight": m.weight * 2}, (x,))


@programs(lambda: (module(nn.Linear, 4, 4), t(2, 4)))
def attributes_of_layers(m, x):
    return x[:, : m.in_features] * m.out_features, m.bias is not None, m.weight.shape


def frozen():
    m = module(MLP)
    m.layers[0].requires_grad_(False)
    return m, t(3, 4)


@programs(
    mlp(), changes={"frozen": frozen, "dtype": lambda: (module(MLP).double(), t(3, 4).double())}
)
def parameters_with_and_without_grad(m, x):
    return m(x)


@programs(lambda: (module(nn.Linear, 4, 4), t(2, 4)))
def zero_grad_inside(m, x):
    m.zero_grad()
    return m(x)


@programs(lambda: (t(2, 4),), backward=False, free=True)
def module_made_inside(x):
    m = nn.Linear(4, 4)
    with torch.no_grad():
        m.weight.fill_(0.5)
        m.bias.zero_()
    return m(x)


@programs(lambda: (module(MLP), t(3, 4)))
def apply_a_function(m, x):
    seen = []
    m.apply(lambda child: seen.append(type(child).__name__))
    return m(x), seen


@programs(lambda: (module(nn.Linear, 4, 4), t(2, 4)))
def attribute_added_to_a_module(m, x):
    m.cached = m(x)
    m.note = "hi"
    return m.cached * 2


@programs(lambda: (module(nn.Linear, 4, 4), t(2, 4)), free=True)
def parameter_added_inside(m, x):
    m.extra = nn.Parameter(torch.ones(4))
    return m(x) * m.extra


@programs(lambda: ([module(nn.Linear, 4, 4) for _ in range(2)], t(2, 4)))
def modules_in_a_list(ms, x):
    for m in ms:
        x = m(x).tanh()
    return x


LAYER = nn.Linear(4, 4)


@programs(lambda: (t(2, 4),), reset=lambda: LAYER.zero_grad(), world=lambda: LAYER)
def module_in_a_global(x):
    return LAYER(x)


def test_compiled_module_behaves_as_the_module() -> None:
    import stator

    m = module(MLP)
    compiled = stator.compile(m, backend="eager", fullgraph=True)
    x = t(3, 4)
    assert torch.equal(compiled(x), m(x))
    assert compiled.calls == 0 and compiled.layers is m.layers
    assert list(compiled.state_dict()) == list(m.state_dict())
    assert [*map(id, compiled.parameters())] == [*map(id, m.parameters())]
    compiled.eval()
    assert not m.training


def test_compiled_method() -> None:
    import stator

    m = module(Base)
    compiled = stator.compile(m.forward, backend="eager", fullgraph=True)
    x = t(3, 4)
    assert torch.equal(compiled(x), m(x))


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
