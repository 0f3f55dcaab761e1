"""torch's `ShapeEnv`, which does not try for long to prove things, and has symbols that we define.

Before it looks at the value of a condition on sizes, torch tries to find out by algebra whether it
always holds. For expressions of some length (windows of a padded picture) that takes seconds each
and rarely succeeds. Here, what is long is not tried: it becomes an assumption at once, and a guard
like others, which is as right.

A *derived* symbol stands for a number that is computed from others in a way torch does not know
(`capture.reals`). Of a float among them, torch's passes must not take it for an input: its name is
none of those that torch gives to kinds of symbols.

What torch concludes from a relation it finds by solving it, and to solve it divides both sides by
their factors: from `a * b == a` follows `b == 1`, which is wrong where `a` is 0. Ints may be 0, and
so may sizes that depend on values. Nothing is concluded here from a relation with such a product,
unless a symbol stands alone on one side: it is answered from the values, and guarded as it is.
"""

from typing import Any, Final, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
from sympy.logic.boolalg import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    Boolean,
)
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    ValueRangesSLoc,
)

from stator.graph.unknown.questions import Asker, Questions, usual
from stator.torchlib.shapes import Max, Min, ValueRanges, maybe_evaluate_static

_ANSWERS: Final[Any] = maybe_evaluate_static
_CONCLUDED: Final = frozenset({"trivial_lhs", "trivial_rhs", "solve", "range_refined_to_singleton"})
_LONG: Final = 32  # symbols, numbers and operators


class Believed(NamedTuple):
    """What an environment takes numbers to be at a moment."""

    asserts: dict[Any, int]  # how many conditions, by the symbol that has them
    replacements: dict[Any, Any]
    ranges: dict[Any, Any]
    axioms: dict[Any, Any]


class Environment(ShapeEnv):  # type: ignore[misc, unused-ignore]  # torch may be absent
    """The symbols of one trace.

    What it overrides takes all arguments that torch may pass, in any version, and passes them on.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._lengths: dict[sympy.Basic, bool] = {}
        self._free: dict[sympy.Basic, frozenset[sympy.Symbol]] = {}
        self._derived = 0
        self.questions = Questions()
        self.handed_over = False  # the graph is the backend's, with its checks

    def evaluate_expr(  # type: ignore[override, unused-ignore]
        self,
        orig_expr: Any,
        hint: Any = None,
        fx_node: Any = None,
        size_oblivious: bool = False,
        fallback_value: bool | None = None,
        **more: Any,
    ) -> Any:
        """What a condition or number is: all that anybody asks about symbols comes here."""
        if self.questions.asker is not Asker.TORCH and not (
            self._free_symbols(orig_expr) <= self.backed_var_to_val.keys()
        ):
            known = self._of_unknown(orig_expr, fallback_value)
            if known is not None:
                return sympy.true if known else sympy.false
            size_oblivious, fallback_value = False, None
        return super().evaluate_expr(
            orig_expr, hint, fx_node, size_oblivious, fallback_value, **more
        )

    def guard_or_defer_runtime_assert(  # type: ignore[override, unused-ignore]
        self, orig_expr: Any, msg: str, fx_node: Any = None
    ) -> bool:
        """Something must hold, says a kernel (`torch._check`), or the program.

        If it can't, with the sizes of this call and what is known of the unknown numbers, nobody
        is told that it does: a kernel refuses, and the program raises, once the numbers are known.
        """
        if not self.handed_over and not self._is_possible(orig_expr):
            raise GuardOnDataDependentSymNode(orig_expr, f"{orig_expr} can't hold here")
        return bool(super().guard_or_defer_runtime_assert(orig_expr, msg, fx_node))

    def _is_possible(self, condition: Any) -> bool:
        free, known = self._free_symbols(condition), self.backed_var_to_val
        if not isinstance(condition, Boolean) or free <= known.keys() or free.isdisjoint(known):
            return True
        here = condition.xreplace({symbol: known[symbol] for symbol in free & known.keys()})
        return self._maybe_evaluate_static(here) not in (False, sympy.false)

    def assumed(self) -> object:
        """What guards have to say about symbols with a value: equal, if nothing was added."""
        known = self.backed_var_to_val
        others = {each: self.replacements[each] for each in known if each in self.replacements}
        return len(self.guards), others, {each: self.var_to_range[each] for each in known}

    def believed(self) -> Believed:
        asserts = {symbol: len(found) for symbol, found in self.deferred_runtime_asserts.items()}
        return Believed(
            asserts, dict(self.replacements), dict(self.var_to_range), dict(self.axioms)
        )

    def believe(self, before: Believed) -> None:
        """Takes back what an operation was told, or has insisted on, that is not carried out.

        Of symbols that it has made, nobody has any.
        """
        for symbol, found in self.deferred_runtime_asserts.items():
            del found[before.asserts.get(symbol, 0) :]
        for symbol in self.replacements.keys() - before.replacements.keys():
            del self.replacements[symbol]
        self.replacements.update(before.replacements)
        self.var_to_range.update(before.ranges)
        self.axioms = before.axioms
        for counter in ("_replacements_version_counter", "_version_counter"):
            if hasattr(self, counter):  # not each torch has both
                setattr(self, counter, getattr(self, counter) + 1)
        self._prev_cache_key = self._get_key()

    def _of_unknown(self, condition: Any, fallback: bool | None) -> bool | None:
        """What is answered about a number without a value; None if torch knows, or nobody."""
        if self.questions.asker is Asker.PROGRAM or not isinstance(condition, Boolean):
            return None
        if self._maybe_evaluate_static(condition) is not None:
            return None
        left: Any = self._maybe_evaluate_static(condition, unbacked_only=True)
        if self._free_symbols(left) <= self.backed_var_to_val.keys():
            return None
        answer = usual(condition) if fallback is None else fallback
        return None if answer is None else self.questions.note(condition, answer)

    def derived(self, value: int | float) -> Any:
        """A number that has this value now: a symbol of which nothing else is known."""
        whole = type(value) is int
        self._derived += 1
        assumed = {"integer": True} if whole else {"real": True}
        symbol = sympy.Symbol(f"d{self._derived}", **assumed)
        here: Any = self._get_sloc()
        self.backed_var_to_val[symbol] = sympy.sympify(value)
        self.var_to_range[symbol] = (
            self._default_unspecified_value_range() if whole else ValueRanges(-sympy.oo, sympy.oo)
        )
        self.var_to_range_sloc[symbol] = ValueRangesSLoc(here, here)
        self.var_to_sources[symbol] = []
        self.symbol_guard_counter[symbol] = 0
        create: Any = self.create_symintnode if whole else self.create_symfloatnode
        return create(symbol, hint=value)

    def _get_stack_summary(self, is_debug: bool = False, framework_loc: str | None = None) -> Any:
        """Where in torch's code something is asked, for logs that nobody reads.

        To tell torch's files from others, torch loads Inductor and `torch.export`, for 0.4 s.
        """
        if not is_debug and framework_loc is None:
            framework_loc = ""
        return super()._get_stack_summary(is_debug, framework_loc)

    # Otherwise torch simplifies all that it knows each time that it learns what is divisible.
    _resimplify_floor_div_axioms = property(lambda _: False, lambda _, wanted: None)

    def replace(self, expr: Any) -> Any:  # type: ignore[override, unused-ignore]
        if all(self._find(symbol) == symbol for symbol in self._free_symbols(expr)):
            return expr
        return super().replace(expr)

    # torch remembers its answers, and forgets them so.
    replace.cache_clear = ShapeEnv.replace.cache_clear  # type: ignore[attr-defined]

    def _free_symbols(self, expr: Any) -> frozenset[sympy.Symbol]:
        """sympy walks through all of an expression, each time that it is asked."""
        found = self._free.get(expr)
        if found is None:
            found = self._free[expr] = frozenset(expr.free_symbols)
        return found

    def simplify(self, expr: Any, *how: Any, **more: Any) -> Any:  # type: ignore[override, unused-ignore]
        if self._is_long(expr):
            return self.replace(expr)
        return super().simplify(expr, *how, **more)

    def _maybe_evaluate_static(self, expr: Any, **how: Any) -> Any:  # type: ignore[override, unused-ignore]
        if not how.get("unbacked_only") and not how.get("compute_hint") and self._is_long(expr):
            return None
        if _is_evident(expr):
            return sympy.true
        return super()._maybe_evaluate_static(expr, **how)

    # torch remembers its answers, and forgets them so.
    _maybe_evaluate_static.cache_clear = _ANSWERS.cache_clear  # type: ignore[attr-defined]

    def _set_replacement(self, a: Any, tgt: Any, msg: str, **more: Any) -> None:  # type: ignore[override, unused-ignore]
        """A symbol is another number, or expression, from now on.

        A backend that traces the graph again meets its checks, and must not conclude from one what
        an unknown number is: it would write the check itself with that, and check nothing.
        """
        if self.handed_over and msg in _CONCLUDED and a not in self.backed_var_to_val:
            return
        super()._set_replacement(a, tgt, msg, **more)

    def _maybe_guard_rel(self, expr: Any, **more: Any) -> None:  # type: ignore[override, unused-ignore]
        """A relation holds from now on: what follows from it of its symbols."""
        if not isinstance(expr, sympy.Rel) or not _may_lose_a_factor(expr):
            super()._maybe_guard_rel(expr, **more)
        elif isinstance(expr, sympy.Eq):
            for symbol, other in (expr.args, reversed(expr.args)):
                if isinstance(symbol, sympy.Symbol) and self._may_replace(symbol, other):
                    self._set_replacement(symbol, self.replace(other), "solve")
                    return

    def _may_replace(self, symbol: Any, other: Any) -> bool:
        """As in torch: what depends on values may not be known yet where the symbol is used."""
        free = self._free_symbols(other)
        return symbol not in free and free <= self.backed_var_to_val.keys()

    def _refine_ranges(self, expr: Any, **more: Any) -> None:  # type: ignore[override, unused-ignore]
        if not _may_lose_a_factor(self.simplify(expr)):
            super()._refine_ranges(expr, **more)

    def _is_long(self, expr: Any) -> bool:
        """Whether it is long, and all its symbols have values, which decide as well."""
        known = self._lengths.get(expr)
        if known is None:
            known = self._lengths[expr] = (
                is_longer(expr, _LONG) and self._free_symbols(expr) <= self.backed_var_to_val.keys()
            )
        return known


def _is_evident(relation: Any) -> bool:
    """Whether it says that the least of some numbers is not more than one of them, or the like.

    torch finds that out if all of them have a value.
    """
    if isinstance(relation, sympy.Le):
        less, more = relation.args
    elif isinstance(relation, sympy.Ge):
        more, less = relation.args
    else:
        return False
    return (isinstance(less, Min) and more in less.args) or (
        isinstance(more, Max) and less in more.args
    )


def is_longer(expr: Any, most: int) -> bool:
    """Whether an expression has more than so many parts."""
    left = [expr]
    while left and most >= 0:
        most -= 1
        left += left.pop().args
    return most < 0


def _may_lose_a_factor(relation: Any) -> bool:
    """Whether there is a product in it one of whose factors may be 0."""
    products = relation.atoms(sympy.Mul) if hasattr(relation, "atoms") else ()
    for product in products:
        factors = [each for each in product.args if not each.is_number]
        if len(factors) > 1 and any(each.is_zero is not False for each in factors):
            return True
    return False
