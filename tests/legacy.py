"""A small profile of our own in the shape of neuron-profile's JSON: load, matmul, copy, store."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

RINGS = 4
LOAD_NS, STORE_NS = 12_000, 15_500


def document() -> dict[str, list[Row]]:
    """The tables; times in ns, one core, window 11000 … 17060."""
    return {
        "summary": [{"total_time": 2.0e-5, "instance_type": "trn2.3xlarge", "hardware_flops": 4_194_304}],
        "metadata": [
            {
                "pe_clock_freq": 2.4,
                "pe_clock_others": 1.2,
                "pe_num_rows": 128,
                "pe_num_cols": 128,
                "hbm_ddr_bandwidth": 716_000_000_000,
                "dma_ddr_bandwidth": 435_000_000_000,
                "num_physical_cores": 1,
                "ticks_per_nanosec": 1000,
                "is_simulation": False,
            }
        ],
        "neff_header": [{"network_name": "build/small/graph.neff"}],
        "profile_info": [{"profiler_version": "2.28.0"}],
        "warnings": [{"message": "Missing HLO stats.", "category": "Missing Data"}],
        "dma_queues_info": [{"q_name": "qSyncDynamicHW", "q_idx": 1, "subgraph": "sg00"}],
        "instruction": instructions(),
        "dma": [
            *packets(LOAD_NS, 1, 4096, 100),
            *packets(STORE_NS, 1, 2048, 200),
            {**packet(3_000, 0, 14, 1024, 900), "queue_type": "instruction", "packet_aggregation_id": 7},
        ],
        "semaphore_update": [*rises(8, LOAD_NS + 700, 0), *rises(9, STORE_NS + 700, 0)],
        "pending_dma": [{"timestamp": 11_000, "value": 1}, {"timestamp": 12_600, "value": 0}],
        "dma_throughput": [{"timestamp": 12_000, "transfer_rate": 5_000, "hbm_transfer_rate": 0}],
        "ham": [
            {"timestamp": 13_000, "duration": 2_000, "k": 4, "n": 8, "type": 1},
            {"timestamp": 15_000, "duration": 5_000, "k": 8, "n": 8, "type": 0},
        ],
        "instruction_usage": [{"timestamp": 12_500, "type": "sb", "usage_avg": 0.25, "partition_32_usage": 0.5}],
        "neff_node": [
            {"node": "3", "sg_name": "sg00", "variable_name": ""},
            {"variable_name": "x", "type": "IN", "shape": "[128 32]", "size": "16384"},
            {"variable_name": "out", "type": "OUT", "shape": "[128 16]", "size": "8192"},
        ],
        "nc_mem_usage": [{"usage_type": "Total", "amount_bytes": 1}],
        "terminology": [{"total_time": "…"}],
    }


def instructions() -> list[Row]:
    load, weights, matmul, copy, store = 11, 12, 13, 14, 15
    ring = " sem_increment=16 src_elem_size=512 dst_elem_size=512 "
    return [
        instruction(1, 100, 70, "Tensor", "WRITE", wait=29_860),
        instruction(2, 9_000, 1_950, "Sync", "EVENT_SEMAPHORE", operands="setter=0 $S[2]==4"),
        instruction(load, 11_000, 500, "Sync", "DMA_DIRECT2D", operands=f"semaphore=8{ring}", bir_id="sg0000:11")
        | {"hbm_read_bytes": 4 * 4096, "sbuf_write_bytes": 4 * 4096},
        instruction(
            weights,
            12_800,
            100,
            "Tensor",
            "LDWEIGHTS",
            operands="S[8] (qSyncDynamicHW)>=16 src=bfloat16@0x10[1,0][128,1] 128*128",
            bir_id="sg0000:12",
            wait=1_800,
            after={load: "FLOW_DEPENDENCE"},
        ),
        instruction(
            matmul,
            12_830,
            300,
            "Tensor",
            "MATMUL",
            label="TensorMatrix",
            operands="S[5] (Tensor)++@complete src=bfloat16@0x20[1,0][128,1] dst=0x2000000[1,0][128,1] 128*128",
            bir_id="sg0000:12",
            after={weights: "FLOW_DEPENDENCE"},
        )
        | {"elements": 2_097_152, "psum_write_bytes": 512},
        instruction(
            copy,
            13_180,
            400,
            "Scalar",
            "ACTIVATE",
            operands="S[5] (Tensor)>=1 EXP src=fp32@0x2000000[1,1][128,1] dst=bf16@0x40[1,1][128,1] channels=128",
            bir_id="sg0000:14",
            wait=4_000,
            after={matmul: "FLOW_DEPENDENCE"},
        )
        | {"activation_fn": "EXP", "psum_read_bytes": 512, "sbuf_write_bytes": 256},
        instruction(
            store,
            14_900,
            500,
            "Sync",
            "DMA_DIRECT2D",
            operands=f"S[4] (Scalar)>=1 semaphore=9{ring}",
            bir_id="sg0000:15",
            wait=2_000,
            after={copy: "FLOW_DEPENDENCE"},
        )
        | {"hbm_write_bytes": 4 * 2048, "sbuf_read_bytes": 4 * 2048},
        instruction(
            16, 17_040, 20, "GpSimd", "NOP", operands="S[9]>=16", bir_id="sg0000:16", after={store: "FLOW_DEPENDENCE"}
        ),
        instruction(17, 18_000, 40, "Vector", "DRAIN"),
    ]


def instruction(
    id: int,
    start: int,
    length: int,
    engine: str,
    opcode: str,
    label: str = "",
    operands: str = " ",
    bir_id: str = "",
    wait: int = 1,
    after: dict[int, str] | None = None,
) -> Row:
    row = {
        "id": id,
        "timestamp": start,
        "duration": length,
        "subgroup": engine,
        "label": label or engine,
        "opcode": opcode,
        "operands": operands,
        "bir_id": bir_id,
        "evt_wait_time": wait,
        "fully_qualified_subgraph": "/sg00",
        "instruction_type": "REGULAR" if bir_id else "",
        "layer": "Unknown" if bir_id else "",
    }
    return row | ({"predecessors": [{"id": id, "type": kind} for id, kind in after.items()]} if after else {})


def packets(start: int, queue: int, size: int, first_id: int) -> list[Row]:
    """A transfer of `RINGS` x size bytes: on each ring two pieces, then the semaphore."""
    rows = []
    for ring in range(RINGS):
        for index, (offset, length, piece) in enumerate(((0, 80, size // 2), (90, 80, size // 2), (500, 9, 4))):
            at = start + 10 * ring + offset
            rows.append({**packet(at, ring, queue, piece, first_id + 10 * ring + index), "duration": length})
    return rows


def packet(start: int, ring: int, queue: int, size: int, id: int) -> Row:
    return {
        "id": id,
        "timestamp": start,
        "duration": 40,
        "aggregated": "no",
        "subgraph": "sg00",
        "subgroup": f"Q{queue}-E{ring}",
        "dma_engine": str(ring),
        "dma_queue": str(queue),
        "queue_type": "hardware_dynamic",
        "variable": "unknown",
        "source": [["unknown"]],
        "dest": ["unknown"],
        "semaphore_id": "-1",
        "packet_aggregation_id": 5,
        "packet_idx": 0,
        "transfer_size": size,
        "read_size": size,
        "write_size": size,
    }


def rises(semaphore: int, start: int, value: int) -> list[Row]:
    return [
        {"timestamp": start + 10 * ring, "id": f"S[{semaphore}] (qSyncDynamicHW)", "value": value + ring + 1}
        for ring in range(RINGS)
    ]
