"""Measurements that others published, and how the public code that was measured is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel in a checkout of somebody's repository, or one of ours, and its arguments."""

    file: str
    """Pattern of a path below the folder of checkouts; `traces/…` is ours."""
    kernel: str
    device: str
    arguments: tuple[Any, ...]
    """Numbers and `Tensor`s."""
    compare: str
    """total_ns, benchmark_ns or latency_ns: which of our times is what was measured."""
    generation: str = ""
    """API generation whose compiler was in use; empty for that of the code."""
    stubs: tuple[str, ...] = ()
    """Modules that the file imports and the kernel does not need."""
    block: tuple[tuple[str, ...], int] | None = None
    """Which code block of a page it is: words that it contains, and its number among those that do."""
    prelude: str = ""
    """Imports that the file leaves to whoever includes it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One published measurement."""

    id: str
    kernel: str
    source: str
    device: str
    metric: str
    value: Any
    """A number, or what the publication lists."""
    unit: str
    trust: str
    """high, medium or low."""
    shapes: Any = None
    dtype: str = ""
    code: str = ""
    counters: Mapping[str, float] = field(default_factory=dict)
    """AWS's Summary names and units."""
    families: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    """Bound classes that agree with the measurement; empty where it does not tell."""
    instructions: tuple[Mapping[str, Any], ...] = ()
    """Single instructions that it times, as in `instructions.json`."""
    run: Call | None = None
    """Of the code that was measured."""
    ours: Call | None = None
    """Of a kernel of our own, which is the same algorithm."""

    @property
    def value_ns(self) -> float | None:
        """A time; None for another quantity or a list."""
        factor = NANOSECONDS.get(self.unit)
        return None if factor is None or not isinstance(self.value, (int, float)) else self.value * factor

    @property
    def is_limit(self) -> bool:
        """An upper bound that a test asserted, not a measurement."""
        return self.metric.startswith("UPPER BOUND")


@cache
def records() -> tuple[Record, ...]:
    """In the order of the file."""
    return tuple(_record(row) for row in json.loads(FILE.read_text(encoding="utf-8")))


def _record(row: dict[str, Any]) -> Record:
    calls = {name: _call(row.pop(name)) for name in ("run", "ours") if name in row}
    lists = {name: tuple(row.pop(name, ())) for name in ("families", "bound", "instructions")}
    return Record(**row, **lists, **calls)


def _call(row: dict[str, Any]) -> Call:
    arguments = tuple(Tensor(a["dtype"], tuple(a["shape"])) if isinstance(a, dict) else a for a in row["arguments"])
    block = row.get("block")
    chosen = None if block is None else (tuple(block["containing"]), block["number"])
    return Call(**row | {"arguments": arguments, "stubs": tuple(row.get("stubs", ())), "block": chosen})
