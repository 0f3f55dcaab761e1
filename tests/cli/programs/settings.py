"""Settings, stances and limits, and an end that is not 0."""

import sys

import torch
import torch._dynamo


class Counting:
    """A backend that counts."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, module, inputs):
        self.graphs += 1
        return module.forward


if __name__ == "__main__":
    torch._dynamo.config.cache_size_limit = 3
    torch._dynamo.config.suppress_errors = False
    torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.config.verbose = True
    print(torch._dynamo.config.recompile_limit)

    counting = Counting()
    compiled = torch.compile(lambda x, n: x + n, backend=counting, dynamic=False)
    for n in range(10, 16):
        assert compiled(torch.ones(2), n).tolist() == [n + 1, n + 1]
    print("graphs", counting.graphs)

    torch.compiler.reset()
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(2), 7)
    print("graphs", counting.graphs)
    with torch._dynamo.config.patch(recompile_limit=5):
        for n in range(10, 20):
            compiled(torch.ones(2), n)
    print("graphs", counting.graphs, torch._dynamo.config.recompile_limit)
    torch.compiler.set_default_backend(counting)
    torch.compile(lambda x: x - 1)(torch.ones(3))
    print("graphs", counting.graphs)
    sys.exit("that is all")
