"""Operands as real profiles print them: `src=fp32@0x4820[1,1,1][512,1,1] dst=fp32@0x5020[1,1,1][512,1,1]`.

Strides and sizes are in elements, innermost first; PSUM begins at 0x2000000. A place in HBM is the tensor's name and a
byte offset. The tensors that the operands belong to are named at the end.
"""

from __future__ import annotations

import numpy as np

from sim import dtypes
from sim.memory import Layout, merge_dims
from sim.program import Form, Role
from sim.schedule import Schedule
from sim.trace import NONE, Engine, Memory, Strings

PSUM_BASE = 0x2000000
DIMENSIONS = 3


def operand_codes(timed: Schedule, strings: Strings) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the operands' text for each instruction, int64[n]: of its own or MATMUL rows, of its LDWEIGHTS rows.

    A LDWEIGHTS shows the stationary tile, its MATMUL the moving tile and the destination.
    """
    first, inverse = _distinct(timed)
    main, weights = np.full(first.size, NONE, np.int64), np.full(first.size, NONE, np.int64)
    form = timed.program.form[first]
    order = np.argsort(form, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(form[order])) + 1) if order.size else ():
        values = _values(timed, first[group])
        template, loading = _templates(timed.program.forms[form[group[0]]])
        main[group] = strings.codes(map(template.format, *values) if values else [template.format()] * group.size)
        if loading:
            weights[group] = strings.codes(map(loading.format, *values))
    return main[inverse], weights[inverse]


def _distinct(timed: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """(first instruction, which of them each instruction equals): same form, same addresses and tensors."""
    program = timed.program
    place = _mix(_addresses(timed) + program.operands[:, 1]) + _names(timed)[program.operands[:, 0]]
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


def _addresses(timed: Schedule) -> np.ndarray:
    """Per operand, a number for where its storage lies."""
    placement, storage = timed.placement, timed.program.operands[:, 0]
    return placement.offset[storage] + placement.partition[storage] * placement.columns.pitch[storage]


def _names(timed: Schedule) -> np.ndarray:
    """Per storage, a number for its name."""
    columns, numbers = timed.placement.columns, {}
    found = [numbers.setdefault((s.name, s.memory), len(numbers)) for s in columns.records]
    return np.array(found, np.int64)[columns.record]


def _values(timed: Schedule, numbers: np.ndarray) -> list[list[str]]:
    """For instructions of one form: the places of each operand, then the names, then the partitions where not 0."""
    program, columns = timed.program, timed.placement.columns
    names = [record.name for record in columns.records]
    places, named, partitions = [], [], []
    for k, layout in enumerate(program.forms[program.form[numbers[0]]].layouts):
        storage, offset, _ = program.operands[program.operand_start[numbers] + k].T
        owners = [names[record] for record in columns.record[storage].tolist()]
        named.append(owners)
        if layout.memory is Memory.HBM:
            places.append([f"{name}+{byte}" for name, byte in zip(owners, offset.tolist())])
            partitions.append([""] * numbers.size)
            continue
        partition, byte = np.divmod(offset, columns.pitch[storage])
        address = timed.placement.offset[storage] + byte + (PSUM_BASE if layout.memory is Memory.PSUM else 0)
        places.append(list(map(hex, address.tolist())))
        first = (timed.placement.partition[storage] + partition).tolist()
        partitions.append([f"+p{number}" if number else "" for number in first])
    return places + named + partitions


def _templates(form: Form) -> tuple[str, str]:
    """Text of a form with a field for each of `_values`; the second is for LDWEIGHTS, empty without."""
    reads = [k for k, role in enumerate(form.roles) if role is Role.READ]
    writes = [k for k, role in enumerate(form.roles) if role is not Role.READ]
    head = [_function(form)] if form.function else []
    if not paired(form) and not form.kept:
        tail = [f"channels={form.partitions}"] if form.partitions else []
        words = [
            *head,
            *_fields(form, "src", reads),
            *_fields(form, "dst", writes),
            *tail,
            _tensors(form, reads, writes),
        ]
        return " ".join(words), ""
    weights, moving = reads[:1], reads[1:]
    size = f"{form.partitions}*{form.layouts[reads[0]].elements}"
    main = [*head, *_fields(form, "src", moving), *_fields(form, "dst", writes), size, _tensors(form, moving, writes)]
    loading = [] if form.kept else [*_fields(form, "src", weights), size, _tensors(form, weights, [])]
    return " ".join(main), " ".join(loading)


def paired(form: Form) -> bool:
    """Whether TensorE shows it as pairs of LDWEIGHTS and MATMUL."""
    return form.engine is Engine.TENSOR and form.load_ps > 0


def _fields(form: Form, name: str, places: list[int]) -> list[str]:
    layouts, last = [form.layouts[k] for k in places], 2 * len(form.roles)
    short = [dtypes.short(layout.dtype) for layout in layouts]
    return [f"{name}{n or ''}={short[n]}@{{{k}}}{pattern(layouts[n])}{{{last + k}}}" for n, k in enumerate(places)]


def _tensors(form: Form, reads: list[int], writes: list[int]) -> str:
    first = len(form.roles)
    named = [",".join(f"{{{first + k}}}" for k in places) for places in (reads, writes)]
    return "tensors=" + "->".join(name for name in named if name)


def _function(form: Form) -> str:
    text = form.function.upper().replace("{", "{{").replace("}", "}}")
    return text if form.opcode == "ACTIVATE" else f"op={text}"


def pattern(layout: Layout) -> str:
    """`[strides][sizes]` in elements, innermost first."""
    free = slice(1, None) if layout.pitch else slice(None)
    dims = merge_dims(layout.shape[free], layout.strides[free])[::-1]
    ones = ["1"] * (DIMENSIONS - len(dims))
    steps = [str(stride // layout.itemsize) for _, stride in dims] + ones
    sizes = [str(size) for size, _ in dims] + ones
    return f"[{','.join(steps)}][{','.join(sizes)}]"
