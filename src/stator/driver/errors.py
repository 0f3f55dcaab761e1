"""What the driver raises."""

from stator.capture.shapes import Specialized
from stator.diagnostics.places import shown


class RecompileError(RuntimeError):
    """A function was about to be compiled again, and that is not wanted (`error_on_recompile`)."""


class RecompileLimitError(RecompileError):
    """As many variants of a function as allowed are compiled already, and none fits the call."""


class SpecializedError(RuntimeError):
    """A size is marked as dynamic, and the program is right for one value only."""

    def __init__(self, label: object, broken: list[Specialized]) -> None:
        lines = [f"{label}: what is marked as dynamic is fixed by the program"]
        for each in broken:
            lines.append(f"  {each.why}")
            lines += [f"    {line}" for line in shown(each.places)]
        lines.append(
            "  fix: write the program for any size there, or use maybe_mark_dynamic, which asks "
            "for no more than is possible"
        )
        super().__init__("\n".join(lines))
