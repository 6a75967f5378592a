"""Tiles that fill an engine badly: few partitions, few elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.trace import Engine
from trnprof import words
from trnprof.advice.record import Advice
from trnprof.advice.reuse import GUIDE
from trnprof.advice.subject import Subject, plural

LANES = 128
SHORT = 128
"""Elements a partition below which the fixed cost of an instruction rules (NKI performance guide)."""

LONG = 512
"""Elements a partition of the instructions that short ones could become."""

MANY = 8
"""Fewer short instructions of one source line are not worth joining."""

ELEMENTWISE = (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)


def low_partitions(subject: Subject) -> Iterator[Advice]:
    """Tiles that leave lanes idle, by engine."""
    ins = subject.trace.instructions
    for engine in ELEMENTWISE:
        rows = subject.of(engine)
        rows = rows[(ins.partitions[rows] > 0) & (ins.partitions[rows] <= LANES // 2)]
        if rows.size < MANY:
            continue
        pace = subject.pace_ps[rows]
        saved = subject.total(rows, pace * (1 - ins.partitions[rows] / LANES))
        mean = round(float(np.average(ins.partitions[rows], weights=np.maximum(1, pace))))
        name = words.ENGINE_WORDS[engine]
        yield subject.tell(
            "low_partitions",
            f"Fill all {LANES} partitions on {name}",
            f"{plural(rows.size, 'instruction')} of {name} work on {mean} of {LANES} partitions",
            rows,
            subject.gain({engine: saved}, subject.spans(rows)),
            "lay several small tiles side by side on the partitions (0-31, 32-63, …) and let one instruction work on "
            "all; the partition axis should hold the dimension that is largest",
            f"{GUIDE}, Opt #5b",
        )


def short_instructions(subject: Subject) -> Iterator[Advice]:
    """Many instructions on few elements each, whose time is fixed cost."""
    ins = subject.trace.instructions
    for engine in ELEMENTWISE:
        rows = subject.of(engine)
        rows = rows[(ins.elements[rows] > 0) & (ins.elements[rows] < SHORT)]
        rows = np.sort(np.concatenate([rows[:0], *_repeated(subject, rows)]))
        roof = subject.roofs.get(engine.name.lower())
        if not rows.size or roof is None:
            continue
        pace, elements = subject.pace_ps[rows], ins.elements[rows]
        saved = subject.total(rows, pace * (1 - elements / LONG) - elements * _element_ps(subject, roof.value))
        mean = words.digits(float(np.average(elements, weights=np.maximum(1, pace))), 2)
        name = words.ENGINE_WORDS[engine]
        yield subject.tell(
            "short_instructions",
            f"Give {name} longer tiles",
            f"{plural(rows.size, 'instruction')} of {name} work on {mean} elements a partition and take "
            f"{subject.time(float(np.mean(pace)))} each, nearly all of it fixed cost",
            rows,
            subject.gain({engine: max(0, saved)}, subject.spans(rows)),
            f"join them: one instruction over a tile of {LONG} elements or more in the free dimension; a recurrence "
            f"along the free dimension is one nisa.tensor_tensor_scan, small results can be gathered in one tile first",
            f"{GUIDE}, Opt #5a",
        )


def _element_ps(subject: Subject, rate: float) -> float:
    """Time of one element a partition at an engine's rate."""
    return LANES * subject.roofs.cores / rate * 1e12


def _repeated(subject: Subject, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of the opcodes, or the source lines, that come often."""
    ins = subject.trace.instructions
    key = ins.source[rows].astype(np.int64) * (len(subject.trace.strings) + 1) + ins.opcode[rows]
    for value in np.unique(key):
        mine = rows[key == value]
        if mine.size >= MANY:
            yield mine
