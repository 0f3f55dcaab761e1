"""Programs written for this zoo in plain torch: what users do around models.

Their Python is the point: a tensor as the bound of a slice, a loop that stops on data, an
environment with state, an optimizer step, generators, locks and loggers.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.case import Case, Entry, ids


class CachedAttention(nn.Module):
    k: Tensor
    v: Tensor

    def __init__(self, width: int = 32, heads: int = 4, length: int = 32) -> None:
        super().__init__()
        self.qkv, self.o, self.h = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.register_buffer("k", torch.zeros(1, heads, length, width // heads))
        self.register_buffer("v", torch.zeros(1, heads, length, width // heads))

    def forward(self, x: Tensor, pos: Tensor) -> Any:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.h, -1).transpose(1, 2) for t in self.qkv(x).split(width, -1)
        )
        self.k[:, :, pos] = k
        self.v[:, :, pos] = v
        end: Any = pos[-1] + 1  # a 0-d tensor: the bound of a slice depends on data
        k, v = self.k[:, :, :end], self.v[:, :, :end]
        m = torch.arange(end)[None] <= pos[:, None]
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m)
        return self.o(y.transpose(1, 2).reshape(batch, length, width))


class CachedGPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(99, 32)
        self.n = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
        self.a = nn.ModuleList(CachedAttention() for _ in range(2))
        self.m = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32)) for _ in range(2)
        )
        self.h = nn.Linear(32, 99)

    def forward(self, x: Tensor, pos: Tensor) -> Any:
        x = self.e(x)
        for n, a, m in zip(self.n, self.a, self.m):  # noqa: B905
            x = x + a(n(x), pos)
            x = x + m(x)
        return self.h(x)


def decode_tensor_position() -> Case:
    model = CachedGPT()

    def step(x: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        logits = model(x, pos)
        p = torch.softmax(logits[:, -1] / 0.8, -1)
        following = torch.argmax(p / torch.empty_like(p).exponential_(1), -1, keepdim=True)
        return following, p

    def drive(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, outputs = args[0], []
        with torch.no_grad():
            pos = torch.arange(x.shape[1])
            for _ in range(6):
                x, p = fn(x, pos)
                pos = pos[-1:] + 1
                outputs += [x.clone(), p]
        return outputs

    return Case(step, (ids(1, 5),), {}, drive, model)


def generate_until_end() -> Case:
    model = CachedGPT()

    def generate(x: Tensor) -> Tensor:
        pos = torch.arange(x.shape[1])
        out = [x]
        current = x
        for _ in range(5):
            logits = model(current, pos)
            current = logits[:, -1:].argmax(-1)
            out.append(current)
            pos = pos[-1:] + 1
            if (current == 2).all():  # stops on data
                break
        return torch.cat(out, 1)

    def drive(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch.no_grad():
            return fn(*args)

    return Case(generate, (ids(1, 5),), {}, drive, model)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True)
        self.o = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.l(x)
        return self.o(y[:, -1]), h, c


def transformer() -> Case:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)
    args = torch.randn(2, 10, 32), torch.randn(2, 6, 32)
    return Case(model, args, {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(6)})


class Environment:
    def __init__(self) -> None:
        self.s, self.t = torch.zeros(4), 0
        self.log: list[tuple[int, Any, float]] = []

    def step(self, action: Any) -> tuple[Tensor, float, bool, dict[str, int]]:
        self.t += 1
        self.s = self.s * 0.9 + torch.tensor([0.1, -0.1, 0.2, 0.05]) * (1 if action else -1)
        reward = float(self.s.abs().sum())
        self.log.append((self.t, action, reward))
        return self.s, reward, self.t >= 8 or reward > 2.0, {"t": self.t}


def rollout() -> Case:
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))

    def run(steps: int = 8) -> tuple[Tensor, Tensor, int]:
        environment, total, chosen = Environment(), 0.0, []
        state, info = environment.s, {"t": 0}
        for _ in range(steps):
            likelihoods = torch.log_softmax(policy(state), -1)
            action: Any = likelihoods.argmax().item()
            chosen.append(likelihoods[action])
            state, reward, done, info = environment.step(action)
            total = total * 0.99 + reward
            if done:
                break
        rewards = torch.tensor([entry[2] for entry in environment.log])
        return torch.stack(chosen).sum() * total, rewards, info["t"]

    return Case(run, module=policy)


def train_step() -> Case:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach(), norm

    def drive(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        steps = [fn(*args) for _ in range(2)]
        return steps + [p.detach().clone() for p in model.parameters()]

    return Case(step, (torch.randn(4, 8), torch.randn(4, 1)), {}, drive, model)


def logging_lock_generator() -> Case:
    log, lock = logging.getLogger("zoo"), threading.Lock()
    model = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
    counts: dict[str, int] = {}

    @contextlib.contextmanager
    def counted(key: str) -> Iterator[None]:
        counts[key] = counts.get(key, 0) + 1
        yield

    def layers() -> Iterator[tuple[int, nn.Module]]:
        for i, layer in enumerate(model):  # noqa: UP028
            yield i, layer

    def run(x: Tensor) -> tuple[Tensor, dict[str, int]]:
        for i, layer in layers():
            with lock, counted(f"l{i}"):
                x = torch.relu(layer(x))
            log.debug("layer %d mean %s", i, x.shape)
        return x, dict(counts)

    return Case(run, (torch.randn(4, 8),), module=model)


ENTRIES: Final[tuple[Entry, ...]] = (
    Entry("gptfast.decode_tensor_pos", "torch", "local:tensor-slice", decode_tensor_position),
    Entry("gptfast.generate_until_eos", "torch", "local:data_dep-loop", generate_until_end),
    Entry(
        "torch.LSTM",
        "torch",
        "local",
        lambda: Case(Recurrent(), (torch.randn(2, 10, 16),)),
        train=True,
    ),
    Entry("torch.nn.Transformer", "torch", "local", transformer, train=True),
    Entry("toy.rl_env_rollout", "torch", "local:python-state+item", rollout),
    Entry("toy.train_step_sgd_clip", "torch", "local:backward-in-graph", train_step),
    Entry(
        "toy.logging_lock_generator", "torch", "local:logger+lock+generator", logging_lock_generator
    ),
)
