"""Instruction rows: one for most instructions, pairs of LDWEIGHTS and MATMUL for the passes of a matrix multiplication.

Rows are first laid out instruction by instruction, then the loads of activation tables; `order` sorts them by start.
"""

from __future__ import annotations

import numpy as np

from sim.engines import laws
from sim.program import Form, Role
from sim.record.text import operand_codes, paired
from sim.schedule import Schedule, streaming
from sim.trace import NONE, Engine, Memory, Strings, Wait

EXCHANGE = "COLLECTIVE"
"""Opcode of an instruction that starts a collective."""
MATMUL_TRACK = "TensorMatrix"
"""Where real profiles show MATMUL, apart from LDWEIGHTS."""


class Rows:
    """The rows of a schedule and how they map to its instructions.

    instruction : int64[rows], before sorting, as `step` and `place`
    order       : int64[rows], the rows as the trace has them
    first, last : int64[n], rows of the trace that an instruction begins and ends with
    load        : int64[loads], rows of the trace of the activation table loads
    wires       : int64[exchanges], instructions that start a collective, whose exchange has a row behind the loads'
    """

    def __init__(self, timed: Schedule, strings: Strings, lead: int):
        self.timed = timed
        self.strings = strings
        program = timed.program
        self.passes = np.array([_passes(form) for form in program.forms], np.int64)[program.form]
        self.count = np.maximum(1, 2 * self.passes)
        begin = np.cumsum(self.count) - self.count
        self.loads = timed.table_loads
        wired = np.array([form.opcode == EXCHANGE for form in program.forms] or [0], bool)
        self.wires = np.flatnonzero(wired[program.form])
        own = np.repeat(np.arange(len(program)), self.count)
        self.instruction = np.concatenate((own, self.loads.instruction, self.wires))
        self.main = own.size
        """Rows that are neither loads of tables nor exchanges."""
        self.table = slice(self.main, self.main + self.loads.instruction.size)
        self.wire = slice(self.table.stop, None)
        self.step = np.zeros(self.instruction.size, np.int64)
        self.step[: self.main] = np.arange(self.main) - np.repeat(begin, self.count)
        self.paired = self.passes[self.instruction] > 0
        self.paired[self.main :] = False
        kept = np.array([form.kept for form in program.forms] or [0], bool)
        self.kept = kept[program.form][self.instruction]
        self.start, self.end = self._times()
        self.start += lead
        self.end += lead
        self.order = np.lexsort((self.step, self.instruction, np.arange(self.start.size) < self.main, self.start))
        place = np.empty(self.order.size, np.int64)
        place[self.order] = np.arange(self.order.size)
        self.first = place[begin]
        self.last = place[begin + self.count - 1]
        self.load = place[self.table]
        self.before = place
        """Row of the trace of each row before sorting."""

    def _times(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of each row before sorting, from the issue of the first instruction."""
        timed, index = self.timed, self.instruction
        start, end = timed.start[index], timed.done[index]
        trigger = np.array([form.dma is not None for form in timed.program.forms], bool)[timed.program.form]
        latency = np.array([form.cost.latency_ps for form in timed.program.forms], np.int64)[timed.program.form]
        end = np.where(trigger[index], start + latency[index], end)
        pair = np.flatnonzero(self.paired | self.kept)
        start[pair], end[pair] = self._pass_times(pair)
        start[self.table], end[self.table] = self._load_times()
        start[self.wire] += latency[self.wires]
        end[self.wire] = np.maximum(timed.done[self.wires], start[self.wire])
        return start, end

    def _pass_times(self, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A pass takes an equal share of the streaming; its weights are loaded before it if their data are there.

        As profiles show it, a MATMUL behind another has started a while before it streams.
        """
        timed, index = self.timed, self.instruction[pair]
        forms, form, device = timed.program.forms, timed.program.form[index], timed.program.device
        streams, cold = (column[index] for column in streaming(timed))
        number, passes = self.step[pair] // 2, np.maximum(1, self.passes[index])
        busy = timed.freed[index] - streams
        begin = streams + busy * number // passes
        finish = streams + busy * (number + 1) // passes + timed.done[index] - timed.freed[index]
        share = device.get("pe.clock_cold") or 1
        fast, slow = (
            np.array([laws.load_duration(device, each.load_ps, pace) for each in forms], np.int64)[form]
            for pace in (1, share)
        )
        load = np.where(cold, slow, fast)
        since, late = (column[index] for column in self._behind())
        since = np.where(number > 0, begin - busy // passes, since)
        since = np.minimum(since, begin)
        early = np.where(self.kept[pair], since, np.clip(begin - load, since, begin))
        ahead = np.where(cold & ((number > 0) | ~late), laws.ahead(device, share), 0)
        weights = self.paired[pair] & (self.step[pair] % 2 == 0)
        shown = np.where(weights, early, np.maximum(begin - ahead, early))
        return shown, np.where(weights, early + load, np.maximum(finish, begin))

    def _behind(self) -> tuple[np.ndarray, np.ndarray]:
        """Since when each instruction of TensorE can load weights; whether its operands came when TensorE was idle."""
        timed = self.timed
        since, late = timed.ready.copy(), np.ones(len(timed.program), bool)
        clocked = np.array([form.cost.clocked for form in timed.program.forms], bool)[timed.program.form]
        own = np.flatnonzero(clocked)
        own = own[np.lexsort((timed.start[own], timed.program.core[own]))]
        before, after = own[:-1], own[1:]
        same = timed.program.core[before] == timed.program.core[after]
        behind = same & (timed.ready[after] <= timed.freed[before])
        tail = (timed.freed - timed.start) // np.maximum(1, self.passes)
        since[after[behind]] = (timed.freed - tail)[before[behind]]
        late[after[behind]] = False
        return since, late

    def _load_times(self) -> tuple[np.ndarray, np.ndarray]:
        """The first load of a core is over before ScalarE works."""
        timed = self.timed
        from sim.schedule import picoseconds

        length = picoseconds(timed.program.device["act.table_load"])
        engine = np.array([form.engine for form in timed.program.forms], np.int8)[timed.program.form]
        start = self.loads.start.copy()
        for row in np.flatnonzero(start < 0).tolist():
            core = timed.program.core[self.loads.instruction[row]]
            works = timed.start[(engine == Engine.SCALAR) & (timed.program.core == core)].min()
            start[row] = 0 if works >= length else works - length
        return start, start + length


def _passes(form: Form) -> int:
    """Pairs of LDWEIGHTS and MATMUL; 0 for what is a single row."""
    return form.passes if paired(form) else 0


def instructions(rows: Rows) -> dict[str, np.ndarray]:
    """The columns of `sim.trace.Instructions`, but for the region."""
    program = rows.timed.program
    index = rows.instruction
    columns = {
        "start_ps": rows.start,
        "end_ps": rows.end,
        "engine": _engines(rows),
        "core": program.core[index],
        "source": program.source[index],
        "partitions": _by_form(rows, lambda form: form.partitions),
        "group": _groups(rows),
        "name": _names(rows),
        "operands": _operands(rows),
        **_descriptions(rows),
        **_waits(rows),
        **_amounts(rows),
    }
    columns["control"] = np.zeros(index.size, bool)
    columns["control"][rows.table] = rows.loads.start < 0
    return {"id": np.arange(index.size), **{name: column[rows.order] for name, column in columns.items()}}


def _engines(rows: Rows) -> np.ndarray:
    """Of the form; an exchange is the collective engine's."""
    engines = _by_form(rows, lambda form: form.engine)
    engines[rows.wire] = Engine.COLLECTIVE
    return engines


def _by_form(rows: Rows, value) -> np.ndarray:
    """A value of the form of each row."""
    program = rows.timed.program
    return np.array([value(form) for form in program.forms] or [0], np.int64)[program.form[rows.instruction]]


def _descriptions(rows: Rows) -> dict[str, np.ndarray]:
    """Text columns that depend on the form alone; rows of matrix multiplications and table loads have their own."""
    code, weights, table = rows.strings.code, rows.paired & (rows.step % 2 == 0), rows.table
    opcode = _by_form(rows, lambda form: code(form.opcode))
    opcode[weights], opcode[table] = code("LDWEIGHTS"), code("ACT_TABLE_LOAD")
    track = np.full(opcode.size, NONE)
    track[(rows.paired & ~weights) | rows.kept] = code(MATMUL_TRACK)
    track[weights] = code("Tensor")
    function = _by_form(rows, lambda form: code(form.function or None))
    opcode[rows.wire] = function[rows.wire]
    kind = _by_form(rows, lambda form: code(form.kind if form.engine is Engine.TENSOR else None))
    dtype = _by_form(rows, lambda form: code(form.dtype or None))
    function[table], dtype[table] = NONE, NONE
    return {"opcode": opcode, "track": track, "function": function, "kind": kind, "dtype": dtype}


def _groups(rows: Rows) -> np.ndarray:
    """One name an instruction that has several rows."""
    several = np.flatnonzero(rows.count > 1)
    first = len(rows.strings)
    codes = np.full(len(rows.timed.program), NONE, np.int64)
    codes[several] = first + np.arange(several.size)
    for number in several.tolist():
        rows.strings.code(f"I-{number}")
    codes = codes[rows.instruction]
    codes[rows.main :] = NONE
    return codes


def _names(rows: Rows) -> np.ndarray:
    names = np.full(len(rows.timed.program), NONE, np.int64)
    for number, name in rows.timed.program.names.items():
        names[number] = rows.strings.code(name)
    names = names[rows.instruction]
    names[rows.main :] = NONE
    return names


def _operands(rows: Rows) -> np.ndarray:
    main, weights = operand_codes(rows.timed, rows.strings)
    loading = rows.paired & (rows.step % 2 == 0)
    codes = np.where(loading, weights[rows.instruction], main[rows.instruction])
    for row, number in enumerate(rows.loads.instruction.tolist(), rows.table.start):
        table = rows.timed.program.forms[rows.timed.program.form[number]].cost.table
        codes[row] = rows.strings.code(f"table_sel={table}")
    return codes


def _waits(rows: Rows) -> dict[str, np.ndarray]:
    """The first row of an instruction has its wait; a later MATMUL follows the one before, others the row before."""
    timed, index = rows.timed, rows.instruction
    wait_ps, wait = np.zeros(index.size, np.int64), np.full(index.size, Wait.ENGINE, np.int64)
    bound = np.full(index.size, NONE, np.int64)
    first = np.flatnonzero(rows.step[: rows.main] == 0)
    wait_ps[first], wait[first] = timed.wait_ps, timed.wait
    bound[first] = np.where(timed.bind >= 0, rows.last[timed.bind], NONE)
    later = np.flatnonzero(rows.step[: rows.main] > 0)
    streams = (rows.step[later] > 1) & (rows.step[later] % 2 == 1)
    bound[later] = rows.before[np.where(streams, later - 2, later - 1)]
    _chain_first_pass(rows, bound)
    loads, shown, table = rows.loads, rows.loads.start >= 0, rows.table
    bound[rows.wire] = rows.last[rows.wires]
    wait_ps[table], wait[table] = loads.wait_ps, np.where(shown, loads.wait, Wait.NONE)
    bound[table] = np.where(shown & (loads.bind >= 0), rows.last[loads.bind], NONE)
    needs = first[loads.instruction[shown]]
    tabled = wait[needs] == Wait.TABLE
    bound[needs[tabled]] = rows.load[shown][tabled]
    return {"wait_ps": wait_ps, "wait": wait, "wait_for": bound}


def _chain_first_pass(rows: Rows, bound: np.ndarray) -> None:
    """A first MATMUL whose weights came early follows what bound the instruction, not its weights."""
    matmul = np.flatnonzero(rows.paired & (rows.step == 1))
    early = rows.start[matmul - 1] < rows.start[matmul]
    bound[matmul[early]] = bound[matmul[early] - 1]


def _amounts(rows: Rows) -> dict[str, np.ndarray]:
    """Work and bytes; a LDWEIGHTS reads the stationary tile, its MATMUL does the rest."""
    loads = rows.paired & (rows.step % 2 == 0)
    passes = np.where(loads, 0, np.maximum(1, rows.passes[rows.instruction]))
    columns = {
        "elements": np.where(loads, 0, _by_form(rows, lambda form: form.elements)),
        "flops": _by_form(rows, lambda form: form.flops) // np.maximum(1, passes) * (passes > 0),
        "adjusted_flops": _by_form(rows, lambda form: form.adjusted_flops) // np.maximum(1, passes) * (passes > 0),
    }
    for memory in (Memory.HBM, Memory.SBUF, Memory.PSUM):
        for writes, way in ((False, "read"), (True, "write")):
            whole = _by_form(rows, lambda form, m=memory, w=writes: touched(form, m, w))
            weights = _by_form(rows, lambda form, m=memory, w=writes: 0 if w else stationary(form, m))
            columns[f"{memory.name.lower()}_{way}_bytes"] = np.where(loads, weights, whole - weights)
    for kind, way in (("save", "write"), ("reload", "read")):
        added = _by_form(rows, lambda form, k=kind: form.spill == k)
        columns[f"spill_{kind}_bytes"] = added * columns[f"hbm_{way}_bytes"]
    for name in columns:
        columns[name][rows.main :] = 0
    return columns


def stationary(form: Form, memory: Memory) -> int:
    """Bytes a partition of the tile that a LDWEIGHTS of this form, or of the one before, reads from a memory."""
    if not paired(form) and not form.kept:
        return 0
    layout = next(layout for role, layout in zip(form.roles, form.layouts) if role is Role.READ)
    return layout.elements * layout.itemsize if layout.memory is memory else 0


def touched(form: Form, memory: Memory, writes: bool) -> int:
    """Bytes that a form reads or writes: a partition on chip, all in HBM; of a gather, what it moves."""
    most = form.dma.bytes if form.dma else None
    sizes = [
        layout.elements * layout.itemsize
        for role, layout in zip(form.roles, form.layouts)
        if (role is not Role.READ) == writes and layout.memory is memory
    ]
    return sum(sizes if most is None else (min(size, most) for size in sizes))
