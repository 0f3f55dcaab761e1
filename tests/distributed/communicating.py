"""Checks of collectives in graphs: values, order and the number of graphs, next to eager."""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn
from torch import nn

import stator
from stator.distributed.digest import exchanges_of

BACKENDS = os.environ.get("BACKENDS", "eager aot_eager").split()


def given() -> torch.Tensor:
    return torch.arange(4.0) * (dist.get_rank() + 1) + 1


def compare(
    program: Callable[..., Any], graphs: int, breaks: int, *names: str, make: Any = given
) -> None:
    """Each rank must see what it sees in eager, bit by bit, and so many graphs and breaks."""
    plain = make()
    expected = program(plain)
    for backend in BACKENDS:
        argument = make()
        told = stator.explain(program, backend=backend)(argument)
        same(told.result, expected)
        same(argument, plain)
        assert len(told.ops_per_graph) == graphs, (backend, told.ops_per_graph)
        assert len(told.breaks) == breaks, (backend, told.breaks)
        for name in names:
            assert any(name in each for ops in told.ops_per_graph for each in ops), name


def same(a: Any, b: Any) -> None:
    if isinstance(b, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(a + 0, b + 0), (a, b)
    elif isinstance(b, list | tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    else:
        assert a == b


def check_functional() -> None:
    group: Any = dist.group.WORLD
    n = dist.get_world_size()

    def program(x: torch.Tensor) -> Any:
        a = functional.all_reduce(x * 2, "sum", group)
        b = functional.all_gather_tensor(x, 0, group)
        c = functional.reduce_scatter_tensor(torch.cat([x] * n), "max", 0, group)
        d = functional.broadcast(x, n - 1, group)
        return a + 1, b.sin(), c * 2, d + 0

    compare(program, 1, 0, "all_reduce", "all_gather_into_tensor", "reduce_scatter", "broadcast")


def check_several_at_once() -> None:
    """torch 2.15 waits for them together, which is no collective."""
    group: Any = dist.group.WORLD
    graphs: list[torch.fx.GraphModule] = []

    def program(x: torch.Tensor) -> Any:
        a, b = functional.all_reduce_coalesced([x, x * 2], "sum", group)
        return a + b

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph

    same(stator.compile(program, backend=keep)(given()), program(given()))
    everyone = ",".join(map(str, range(dist.get_world_size())))
    for graph in graphs:
        assert set(exchanges_of(graph)) <= {everyone}


def check_in_place() -> None:
    n = dist.get_world_size()

    def program(x: torch.Tensor) -> Any:
        y = x * 2
        dist.all_reduce(y)
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y)
        whole = torch.empty(n * len(x))
        dist.all_gather_into_tensor(whole, x)
        mine = torch.empty_like(x)
        dist.reduce_scatter_tensor(mine, torch.cat([x + k for k in range(n)]))
        other = torch.empty_like(x)
        dist.reduce_scatter(other, [x * k for k in range(n)], dist.ReduceOp.SUM)
        wide = torch.cat([x] * n)
        swapped = torch.empty_like(wide)
        dist.all_to_all_single(swapped, wide)
        z = x.clone()
        dist.broadcast(z, src=n - 1)
        return y, parts, whole, mine, other, swapped, z

    compare(program, 1, 0, "all_to_all_single", "copy_")


def check_begun_and_waited_for() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x * 2
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        first = dist.all_reduce(y, async_op=True)
        second = dist.all_gather(parts, x, async_op=True)
        z = x.sin()
        assert first is not None and second is not None
        first.wait()
        first.wait()
        second.wait()
        return y + z, parts

    compare(program, 1, 0, "wait_tensor")
    told = stator.explain(program)(given())
    ops = told.ops_per_graph[0]
    assert ops.index("sin") < ops.index("wait_tensor.default"), ops


def check_handles_that_stay() -> None:
    kept = []

    def leaves(x: torch.Tensor) -> Any:
        y = x * 2
        kept.append(dist.all_reduce(y, async_op=True))
        return y

    def across(x: torch.Tensor) -> Any:
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        dist.barrier()
        assert work is not None
        work.wait()
        return y

    plain = leaves(given())
    compiled = stator.compile(leaves, backend="eager")(given())
    for work in kept:
        assert isinstance(work, dist.Work)
        work.wait()
    same(compiled, plain)
    compare(across, 1, 2)


def check_a_handle_is_a_handle() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        if isinstance(work, dist.Work) and work:
            work.wait()
        return y, type(work).__name__, hasattr(work, "wait")

    compare(program, 1, 0, "all_reduce")


def check_without_dimensions_or_elements() -> None:
    def program(x: torch.Tensor) -> Any:
        total = x.sum()
        parts = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, total)
        dist.all_reduce(total)
        nothing = [torch.ones(0, 3) for _ in range(dist.get_world_size())]
        dist.all_gather(nothing, torch.zeros(0, 3))
        return total, parts, nothing

    compare(program, 1, 0, "all_gather")


def check_between_graphs() -> None:
    n = dist.get_world_size()

    def waits(x: torch.Tensor) -> Any:
        y = x + 1
        dist.barrier()
        return y * dist.get_rank()

    def objects(x: torch.Tensor) -> Any:
        found: list[Any] = [None] * n
        dist.all_gather_object(found, {"rank": dist.get_rank()})
        return x + found[-1]["rank"]

    def sends(x: torch.Tensor) -> Any:
        if dist.get_rank() == 0:
            dist.send(x * 2, 1)
        elif dist.get_rank() == 1:
            dist.recv(x, 0)
        return x + 1

    compare(waits, 2, 1)
    compare(objects, 1, 1)
    graphs = 2 if dist.get_rank() == 0 else 1
    compare(sends, graphs, int(dist.get_rank() < 2))


def check_only_one_rank_uses_it() -> None:
    def program(x: torch.Tensor) -> Any:
        y = x * 1.0
        dist.all_reduce(y)
        return y if dist.get_rank() == 0 else x

    compare(program, 1, 0, "all_reduce")


def check_groups_are_constants() -> None:
    ranks = list(range(dist.get_world_size()))
    some = dist.new_group(ranks)

    def program(x: torch.Tensor) -> Any:
        if dist.is_initialized() and dist.get_rank(some) == 0:
            x = x * dist.get_world_size(some)
        dist.all_reduce(x, group=some)
        return x + dist.get_process_group_ranks(some)[-1]

    compare(program, 1, 0)
    compiled = stator.compile(program, backend="eager")
    same(compiled(given()), program(given()))
    dist.destroy_process_group(some)
    some = dist.new_group(ranks[::-1])
    same(compiled(given()), program(given()))


def check_gradients() -> None:
    group: Any = dist.group.WORLD
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))

    def program(x: torch.Tensor) -> Any:
        y = model(x)
        return functional.all_reduce(y, "sum", group).pow(2).sum() + model(x * 2).sum()

    def gradients(call: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
        x = given().requires_grad_()
        loss = call(x)
        made = torch.autograd.grad(loss, [x, *model.parameters()])
        return [loss.detach() + 0, *made]

    expected = gradients(program)
    for backend in BACKENDS:
        same(gradients(stator.compile(program, backend=backend, fullgraph=True)), expected)


def check_communication_that_is_differentiated() -> None:
    """Of `torch.distributed.nn`, which raises under a compiler."""

    all_reduce: Any = torch.distributed.nn.functional.all_reduce

    def program(x: torch.Tensor) -> Any:
        return all_reduce(x * 2) * x

    found = []
    for backend in (None, *BACKENDS):
        x = given().requires_grad_()
        if backend is None:
            program(x).sum().backward()
        else:
            told = stator.explain(program, backend=backend)(x)
            result: Any = told.result
            result.sum().backward()
            assert len(told.breaks) == 1 and len(told.ops_per_graph) == 2, told.breaks
        found.append(x.grad)
    for each in found[1:]:
        same(each, found[0])


def check_gradients_that_nobody_computes() -> None:
    """What eager does not differentiate: the value is reduced, its gradient is that of before."""

    def program(x: torch.Tensor) -> Any:
        y = x * 2
        dist.all_reduce(y)
        return (y * y).sum()

    def gradient(call: Callable[..., torch.Tensor]) -> Any:
        x = given().requires_grad_()
        loss = call(x)
        loss.backward()  # type: ignore[no-untyped-call]
        return [loss.detach(), x.grad]

    same(gradient(stator.compile(program, backend="aot_eager")), gradient(program))


def check_errors_of_eager() -> None:
    def program(x: torch.Tensor) -> Any:
        dist.all_reduce(x, 1, 2, 3, 4)  # type: ignore[call-arg, arg-type]

    def described(call: Callable[..., Any]) -> tuple[type, str]:
        try:
            call(given())
        except Exception as error:
            return type(error), str(error)
        raise AssertionError("nothing was raised")

    assert described(stator.compile(program, backend="eager")) == described(program)


def check_averaged_gradients() -> None:
    """A training loop with collectives of its own, compiled as two functions."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)

    def average() -> None:
        for each in model.parameters():
            assert each.grad is not None
            dist.all_reduce(each.grad)
            each.grad /= dist.get_world_size()

    def train(step: Callable[[], None]) -> list[torch.Tensor]:
        model.zero_grad()
        model(given()).sum().backward()
        step()
        return [each.grad.clone() for each in model.parameters() if each.grad is not None]

    expected = train(average)
    same(train(stator.compile(average, backend="aot_eager", fullgraph=True)), expected)
