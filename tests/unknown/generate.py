"""Random programs whose sizes, values and branches depend on the data that they get.

Comes in: a seed. Goes out: a `Generated`, the source of a function and the arguments of its calls.
A program is a list of statements over variables whose kinds are known: tensors of one dimension
(`a`), of two (`b`), of integers (`i`), ints (`n`), floats (`r`), lists (`l`). Sizes are not known,
and operators are not asked whether they accept them: what eager raises must be raised, too.
Programs from number `WIDE` on have more words (`wide`), and a `state` of their own; those from
`DOMAINS` on consist for the most part of what real programs do (`domains`, `further`).
"""

import bisect
import collections
import functools
import heapq
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812

import stator

from . import domains, further, wide

WIDE: Final = 1_000_000
DOMAINS: Final = 2_000_000
_INDENT: Final = "    "
# kind of the result -> expressions; {a} is a variable of that kind, {c} a small number.
EXPRESSIONS: Final[dict[str, tuple[str, ...]]] = {
    "a": (
        "{a}[{a} > {m}]",
        "{a}[{a} >= {n}]",
        "torch.masked_select({a}, {a} < {m})",
        "{a}[({a} > {m}).nonzero().squeeze(1)]",
        "{a}[torch.where({a} <= {m})[0]]",
        "torch.unique({a})",
        "{a}[:{n}]",
        "{a}[{n}:]",
        "{a}[1:]",
        "{a}[::2]",
        "{a}[: {a}.numel() // 2]",
        "{a}[-{c}:]",
        "{a}.topk(min({c}, {a}.numel()))[0]",
        "{a}.sort()[0]",
        "{a}.flip(0)",
        "{a} * 2",
        "{a} + {a}",
        "{a} - {r}",
        "{a} * {n}",
        "{a}.cumsum(0)",
        "torch.cat([{a}, {a}])",
        "torch.cat([{a}, x])",
        "{a}.repeat(2)",
        "{a}.repeat_interleave(2)",
        "{a}.clone().add_(1)",
        "{a}.reshape(-1)",
        "{b}.flatten()",
        "{b}.sum(0)",
        "{b}.sum(1)",
        "{b}[:, 0]",
        "{b}[0]",
        "{b}.mean(1)",
        "x[{i}]",
        "{i}.float()",
        "torch.zeros({n}) + 1",
        "torch.arange({n}).float()",
        "{a}.new_zeros({a}.shape)",
        "torch.zeros_like({a})",
        "torch.zeros(8).index_add(0, {i}.clamp(0, 7), torch.ones_like({i}).float())",
        "torch.zeros(8).scatter(0, {i}.clamp(0, 7), 1.0)",
        "torch.nn.functional.pad({a}, (0, {n}))",
        "{a}.softmax(0)",
        "torch.where({a} > {m}, {a}, {a} * 2)",
        "{a}.split(2)[0]",
        "{a}.chunk(2)[0]",
        "{a}.narrow(0, 0, min({c}, {a}.numel()))",
        "{a}.expand_as({a})",
        "{a}.masked_fill({a} > {m}, 0.0)",
        "{a}.max().reshape(1)",
        "{b}.max(0)[0]",
        "{b}.squeeze(1)",
        "{b}.view(-1)",
        "torch.tensor({l})",
        "torch.as_tensor([{n}, 2.0])",
        "torch.dot({a}, {a}).reshape(1)",
        "{a}.roll(1)",
        "{a}.unflatten(0, (-1, 1)).squeeze(1)",
    ),
    "b": (
        "{b}[{b}[:, 0] > {m}]",
        "{b}[{a} > {m}]",
        "{b}[:{n}]",
        "{b}.t()",
        "{b}.transpose(0, 1).contiguous()",
        "{b} * 2",
        "{b} + {a}",
        "{b} + {b}",
        "{b} @ {b}.t()",
        "torch.cat([{b}, {b}])",
        "torch.cat([{b}, y])",
        "torch.stack([{a}, {a}])",
        "torch.stack([{a}, {a}], 1)",
        "{a}.unsqueeze(0)",
        "{a}.unsqueeze(1)",
        "{a}.reshape(-1, 1)",
        "{a}.view(1, -1)",
        "{a}.expand(2, -1)",
        "{a}[:, None] * {a}",
        "{b}[:, :1]",
        "{b}.repeat(1, 2)",
        "{b}.reshape(-1, 2)",
        "{b}.clone().mul_(2)",
        "{b}.softmax(1)",
        "torch.nn.functional.one_hot({i}.clamp(0, 4), 5).float()",
        "{b}.index_select(0, torch.arange({b}.shape[0]))",
        "y[{i}.clamp(0, y.shape[0] - 1)]",
        "torch.zeros({n}, 2)",
        "torch.cdist({b}, {b})",
        "{b}.new_ones({b}.shape[0], 1)",
    ),
    "i": (
        "({a} > {m}).nonzero().squeeze(1)",
        "({a} > {m}).nonzero()[:, 0]",
        "({a} > {m}).nonzero().squeeze()",
        "torch.where({a} > {m})[0]",
        "{a}.long()",
        "{i}[{i} > {n}]",
        "{i}[{i} != {c}]",
        "torch.unique({i})",
        "torch.unique_consecutive({i})",
        "{i}[1:]",
        "{a}.argsort()",
        "torch.arange({n})",
        "torch.arange({a}.shape[0])",
        "torch.bincount({i}.clamp(0, 4))",
        "torch.cat([{i}, k])",
        "{i} + {n}",
        "{i}.sort()[0]",
        "torch.tensor([{n}, {n}])",
    ),
    "n": (
        "{a}.numel()",
        "len({a})",
        "{b}.shape[0]",
        "{b}.size(1)",
        "{i}.numel()",
        "({a} > {m}).sum().item()",
        "int({a}.sum())",
        "int(({a} > {m}).sum())",
        "{i}[0].item()",
        "{i}.max().item()",
        "k[0].item() + {c}",
        "{n} + {c}",
        "{n} * 2",
        "{n} // 2",
        "{n} % 3",
        "min({n}, {c})",
        "max({n}, {c})",
        "{n} - {n}",
        "abs({n})",
        "{a}.dim()",
        "({a} > {m}).any().item() + 0",
        "{l}.__len__()",
        "{c}",
        "p",
        "p + 1",
    ),
    "r": (
        "{a}.sum().item()",
        "{a}.mean().item()",
        "float({n})",
        "{n} / 2",
        "{r} * 2",
        "{r} + {n}",
        "{a}.max().item()",
        "{c}.5",
    ),
    "l": (
        "{a}.tolist()",
        "{i}.tolist()",
        "[{n}, {n}]",
        "[{r}]",
        "list({a}.shape)",
        "[t.sum() for t in {b}]",
        "[t.numel() for t in {a}.split(2)]",
        "{l} + [{n}]",
        "{l}[:{c}]",
        "sorted([{n}, {c}])",
        "[{a}.stride(), {a}.is_contiguous()]",
        "[{b}.stride(), {b}.is_contiguous()]",
    ),
}
CONDITIONS: Final = (
    "{n} > {c}",
    "{n} == {c}",
    "{n} == {n}",
    "{n} == p + {c}",
    "{n}",
    "len({a}) > {c}",
    "{a}.numel() > 0",
    "{a}.numel() == {c}",
    "{a}.shape[0] == {a}.shape[0]",
    "{a}.shape == {a}.shape",
    "{a}.is_same_size({a})",
    "{a}.dim() == 1",
    "{i}.dim() == 1",
    "{i}.squeeze(0).dim() == 1",
    "{a}.squeeze(0).dim() == 1",
    "{b}.squeeze().dim() == 2",
    "{b}.is_contiguous()",
    "{b}.t().is_contiguous()",
    "{b}.stride()[0] == {c}",
    "{a}.sum() > {r}",
    "({a} > {m}).any()",
    "({a} > {m}).all()",
    "{r} > {c}",
    "{b}.shape[0] < {b}.shape[1]",
    "{c} < {n} < 4",
    "{n} in (0, 1)",
    "not {n}",
    "torch.equal({a}, {a})",
    "{l}",
    "len({l}) > {c}",
)
STATEMENTS: Final = (
    "{b}.mul_(2)",
    "{a}.add_(1)",
    "x.add_({n})",
    "y[:1] = {c}.0",
    "x[:{n}] = 0.0",
    "x[x > {m}] = {r}",
    "x.masked_fill_(x > {m}, 1.0)",
    "{l}.append({n})",
    "{l}.append({a})",
    "assert {n} >= 0",
    "if {n} > 3: raise ValueError('more than three')",
    "kept.append({n})",
    "kept.append({a}.shape)",
)
LOOPS: Final = (
    ("while {a}.numel() > {c}:", "{a} = {a}[1:]", "kept.append({a}[0].item())"),
    ("while {i}.numel() > 0:", "{i} = {i}[1:]", "{i} = {i}[{i} >= {c}]"),
    ("while {a}.numel() > {c}:", "{a} = {a}[{a} > {a}.min()]"),
    ("for t in {l}[:3]:", "kept.append(t)"),
    ("for t in range(min({n}, 3)):", "{a} = {a} + t"),
    ("for t in range({n} % 4):", "kept.append({a}.sum())"),
    ("for t in {b}[:3]:", "{a} = {a} + t.sum()"),
    ("for t in {a}:", "kept.append(t * 2)"),
)


@dataclass(frozen=True)
class Vocabulary:
    """What a program may consist of."""

    expressions: dict[str, tuple[str, ...]]
    conditions: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...] = ()
    share: float = 0.0  # of blocks among the statements


_PLAIN: Final = Vocabulary(EXPRESSIONS, CONDITIONS)
_WIDE: Final = Vocabulary(
    {kind: (*EXPRESSIONS.get(kind, ()), *more) for kind, more in wide.EXPRESSIONS.items()},
    (*CONDITIONS, *wide.CONDITIONS),
    wide.BLOCKS,
)
_DOMAINS: Final = Vocabulary(
    _WIDE.expressions, _WIDE.conditions, (*domains.BLOCKS, *further.BLOCKS), 0.6
)


class State:
    """What a program keeps between its calls."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[Any] = []
        self.memory = torch.ones(6)
        torch.manual_seed(0)
        self.norm = torch.nn.BatchNorm1d(2)
        self.linear = torch.nn.Linear(2, 2)
        self.rnn = torch.nn.RNN(2, 2, batch_first=True)

    def values(self) -> list[Any]:
        """What its layers hold."""
        layers = (self.norm, self.linear)
        return [value.tolist() for layer in layers for value in layer.state_dict().values()]


def doubled(gradient: torch.Tensor) -> torch.Tensor:
    """A hook."""
    return gradient * 2


def squared(x: torch.Tensor) -> torch.Tensor:
    """What a checkpoint computes again."""
    return x * x.exp()


@dataclass(frozen=True)
class Generated:
    """A program and how to call it."""

    seed: int
    source: str
    grad: bool

    def function(self) -> Any:
        namespace: dict[str, Any] = {
            "torch": torch,
            "F": F,
            "math": math,
            "random": random,
            "itertools": itertools,
            "functools": functools,
            "collections": collections,
            "heapq": heapq,
            "bisect": bisect,
            "stator": stator,
            "doubled": doubled,
            "squared": squared,
            "state": State(),
        }
        exec(compile(self.source, f"<program {self.seed}>", "exec"), namespace)
        return namespace["f"]

    def calls(self, count: int = 8) -> Iterator[tuple[Any, ...]]:
        """Arguments: `x` and `y` floats, `k` integers, `m` a threshold, `p` an int."""
        draw = random.Random(self.seed)
        rows, n, classes = draw.randint(2, 6), draw.randint(3, 6), 3
        for _ in range(count):
            if draw.random() < 0.15:
                n = draw.randint(1, 6)
            if self.seed >= DOMAINS:
                rows = classes = n
            x = torch.tensor([float(draw.randint(-2, 4)) for _ in range(n)])
            y = torch.tensor([[float(draw.randint(-2, 4)) for _ in range(2)] for _ in range(rows)])
            k = torch.tensor([draw.randint(0, 3) for _ in range(classes)])
            if self.grad:
                x.requires_grad_()
            yield x, y, k, draw.choice((-9, 0, 1, 2, 3, 9)), draw.randint(0, 4)


def generate(seed: int) -> Generated:
    return _Writer(seed).program()


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draw = random.Random(seed)
        self._words = _PLAIN if seed < WIDE else _WIDE if seed < DOMAINS else _DOMAINS
        self._names = {"a": ["x"], "b": ["y"], "i": ["k"], "n": ["p"], "r": ["0.5"], "l": ["[p]"]}
        if self._words.blocks:
            self._names |= {"t": ["[x]"], "d": ["dict(a=p)"]}
        self._made = 0
        self._lines: list[str] = []

    def program(self) -> Generated:
        grad = self._draw.random() < 0.3
        self._lines = ["def f(x, y, k, m, p):", _INDENT + "kept = []"]
        if grad:
            self._lines.append(_INDENT + "x = x * 1.0")
        most = 7 if self._words is not _DOMAINS else 4  # blocks are long
        for _ in range(self._draw.randint(2, most)):
            self._statement(1)
        kinds = self._draw.sample(sorted(self._names), 4)
        results = [self._names[kind][-1] for kind in kinds]
        self._lines.append(f"{_INDENT}return kept, {', '.join(results)}")
        return Generated(self._seed, "\n".join(self._lines) + "\n", grad)

    def _statement(self, depth: int) -> None:
        if self._words.share and self._draw.random() < self._words.share:
            self._block(depth)
            return
        drawn = self._draw.random()
        if drawn < 0.62 or depth > 2:
            self._assignment(depth)
        elif self._words.blocks and self._draw.random() < 0.5:
            self._block(depth)
        elif drawn < 0.72:
            self._add(depth, self._filled(self._draw.choice(STATEMENTS)))
        elif drawn < 0.90:
            self._branch(depth)
        else:
            self._loop(depth)

    def _assignment(self, depth: int) -> None:
        kind = self._draw.choice("aaaabbbiinnrltd" if self._words.blocks else "aaaabbbiinnrl")
        value = self._filled(self._draw.choice(self._words.expressions[kind]))
        self._made += 1
        name = f"{kind}{self._made}"
        self._add(depth, f"{name} = {value}")
        self._names[kind].append(name)

    def _branch(self, depth: int) -> None:
        self._add(depth, f"if {self._filled(self._draw.choice(self._words.conditions))}:")
        self._changes(depth + 1)
        if self._draw.random() < 0.6:
            self._add(depth, "else:")
            self._changes(depth + 1)

    def _changes(self, depth: int) -> None:
        """Statements that give variables which are there another value, or leave."""
        if self._draw.random() < 0.25:
            kind = self._draw.choice("abinr")
            self._add(
                depth,
                f"return {self._filled(self._draw.choice(self._words.expressions[kind]))}, kept",
            )
            return
        for _ in range(self._draw.randint(1, 2)):
            kind = self._draw.choice("aabin")
            names = [name for name in self._names[kind] if name.isidentifier()]
            value = self._filled(self._draw.choice(self._words.expressions[kind]))
            self._add(depth, f"{self._draw.choice(names)} = {value}")

    def _block(self, depth: int) -> None:
        lines = self._draw.choice(self._words.blocks)
        names = {kind: self._pick(kind) for kind in self._names}
        fields = {**names, "m": self._draw.choice(("m", "1"))}
        if self._words is _DOMAINS:
            fields["c"] = str(self._draw.randint(0, 3))
        for line in lines:
            self._add(depth, line.format(**fields))

    def _loop(self, depth: int) -> None:
        head, *body = self._draw.choice(LOOPS)
        names = {kind: self._pick(kind) for kind in "abinrl"}
        numbers = {"c": self._draw.randint(0, 2), "m": self._draw.choice(("m", "1"))}
        self._add(depth, head.format(**names, **numbers))
        for line in body:
            self._add(depth + 1, line.format(**names, **numbers))
        self._add(depth + 1, "if len(kept) > 12: break")
        if self._draw.random() < 0.3:
            self._changes(depth + 1)
            self._add(depth + 1, "if len(kept) > 8: break")
            self._add(depth + 1, "kept.append(0)")

    def _filled(self, template: str) -> str:
        """Each field by a variable of its own."""
        parts = template.split("{")
        made = parts[0]
        for part in parts[1:]:
            kind, _, rest = part.partition("}")
            if kind == "c":
                made += str(self._draw.randint(0, 3))
            elif kind == "m":
                made += self._draw.choice(("m", "m", "1", "p"))
            else:
                made += self._pick(kind)
            made += rest
        return made

    def _pick(self, kind: str) -> str:
        names = self._names[kind]
        recent = names[-3:]
        return self._draw.choice(recent if self._draw.random() < 0.8 else names)

    def _add(self, depth: int, line: str) -> None:
        self._lines.append(_INDENT * depth + line)
