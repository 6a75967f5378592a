"""Operand text to something people know: which memory, which tensor, what shape."""

from __future__ import annotations

import re

import numpy as np

from sim.trace import Memory, Trace
from trnprof.view import format as words
from trnprof.view.records import Operand

PSUM_BASE = 0x2000000
"""Operand addresses from here on are PSUM (real profiles of trn1, inf2 and trn2)."""

PSUM_BANK_BYTES = 2048

_ROLES = re.compile(
    r"\b(src\d*|dst\d*|in\d*|out\d*|bias_ptr|scale_ptr|mask)=(?:(\w+)@)?0x([0-9a-fA-F]+)((?:\[[\d,\-]*\])*)"
)
_SHAPE = re.compile(r"\[([\d,\-]*)\]")


def decode(trace: Trace, text: str, row: int) -> tuple[Operand, ...]:
    """Each operand that names an address; other text is not understood and stays in the raw form."""
    partitions = int(trace.instructions.partitions[row])
    found = []
    for match in _ROLES.finditer(text):
        role, dtype, address, shapes = match.groups()
        sizes = _SHAPE.findall(shapes)
        elements = _product(sizes[-1]) if sizes else 1
        shape = f"{partitions} × {elements}" if partitions else str(elements)
        found.append(
            Operand(role.removesuffix("_ptr"), _place(trace, int(address, 16), row), f"{dtype or ''} {shape}".strip())
        )
    return tuple(found)


def _product(sizes: str) -> int:
    total = 1
    for size in sizes.split(","):
        total *= int(size) if size.lstrip("-").isdecimal() else 1
    return total


def _place(trace: Trace, address: int, row: int) -> str:
    memory = Memory.PSUM if address >= PSUM_BASE else Memory.SBUF
    name = _tensor(trace, memory, address - (PSUM_BASE if memory == Memory.PSUM else 0), row)
    where = f"PSUM bank {(address - PSUM_BASE) // PSUM_BANK_BYTES}" if memory == Memory.PSUM else f"SBUF 0x{address:x}"
    return f"{name} ({where})" if name else where


def _tensor(trace: Trace, memory: Memory, offset: int, row: int) -> str | None:
    """The allocation that holds an address while an instruction runs."""
    table = trace.allocations
    if not len(table):
        return None
    at = trace.instructions.start_ps[row]
    here = (table.memory == memory) & (table.core == trace.instructions.core[row])
    here &= (
        (table.offset <= offset) & (offset < table.offset + table.bytes) & (table.start_ps <= at) & (at <= table.end_ps)
    )
    rows = np.flatnonzero(here)
    return words.plain(trace.text(table, "tensor", int(rows[0])) or "", 40) if rows.size else None
