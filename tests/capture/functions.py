# mypy: ignore-errors
"""Functions with a backward of their own, which is not what torch would find."""

import torch


class Square(torch.autograd.Function):
    """As `torch.func` wants it."""

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0]


class SquareAtOnce(torch.autograd.Function):
    """What is saved is said in `forward`."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0]
