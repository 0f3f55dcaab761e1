# mypy: ignore-errors
"""Modules that a call is the first to import: those of Python's library are loaded before it."""

import importlib
import sys
import warnings

import pytest
import torch

import stator

from .harness import t
from .test_40_objects import agree


def _forget(*names):
    for name in names:
        sys.modules.pop(name, None)


def _imported(x):
    import colorsys

    return x * colorsys.ONE_SIXTH, colorsys.__name__


def _from(x):
    from wsgiref.util import application_uri as uri

    return x + 1, uri.__module__


def _named(x):
    return x + len(importlib.import_module("colorsys").__all__)


def _caught(x):
    try:
        import colorsys
    except ImportError:
        return x
    return x + colorsys.ONE_THIRD


@pytest.mark.parametrize("fn", [_imported, _from, _named, _caught])
def test_modules_of_the_library(fn):
    _forget("colorsys", "wsgiref", "wsgiref.util")
    expected = fn(torch.ones(3))
    _forget("colorsys", "wsgiref", "wsgiref.util")
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        found = compiled(torch.ones(3))
        assert repr(found) == repr(expected)
    assert compiled.statistics()["misses"] == 1


def test_who_looks_first_sees_that_it_is_not_there():
    def program(x):
        before = "colorsys" in sys.modules
        import colorsys

        return x * colorsys.ONE_SIXTH, before, "colorsys" in sys.modules

    def make():
        _forget("colorsys")
        return (t(3),)

    agree(program, make)


def test_other_modules_are_not_loaded(tmp_path, monkeypatch):
    (tmp_path / "stator_test_module.py").write_text("print('loaded')\nvalue = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    def program(x):
        import stator_test_module

        return x + stator_test_module.value

    with pytest.raises(stator.CaptureError, match="stator_test_module is imported"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
    assert "stator_test_module" not in sys.modules


def test_a_file_with_the_name_of_a_module_of_the_library(tmp_path, monkeypatch, capsys):
    (tmp_path / "colorsys.py").write_text("print('loaded')")
    monkeypatch.syspath_prepend(tmp_path)
    _forget("colorsys")

    def f(x):
        print("before")
        import colorsys

        return x + len(colorsys.__name__)

    stator.compile(f, backend="eager")(t(3))
    _forget("colorsys")
    assert capsys.readouterr().out == "before\nloaded\n"


def test_modules_that_show_something_are_not_loaded(capsys):
    def program(x):
        import this

        return x + len(this.s)

    _forget("this")
    with pytest.raises(stator.CaptureError, match="this is imported"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
    assert "this" not in sys.modules
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stator.compile(program, backend="eager")(torch.ones(3))
    assert capsys.readouterr().out.startswith("The Zen")
