"""Forwarding: a copy out of PSUM is not made where all that reads it can read PSUM in its place.

The readers run on VectorE or ScalarE in the same loop iteration, and the tile is the copy's alone (facts of the timing
prototype, section 8.1; profiles of attention kernels show reductions that read PSUM where the kernel copies first). A
copy of what the iteration before has copied already is none of its iteration: it moves out of the loop, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sim.compiler.columns import dense_bytes, instructions_of_operands, keep, operand_roles
from sim.compiler.numbering import in_a_row, number_values
from sim.errors import TrnprofError
from sim.memory import Layout
from sim.program import Form, Program, Role
from sim.trace import Engine, Memory

READERS = (Engine.VECTOR, Engine.SCALAR)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that may go: rows of `Program.operands`."""

    index: int
    source: int
    target: int
    reads: tuple[int, ...]
    """Of its target."""


def forward(program: Program) -> Program:
    """Let what reads a copy of a PSUM tile read the tile, and leave the copy out."""
    if len(program.order) or not program.calls:
        return program
    rewriting = _Rewriting(program)
    gone = np.zeros(len(program), bool)
    for copy in _copies(program, rewriting.instruction):
        gone[copy.index] = rewriting.redirect(copy)
    return keep(rewriting.finished(), ~gone) if gone.any() else program


def _copies(program: Program, instruction: np.ndarray) -> Iterator[Copy]:
    roles, storage = operand_roles(program), program.operands[:, 0]
    order = np.argsort(storage, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(storage[order])) + 1) if order.size else []
    rows = {int(storage[group[0]]): group for group in groups}
    moves = [_is_copy(form) for form in program.forms]
    bank, invariant = int(program.device["psum_bank_bytes"]), in_a_row(program, number_values(program))
    repeats = {*invariant, *invariant.values()}
    for index in np.flatnonzero(np.array(moves or [False])[program.form]).tolist():
        target = int(program.operand_start[index])
        held, made = program.storages[storage[target]], program.storages[storage[target + 1]]
        own, source = rows[int(storage[target])], rows[int(storage[target + 1])]
        writes = own[roles[own] != Role.READ]
        if len(writes) != 1 or len(own) < 2 or held.address is not None or made.pitch > bank:
            continue
        if int(storage[target]) in repeats:
            continue
        reads = own[roles[own] == Role.READ]
        last = int(instruction[reads[-1]])
        rewritten = instruction[source[roles[source] != Role.READ]]
        if instruction[reads[0]] < index or ((rewritten > index) & (rewritten <= last)).any():
            continue
        if _covers(program, target) and _reads_alike(program, instruction[reads], index):
            yield Copy(index, target + 1, target, tuple(reads.tolist()))


def _is_copy(form: Form) -> bool:
    plain = form.call == "nki.isa.tensor_copy" or (form.call == "nki.isa.activation" and form.function == "COPY")
    if not plain or form.roles != (Role.WRITE, Role.READ):
        return False
    dst, src = form.layouts
    from_psum = src.memory is Memory.PSUM and dst.memory is Memory.SBUF
    return from_psum and dst.dtype == src.dtype and bool(_width(src)) and _width(src) == _width(dst)


def _width(layout: Layout) -> int:
    """Bytes a partition of a view without holes, 0 for one with some."""
    free = Layout((1, *layout.shape[1:]), layout.strides, layout.dtype, layout.memory, layout.pitch)
    return dense_bytes(free)


def _covers(program: Program, row: int) -> bool:
    """Whether a view is all of its storage."""
    storage, offset, layout = program.operands[row].tolist()
    return offset == 0 and dense_bytes(Layout.by_index[layout]) == program.storages[storage].nbytes


def _reads_alike(program: Program, readers: np.ndarray, index: int) -> bool:
    """Whether VectorE or ScalarE reads, in the loop of the copy."""
    forms = [program.forms[number] for number in program.form[readers].tolist()]
    engines = all(form.engine in READERS and form.dma is None for form in forms)
    return engines and bool((program.region[readers] == program.region[index]).all())


class _Rewriting:
    """Operands and forms while copies go."""

    def __init__(self, program: Program):
        self.program = program
        self.instruction = instructions_of_operands(program)
        self.operands = program.operands.copy()
        self.form = program.form.copy()
        self.forms, self.calls, self.asked = list(program.forms), list(program.calls), list(program.asked)
        self.made: dict[tuple, int] = {}

    def redirect(self, copy: Copy) -> bool:
        """Let the readers of a copy read its source; False, and nothing changed, where one of them cannot."""
        changes, forms = [], {}
        bank, begin, _ = self.operands[copy.source].tolist()
        pitch, own = self.program.storages[bank].pitch, self.program.storages[self.operands[copy.target, 0]].pitch
        for row in copy.reads:
            index = int(self.instruction[row])
            _, offset, number = self.operands[row].tolist()
            layout = Layout.by_index[number]
            strides = (layout.strides[0] // own * pitch, *layout.strides[1:])
            moved = Layout(layout.shape, strides, layout.dtype, Memory.PSUM, pitch)
            place = row - int(self.program.operand_start[index])
            found = self._described(forms.get(index, int(self.form[index])), place, moved)
            if found is None or layout.strides[0] % own:
                return False
            forms[index] = found
            changes.append((row, (bank, begin + offset // own * pitch + offset % own, moved.index)))
        for row, operand in changes:
            self.operands[row] = operand
        for index, number in forms.items():
            self.form[index] = number
        return True

    def _described(self, number: int, place: int, layout: Layout) -> int | None:
        """The form of a call one operand of which lies elsewhere; None where it cannot."""
        from sim.retiming import described

        if (number, place, layout) not in self.made:
            layouts = self.forms[number].layouts
            layouts = (*layouts[:place], layout, *layouts[place + 1 :])
            try:
                form = described(self.program.device, self.calls[number], layouts, self.asked[number])
            except TrnprofError:
                return None
            self.made[number, place, layout] = len(self.forms)
            self.forms.append(form)
            self.calls.append(self.calls[number])
            self.asked.append(self.asked[number])
        return self.made[number, place, layout]

    def finished(self) -> Program:
        return replace(
            self.program,
            operands=self.operands,
            form=self.form,
            forms=tuple(self.forms),
            calls=tuple(self.calls),
            asked=tuple(self.asked),
        )
