"""The summary of a million instructions: `pytest -n 0 tests/bench/bench_summary.py`; no timed assertions."""

from __future__ import annotations

import numpy as np

from sim.trace import Instructions, Meta, Packets, Strings, Trace
from trnprof.summary import summarize

ROWS = 1_000_000


def random_trace() -> Trace:
    rng = np.random.default_rng(0)
    start = np.sort(rng.integers(0, 1 << 40, ROWS))
    text = Strings()
    opcodes = text.codes(("MATMUL", "ACTIVATE", "EVENT_SEMAPHORE"))
    return Trace(
        Meta(True, "trn2", "k", window=(0, 1 << 40), total_ps=1 << 40),
        text,
        Instructions(
            start_ps=start,
            end_ps=start + rng.integers(1, 1 << 20, ROWS),
            engine=rng.integers(0, 5, ROWS).astype(np.int8),
            opcode=rng.choice(opcodes, ROWS).astype(np.int32),
            flops=rng.integers(0, 1000, ROWS),
        ),
        packets=Packets(start_ps=start, end_ps=start + 1000, queue_type=rng.integers(0, 7, ROWS).astype(np.int8)),
    )


def test_summary_of_a_million_rows(benchmark):
    assert benchmark(summarize, random_trace())["total_time"] > 0
