"""Tiles with known contents on a chip, for the tests of single instructions."""

from __future__ import annotations

import math
import operator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from sim import dtypes, spec
from sim.nki.session import building
from sim.nki.tensor import NkiTensor
from sim.program import Form, ProgramBuilder
from sim.trace import Memory

SBUF, PSUM, HBM = Memory.SBUF, Memory.PSUM, Memory.HBM
BUFFERS = {SBUF: "sbuf", PSUM: "psum", HBM: "private_hbm"}


ARITHMETIC = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": max,
    "minimum": min,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater_equal": operator.ge,
    "greater": operator.gt,
    "less_equal": operator.le,
    "less": operator.lt,
    "divide": lambda a, b: a / b,
    "power": lambda a, b: abs(a) ** b,
    "mod": lambda a, b: a % b,
    "fmod": math.fmod,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
    "abs_max": lambda a, b: a if abs(a) > abs(b) else b,
    "abs_min": lambda a, b: a if abs(a) < abs(b) else b,
}
"""What each operator means, on two numbers of Python."""


class Chip(AbstractContextManager):
    """A program under construction; within, `nki.isa` calls add to it."""

    def __init__(self, device: str = "trn2", values: bool = True):
        self.program = ProgramBuilder(spec.device(device), values)

    def __enter__(self) -> Chip:
        self._building = building(self.program)
        self._building.__enter__()
        return self

    def __exit__(self, *fault: Any) -> None:
        self._building.__exit__(*fault)

    def tensor(self, data: Any, dtype: Any = "float32", memory: Memory = SBUF) -> NkiTensor:
        """A tensor with these contents, or of this shape with nothing written."""
        kind = dtypes.parse(dtype)
        shape = data if isinstance(data, tuple) else np.shape(data)
        storage = self.program.allocate(shape, kind, memory, buffer=BUFFERS[memory])
        if not isinstance(data, tuple) and self.program.values:
            storage.fill(dtypes.cast(np.asarray(data), kind))
        return NkiTensor(storage, storage.layout, 0)

    def psum(self, data: Any, dtype: Any = "float32") -> NkiTensor:
        return self.tensor(data, dtype, PSUM)

    def hbm(self, data: Any, dtype: Any = "float32") -> NkiTensor:
        return self.tensor(data, dtype, HBM)

    @property
    def form(self) -> Form:
        """The form of the last instruction."""
        return self.program.forms[self.program._form[-1]]


def fp32(tensor: NkiTensor) -> np.ndarray:
    """The tensor's values."""
    return tensor.array().astype(np.float32)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def rounded(array: np.ndarray, dtype: Any) -> np.ndarray:
    """fp32 values after a trip through another format."""
    return dtypes.cast(array, dtypes.parse(dtype)).astype(np.float32)
