"""Iterators, generators and coroutines, also those from before the call."""
