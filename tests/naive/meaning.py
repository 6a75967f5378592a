"""What a program computes, in symbols: two programs that write the same symbols to HBM compute the same."""

from __future__ import annotations

from collections import Counter, defaultdict

from sim.memory import Layout
from sim.program import Program, Role
from sim.trace import Memory


def written(program: Program) -> Counter:
    """The symbols that are written to HBM tensors, with tensor and place; copies of spilled tiles are left out."""
    held: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    found: Counter = Counter()
    for index, number in enumerate(program.form.tolist()):
        form = program.forms[number]
        rows = program.operands[program.operand_start[index] : program.operand_start[index + 1]].tolist()
        if form.spill in ("save", "reload"):
            held[rows[0][0]] = list(held[rows[1][0]])
            continue
        pairs = len(rows) // 2 if form.roles == (Role.WRITE, Role.READ) * (len(rows) // 2) else 1
        size = len(rows) // pairs
        constant = int(program.immediate[index]) if program.immediate.size else -1
        for first in range(0, len(rows), size):
            part = list(zip(rows[first : first + size], form.roles[first : first + size]))
            inputs = tuple(_read(program, held, row) for row, role in part if role is not Role.WRITE)
            value = hash((form.call, form.kind, form.dtype, constant, inputs))
            for place, (row, role) in enumerate(part):
                if role is not Role.READ:
                    low, high = _span(program, row)
                    kept = [e for e in held[row[0]] if not (low <= e[0] and e[1] <= high)]
                    held[row[0]] = [*kept, (low, high, hash((place, value)))]
                    storage = program.storages[row[0]]
                    if storage.memory is Memory.HBM:
                        found[storage.name, low, high, hash((place, value))] += 1
    return found


def _span(program: Program, row: list[int]) -> tuple[int, int]:
    storage, offset, layout = row
    pitch = program.storages[storage].pitch
    low = offset % pitch if pitch else offset
    return low, low + Layout.by_index[layout].span


def _read(program: Program, held: dict, row: list[int]) -> int:
    """The symbols of the bytes that a view covers, from its first byte on."""
    low, high = _span(program, row)
    storage = program.storages[row[0]]
    given = (storage.name, low) if storage.memory is Memory.HBM and storage.role in ("IN", "WEIGHT") else ()
    parts = sorted((e[0] - low, e[1] - low, e[2]) for e in held[row[0]] if e[0] < high and low < e[1])
    return hash((given, tuple(parts)))
