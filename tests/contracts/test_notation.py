"""The tables' shorthand."""

import pytest

from stator.contracts import Argument, Contract, Depth, Reason, SymInt, Verdict
from stator.contracts.notation import NotationError, parse
from stator.contracts.tables.rows import override, present, spread


def test_words() -> None:
    contract = parse("mutates calls | sm dh .")
    assert contract == Contract(
        Verdict.MUTATES,
        (
            Argument(Depth.SHALLOW, mutated=True, symint=SymInt.SPECIALIZE),
            Argument(Depth.DEEP, hashed=True, symint=SymInt.SPECIALIZE),
            Argument(),
        ),
        calls_back=True,
    )
    assert contract.mutates == (0,)
    assert contract.argument(7) is contract.keywords is contract.arguments[-1]


def test_forbidden() -> None:
    contract = parse("forbidden time")
    assert contract.reason is Reason.TIME
    assert not contract.runs


def test_symbolic_integers() -> None:
    symints = [argument.symint for argument in parse("reads | . s sp z h c").arguments]
    passed, special = SymInt.PASS, SymInt.SPECIALIZE
    assert symints == [passed, special, passed, special, special, passed]


@pytest.mark.parametrize(
    "text",
    [
        "pure | q",
        "pure | ss",
        "pure | pz",
        "pure | m",
        "mutates | s",
        "reads often | s",
        "forbidden",
        "forbidden time | s",
    ],
)
def test_mistakes(text: str) -> None:
    with pytest.raises(NotationError):
        parse(text)


def test_versions() -> None:
    assert present("f") and present("f@3.11+") and not present("f@3.99+") and not present("f@-3.10")
    assert present("f@3.11-3.99") and not present("f@3.98-3.99") and not present("f@3.9-3.10")
    rows = {"pure | s": "f g@3.99+"}
    assert list(spread(rows)) == [("f", "pure | s")]
    assert list(spread(rows, absent=True)) == [("g", "pure | s")]
    with pytest.raises(ValueError, match=r"3\.12\+"):
        present("f@3.12")


def test_override() -> None:
    base = {"pure | s": "f g", "reads | s": "h"}
    assert override(base, {"reads | s": "f"}) == {"pure | s": "g", "reads | s": "h f"}
