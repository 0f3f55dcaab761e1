"""Recompilation under the user's control: reasons, limits, isolation, stances, forgetting."""
