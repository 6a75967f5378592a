"""Options of `neuronxcc.nki.isa` calls, by the names and numbers of release 2.26.1."""

from __future__ import annotations

from enum import IntEnum

from sim.nki.isa.enums import dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd


class dge_mode(IntEnum):
    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
