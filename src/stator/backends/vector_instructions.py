"""Which vector instructions Inductor may use: what works for the best set is not tried for others.

Before its first kernel, Inductor has the compiler build small libraries for each instruction set
that the processor has, the best one first, and loads them. It takes the best that works, so what
is said of the others hardly matters; but they are two thirds of nine seconds, which is most of what
a small program waits for. A compiler and a torch that can do the best can do the lesser ones.

In: nothing. Out: nothing; Inductor's own instruction sets are asked less when it looks at them.
"""

from collections.abc import Callable

from stator.torchlib import inductor as torch_inductor


def try_each_once() -> None:
    """What a better instruction set has built is taken to build for those behind it."""
    built: set[str] = set()
    for each in torch_inductor.instruction_sets():
        if "check_build" not in vars(each):
            each.check_build = _remembering(each.check_build, built)


def _remembering(check: Callable[[str], bool], built: set[str]) -> Callable[[str], bool]:
    def found(code: str) -> bool:
        if code not in built and check(code):
            built.add(code)
        return code in built

    return found
