"""A small GPT, trained by several processes and compiled by stator:

    torchrun --nproc-per-node 2 examples/train_distributed.py --how ddp

`--how`: `ddp` (each process has all of the model), `fsdp` (parameters are sharded, each block is
compiled) or `eager` (as ddp, not compiled). Prints losses and times on rank 0, and in the end the
number of graphs on each rank. The losses are those of eager.
"""

import argparse
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import stator

SYMBOLS, LENGTH, WIDTH, HEADS, LAYERS = 64, 32, 64, 4, 3


class Block(nn.Module):
    """Attention, and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ask = nn.Linear(WIDTH, 3 * WIDTH)
        self.answer = nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.back = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.ask(self.first(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.answer(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        y: torch.Tensor = x + self.back(functional.gelu(self.wide(self.second(x))))
        return y


class GPT(nn.Module):
    """Predicts the next symbol of each text."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.symbols(text) + self.places(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = block(x)
        y: torch.Tensor = self.head(self.norm(x))
        return y


def distributed(how: str, backend: str) -> nn.Module:
    """The model, spread over the processes and compiled."""
    torch.manual_seed(0)
    model: Any = GPT()
    if how == "fsdp":
        for block in model.blocks:
            stator.compile_module_(block, backend=backend)
            fully_shard(block)
        fully_shard(model)
        return model
    compiled = stator.compile(model, backend=backend) if how == "ddp" else model
    return DistributedDataParallel(compiled)


def texts(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of texts that count up, each from somewhere and by some step; and what comes next."""
    start, step = torch.randint(0, SYMBOLS, (2, 8, 1), generator=generator)
    text = (start + (step % 5 + 1) * torch.arange(LENGTH + 1)) % SYMBOLS
    return text[:, :-1], text[:, 1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--how", choices=["ddp", "fsdp", "eager"], default="ddp")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--backend", default="inductor")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = distributed(given.how, given.backend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(given.steps):
        began = time.perf_counter()
        text, following = texts(generator)
        loss = functional.cross_entropy(model(text).flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        if rank == 0 and (step % 10 == 0 or step == given.steps - 1):
            seconds = time.perf_counter() - began
            print(f"step {step}: loss {mean:.4f}, {seconds:.3f} s", flush=True)
    told = stator.counters()
    print(
        f"rank {rank}: {told['unique_graphs']} graphs, {told['graph_breaks']} breaks, "
        f"{told['recompiles']} recompiles",
        flush=True,
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
