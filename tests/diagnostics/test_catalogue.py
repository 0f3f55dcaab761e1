"""The catalogue as data: complete, without holes, and the tracer raises nothing else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stator
from stator.capture.trace.refusals import FORBIDDEN, MARKED
from stator.contracts import Reason
from stator.diagnostics import catalogue
from stator.diagnostics.breaks import Break, Failed
from stator.diagnostics.catalogue.pages import document
from stator.graph.leaves import leaf_tables

ROOT = Path(__file__).parents[2]
PACKAGE = Path(stator.__file__).parent
REASONS = catalogue.all_reasons()


def subclasses(cls: type[Break]) -> Iterator[type[Break]]:
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_numbers_are_unique_and_in_order() -> None:
    assert [reason.id for reason in REASONS] == [f"SB{n + 1:04}" for n in range(len(REASONS))]


def test_every_reason_is_listed() -> None:
    ours = {each for each in subclasses(Break) if each.__module__.startswith("stator.")}
    assert ours - {Failed} == set(REASONS)  # that is a bug of ours, which no program shows
    assert {reason.__name__ for reason in REASONS} <= set(catalogue.__all__)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.id)
class TestTexts:
    def test_all_are_there(self, reason: type[Break]) -> None:
        for text in (reason.title, reason.what, reason.why, reason.fix):
            assert text.strip()
        assert reason.__doc__
        assert reason.example != reason.fixed

    def test_one_line_texts(self, reason: type[Break]) -> None:
        """They are parts of lines in messages: no sentences."""
        for text in (reason.title, reason.fix.partition("\n")[0]):
            assert len(text) <= 100
            assert not text.endswith(".")
            assert "\n" not in text

    def test_page(self, reason: type[Break]) -> None:
        page = catalogue.page(reason.id)
        assert page.startswith(f"# {reason.id}: {reason.title}\n")
        assert reason.example in page
        assert reason.fixed in page
        assert all(len(line) <= 100 for line in page.splitlines())

    def test_the_fix_is_the_hint(self, reason: type[Break]) -> None:
        assert reason("it is so").hint == reason.fix.partition("\n")[0]
        assert reason("it is so", "do that").hint == "do that"


@pytest.mark.parametrize("spelling", ["SB0013", "sb0013", "sb13", "13", " SB13 "])
def test_lookup(spelling: str) -> None:
    assert catalogue.reason(spelling) is catalogue.BranchOnValues


@pytest.mark.parametrize("spelling", ["", "SB", "SB0000", "SB9999", "branch"])
def test_lookup_of_what_is_not_there(spelling: str) -> None:
    with pytest.raises(KeyError, match="there is no reason"):
        catalogue.reason(spelling)


def test_the_documentation_is_up_to_date() -> None:
    """If not: `python -m stator.diagnostics.catalogue > docs/breaks.md`."""
    assert (ROOT / "docs" / "breaks.md").read_text() == document(REASONS)


# ---------------------------------------------------------------------- who raises them


def names_used(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of every plain name in a file that is not part of an import."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id


def calls_of(path: Path, name: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node.lineno


def sources() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "diagnostics" not in path.parts:
            yield path


def test_nothing_is_raised_without_a_reason() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sources()
        for line in calls_of(path, "Break")
    ]
    assert not found, "give these a class of the catalogue"


def test_every_reason_is_raised() -> None:
    used = {name for path in sources() for _, name in names_used(path)}
    assert not {reason.__name__ for reason in REASONS} - used


def test_every_forbidden_contract_has_a_reason() -> None:
    assert set(FORBIDDEN) == set(Reason)
    assert len(MARKED) == len(set(MARKED.values()))


def test_causes_name_texts_of_the_tables() -> None:
    """A cause for a text that no table has would be a misspelling."""
    texts: set[str] = set()
    for table in (
        leaf_tables.FORBIDDEN,
        leaf_tables.FORBIDDEN_MODULES,
        leaf_tables.FORBIDDEN_METHODS,
        leaf_tables.FORBIDDEN_ATTRIBUTES,
    ):
        texts.update(table.values())
    assert set(leaf_tables.CAUSES) <= texts


def test_ids_in_the_documentation_exist() -> None:
    known = {reason.id for reason in REASONS}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        assert set(re.findall(r"\bSB\d{4}\b", page.read_text())) <= known, page.name
