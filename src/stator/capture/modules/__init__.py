"""Calls of `nn.Module`s that are under way, and their hooks."""
