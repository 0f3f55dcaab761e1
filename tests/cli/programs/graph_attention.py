"""Attention over the edges of a graph with loops added: how many there are depends on data."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """As PyG's GATConv: loops are removed, and one is added for each node."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.source = nn.Parameter(torch.randn(outputs) / 4)
        self.target = nn.Parameter(torch.randn(outputs) / 4)

    def forward(self, x, edges):
        count = x.shape[0]
        edges = edges[:, edges[0] != edges[1]]
        loops = torch.arange(count)
        edges = torch.cat([edges, torch.stack([loops, loops])], 1)
        h = self.linear(x)
        score = (h * self.source).sum(1)[edges[0]] + (h * self.target).sum(1)[edges[1]]
        score = functional.leaky_relu(score, 0.2)
        top = score.new_full((count,), -1e9).scatter_reduce(0, edges[1], score.detach(), "amax")
        weight = (score - top[edges[1]]).exp()
        total = weight.new_zeros(count).index_add(0, edges[1], weight)
        weight = weight / (total[edges[1]] + 1e-16)
        return torch.zeros_like(h).index_add(0, edges[1], weight[:, None] * h[edges[0]])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Attention(8, 16), Attention(16, 3)

    def forward(self, x, edges):
        return self.second(functional.elu(self.first(x, edges)), edges)


def train(steps):
    torch.manual_seed(0)
    x, labels = torch.randn(20, 8), torch.arange(20) % 3
    model = Net()
    compiled = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(steps):
        edges = torch.randint(0, 20, (2, 60))
        optimizer.zero_grad()
        loss = functional.cross_entropy(compiled(x, edges), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    losses = train(8)
    print([round(loss, 2) for loss in losses])
    print(losses[-1] < losses[0])
