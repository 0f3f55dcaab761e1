"""Classes of wrappers that the tests use: each is of another kind."""

from dataclasses import dataclass

import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

aten = torch.ops.aten


class Offset(torch.Tensor):
    """A tensor and a number; operators apply to the tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem, offset, label="offset"):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            elem.shape,
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=elem.device,
            requires_grad=elem.requires_grad,
        )

    def __init__(self, elem, offset, label="offset"):
        self.elem = elem
        self.offset = offset
        self.label = label

    def __repr__(self):
        return f"Offset({self.elem}, {self.offset})"

    def __tensor_flatten__(self):
        return ["elem"], (self.offset, self.label)

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["elem"], *context)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        given = [each for each in pytree.tree_leaves(args) if isinstance(each, cls)]
        offset = given[0].offset
        label = given[0].label

        def inner(value):
            return value.elem if isinstance(value, cls) else value

        args_inner, kwargs_inner = pytree.tree_map(inner, (args, kwargs or {}))
        made = func(*args_inner, **kwargs_inner)
        if func is aten.add.Tensor or func is aten.add_.Tensor:
            made = made.add_(offset) if func is aten.add_.Tensor else made + offset
        made = pytree.tree_map_only(torch.Tensor, lambda each: cls(each, offset, label), made)
        return return_and_correct_aliasing(func, args, kwargs or {}, made)

    @property
    def doubled(self):
        return self.offset * 2

    def plain(self):
        return self.elem + self.offset

    @classmethod
    def of(cls, value, offset=1.0):
        return cls(value, offset)


@dataclass
class Config:
    group: int
    mode: str


HANDLED = {}


def implements(*ops):
    def register(function):
        for op in ops:
            HANDLED[op] = function
        return function

    return register


class Scaled(torch.Tensor):
    """A quantized weight: whole numbers, and scales, as torchao's are."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data, scale, config, dtype=torch.float32):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=dtype, device=data.device)

    def __init__(self, data, scale, config, dtype=torch.float32):
        self.data_ = data
        self.scale = scale
        self.config = config

    def __tensor_flatten__(self):
        return ["data_", "scale"], [self.config, self.dtype]

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["data_"], inner["scale"], *context)

    @classmethod
    def from_float(cls, value, group=1):
        scale = value.abs().amax(dim=1, keepdim=True) / 127
        return cls(
            (value / scale).round().to(torch.int8), scale, Config(group, "int8"), value.dtype
        )

    def dequantize(self):
        return self.data_.to(self.dtype) * self.scale

    def __repr__(self):
        return f"Scaled({self.data_}, {self.scale})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func in HANDLED:
            return HANDLED[func](func, args, kwargs or {})
        raise NotImplementedError(f"{cls.__name__} has no {func}")


def changed(given, function):
    return Scaled(function(given.data_), function(given.scale), given.config, given.dtype)


@implements(aten.detach.default, aten.alias.default)
def _detach(func, args, kwargs):
    return return_and_correct_aliasing(func, args, kwargs, changed(args[0], lambda t: t.detach()))


@implements(aten.clone.default)
def _clone(func, args, kwargs):
    return return_and_correct_aliasing(func, args, kwargs, changed(args[0], lambda t: t.clone()))


@implements(aten.mm.default, aten.addmm.default)
def _mm(func, args, kwargs):
    plain = [each.dequantize() if isinstance(each, Scaled) else each for each in args]
    return func(*plain)


@implements(aten.t.default)
def _t(func, args, kwargs):
    given = args[0]
    made = Scaled(given.data_.t(), given.scale.t(), given.config, given.dtype)
    return return_and_correct_aliasing(func, args, kwargs, made)


@implements(aten.mul.Tensor)
def _mul(func, args, kwargs):
    given, other = args
    return Scaled(given.data_, given.scale * other, given.config, given.dtype)


@implements(aten._to_copy.default)
def _to_copy(func, args, kwargs):
    given = args[0]
    dtype = kwargs.get("dtype", given.dtype)
    return Scaled(given.data_, given.scale.to(dtype), given.config, dtype)


class Tagged(Offset):
    """A class that is asked before autograd, too."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super(Offset, cls).__torch_function__(func, types, args, kwargs or {})
        if func is torch.sin or func is torch.Tensor.sin:
            return made * 3
        return made


CALLED = []
SWITCH = True


class Logging(Offset):
    """It tells what was called."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        CALLED.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


class Counting(Offset):
    """It counts calls."""

    calls = 0

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


class Switched(Offset):
    """What it does depends on a global."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if SWITCH and func is aten.mul.Tensor:
            return made + 1
        return made


def two(*shape, requires_grad=False):
    made = TwoTensor(torch.randn(*shape), torch.randn(*shape))
    return made.requires_grad_() if requires_grad else made
