"""Bytes that need not move: inputs loaded again, intermediates that visit HBM, spills."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.trace import Engine
from trnprof import words
from trnprof.advice.record import Advice
from trnprof.advice.subject import Subject, plural
from trnprof.demand import MEMORY
from trnprof.traffic import GIVEN, Traffic, sizes, traffic
from trnprof.work import ENGINES

GUIDE = "NKI performance guide"
OFTEN = 1.5
"""A tensor whose loads add up to less than this many times its size is not reloaded to speak of."""

PARTITIONS = 128


def weight(subject: Subject) -> np.ndarray:
    """How long each transfer keeps DMA engines at work, in any unit that is the same for all; float64 [transfers]."""
    trace = subject.trace
    packets, moved = trace.packets, trace.transfers
    taken = np.zeros(len(moved))
    rows = subject.packets
    rows = rows[packets.transfer[rows] >= 0]
    if rows.size:
        np.add.at(taken, packets.transfer[rows], packets.end_ps[rows] - packets.start_ps[rows])
        return taken
    roof, each = subject.roofs.get("dma"), subject.figure("dma.desc_ovh")
    taken[subject.transfers] = moved.bytes[subject.transfers]
    if roof is not None and each is not None:
        engines = subject.figure("dma_engines_nc") or 1
        taken += moved.descriptors * (each * 1e-9 / engines * roof.value)
    return taken


def memory_ps(subject: Subject, transfers: np.ndarray, part: float = 1.0) -> int:
    """Time that some transfers take of memory's, or a part of them."""
    taken = weight(subject)
    total = taken[subject.transfers].sum()
    return round(subject.busy[MEMORY] * part * taken[transfers].sum() / total) if total else 0


def issue_ps(subject: Subject, transfers: np.ndarray, part: float = 1.0) -> dict[Engine, int]:
    """Time that their triggers take on each engine, or a part of it."""
    rows = triggers(subject, transfers)
    engine, length = subject.trace.instructions.engine[rows], subject.duration_ps[rows] * part
    totals = {Engine(k): subject.total(rows[engine == k], length[engine == k]) for k in range(ENGINES)}
    return {each: ps for each, ps in totals.items() if ps}


def triggers(subject: Subject, transfers: np.ndarray) -> np.ndarray:
    """Instructions that triggered some transfers, ascending."""
    rows = subject.trace.transfers.instruction[transfers]
    return np.unique(rows[rows >= 0])


def reloads(subject: Subject) -> Iterator[Advice]:
    """An input that is loaded several times."""
    for tensor in traffic(subject.trace, subject.transfers):
        excess = tensor.loaded - tensor.size
        if tensor.type not in GIVEN or not tensor.size or tensor.loaded < OFTEN * tensor.size:
            continue
        part = excess / tensor.loaded
        saved = {MEMORY: memory_ps(subject, tensor.loads, part)} | issue_ps(subject, tensor.loads, part)
        times = _times(tensor.loaded / tensor.size)
        rows = triggers(subject, tensor.loads)
        yield subject.tell(
            "reloads",
            f"Load {tensor.name} once instead of {times} times",
            f"{words.size(tensor.loaded)} are loaded of {tensor.name}, which has {words.size(tensor.size)}",
            rows,
            subject.gain(saved, subject.memory_spans),
            _keep(subject, tensor),
            f"{GUIDE}, Opt #1",
            [f"{plural(tensor.loads.size, 'load')} of {tensor.name}, {words.size(excess)} of them again"],
        )


def _times(factor: float) -> str:
    return words.count(round(factor)) if abs(factor - round(factor)) < 0.05 else words.digits(factor, 2)


def _keep(subject: Subject, tensor: Traffic) -> str:
    """How to load it less often, by whether it fits."""
    room, peak = subject.figure("sbuf_partition_bytes"), subject.needed.sbuf_peak
    each = -(-tensor.size // PARTITIONS)
    if room is None:
        return "move its load out of the inner loop and keep the tile in SBUF for every use"
    if each < room / 2:
        used = f", of which {words.share(peak)} are in use at the peak" if peak is not None else ""
        return (
            f"keep {tensor.name} in SBUF: it takes {words.size(each)} a partition of {words.size(int(room))}{used}; "
            f"allocate its tiles with nl.ndarray before the loop and move nisa.dma_copy (nl.load) there"
        )
    return (
        f"{tensor.name} takes {words.size(each)} a partition of {words.size(int(room))}: work in blocks. Load a block "
        f"of several tiles in one nisa.dma_copy, use it for every tile of the other operand that is in SBUF, then load "
        f"the next; twice the block on either side halves the loads of the other"
    )


def intermediates(subject: Subject) -> Iterator[Advice]:
    """A result that is written to HBM and read back by the same kernel."""
    known, sent = traffic(subject.trace, subject.transfers), _sent(subject)
    for tensor in known:
        if tensor.name in sent:
            continue
        back = min(tensor.loaded, tensor.stored)
        if not back or tensor.type in GIVEN:
            continue
        moved = tensor.loads if tensor.type == "OUT" else np.concatenate((tensor.loads, tensor.stores))
        saved = {MEMORY: memory_ps(subject, moved)} | issue_ps(subject, moved)
        yield subject.tell(
            "intermediates",
            f"Keep {tensor.name} in SBUF",
            f"{words.size(tensor.stored)} of {tensor.name} go to HBM and {words.size(tensor.loaded)} come back",
            triggers(subject, moved),
            subject.gain(saved, subject.memory_spans),
            _fuse(tensor.name),
            f"{GUIDE}, Opt #2",
        )
    if not any(tensor.loads.size or tensor.stores.size for tensor in known):
        yield from _unnamed(subject)


def _sent(subject: Subject) -> set[str]:
    """Tensors that a collective sends or receives, which must lie in HBM."""
    table = subject.trace.instructions
    texts = [subject.trace.text(table, "operands", int(row)) or "" for row in subject.collectives]
    return {name for text in texts for name in text.partition("tensors=")[2].split("->")}


def _unnamed(subject: Subject) -> Iterator[Advice]:
    """Where transfers have no names: more is written than the outputs hold, and as much read than the inputs hold."""
    given, work = sizes(subject.trace), subject.region.work
    inputs, outputs = sum(given.get(kind, 0) for kind in GIVEN), given.get("OUT", 0)
    written = work.hbm_write_bytes - outputs - work.spill_bytes
    read = work.hbm_read_bytes - inputs
    again = min(written, read)
    if not outputs or again <= 0:
        return
    rows = subject.rows[subject.index.issue[subject.rows]]
    part = 2 * again / work.hbm_bytes
    saved = {MEMORY: round(subject.busy[MEMORY] * part)}
    yield subject.tell(
        "intermediates",
        "Keep intermediate results in SBUF",
        f"{words.size(work.hbm_write_bytes)} are written to HBM though the outputs have {words.size(outputs)}, "
        f"and {words.size(work.hbm_read_bytes)} are read though the inputs have "
        f"{words.size(inputs)}",
        rows,
        subject.gain(saved, subject.memory_spans),
        _fuse("the intermediate result"),
        f"{GUIDE}, Opt #2",
        [f"About {words.size(again)} go to HBM and come back, {words.share(part)} of all HBM traffic"],
    )


def _fuse(name: str) -> str:
    return (
        f"fuse producer and consumer: go over the tiles once and use {name} from SBUF (nl.ndarray(…, buffer=nl.sbuf)) "
        f"before the next tile is made; tile both loops alike so that a block of it fits"
    )


def spills(subject: Subject) -> Iterator[Advice]:
    """Values that the compiler saved to HBM for lack of SBUF, and read again."""
    work, ins = subject.region.work, subject.trace.instructions
    if not work.spill_bytes or not work.hbm_bytes:
        return
    added = ins.spill_save_bytes[subject.rows] + ins.spill_reload_bytes[subject.rows]
    rows = subject.rows[added > 0]
    moved = subject.index.transfers_of(rows)
    share = work.spill_bytes / work.hbm_bytes
    memory = memory_ps(subject, moved) if moved.size else round(subject.busy[MEMORY] * share)
    peak = subject.needed.sbuf_peak
    full = f" while SBUF peaks at {words.share(peak)}" if peak is not None else ""
    yield subject.tell(
        "spills",
        "Let the live tiles fit into SBUF",
        f"{words.size(work.spill_bytes)} of {words.size(work.hbm_bytes)} HBM traffic are spills and reloads{full}",
        rows,
        subject.gain({MEMORY: memory} | issue_ps(subject, moved), subject.memory_spans),
        "make the blocks smaller or consume a tile right after it is made: fewer tiles live at once. Where tiles are "
        "allocated per iteration, fewer iterations may run ahead",
        f"{GUIDE}, Opt #2",
    )
