"""The graph of a framework's function as `sim.models` has graphs, with the way that values take through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.frontends.ir import NUMPY
from sim.models.graph import Graph, Operation


@dataclass(frozen=True, slots=True)
class View:
    """What puts values in other places without computing; `sim.frontends.views` knows how."""

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps that are done again and again; what they make last is what they are given next."""

    trips: int
    body: Steps


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, view or loop, from numbered values to numbered values."""

    does: Operation | View | Loop
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    place: str = ""
    """The module or scope it comes from."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in a row, the numbers of what goes in and comes out, and the constants."""

    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """What the graph has and nobody has written."""

    name: str
    """The framework's."""
    why: str
    calls: int
    place: str
    """Of the first call."""

    def __str__(self) -> str:
        return f"{self.name} ({self.why}; {self.calls} calls)" if self.calls > 1 else f"{self.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor that goes in or comes out."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def array(self, value: Any) -> np.ndarray:
        """A value in the format that the graph computes in: 64-bit numbers become 32-bit ones."""
        return np.asarray(value).astype(NUMPY[self.dtype])


@dataclass(frozen=True, slots=True)
class FrameworkGraph(Graph):
    """A graph that knows what it was made of, and can be run."""

    plan: Steps
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    unsupported: tuple[Unsupported, ...]
    weights: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Values of parameters by the names of inputs; they come before what a caller gives."""

    def run(self, *given: Any, kernels: bool = False, device: str = "trn2") -> tuple[np.ndarray, ...]:
        """What the graph computes, through the operators' references, or their kernels on the emulated device.

        given  : arrays for those inputs that have no weights, in order
        raises : UnsupportedError that lists what nobody has written
        """
        from sim.frontends.values import run

        return run(self, given, kernels, device)
