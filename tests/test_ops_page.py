"""docs/operators.md names every operator."""

from __future__ import annotations

from pathlib import Path

import sim.ops

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"


def test_the_page_of_operators_names_all_that_there_are() -> None:
    page = PAGE.read_text()
    assert [name for name in sim.ops.OPERATORS if f"`{name}`" not in page] == []
