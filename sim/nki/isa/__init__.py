"""`nki.isa`: the instructions of NKI 0.6, with their documented names, argument order and defaults."""

from __future__ import annotations

from typing import Any

from sim.engines import UNSUPPORTED
from sim.errors import UnsupportedError
from sim.nki.isa.dma import dma_compute, dma_copy, dma_transpose
from sim.nki.isa.enums import (
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from sim.nki.isa.issuing import NkiInstruction
from sim.nki.isa.scalar import activate2, activation, activation_reduce
from sim.nki.isa.tensor import nc_matmul, nc_matmul_mx, nc_transpose
from sim.nki.isa.vector import memset, reciprocal, scalar_tensor_tensor, tensor_copy, tensor_scalar, tensor_tensor
from sim.nki.isa.vector_reduce import (
    bn_aggr,
    bn_stats,
    tensor_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor_scan,
)
from sim.nki.isa.vector_select import (
    max8,
    nc_find_index8,
    nc_match_replace8,
    nc_stream_shuffle,
    range_select,
    select_reduce,
    tensor_copy_predicated,
)
from sim.nki.session import builder


def get_nc_version() -> nc_version:
    """The NeuronCore generation that the kernel runs on."""
    return nc_version(builder().device.generation)


def get_nc_sub_version() -> int:
    """0: the first silicon revision."""
    return 0


def __getattr__(name: str) -> Any:
    reason = UNSUPPORTED.get(name)
    if reason is None:
        raise AttributeError(f"module 'nki.isa' has no attribute {name!r}")

    def refuse(*args: Any, **named: Any) -> None:
        raise UnsupportedError(f"nki.isa.{name} is not emulated: {reason}", source=builder().where())

    return refuse
