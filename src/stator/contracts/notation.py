"""The tables' shorthand for contracts.

Comes in: text such as ``"mutates calls | sm dh ."``. Goes out: a `Contract`.

Before the bar: the verdict, then ``calls`` (calls back) and ``identity`` where they apply; after
``forbidden`` the reason's id. Behind it: one group of letters per argument. The last group
stands for all further arguments and for keywords; without a bar, nothing is read.

    .  nothing is read but identity and type        m  mutated
    s  read shallowly                               i  iterated over (read shallowly)
    d  read deeply                                  h  hashed
    a  its attributes are read                      c  called
    p  symbolic integers may be passed although it is read
    z  symbolic integers are specialized although it is not read
"""

from functools import cache

from .contract import Argument, Contract, Depth, Reason, SymInt, Verdict


class NotationError(ValueError):
    """A table is written wrongly."""


_LETTERS = frozenset(".sdamihcpz")


@cache
def parse(text: str) -> Contract:
    head, _, tail = text.partition("|")
    word, *flags = head.split()
    verdict = Verdict(word)
    reason = None
    if verdict is Verdict.FORBIDDEN:
        if len(flags) != 1 or tail:
            raise NotationError(f"a forbidden callable has a reason and nothing else: {text!r}")
        reason = Reason[flags.pop().upper()]
    if unknown := set(flags) - {"calls", "identity"}:
        raise NotationError(f"unknown words {unknown} in {text!r}")
    arguments = tuple(map(_argument, tail.split())) or (Argument(),)
    mutates = any(argument.mutated for argument in arguments)
    if mutates is not (verdict is Verdict.MUTATES) and verdict is not Verdict.FRAME:
        raise NotationError(f"the verdict and the arguments disagree about mutation: {text!r}")
    return Contract(verdict, arguments, "calls" in flags, "identity" in flags, reason)


@cache
def _argument(letters: str) -> Argument:
    given = set(letters)
    if given - _LETTERS or len(given) != len(letters) or {"p", "z"} <= given:
        raise NotationError(f"not the letters of an argument: {letters!r}")
    if "d" in given:
        depth = Depth.DEEP
    elif given & {"s", "i"}:
        depth = Depth.SHALLOW
    else:
        depth = Depth.NOTHING
    specialized = "z" in given or ("p" not in given and (depth > Depth.NOTHING or "h" in given))
    return Argument(
        depth=depth,
        attributes="a" in given,
        mutated="m" in given,
        iterated="i" in given,
        hashed="h" in given,
        called="c" in given,
        symint=SymInt.SPECIALIZE if specialized else SymInt.PASS,
    )
