"""Sizes and numbers that are left open or not known: symbols, what is assumed of them, checks."""
