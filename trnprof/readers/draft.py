"""What a reader has found in a file, before it is sorted, linked and judged.

Columns carry the names of `sim.trace`; text is already a code into `strings`, time already ps. Columns that the trace
does not have, but that the linking needs, begin with an underscore.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sim.trace import NONE, EdgeKind, Engine, QueueType, Strings
from trnprof.readers.receipt import Receipt

Columns = dict[str, np.ndarray]

SETUP_OPCODES = frozenset(
    (
        "NOP",
        "SET_ORDERING_MODE",
        "EVENT_SEMAPHORE",
        "EVENT_SEMAPHORE_RANGE_CLEAR",
        "NOTIFY",
        "COMPARE_BRANCH",
        "DRAIN",
        "WRITE",
        "TENSOR_LOAD",
        "TENSOR_STORE",
        "MODIFY_POOL_CONFIG",
    )
)
"""Opcodes of the runtime's start-up and tail (Explorer's list, and TENSOR_STORE, which real tails have)."""

WORK_IF_COMPILED = frozenset(("WRITE", "TENSOR_LOAD", "TENSOR_STORE"))
"""Set-up opcodes that do the kernel's work when the compiler placed them, such as a DMA trigger."""

ENGINES = {
    "tensor": Engine.TENSOR,
    "tensormatrix": Engine.TENSOR,
    "pe": Engine.TENSOR,
    "vector": Engine.VECTOR,
    "dve": Engine.VECTOR,
    "scalar": Engine.SCALAR,
    "act": Engine.SCALAR,
    "activation": Engine.SCALAR,
    "gpsimd": Engine.GPSIMD,
    "pool": Engine.GPSIMD,
    "sync": Engine.SYNC,
    "sp": Engine.SYNC,
    "cc": Engine.COLLECTIVE,
}

EDGE_KINDS = {
    "FLOW_DEPENDENCE": EdgeKind.FLOW,
    "ANTI_DEPENDENCE": EdgeKind.ANTI,
    "OUTPUT_DEPENDENCE": EdgeKind.OUTPUT,
    "ORDERED": EdgeKind.ORDER,
}

QUEUE_TYPES = {kind.name.lower(): kind for kind in QueueType}


@dataclass(slots=True)
class Draft:
    """Columns by table, in the file's order."""

    strings: Strings
    receipt: Receipt
    instructions: Columns
    packets: Columns = field(default_factory=dict)
    transfers: Columns = field(default_factory=dict)
    semaphore_updates: Columns = field(default_factory=dict)
    counters: Columns = field(default_factory=dict)
    tensors: Columns = field(default_factory=dict)
    signaler: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    """Ids of instructions or transfers."""
    waiter: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    """Ids of instructions."""
    kind: np.ndarray = field(default_factory=lambda: np.empty(0, np.int8))
    tables: dict[str, str] = field(default_factory=dict)
    """What the file calls the tables here, for the receipt."""


def size(columns: Columns) -> int:
    """Rows of a table."""
    return next((len(column) for column in columns.values()), 0)


def take(columns: Columns, rows: np.ndarray) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def column(columns: Columns, name: str, absent: int = 0, dtype: type = np.int64) -> np.ndarray:
    """A column, or its absent value everywhere."""
    found = columns.get(name)
    return np.full(size(columns), absent, dtype) if found is None else found


def lookup(strings: Strings, codes: np.ndarray, table: dict[str, int], absent: int) -> np.ndarray:
    """A number for each text, by its lower-case spelling."""
    by_code = np.fromiter((table.get(text.lower(), absent) for text in strings), np.int64, len(strings))
    return np.append(by_code, absent)[codes]


def marks(strings: Strings, codes: np.ndarray, *prefixes: str) -> np.ndarray:
    """Which texts begin with one of the prefixes."""
    by_code = np.fromiter((text.startswith(prefixes) for text in strings), bool, len(strings))
    return np.append(by_code, False)[codes]


def members(strings: Strings, codes: np.ndarray, texts: frozenset[str]) -> np.ndarray:
    """Which texts are in a set."""
    wanted = np.array([strings.find(text) for text in texts if strings.find(text) != NONE], np.int64)
    return np.isin(codes, wanted)
