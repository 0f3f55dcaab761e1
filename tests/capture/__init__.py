"""Differential tests of capture: each program run in eager and compiled."""
