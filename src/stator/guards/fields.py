"""A second name for a field of a class with slots.

Stage: guards. The native side reads `base` and `argument` of every source and check; the classes
name their fields for the reader (`of`, `name`, `cls` …). Giving the slot's own descriptor a second
name makes that as cheap as the field itself.
"""


def rename(cls: type, field: str, name: str) -> None:
    """`name` reads and means the same as `field` from now on."""
    setattr(cls, name, getattr(cls, field))
