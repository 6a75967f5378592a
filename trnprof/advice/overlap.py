"""Work that could go on at the same time and does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.trace import COMPUTE_ENGINES, Engine, Memory, Wait
from trnprof import words
from trnprof.advice.record import Advice, Gain
from trnprof.advice.reuse import GUIDE, triggers
from trnprof.advice.subject import NAMES, Subject, plural
from trnprof.demand import MEMORY, NETWORK
from trnprof.intervals import Spans, gaps, merge, overlap

HIDDEN = 0.75
"""Of an exposed wait, what overlap saves: with a tile in work, one ahead and one behind, three quarters of four."""

TELLING = 0.05
"""Exposed waits below this share of the time are the filling and draining of any pipeline."""

EXPOSED = 0.25
"""Of the time of collectives: what lies open beside more than this could be hidden."""

PSUM_REMEDY = (
    "allocate the accumulator inside the loop, or an array of them over several of the 8 banks, and evacuate a bank "
    "while the next product goes to another"
)

SBUF_REMEDY = (
    "allocate the tile inside the loop (nl.ndarray in the loop's body) or use two buffers in turn (index % 2): the "
    "next block is then loaded while this one is used"
)


def single_buffer(subject: Subject) -> Iterator[Advice]:
    """A load or a result that waits until the one buffer it goes to has been read."""
    ins = subject.trace.instructions
    blocked, spans = _blocked(subject)
    waits = overlap(subject.idle(inside=True), spans)
    lost = _length(waits)
    if not blocked.size or lost < TELLING * subject.time_ps:
        return
    waited = blocked[ins.wait[blocked] == Wait.BUFFER]
    loads = waited[subject.index.issue[waited]]
    psum = loads.size < waited.size / 2
    place = "PSUM" if psum else "SBUF"
    peak = subject.needed.psum_peak if psum else subject.needed.sbuf_peak
    room = f"; {place} peaks at {words.share(peak)}" if peak is not None else ""
    what = "results wait for a free PSUM bank" if psum else "loads wait until their buffer has been read"
    yield subject.tell(
        "single_buffer",
        "Give the accumulators a second PSUM bank" if psum else "Double the buffer of the loaded block",
        f"{plural(waited.size, 'instruction')} wait for memory to be free; {NAMES[subject.leader]} is idle meanwhile "
        f"for {subject.time(lost)}{room}",
        waited,
        _hidden(subject, lost),
        PSUM_REMEDY if psum else SBUF_REMEDY,
        f"{GUIDE}, Opt #4",
        [f"{words.listing([words.ENGINE_WORDS[e] for e in np.unique(ins.engine[waited])])}: {what}"],
        {"buffers": "unlimited"},
    )


def _blocked(subject: Subject) -> tuple[np.ndarray, Spans]:
    """Instructions that waited for their destination or were issued right behind one that did, and how long.

    The spans reach from where the engine fell idle until what was produced or loaded is there.
    """
    trace, ins = subject.trace, subject.trace.instructions
    parts = [_behind(subject, rows) for rows in _streams(subject)]
    rows = np.sort(np.concatenate([subject.rows[:0], *parts]))
    idle = np.maximum(ins.wait_ps[rows], subject.index.idle_ps[rows]) * (ins.wait[rows] == Wait.BUFFER)
    until = ins.end_ps[rows].copy()
    transfers = subject.index.transfers_of(rows)
    np.maximum.at(
        until, np.searchsorted(rows, trace.transfers.instruction[transfers]), trace.transfers.end_ps[transfers]
    )
    return rows, merge(ins.start_ps[rows] - idle, until)


def _streams(subject: Subject) -> Iterator[np.ndarray]:
    """The rows of each engine of each core."""
    ins = subject.trace.instructions
    lane = ins.core[subject.rows].astype(np.int64) * len(Engine) + ins.engine[subject.rows]
    for key in np.unique(lane):
        yield subject.rows[lane == key]


def _behind(subject: Subject, rows: np.ndarray) -> np.ndarray:
    """Of one engine's rows, those whose latest wait was for a buffer: their own, or of one issued just before."""
    wait = subject.trace.instructions.wait[rows]
    caused = ~np.isin(wait, (Wait.ENGINE, Wait.ISSUE))
    latest = np.maximum.accumulate(np.where(caused, np.arange(rows.size), 0))
    return rows[wait[latest] == Wait.BUFFER]


def _hidden(subject: Subject, lost: int) -> Gain:
    ps = min(round(HIDDEN * lost), _length(subject.idle()))
    how = f"{NAMES[subject.leader]}, the busiest, waits {subject.time(lost)}; {words.share(HIDDEN)} of that can overlap"
    return Gain(max(0, ps), how)


def exposed_loads(subject: Subject) -> Iterator[Advice]:
    """The leading engine waits between its first and last work while data move."""
    if subject.leader not in COMPUTE_ENGINES:
        yield from _exposed_compute(subject)
        return
    blocked = _blocked(subject)[1]
    idle = overlap(subject.idle(inside=True), gaps(*blocked, *subject.region.window))
    others = [subject.spans(subject.of(engine)) for engine in COMPUTE_ENGINES if engine != subject.leader]
    for each in others:
        idle = overlap(idle, gaps(*each, *subject.region.window))
    lost = _length(overlap(idle, subject.memory_spans))
    if lost < TELLING * subject.time_ps:
        return
    moved, rows = subject.trace.transfers, subject.transfers
    late = rows[_touching(moved.start_ps[rows], moved.end_ps[rows], idle)]
    loads = late[moved.dest_memory[late] != Memory.HBM]
    yield subject.tell(
        "exposed_loads",
        f"Load the next tile while {NAMES[subject.leader]} works on this one",
        f"{NAMES[subject.leader]}, the busiest engine, waits {subject.time(lost)} for data between its first and its "
        f"last instruction, and no other engine works meanwhile",
        triggers(subject, loads if loads.size else late),
        _hidden(subject, lost),
        "trigger the loads of the next iteration before the work of this one: allocate the tiles inside the loop, keep "
        "the loop free of dependencies (nl.affine_range), and load the first tiles in small pieces",
        f"{GUIDE}, Opt #4",
        [f"{plural(late.size, 'transfer')} go on in that time"],
    )


def _exposed_compute(subject: Subject) -> Iterator[Advice]:
    """Memory leads and is idle while the engines work on what it brought."""
    if subject.leader != MEMORY:
        return
    work = [subject.spans(subject.of(engine)) for engine in COMPUTE_ENGINES]
    busy = merge(np.concatenate([s for s, _ in work]), np.concatenate([e for _, e in work]))
    exposed = overlap(overlap(subject.idle(inside=True), busy), gaps(*_blocked(subject)[1], *subject.region.window))
    lost = _length(exposed)
    if lost < TELLING * subject.time_ps:
        return
    rows = subject.rows[np.isin(subject.trace.instructions.engine[subject.rows], COMPUTE_ENGINES)]
    ins = subject.trace.instructions
    rows = rows[_touching(ins.start_ps[rows], ins.end_ps[rows], exposed)]
    rows = rows[~(subject.index.issue[rows] | subject.index.table[rows])]
    yield subject.tell(
        "exposed_loads",
        "Keep DMAs under way while the engines work",
        f"Memory, the busiest, moves nothing for {subject.time(lost)} between its first and its last byte, while the "
        f"engines work on what it brought",
        rows,
        _hidden(subject, lost),
        "let loads run ahead: allocate the tiles of an iteration inside the loop, so that the next one's are loaded "
        "meanwhile, and make the tiles smaller where only one fits",
        f"{GUIDE}, Opt #4",
    )


def engines_in_turn(subject: Subject) -> Iterator[Advice]:
    """Engines that wait for each other instead of working side by side."""
    if subject.leader not in COMPUTE_ENGINES:
        return
    idle = overlap(subject.idle(), gaps(*_blocked(subject)[1], *subject.region.window))
    parts = {e: subject.spans(subject.of(e)) for e in COMPUTE_ENGINES if e != subject.leader}
    alone = {engine: overlap(idle, spans) for engine, spans in parts.items()}
    lost = _length(merge(*(np.concatenate(side) for side in zip(*alone.values(), strict=True))))
    if lost < TELLING * subject.time_ps:
        return
    other = max(alone, key=lambda engine: _length(alone[engine]))
    ins = subject.trace.instructions
    rows = subject.of(other)
    rows = rows[_touching(ins.start_ps[rows], ins.end_ps[rows], alone[other])]
    name = NAMES[other]
    yield subject.tell(
        "engines_in_turn",
        f"Let {NAMES[subject.leader]} go on while {name} works",
        f"{NAMES[subject.leader]}, the busiest engine, idles for {subject.time(lost)} while others work, "
        f"{subject.time(_length(alone[other]))} of it while {name} works",
        rows,
        _hidden(subject, lost),
        "work on two tiles at a time: issue the leading engine's work of the next tile before the rest of this one, "
        "from tiles that each have their own SBUF and PSUM buffers; smaller tiles let the next engine start earlier",
        f"{GUIDE}, Opt #3",
    )


def serial_collectives(subject: Subject) -> Iterator[Advice]:
    """Collectives that nothing hides."""
    rows = subject.collectives
    if not rows.size:
        return
    compute = [subject.spans(subject.of(engine)) for engine in COMPUTE_ENGINES]
    busy = merge(*(np.concatenate(side) for side in zip(*compute, strict=True)))
    lost = _length(overlap(subject.spans_of(NETWORK), gaps(*busy, *subject.region.window)))
    hidable = min(lost, _length(busy))
    if lost < max(TELLING * subject.time_ps, EXPOSED * subject.busy[NETWORK]):
        return
    gain = Gain(
        round(HIDDEN * hidable),
        f"collectives are exposed for {subject.time(lost)}; {words.share(HIDDEN)} of what the engines work otherwise "
        f"can go on meanwhile",
    )
    yield subject.tell(
        "serial_collectives",
        "Overlap the collectives with compute",
        f"{plural(rows.size, 'collective')} take {subject.time(subject.busy[NETWORK])}, {subject.time(lost)} of it "
        f"while no engine computes",
        rows,
        gain,
        "cut the tensor into chunks and start the collective of one as soon as it is computed, while the engines work "
        "on the next; join collectives of a few KiB, whose time is latency",
        "NKI collectives guide",
    )


def _touching(start: np.ndarray, end: np.ndarray, spans: Spans) -> np.ndarray:
    """Which intervals overlap spans that are sorted and apart; bool."""
    first = np.searchsorted(spans[1], start, "right")
    found = first < spans[0].size
    found[found] = spans[0][first[found]] < end[found]
    return found


def _length(spans: Spans) -> int:
    return int((spans[1] - spans[0]).sum())
