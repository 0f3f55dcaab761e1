"""Functions and methods under the decorator, with and without arguments."""

import torch


@torch.compile(backend="aot_eager")
def gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


@torch.compile(backend="aot_eager", fullgraph=True, dynamic=False)
def normalize(x, *, eps=1e-6):
    """Divides rows by their length."""
    return x / (x.norm(dim=-1, keepdim=True) + eps)


class Scaler:
    def __init__(self, factor):
        self.factor = factor
        self.calls = 0

    @torch.compile(backend="aot_eager")
    def scale(self, x):
        self.calls += 1
        return x * self.factor

    @staticmethod
    @torch.compile(backend="aot_eager")
    def shift(x):
        return x + 1


if __name__ == "__main__":
    x = torch.linspace(-2, 2, 6).reshape(2, 3)
    print([round(v, 4) for v in gelu(x).flatten().tolist()])
    print([round(v, 4) for v in normalize(x, eps=1e-3).flatten().tolist()])
    print(normalize.__name__, normalize.__doc__)
    scaler = Scaler(3.0)
    print(scaler.scale(x).sum().item(), scaler.shift(x).sum().item())
    scaler.scale(x)
    print(scaler.calls)
