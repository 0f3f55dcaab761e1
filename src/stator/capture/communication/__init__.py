"""Other processes: groups of them, and collectives as nodes of the graph."""
