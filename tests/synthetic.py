"""Traces made by hand for the tests of the views."""

from __future__ import annotations

import numpy as np

from sim.trace import (
    NONE,
    Counters,
    EdgeKind,
    Edges,
    Engine,
    Instructions,
    Meta,
    Packets,
    QueueType,
    RegionKind,
    Regions,
    Strings,
    Trace,
    Transfers,
    Wait,
)

US = 1_000_000


def attention(names: dict[str, str] | None = None, simulated: bool = False, core: int = 0) -> Trace:
    """A small kernel: one load, two matmuls, a reduction, an exponential, a store; with everything a card can show.

    names : replaces opcodes, for hostile ones
    """
    text = Strings()
    swap = names or {}
    rows = [
        # start, end, engine, opcode, function, track, wait, wait_for, control, region
        (0, 1, Engine.SYNC, "EVENT_SEMAPHORE", None, None, Wait.ENGINE, -1, True, -1),
        (10, 11, Engine.SYNC, "DMA_DIRECT2D", None, None, Wait.ENGINE, -1, False, 1),
        (14, 15, Engine.TENSOR, "LDWEIGHTS", None, "Tensor", Wait.DMA, 1, False, 2),
        (15, 17, Engine.TENSOR, "MATMUL", None, "TensorMatrix", Wait.OPERAND, 2, False, 2),
        (16.5, 19, Engine.TENSOR, "MATMUL", None, "TensorMatrix", Wait.ENGINE, -1, False, 2),
        (19.034, 20, Engine.VECTOR, "TENSOR_REDUCE", "max", None, Wait.OPERAND, 4, False, 3),
        (20.1, 21, Engine.SCALAR, "ACTIVATE", "exp", None, Wait.OPERAND, 5, False, 4),
        (21.2, 21.8, Engine.TENSOR, "MATMUL", None, "TensorMatrix", Wait.OPERAND, 6, False, 2),
        (22, 22.5, Engine.SYNC, "DMA_DIRECT2D", None, None, Wait.OPERAND, 7, False, 5),
        (26, 26.1, Engine.SYNC, "DRAIN", None, None, Wait.UNKNOWN, -1, True, -1),
    ]

    def column(k: int, dtype: type) -> np.ndarray:
        return np.array([row[k] for row in rows], dtype)

    start, end = ((np.array([row[k] for row in rows]) * US).round().astype(np.int64) for k in (0, 1))
    opcodes = [swap.get(row[3], row[3]) for row in rows]
    tensor = column(2, np.int8) == Engine.TENSOR
    kinds = ["TRANSPOSE" if i == 7 else "REGULAR" for i in range(len(rows))]
    instructions = Instructions(
        id=np.arange(100, 100 + len(rows)),
        start_ps=start,
        end_ps=end,
        engine=column(2, np.int8),
        core=np.full(len(rows), core, np.int16),
        opcode=text.codes(opcodes),
        function=text.codes([row[4] for row in rows]),
        track=text.codes([row[5] for row in rows]),
        name=text.codes([f"I-{i}-0" for i in range(len(rows))]),
        kind=text.codes(kinds),
        operands=text.codes(["src=fp32@0x2002000[1][128,1] dst=fp32@0x4820[1][128,1]"] * len(rows)),
        source=text.codes([f"attention.py:{10 + i}" for i in range(len(rows))]),
        dtype=text.codes(["float32" if t else None for t in tensor]),
        wait=column(6, np.int8),
        wait_for=column(7, np.int64),
        wait_ps=np.zeros(len(rows), np.int64),
        control=column(8, np.bool_),
        region=column(9, np.int32),
        elements=np.full(len(rows), 512, np.int64),
        partitions=np.full(len(rows), 128, np.int32),
        flops=np.where(column(3, object) == "MATMUL", 2 * 128 * 128 * 512, 0),
    )
    transfers = Transfers(
        id=np.array([1, 2]),
        start_ps=np.array([12 * US, 23 * US]),
        end_ps=np.array([14 * US, 25 * US]),
        done_ps=np.array([14 * US, 25 * US]),
        instruction=np.array([1, 8]),
        core=np.full(2, core, np.int16),
        queue=text.codes(["qSyncDynamicHW"] * 2),
        queue_type=np.full(2, QueueType.HARDWARE_DYNAMIC, np.int8),
        variable=text.codes(["q", "out"]),
        source_memory=np.array([0, 1], np.int8),
        dest_memory=np.array([1, 0], np.int8),
        bytes=np.array([262_144, 262_144]),
        read_bytes=np.array([262_144, 262_144]),
        write_bytes=np.array([262_144, 262_144]),
        descriptors=np.array([128, 128]),
    )
    engines = np.tile(np.arange(16, dtype=np.int16), 2)
    at = np.repeat(np.array([12, 23]) * US, 16) + np.tile(np.arange(16) * 10_000, 2)
    packets = Packets(
        id=np.arange(32),
        start_ps=at,
        end_ps=at + 1_800_000,
        transfer=np.repeat(np.arange(2), 16),
        core=np.full(32, core, np.int16),
        dma_engine=engines,
        ring=np.zeros(32, np.int16),
        queue=text.codes(["qSyncDynamicHW"] * 32),
        queue_type=np.full(32, QueueType.HARDWARE_DYNAMIC, np.int8),
        bytes=np.full(32, 16_384),
        read_bytes=np.full(32, 16_384),
        write_bytes=np.full(32, 16_384),
    )
    regions = Regions(
        parent=np.array([NONE, 0, 0, 0, 0, 0]),
        kind=np.array([RegionKind.KERNEL] + [RegionKind.LOOP] * 5, np.int8),
        name=text.codes(["attention", "load", "Q·Kᵀ", "row max", "exp", "store"]),
        source=text.codes(["attention.py:8-19"] + [f"attention.py:{n}" for n in (11, 12, 15, 16, 18)]),
        core=np.full(6, core, np.int16),
        start_ps=np.array([10, 10, 14, 19.034, 20.1, 22]) * US,
        end_ps=np.array([25, 14, 21.8, 20, 21, 25]) * US,
    )
    counters = Counters(
        counter=text.codes(["sbuf"] * 3 + ["tensor_clock"] * 2),
        core=np.full(5, core, np.int16),
        time_ps=np.array([0, 12, 25, 0, 18]) * US,
        value=np.array([0, 0.25, 0, 0.5, 1.0]),
    )
    edges = Edges(
        signaler=np.array([1, 2, 4, 1, 5, 6, 7]),
        waiter=np.array([2, 3, 5, 5, 6, 7, 8]),
        kind=np.full(7, EdgeKind.FLOW, np.int8),
    )
    meta = Meta(
        is_simulation=simulated,
        device="trn2",
        source="attention.json",
        kernel="attention",
        window=(10 * US, 25 * US),
        total_ps=28 * US,
        machine={"dma_ddr_bandwidth": 435e9, "hbm_ddr_bandwidth": 716e9},
    )
    return Trace(meta, text, instructions, transfers, packets, edges, counters=counters, regions=regions)


def large(rows: int, seed: int = 0) -> Trace:
    """`rows` instructions on five engines, a tenth as many transfers, dependencies between neighbours."""
    rng = np.random.default_rng(seed)
    text = Strings()
    engine = rng.choice(5, rows, p=[0.5, 0.2, 0.2, 0.05, 0.05]).astype(np.int8)
    start = np.sort(rng.integers(0, rows * 120_000, rows))
    codes = text.codes(["MATMUL", "TENSOR_TENSOR", "ACTIVATE", "IOTA", "EVENT_SEMAPHORE", "LDWEIGHTS"])
    opcode = codes[engine]
    weights = (engine == 0) & (rng.random(rows) < 0.4)
    opcode[weights] = codes[5]
    track = np.where(engine == 0, np.where(weights, text.code("Tensor"), text.code("TensorMatrix")), NONE)
    instructions = Instructions(
        id=np.arange(rows),
        start_ps=start,
        end_ps=start + rng.integers(40_000, 300_000, rows),
        engine=engine,
        track=track,
        opcode=opcode,
        wait=rng.choice([Wait.ENGINE, Wait.OPERAND, Wait.DMA], rows).astype(np.int8),
        wait_for=np.maximum(np.arange(rows) - 3, NONE),
        control=engine == Engine.SYNC,
        source=text.codes([f"kernel.py:{n}" for n in range(40)])[np.arange(rows) % 40],
    )
    moved = max(1, rows // 10)
    begin = np.sort(rng.integers(0, rows * 120_000, moved))
    transfers = Transfers(
        id=np.arange(moved),
        start_ps=begin,
        end_ps=begin + 2_000_000,
        instruction=np.full(moved, NONE),
        queue=text.codes([f"q{n}" for n in range(4)])[np.arange(moved) % 4],
        queue_type=np.full(moved, QueueType.HARDWARE_DYNAMIC, np.int8),
        bytes=np.full(moved, 65_536),
    )
    end = int(max(instructions.end_ps.max(), transfers.end_ps.max()))
    meta = Meta(True, "trn2", "large", kernel="large", window=(0, end), total_ps=end)
    return Trace(meta, text, instructions, transfers)


OPERATORS = (
    # name, engine, opcode, share of the layer
    ("rms_norm", Engine.VECTOR, "TENSOR_TENSOR", 0.06),
    ("qkv_proj", Engine.TENSOR, "MATMUL", 0.24),
    ("attention", Engine.TENSOR, "MATMUL", 0.22),
    ("all_reduce", Engine.COLLECTIVE, "ALL_REDUCE", 0.08),
    ("mlp", Engine.TENSOR, "MATMUL", 0.32),
    ("all_reduce", Engine.COLLECTIVE, "ALL_REDUCE", 0.08),
)
"""Of a layer of `model`."""


def model(ranks: int = 2, layers: int = 3, pieces: int = 8) -> Trace:
    """A model's step on several cores: MODEL, LAYER, OPERATOR and KERNEL regions, with a collective in each layer."""
    text, rows, regions = Strings(), [], []
    layer_ps = 100 * US
    for core in range(ranks):
        model_row = len(regions)
        regions.append((NONE, RegionKind.MODEL, "llama-tiny", core, 0, layers * layer_ps))
        for layer in range(layers):
            layer_row, at = len(regions), layer * layer_ps
            regions.append((model_row, RegionKind.LAYER, f"layer {layer}", core, at, at + layer_ps))
            for name, engine, opcode, share in OPERATORS:
                end = at + round(share * layer_ps)
                regions.append((layer_row, RegionKind.OPERATOR, name, core, at, end))
                kernel = len(regions)
                regions.append((kernel - 1, RegionKind.KERNEL, f"{name}_kernel", core, at, end))
                step = (end - at) // pieces
                rows += [(at + k * step + core * US // 10, step - US // 5, engine, opcode, core, kernel)
                         for k in range(pieces)]  # fmt: skip
                at = end
    rows.sort()
    start, took, engine, opcode, core, region = zip(*rows, strict=True)
    instructions = Instructions(
        id=np.arange(len(rows)),
        start_ps=np.array(start),
        end_ps=np.array(start) + np.array(took),
        engine=np.array(engine, np.int8),
        core=np.array(core, np.int16),
        opcode=text.codes(opcode),
        name=text.codes([f"I-{k}" for k in range(len(rows))]),
        region=np.array(region, np.int32),
        control=np.zeros(len(rows), np.bool_),
        flops=np.where(np.array(opcode) == "MATMUL", 2 * 128 * 128 * 512, 0),
    )
    parent, kind, name, of, begin, end = zip(*regions, strict=True)
    made = Regions(
        parent=np.array(parent),
        kind=np.array(kind, np.int8),
        name=text.codes(name),
        core=np.array(of, np.int16),
        start_ps=np.array(begin),
        end_ps=np.array(end),
    )
    total = layers * layer_ps + US
    meta = Meta(True, "trn2", "llama-tiny", kernel="llama-tiny", window=(0, total), total_ps=total)
    return Trace(meta, text, instructions, regions=made)
