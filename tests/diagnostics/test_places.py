"""How places are shown: lines, marks below them, callers."""

import linecache
import sysconfig
from collections.abc import Iterator

import pytest

from stator.diagnostics.places import Place, code_lines, library, shown

FILE = "<program>"
TEXT = """\
def program(x):
    if x.sum() > 0:
        größe = "ä" + str(x.item())
    return f(
        x)
"""
LIBRARIES = sysconfig.get_path("purelib")


@pytest.fixture(autouse=True)
def program() -> Iterator[None]:
    linecache.cache[FILE] = len(TEXT), None, TEXT.splitlines(True), FILE
    yield
    del linecache.cache[FILE]


def at(line: int, columns: tuple[int, int] | None = None, file: str = FILE) -> Place:
    return Place(file, line, "program", columns)


class TestCode:
    def test_without_columns(self) -> None:
        assert list(code_lines(at(2))) == ["if x.sum() > 0:"]

    def test_a_part_of_the_line_is_marked(self) -> None:
        assert list(code_lines(at(2, (7, 18)))) == ["if x.sum() > 0:", "   ^^^^^^^^^^^"]

    def test_columns_are_bytes(self) -> None:
        line = TEXT.splitlines()[2]
        start, end = (len(line[: line.index(part)].encode()) for part in ("str", ")"))
        shown, marks = code_lines(at(3, (start, end)))
        assert shown[marks.index("^") : len(marks)] == "str(x.item("

    def test_what_goes_on_in_other_lines_is_marked_to_the_end(self) -> None:
        assert list(code_lines(at(4, (11, 1 << 20)))) == ["return f(", "       ^^"]

    def test_all_of_a_line_is_not_marked(self) -> None:
        assert list(code_lines(at(2, (4, 1 << 20)))) == ["if x.sum() > 0:"]

    @pytest.mark.parametrize("columns", [(0, 0), (18, 7), (90, 99), (0, 2)])
    def test_columns_that_make_no_sense(self, columns: tuple[int, int]) -> None:
        """The file may have been changed meanwhile."""
        assert list(code_lines(at(2, columns))) == ["if x.sum() > 0:"]

    def test_no_file(self) -> None:
        assert list(code_lines(at(2, file="<no such file>"))) == []
        assert list(code_lines(at(99))) == []


class TestStack:
    def test_none(self) -> None:
        assert list(shown(())) == []

    def test_the_innermost_comes_first_and_shows_its_code(self) -> None:
        assert list(shown((at(4), at(2)))) == [
            "at <program>:2 in program",
            "    if x.sum() > 0:",
            "called from <program>:4 in program",
        ]

    def test_the_line_of_the_user_comes_before_that_of_a_library(self) -> None:
        inner = Place(f"{LIBRARIES}/lib/core.py", 3, "run")
        assert list(shown((at(1), at(2), inner))) == [
            "at <program>:2 in program",
            "    if x.sum() > 0:",
            "in lib/core.py:3 in run",
            "called from <program>:1 in program",
        ]
        outer = inner._replace(line=2)
        assert list(shown((at(2), outer, inner)))[2:] == [
            "in lib/core.py:3 in run (through 1 more in libraries)"
        ]
        assert list(shown((outer, inner))) == [
            "at lib/core.py:3 in run",
            "called from lib/core.py:2 in run",
        ]

    def test_frames_of_libraries_are_taken_together(self) -> None:
        places = [Place(f"{LIBRARIES}/lib/core.py", line, "run") for line in (1, 2, 3)]
        assert list(shown((at(1), *places, at(2)))) == [
            "at <program>:2 in program",
            "    if x.sum() > 0:",
            "called from lib/core.py:3 in run (and 2 more in libraries)",
            "called from <program>:1 in program",
        ]

    @pytest.mark.parametrize("depth", [5, 6, 40])
    def test_long_stacks_are_cut(self, depth: int) -> None:
        places = [Place(FILE, 1, f"f{n}") for n in range(depth)]
        lines = list(shown(places))
        assert len(lines) <= 7
        assert lines[0] == f"at <program>:1 in f{depth - 1}"
        assert lines[-1] == "called from <program>:1 in f0"
        if depth > 5:
            assert f"called through {depth - 5} more" in lines

    def test_which_files_are_libraries(self) -> None:
        standard = sysconfig.get_path("stdlib")
        assert library(Place(f"{LIBRARIES}/torch/nn/functional.py", 1, "f")) == (
            "torch/nn/functional.py"
        )
        assert library(Place(f"{standard}/random.py", 1, "f")) == "random.py"
        assert library(Place("<frozen os>", 1, "f")) == "<frozen os>"
        assert library(Place("/home/me/random.py", 1, "f")) == ""
        assert library(at(1)) == ""
