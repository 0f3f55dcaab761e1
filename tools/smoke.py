"""What an installed stator must do: run with `python -I`, outside of a checkout.

Without `--torch` there is none: the evaluator works, and `stator.compile` says what to install.
"""

import sys


def total(items: list[int]) -> int:
    try:
        return sum(item * item for item in items if item % 2) // (len(items) - 3)
    except ZeroDivisionError:
        return -1


def without_torch() -> str:
    import stator
    from stator.testing import evaluated

    run = evaluated(total, fullgraph=True, backend="eager")
    assert [run([1, 2, 3, 4]), run([1, 2, 3])] == [10, -1]
    try:
        stator.compile(total)
    except ImportError as error:
        assert "pip install" in str(error) and "torch" in str(error), error
    else:
        raise AssertionError("there is a torch")
    return f"stator {stator.__version__}, without torch"


def with_torch() -> str:
    import torch

    import stator

    graphs = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(module)
        return module.forward

    @stator.compile(fullgraph=True, backend=backend)
    def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight) + 1

    x, weight = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    for _ in range(2):
        assert torch.equal(layer(x, weight), torch.relu(x @ weight) + 1)
    torch.autograd.backward(layer(x, weight).sum())
    assert weight.grad is not None and len(graphs) == 1
    return f"stator {stator.__version__}, torch {torch.__version__}: one graph"


if __name__ == "__main__":
    assert "stator" not in sys.modules and not any("/src" in each for each in sys.path)
    print(with_torch() if "--torch" in sys.argv else without_torch())
