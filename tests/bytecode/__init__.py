"""Tests of `stator.bytecode`: the running Python and its `dis` are the oracle."""
