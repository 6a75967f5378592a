"""What `view --output-format summary-json` and `summary-text` print: the metrics of a profile without its rows."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from sim.errors import InputError
from sim.explorer.columns import schema
from sim.trace import Instructions, Meta, Strings, Trace
from trnprof.readers.legacy.header import device_of, machine_of
from trnprof.readers.receipt import Receipt

_JSON = re.compile(rb'\s*\{\s*"n_[0-9A-Za-z_]+"\s*:\s*\{')
_LINE = re.compile(r"^[|\s]*([A-Za-z][A-Za-z0-9_]+)[|:\s]+(.*?)[|\s]*$")
ALONE = "A summary alone: it has metrics and no rows."
_TELLING = 3
"""Lines with names of the Summary table that make a text a summary."""


def is_json(head: bytes) -> bool:
    return _JSON.match(head) is not None


def is_text(head: bytes) -> bool:
    """Whether a text lists metrics of AWS's Summary."""
    known = {field.name for field in schema()["Summary"][1]}
    lines = head[:16384].decode("utf-8", "replace").splitlines()
    found = (_LINE.match(line) for line in lines)
    return sum(match is not None and match[1] in known for match in found) >= _TELLING


def read_json(data: bytes, path: str) -> Trace:
    """A trace without rows of a summary-json file; of several programs the first."""
    try:
        document = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as fault:
        raise InputError(f"{path}: the JSON is not valid: {fault}") from None
    summaries = [(name, row) for name, row in document.items() if name.startswith("n_") and isinstance(row, dict)]
    receipt = Receipt()
    receipt.leave("summaries of other programs", len(summaries) - 1)
    return _trace(*summaries[0], receipt, path)


def read_text(data: bytes, path: str) -> Trace:
    """A trace without rows of a summary-text file."""
    row: dict[str, Any] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = _LINE.match(line)
        if match and match[2]:
            row[match[1]] = _value(match[2])
    return _trace("", row, Receipt(), path)


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text.replace(",", ""))
        except ValueError:
            pass
    return text


def _trace(name: str, row: dict[str, Any], receipt: Receipt, path: str) -> Trace:
    receipt.read("metrics", len(row))
    metrics = {key: value for key, value in row.items() if not isinstance(value, float) or math.isfinite(value)}
    receipt.set_aside("metrics", "are not finite", len(row) - len(metrics))
    receipt.show("metrics", len(metrics))
    total = metrics.get("total_time")
    total_ps = round(total * 1e12) if isinstance(total, int | float) and 0 < total < 1e6 else 0
    machine = machine_of(metrics)
    meta = Meta(
        False,
        device_of(str(metrics.get("instance_type", "")), machine),
        path,
        kernel=str(metrics.get("neff_name") or name),
        total_ps=total_ps,
        tool="summary",
        notes=(ALONE, *receipt.notes()),
        receipt=receipt.to_json(),
        quarantined=0,
        summary=metrics,
    )
    return Trace(meta, Strings(), Instructions(0))
