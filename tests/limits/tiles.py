"""Tiles in few words, for the tables of limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sim
import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.kernel import jit
from tests.chip import Chip

V, S, G, T = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd, nisa.engine.tensor
ADD, MAX, MUL, EXP, BIT = nl.add, nl.maximum, nl.multiply, nl.exp, nl.bitwise_and
IDLE, RESET, REDUCE = nisa.reduce_cmd.idle, nisa.reduce_cmd.reset, nisa.reduce_cmd.reduce
RESET_REDUCE, LOAD_REDUCE = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.load_reduce
X4 = "float8_e5m2_x4"


class Tiles:
    """`t.s(…)` in SBUF, `t.p(…)` in PSUM, `t.h(…)` in HBM; `t.at("sbuf", …)` where the word says."""

    def __init__(self, chip: Chip):
        self.chip = chip

    def s(self, *shape, dtype="float32"):
        return self.chip.tensor(shape, dtype)

    def p(self, *shape, dtype="float32"):
        return self.chip.psum(shape, dtype)

    def h(self, *shape, dtype="float32"):
        return self.chip.hbm(shape, dtype)

    def at(self, memory, *shape, dtype="float32"):
        return {"sbuf": self.s, "psum": self.p, "hbm": self.h}[memory](*shape, dtype=dtype)

    def two(self, *shape, dtype="float32"):
        return self.s(*shape, dtype=dtype), self.s(*shape, dtype=dtype)

    def launch(self, body: Callable[[], Any], **options: Any) -> Any:
        """Run a kernel without arguments on the device of the table's row."""

        def kernel():
            body()
            return nl.ndarray((1, 1), nl.float32, nl.shared_hbm)

        return sim.run(jit(kernel), device=self.chip.program.device.name, values=False, **options)


def half(t, *shape):
    return t.s(*shape, dtype="bfloat16")


def flags(t, *shape):
    return t.s(*shape, dtype="uint8")


def row(t, rows, width, dtype="bfloat16", index=None):
    """A gather of rows, as a source."""
    chosen = t.s(rows, 1, dtype="uint32") if index is None else index
    return t.h(256, width, dtype=dtype).ap([[width, rows], [1, width]], vector_offset=chosen)
