"""The text form of decoded code."""

from typing import Any

from stator.bytecode import TABLES, decode, listing


def test_a_listing_shows_what_arguments_mean() -> None:
    def f(a: Any) -> Any:
        for item in a:
            try:
                item.name(f"{item!r}", 1000, a + item)
            except ValueError:
                return a < 5
        return lambda: a

    text = listing(decode(f.__code__))
    for part in ["(item)", "(name", "(repr)", "(1000)", "(+)", "(ValueError)", "(<)", "(to ", ">>"]:
        assert part in text
    assert "(CLOSURE)" in text
    assert f", depth {TABLES.iterator_slots}" in text
    assert str(f.__code__.co_firstlineno + 3) in text


def test_a_listing_runs_no_code_of_a_constant() -> None:
    class Constant:
        def __repr__(self) -> str:
            raise AssertionError

    def f() -> Any:
        return ("constant", 1.5)

    code = f.__code__
    replaced = code.replace(co_consts=(None, (Constant(), 1.5)))
    assert "((<Constant>, 1.5))" in listing(decode(replaced))
