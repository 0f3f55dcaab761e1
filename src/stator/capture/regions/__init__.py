"""Regions: parts of a program that are graphs of their own inside of a graph."""
