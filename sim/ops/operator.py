"""What an operator is: a kernel, what it must compute, and how much work that is at least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sim import dtypes
from sim.errors import UnsupportedError
from sim.launch import TensorSpec, load

KERNELS = Path(__file__).parent / "kernels"

_loaded: dict[tuple[str, str], Any] = {}


@dataclass(frozen=True, slots=True)
class Work:
    """The textbook's count of one call, whatever the kernel does."""

    flops: int
    """2 M N K of a product; elementwise work counts one an element and operation."""
    read_bytes: int
    """Every input once."""
    written_bytes: int
    """Every output once."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator; its functions take the kernel's arguments, tensors first, scalars by keyword.

    file      : in `kernels/`, where the kernel is, under the operator's name
    reference : arrays -> array, or a tuple of them, in fp32 or wider
    outputs   : specs -> specs of what the kernel returns; raises InputError for what does not fit together
    flops     : specs -> operations
    reads     : specs -> bytes, where not every input is read once
    writes    : specs -> bytes, where an output is written in part
    missing   : why there is no kernel
    """

    name: str
    file: str
    reference: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    outputs: Callable[..., tuple[TensorSpec, ...]]
    flops: Callable[..., int]
    reads: Callable[..., int] | None = None
    writes: Callable[..., int] | None = None
    missing: str | None = None

    @property
    def kernel(self) -> Any:
        """The `@nki.jit` function.

        raises: UnsupportedError where there is none
        """
        if self.missing is not None:
            raise UnsupportedError(f"{self.name}: {self.missing}")
        key = (self.file, self.name)
        if key not in _loaded:
            _loaded[key] = load(f"{KERNELS / self.file}::{self.name}")
        return _loaded[key]

    def work(self, *inputs: Any, **scalars: Any) -> Work:
        """The least that a call must do; `inputs` are arrays or specs."""
        given = specs(inputs)
        read = self.reads(*given, **scalars) if self.reads else sum(map(nbytes, given))
        outputs = self.outputs(*given, **scalars)
        written = self.writes(*given, **scalars) if self.writes else sum(map(nbytes, outputs))
        return Work(self.flops(*given, **scalars), read, written)


def specs(inputs: tuple) -> tuple[TensorSpec | None, ...]:
    """Shapes and dtypes of arguments; None stays for one that is left out."""
    return tuple(value if value is None else TensorSpec(tuple(value.shape), value.dtype) for value in inputs)


def each(operations: int) -> Callable[..., int]:
    """The flops of so many operations an element of the first input."""
    return lambda x, *rest, **scalars: operations * prod(x.shape)


def itemsize(spec: TensorSpec) -> int:
    return dtypes.parse(spec.dtype).itemsize


def nbytes(spec: TensorSpec | None) -> int:
    return 0 if spec is None else prod(spec.shape) * itemsize(spec)
