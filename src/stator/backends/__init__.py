"""Backends turn a graph into a callable. Importing this package loads none of them."""

from .errors import BackendError, UnknownBackendError
from .registry import Backend, Compiled, check, list_backends, lookup, register_backend

__all__ = [
    "Backend",
    "BackendError",
    "Compiled",
    "UnknownBackendError",
    "check",
    "list_backends",
    "lookup",
    "register_backend",
]
