"""Graph neural networks of torch_geometric."""

import importlib
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.case import Case, Entry, library

NN: Final = "torch_geometric.nn"
NODES, EDGES, FEATURES, HEADS = 20, 60, 16, 2


def graph() -> tuple[Tensor, Tensor]:
    return torch.randn(NODES, FEATURES), torch.randint(0, NODES, (2, EDGES))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = library(NN, "GATConv")
        self.a = layer(16, 16, heads=HEADS)
        self.b = layer(16 * HEADS, 8, heads=HEADS)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return torch.log_softmax(self.b(torch.relu(self.a(x, edges)), edges), -1)


def pooled() -> Case:
    layers: Any = importlib.import_module(NN)

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g = layers.GraphSAGE(16, 16, num_layers=2, out_channels=16)
            self.pool = layers.TopKPooling(16, ratio=0.5)
            self.lin = nn.Linear(16, 3)

        def forward(self, x: Tensor, edges: Tensor, batch: Tensor) -> Any:
            x = self.g(x, edges)
            x, edges, _, batch, _, _ = self.pool(x, edges, batch=batch)
            return self.lin(layers.global_mean_pool(x, batch))

    return Case(Pooled(), (*graph(), torch.arange(NODES) // 10))


ENTRIES: Final[tuple[Entry, ...]] = (
    Entry("pyg.GATConv", "pyg", "local", lambda: Case(Attention(), graph()), train=True),
    Entry("pyg.GraphSAGE+pool", "pyg", "local", pooled, train=True),
)
