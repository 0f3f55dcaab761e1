"""What is not known while tracing, sizes and values that depend on data: compared with eager."""
