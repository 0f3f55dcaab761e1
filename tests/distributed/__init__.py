"""More than one process: real ones, over gloo on this machine."""
