"""Random numbers: drawn before the graph, or in it."""
