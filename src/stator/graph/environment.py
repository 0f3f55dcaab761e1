"""torch's `ShapeEnv`, which does not try for long to prove things.

Before it looks at the value of a condition on sizes, torch tries to find out by algebra whether it
always holds. For expressions of some length (windows of a padded picture) that takes seconds each
and rarely succeeds. Here, what is long is not tried: it becomes an assumption at once, and a guard
like others, which is as right.
"""

from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch.fx.experimental.symbolic_shapes import ShapeEnv

_ANSWERS: Final[Any] = ShapeEnv._maybe_evaluate_static
_LONG: Final = 32  # symbols, numbers and operators


class Environment(ShapeEnv):  # type: ignore[misc, unused-ignore]  # torch may be absent
    """The symbols of one trace."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._lengths: dict[sympy.Basic, bool] = {}

    def simplify(self, expr: Any, size_oblivious: bool = False) -> Any:  # type: ignore[override, unused-ignore]
        if self._is_long(expr):
            return self.replace(expr)
        return super().simplify(expr, size_oblivious)

    def _maybe_evaluate_static(self, expr: Any, **how: Any) -> Any:  # type: ignore[override, unused-ignore]
        if not how.get("unbacked_only") and not how.get("compute_hint") and self._is_long(expr):
            return None
        return super()._maybe_evaluate_static(expr, **how)

    # torch remembers its answers, and forgets them so.
    _maybe_evaluate_static.cache_clear = _ANSWERS.cache_clear  # type: ignore[attr-defined]

    def _is_long(self, expr: Any) -> bool:
        """Whether it is long, and all its symbols have values, which decide as well."""
        known = self._lengths.get(expr)
        if known is None:
            known = self._lengths[expr] = (
                _is_longer(expr, _LONG) and expr.free_symbols <= self.backed_var_to_val.keys()
            )
        return known


def _is_longer(expr: Any, most: int) -> bool:
    left = [expr]
    while left and most >= 0:
        most -= 1
        left += left.pop().args
    return most < 0
