"""Sizes and ints that change: what is left open, and for what the compiled code is right."""
