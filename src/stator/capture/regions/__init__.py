"""Bodies that are graphs of their own, and operators that take such: `torch.cond` and others."""
