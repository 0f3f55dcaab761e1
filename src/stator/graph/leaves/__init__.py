"""What each callable of torch is to a trace: one node, Python code, an answer, a break."""
