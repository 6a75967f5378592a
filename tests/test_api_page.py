"""The reference page is what the docstrings say, and type checkers see what people type."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import sim
import trnprof
from tests import api_page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == api_page.page(), "run: python -m tests.api_page > docs/api.md"


def test_every_public_name_is_on_the_page() -> None:
    text = api_page.page()
    for name in trnprof.__all__:
        assert name.startswith("_") or f"### `trnprof.{name}`" in text


def test_type_checkers_see_every_name_that_is_loaded_late() -> None:
    tree = ast.parse(Path(trnprof.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == trnprof._HOMES


@pytest.mark.parametrize("package", [sim, trnprof], ids=["sim", "trnprof"])
def test_packages_say_that_they_are_typed(package: object) -> None:
    assert (Path(package.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", [name for name in trnprof.__all__ if not name.startswith("_")])
def test_every_public_function_is_annotated_and_told(name: str) -> None:
    found = getattr(trnprof, name)
    assert inspect.getdoc(found)
    if inspect.isfunction(found):
        assert found.__annotations__.keys() >= {*inspect.signature(found).parameters, "return"}
