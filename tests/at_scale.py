"""Traces as large as anybody has: engines, DMA, regions, source lines, a name for each instruction."""

from __future__ import annotations

import numpy as np

from sim.trace import (
    NONE,
    EdgeKind,
    Edges,
    Engine,
    Instructions,
    Memory,
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

LINES, OPERANDS, QUEUES, PIECES = 400, 4096, 8, 4
LAYERS, OPERATORS = 32, 12

SHARES = (0.5, 0.2, 0.15, 0.05, 0.1)
"""Of Tensor, Vector, Scalar, GpSimd and Sync Engine among the instructions."""

OPCODES = (
    "MATMUL",
    "TENSOR_TENSOR",
    "ACTIVATE",
    "IOTA",
    "DMA_DIRECT2D",
    "LDWEIGHTS",
    "TENSOR_REDUCE",
    "EVENT_SEMAPHORE",
)


def model(rows: int, seed: int = 0, cores: int = 1) -> Trace:
    """`rows` instructions of a model of 32 layers with 12 operators each, and what they moved.

    Engines work in order, with gaps; every SyncE instruction triggers a transfer of four packets; every instruction
    waited for an earlier one.
    """
    rng = np.random.default_rng(seed)
    text = Strings()
    engine = rng.choice(5, rows, p=SHARES).astype(np.int8)
    core = rng.integers(0, cores, rows).astype(np.int16)
    start, end = _times(engine, core, rng)
    order = np.argsort(start, kind="stable")
    start, end, engine, core = start[order], end[order], engine[order], core[order]
    regions, region = _regions(text, start, end)
    instructions = Instructions(
        id=np.arange(rows, dtype=np.int64),
        start_ps=start,
        end_ps=end,
        engine=engine,
        core=core,
        region=region,
        **_texts(text, engine, rng),
        wait=rng.choice(np.array([Wait.ENGINE, Wait.OPERAND, Wait.DMA], np.int8), rows),
        wait_for=np.maximum(np.arange(rows) - rng.integers(1, 64, rows), NONE),
        wait_ps=rng.integers(0, 20_000, rows),
        control=(engine == Engine.SYNC) & (rng.random(rows) < 0.2),
        elements=rng.integers(1, 512, rows),
        partitions=np.full(rows, 128, np.int32),
        flops=np.where(engine == Engine.TENSOR, 2 * 128 * 128 * 512, 0),
    )
    transfers, packets = _moved(text, instructions, rng)
    edges = Edges(
        signaler=np.maximum(instructions.wait_for, 0),
        waiter=np.arange(rows, dtype=np.int64),
        kind=np.full(rows, EdgeKind.FLOW, np.int8),
    )
    last = int(max(end.max(), transfers.end_ps.max(initial=0)))
    meta = Meta(True, "trn2", "model", kernel="model", window=(0, last), total_ps=last, cores=cores)
    return Trace(meta, text, instructions, transfers, packets, edges, regions=regions)


def _times(engine: np.ndarray, core: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Back to back on each engine, with gaps; all engines end at about the same time."""
    rows = engine.size
    start, end = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for number in range(int(core.max(initial=0)) + 1):
        for each, share in enumerate(SHARES):
            mine = np.flatnonzero((engine == each) & (core == number))
            length = rng.integers(30_000, 400_000, mine.size) * 0.5 / share
            gap = np.where(rng.random(mine.size) < 0.3, rng.integers(0, 300_000, mine.size), 0) * 0.5 / share
            stop = np.cumsum(length.astype(np.int64) + gap.astype(np.int64))
            start[mine], end[mine] = stop - length.astype(np.int64), stop
    return start, end


def _texts(text: Strings, engine: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    rows = engine.size
    codes = text.codes(OPCODES)
    opcode = codes[engine]
    weights = (engine == Engine.TENSOR) & (rng.random(rows) < 0.4)
    opcode[weights] = codes[5]
    opcode[(engine == Engine.VECTOR) & (rng.random(rows) < 0.3)] = codes[6]
    array, load = text.code("TensorMatrix"), text.code("Tensor")
    functions = text.codes(["exp", "copy", "gelu"])
    lines = text.codes([f"model/attention.py:{n}" for n in range(LINES)])
    operands = text.codes(
        [f"src=bf16@0x{n * 512:x}[1][128,512] dst=fp32@0x{n * 2048:x}[1][128,512]" for n in range(OPERANDS)]
    )
    first = len(text)
    text = text.codes([f"I-{n}-{n % 7}" for n in range(rows)])
    assert text[0] == first
    return {
        "opcode": opcode,
        "track": np.where(engine == Engine.TENSOR, np.where(weights, load, array), NONE),
        "function": np.where(engine == Engine.SCALAR, functions[rng.integers(0, 3, rows)], NONE),
        "source": lines[np.arange(rows) // 64 % LINES],
        "operands": operands[rng.integers(0, OPERANDS, rows)],
        "name": text,
    }


def _regions(text: Strings, start: np.ndarray, end: np.ndarray) -> tuple[Regions, np.ndarray]:
    """A model, its layers and their operators, each an equal number of instructions; and the operator of each row."""
    rows = start.size
    parts = LAYERS * OPERATORS
    operator = np.arange(rows, dtype=np.int64) * parts // rows
    bounds = np.searchsorted(operator, np.arange(parts + 1))
    first = np.minimum(bounds[:-1], rows - 1)
    begun, ended = start[first], np.maximum.accumulate(np.maximum(end[np.maximum(bounds[1:] - 1, first)], start[first]))
    layers = np.arange(LAYERS)
    table = Regions(
        parent=np.concatenate(([NONE], np.zeros(LAYERS, int), 1 + np.repeat(layers, OPERATORS))),
        kind=np.array([RegionKind.MODEL] + [RegionKind.LAYER] * LAYERS + [RegionKind.OPERATOR] * parts, np.int8),
        name=text.codes(["model", *(f"layer {n}" for n in layers), *(f"op {n % OPERATORS}" for n in range(parts))]),
        start_ps=np.concatenate(([begun[0]], begun[::OPERATORS], begun)),
        end_ps=np.concatenate(([ended[-1]], ended[OPERATORS - 1 :: OPERATORS], ended)),
    )
    return table, (1 + LAYERS + operator).astype(np.int32)


def _moved(text: Strings, instructions: Instructions, rng: np.random.Generator) -> tuple[Transfers, Packets]:
    trigger = np.flatnonzero((instructions.engine == Engine.SYNC) & ~instructions.control)
    begin = instructions.start_ps[trigger] + 1_000_000
    length = rng.integers(400_000, 2_500_000, trigger.size)
    queue = text.codes([f"qSyncDynamicHW{n}" for n in range(QUEUES)])[np.arange(trigger.size) % QUEUES]
    shared = {
        "queue": queue,
        "queue_type": np.full(trigger.size, QueueType.HARDWARE_DYNAMIC, np.int8),
        "core": instructions.core[trigger],
        "variable": text.codes([f"tensor_{n}" for n in range(64)])[np.arange(trigger.size) % 64],
    }
    moved = rng.integers(1, 64, trigger.size) * 4096
    transfers = Transfers(
        id=np.arange(trigger.size),
        start_ps=begin,
        end_ps=begin + length,
        done_ps=begin + length + 50_000,
        instruction=trigger,
        source_memory=np.full(trigger.size, Memory.HBM, np.int8),
        dest_memory=np.full(trigger.size, Memory.SBUF, np.int8),
        bytes=moved,
        read_bytes=moved,
        write_bytes=moved,
        descriptors=moved // 4096,
        **shared,
    )
    of = np.repeat(np.arange(trigger.size), PIECES)
    packets = Packets(
        id=np.arange(of.size),
        start_ps=begin[of],
        end_ps=(begin + length)[of],
        transfer=of,
        dma_engine=(np.arange(of.size) % 16).astype(np.int16),
        bytes=moved[of] // PIECES,
        read_bytes=moved[of] // PIECES,
        write_bytes=moved[of] // PIECES,
        **{name: values[of] for name, values in shared.items()},
    )
    return transfers, packets
