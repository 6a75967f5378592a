"""What is written on a bar: the full name where it fits, else a short one."""

from __future__ import annotations

from threading import Lock

import numpy as np

from sim.trace import NONE, Engine, RegionKind, Table, Trace
from trnprof.view import format as words

_SHORT = {
    "MATMUL": "mm",
    "MATMUL_SPARSE": "mm",
    "LDWEIGHTS": "ldw",
    "TENSOR_REDUCE": "reduce",
    "TENSOR_TENSOR": "tt",
    "TENSOR_SCALAR": "scale",
    "ACT_TABLE_LOAD": "table",
    "COPY": "copy",
    "RECIPROCAL": "recip",
    "EVENT_SEMAPHORE": "sem",
    "TENSOR_LOAD": "load",
    "COMPARE_BRANCH": "br",
    "DMA_DIRECT2D": "dma",
    "DMA_DIRECT": "dma",
    "NOP": "nop",
    "IOTA": "iota",
    "MEMSET": "set",
    "SELECT": "sel",
    "TRANSPOSE": "tr",
}

_NAME_WIDTH = 80

_TABLE = 1 << 17
"""Tuples of so few possible values are told apart by a table, more of them by sorting."""


class Labels:
    """Interned pairs of full and short text; keys stay valid for the life of a session."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._pairs: list[tuple[str, str]] = []
        self._codes: dict[tuple[str, str], int] = {}
        self._seen: dict[tuple[object, ...], int] = {}
        self._lock = Lock()

    def __getitem__(self, code: int) -> tuple[str, str]:
        return self._pairs[code]

    def pick(self, codes: np.ndarray) -> dict[int, tuple[str, str]]:
        """The pairs behind the codes."""
        return {int(code): self._pairs[code] for code in np.unique(codes) if code >= 0}

    def intern(self, pair: tuple[str, str]) -> int:
        with self._lock:
            code = self._codes.get(pair)
            if code is None:
                code = self._codes[pair] = len(self._pairs)
                self._pairs.append(pair)
            return code

    def instructions(self, rows: np.ndarray) -> np.ndarray:
        """Codes of the labels of instruction rows, int32."""
        table = self._trace.instructions
        general = table.engine[rows] == Engine.OTHER
        columns = [
            table.opcode[rows],
            table.function[rows],
            table.kind[rows],
            np.where(general, table.name[rows], NONE),
        ]
        return self._distinct(columns, self._instruction)

    def transfers(self, rows: np.ndarray) -> np.ndarray:
        table = self._trace.transfers
        columns = [table.variable[rows], table.source_memory[rows], table.dest_memory[rows], table.queue[rows]]
        return self._distinct(columns, self._transfer)

    def regions(self, rows: np.ndarray) -> np.ndarray:
        table = self._trace.regions
        took = table.end_ps[rows] - table.start_ps[rows]
        return self._distinct([table.name[rows], table.kind[rows], took], self._region)

    def _distinct(self, columns: list[np.ndarray], make) -> np.ndarray:
        """The code of what `make` says of each row; it is asked once for equal ones."""
        if not columns[0].size:
            return np.empty(0, np.int32)
        first, inverse = distinct(columns)
        keys = zip(*(column[first].tolist() for column in columns), strict=True)
        codes = np.array([self._once(make, key) for key in keys], np.int32)
        return codes[inverse]

    def _once(self, make, key: tuple[int, ...]) -> int:
        seen = (make.__name__, *key)
        code = self._seen.get(seen)
        if code is None:
            code = self._seen[seen] = self.intern(make(*key))
        return code

    def _instruction(self, opcode: int, function: int, kind: int, name: int) -> tuple[str, str]:
        text = self._trace.strings
        if name != NONE:
            shown = words.plain(text[name] or "", _NAME_WIDTH)
            return shown, ""
        return instruction_label(text[opcode], text[function], text[kind])

    def _transfer(self, variable: int, source: int, dest: int, queue: int) -> tuple[str, str]:
        name = words.plain(self._trace.strings[variable] or "", _NAME_WIDTH)
        name = "" if name in ("unknown", "") else name
        verb = direction(source, dest)
        return f"{verb} {name}".strip(), name or ""

    def _region(self, name: int, kind: int, took: int) -> tuple[str, str]:
        shown = words.plain(self._trace.strings[name] or RegionKind(kind).name.lower(), _NAME_WIDTH)
        return f"{shown}  {words.estimate(words.time(took), self._trace.meta.is_simulation)}", shown


def distinct(columns: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A row of each distinct tuple, in the tuples' order, and for each row the place of its tuple."""
    key, size = np.zeros(columns[0].size, np.int64), 1
    for column in columns:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if size * width > _TABLE:
            values, key = np.unique(key, return_inverse=True)
            size = values.size
            values, column = np.unique(column, return_inverse=True)
            low, width = 0, values.size
        if width > 1:
            key = key * width + (column - low)
            size *= width
    if size > _TABLE:
        return np.unique(key, return_index=True, return_inverse=True)[1:]
    row = np.full(size, -1, np.int64)
    row[key] = np.arange(key.size)
    used = row >= 0
    return row[used], (np.cumsum(used) - 1)[key]


def instruction_label(opcode: str | None, function: str | None, kind: str | None) -> tuple[str, str]:
    """`ACTIVATE exp`, `exp`; `MATMUL (transpose)`, `tr`."""
    name = words.plain(opcode or "instruction", _NAME_WIDTH)
    short = _SHORT.get(name, name.lower() if len(name) < 6 else "")
    if function:
        shown = words.plain(function, 32).lower()
        return f"{name} {shown}", shown
    if kind == "TRANSPOSE" and "TRANSPOSE" not in name:
        return f"{name} (transpose)", "tr" if short == "mm" else short
    return name, short


def direction(source: int, dest: int) -> str:
    """What a transfer does, from `Memory` to `Memory`."""
    from sim.trace import Memory

    on_chip = (Memory.SBUF, Memory.PSUM)
    if source in on_chip and dest in on_chip:
        return "move"
    if dest in on_chip:
        return "load"
    return "store" if source in on_chip else "copy"


def title(trace: Trace, table: Table, row: int) -> str:
    """The full label of one instruction."""
    text = trace.strings
    if table.engine[row] == Engine.OTHER:
        return words.plain(text[int(table.name[row])] or text[int(table.opcode[row])] or "event", _NAME_WIDTH)
    return instruction_label(*(text[int(table.column(c)[row])] for c in ("opcode", "function", "kind")))[0]
