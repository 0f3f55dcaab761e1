# mypy: ignore-errors
"""csv in programs: readers and writers of texts in memory, and dialects that are registered."""

import csv
import decimal
import io

import pytest
import torch

import stator

SHOWN = []


class Shown:
    """Notes when it is asked for its text."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        SHOWN.append(self.name)
        return self.name


class Colons(csv.Dialect):
    delimiter = ":"
    lineterminator = "|"
    quotechar = "'"
    quoting = csv.QUOTE_NONNUMERIC


def text_of(write):
    file = io.StringIO()
    write(file)
    return file.getvalue()


def raised(call):
    try:
        return call()
    except (csv.Error, TypeError, LookupError, ValueError) as error:
        return type(error), str(error)


def registered():
    csv.register_dialect("mine", delimiter=";", strict=True)
    try:
        found = csv.list_dialects(), csv.get_dialect("mine").delimiter
        return *found, list(csv.reader(["a;b", "c"], "mine"))
    finally:
        csv.unregister_dialect("mine")


def lines(*given):
    for line in given:
        SHOWN.append(line)
        yield line


def in_parts():
    reader = csv.reader(lines("a,b", '"c', 'd"'))
    return next(reader), reader.line_num, SHOWN[:], next(reader), reader.line_num, SHOWN[:]


def by_names(file):
    writer = csv.DictWriter(file, ["a", "b"], restval="-", extrasaction="ignore")
    writer.writeheader()
    writer.writerows([{"a": 1, "b": "x,y"}, {"a": Shown("z"), "c": 3}])


class Lost:
    """A file that keeps nothing."""

    def __init__(self):
        self.rows = []

    def write(self, text):
        self.rows.append(text)
        return len(text)


def to_an_object():
    file = Lost()
    return csv.writer(file).writerow(["a", 1]), file.rows


READ = {
    "rows": lambda: list(csv.reader(["a,b", '"c, d",e'])),
    "options": lambda: list(csv.reader(["a;'b;c'"], delimiter=";", quotechar="'")),
    "numbers": lambda: list(csv.reader(["1,'a'"], Colons, delimiter=",")),
    "names": lambda: list(csv.DictReader(io.StringIO("a,b\n1,2\n3"), restval="-")),
    "text": lambda: [row for row in csv.reader(io.StringIO("a,b\r\nc,d"))],
    "dialect": lambda: list(csv.reader(["a\tb"], dialect="excel-tab")),
    "an object": lambda: list(csv.reader(["1:'b'"], Colons())),
    "in parts": in_parts,
    "registered": registered,
    "sniffed": lambda: csv.Sniffer().sniff("a;b\nc;d\n").delimiter,
    "limit": lambda: csv.field_size_limit(),
    "unknown": lambda: raised(lambda: csv.reader([], "nothing")),
    "no name": lambda: raised(lambda: csv.register_dialect(3)),
    "not there": lambda: raised(lambda: csv.unregister_dialect("nothing")),
    "no lines": lambda: raised(lambda: csv.reader(3)),
    "nothing": lambda: raised(lambda: csv.reader()),
    "bytes": lambda: raised(lambda: list(csv.reader([b"a"]))),
    "quote": lambda: raised(lambda: csv.Dialect(quotechar="ab")),
    "option": lambda: raised(lambda: csv.reader([], other=3)),
    "twice": lambda: raised(lambda: csv.reader([], "excel", dialect="unix")),
    "strict": lambda: raised(lambda: list(csv.reader(['"a"b'], strict=True))),
    "wrong": lambda: raised(lambda: csv.Dialect("excel", delimiter="ab")),
}
WRITE = {
    "a row": lambda file: csv.writer(file).writerow([1, 2.5, None, True, "a,b", 'c"d']),
    "rows": lambda file: csv.writer(file).writerows([("a",), [1], range(3), "xy"]),
    "others": lambda file: csv.writer(file).writerow([[1], decimal.Decimal("1.50"), Shown("s")]),
    "quoted": lambda file: csv.writer(file, Colons).writerow(["a", 1, decimal.Decimal(3)]),
    "all": lambda file: csv.writer(file, quoting=csv.QUOTE_ALL).writerow(["a", 1, None]),
    "unix": lambda file: csv.writer(file, "unix").writerow(map(str, [1, 2])),
    "names": by_names,
    "no row": lambda file: file.write(str(raised(lambda: csv.writer(file).writerow(3)))),
    "no file": lambda file: file.write(str(raised(lambda: csv.writer(3)))),
    "escape": lambda file: file.write(
        str(raised(lambda: csv.writer(file, quoting=csv.QUOTE_NONE).writerow(["a,b"])))
    ),
}


def agree(program, **options):
    found = []
    for compiled in (False, True):
        stator.reset()
        function = stator.compile(program, backend="eager", **options) if compiled else program
        lines = []
        for _ in range(2):
            SHOWN.clear()
            lines.append((repr(function(torch.ones(2))), SHOWN[:]))
        found.append(lines)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", READ)
def test_reading(name) -> None:
    agree(lambda x: (READ[name](), x + 1), fullgraph=True)


@pytest.mark.parametrize("name", WRITE)
def test_writing(name) -> None:
    agree(lambda x: (text_of(WRITE[name]), x + 1), fullgraph=True)


def test_an_object_that_writes() -> None:
    agree(lambda x: (to_an_object(), x + 1), fullgraph=True)


def test_a_number_that_is_not_known() -> None:
    def program(x):
        return text_of(lambda file: csv.writer(file).writerow([x.sum().item(), x])), x + 1

    agree(program)


def test_a_row_that_fails_half_way() -> None:
    def program(x):
        def write(file):
            fields = (SHOWN.append(each) or each for each in ["a", "b,c", "d"])
            file.write(
                str(raised(lambda: csv.writer(file, quoting=csv.QUOTE_NONE).writerow(fields)))
            )

        return text_of(write), SHOWN[:], x + 1

    agree(program)


def test_another_dialect_is_registered() -> None:
    def program(x):
        return list(csv.reader(["a;b,c"], "mine")), csv.list_dialects(), x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    try:
        for delimiter in ";,;":
            csv.register_dialect("mine", delimiter=delimiter)
            assert compiled(torch.ones(1))[:2] == program(torch.ones(1))[:2]
        assert stator.testing.count(compiled).compiles == 2
    finally:
        csv.unregister_dialect("mine")


def test_a_dialect_stays_registered() -> None:
    def program(x, delimiter):
        csv.register_dialect("mine", delimiter=delimiter)
        return x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    try:
        for delimiter in ";:;":
            compiled(torch.ones(1), delimiter)
            assert csv.get_dialect("mine").delimiter == delimiter
            assert list(csv.reader([f"a{delimiter}b"], "mine")) == [["a", "b"]]
    finally:
        csv.unregister_dialect("mine")


def test_the_limit_is_guarded() -> None:
    def program(x):
        return raised(lambda: list(csv.reader(["a" * 50]))), x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    usual = csv.field_size_limit()
    try:
        for limit in (usual, 10, usual):
            csv.field_size_limit(limit)
            assert compiled(torch.ones(1))[0] == program(torch.ones(1))[0]
    finally:
        csv.field_size_limit(usual)


def test_a_reader_that_stays_is_not_captured() -> None:
    compiled = stator.compile(lambda x: (csv.reader(["a,b"]), x + 1), backend="eager")
    for _ in range(2):
        assert list(compiled(torch.ones(1))[0]) == [["a", "b"]]
