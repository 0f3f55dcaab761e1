"""Numbers and sizes that are left open, or that only the graph knows."""
