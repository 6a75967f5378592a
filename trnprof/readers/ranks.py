"""Profiles of the ranks of one execution as one trace: every rank's cores beside those of the others.

Ranks are told apart by a part of their path such as `rank_3` or `nc_3`. Each lies at its own start: profiles do not say
how their clocks stand to one another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.trace import NONE, TABLES, Meta, RegionKind, Regions, Strings, Table, Trace, validate

_RANK = re.compile(r"(?:^|[^a-z])(?:rank|nc|worker|core)[_-]?(\d{1,6})(?![0-9])", re.IGNORECASE)

REFERENCES = {
    ("instructions", "region"): "regions",
    ("instructions", "wait_for"): "instructions",
    ("transfers", "instruction"): "instructions",
    ("transfers", "wait_for"): "transfers",
    ("packets", "transfer"): "transfers",
    ("edges", "signaler"): "instructions",
    ("edges", "waiter"): "instructions",
    ("regions", "parent"): "regions",
}
"""Columns that are rows of a table."""

_ORDER = {
    **dict.fromkeys(("instructions", "transfers", "packets"), ("start_ps",)),
    "counters": ("counter", "core", "time_ps"),
    "semaphore_updates": ("time_ps",),
}
"""What rows are sorted by, the first deciding."""


def ranks_of(root: Path, folders: Sequence[Path]) -> list[int] | None:
    """The rank of each folder below a root; None where they do not name one rank each."""
    found = []
    for folder in folders:
        numbers = [int(match[1]) for part in folder.relative_to(root).parts for match in _RANK.finditer(part)]
        if not numbers:
            return None
        found.append(numbers[0])
    return found if len({*found}) == len(found) > 1 else None


def join(traces: Sequence[Trace], ranks: Sequence[int], source: str) -> Trace:
    """One trace of several ranks, in the order of their numbers."""
    order = sorted(range(len(traces)), key=lambda at: ranks[at])
    traces, ranks = [traces[at] for at in order], [ranks[at] for at in order]
    strings = Strings()
    for trace in traces:
        for _, table in trace.tables():
            for column in table.present():
                table.column(column)
    texts = [_codes(trace.strings, strings) for trace in traces]
    widths = [_cores(trace) for trace in traces]
    firsts = np.cumsum([0, *widths])[:-1].tolist()
    pieces = {name: [_piece(name, trace, texts[at], firsts[at]) for at, trace in enumerate(traces)] for name in TABLES}
    for at, rank in enumerate(ranks):
        _under(pieces["regions"][at], pieces["instructions"][at], strings.code(f"rank {rank}"), traces[at].meta.window)
    sizes = {name: [_rows(piece) for piece in of] for name, of in pieces.items()}
    places = {name: _places(name, of, sizes[name]) for name, of in pieces.items()}
    tables = {name: _joined(name, of, sizes, places) for name, of in pieces.items()}
    trace = Trace(_meta(traces, ranks, source, sum(widths)), strings, **tables)
    validate(trace)
    return trace


def _rows(piece: dict[str, np.ndarray]) -> int:
    return next((len(values) for values in piece.values()), 0)


def _codes(own: Strings, strings: Strings) -> np.ndarray:
    """What each code of a trace becomes; asked when all columns are loaded, which may bring texts."""
    return np.append(strings.codes(own), NONE).astype(np.int32)


def _cores(trace: Trace) -> int:
    """Cores that a trace numbers."""
    used = [int(table.column("core").max(initial=0)) + 1 for _, table in trace.tables() if "core" in table.columns]
    return max(trace.meta.cores, *used)


def _piece(name: str, trace: Trace, texts: np.ndarray, first_core: int) -> dict[str, np.ndarray]:
    """The columns of a table with the joined strings and cores; a table with cores has the column."""
    table: Table = getattr(trace, name)
    columns = {*table.present(), *({"core"} & table.columns.keys())} if len(table) else set()
    found = {}
    for column in sorted(columns):
        values = table.column(column)
        if table.columns[column].text:
            values = texts[values]
        elif column == "core":
            values = np.where(values < 0, first_core, values + first_core)
        found[column] = values
    return found


def _under(regions: dict[str, np.ndarray], rows: dict[str, np.ndarray], name: int, window: tuple[int, int]) -> None:
    """Hang a rank's regions, and what has none, below a region of the rank."""
    count = _rows(regions)
    root = {"parent": NONE, "kind": RegionKind.MODEL, "name": name, "start_ps": window[0], "end_ps": window[1]}
    for column in {*regions, *root}:
        spec = Regions.columns[column]
        values = regions.get(column, np.full(count, spec.absent, spec.dtype))
        if column == "parent":
            values = np.where(values < 0, 0, values + 1)
        regions[column] = np.concatenate(([root.get(column, spec.absent)], values))
    if rows:
        inside = rows.get("region", np.full(_rows(rows), NONE))
        rows["region"] = np.where(inside < 0, 0, inside + 1)


def _places(name: str, of: list[dict[str, np.ndarray]], sizes: list[int]) -> list[np.ndarray]:
    """The row of the joined table that each row becomes; for -1 stays -1."""
    total = sum(sizes)
    order = np.arange(total)
    keys = [np.concatenate([piece[key] for piece in of if piece]) for key in _ORDER.get(name, ()) if total]
    if keys:
        order = np.lexsort(keys[::-1])
    place = np.empty(total, np.int64)
    place[order] = np.arange(total)
    ends = np.cumsum(sizes)
    return [np.append(place[end - size : end], NONE) for end, size in zip(ends.tolist(), sizes)]


def _joined(
    name: str, of: list[dict[str, np.ndarray]], sizes: dict[str, list[int]], places: dict[str, list[np.ndarray]]
) -> Table:
    kind, total = TABLES[name], sum(sizes[name])
    columns = {}
    for column in dict.fromkeys(column for piece in of for column in piece):
        spec = kind.columns[column]
        made = np.full(total, spec.absent, spec.dtype)
        for at, piece in enumerate(of):
            values = piece.get(column)
            if values is None:
                continue
            target = REFERENCES.get((name, column))
            made[places[name][at][:-1]] = values if target is None else places[target][at][values]
        columns[column] = made
    if "id" in columns:
        columns["id"] = np.arange(1, total + 1)
    return kind(total, **columns)


def _meta(traces: Sequence[Trace], ranks: Sequence[int], source: str, cores: int) -> Meta:
    metas = [trace.meta for trace in traces]
    first = metas[0]
    notes = dict.fromkeys(note for meta in metas for note in meta.notes if not note.startswith("Import receipt"))
    listed = ", ".join(map(str, ranks[:8])) + ("…" if len(ranks) > 8 else "")
    told = f"{len(ranks)} ranks ({listed}), each at its own start: profiles do not say how their clocks stand."
    devices = {meta.device for meta in metas}
    return replace(
        first,
        source=source,
        device=first.device if len(devices) == 1 else "unknown",
        window=(min(meta.window[0] for meta in metas), max(meta.window[1] for meta in metas)),
        total_ps=max(meta.total_ps for meta in metas),
        cores=cores,
        quarantined=sum(meta.quarantined for meta in metas),
        notes=(told, *notes),
        receipt=_receipts([meta.receipt for meta in metas]),
        machine={**first.machine, "num_physical_cores": float(cores)} if first.machine else {},
        summary={},
    )


def _receipts(receipts: Sequence[Any]) -> dict[str, Any]:
    """The sums of all receipts."""
    tables: dict[str, dict[str, Any]] = {}
    left: dict[str, int] = {}
    for receipt in receipts:
        for name, rows in receipt.get("left", {}).items():
            left[name] = left.get(name, 0) + rows
        for name, account in receipt.get("tables", {}).items():
            whole = tables.setdefault(name, {"reasons": {}, "balanced": True})
            for key, value in account.items():
                if key == "reasons":
                    for reason, rows in value.items():
                        whole[key][reason] = whole[key].get(reason, 0) + rows
                else:
                    whole[key] = (whole[key] and value) if key == "balanced" else whole.get(key, 0) + value
    remarks = dict.fromkeys(remark for receipt in receipts for remark in receipt.get("remarks", ()))
    return {"tables": tables, "left": left, "remarks": list(remarks)}
