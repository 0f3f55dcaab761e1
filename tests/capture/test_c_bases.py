# mypy: ignore-errors
"""Classes of the program made of C types, attributes that C objects lack, modules in no package."""

import contextlib
import importlib
import io
import random
import sys
import types
import unittest.mock

import pytest
import torch

import stator

CLOSED = []


class Loud(io.StringIO):
    """A file in memory with a method of its own."""

    def write(self, text):
        self.written = getattr(self, "written", 0) + 1
        return super().write(text.upper())


class Bytes(io.BytesIO):
    pass


class Told(io.StringIO):
    """Tells when it is closed, which its finalizer does."""

    def close(self):
        CLOSED.append(self.getvalue())
        super().close()


def written(x):
    file, raw = Loud(), Bytes(b"abc")
    with contextlib.redirect_stdout(file):
        print("a", 1)
    file.write("b")
    return file.getvalue(), file.written, raw.read(2), x + 1


def lacking(x):
    drawn = random.random
    found = hasattr(drawn, "__func__"), getattr(drawn, "nothing", 3), hasattr(drawn, "__name__x")
    try:
        return x + drawn.other
    except AttributeError as error:
        return str(error), found, x + 1


def patched(x):
    with unittest.mock.patch("tests.capture.test_c_bases.Loud.write", return_value=3):
        return x + 1


def in_no_package(x):
    found = []
    for load in (__import__, importlib.import_module):
        try:
            load("random.Random")
        except ImportError as error:
            found.append((type(error), str(error), error.name, error.__suppress_context__))
    try:
        import random.Random  # noqa: F401, PLC0415
    except ImportError as error:
        found.append(str(error))
    return found, x + 1


@pytest.mark.parametrize("program", [written, lacking, in_no_package])
def test_captured(program) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(program(torch.ones(1)))
    assert stator.testing.count(compiled) == (1, 1)


def test_a_finalizer_that_tells() -> None:
    def program(x):
        file = Told()
        file.write("a")
        return x + 1

    for compiled in (False, True):
        CLOSED.clear()
        function = stator.compile(program, backend="eager") if compiled else program
        for number in (1, 2, 3):
            function(torch.ones(1))
            assert CLOSED == ["a"] * number


def test_a_class_learns_to_tell() -> None:
    class Learns(io.StringIO):
        pass

    def program(x):
        Learns().write("a")
        return x + 1

    function = stator.compile(program, backend="eager")
    function(torch.ones(1))
    heard = []
    Learns.close = lambda self: heard.append(1)
    function(torch.ones(1))
    assert heard


def test_a_file_that_stays() -> None:
    compiled = stator.compile(lambda x: (Loud("a"), x + 1), backend="eager")
    for _ in range(2):
        assert type(compiled(torch.ones(1))[0]) is Loud


def test_a_module_becomes_a_package() -> None:
    name = "stator_test_no_package"
    module = sys.modules[name] = types.ModuleType(name)

    def program(x):
        try:
            return importlib.import_module(f"{name}.part"), x + 1
        except ImportError as error:
            return str(error), x + 1

    compiled = stator.compile(program, backend="eager")
    try:
        assert compiled(torch.ones(1))[0].endswith("is not a package")
        module.__path__ = []
        assert compiled(torch.ones(1))[0] == program(torch.ones(1))[0]
        part = sys.modules[f"{name}.part"] = types.ModuleType(f"{name}.part")
        assert compiled(torch.ones(1))[0] is part
        del module.__path__
        assert compiled(torch.ones(1))[0] is part
    finally:
        sys.modules.pop(name)
        sys.modules.pop(f"{name}.part", None)


def test_a_patched_class() -> None:
    compiled = stator.compile(patched, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(1)).equal(torch.full((1,), 2.0))
    assert "return_value" not in vars(Loud.write)
