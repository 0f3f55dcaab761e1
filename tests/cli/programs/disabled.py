"""Parts of a program that are not to be compiled."""

import torch
from torch import nn

seen = []


@torch.compiler.disable
def remember(x):
    seen.append(float(x.sum()))
    return x


@torch.compiler.disable(recursive=False)
def outer(x):
    return inner(x) + torch.compiler.is_compiling()


def inner(x):
    return x * 2


class Logged(nn.Module):
    def forward(self, x):
        return remember(torch.relu(x)) + 1


@torch.compile(backend="eager")
def program(x):
    y = x + torch.compiler.is_compiling()
    return outer(y) * 10


if __name__ == "__main__":
    print(torch.compile(Logged(), backend="eager")(torch.tensor([-1.0, 2.0])).tolist(), seen)
    print(remember(torch.ones(2)).tolist(), seen)
    print(program(torch.ones(1)).tolist())
    whole = torch.compiler.disable(nn.ReLU())
    print(whole(torch.tensor([-1.0])).tolist(), type(whole).__name__)
