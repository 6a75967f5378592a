"""Options of `nki.isa` calls, by the names and numbers of the NKI 0.6 reference."""

from __future__ import annotations

from enum import Enum


class engine(Enum):
    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0


class reduce_cmd(Enum):
    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    none = "none"
    double_row = "double_row"


class nc_version(Enum):
    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other: nc_version) -> bool:
        return self.value < other.value

    def __le__(self, other: nc_version) -> bool:
        return self.value <= other.value

    def __gt__(self, other: nc_version) -> bool:
        return self.value > other.value

    def __ge__(self, other: nc_version) -> bool:
        return self.value >= other.value

    def __int__(self) -> int:
        return self.value


class dma_engine(Enum):
    dma = 1
    gpsimd_dma = 2


tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, unknown_engine = engine.gpsimd, engine.unknown
