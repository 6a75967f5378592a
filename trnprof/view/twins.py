"""The same instruction in two traces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.trace import NONE, Trace
from trnprof.view import format as words
from trnprof.view.records import Record


@dataclass(frozen=True, slots=True)
class Twin(Record):
    """Rows of one instruction before and after, -1 where it has no match."""

    before: int
    after: int
    words: str
    """`633 ns → 316 ns, −317 ns`"""


def twin(traces: tuple[Trace, Trace], pairs: np.ndarray, row: int, after: bool) -> Twin:
    """The match of a row of the second trace with `after`, else of the first.

    pairs : int64 [pairs, 2]
    """
    here = np.flatnonzero(pairs[:, int(after)] == row)
    if not here.size:
        side = "before" if after else "after"
        return Twin(NONE if after else row, row if after else NONE, f"without a match {side}")
    rows = tuple(int(each) for each in pairs[here[0]])
    took = [_took(trace, each) for trace, each in zip(traces, rows, strict=True)]
    marks = [trace.meta.is_simulation or bool(trace.meta.what_if) for trace in traces]
    shown = [words.estimate(words.exact(ps), mark) for ps, mark in zip(took, marks, strict=True)]
    return Twin(*rows, f"{shown[0]} → {shown[1]}, {words.slack(took[1] - took[0])}")


def _took(trace: Trace, row: int) -> int:
    return int(trace.instructions.end_ps[row] - trace.instructions.start_ps[row])
