"""The instruction set: for every call its check and cost (`describe`) and its values (`compute`), engine by engine."""

from __future__ import annotations

from sim.engines import (
    collectives,
    cores,
    dma,
    gpsimd,
    random,
    scalar,
    sync,
    tensor,
    vector,
    vector_reduce,
    vector_select,
    vector_v4,
)
from sim.program import Op

_MODULES = (tensor, vector, vector_reduce, vector_select, vector_v4, scalar, gpsimd, random, dma, sync, cores)

OPS: dict[str, Op] = {op.call: op for module in _MODULES for op in vars(module).values() if isinstance(op, Op)} | {
    op.call: op for op in collectives.OPS.values()
}
"""Every instruction by its call; a suffix tells apart the instructions that one call may become."""

UNSUPPORTED: dict[str, str] = {}
"""Documented calls that the emulator does not have, and why."""

GUESSED: dict[str, str] = {
    "activate2": "cost as activation; no document gives one",
    "activation": "which functions share a table set, but for exp, sigmoid, silu and softplus",
    "core_barrier": "its time",
    "dma_compute": "queue: static descriptors from SyncE",
    "dma_copy": "engines that a copy between HBM tensors is dealt out to",
    "dma_transpose": "descriptors; SBUF to SBUF at the efficiency of HBM to SBUF",
    "dropout": "which numbers are drawn",
    "exponential": "pipeline latency as other Vector instructions",
    "fori_loop": "one branch an iteration on every engine, at the cost of a register move",
    "memset": "latency as tensor_copy; third-party measurements are lower",
    "nc_match_replace8": "cost as nc_find_index8; the printed min(64, N) is taken for a mistake",
    "nc_matmul": "matmuls in different row tiles do not overlap; what an operand of ones and zeros saves",
    "nc_matmul_mx": "issue overhead and pipeline latency as nc_matmul",
    "nc_n_gather": "cost of a group of 512 elements",
    "nc_transpose": "cost on the Vector Engine beyond v2",
    "nonzero_with_count": "cost of four cycles an element",
    "quantize_mx": "behaviour of values that round beyond the largest number",
    "rand2": "which numbers are drawn",
    "rand_get_state": "order of the words; cost",
    "rand_set_state": "order of the words; cost",
    "register_load": "cost as a register move",
    "register_store": "cost as a register move",
    "rng": "which numbers are drawn: how a lane's generators take turns",
    "scalar_tensor_tensor": "cost beyond v2 as tensor_tensor",
    "select_reduce": "cost of one cycle an element",
    "sendrecv": "queue and time of the exchange as a copy of the same size",
    "sequence_bounds": "cost of four cycles an element",
    "set_rng_seed": "how one seed is spread over the lanes; cost",
    "tensor_copy_predicated": "cost of one cycle an element beyond v2",
    "tensor_partition_reduce": "cost of one cycle for each element of each partition",
    "tensor_scalar_cumulative": "cost as tensor_tensor_scan",
    "topk": "order of equal values; that all 16 partitions receive the result",
}
"""Calls of which a part is a guess: what."""

GUESSED_VALUES = frozenset(
    {"dropout", "quantize_mx", "rand2", "rand_get_state", "rand_set_state", "rng", "set_rng_seed", "topk"}
)
"""Those of `GUESSED` whose values, not only their time, depend on the guess."""
