"""DMAs that move their bytes badly: small descriptors, many small triggers, transposes on the fly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.trace import Engine
from trnprof import words
from trnprof.advice.record import Advice
from trnprof.advice.reuse import GUIDE, issue_ps, memory_ps, triggers
from trnprof.advice.subject import Subject, plural
from trnprof.demand import MEMORY

SMALL = 2048
"""Bytes a descriptor below which DMA engines lose bandwidth (NKI's DMA guide: 2 KiB at least, 4 KiB near the peak)."""

FULL = 4096
"""Bytes of a descriptor at which DMA engines are near their peak."""

ELEMENT = 8
"""A descriptor of no more bytes carries an element or two: the DMA gathers or transposes."""

LARGE = 512 * 1024
"""Bytes of a DMA whose trigger no longer matters: 1.4 µs on the wire against 0.6 µs of issue."""

MANY = 8


def small_descriptors(subject: Subject) -> Iterator[Advice]:
    """Rows of a transfer so short that the overhead of each descriptor takes much of the DMA engines' time."""
    moved, roof = subject.trace.transfers, subject.roofs.get("dma")
    rows = subject.transfers
    rows = rows[(moved.descriptors[rows] > 0) & ~transposing(subject)[rows]]
    small = rows[moved.bytes[rows] < SMALL * moved.descriptors[rows]]
    if roof is None or not small.size:
        return
    size, pieces = int(moved.bytes[small].sum()), int(moved.descriptors[small].sum())
    saved = memory_ps(subject, small) - round(size / roof.value * 1e12)
    each = words.size(round(size / pieces))
    yield subject.tell(
        "small_descriptors",
        "Move longer rows with each DMA",
        f"{plural(small.size, 'DMA')} move {words.size(size)} in {words.count(pieces)} pieces of {each}; DMA engines "
        f"reach their rate from {words.size(SMALL)} on",
        triggers(subject, small),
        subject.gain({MEMORY: max(0, saved)}, subject.memory_spans),
        f"load tiles that are wider in the innermost dimension of the HBM tensor: at least {words.size(SMALL)} a row "
        f"(1 024 columns of bf16, 512 of fp32), then slice them in SBUF; or store the tensor so that a tile is "
        f"contiguous",
        f"{GUIDE}, Opt #9",
        what_if={"descriptor_cost": f"{min(1.0, size / pieces / FULL):.3g}x"},
    )


def many_dmas(subject: Subject) -> Iterator[Advice]:
    """An engine that spends its time on triggering small DMAs."""
    moved, ins = subject.trace.transfers, subject.trace.instructions
    issuing = subject.rows[subject.index.issue[subject.rows]]
    for engine in Engine:
        rows = issuing[ins.engine[issuing] == engine]
        transfers = subject.index.transfers_of(rows)
        size = int(moved.bytes[transfers].sum())
        if rows.size < MANY or not size or size > rows.size * LARGE / 2:
            continue
        part = 1 - max(1.0, size / LARGE) / rows.size
        saved = issue_ps(subject, transfers, part)
        busy = subject.total(rows, subject.duration_ps[rows])
        name = words.ENGINE_WORDS[engine]
        yield subject.tell(
            "many_dmas",
            f"Trigger fewer, larger DMAs on {name}",
            f"{name} spends {subject.time(busy)} of {subject.time(subject.time_ps)} on triggering "
            f"{plural(rows.size, 'DMA')} of {words.size(round(size / rows.size))} each",
            rows,
            subject.gain(saved, subject.meanwhile(subject.spans(rows), engine)),
            "move several tiles with one nisa.dma_copy (a tile [128, n, columns] from a permuted view), and spread "
            "what remains over SyncE, ScalarE and GpSimdE with engine=",
            "NKI DMA guide",
            what_if={"issue_cost": f"{1 - part:.3g}x"},
        )


def transposing(subject: Subject) -> np.ndarray:
    """Which transfers transpose on the way or move element by element; bool [transfers]."""
    moved = subject.trace.transfers
    tiny = (moved.descriptors > 0) & (moved.bytes <= ELEMENT * moved.descriptors) & (moved.bytes > ELEMENT)
    named = subject.having("opcode", lambda text: "DMA" in text and "TRANSPOSE" in text)
    linked = moved.instruction >= 0
    tiny[linked] |= named[moved.instruction[linked]]
    return tiny


def transposing_dma(subject: Subject) -> Iterator[Advice]:
    """Transposes that the DMA engines do, element by element."""
    moved, roof = subject.trace.transfers, subject.roofs.get("dma")
    rows = subject.transfers
    rows = rows[transposing(subject)[rows]]
    if roof is None or not rows.size:
        return
    size = int(moved.bytes[rows].sum())
    taken = memory_ps(subject, rows)
    saved = taken - round(size / roof.value * 1e12)
    yield subject.tell(
        "transposing_dma",
        "Transpose on TensorE, not in the DMA",
        f"{plural(rows.size, 'DMA')} transpose {words.size(size)} on the way and keep memory at work for "
        f"{subject.time(taken)}; as plain rows they would take {subject.time(size / roof.value * 1e12)}",
        triggers(subject, rows),
        subject.gain({MEMORY: max(0, saved)}, subject.memory_spans),
        "load the rows as they lie (nisa.dma_copy, nl.load) and turn the tile with nisa.nc_transpose; better still, "
        "choose the layout in HBM that the kernel needs",
        f"{GUIDE}, Opt #10",
    )
