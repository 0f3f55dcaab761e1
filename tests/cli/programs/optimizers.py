"""Steps of optimizers, compiled."""

import torch
from torch import nn

KINDS = {
    "SGD": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "Adam": (torch.optim.Adam, {"lr": 0.01}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def main():
    for name, (kind, options) in KINDS.items():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        optimizer = kind(model.parameters(), **options)

        step = torch.compile(optimizer.step)

        x = torch.randn(8, 6)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            step()
            losses.append(loss.item())
        print(name, [round(loss, 3) for loss in losses])


if __name__ == "__main__":
    main()
