"""Programs whose compiles are counted (`benchmarks.compile_counts.__main__`)."""
