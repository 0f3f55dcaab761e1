"""Whatever changes between two processes: what was stored is never used where it would be wrong.

The second process is a second import: the program's module is executed anew, so all its functions,
classes and modules are other objects; stator has forgotten everything but the folder.
"""

import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from stator.driver import loading
from stator.driver.label import Label
from stator.driver.options import Options
from stator.store import world

PROGRAM = """
import os
import enum
import torch
from torch import nn

SCALE = 2.0
TABLE = {"bias": 0.5, "names": ["a", "b"]}
SIZES = (3, 4)

class Kind(enum.Enum):
    UP = 1
    DOWN = -1

KIND = Kind.UP

def decorated(function):
    def inner(x):
        return function(x) + 1
    return inner

@decorated
def shifted(x):
    return x * 3

def helper(x, power=2, *, sign=1):
    return sign * x ** power

def maker(n):
    def add(x):
        return x + n
    return add

added = maker(10)

class Base:
    factor = 2

    @property
    def double(self):
        return self.factor * 2

    @staticmethod
    def static(x):
        return x - 1

    @classmethod
    def of(cls, x):
        return x * cls.factor

    def method(self, x):
        return x + self.double

class Thing(Base):
    def __init__(self):
        self.own = 4

    def method(self, x):
        return super().method(x) * self.own

THING = Thing()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.flag = True
        self.register_buffer("c", torch.ones(4))

    def forward(self, x):
        y = self.b(self.a(x)) + self.c
        return y if self.flag else -y

def program(model, x):
    y = helper(x) * SCALE + TABLE["bias"] + len(TABLE["names"])
    y = shifted(y) + added(y)
    y = THING.method(y) + Thing.static(y) + Thing.of(y)
    y = y * KIND.value + sum(SIZES)
    if os.environ.get("PROGRAM_MODE") == "other":
        y = y * 100
    y = model(y)
    return [torch.nn.functional.gelu(y) if torch.is_grad_enabled() else y, y.dtype, x.shape]
"""


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(source: str) -> str:
        assert old in source
        return source.replace(old, new, 1)

    return change


EDITS: dict[str, Callable[[str], str]] = {
    "a callee": replaced("sign * x ** power", "sign * x ** power + 1"),
    "a default": replaced("power=2", "power=3"),
    "a keyword default": replaced("sign=1", "sign=-1"),
    "a constant": replaced("SCALE = 2.0", "SCALE = 2.5"),
    "the type of a constant": replaced("SCALE = 2.0", "SCALE = 2"),
    "a value in a dict": replaced('"bias": 0.5', '"bias": 1.5'),
    "a list in a dict": replaced('["a", "b"]', '["a", "b", "c"]'),
    "a tuple": replaced("SIZES = (3, 4)", "SIZES = (3, 5)"),
    "which enum member": replaced("KIND = Kind.UP", "KIND = Kind.DOWN"),
    "the value of an enum member": replaced("UP = 1", "UP = 7"),
    "a decorator": replaced("function(x) + 1", "function(x) + 2"),
    "a decorated function": replaced("return x * 3", "return x * 4"),
    "no decorator": replaced("@decorated\ndef shifted", "def shifted"),
    "a closure variable": replaced("maker(10)", "maker(11)"),
    "a function in a function": replaced("return x + n", "return x - n"),
    "a class attribute": replaced("factor = 2", "factor = 3"),
    "a class attribute of a subclass": replaced(
        "class Thing(Base):\n", "class Thing(Base):\n    factor = 5\n"
    ),
    "a property": replaced("return self.factor * 2", "return self.factor * 3"),
    "a property that is a value": replaced(
        "    @property\n    def double(self):\n        return self.factor * 2\n", "    double = 9\n"
    ),
    "a static method": replaced("return x - 1", "return x - 2"),
    "a class method": replaced("return x * cls.factor", "return x * cls.factor * 2"),
    "a method of a base": replaced("return x + self.double", "return x - self.double"),
    "a method": replaced("super().method(x) * self.own", "super().method(x) / self.own"),
    "no override": replaced(
        "    def method(self, x):\n        return super().method(x) * self.own\n", ""
    ),
    "the bases": replaced(
        "class Thing(Base):\n",
        "class Other(Base):\n    @property\n    def double(self):\n        return 0\n\n"
        "class Thing(Other):\n",
    ),
    "an attribute of an instance": replaced("self.own = 4", "self.own = 5"),
    "an attribute that hides a method": replaced(
        "self.own = 4", "self.own = 4\n        self.method = lambda x: x"
    ),
    "__getattribute__": replaced(
        "class Thing(Base):\n",
        "class Thing(Base):\n    def __getattribute__(self, name):\n"
        "        found = object.__getattribute__(self, name)\n"
        "        return 40 if name == 'own' else found\n\n",
    ),
    "__getattr__ for what is missing": replaced(
        "self.own = 4",
        "pass\n\n    def __getattr__(self, name):\n        return 6",
    ),
    "the forward of a module": replaced("+ self.c", "- self.c"),
    "a submodule": replaced("nn.ReLU()", "nn.Tanh()"),
    "a flag of a module": replaced("self.flag = True", "self.flag = False"),
    "a buffer's size": replaced("torch.ones(4)", "torch.ones(1)"),
    "a module's size": replaced("nn.Linear(4, 4), nn.ReLU()", "nn.Linear(4, 6), nn.Linear(6, 4)"),
    "a hook": replaced(
        'self.register_buffer("c", torch.ones(4))',
        'self.register_buffer("c", torch.ones(4))\n'
        "        self.a.register_forward_hook(lambda m, a, out: out * 2)",
    ),
    "the order of statements": replaced(
        "y = shifted(y) + added(y)\n    y = THING",
        "y = added(y)\n    y = shifted(y)\n    y = THING",
    ),
    "a global that hides a builtin": replaced(
        "KIND = Kind.UP", "KIND = Kind.UP\nlen = lambda x: 9"
    ),
    "a replaced function of torch": replaced(
        "KIND = Kind.UP",
        "KIND = Kind.UP\nimport types as _types\n"
        "torch = _types.SimpleNamespace(**{**vars(torch), 'is_grad_enabled': lambda: False})",
    ),
    "lines moved": replaced("SCALE = 2.0", "\n\n\nSCALE = 2.0"),
    "the name of the program's parameter": replaced(
        "def program(model, x)", "def program(model, z, x=None)"
    ),
}
EDITS["the name of the program's parameter"] = lambda source: source.replace(
    "def program(model, x):\n", "def program(model, z):\n    x = z + 1\n"
)


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def patched_gelu() -> Iterator[None]:
    functional: Any = torch.nn.functional
    before = functional.gelu
    functional.gelu = lambda x: x * 1000
    try:
        yield
    finally:
        functional.gelu = before


@contextmanager
def patched_linear() -> Iterator[None]:
    linear: Any = torch.nn.Linear
    before = linear.forward
    linear.forward = lambda self, x: before(self, x) * 2
    try:
        yield
    finally:
        linear.forward = before


@contextmanager
def patched_call() -> Iterator[None]:
    hook = torch.nn.modules.module.register_module_forward_hook(lambda m, a, out: out + 1)
    try:
        yield
    finally:
        hook.remove()


def setting(name: str, value: Any) -> Callable[[], Any]:
    return lambda: stator.config.patch(**{name: value})


WORLDS: dict[str, Callable[[], Any]] = {
    "an environment variable": lambda: environment(PROGRAM_MODE="other"),
    "inference": torch.inference_mode,
    "no grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "the default dtype": default_dtype,
    "matmul precision": precision,
    "deterministic algorithms": deterministic,
    "a function of torch": patched_gelu,
    "a method of torch": patched_linear,
    "a global hook": patched_call,
    "a setting of stator": setting("torch_kernels", False),
    "a setting of Inductor": lambda: environment(TORCHINDUCTOR_FREEZING="1"),
}


def imported(source: str) -> types.ModuleType:
    """The program, as a new process would import it."""
    module = types.ModuleType("cached_program")
    module.__file__ = "cached_program.py"
    sys.modules["cached_program"] = module
    exec(compile(source, "cached_program.py", "exec"), vars(module))
    return module


def process(source: str, x: Any, *, change: Callable[[Any], object] | None = None) -> int:
    """One process; how much it has loaded."""
    stator.reset()
    module = imported(source)
    torch.manual_seed(0)
    model = module.Model().to(x.dtype)
    if change is not None:
        change(model)
    before = stator.counters()
    expected = outcome(module.program, model, x)
    found = outcome(stator.compile(module.program, backend="eager"), model, x)
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        assert same, (expected, found)
        if isinstance(one, torch.Tensor):
            assert one.requires_grad == other.requires_grad
            assert one.dtype == other.dtype
    after = stator.counters()
    return int(after["loaded"] - before["loaded"])


def outcome(function: Callable[..., Any], model: Any, x: Any) -> list[Any]:
    try:
        return list(function(model, x))
    except Exception as error:
        return [type(error), str(error)]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    sys.modules.pop("cached_program", None)


X = torch.arange(8.0).reshape(2, 4) / 8

NUMBERS = """
import enum

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3

class Name(str, enum.Enum):
    ACT = "relu"

class Part(float, enum.Enum):
    HALF = 0.5

TABLE = {"relu": 1.0, "tanh": 2.0}

class Model:
    def to(self, dtype):
        return self

def program(model, x):
    y = x * Level.HIGH + Part.HALF
    if Name.ACT == "relu":
        y = y * TABLE[Name.ACT]
    return [y, y + 1 if Level.LOW < 2 else y]
"""
THINGS = """
import collections
import dataclasses
import typing
import torch
from torch import nn
from torch.nn.utils import parametrize

class Pair(typing.NamedTuple):
    one: object
    two: int = 4

Other = collections.namedtuple("Other", "left right")

@dataclasses.dataclass
class Made:
    number: int = 2
    items: list = dataclasses.field(default_factory=lambda: [1, 2])

def marked(x):
    return x * marked.factor

marked.factor = 3

class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2

class Model:
    def to(self, dtype):
        return self

linear = nn.Linear(4, 4)
nn.init.constant_(linear.weight, 0.5)
nn.init.constant_(linear.bias, 0.25)
parametrize.register_parametrization(linear, "weight", Doubled())
attention = nn.MultiheadAttention(4, 2)
attention.load_state_dict({k: torch.ones_like(v) for k, v in attention.state_dict().items()})

def program(model, x):
    pair, other, made = Pair(x), Other(x, 3), Made()
    y = pair.one * pair.two + other.left * other[1] + made.number + len(made.items)
    with torch.no_grad():
        z = linear(marked(y))
    w = torch.ops.aten.relu.default(z) + attention(y, y, y)[0]
    return [w, z, y]
"""
PARTS = {
    "a default of a named tuple": replaced("two: int = 4", "two: int = 5"),
    "the order of a named tuple": replaced('"left right"', '"right left"'),
    "a default of a dataclass": replaced("number: int = 2", "number: int = 3"),
    "a default factory": replaced("[1, 2]", "[1, 2, 3]"),
    "another method of a dataclass": replaced(
        "    items: list", "    def __post_init__(self):\n        self.number = 9\n    items: list"
    ),
    "an attribute of a function": replaced("factor = 3", "factor = 4"),
    "a parametrization": replaced("weight * 2", "weight * 3"),
    "no parametrization": replaced("parametrize.register", "None and parametrize.register"),
    "the modes": replaced("torch.no_grad()", "torch.enable_grad()"),
}
MEMBERS = {
    "an int": replaced("HIGH = 3", "HIGH = 5"),
    "a compared int": replaced("LOW = 1", "LOW = 2"),
    "a str": replaced('ACT = "relu"', 'ACT = "tanh"'),
    "a float": replaced("HALF = 0.5", "HALF = 0.25"),
}


def test_nothing_changed(cache: Path) -> None:
    assert process(PROGRAM, X) == 0
    assert process(PROGRAM, X) == 1
    assert process(PROGRAM, X + 1) == 1


def test_annotations_that_were_read(cache: Path) -> None:
    source = replaced("class Thing(Base):\n", "class Thing(Base):\n    kept: int = 0\n\n")(PROGRAM)

    def read(_: Any) -> None:
        thing = sys.modules["cached_program"].Thing
        assert thing.__annotations__ == {"kept": int}
        for each in thing.__mro__:  # Python 3.14 keeps what these answer in the class
            getattr(each, "__annotate__", None)

    assert process(source, X) == 0
    assert process(source, X, change=read) == 1


@pytest.mark.parametrize("name", EDITS)
def test_edited(cache: Path, name: str) -> None:
    process(PROGRAM, X)
    edited = EDITS[name](PROGRAM)
    process(edited, X)
    assert process(PROGRAM, X) == 1  # the old one is still there, and right
    process(edited, X)


@pytest.mark.parametrize("name", MEMBERS)
def test_members_that_are_values(cache: Path, name: str) -> None:
    """C code sees the number or the text, not the attributes of the member."""
    process(NUMBERS, X)
    edited = MEMBERS[name](NUMBERS)
    assert process(edited, X) == 0
    assert process(NUMBERS, X) == 1
    assert process(edited, X) == 1


@pytest.mark.parametrize("name", PARTS)
def test_parts_without_a_name(cache: Path, name: str) -> None:
    """Methods that are generated, namespaces, objects of the library: by what has them."""
    process(THINGS, X)
    edited = PARTS[name](THINGS)
    assert process(edited, X) == 0
    assert process(THINGS, X) == 1
    process(edited, X)


@pytest.mark.parametrize("name", WORLDS)
def test_another_world(cache: Path, name: str) -> None:
    process(PROGRAM, X)
    with WORLDS[name]():
        process(PROGRAM, X)
    process(PROGRAM, X)


@pytest.mark.parametrize(
    "x",
    [X.double(), X[:1], X[:, ::1].t().contiguous().t(), X.clone().requires_grad_(), X.half()],
    ids=["dtype", "size", "strides", "requires_grad", "half"],
)
def test_another_tensor(cache: Path, x: torch.Tensor) -> None:
    process(PROGRAM, X)
    process(PROGRAM, x)


CHANGES: dict[str, Callable[[Any], object]] = {
    "other weights": lambda m: m.a.weight.data.add_(1),
    "frozen": lambda m: m.requires_grad_(False),
    "evaluated": lambda m: m.eval(),
    "double": lambda m: m.double(),
    "a tied weight": lambda m: setattr(m.b[0], "weight", m.a.weight),
    "another flag": lambda m: setattr(m, "flag", False),
    "a replaced layer": lambda m: m.b.__setitem__(1, torch.nn.Sigmoid()),
    "no bias": lambda m: setattr(m.a, "bias", None),
    "a method of the instance": lambda m: setattr(m, "forward", lambda x: x),
}


@pytest.mark.parametrize("name", CHANGES)
def test_another_model(cache: Path, name: str) -> None:
    process(PROGRAM, X)
    process(PROGRAM, X, change=CHANGES[name])


@pytest.mark.parametrize("name", ["python", "torch", "stator", "cpu", "platform", "asserts"])
def test_another_version(
    cache: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    process(PROGRAM, X)
    module: Any = loading
    real = module.world
    monkeypatch.setattr(module, "world", lambda **k: {**real(**k), name: "another"})
    log = tmp_path / "log"
    stator.set_logs("cache", out=str(log))
    try:
        assert process(PROGRAM, X) == 0
    finally:
        stator.set_logs()
    assert f"{name} was " in log.read_text()


def test_passes_of_the_program(cache: Path) -> None:
    """Inductor leaves them out of the text of its settings."""
    settings: Any = import_module("torch._inductor.config")
    before = world.world(native=True)
    with settings.patch(post_grad_custom_post_pass=lambda graph: None):
        now = world.world(native=True)
    assert "post_grad_custom_post_pass" in now["torch._inductor.config"]
    assert world.difference(before, now) is not None
    assert world.difference(before, world.world(native=True)) is None


def test_options_that_are_functions(cache: Path) -> None:
    function = imported(PROGRAM).helper
    label = Label.of(function)
    for value, stored in ((3, True), ([True, "a"], True), (print, False), ({"a": print}, False)):
        options = Options("inductor", options={"a setting": value})
        assert (loading.key_of(function, options, label) is not None) == stored
