"""DMA packets put together to the transfers that the instructions triggered.

Profiles without descriptor notifications have the packets of run-time generated DMAs, but not their transfers. On each
DMA engine a transfer ends with a packet that raises its semaphore, so the n-th stretch between such packets on every
engine of a queue is the n-th DMA that was triggered on it. The stretches are accepted when all engines agree on
their number; they are linked to the triggers when number and bytes match. Checked on the real profiles, where all do.
"""

from __future__ import annotations

import re

import numpy as np

from sim.trace import NONE, Engine, Memory, QueueType, Wait
from trnprof.readers.draft import ENGINES, Columns, Draft, column, marks, size

SEMAPHORE_BYTES = 4
"""Size of the packet that raises a semaphore."""

DOORBELL = "WRITE"
"""What the trigger of a prepared DMA becomes at run time, where the profile has no compiler's opcode."""

_QUEUE_ENGINE = re.compile(r"q(Tensor|PE|Vector|DVE|Scalar|Act|GpSimd|Pool|Sync|SP)(?=[A-Z_0-9]|$)")
_DYNAMIC = (QueueType.SOFTWARE_DYNAMIC, QueueType.HARDWARE_DYNAMIC)
_SIDES = ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes")


def mark_triggers(draft: Draft) -> None:
    """Add `_trigger`: 1 where a row starts a prepared DMA, 2 where its descriptors are made at run time, else 0."""
    run_time = marks(draft.strings, draft.instructions["opcode"], "DMA_", "PSEUDO_DMA_DIRECT")
    prepared = marks(draft.strings, column(draft.instructions, "_compiler_opcode", NONE), "PSEUDO_DMA")
    draft.instructions["_trigger"] = np.where(run_time, 2, prepared.astype(np.int64))


def build_transfers(draft: Draft) -> Columns:
    """Fill in `transfer` of the packets; returns the transfers, the profile's own first, unsorted."""
    mark_triggers(draft)
    own = draft.transfers
    parts = [_own(draft)] if size(own) else []
    packets = draft.packets
    packets["transfer"] = _own_of(column(packets, "_parent"), own.get("id", np.empty(0, np.int64)))
    first = size(own)
    for rows in _groups(packets, np.flatnonzero(packets["transfer"] == NONE)):
        part = _derive(draft, rows, first)
        parts.append(part)
        first += size(part)
    names = dict.fromkeys(name for part in parts for name in part)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
    if joined:
        _number(joined, first - size(own))
        _complete(draft, joined)
    return joined


def _own(draft: Draft) -> Columns:
    """The profile's own transfers with the instruction that starts at their trigger time."""
    part, instructions = draft.transfers, draft.instructions
    triggers = instructions["_trigger"] > 0
    doorbell = draft.strings.find(DOORBELL)
    possible = triggers | ((instructions["opcode"] == doorbell) & (doorbell >= 0))
    rows = np.flatnonzero(possible & np.isin(instructions["start_ps"], column(part, "_trigger_ps", NONE)))
    rows = rows[np.argsort(triggers[rows], kind="stable")]
    starts = zip(instructions["core"][rows].tolist(), instructions["start_ps"][rows].tolist(), strict=True)
    started = dict(zip(starts, rows.tolist(), strict=True))
    keys = zip(column(part, "core").tolist(), column(part, "_trigger_ps", NONE).tolist(), strict=True)
    linked = np.fromiter((started.get(key, NONE) for key in keys), np.int64, size(part))
    return _fields(draft, part, linked)


def _fields(draft: Draft, part: Columns, linked: np.ndarray) -> Columns:
    """The columns that every transfer has; what the profile does not say is taken from the trigger."""
    instructions = draft.instructions
    source, dest = _memories(instructions, linked)
    element = np.append(column(instructions, "_element_bytes"), 0)[linked]
    semaphore = np.append(column(instructions, "_semaphore", NONE), NONE)[linked]
    absent = {"queue": NONE, "queue_type": QueueType.UNKNOWN, "variable": NONE}
    names = ("id", "core", "queue", "queue_type", "variable", "bytes", "read_bytes", "write_bytes")
    return {
        **{name: column(part, name, absent.get(name, 0)) for name in names},
        "start_ps": part["start_ps"],
        "end_ps": part["end_ps"],
        "instruction": linked,
        "source_memory": _or(column(part, "source_memory", NONE), source),
        "dest_memory": _or(column(part, "dest_memory", NONE), dest),
        "descriptors": np.where(element > 0, column(part, "bytes") // np.maximum(element, 1), 0),
        "_semaphore": _or(column(part, "_semaphore", NONE), semaphore),
    }


def _or(known: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    return np.where(known == NONE, otherwise, known)


def _memories(instructions: Columns, linked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Source and destination as the trigger's byte counts show them, -1 unknown."""
    hbm_read, hbm_write, sbuf_read, sbuf_write = (
        np.append(column(instructions, side), 0)[linked] > 0 for side in _SIDES
    )
    source = np.select([hbm_read, sbuf_read], [Memory.HBM, Memory.SBUF], NONE)
    return source, np.select([hbm_write, sbuf_write], [Memory.HBM, Memory.SBUF], NONE)


def _own_of(parent: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Index of each packet's transfer, -1 where the profile has none."""
    if not ids.size:
        return np.full(parent.size, NONE, np.int64)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], parent), ids.size - 1)
    return np.where(ids[order][at] == parent, order[at], NONE)


def _groups(packets: Columns, rows: np.ndarray) -> list[np.ndarray]:
    """Rows of the same queue of a core."""
    if not rows.size:
        return []
    keys = np.stack([column(packets, name)[rows].astype(np.int64) for name in ("core", "ring", "queue_type")])
    _, group = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(group.ravel()[order])) + 1)


def _derive(draft: Draft, rows: np.ndarray, first: int) -> Columns:
    """Transfers of one group of packets; their indices start at `first`."""
    packets, receipt = draft.packets, draft.receipt
    stretch = _stretches(packets, rows) if packets["queue_type"][rows[0]] in _DYNAMIC else None
    linked = None if stretch is None else _triggers_of(draft, rows, stretch)
    if stretch is None:
        stretch = _bursts(packets, rows)
        receipt.remark("DMA packets that no transfer row explains (instruction fetch) are shown in unbroken bursts.")
    elif linked is None:
        receipt.remark("Some DMA transfers were derived from their packets; what triggered them is not known.")
    else:
        receipt.remark(
            "Transfers of run-time generated DMAs were derived from packets and semaphores, and match their triggers."
        )
    packets["transfer"][rows] = stretch + first
    count = int(stretch.max()) + 1
    return _fields(draft, _sums(packets, rows, stretch), np.full(count, NONE) if linked is None else linked)


def _stretches(packets: Columns, rows: np.ndarray) -> np.ndarray | None:
    """Number of the stretch of each packet, None when the engines do not agree on how many there are."""
    ring = packets["dma_engine"][rows]
    order = np.lexsort((column(packets, "_index")[rows], packets["start_ps"][rows], ring))
    closing = packets["bytes"][rows][order] == SEMAPHORE_BYTES
    _, first, per_ring = np.unique(ring[order], return_index=True, return_counts=True)
    closed = np.add.reduceat(closing.astype(np.int64), first)
    if not closing[first + per_ring - 1].all() or (closed != closed[0]).any():
        return None
    before = np.cumsum(closing) - closing
    number = np.empty(rows.size, np.int64)
    number[order] = before - np.repeat(before[first], per_ring)
    return number


def _triggers_of(draft: Draft, rows: np.ndarray, stretch: np.ndarray) -> np.ndarray | None:
    """Row of the trigger of each stretch, None unless number and bytes match."""
    packets, instructions = draft.packets, draft.instructions
    engine = engine_of_queue(draft.strings[int(packets["queue"][rows[0]])])
    mine = (instructions["_trigger"] == 2) & (instructions["engine"] == engine)
    triggers = np.flatnonzero(mine & (instructions["core"] == packets["core"][rows[0]]))
    triggers = triggers[np.argsort(instructions["start_ps"][triggers], kind="stable")]
    if triggers.size != stretch.max() + 1:
        return None
    moved = _sums(packets, rows, stretch)["bytes"]
    sides = np.stack([column(instructions, side)[triggers] for side in _SIDES])
    agrees = (sides == moved).any(axis=0) | (sides == 0).all(axis=0)
    return triggers if agrees.all() else None


def _bursts(packets: Columns, rows: np.ndarray) -> np.ndarray:
    """Number of the burst of each packet: packets that overlap or touch."""
    start, end = packets["start_ps"][rows], packets["end_ps"][rows]
    order = np.argsort(start, kind="stable")
    reach = np.maximum.accumulate(end[order])
    number = np.empty(rows.size, np.int64)
    number[order] = np.cumsum(np.append(False, start[order][1:] > reach[:-1]))
    return number


def _sums(packets: Columns, rows: np.ndarray, stretch: np.ndarray) -> Columns:
    """One row a stretch: extent, payload without the semaphore's packets, and what its packets share."""
    order = np.argsort(stretch, kind="stable")
    first = np.flatnonzero(np.diff(stretch[order], prepend=-1))
    ranked = rows[order]
    payload = packets["bytes"][ranked] != SEMAPHORE_BYTES
    sums = {
        name: np.add.reduceat(np.where(payload, column(packets, name)[ranked], 0), first)
        for name in ("bytes", "read_bytes", "write_bytes")
    }
    shared = {name: column(packets, name, NONE)[ranked[first]] for name in ("core", "queue", "queue_type", "variable")}
    return {
        "start_ps": np.minimum.reduceat(packets["start_ps"][ranked], first),
        "end_ps": np.maximum.reduceat(packets["end_ps"][ranked], first),
        **sums,
        **shared,
    }


def _number(transfers: Columns, derived: int) -> None:
    """Give derived transfers numbers that the profile does not use."""
    own = transfers["id"][: transfers["id"].size - derived]
    free = np.setdiff1d(np.arange(1, derived + own.size + 1), own)
    transfers["id"] = np.concatenate((own, free[:derived]))


def _complete(draft: Draft, transfers: Columns) -> None:
    """Add the moment each semaphore was seen complete, and the wait between trigger and first byte."""
    done = transfers["end_ps"].copy()
    updates = draft.semaphore_updates
    for core, semaphore in {*zip(transfers["core"].tolist(), transfers["_semaphore"].tolist(), strict=True)}:
        if semaphore == NONE or not size(updates):
            continue
        mine = np.flatnonzero((transfers["_semaphore"] == semaphore) & (transfers["core"] == core))
        mine = mine[np.argsort(transfers["start_ps"][mine], kind="stable")]
        rises = _rises(updates, core, semaphore)
        if rises.size and rises.size % mine.size == 0:
            last = rises[rises.size // mine.size - 1 :: rises.size // mine.size]
            done[mine] = np.maximum(last, done[mine])
    transfers["done_ps"] = done
    linked = transfers["instruction"] != NONE
    ends = np.append(draft.instructions["end_ps"], 0)[transfers["instruction"]]
    transfers["wait_ps"] = np.where(linked, np.maximum(transfers["start_ps"] - ends, 0), 0)
    transfers["wait"] = np.full(done.size, Wait.UNKNOWN, np.int8)


def _rises(updates: Columns, core: int, semaphore: int) -> np.ndarray:
    """Moments at which one semaphore grew."""
    rows = np.flatnonzero((updates["semaphore"] == semaphore) & (updates["core"] == core))
    rows = rows[np.argsort(updates["time_ps"][rows], kind="stable")]
    return updates["time_ps"][rows][np.diff(updates["value"][rows], prepend=0) > 0]


def engine_of_queue(name: str | None) -> int:
    """Engine that triggers a queue, by its name; -1 when the name does not tell."""
    match = _QUEUE_ENGINE.match(name or "")
    return NONE if match is None else int(Engine(ENGINES[match[1].lower()]))
