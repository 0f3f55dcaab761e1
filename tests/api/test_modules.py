"""A compiled module behaves as the module."""

import abc
import copy
import gc
import inspect
import io
import pickle
import time
import warnings
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import stator
from stator.driver.modules import CompiledModule, unwrapped
from stator.testing import count, function_of

from .tools import Block, Recording

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def compiled(module: Any, **options: Any) -> Any:
    return stator.compile(module, **{"backend": "eager", "fullgraph": True, **options})


@pytest.fixture
def module() -> Block:
    torch.manual_seed(0)
    return Block()


class TestCalls:
    def test_result(self, module: Block) -> None:
        backend = Recording()
        wrapper = compiled(module, backend=backend)
        for _ in range(2):
            assert torch.equal(wrapper(X), module(X))
            assert torch.equal(wrapper(X, extra=1.0), module(X, 1.0))
        assert len(backend.graphs) == 2
        assert count(wrapper) == (2, 2)

    def test_training(self, module: Block) -> None:
        wrapper = compiled(module)
        wrapper(X).sum().backward()
        found = module.linear.weight.grad
        module.linear.weight.grad = None
        module(X).sum().backward()
        assert found is not None
        torch.testing.assert_close(found, module.linear.weight.grad)

    def test_hooks_run_once_wherever_they_are_registered(self, module: Block) -> None:
        wrapper = compiled(module, fullgraph=False)
        ran: list[str] = []
        module.register_forward_hook(lambda m, args, out: ran.append("on the module"))
        wrapper.register_forward_pre_hook(lambda m, args: ran.append("on the wrapper"))
        wrapper.linear.register_forward_hook(lambda m, args, out: ran.append("inside"))
        for call in (wrapper, module, wrapper):
            ran.clear()
            call(X)
            assert ran == ["on the wrapper", "inside", "on the module"]

    def test_a_hook_changes_the_result_at_once(self, module: Block) -> None:
        wrapper = compiled(module)
        before = wrapper(X)
        handle = module.register_forward_hook(lambda m, args, out: out + 1)
        assert torch.equal(wrapper(X), before + 1)
        handle.remove()
        assert torch.equal(wrapper(X), before)

    def test_forward_is_the_modules_own(self, module: Block) -> None:
        wrapper = compiled(module)
        assert torch.equal(wrapper.forward(X), module(X))
        assert count(wrapper) == (0, 0)

    def test_another_forward(self, module: Block) -> None:
        wrapper = compiled(module)
        wrapper(X)
        wrapper.forward = lambda x: x + 1
        assert torch.equal(wrapper(X), X + 1)
        assert torch.equal(module(X), X + 1)

    def test_wrong_arguments(self, module: Block) -> None:
        wrapper = compiled(module)
        with pytest.raises(TypeError) as theirs:
            module(X, bogus=1)  # type: ignore[call-arg, unused-ignore]
        with pytest.raises(TypeError) as ours:
            wrapper(X, bogus=1)
        assert str(ours.value) == str(theirs.value)

    def test_inside_another_module(self, module: Block) -> None:
        outer = nn.Sequential(compiled(module), nn.ReLU())
        assert torch.equal(outer(X), module(X).relu())
        assert count(outer[0]) == (1, 0)
        assert list(outer.state_dict()) == list(nn.Sequential(module).state_dict())

    def test_inlined_in_a_trace(self, module: Block) -> None:
        backend, unused = Recording(), Recording()
        inner = compiled(module, backend=unused)
        outer = compiled(nn.Sequential(inner, nn.ReLU()), backend=backend)
        for _ in range(2):
            assert torch.equal(outer(X), module(X).relu())
        in_place = Block()
        stator.compile_module_(in_place, backend=unused)
        function = compiled(lambda x: inner(x) + in_place(x), backend=backend)
        assert torch.equal(function(X), module(X) + in_place.forward(X))
        assert (len(backend.graphs), len(unused.graphs)) == (2, 0)

    def test_modules_of_one_class_share_what_is_compiled(self) -> None:
        backend = Recording()
        wrappers = [compiled(Block(), backend=backend) for _ in range(12)]
        for wrapper in wrappers:
            assert torch.equal(wrapper(X), unwrapped(wrapper)(X))
        assert len(backend.graphs) == 1

    def test_an_isolated_one_does_not_give(self) -> None:
        backend = Recording()
        first = compiled(Block(), backend=backend, isolate_recompiles=True)
        second = compiled(Block(), backend=backend, isolate_recompiles=True)
        first(X)
        second(X)
        assert len(backend.graphs) == 2

    def test_different_modules_of_one_class_have_a_limit_each(self) -> None:
        """The limit is for one module: containers of one class are all different."""
        backend = Recording()
        wrappers = [
            compiled(nn.Sequential(*[nn.Tanh() for _ in range(n)]), backend=backend)
            for n in range(1, 13)
        ]
        for _ in range(2):
            for wrapper in wrappers:
                assert torch.equal(wrapper(X), unwrapped(wrapper)(X))
        assert len(backend.graphs) == 12

    def test_compiled_twice(self, module: Block) -> None:
        inner = compiled(module)
        outer = compiled(inner)
        assert unwrapped(outer) is module
        assert torch.equal(outer(X), module(X))

    def test_own_call(self) -> None:
        class Odd(nn.Module):
            def __call__(self, x: torch.Tensor) -> torch.Tensor:
                return x - 1

        assert torch.equal(compiled(Odd())(X), X - 1)

    def test_tracebacks_show_no_frame_of_ours(self) -> None:
        class Raises(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                time.sleep(0)
                raise ValueError("no")

        def frames(call: Any) -> list[str]:
            with pytest.raises(ValueError, match="no") as info:
                call(X)
            return [entry.frame.code.name for entry in info.traceback[1:]]

        module = Raises()
        wrapper = compiled(module, fullgraph=False)
        for _ in range(2):
            assert frames(wrapper) == frames(module)  # raised in a continuation


class TestFace:
    def test_attributes(self, module: Block) -> None:
        wrapper = compiled(module)
        assert wrapper.gain == 3
        assert wrapper.linear is module.linear
        assert wrapper.scale is module.scale
        before = wrapper(X)
        wrapper.gain = 6
        assert module.gain == 6
        assert torch.equal(wrapper(X), before * 2)
        module.gain = 3
        assert torch.equal(wrapper(X), before)
        del wrapper.gain
        assert not hasattr(module, "gain")
        with pytest.raises(AttributeError, match="'Block' object has no attribute 'gain'"):
            _ = wrapper.gain
        wrapper.linear = nn.Identity()
        assert isinstance(module.linear, nn.Identity)
        wrapper.extra = nn.Parameter(torch.ones(1))
        assert "extra" in dict(module.named_parameters())

    def test_state(self, module: Block) -> None:
        wrapper = compiled(module)
        assert list(wrapper.state_dict()) == ["scale", "linear.weight", "linear.bias"]
        mine, theirs = list(wrapper.parameters()), list(module.parameters())
        assert len(mine) == 2
        assert all(p is q for p, q in zip(mine, theirs, strict=True))
        assert [name for name, _ in wrapper.named_modules()] == ["", "linear"]
        assert list(wrapper.children()) == [module.linear]
        other = Block()
        before = wrapper(X)
        wrapper.load_state_dict(other.state_dict())
        assert torch.equal(wrapper(X), other(X))
        assert not torch.equal(wrapper(X), before)

    def test_train_eval_to(self, module: Block) -> None:
        wrapper = compiled(module)
        assert wrapper.eval() is wrapper
        assert not module.training
        assert not module.linear.training
        module.train()
        assert wrapper.training
        wrapper.double()
        assert module.linear.weight.dtype is torch.float64
        assert torch.equal(wrapper(X.double()), module(X.double()))
        wrapper.requires_grad_(False)
        assert not any(p.requires_grad for p in module.parameters())
        assert not wrapper(X.double()).requires_grad

    def test_class(self, module: Block) -> None:
        wrapper = compiled(module)
        assert isinstance(wrapper, Block)
        assert isinstance(wrapper, CompiledModule)
        assert repr(wrapper) == repr(module)
        assert wrapper._orig_mod is module
        assert type(compiled(Block())) is type(wrapper)
        assert type(wrapper).__name__ == "Block"

    def test_containers(self) -> None:
        stack = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        wrapper = compiled(stack)
        assert len(wrapper) == 2
        assert wrapper[0] is stack[0]
        assert list(wrapper) == list(stack)
        wrapper.append(nn.Tanh())
        assert len(stack) == 3
        assert torch.equal(wrapper(X), stack(X))

    def test_optimizer(self, module: Block) -> None:
        wrapper = compiled(module)
        optimizer = torch.optim.SGD(wrapper.parameters(), lr=0.1)
        before = module.linear.weight.detach().clone()
        for _ in range(2):
            optimizer.zero_grad()
            wrapper(X).sum().backward()
            optimizer.step()
        assert not torch.equal(module.linear.weight, before)
        assert count(wrapper) == (1, 1)

    def test_slots(self) -> None:
        class Slotted(nn.Module):
            __slots__ = ("factor",)
            factor: float

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x * self.factor

        module = Slotted()
        module.factor = 2.0
        wrapper = compiled(module)
        assert wrapper.factor == 2.0
        wrapper.factor = 3.0
        assert module.factor == 3.0
        assert torch.equal(wrapper(X), X * 3)

    def test_signature(self, module: Block) -> None:
        wrapper = compiled(module)
        assert inspect.signature(wrapper) == inspect.signature(module)
        assert inspect.signature(type(wrapper)) == inspect.signature(Block)
        assert inspect.signature(wrapper.forward) == inspect.signature(module.forward)

    def test_the_modules_finalizer_runs_once(self) -> None:
        ended: list[int] = []

        class Ends(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + 1

            def __del__(self) -> None:
                ended.append(1)

        wrapper = compiled(Ends(), fullgraph=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whether it can be captured is another matter
            wrapper(X)
        del wrapper
        gc.collect()
        assert ended == [1]

    def test_the_class_is_not_announced(self) -> None:
        class Registry(abc.ABCMeta):
            classes: ClassVar[list[str]] = []

            def __init__(cls, name: str, bases: Any, namespace: Any, **kwargs: Any) -> None:
                super().__init__(name, bases, namespace)
                Registry.classes.append(name)

        class Base(nn.Module, metaclass=Registry):
            subclasses: ClassVar[list[type]] = []

            def __init_subclass__(cls) -> None:
                Base.subclasses.append(cls)

            @abc.abstractmethod
            def forward(self, x: torch.Tensor) -> torch.Tensor: ...

        class Concrete(Base):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + 1

        wrapper = compiled(Concrete())
        assert torch.equal(wrapper(X), X + 1)
        assert Registry.classes == ["Base", "Concrete"]
        assert Base.subclasses == [Concrete]


class TestCopies:
    def test_deepcopy(self, module: Block) -> None:
        backend = Recording()
        wrapper = compiled(module, backend=backend)
        wrapper(X)
        other = copy.deepcopy(wrapper)
        assert issubclass(type(other), CompiledModule)
        assert unwrapped(other) is not module
        assert other.linear.weight is not module.linear.weight
        assert torch.equal(other(X), wrapper(X))
        assert function_of(other) is not function_of(wrapper)
        assert len(backend.graphs) == 1
        other.gain = 1
        assert module.gain == 3

    def test_deepcopy_keeps_identities(self, module: Block) -> None:
        wrapper = compiled(module)
        pair = copy.deepcopy([wrapper, wrapper, module])
        assert pair[0] is pair[1]
        assert unwrapped(pair[0]) is pair[2]

    def test_copy(self, module: Block) -> None:
        other = copy.copy(compiled(module))
        assert issubclass(type(other), CompiledModule)
        assert other.linear is module.linear
        assert unwrapped(other) is not module

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickle(self, module: Block, protocol: int) -> None:
        loaded = pickle.loads(pickle.dumps(compiled(module), protocol))
        assert type(loaded) is Block
        assert torch.equal(loaded(X), module(X))

    def test_torch_save(self, module: Block) -> None:
        file = io.BytesIO()
        torch.save(compiled(module), file)
        file.seek(0)
        assert torch.equal(torch.load(file, weights_only=False)(X), module(X))


class TestInPlace:
    def test_calls(self, module: Block) -> None:
        backend = Recording()
        expected = module(X)
        assert stator.compile_module_(module, backend=backend, fullgraph=True) is module
        for _ in range(2):
            assert torch.equal(module(X), expected)
        assert len(backend.graphs) == 1
        assert count(module._compiled_call_impl) == (1, 1)

    def test_hooks_run_once(self, module: Block) -> None:
        stator.compile_module_(module, backend="eager")
        ran: list[int] = []
        module.register_forward_hook(lambda m, args, out: ran.append(1))
        module(X)
        assert ran == [1]

    def test_the_module_travels_as_ever(self, module: Block) -> None:
        stator.compile_module_(module, backend="eager")
        assert pickle.loads(pickle.dumps(module))._compiled_call_impl is None
        assert list(module.state_dict()) == list(Block().state_dict())

    def test_layers_share_what_is_compiled(self) -> None:
        backend = Recording()
        stack = nn.Sequential(*[Block() for _ in range(10)])
        for layer in stack:
            stator.compile_module_(layer, backend=backend, fullgraph=True)
        stack(X)
        # The first layer gets an input without gradient, the others one with.
        assert len(backend.graphs) == 2

    def test_refusals(self, module: Block) -> None:
        with pytest.raises(TypeError, match="needs a module, not an object of type function"):
            stator.compile_module_(lambda x: x)  # type: ignore[type-var]
        with pytest.raises(TypeError, match="no option 'fulgraph'"):
            stator.compile_module_(module, fulgraph=True)
        with pytest.raises(stator.UnknownBackendError):
            stator.compile_module_(module, backend="nope")
        assert stator.compile_module_(module, disable=True)._compiled_call_impl is None
