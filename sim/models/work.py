"""The textbook's count of a graph: operations, bytes, and what it takes of HBM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sim.models.graph import COLLECTIVE, Graph, Operation

if TYPE_CHECKING:
    from sim.models.families import Model
    from sim.models.workload import Sharding, Workload
    from sim.ops import Work


@dataclass(frozen=True, slots=True)
class Count:
    """Sums over a graph, of one core."""

    flops: int
    read_bytes: int
    written_bytes: int

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes


def count(graph: Graph) -> Count:
    """Every operation with as many calls as it has; collectives count nothing."""
    sums = [0, 0, 0]
    for operation, calls in graph.operations():
        work = work_of(operation)
        if work is not None:
            for k, value in enumerate((work.flops, work.read_bytes, work.written_bytes)):
                sums[k] += calls * value
    return Count(*sums)


def work_of(operation: Operation) -> Work | None:
    """The count of one call; None for a collective. raises : InputError for shapes that do not fit together"""
    if operation.operator == COLLECTIVE:
        return None
    return _work(operation.operator, operation.inputs, tuple(operation.scalars.items()))


@cache
def _work(name: str, inputs: tuple, scalars: tuple) -> Work:
    from sim.launch import TensorSpec
    from sim.ops import operator

    return operator(name).work(*(TensorSpec(one.shape, one.dtype) for one in inputs), **dict(scalars))


def held_bytes(model: Model, graph: Graph, workload: Workload, sharding: Sharding) -> dict[str, int]:
    """What lies in the HBM of one core for inference, of the fullest pipeline stage, by kind."""
    return {
        "weights": graph.weight_bytes,
        "activations": most(graph, _alive),
        "KV cache": model.cache_bytes(workload, sharding),
        "workspace": most(graph, _exchanged),
    }


def most(graph: Graph, measure: Callable[[Operation], int]) -> int:
    """The largest value of any operation."""
    return max((measure(operation) for operation, _ in graph.operations()), default=0)


def _alive(operation: Operation) -> int:
    """Activations that an operation reads and writes, and the residual beside them: as long as its first input."""
    work = work_of(operation)
    if work is None:
        return 0
    given = [operand.nbytes for operand in operation.inputs if operand.role == "activation"]
    cached = operation.operator == "kv_cache_update"
    return sum(given) + max(given, default=0) + (0 if cached else work.written_bytes)


def _exchanged(operation: Operation) -> int:
    """Buffers of a collective, in and out."""
    return 2 * int(operation.scalars["size_bytes"]) if operation.operator == COLLECTIVE else 0
