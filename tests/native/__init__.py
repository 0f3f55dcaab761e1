"""The native core, piece by piece."""
