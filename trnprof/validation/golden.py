"""The errors that today's emulator has against what every checkout holds: a change that makes one worse is noticed.

`trnprof validate --accept` keeps new ones; that is a decision, and shows in the diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnprof.validation import Report

FILE = Path(__file__).with_name("golden.json")
TOLERANCE = 0.005
"""An error may grow by this much, as a share of the measurement, before it counts as worse."""
PLACES = 4


def errors(report: Report) -> dict[str, float]:
    """Signed error of each comparison, by what it compares."""
    return {
        f"{row.level}: {row.id}: {row.quantity}": round(row.error, PLACES)
        for row in report.rows
        if row.error is not None
    }


def accept(report: Report, path: Path = FILE) -> None:
    """Keep the errors of a report."""
    path.write_text(json.dumps(errors(report), indent=0, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def worse(report: Report, path: Path = FILE) -> list[str]:
    """A sentence for each error that has grown, each comparison that is gone, and each that was never accepted."""
    kept, found = json.loads(path.read_text(encoding="utf-8")), errors(report)
    sentences = [
        f"{name}: {found[name]:+.2%}, was {kept[name]:+.2%}"
        for name in sorted(kept.keys() & found.keys())
        if abs(found[name]) > abs(kept[name]) + TOLERANCE
    ]
    sentences += [f"{name}: no longer compared" for name in sorted(kept.keys() - found.keys())]
    return sentences + [f"{name}: new, {found[name]:+.2%}" for name in sorted(found.keys() - kept.keys())]
