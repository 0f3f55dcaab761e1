"""Modules of the standard library that have state: contexts, files, locks, the system."""
