"""Writing a program anew: old instructions in their order, with transfers that the compiler adds between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np

from sim.engines import dma
from sim.memory import Layout, Storage
from sim.program import Form, Program
from sim.trace import Memory


class Emission:
    """A program that grows from an old one."""

    def __init__(self, program: Program):
        self.program = program
        self.storages = list(program.storages)
        self.forms = list(program.forms)
        self._made: dict[tuple, int] = {}
        self._like: dict[int, int] = {}
        """Form of the old program that each derived one is made of."""
        self._own: dict[int, tuple] = {}
        """What is asked for by each form that is the compiler's own."""
        self._names: dict[int, str] = {}
        """What the compiler did, of new instructions."""
        self._form: list[int] = []
        self._old: list[int] = []
        """Instruction of the old program whose source, region and core each has."""
        self._operands: list[int] = []
        self._start = [0]
        self._place = np.zeros(len(program) + 1, np.int64)
        """New number of each old instruction, of the next one where it is gone."""
        self._gone = np.zeros(len(program), bool)

    def emit(self, form: int, index: int, operands: list[list[int]], old: bool = False, name: str = "") -> None:
        """Append an instruction for, or with old=True in the place of, an old one.

        name : says what the compiler did, where the kernel gave no name
        """
        if name:
            self._names[len(self._form)] = name
        if old:
            self._place[index] = len(self._form)
        self._form.append(form)
        self._old.append(index)
        for operand in operands:
            self._operands += operand
        self._start.append(len(self._operands) // 3)

    @property
    def last(self) -> int:
        """Number of the instruction that was appended last."""
        return len(self._form) - 1

    def skip(self, index: int) -> None:
        """Leave an old instruction out."""
        self._place[index] = len(self._form)
        self._gone[index] = True

    def new_storage(self, like: int, layout: Layout | None = None) -> int:
        """Another storage of the same name, by default of the same layout."""
        model = self.storages[like]
        made = Storage(
            len(self.storages), model.name, layout or model.layout, model.role, model.source, model.region, values=False
        )
        self.storages.append(made)
        return made.index

    def new_home(self, tile: int) -> int:
        """An HBM tensor that holds what an on-chip tile does."""
        layout = self.storages[tile].layout
        return self.new_storage(tile, Layout.dense(layout.shape, layout.dtype, Memory.HBM))

    def move(self, target: int, source: int, spilled: str, index: int) -> None:
        """Copy a whole storage: `save` or `reload`."""
        dst, src = self.storages[target].layout, self.storages[source].layout
        rows = [[target, 0, dst.index], [source, 0, src.index]]
        self.emit(self._transfer(dst, src, spilled), index, rows, name=f"spill {spilled} {self.storages[source].name}")

    def _transfer(self, dst: Layout, src: Layout, spilled: str) -> int:
        key = (dst, src, spilled)
        if key not in self._made:
            form = dma.describe_copy(self.program.device, (dst, src), dma.UNKNOWN, dma.UNKNOWN, None)
            self._made[key] = self._add(replace(form, spill=spilled, useful=False))
        return self._made[key]

    def variant(self, form: int, spilled: str) -> int:
        """The same load, marked with why the compiler added it."""
        if (form, spilled) not in self._made:
            self._made[form, spilled] = self._add(replace(self.forms[form], spill=spilled, useful=False))
        return self._made[form, spilled]

    def derived(self, form: int, key: Hashable, make: Callable[[Form], Form]) -> int:
        """A form made of another one, which the kernel asked for in the same way; equal keys give the same one."""
        if (form, key) not in self._made:
            self._made[form, key] = made = self._add(make(self.forms[form]))
            self._like[made] = self._like.get(form, form)
        return self._made[form, key]

    def own(self, form: Form, asked: tuple) -> int:
        """A form of the compiler's own, as if a kernel had asked for it; equal forms are one."""
        if (form, asked) not in self._made:
            self._made[form, asked] = self._add(form)
            self._own[self._made[form, asked]] = asked
        return self._made[form, asked]

    def _add(self, form: Form) -> int:
        self.forms.append(form)
        return len(self.forms) - 1

    def _asked(self) -> tuple[tuple, ...]:
        """What the kernel asked for, of each form."""
        asked = self.program.asked
        if not self._like and not self._own:
            return asked
        like = [self._like.get(number, number) for number in range(len(self.forms))]
        known = dict(enumerate(asked)) | self._own
        return tuple(known.get(number, ()) for number in like)

    def finished(self) -> Program:
        """The new program."""
        program, old, place = self.program, np.array(self._old, np.int64), self._place
        born = np.full(len(self.storages), 0, np.int64)
        born[: program.born.size] = place[np.clip(program.born, 0, len(program))]
        kept = [not self._gone[first] and not self._gone[then] for first, then, _ in program.order.tolist()]
        order = program.order[np.array(kept, bool)] if kept else program.order
        order = np.column_stack((place[order[:, :2]], order[:, 2])) if order.size else order
        return replace(
            program,
            forms=tuple(self.forms),
            asked=self._asked(),
            storages=tuple(self.storages),
            form=np.array(self._form, np.int32),
            source=program.source[old],
            region=program.region[old],
            core=program.core[old],
            iteration=program.iteration[old],
            immediate=program.immediate[old] if program.immediate.size else program.immediate,
            operand_start=np.array(self._start, np.int64),
            operands=np.array(self._operands, np.int64).reshape(-1, 3),
            names=self._names
            | {int(place[index]): name for index, name in program.names.items() if not self._gone[index]},
            order=order,
            born=born,
            findings=tuple(
                replace(found, instruction=int(place[found.instruction])) if found.instruction >= 0 else found
                for found in program.findings
                if found.instruction < 0 or not self._gone[found.instruction]
            ),
        )
