"""The user's pages are complete, and say nothing that is not so."""

import inspect
import re
from pathlib import Path
from typing import Final

import pytest
import torch
import torch._dynamo

import stator
from tests.versions import newest_names
from tools import configuration

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGES: Final = (
    "getting_started",
    "how_it_works",
    "from_torch_compile",
    "troubleshooting",
    "configuration",
    "usage",
)


def text(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def section(title: str) -> str:
    """The tables below a heading of the page about torch.compile."""
    return text("from_torch_compile").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(table: str) -> set[str]:
    """The names in the first cells of the rows, which may have several."""
    cells = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    return {name.removesuffix("()") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@newest_names
def test_every_parameter_of_torch_compile_is_told() -> None:
    told = first_column(section("torch.compile"))
    both = {"shapes_spec", "dynamic_shapes"}  # one before torch 2.15, the other since
    assert told == {*inspect.signature(torch.compile).parameters, "nn.Module.compile", *both}


SINCE_2_13 = {
    *("cudagraph_mark_warmup_incomplete", "nonstrict_trace", "precompile", "PrecompileError"),
}


@newest_names
def test_every_name_of_torch_compiler_is_told() -> None:
    told = first_column(section("torch.compiler"))
    assert set(torch.compiler.__all__) <= told
    assert told - set(torch.compiler.__all__) <= SINCE_2_13


@newest_names
def test_every_name_of_dynamo_is_told() -> None:
    told = first_column(section("torch._dynamo"))
    inner = {
        "decorators.leaf_function",
        "decorators.mark_unbacked",
        "testing.CompileCounter",
        "utils.counters",
    }
    assert told - inner == set(torch._dynamo.__all__)


def test_settings_that_are_named_exist() -> None:
    table = section("torch._dynamo.config")
    shared = re.findall(r"`(\w+)`", table.partition("are taken over")[0])
    named = first_column(table) | set(shared)
    assert not {name for name in named if not hasattr(torch._dynamo.config, name)}
    assert set(shared) - {"cache_size_limit"} <= set(stator.config._DEFAULTS)


@pytest.mark.parametrize("name", PAGES)
def test_names_of_stator_exist(name: str) -> None:
    for path in re.findall(r"(?<!ops\.)\bstator\.([a-z_]+(?:\.[a-z_]+)*)", text(name)):
        first, *rest = path.split(".")
        if first in ("diagnostics", "md"):
            continue
        assert first in stator.__all__, path
        found = getattr(stator, first)
        for part in rest:
            found = getattr(found, part)


def test_the_page_of_settings_is_up_to_date() -> None:
    """If not: `python tools/configuration.py > docs/configuration.md`."""
    assert text("configuration") == configuration.page()


def test_every_setting_is_on_it() -> None:
    assert [each.name for each in configuration.settings()] == list(stator.config._DEFAULTS)


def test_every_environment_variable_is_on_it() -> None:
    assert set(configuration.ENVIRONMENT) == configuration.variables()
