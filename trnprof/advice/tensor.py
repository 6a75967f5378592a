"""TensorE at work for less than it could do: loads of weights, transposes, a cold clock, wide dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.trace import NONE, EdgeKind, Engine
from trnprof import words
from trnprof.advice.record import Advice
from trnprof.advice.reuse import GUIDE
from trnprof.advice.shapes import LANES
from trnprof.advice.subject import Subject, plural
from trnprof.machine import family, short

BANK = 512
"""Moving columns that one PSUM bank of fp32 holds: the widest matmul."""

MANY = 8

SHORT = 32
"""Columns up to which an operand is short: loading or streaming it takes little more than the fixed cost."""

TRANSPOSES = 0.1
"""Share of TensorE's time on transposes from which AWS's own rules speak."""

_ARRAY = re.compile(r"(?:^|\s)(\d+)\*(\d+)(?:\s|$)")

_PLACE = {role: re.compile(rf"\b{role}=(?:(\w+)@)?0x([0-9a-f]+)\[([-\d,]+)\]\[([\d,]+)\]") for role in ("src", "dst")}
"""dtype, address, strides and sizes of an operand on chip, in elements."""


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Matrix products that are no transposes: what each used of the array, and how long it held TensorE."""

    rows: np.ndarray
    """MATMUL rows; int64 [n]."""
    contraction: np.ndarray
    columns: np.ndarray
    """Of the stationary tile."""
    moving: np.ndarray
    """Columns streamed."""
    pace_ps: np.ndarray
    """How long each holds TensorE where the next follows back to back: the usual distance of its kind."""


def array_use(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """Rows and columns of the array that each matmul uses, as (rows, columns); 0 where the profile does not tell."""
    codes = subject.trace.instructions.operands[rows]
    found = np.zeros((rows.size, 2), np.int64)
    for code in np.unique(codes):
        text = subject.trace.strings[int(code)] if code != NONE else None
        match = _ARRAY.search(text or "")
        if match:
            found[codes == code] = int(match[1]), int(match[2])
    return found


def products(subject: Subject) -> Products:
    """The products whose shape the trace tells."""
    ins = subject.trace.instructions
    rows = subject.of(Engine.TENSOR)
    rows = rows[~subject.index.transpose[rows] & (ins.flops[rows] > 0)]
    size = array_use(subject, rows)
    known = size.prod(axis=1) > 0
    rows, size = rows[known], size[known]
    moving = ins.elements[rows] // size.prod(axis=1) if rows.size else np.zeros(0, np.int64)
    length = subject.duration_ps[rows]
    pace = length.copy()
    pace[:-1] = np.diff(ins.start_ps[rows])
    for group in np.unique(moving):
        mine = moving == group
        pace[mine] = np.minimum(np.median(pace[mine]), 2 * length[mine])
    return Products(rows, size[:, 0], size[:, 1], moving, pace)


def small_products(subject: Subject) -> Iterator[Advice]:
    """Matrix products on a part of the array."""
    found = products(subject)
    used = found.contraction * found.columns / LANES**2
    small = used <= 0.5
    if np.count_nonzero(small) < MANY:
        return
    rows, pace = found.rows[small], found.pace_ps[small]
    saved = subject.total(rows, pace * (1 - used[small]))
    sizes = np.stack((found.contraction[small], found.columns[small]))
    mean = np.rint(np.average(sizes, axis=1, weights=np.maximum(1, pace))).astype(int)
    yield subject.tell(
        "small_products",
        "Fill TensorE's array",
        f"{plural(rows.size, 'matmul')} use {mean[0]} rows and {mean[1]} columns of {LANES} x {LANES} on average",
        rows,
        subject.gain({Engine.TENSOR: saved}, subject.spans(rows)),
        f"contract over {LANES} partitions and make the stationary tile {LANES} columns wide; batch small products "
        f"that share an operand, or put independent ones on different rows of the array (row tiling)",
        f"{GUIDE}, Opt #5b",
    )


def stationary_reloads(subject: Subject) -> Iterator[Advice]:
    """Weights that are loaded several times, for few moving columns each."""
    found = products(subject)
    clock = subject.figure("clock_tensor")
    uses = _uses(subject, found)
    narrow = (found.moving <= BANK // 2) & (uses >= 2)
    if np.count_nonzero(narrow) < MANY or clock is None:
        return
    rows, moving, pace = found.rows[narrow], found.moving[narrow], found.pace_ps[narrow]
    stream = moving * _cycles_a_column(subject, rows) / clock * 1000
    kept = np.minimum(uses[narrow], BANK // moving)
    saved = subject.total(rows, np.clip(pace - stream, 0, None) * (1 - 1 / kept))
    yield subject.tell(
        "stationary_reloads",
        f"Stream {BANK} columns for each stationary tile",
        f"{plural(rows.size, 'matmul')} stream {round(float(np.mean(moving)))} columns for each load of weights, and "
        f"the same weights are loaded {words.digits(float(np.mean(uses[narrow])), 2)} times; "
        f"{subject.time(float(np.mean(pace)))} go by from one to the next, {subject.time(float(np.mean(stream)))} of "
        f"them at the array's rate",
        rows,
        subject.gain({Engine.TENSOR: saved}, subject.spans(rows)),
        f"make the moving tile {BANK} columns wide (one PSUM bank of fp32): a wider slice of the moving operand in "
        f"nisa.nc_matmul, or the loop over its tiles inside the one over stationary tiles",
        f"{GUIDE}, Opt #7",
    )


def _uses(subject: Subject, found: Products) -> np.ndarray:
    """How many products each one's stationary tile serves before it is written again; 1 when that is not told."""
    trace, ins = subject.trace, subject.trace.instructions
    loads = subject.rows[subject.opcode("LDWEIGHTS")[subject.rows]]
    at = np.searchsorted(loads, found.rows) - 1
    if not found.rows.size or not loads.size or at.min() < 0:
        return np.ones(found.rows.size)
    row = loads[at]
    tile = _places(subject, ins.operands[row], "src")
    made = np.full(len(ins), NONE, np.int64)
    edges = trace.edges
    flow = np.flatnonzero((edges.kind == EdgeKind.FLOW) & np.isin(edges.waiter, row))
    signaler, waiter = edges.signaler[flow], edges.waiter[flow]
    start, end = (_places(subject, ins.operands[signaler], "dst", part) for part in (0, 1))
    wanted = _places(subject, ins.operands[waiter], "src")
    covers = (start <= wanted) & (wanted < end) & (wanted >= 0)
    np.maximum.at(made, waiter[covers], signaler[covers])
    known = (tile >= 0) & (made[row] >= 0)
    _, group, count = np.unique(np.stack((tile, made[row]), axis=1), axis=0, return_inverse=True, return_counts=True)
    passes = np.where(_cycles_a_column(subject, found.rows) > 1, subject.figure("pe.passes_fp32") or 1, 1)
    return np.where(known, count[group.reshape(-1)] / passes, 1)


def _places(subject: Subject, codes: np.ndarray, role: str, part: int = 0) -> np.ndarray:
    """Address of an operand on chip (0) or where it ends (1), -1 where the text has none; int64."""
    found = np.full(codes.size, NONE, np.int64)
    values, inverse = np.unique(codes, return_inverse=True)
    table = np.full(values.size, NONE, np.int64)
    for k, code in enumerate(values.tolist()):
        match = _PLACE[role].search(subject.trace.strings[code] or "") if code != NONE else None
        if match:
            size = sum((int(n) - 1) * abs(int(s)) for s, n in zip(match[3].split(","), match[4].split(","))) + 1
            table[k] = int(match[2], 16) + part * size * (4 if "32" in (match[1] or "32") else 2)
    found[:] = table[inverse.reshape(-1)]
    return found


def _cycles_a_column(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """Cycles that a moving column takes in one row of the trace."""
    dtype = subject.trace.instructions.dtype[rows]
    wide = subject.figure("pe.cycles_per_column_fp32") or 1
    cycles = np.ones(rows.size)
    for code in np.unique(dtype):
        if code != NONE and family(subject.trace.strings[int(code)]) == "float32":
            cycles[dtype == code] = wide
    return cycles


def matmul_mapping(subject: Subject) -> Iterator[Advice]:
    """Products that stream a long operand past a few stationary columns."""
    found = products(subject)
    clock, least = subject.figure("clock_tensor"), subject.figure("pe.min_ii")
    uneven = (found.columns <= SHORT) & (found.moving >= LANES)
    if np.count_nonzero(uneven) < MANY or clock is None or least is None:
        return
    rows, pace = found.rows[uneven], found.pace_ps[uneven]
    each = np.maximum(found.columns[uneven], least) * _cycles_a_column(subject, rows) / clock * 1000
    swapped = np.ceil(found.moving[uneven] / LANES) * each
    columns, moving = (round(float(np.mean(values[uneven]))) for values in (found.columns, found.moving))
    yield subject.tell(
        "matmul_mapping",
        "Swap the stationary and the moving operand",
        f"{plural(rows.size, 'matmul')} stream {moving} columns past {columns} stationary ones, "
        f"{subject.time(float(pace.mean()))} each; the other way round the same work takes "
        f"{subject.time(float(swapped.mean()))}, for loads of weights hide behind the products",
        rows,
        subject.gain({Engine.TENSOR: subject.total(rows, np.clip(pace - swapped, 0, None))}, subject.spans(rows)),
        "nisa.nc_matmul(stationary=b, moving=a) instead of (a, b): map the operand with the short free dimension to "
        "the moving side. The result comes out transposed",
        f"{GUIDE}, Opt #7",
    )


def tensor_transposes(subject: Subject) -> Iterator[Advice]:
    """TensorE's time on transposes."""
    rows = subject.of(Engine.TENSOR)
    rows = rows[subject.index.transpose[rows]]
    busy, taken = subject.needed.active_ps[Engine.TENSOR], subject.needed.transpose_ps
    if not rows.size or taken < TRANSPOSES * busy:
        return
    copies = _copies_after(subject, rows)
    saved = {Engine.TENSOR: taken}
    engines = subject.trace.instructions.engine[copies]
    for engine in np.unique(engines):
        mine = copies[engines == engine]
        saved[Engine(int(engine))] = subject.total(mine, subject.pace_ps[mine])
    matmuls = int(np.count_nonzero(subject.opcode("MATMUL")[rows])) or rows.size
    yield subject.tell(
        "tensor_transposes",
        "Avoid the transposes on TensorE",
        f"TensorE spends {subject.time(taken)} of its {subject.time(busy)} on {plural(matmuls, 'transpose')}",
        rows,
        subject.gain(saved, subject.spans(rows)),
        "swap stationary and moving in the product that makes the tile, so that it comes out in the layout that the "
        "next one needs; load inputs in that layout (another layout in HBM, or nisa.dma_transpose where DMAs are idle)",
        f"{GUIDE}, Opt #8",
        [f"{words.count(copies.size)} copies out of PSUM follow them"] if copies.size else [],
    )


def _copies_after(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """Copies from PSUM to SBUF that read what transposes made."""
    trace, ins = subject.trace, subject.trace.instructions
    edges = trace.edges
    made = np.zeros(len(ins), bool)
    made[rows] = True
    after = np.unique(edges.waiter[made[edges.signaler]])
    copying = (ins.psum_read_bytes[after] > 0) & (ins.sbuf_write_bytes[after] > 0)
    return after[copying & (ins.engine[after] != Engine.TENSOR)]


def cold_clock(subject: Subject) -> Iterator[Advice]:
    """TensorE at work while its clock is down for want of use."""
    cold, busy = subject.needed.cold_ps, subject.needed.active_ps[Engine.TENSOR]
    share, window = subject.figure("pe.clock_cold"), subject.figure("pe.clock_window")
    # A clock that was down for the first windows only has started, as every clock must.
    if share is None or window is None or cold < 2 * window * 1000:
        return
    rows = subject.of(Engine.TENSOR)
    saved = round(cold * (1 - share))
    yield subject.tell(
        "cold_clock",
        "Keep TensorE busy so that its clock stays up",
        f"TensorE works {subject.time(cold)} of its {subject.time(busy)} at {words.share(share)} of its clock, which "
        f"rises only after it was kept busy for {words.time(window * 1000)}",
        rows,
        subject.gain({Engine.TENSOR: saved}, subject.spans(rows)),
        "bring the products close together: several tiles in a row, operands loaded ahead, results evacuated from "
        "several PSUM banks; a few products on any tile while the first loads are under way warm the clock",
        "Neuron Explorer, throttling",
        what_if={"pe.clock_cold": "1"},
    )


def wide_dtype(subject: Subject) -> Iterator[Advice]:
    """Products in fp32, four times as long as in bf16, on a TensorE that sets the pace."""
    found = products(subject)
    ins = subject.trace.instructions
    wide = np.array([family(subject.trace.strings[int(c)]) == "float32" for c in ins.dtype[found.rows]], bool)
    bf16, fp32 = subject.roofs.get("tensor.bf16"), subject.roofs.get("tensor.fp32")
    if np.count_nonzero(wide) < MANY or bf16 is None or fp32 is None:
        return
    rows, pace = found.rows[wide], found.pace_ps[wide]
    saved = subject.total(rows, pace * (1 - fp32.value / bf16.value))
    yield subject.tell(
        "wide_dtype",
        "Multiply in bf16",
        f"{plural(rows.size, 'matmul')} are {short('float32')}, which runs at "
        f"{words.share(fp32.value / bf16.value)} of the bf16 rate",
        rows,
        subject.gain({Engine.TENSOR: saved}, subject.spans(rows)),
        "cast the operands to bf16 (dtype=nl.bfloat16 on the tile that the DMA or the copy fills); PSUM still adds up "
        "in fp32. The result has bf16's precision: check it against the reference",
        "NKI architecture guide",
    )
