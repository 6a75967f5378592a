"""What a model does in one phase: sections of layers of operations, as one core sees them.

Shapes are those of one rank: what tensor, expert or context parallelism leaves to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

SIZES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8_e4m3": 1, "fp8_e5m2": 1, "float8_e4m3": 1, "int32": 4,
         "uint32": 4, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1}  # fmt: skip
"""Bytes of an element."""

COLLECTIVE = "collective"


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor that an operator takes."""

    shape: tuple[int, ...]
    dtype: str = "bf16"
    role: str = "activation"
    """activation, weight, expert (a weight that fewer cores have alike), shared (a weight that another operation has
    counted), cache (keys, values, states), or index: tables, positions and images that no backward pass wants."""

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of an operator of `sim.ops`, or one collective."""

    name: str
    """Within its layer: `attention/qkv`."""
    operator: str
    inputs: tuple[Operand, ...] = ()
    scalars: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the operator; of a collective its kind, size_bytes, ranks and group."""
    times: int = 1
    """Calls in a row, each with weights of its own: the experts of one layer."""
    held: int | None = None
    """How many sets of its weights lie in memory; None for as many as it is called."""
    same_input: bool = False
    """Its first input is that of the operation before it, and is kept for the backward pass there."""

    @property
    def weight_bytes(self) -> int:
        """What its weights take in memory."""
        return self._held("weight") + self.expert_bytes

    @property
    def expert_bytes(self) -> int:
        """The part of it that belongs to experts."""
        return self._held("expert")

    def _held(self, role: str) -> int:
        own = sum(operand.nbytes for operand in self.inputs if operand.role == role)
        return own * (self.times if self.held is None else self.held)

    @property
    def key(self) -> tuple:
        """Equal for operations that take the same time."""
        return self.operator, self.inputs, tuple(sorted(self.scalars.items(), key=lambda item: item[0]))


@dataclass(frozen=True, slots=True)
class Layer:
    """Operations one after the other; `repeat` layers of the same shape, each with weights of its own, in a row."""

    name: str
    operations: tuple[Operation, ...]
    repeat: int = 1
    owns_weights: bool = True
    """False where another layer has counted the same weights: in the backward pass, in a later step."""

    @property
    def weight_bytes(self) -> int:
        """What its weights take in memory."""
        if not self.owns_weights:
            return 0
        return self.repeat * sum(operation.weight_bytes for operation in self.operations)

    @property
    def expert_bytes(self) -> int:
        """The part of it that belongs to experts."""
        return self.repeat * sum(operation.expert_bytes for operation in self.operations) if self.owns_weights else 0


@dataclass(frozen=True, slots=True)
class Section:
    """Layers in a row, `passes` times with the same weights: steps of a decoder, of a denoiser."""

    name: str
    layers: tuple[Layer, ...]
    passes: int = 1
    stage: int = 0
    """Of the pipeline: stages lie on different cores."""


@dataclass(frozen=True, slots=True)
class Graph:
    """All that one core does in a phase."""

    name: str
    phase: str
    sections: tuple[Section, ...]

    def operations(self) -> Iterator[tuple[Operation, int]]:
        """Every operation with how many times it is called in all."""
        for section in self.sections:
            for layer in section.layers:
                for operation in layer.operations:
                    yield operation, section.passes * layer.repeat * operation.times

    @property
    def weight_bytes(self) -> int:
        """Of the fullest pipeline stage."""
        return max(self.by_stage(lambda layer: layer.weight_bytes), default=0)

    def by_stage(self, measure: Callable[[Layer], int]) -> tuple[int, ...]:
        """The sum over the layers of each pipeline stage, once each however often they are passed."""
        sums: dict[int, int] = {}
        for section in self.sections:
            sums[section.stage] = sums.get(section.stage, 0) + sum(map(measure, section.layers))
        return tuple(sums.values())
