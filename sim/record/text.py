"""Operands as real profiles print them: `src=fp32@0x4820[1,1,1][512,1,1] dst=fp32@0x5020[1,1,1][512,1,1]`.

Strides and sizes are in elements, innermost first; PSUM begins at 0x2000000. A place in HBM is the tensor's name and a
byte offset.
"""

from __future__ import annotations

import numpy as np

from sim import dtypes
from sim.memory import Layout, merge_dims
from sim.program import Form, Role
from sim.schedule import Schedule
from sim.trace import Memory, Strings

PSUM_BASE = 0x2000000
DIMENSIONS = 3


def operand_codes(timed: Schedule, strings: Strings) -> np.ndarray:
    """Code of the operands' text for each instruction, int32[n]."""
    program = timed.program
    key, first, inverse = _distinct(timed)
    del key
    written = [_text(timed, number) for number in first.tolist()]
    codes = np.array([strings.code(text) for text in written] or [0], np.int32)
    return codes[inverse] if len(program) else np.zeros(0, np.int32)


def _distinct(timed: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(keys, first instruction of each key, key of each instruction): same form, same addresses and tensors."""
    program = timed.program
    place = np.stack(
        [storage_addresses(timed)[program.operands[:, 0]] + program.operands[:, 1], _named(timed)[program.operands[:, 0]]]
    )
    mixed = _mix(_mix(place[0]) + place[1])
    position = np.arange(len(mixed)) - np.repeat(program.operand_start[:-1], np.diff(program.operand_start))
    mixed = _mix(mixed + position)
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(mixed)))
    sums = total[program.operand_start[1:]] - total[program.operand_start[:-1]]
    return np.unique(_mix(sums + program.form), return_index=True, return_inverse=True)


def _mix(values: np.ndarray) -> np.ndarray:
    """Well spread 64-bit numbers, the same on every run (splitmix64)."""
    bits = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)


def storage_addresses(timed: Schedule) -> np.ndarray:
    """Address of each storage, partition x pitch added on chip, so that a view's offset can be added."""
    program, placement = timed.program, timed.placement
    pitch = np.array([storage.pitch for storage in program.storages] or [0], np.int64)
    return placement.offset + placement.partition * pitch if len(program.storages) else np.zeros(1, np.int64)


def _named(timed: Schedule) -> np.ndarray:
    """A number for each distinct name of a storage."""
    numbers: dict[tuple, int] = {}
    found = [numbers.setdefault((s.name, s.memory), len(numbers)) for s in timed.program.storages]
    return np.array(found or [0], np.int64)


def _text(timed: Schedule, number: int) -> str:
    """Operands of one instruction, then the tensors that they belong to."""
    program = timed.program
    form = program.forms[program.form[number]]
    low, high = program.operand_start[number : number + 2].tolist()
    operands = program.operands[low:high].tolist()
    reads = [k for k, role in enumerate(form.roles) if role is Role.READ]
    writes = [k for k, role in enumerate(form.roles) if role is not Role.READ]
    parts = [_function(form)] if form.function else []
    for name, places in (("src", reads), ("dst", writes)):
        for order, k in enumerate(places):
            parts.append(f"{name}{order if order else ''}={_operand(timed, *operands[k])}")
    if form.partitions:
        parts.append(f"channels={form.partitions}")
    sources = ",".join(program.storages[operands[k][0]].name for k in reads)
    targets = ",".join(program.storages[operands[k][0]].name for k in writes)
    return " ".join([*parts, f"tensors={sources}->{targets}"])


def _function(form: Form) -> str:
    return form.function.upper() if form.opcode == "ACTIVATE" else f"op={form.function.upper()}"


def _operand(timed: Schedule, index: int, offset: int, layout_index: int) -> str:
    storage, layout = timed.program.storages[index], Layout.by_index[layout_index]
    pattern = _pattern(layout)
    if layout.memory is Memory.HBM:
        return f"{dtypes.short(layout.dtype)}@{storage.name}+{offset}{pattern}"
    partition, byte = divmod(offset, storage.pitch)
    address = int(timed.placement.offset[index]) + byte + (PSUM_BASE if layout.memory is Memory.PSUM else 0)
    first = int(timed.placement.partition[index]) + partition
    return f"{dtypes.short(layout.dtype)}@{address:#x}{pattern}{f'+p{first}' if first else ''}"


_patterns: dict[int, str] = {}


def _pattern(layout: Layout) -> str:
    """`[strides][sizes]` in elements, innermost first."""
    known = _patterns.get(layout.index)
    if known is None:
        free = slice(1, None) if layout.pitch else slice(None)
        dims = merge_dims(layout.shape[free], layout.strides[free])[::-1]
        steps = [str(stride // layout.itemsize) for _, stride in dims]
        sizes = [str(size) for size, _ in dims]
        ones = ["1"] * (DIMENSIONS - len(dims))
        known = _patterns[layout.index] = f"[{','.join(steps + ones)}][{','.join(sizes + ones)}]"
    return known
