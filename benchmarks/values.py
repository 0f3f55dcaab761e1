"""Tracing time with sizes that depend on values: a detector's loop over classes.

    python -m benchmarks.values [CLASSES ...]

For each class, boxes are kept by their score: masks, `topk`, clipping, small ones removed; then all
are put together. Both front ends get a backend that does nothing, and the CPU time of the first
call is the tracing time; `torch.compile` is told to capture such sizes. A ratio below 1 means that
stator is faster. Times per node should not grow with the number of classes.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx as fx
from torch import Tensor

import stator

DEFAULT: Final = (10, 20, 40, 91)
BOXES: Final = 200


def clipped(boxes: Tensor, height: float, width: float) -> Tensor:
    columns = boxes[..., 0::2].clamp(min=0, max=width)
    rows = boxes[..., 1::2].clamp(min=0, max=height)
    return torch.stack((columns, rows), dim=boxes.dim()).reshape(boxes.shape)


def large(boxes: Tensor, least: float) -> Tensor:
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return torch.where((widths >= least) & (heights >= least))[0]


def detections(
    boxes: Tensor, scores: Tensor, anchors: Tensor, threshold: float, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for label in range(scores.shape[1]):
        score = scores[:, label]
        keep = score > threshold
        score, index = score[keep], torch.where(keep)[0]
        score, order = score.topk(min(most, score.numel()))
        index = index[order]
        box = clipped(boxes[index] + anchors[index] * 0.5, 100.0, 100.0)
        kept = large(box, 0.01)
        box, score = box[kept], score[kept]
        found.append((box, score, torch.full_like(score, label, dtype=torch.int64)))
    box, score, labels = (torch.cat(each) for each in zip(*found, strict=True))
    best = score.sort(descending=True)[1][:100]
    return box[best], score[best], labels[best]


def measured(compiler: Callable[..., Any], classes: int) -> tuple[int, int, float]:
    """How many graphs, how many nodes, and seconds."""
    nodes: list[int] = []

    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        nodes.append(len(module.graph.nodes))
        return module.forward

    torch.manual_seed(0)
    given = torch.rand(BOXES, 4), torch.rand(BOXES, classes), torch.rand(BOXES, 4), 0.5, 10
    compiled = compiler(detections, backend=backend)
    began = time.process_time()
    result = compiled(*given)
    seconds = time.process_time() - began
    assert all(map(torch.equal, result, detections(*given)))
    return len(nodes), sum(nodes), seconds


def main(arguments: list[str]) -> None:
    dynamo: Any = torch._dynamo.config
    dynamo.capture_dynamic_output_shape_ops = dynamo.capture_scalar_outputs = True
    engines: dict[str, Callable[..., Any]] = {"torch": torch.compile, "stator": stator.compile}
    for compiler in engines.values():
        measured(compiler, 2)  # what is loaded and made once
    print(f"{'classes':>7}  {'engine':8} {'graphs':>6} {'nodes':>6} {'s':>7} {'ms/node':>8} ratio")
    for classes in map(int, arguments or DEFAULT):
        torch._dynamo.reset()
        stator.reset()
        base = 0.0
        for name, compiler in engines.items():
            graphs, nodes, seconds = measured(compiler, classes)
            each = seconds / max(nodes, 1)
            base = base or each
            row = f"{classes:7}  {name:8} {graphs:6} {nodes:6} {seconds:7.2f} {each * 1e3:8.2f}"
            print(f"{row} {each / base:5.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
