"""docs/operators.md is what its script writes."""

from __future__ import annotations

from pathlib import Path

from tests import operators_page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"


def test_the_page_of_operators_has_the_calls_of_its_script() -> None:
    told = [line.split(" | ")[:4] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [[cell.removeprefix("| ") for cell in cells] for cells in told] == [
        operators_page.call(row) for row in operators_page.rows()
    ]


def test_no_operator_needs_less_than_its_bound() -> None:
    shares = [line.split(" | ")[5] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [share for share in shares if float(share.rstrip("%")) > 100] == []
