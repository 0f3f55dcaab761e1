"""Differential tests of the evaluator: every program runs natively and evaluated."""
