"""What is done to a finished graph, and around it, before a backend compiles it."""
