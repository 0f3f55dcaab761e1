"""A backend of the program's own, by itself and by name."""

import torch
import torch._dynamo
from torch._dynamo import register_backend

calls = []


def printing(module, example_inputs):
    calls.append(len(example_inputs))
    assert isinstance(module, torch.fx.GraphModule)
    return module.forward


@register_backend(name="named_in_the_program")
def named(module, example_inputs, *, options=None):
    calls.append(options)
    return module


@torch.compile(backend=printing)
def add(a, b):
    return torch.sin(a) + b


@torch.compile(backend="named_in_the_program", options={"level": 3})
def subtract(a, b):
    return torch.cos(a) - b


def broken(module, example_inputs):
    raise ValueError("this backend has no luck")


if __name__ == "__main__":
    a, b = torch.zeros(3), torch.ones(3)
    print(add(a, b).tolist(), subtract(a, b).tolist())
    print(calls)
    print("named_in_the_program" in torch._dynamo.list_backends())
    try:
        torch.compile(lambda x: x + 1, backend=broken)(a)
    except Exception as error:
        print("no luck" in str(error))
    try:
        torch.compile(lambda x: x + 1, backend="no such backend")(a)
    except Exception as error:
        print("no such backend" in str(error))
