"""`nki.isa`: the instructions of NKI 0.6, with their documented names, argument order and defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.engines import UNSUPPORTED
from sim.errors import InputError, UnsupportedError
from sim.nki.isa.cores import core_barrier, sendrecv
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
from sim.nki.isa.gpsimd import (
    affine_select,
    iota,
    local_gather,
    nc_n_gather,
    nonzero_with_count,
    sequence_bounds,
    tensor_partition_reduce,
    topk,
)
from sim.nki.isa.issuing import NkiInstruction
from sim.nki.isa.random import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from sim.nki.isa.registers import VirtualRegister, register_alloc, register_load, register_move, register_store
from sim.nki.isa.scalar import activate2, activation, activation_reduce
from sim.nki.isa.scalars import NkiScalar, scalar_load, scalar_store
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
from sim.nki.isa.vector_v4 import exponential, quantize_mx
from sim.nki.session import builder
from sim.nki.shim import device

__all__ = [
    "NkiInstruction",
    "NkiScalar",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_load",
    "scalar_store",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]

NkiValidationError = InputError
"""What is raised when a kernel breaks a limit of the hardware."""


def get_nc_version() -> nc_version:
    """The NeuronCore generation that the kernel runs on."""
    return nc_version(device().generation)


def get_nc_sub_version() -> int:
    """0: the first silicon revision."""
    return 0


def _refuse(name: str) -> Callable[..., None]:
    def refused(*args: Any, **named: Any) -> None:
        raise UnsupportedError(f"nki.isa.{name} is not emulated: {UNSUPPORTED[name]}", source=builder().where())

    refused.__name__ = name
    return refused


globals().update({name: _refuse(name) for name in UNSUPPORTED})
