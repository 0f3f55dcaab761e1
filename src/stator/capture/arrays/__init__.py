"""numpy's arrays, functions and scalars."""
