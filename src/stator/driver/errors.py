"""What the driver raises."""

from stator.capture.numbers.assumptions import Specialized
from stator.diagnostics.places import Place, shown
from stator.driver.ledger import Recompile


class RecompileError(RuntimeError):
    """A function was about to be compiled, and that is not wanted.

    So it is with `error_on_recompile`, and with the stance "fail_on_recompile". `why` tells for
    each entry which guard fails.
    """

    def __init__(self, text: str, why: Recompile | None = None) -> None:
        super().__init__(text)
        self.why = why


class RecompileLimitError(RecompileError):
    """As many variants of a function as allowed are compiled already, and none fits the call."""


class SpecializedError(RuntimeError):
    """A size is marked as dynamic, and the program is right for one value only."""

    def __init__(self, label: object, broken: list[Specialized]) -> None:
        lines = [f"{label}: what is marked as dynamic is fixed by the program"]
        for each in broken:
            lines.append(f"  {each.why}")
            lines += [f"    {line}" for line in shown(each.places)]
        lines += [f"  fix: {fix}" for fix in dict.fromkeys(each.fix for each in broken)]
        super().__init__("\n".join(lines))


class SideEffectError(RuntimeError):
    """A function changes an object that existed before, and `side_effect_policy` is "error".

    `effect` says in words what is changed, `place` in which line, if that is known. Nothing has
    been changed.
    """

    def __init__(self, text: str, effect: str = "", place: Place | None = None) -> None:
        super().__init__(text)
        self.effect = effect
        self.place = place
