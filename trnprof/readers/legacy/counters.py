"""Step functions of a legacy profile: throttling, DMA rates and queue depth, fullness of SBUF and PSUM."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.trace import Strings
from trnprof.readers.clock import Clock
from trnprof.readers.draft import Columns, size
from trnprof.readers.legacy.fields import by_value, core_of, floats, moments, timed, times
from trnprof.readers.legacy.header import number
from trnprof.readers.receipt import Receipt

THROTTLE_TYPES = {**{n: f"activity_{n}" for n in range(4)}, 99: "unknown"}

USAGE = "instruction_usage"
_ROW = "_row"

_VALUES = {
    "pending_dma": {"pending_dma": "value"},
    "dma_throughput": {"dma_bytes_per_s": "transfer_rate", "hbm_bytes_per_s": "hbm_transfer_rate"},
}
"""Counters by table, and the fields that hold them."""


def batch(table: str, rows: list[Any], strings: Strings, receipt: Receipt) -> Columns:
    """The columns of some rows of a table of counters."""
    if table == USAGE:
        return _usage(rows, strings, receipt)
    rows, columns = timed(rows, table, receipt)
    columns["core"] = by_value(rows, "subgraph", core_of)
    if table == "ham":
        columns["limit"] = np.array([row.k / row.n if row.n else 0.0 for row in rows], np.float64)
        columns["name"] = by_value(rows, "type", lambda kind: _throttle_code(kind, strings))
        return columns
    return columns | {counter: floats(rows, field) for counter, field in _VALUES[table].items()}


TABLES = frozenset((*_VALUES, "ham", USAGE))


def _throttle_code(kind: Any, strings: Strings) -> int:
    return strings.code(f"throttle_{THROTTLE_TYPES.get(kind, kind)}")


def counters(gathered: dict[str, Columns], clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    """The steps of every counter, unsorted."""
    steps: list[Columns] = []
    for table, columns in gathered.items():
        if table == USAGE:
            steps.append(_usage_steps(columns, clock, receipt))
            continue
        found = moments(columns, table, clock, receipt)
        if not found:
            continue
        if table == "ham":
            steps += _throttle_steps(found, strings)
        for counter in _VALUES.get(table, ()):
            steps.append(_step(strings.code(counter), found["core"], found["start_ps"], found[counter]))
    steps = [step for step in steps if size(step)]
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]} if steps else {}


def _step(counter: int | np.ndarray, core: np.ndarray, time_ps: np.ndarray, value: np.ndarray) -> Columns:
    codes = np.broadcast_to(np.asarray(counter, np.int32), core.shape)
    return {"counter": codes, "core": core.astype(np.int16), "time_ps": time_ps, "value": value}


def _throttle_steps(found: Columns, strings: Strings) -> list[Columns]:
    """`tensor_clock` is the share of full speed that is allowed; `throttle_<type>` is 0 between its events."""
    order = np.argsort(found["start_ps"], kind="stable")
    core, start, end, limit, name = (found[key][order] for key in ("core", "start_ps", "end_ps", "limit", "name"))
    both = np.stack((np.zeros(limit.size), limit), axis=1).ravel()
    moments_of_both = np.stack((end, start), axis=1).ravel()
    return [
        _step(strings.code("tensor_clock"), core, start, limit),
        _step(np.repeat(name, 2), np.repeat(core, 2), moments_of_both, both),
    ]


def _usage(rows: list[dict[str, Any]], strings: Strings, receipt: Receipt) -> Columns:
    """Fullness, one row a step: sbuf, sbuf_partition_32, psum, psum_bank_0; the first step of a row is marked."""
    found: list[tuple[Any, int, int, float, bool]] = []
    for row in rows:
        time = number(row.get("timestamp"))
        memory = {"sb": "sbuf", "psum": "psum"}.get(str(row.get("type")))
        if time is None or memory is None:
            receipt.set_aside(USAGE, "have no time or memory")
            continue
        core = core_of(row.get("subgraph"))
        levels = [(_level(memory, key), number(value)) for key, value in row.items()]
        kept = [(name, level) for name, level in levels if name and level is not None]
        found += [(time, core, strings.code(name), level, at == 0) for at, (name, level) in enumerate(kept)]
        if not kept:
            found.append((time, core, -1, 0.0, True))
    if not found:
        return {}
    time, core, counter, value, first = zip(*found, strict=True)
    return {
        "time": times(list(time)),
        "core": np.array(core, np.int16),
        "counter": np.array(counter, np.int32),
        "value": np.array(value, np.float64),
        _ROW: np.array(first, bool),
    }


def _level(memory: str, key: str) -> str:
    """The counter that a field of a row is, empty when it is none."""
    if key == "usage_avg":
        return memory
    return f"{memory}_{key.removesuffix('_usage')}" if key.endswith("_usage") else ""


def _usage_steps(columns: Columns, clock: Clock, receipt: Receipt) -> Columns:
    if not columns:
        return {}
    fits = clock.fit(columns["time"])
    receipt.set_aside(USAGE, "have no time or memory", int((columns[_ROW] & ~fits).sum()))
    receipt.show(USAGE, int((columns[_ROW] & fits).sum()))
    kept = fits & (columns["counter"] >= 0)
    time = clock.points(columns["time"][kept])
    return _step(columns["counter"][kept], columns["core"][kept], time, columns["value"][kept])
