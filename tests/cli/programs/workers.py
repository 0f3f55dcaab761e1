"""A DataLoader with processes of its own, one of which compiles, too."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@torch.compile(backend="eager")
def augmented(x):
    return x * 2 - 1


class Squares(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return augmented(torch.full((3,), float(index))), index


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), backend="eager")
    for context in ("fork", "spawn"):
        loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=context)
        for batch, index in loader:
            print(context, index.tolist(), round(model(batch).sum().item(), 3))
