"""Tiles in few words, for the tables of broken limits."""

from __future__ import annotations

from tests.chip import Chip


class Tiles:
    """`t.s(…)` in SBUF, `t.p(…)` in PSUM, `t.h(…)` in HBM; short dtype names."""

    def __init__(self, chip: Chip):
        self.chip = chip

    def s(self, *shape, dtype="float32"):
        return self.chip.tensor(shape, dtype)

    def p(self, *shape, dtype="float32"):
        return self.chip.psum(shape, dtype)

    def h(self, *shape, dtype="float32"):
        return self.chip.hbm(shape, dtype)


def half(t, *shape):
    return t.s(*shape, dtype="bfloat16")


def flags(t, *shape):
    return t.s(*shape, dtype="uint8")


def row(t, rows, width):
    """A gather of rows of 64 numbers, as a source."""
    index = t.s(rows, 1, dtype="uint32")
    return t.h(256, width, dtype="bfloat16").ap([[width, rows], [1, width]], vector_offset=index)
