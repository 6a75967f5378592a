"""Explorer's event tables: instructions, DMA, dependencies, semaphores, busy time, SBUF ranges."""

from __future__ import annotations

import numpy as np

from sim.explorer.columns import Fields, Text, array, merge, ns, rank, rate, span
from sim.trace import ENGINE_NAMES, NONE, Engine, Memory, QueueType, RegionKind, Trace

SEMAPHORE_WAIT = "EVENT_SEMAPHORE"
"""Rows of this opcode are waits, which AWS leaves out of the active time."""

SAMPLED_PARTITIONS = (0, 32, 64, 96)
"""SBUF partitions that Explorer shows."""

_QUEUE_TYPES = tuple(kind.name.lower() for kind in QueueType)
_DEPENDENCIES = ("FLOW_DEPENDENCE", "ANTI_DEPENDENCE", "OUTPUT_DEPENDENCE", "ORDERED")
_BYTES = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "spill_save_bytes",
    "spill_reload_bytes",
)
_FRAMEWORK = (RegionKind.LAYER, RegionKind.OPERATOR)


def instruction(trace: Trace) -> Fields:
    rows = trace.instructions
    transpose = rows.kind == _code(trace, "TRANSPOSE")
    copies = (rows.psum_read_bytes > 0) & (rows.sbuf_write_bytes > 0)
    layers, layer_words = _layers(trace)
    return {
        **span(rows.start_ps, rows.end_ps),
        "engine": Text(rows.engine, ENGINE_NAMES),
        "timeline_track": _tracks(trace),
        "pcore_idx": rows.core,
        "opcode": Text(rows.opcode, trace.strings, ""),
        "operands": Text(rows.operands, trace.strings, ""),
        "id": rows.id,
        "pc": rank(rows.core.astype(np.int64) * 64 + rows.engine),
        "bir_id": Text(rows.group, trace.strings, ""),
        "bir_instruction_name": Text(rows.name, trace.strings),
        "evt_wait_time_ns": ns(rows.wait_ps),
        "layer": Text(layers, layer_words),
        "nki_source_location": Text(rows.source, trace.strings),
        "bir_debug_info_source_location": Text(rows.source, trace.strings),
        **_dma_times(trace),
        **{name: rows.column(name) for name in _BYTES if rows.has(name)},
        "psum_read_sbuf_write_bytes": np.where(copies, rows.sbuf_write_bytes, 0),
        "tensor_instruction_type": Text(rows.kind, trace.strings),
        **_flops(trace, transpose),
        "scalar_activation_fn": Text(np.where(rows.engine == Engine.SCALAR, rows.function, NONE), trace.strings),
    }


def dma_packet(trace: Trace) -> Fields:
    rows = trace.packets
    return {
        **span(rows.start_ps, rows.end_ps),
        "pcore_idx": rows.core,
        "id": rows.id,
        "packet_idx": rank(rows.transfer),
        "packet_aggregation_id": np.append(trace.transfers.id, NONE)[rows.transfer],
        "engine_idx": rows.dma_engine,
        "read_bytes": rows.read_bytes,
        "write_bytes": rows.write_bytes,
        "transfer_bytes": rows.bytes,
        "throughput": rate(rows.bytes, rows.end_ps - rows.start_ps),
        "queue_type": Text(rows.queue_type, _QUEUE_TYPES),
        "variable": Text(rows.variable, trace.strings, "unknown"),
        "queue_name": Text(rows.queue, trace.strings),
        "queue_idx": rows.ring,
        "crc": 0,
    }


def dma_packet_aggregated(trace: Trace) -> Fields:
    rows = trace.transfers
    starts = ns(np.append(trace.instructions.start_ps, 0)[rows.instruction])
    return {
        **span(rows.start_ps, rows.end_ps),
        "id": rows.id,
        "pcore_idx": rows.core,
        "block_id": 0,
        "queue_idx": 0,
        "queue_name": Text(rows.queue, trace.strings, ""),
        "queue_type": Text(rows.queue_type, _QUEUE_TYPES),
        "op": "copy",
        "variable": Text(rows.variable, trace.strings, "unknown"),
        "read_bytes": rows.read_bytes,
        "write_bytes": rows.write_bytes,
        "transfer_bytes": rows.bytes,
        "throughput": rate(rows.bytes, rows.end_ps - rows.start_ps),
        "source": _places(trace, rows.source_memory, "INPUT"),
        "dest": _places(trace, rows.dest_memory, "OUTPUT"),
        "semaphore_id": "-1",
        "read_sbuf_partitions": "",
        "read_num_sbuf_partitions": 0,
        "read_shape": "",
        "read_offset": "",
        "read_steps": "",
        "write_sbuf_partitions": "",
        "write_num_sbuf_partitions": 0,
        "write_shape": "",
        "write_offset": "",
        "write_steps": "",
        "trigger": np.where(rows.instruction == NONE, ns(rows.start_ps), starts),
        "completion": ns(np.where(rows.done_ps == NONE, rows.end_ps, rows.done_ps)),
    }


def flow(trace: Trace) -> Fields:
    rows, instructions = trace.edges, trace.instructions
    ids, starts = np.append(instructions.id, NONE), np.append(instructions.start_ps, 0)
    return {
        "in_id": ids[rows.signaler],
        "out_id": ids[rows.waiter],
        "in_table": "instruction",
        "out_table": "instruction",
        "dependency_type": Text(rows.kind, _DEPENDENCIES),
        "gap_time": ns(starts[rows.waiter]) - ns(np.append(instructions.end_ps, 0)[rows.signaler]),
    }


def semaphore_update(trace: Trace) -> Fields:
    rows = trace.semaphore_updates
    numbers, row = np.unique(rows.semaphore, return_inverse=True)
    return {
        "timestamp": ns(rows.time_ps),
        "id": Text(row, tuple(str(number) for number in numbers)),
        "value": rows.value,
        "pcore_idx": rows.core,
    }


def tensor_info(trace: Trace) -> Fields:
    rows = trace.tensors
    loads, sizes = np.maximum(rows.loads, 1), np.maximum(rows.bytes, 1)
    return {
        "variable_name": Text(rows.name, trace.strings),
        "type": Text(rows.type, trace.strings),
        "shape": Text(rows.shape, trace.strings),
        "size": rows.bytes,
        "load_to_sbuf_avg_size_bytes": rows.loaded_bytes // loads,
        "load_to_sbuf_total_size_bytes": rows.loaded_bytes,
        "load_to_sbuf_dma_count": rows.loads,
        "load_to_sbuf_repeat_factor": rows.loaded_bytes / sizes,
    }


def active_time(trace: Trace) -> tuple[Fields, int]:
    """Merged busy intervals per core and engine, and their number."""
    rows = trace.instructions
    working = rows.opcode != _code(trace, SEMAPHORE_WAIT)
    parts = []
    for core in np.unique(rows.core).tolist():
        for engine in np.unique(rows.engine[rows.core == core]).tolist():
            mine = working & (rows.core == core) & (rows.engine == engine)
            start, end = merge(rows.start_ps[mine], rows.end_ps[mine])
            parts.append((start, end, np.full(start.size, engine), np.full(start.size, core)))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0, np.int64)] * 4
    names = tuple(name.lower() for name in ENGINE_NAMES)
    fields = {**span(joined[0], joined[1]), "engine": Text(joined[2], names), "pcore_idx": joined[3]}
    return fields, joined[0].size


def sbuf_allocation(trace: Trace) -> tuple[Fields, int]:
    """Ranges of the sampled partitions, and their number."""
    rows = trace.allocations
    sampled = [
        (row, partition)
        for row in np.flatnonzero(rows.memory == Memory.SBUF).tolist()
        for partition in SAMPLED_PARTITIONS
        if rows.partition[row] <= partition < rows.partition[row] + rows.partitions[row]
    ]
    which = np.array([row for row, _ in sampled], np.int64)
    fields: Fields = {
        "start_ts": ns(rows.start_ps[which]),
        "end_ts": ns(rows.end_ps[which]),
        "start_address": rows.offset[which],
        "end_address": rows.offset[which] + rows.bytes[which] - 1,
        "partition": np.array([partition for _, partition in sampled], np.int64),
        "tensor_name": Text(rows.tensor[which], trace.strings),
        "pcore_idx": rows.core[which],
    }
    return fields, which.size


def _code(trace: Trace, text: str) -> int:
    """The code of a text; one that no row has where it is not interned."""
    code = trace.strings.find(text)
    return len(trace.strings) if code == NONE else code


def _tracks(trace: Trace) -> Text:
    """The profile's own track, else the engine, the matrix part of the Tensor Engine apart."""
    rows = trace.instructions
    words = (*ENGINE_NAMES, "TensorMatrix", *trace.strings)
    matmuls = [code for code, text in enumerate(trace.strings) if text.startswith("MATMUL")]
    matrix = (rows.engine == Engine.TENSOR) & np.isin(rows.opcode, matmuls)
    by_engine = np.where(matrix, len(ENGINE_NAMES), rows.engine)
    return Text(np.where(rows.track == NONE, by_engine, rows.track + np.int64(len(ENGINE_NAMES) + 1)), words)


def _flops(trace: Trace, transpose: np.ndarray) -> Fields:
    rows = trace.instructions
    if not rows.has("flops"):
        return {}
    tensor = rows.engine == Engine.TENSOR
    macs = np.where(tensor & (rows.flops > 0), rows.elements, 0)
    return {
        "tensor_elements": macs,
        "raw_flops": rows.flops,
        "adjusted_flops": rows.adjusted_flops,
        "tensor_elements_transpose": np.where(transpose, macs, 0),
        "flops_transpose": np.where(transpose, rows.flops, 0),
        "adjusted_flops_transpose": np.where(transpose, rows.adjusted_flops, 0),
    }


def _dma_times(trace: Trace) -> Fields:
    """Start, end and wait of the DMA that an instruction triggered; the first and last of several."""
    transfers = trace.transfers
    linked = transfers.instruction != NONE
    if not linked.any():
        return {}

    count = len(trace.instructions)
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(low, transfers.instruction[linked], transfers.start_ps[linked])
    np.maximum.at(high, transfers.instruction[linked], transfers.end_ps[linked])
    none = high < low
    start = ns(np.where(none, 0, low))
    wait = np.maximum(start - ns(trace.instructions.end_ps), 0)
    return {
        "dma_trigger_start_ts": array(start, none),
        "dma_trigger_end_ts": array(ns(np.where(none, 0, high)), none),
        "dma_wait_time_ns": array(wait, none),
    }


def _places(trace: Trace, memory: np.ndarray, outside: str) -> Text:
    """Explorer's tokens of where a DMA reads or writes; HBM is the kernel's input or output."""
    words = (f"[{outside}]", "[SB]", "[PSUM]", "[REGISTER]", "[HOST]")
    return Text(memory, words, "[unknown]")


def _layers(trace: Trace) -> tuple[np.ndarray, tuple[str, ...]]:
    """Framework path of each instruction's region, as codes and words."""
    regions = trace.regions
    paths: list[str] = []
    for row in range(len(regions)):
        parent = int(regions.parent[row])
        path = paths[parent] if parent != NONE else ""
        name = trace.strings[int(regions.name[row])] or ""
        paths.append(f"{path}/{name}".lstrip("/") if regions.kind[row] in _FRAMEWORK else path)
    words = tuple(dict.fromkeys(path for path in paths if path))
    place = {word: code for code, word in enumerate(words)}
    codes = np.array([*(place.get(path, NONE) for path in paths), NONE], np.int64)
    return codes[trace.instructions.region], words
