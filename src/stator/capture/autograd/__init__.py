"""Gradients: `autograd.Function`, `backward`, hooks of tensors, the transforms of `torch.func`."""
