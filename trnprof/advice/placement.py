"""Work on the wrong engine, or more of it than needed: copies, table loads, chains that one instruction could do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.trace import NONE, EdgeKind, Engine
from trnprof import words
from trnprof.advice.record import Advice
from trnprof.advice.reuse import GUIDE
from trnprof.advice.shapes import LONG
from trnprof.advice.subject import NAMES, Subject, plural
from trnprof.machine import family

MANY = 4

COPIES = ("COPY", "CAST", "TENSOR_COPY", "ACTIVATE")
MOVABLE = ("COPY", "CAST", "TENSOR_COPY", "TENSOR_SCALAR")
"""Opcodes of VectorE that ScalarE can do too, and the other way round."""

PLAIN_FUNCTIONS = ("copy", "identity", "")
"""Activation functions that only move data."""

GPSIMD_ELEMENTWISE = ("TENSOR_TENSOR", "TENSOR_SCALAR", "COPY", "CAST", "MEMSET", "TENSOR_REDUCE")
"""Opcodes that VectorE does faster."""

CHAINS = {
    ("TENSOR_SCALAR", "TENSOR_SCALAR"): "one nisa.tensor_scalar takes two operations (op0, op1)",
    ("TENSOR_SCALAR", "ACTIVATE"): "nisa.activation multiplies by scale and adds bias on the way in",
    ("TENSOR_SCALAR", "TENSOR_TENSOR"): "nisa.scalar_tensor_tensor does both in one pass",
    ("ACTIVATE", "TENSOR_REDUCE"): "nisa.activation_reduce sums up what it writes",
    ("TENSOR_SCALAR", "TENSOR_REDUCE"): "nisa.tensor_scalar_reduce reduces what it writes",
    ("COPY", "TENSOR_SCALAR"): "let the second read the copy's source",
    ("COPY", "TENSOR_TENSOR"): "let the second read the copy's source",
    ("COPY", "ACTIVATE"): "let the activation read the copy's source",
    ("CAST", "TENSOR_SCALAR"): "let the second read the cast's source: engines cast on the way in",
    ("CAST", "TENSOR_TENSOR"): "let the second read the cast's source: engines cast on the way in",
    ("CAST", "ACTIVATE"): "let the activation read the cast's source: it casts on the way in",
}
"""Pairs of opcodes, the second reading the first's result, that one instruction does."""


def psum_copies(subject: Subject) -> Iterator[Advice]:
    """An engine that spends its time on moving results out of PSUM in small pieces, or on sums that PSUM could hold."""
    ins = subject.trace.instructions
    rows = subject.rows[(ins.psum_read_bytes[subject.rows] > 0) & (ins.sbuf_write_bytes[subject.rows] > 0)]
    copying = subject.opcode(*COPIES) & subject.having("function", lambda text: text.lower() in PLAIN_FUNCTIONS)
    adding = subject.opcode("TENSOR_TENSOR") & subject.having("function", lambda text: text.lower().startswith("add"))
    for engine in (Engine.VECTOR, Engine.SCALAR):
        mine = rows[ins.engine[rows] == engine]
        copies, sums = mine[_plain(subject, copying)[mine]], mine[adding[mine] & (ins.sbuf_read_bytes[mine] > 0)]
        if sums.size >= MANY:
            yield _accumulate(subject, engine, sums)
        short = copies[ins.elements[copies] < LONG]
        if short.size >= MANY:
            yield _evacuate(subject, engine, short)


def _plain(subject: Subject, copying: np.ndarray) -> np.ndarray:
    """Copies, also of profiles whose copies have no function."""
    return copying | (subject.opcode("COPY", "CAST", "TENSOR_COPY"))


def _accumulate(subject: Subject, engine: Engine, rows: np.ndarray) -> Advice:
    name = NAMES[engine]
    return subject.tell(
        "psum_copies",
        "Add up in PSUM, not in SBUF",
        f"{plural(rows.size, 'instruction')} of {name} add a product from PSUM to a sum in SBUF",
        rows,
        subject.gain({engine: subject.total(rows, subject.pace_ps[rows])}, subject.spans(rows)),
        "let all products of the contraction go to the same PSUM tile: nisa.nc_matmul accumulates there; copy the sum "
        "out once at the end",
        "NKI architecture guide, PSUM",
    )


def _evacuate(subject: Subject, engine: Engine, rows: np.ndarray) -> Advice:
    ins, name = subject.trace.instructions, NAMES[engine]
    elements, pace = ins.elements[rows], subject.pace_ps[rows]
    roof = subject.roofs.get(engine.name.lower())
    work = elements * (128 * subject.roofs.cores / roof.value * 1e12) if roof else 0.0
    fixed = max(0, subject.total(rows, pace - work))
    saved = round(fixed * (1 - float(elements.mean()) / LONG))
    return subject.tell(
        "psum_copies",
        f"Empty whole PSUM banks at once on {name}",
        f"{words.count(rows.size)} copies from PSUM on {name} take {round(float(elements.mean()))} elements a "
        f"partition each, {subject.time(float(pace.mean()))} apiece",
        rows,
        subject.gain({engine: saved}, subject.spans(rows)),
        f"let several products (or transposes) fill neighbouring parts of a bank and copy {LONG} fp32 elements with "
        f"one nisa.tensor_copy; where the next step is elementwise, let it read PSUM and drop the copy",
        f"{GUIDE}, Opt #5a and #6",
    )


def table_thrash(subject: Subject) -> Iterator[Advice]:
    """ScalarE loads activation tables again and again."""
    rows = subject.rows[subject.index.table[subject.rows]]
    if rows.size < 2:
        return
    ins = subject.trace.instructions
    operands = ins.operands[rows]
    kinds = np.unique(operands[operands != NONE]).size or 1
    again = rows.size - kinds
    if again < 1:
        return
    saved = round(float(subject.duration_ps[rows].mean()) * again)
    functions = sorted({subject.text("function", int(r)).lower() for r in subject.of(Engine.SCALAR)} - {""})
    yield subject.tell(
        "table_thrash",
        "Group activation functions by table",
        f"ScalarE loads {kinds} tables {words.count(rows.size)} times, "
        f"{subject.time(float(subject.duration_ps[rows].mean()))} each",
        rows,
        subject.gain({Engine.SCALAR: saved}, subject.spans(rows)),
        "apply one function to all tiles before the next function begins, or use functions of one table (exp alone "
        "makes sigmoid, tanh and silu); square, rsqrt and reciprocal can go to VectorE",
        "NKI architecture guide, ScalarE",
        [f"Functions in use: {', '.join(functions)}"] if functions else [],
        {"table_load": f"{kinds / rows.size:.3g}x"},
    )


def wrong_engine(subject: Subject) -> Iterator[Advice]:
    """The busiest engine does what another, which is idle, could do."""
    yield from _off_gpsimd(subject)
    first = subject.leader
    if first not in (Engine.VECTOR, Engine.SCALAR):
        return
    other = Engine.SCALAR if first == Engine.VECTOR else Engine.VECTOR
    rows = subject.of(first)
    ins = subject.trace.instructions
    movable = subject.opcode(*MOVABLE)
    if first == Engine.SCALAR:
        movable |= subject.opcode("ACTIVATE") & subject.having("function", lambda t: t.lower() in PLAIN_FUNCTIONS[:2])
    simple = subject.having("function", lambda text: text.lower() in ("", "copy", "identity", "multiply", "add"))
    bare = ins.function == NONE
    rows = rows[movable[rows] & (simple | bare)[rows]]
    spare = subject.busy[first] - subject.busy[other]
    moved = min(subject.total(rows, subject.pace_ps[rows]), spare // 2)
    if rows.size < MANY or spare < subject.busy[first] // 2:
        return
    yield subject.tell(
        "wrong_engine",
        f"Give a part of {NAMES[first]}'s work to {NAMES[other]}",
        f"{NAMES[first]} works {subject.time(subject.busy[first])} and {NAMES[other]} "
        f"{subject.time(subject.busy[other])}; {plural(rows.size, 'instruction')} of the first could run on either",
        rows,
        subject.gain({first: moved, other: -moved}, subject.spans(rows)),
        _to_scalar()
        if other == Engine.SCALAR
        else "nisa.tensor_copy(…, engine=nisa.engine.vector), or "
        "nisa.tensor_scalar instead of nisa.activation with copy or identity",
        "NKI architecture guide",
    )


def _to_scalar() -> str:
    return (
        "nisa.activation(op=nl.copy, scale=…, bias=…) or nisa.tensor_copy(…, engine=nisa.engine.scalar) for every "
        "second tile: copies out of PSUM and multiplications by a constant run there as well"
    )


def _off_gpsimd(subject: Subject) -> Iterator[Advice]:
    """Elementwise work on GpSimdE that VectorE has time for."""
    rows = subject.of(Engine.GPSIMD)
    rows = rows[subject.opcode(*GPSIMD_ELEMENTWISE)[rows]]
    taken, room = subject.total(rows, subject.pace_ps[rows]), subject.time_ps - subject.busy[Engine.VECTOR]
    there = _on_vector_ps(subject, rows)
    if rows.size < MANY or there is None or there > room:
        return
    saved = {Engine.GPSIMD: taken - there, Engine.VECTOR: -there}
    yield subject.tell(
        "wrong_engine",
        "Run elementwise operations on VectorE",
        f"{plural(rows.size, 'elementwise instruction')} run on GpSimdE for {subject.time(taken)}; VectorE would "
        f"take {subject.time(there)} and has {subject.time(room)} to spare",
        rows,
        subject.gain(saved, subject.spans(rows)),
        "leave engine= out, or say engine=nisa.engine.vector; keep GpSimdE for iota, masks, gathers and custom work",
        "NKI architecture guide",
    )


def _on_vector_ps(subject: Subject, rows: np.ndarray) -> int | None:
    """Time that VectorE would take for elementwise instructions; None without its figures."""
    clock, fixed = subject.figure("clock_vector"), subject.figure("dve.issue_ovh")
    rates = subject.figure("dve.rate_tt_fp32"), subject.figure("dve.rate_tt_bf16")
    if clock is None or fixed is None or None in rates:
        return None
    dtype = subject.trace.instructions.dtype[rows]
    short = [family(subject.trace.strings[int(c)]) == "bfloat16" if c != NONE else False for c in dtype]
    rate = np.where(short, rates[1], rates[0])
    return subject.total(rows, (subject.trace.instructions.elements[rows] / rate + fixed) / clock * 1000)


def combine(subject: Subject) -> Iterator[Advice]:
    """Chains of elementwise instructions that one instruction does in one pass."""
    first, second = _chained(subject)
    if first.size < MANY:
        return
    ins = subject.trace.instructions
    saved: dict[Engine, int] = {}
    for engine in (Engine.VECTOR, Engine.SCALAR):
        mine = first[ins.engine[first] == engine]
        if mine.size:
            saved[engine] = subject.total(mine, subject.pace_ps[mine])
    pairs = np.stack((ins.opcode[first], ins.opcode[second]), axis=1)
    kinds, counts = np.unique(pairs, axis=0, return_counts=True)
    best = kinds[int(np.argmax(counts))]
    names = tuple(subject.trace.strings[int(code)] or "" for code in best)
    yield subject.tell(
        "combine",
        "Do several operations in one pass",
        f"{plural(first.size, 'instruction')} make a tile that only the next elementwise instruction reads: most often "
        f"{names[0]}, then {names[1]}",
        first,
        subject.gain(saved, subject.spans(first)),
        CHAINS[names],
        f"{GUIDE}, Opt #6",
    )


def _chained(subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """Instructions whose only reader is another of the same size that could do their work too, and that reader."""
    trace, ins, edges = subject.trace, subject.trace.instructions, subject.trace.edges
    flow = edges.kind == EdgeKind.FLOW
    signaler, waiter = edges.signaler[flow], edges.waiter[flow]
    readers = np.bincount(signaler, minlength=len(ins))
    mine = np.zeros(len(ins), bool)
    mine[subject.rows] = True
    alike = (ins.elements[signaler] == ins.elements[waiter]) & (ins.partitions[signaler] == ins.partitions[waiter])
    kept = (readers[signaler] == 1) & alike & (ins.elements[signaler] > 1) & mine[signaler] & mine[waiter]
    signaler, waiter = signaler[kept], waiter[kept]
    text = trace.strings
    fits = [
        (text[a] or "", text[b] or "") in CHAINS
        for a, b in zip(ins.opcode[signaler].tolist(), ins.opcode[waiter].tolist())
    ]
    known = np.array(fits, bool)
    return signaler[known], waiter[known]
