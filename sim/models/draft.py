"""Operations in the making: the shapes that layers of every family are built from."""

from __future__ import annotations

from math import ceil
from typing import Any

from sim.models.graph import COLLECTIVE, SIZES, Layer, Operand, Operation
from sim.models.workload import Sharding, Workload

PAGE = 128
"""Tokens of a page of the key-value cache."""

QUICK = ("bf16", "fp32")
"""Number formats that operators other than a product are made for; fp8 is for products."""


class Draft:
    """Collects the operations of one layer."""

    def __init__(self, workload: Workload, sharding: Sharding):
        self.workload = workload
        self.sharding = sharding
        self.dtype = workload.dtype if workload.dtype in QUICK else "bf16"
        """Of what flows between operators."""
        self.operations: list[Operation] = []

    def layer(self, name: str, repeat: int = 1) -> Layer:
        """What was drafted since the last layer."""
        operations, self.operations = tuple(self.operations), []
        return Layer(name, operations, repeat)

    def call(
        self, name: str, operator: str, *inputs: Operand, times: int = 1, held: int | None = None, **scalars: Any
    ) -> None:
        self.operations.append(Operation(name, operator, inputs, scalars, times, held))

    def flow(self, *shape: int) -> Operand:
        """Activations."""
        return Operand(shape, self.dtype)

    def weight(self, *shape: int, dtype: str | None = None, role: str = "weight") -> Operand:
        return Operand(shape, dtype or self.dtype, role)

    def matmul(
        self,
        name: str,
        rows: int,
        inner: int,
        columns: int,
        bias: bool = False,
        activation: str | None = None,
        shared: bool = False,
        same_input: bool = False,
        times: int = 1,
        held: int | None = None,
        role: str = "weight",
    ) -> None:
        """[rows, inner] times a weight [inner, columns]; `shared`: transposed, it was counted as the embedding."""
        kind = self.workload.dtype
        scalars: dict[str, Any] = {"activation": activation} if activation else {}
        shape = (columns, inner) if shared else (inner, columns)
        if shared:
            scalars["transpose_w"] = True
        operands = [Operand((rows, inner), kind), self.weight(*shape, dtype=kind, role="shared" if shared else role)]
        if bias:
            operands.append(self.weight(columns))
        self.operations.append(Operation(name, "matmul", tuple(operands), scalars, times, held, same_input))

    def norm(self, name: str, rows: int, width: int, kind: str = "rmsnorm") -> None:
        weights = [self.weight(width)] * (1 if kind == "rmsnorm" else 2)
        self.call(name, kind, self.flow(rows, width), *weights)

    def elementwise(self, name: str, kind: str, *shapes: tuple[int, ...], times: int = 1) -> None:
        self.call(name, "elementwise", *(self.flow(*shape) for shape in shapes), times=times, kind=kind)

    def add(self, name: str, rows: int, width: int) -> None:
        """A residual."""
        self.elementwise(name, "add", (rows, width), (rows, width))

    def collective(self, name: str, kind: str, size_bytes: int, group: str, ranks: int | None = None) -> None:
        """An exchange within a group of cores; nothing where the group is one core.

        size_bytes : of the whole that is reduced, gathered, scattered, or what one core sends
        """
        ranks = ranks or getattr(self.sharding, group)
        if ranks > 1:
            self.call(name, COLLECTIVE, kind=kind, size_bytes=int(size_bytes), ranks=ranks, group=group)

    def gathered(self, name: str, rows: int, width: int) -> None:
        """With sequence parallelism, what was spread over tokens becomes whole again."""
        if self.sharding.sp:
            self.collective(name, "all_gather", rows * width * SIZES[self.dtype], "tp")

    def reduced(self, name: str, rows: int, width: int) -> None:
        """Partial sums of tensor-parallel cores become a sum, whole or spread over tokens."""
        kind = "reduce_scatter" if self.sharding.sp else "all_reduce"
        self.collective(f"{name}/{kind}", kind, rows * width * SIZES[self.dtype], "tp")

    def spread(self, rows: int) -> int:
        """Rows of what sequence parallelism spreads over tokens."""
        return ceil(rows / self.sharding.tp) if self.sharding.sp else rows


def pages(tokens: int) -> int:
    """Pages of the key-value cache that hold so many tokens of one sequence."""
    return ceil(tokens / PAGE)
