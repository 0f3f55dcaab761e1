"""What programs do with a compiled module: checkpoints, copies, attributes, questions."""

import copy
import io

import torch
import torch._dynamo
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.inner(x)

    def describe(self):
        return f"{self.step} steps"


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Net(), backend="eager")
    model(torch.ones(1, 2))
    print(model)
    print(list(model.state_dict()), [name for name, _ in model.named_modules()])
    print(isinstance(model, torch._dynamo.OptimizedModule), hasattr(model, "_orig_mod"))
    print(model.describe(), model.step, model._orig_mod.step)
    model.step = 10
    print(model._orig_mod.step, model.training, model.eval()._orig_mod.training)

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = torch.compile(Net(), backend="eager")
    print(other.load_state_dict(torch.load(file)))
    print(torch.equal(other(torch.ones(1, 2)), model(torch.ones(1, 2))))

    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.inner.weight.zero_()
    print(bool(model.inner.weight.abs().sum() > 0), type(twin).__name__)
    handle = model.register_forward_hook(lambda module, args, result: result * 0)
    print(model(torch.ones(1, 2)).tolist())
    handle.remove()
    print(next(model.parameters()) is model._orig_mod.inner.weight)
