"""Step functions of a legacy profile: throttling, DMA rates and queue depth, fullness of SBUF and PSUM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.trace import Strings
from trnprof.readers.clock import Clock
from trnprof.readers.draft import Columns
from trnprof.readers.legacy.fields import core_of, moments
from trnprof.readers.legacy.header import number
from trnprof.readers.legacy.rows import Document
from trnprof.readers.receipt import Receipt

THROTTLE_TYPES = {**{n: f"activity_{n}" for n in range(4)}, 99: "unknown"}

Step = tuple[str, int, float, float]
"""Counter, core, time in the file's unit, value."""


def counters(document: Document, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    """The steps of every counter, unsorted."""
    steps = [
        *_dma(document, clock, receipt),
        *_throttle(document, clock, receipt),
        *_usage(document, clock, receipt),
    ]
    return {
        "counter": strings.codes(step[0] for step in steps),
        "core": np.array([step[1] for step in steps], np.int16),
        "time_ps": np.array([clock.point(step[2]) for step in steps], np.int64),
        "value": np.array([step[3] for step in steps], np.float64),
    }


def _dma(document: Document, clock: Clock, receipt: Receipt) -> Iterator[Step]:
    for row in moments(document.pending_dma, "pending_dma", clock, receipt).rows:
        yield "pending_dma", core_of(row.subgraph), row.timestamp, row.value
    for row in moments(document.dma_throughput, "dma_throughput", clock, receipt).rows:
        yield "dma_bytes_per_s", core_of(row.subgraph), row.timestamp, row.transfer_rate
        yield "hbm_bytes_per_s", core_of(row.subgraph), row.timestamp, row.hbm_transfer_rate


def _throttle(document: Document, clock: Clock, receipt: Receipt) -> Iterator[Step]:
    """`tensor_clock` is the share of full speed that is allowed; `throttle_<type>` is 0 between its events."""
    events = moments(document.ham, "ham", clock, receipt).rows
    for row in sorted(events, key=lambda row: row.timestamp):
        limit = row.k / row.n if row.n else 0.0
        name = f"throttle_{THROTTLE_TYPES.get(row.type, row.type)}"
        yield "tensor_clock", core_of(row.subgraph), row.timestamp, limit
        yield name, core_of(row.subgraph), row.timestamp + row.duration, 0.0
        yield name, core_of(row.subgraph), row.timestamp, limit


def _usage(document: Document, clock: Clock, receipt: Receipt) -> Iterator[Step]:
    """Fullness: sbuf, sbuf_partition_32, psum, psum_bank_0."""
    for row in document.instruction_usage:
        time = number(row.get("timestamp"))
        memory = {"sb": "sbuf", "psum": "psum"}.get(str(row.get("type")))
        if time is None or memory is None or not clock.holds(time):
            receipt.set_aside("instruction_usage", "have no time or memory")
            continue
        receipt.show("instruction_usage", 1)
        for key, value in row.items():
            fullness = number(value)
            if fullness is not None and key.endswith("_usage"):
                yield f"{memory}_{key.removesuffix('_usage')}", core_of(row.get("subgraph")), time, fullness
            elif fullness is not None and key == "usage_avg":
                yield memory, core_of(row.get("subgraph")), time, fullness
