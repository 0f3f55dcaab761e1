"""The graph being recorded: calls as nodes, torch's state, what goes wrong meanwhile."""
