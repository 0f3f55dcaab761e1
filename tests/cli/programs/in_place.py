"""`model.compile()`: the module itself is compiled, its keys stay as they are."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.hidden(x))))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Net()
    model.compile(backend="aot_eager")
    model.register_forward_hook(lambda module, args, result: print("hook", tuple(result.shape)))
    x = torch.randn(6, 4)
    print(round(model(x).sum().item(), 4))
    model.eval()
    with torch.no_grad():
        print(round(model(x).sum().item(), 4))
    print(list(model.state_dict()))
    print(int(model.norm.num_batches_tracked))
