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
from sim.trace import Engine, Memory, Strings

PSUM_BASE = 0x2000000
DIMENSIONS = 3


def operand_codes(timed: Schedule, strings: Strings) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the operands' text for each instruction, int32[n]: of its only or its MATMUL rows, of its LDWEIGHTS rows.

    A LDWEIGHTS shows the stationary tile, its MATMUL the moving tile and the destination.
    """
    first, inverse = _distinct(timed)
    writer = _Writer(timed)
    texts = [writer.texts(number) for number in first.tolist()]
    main = strings.codes(text for text, _ in texts)
    weights = strings.codes(text for _, text in texts)
    return main[inverse], weights[inverse]


def _distinct(timed: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """(first instruction, which of them each instruction equals): same form, same addresses and tensors."""
    program = timed.program
    storage = program.operands[:, 0]
    place = _mix(storage_addresses(timed)[storage] + program.operands[:, 1]) + _names(timed)[storage]
    position = np.arange(len(place)) - np.repeat(program.operand_start[:-1], np.diff(program.operand_start))
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(_mix(_mix(place) + position))))
    sums = total[program.operand_start[1:]] - total[program.operand_start[:-1]]
    _, first, inverse = np.unique(_mix(sums + program.form), return_index=True, return_inverse=True)
    return first, inverse


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


def _names(timed: Schedule) -> np.ndarray:
    """A number for each distinct name of a storage."""
    numbers: dict[tuple, int] = {}
    found = [numbers.setdefault((s.name, s.memory), len(numbers)) for s in timed.program.storages]
    return np.array(found or [0], np.int64)


class _Writer:
    """Writes the operands of instructions; what a form has in common is put together once."""

    def __init__(self, timed: Schedule):
        self.program = timed.program
        self.offset = timed.placement.offset.tolist()
        self.partition = timed.placement.partition.tolist()
        self.templates: dict[int, tuple[str, str]] = {}

    def texts(self, number: int) -> tuple[str, str | None]:
        """(operands, operands of the LDWEIGHTS rows) of one instruction."""
        form = int(self.program.form[number])
        if form not in self.templates:
            self.templates[form] = _templates(self.program.forms[form])
        low, high = self.program.operand_start[number : number + 2].tolist()
        operands = self.program.operands[low:high].tolist()
        places = [self._place(*operand) for operand in operands]
        names = [self.program.storages[operand[0]].name for operand in operands]
        main, weights = self.templates[form]
        return main.format(*places, *names), weights.format(*places, *names) if weights else None

    def _place(self, index: int, offset: int, layout_index: int) -> str:
        storage, layout = self.program.storages[index], Layout.by_index[layout_index]
        if layout.memory is Memory.HBM:
            return f"{storage.name}+{offset}{_pattern(layout)}"
        partition, byte = divmod(offset, storage.pitch)
        address = self.offset[index] + byte + (PSUM_BASE if layout.memory is Memory.PSUM else 0)
        first = self.partition[index] + partition
        return f"{address:#x}{_pattern(layout)}+p{first}" if first else f"{address:#x}{_pattern(layout)}"


def _templates(form: Form) -> tuple[str, str]:
    """Text of a form with fields for the places of its operands, then their names; the second is for LDWEIGHTS."""
    reads = [k for k, role in enumerate(form.roles) if role is Role.READ]
    writes = [k for k, role in enumerate(form.roles) if role is not Role.READ]
    head = [_function(form)] if form.function else []
    if not paired(form):
        channels = [f"channels={form.partitions}"] if form.partitions else []
        return " ".join([*head, *_fields(form, "src", reads), *_fields(form, "dst", writes), *channels, _tensors(form, reads, writes)]), ""
    size = f"{form.partitions}*{form.elements // (form.partitions * form.layouts[reads[1]].elements) or 1}"
    main = [*head, *_fields(form, "src", reads[1:]), *_fields(form, "dst", writes), size, _tensors(form, reads[1:], writes)]
    return " ".join(main), " ".join([*_fields(form, "src", reads[:1]), size, _tensors(form, reads[:1], [])])


def paired(form: Form) -> bool:
    """Whether TensorE shows it as pairs of LDWEIGHTS and MATMUL."""
    return form.engine is Engine.TENSOR and form.load_ps > 0


def _fields(form: Form, name: str, places: list[int]) -> list[str]:
    return [f"{name}{order or ''}={dtypes.short(form.layouts[k].dtype)}@{{{k}}}" for order, k in enumerate(places)]


def _tensors(form: Form, reads: list[int], writes: list[int]) -> str:
    first = len(form.roles)
    named = [",".join(f"{{{first + k}}}" for k in places) for places in (reads, writes)]
    return "tensors=" + "->".join(name for name in named if name)


def _function(form: Form) -> str:
    text = form.function.upper().replace("{", "{{").replace("}", "}}")
    return text if form.opcode == "ACTIVATE" else f"op={text}"


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
