"""Traces of single operators laid one after the other into the trace of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.trace import NONE, TABLES, RegionKind, Strings, Table, Trace, Wait

POINTS = frozenset(("start_ps", "end_ps", "done_ps", "arrival_ps", "ready_ps", "time_ps"))
"""Columns that are moments; below 0 is unknown."""

REFERENCES = {
    ("instructions", "wait_for"): "instructions",
    ("instructions", "region"): "regions",
    ("transfers", "instruction"): "instructions",
    ("transfers", "wait_for"): "transfers",
    ("packets", "transfer"): "transfers",
    ("edges", "signaler"): "instructions",
    ("edges", "waiter"): "instructions",
    ("regions", "parent"): "regions",
}
"""Columns that are rows of a table."""

PLACED = ("instructions", "transfers", "packets", "edges", "counters", "regions", "allocations")
"""Tables of which a model's trace is made; tensors are the model's own."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """What one operator does, times from its start, text in the strings of the model's trace."""

    duration_ps: int
    tables: Mapping[str, Table]

    def rows(self, name: str) -> int:
        return len(self.tables[name]) if name in self.tables else 0


def stretch(trace: Trace, strings: Strings) -> Stretch:
    """The kernel window of an operator's trace; start-up before it is left out."""
    first, last = trace.meta.window
    code = np.array([strings.code(text) for text in trace.strings] + [NONE], np.int32)
    kept, place = {}, {}
    for name in PLACED:
        table = getattr(trace, name)
        rows = _inside(name, table, first)
        kept[name] = np.flatnonzero(rows)
        place[name] = np.full(len(table) + 1, NONE, np.int64)
        place[name][kept[name]] = np.arange(kept[name].size)
    tables = {}
    for name in PLACED:
        table = getattr(trace, name).take(kept[name])
        columns = {}
        for column in table.present():
            values = table.column(column)
            if table.columns[column].text:
                values = code[values]
            elif (name, column) in REFERENCES:
                values = place[REFERENCES[name, column]][values]
            elif column in POINTS:
                values = np.where(values < 0, values, np.clip(values - first, 0, last - first))
            columns[column] = values
        tables[name] = TABLES[name](len(table), **columns)
    return Stretch(last - first, tables)


def _inside(name: str, table: Table, first: int) -> np.ndarray:
    if name in ("instructions", "transfers", "packets"):
        return table.column("start_ps") >= first
    return np.ones(len(table), bool)


class Timeline:
    """Collects stretches and regions in the order in which they run."""

    def __init__(self, strings: Strings):
        self.strings = strings
        self.now = 0
        self._parts: dict[str, list[tuple[Table, int, dict[str, int]]]] = {name: [] for name in PLACED}
        self._rows = dict.fromkeys(PLACED, 0)
        self._regions: list[list[int]] = []
        """Rows of `regions` that are not an operator's own: place, parent, kind, name, start, end."""
        self._last, self._wait = NONE, int(Wait.NONE)
        """The instruction whose completion ends what was placed last, and what waits for it waits for."""
        self._ends: dict[Stretch, tuple[int, int]] = {}

    def open(self, kind: RegionKind, name: str, parent: int = NONE) -> int:
        """A region that begins now; its row."""
        row = self._rows["regions"]
        self._rows["regions"] += 1
        self._regions.append([row, parent, int(kind), self.strings.code(name), self.now, self.now])
        return len(self._regions) - 1

    def row(self, opened: int) -> int:
        return self._regions[opened][0]

    def close(self, opened: int) -> None:
        """The region ends now."""
        self._regions[opened][5] = self.now

    def place(self, piece: Stretch, parent: int) -> None:
        """A stretch runs from now on, inside a region."""
        base = dict(self._rows) | {"parent": parent, "before": self._last, "after": self._wait}
        for name, table in piece.tables.items():
            self._parts[name].append((table, self.now, base))
            self._rows[name] += len(table)
        if piece.rows("instructions"):
            if piece not in self._ends:
                self._ends[piece] = _end(piece)
            row, self._wait = self._ends[piece]
            self._last = base["instructions"] + row
        self.now += piece.duration_ps

    def wait(self, ps: int) -> None:
        """Nothing runs."""
        self.now += ps

    def tables(self) -> dict[str, Table]:
        """The tables of the trace."""
        made = {name: _joined(name, self._parts[name], self._rows[name]) for name in PLACED if name != "regions"}
        made["regions"] = self._region_table()
        counters = made["counters"]
        order = np.lexsort((counters.time_ps, counters.counter))
        made["counters"] = counters.take(order)
        return made

    def _region_table(self) -> Table:
        own = np.array(self._regions, np.int64).reshape(-1, 6)
        joined = _joined("regions", self._parts["regions"], self._rows["regions"] - len(own))
        place = np.concatenate(
            [base["regions"] + np.arange(len(t)) for t, _, base in self._parts["regions"]] or [own[:0, 0]]
        )
        size = self._rows["regions"]
        columns = {}
        for name, values in zip(("parent", "kind", "name", "start_ps", "end_ps"), own.T[1:]):
            columns[name] = np.empty(size, np.int64)
            columns[name][own[:, 0]] = values
            columns[name][place] = joined.column(name)
        for name in ("source", "core"):
            columns[name] = np.full(size, NONE, np.int64)
            columns[name][place] = joined.column(name)
        return TABLES["regions"](size, **columns)


def _joined(name: str, parts: list[tuple[Table, int, dict[str, int]]], rows: int) -> Table:
    """Tables behind each other, moments and references shifted."""
    kind = TABLES[name]
    present = dict.fromkeys(column for table, _, _ in parts for column in table.present())
    columns = {
        column: np.concatenate([_shifted(name, column, table, at, base) for table, at, base in parts])
        for column in present
    }
    if "id" in columns:
        columns["id"] = np.arange(rows)
    return kind(rows, **columns)


def _end(piece: Stretch) -> tuple[int, int]:
    """The instruction whose result or transfer is there last, and what it is to those that wait for it."""
    instructions = piece.tables["instructions"]
    row, wait = int(np.argmax(instructions.end_ps)), Wait.OPERAND
    if piece.rows("transfers"):
        moved = piece.tables["transfers"]
        done = np.where(moved.instruction >= 0, np.maximum(moved.end_ps, moved.done_ps), NONE)
        last = int(np.argmax(done))
        if done[last] >= instructions.end_ps[row]:
            row, wait = int(moved.instruction[last]), Wait.DMA
    return row, int(wait)


def _begins(table: Table) -> np.ndarray:
    """Instructions that waited for nothing in their own operator, if the table says what they waited for."""
    if not table.has("wait_for"):
        return np.zeros(len(table), bool)
    return (table.wait_for < 0) & (table.wait == Wait.NONE)


def _shifted(name: str, column: str, table: Table, at: int, base: dict[str, int]) -> np.ndarray:
    values = table.column(column)
    if column in POINTS:
        return np.where(values < 0, values, values + at)
    if (name, column) == ("instructions", "wait"):
        return np.where(_begins(table), base["after"], values)
    target = REFERENCES.get((name, column))
    if target is None:
        return values
    if (name, column) == ("instructions", "wait_for"):
        missing = np.where(_begins(table), base["before"], NONE)
    else:
        missing = base["parent"] if (name, column) in (("regions", "parent"), ("instructions", "region")) else NONE
    return np.where(values < 0, missing, values + base[target])
