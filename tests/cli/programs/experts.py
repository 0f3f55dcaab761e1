"""A mixture of experts, as models of transformers have it: each gets the rows sent to it."""

import torch
from torch import nn
from torch.nn import functional


class Experts(nn.Module):
    def __init__(self, size=16, count=4):
        super().__init__()
        self.gate = nn.Linear(size, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 32), nn.SiLU(), nn.Linear(32, size)) for _ in range(count)
        )

    def forward(self, x):
        batch, length, size = x.shape
        x = x.view(-1, size)
        routing = functional.softmax(self.gate(x), dim=1)
        weights, chosen = torch.topk(routing, 2, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        result = torch.zeros_like(x)
        mask = functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            place, row = torch.where(mask[number])
            made = expert(x[None, row].reshape(-1, size)) * weights[row, place, None]
            result.index_add_(0, row, made)
        return result.view(batch, length, size), routing


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Experts()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(4):
        x = torch.randn(2, 5 + step // 3, 16)
        made, routing = compiled(x)
        loss = (made - x).square().mean() + 0.01 * routing.mean(0).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 3))
