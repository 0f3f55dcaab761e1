"""Sizes that are open from the start, and sizes that turn out to be."""

import torch
import torch._dynamo


class Counting:
    """A backend that counts."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, module, inputs):
        self.graphs += 1
        return module.forward


def pooled(x):
    return x.sum(0) / x.shape[0]


if __name__ == "__main__":
    marked = Counting()
    compiled = torch.compile(pooled, backend=marked)
    for size in (5, 6, 17):
        x = torch.ones(size, 3)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        print(size, compiled(x).tolist())
    print("marked", marked.graphs)

    torch._dynamo.reset()
    automatic = Counting()
    compiled = torch.compile(pooled, backend=automatic)
    for size in (5, 6, 17, 40):
        compiled(torch.ones(size, 3))
    print("automatic", automatic.graphs)

    torch._dynamo.reset()
    static = Counting()
    compiled = torch.compile(pooled, backend=static, dynamic=False)
    for size in (5, 6, 17):
        compiled(torch.ones(size, 3))
    print("static", static.graphs)

    x = torch.ones(5, 3)
    torch._dynamo.mark_static(x, 0)
    torch._dynamo.maybe_mark_dynamic(x, 1)
    print(torch.compile(pooled, backend="eager")(x).tolist())
