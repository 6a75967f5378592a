"""Run published kernels whose latency was measured, and compare.

    python -m tests.records FOLDER [PATTERN] [--json] [--ablate] [-o docs/timing.md]

FOLDER holds checkouts of the public repositories that the records name. Estimates are compared like with like: a
profile's total_time with `total_ns`, a benchmark's p50 with `benchmark_ns`, a device time with the kernel window.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sim
from sim.errors import TrnprofError
from tests import records_page, records_words
from trnprof.validation.kernels import counters, execute
from trnprof.validation.published import Record, records


def both_counters(result: sim.Run, measured: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Name of Explorer's Summary -> ours and the record's, of those that the record has."""
    ours = counters(result)
    return {name: (float(ours.get(name) or 0), measured[name]) for name in records_page.UNITS if name in measured}


def compare(record: Record, folder: Path, ablate: bool = False) -> dict | None:
    """One row of the table, None for a record that names no public kernel.

    ablate : also the errors with one pass or figure changed
    """
    if record.run is None:
        return None
    start, which = time.perf_counter(), record.run.compare
    row: dict[str, Any] = {"id": record.id, "compared": which, "measured_us": record.value_ns / 1e3}
    try:
        result = execute(record.run, [folder])
    except TrnprofError as error:
        return row | {"failed": f"{type(error).__name__}: {error}"}
    row["estimate_us"] = getattr(result, which) / 1e3
    row["error"] = row["estimate_us"] / row["measured_us"] - 1
    row["counters"] = both_counters(result, record.counters)
    row["instructions"] = len(result.program)
    row["seconds"] = time.perf_counter() - start
    if ablate:
        row["ablation"] = dict(records_page.ablated(result, which, row["measured_us"]))
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pattern", nargs="?", default=".")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ablate", action="store_true", help="also what each pass and group of figures explains")
    parser.add_argument("-o", "--output", type=Path, help="write the page there")
    asked = parser.parse_args()
    rows = []
    for record in records():
        if re.search(asked.pattern, record.id) and (row := compare(record, asked.folder, asked.ablate)) is not None:
            rows.append(row)
            if not asked.json:
                print(line(row), flush=True)
    if asked.json:
        print(json.dumps(rows, indent=1))
    if asked.ablate and not asked.json:
        print(records_page.table(rows))
    if asked.output:
        asked.output.write_text(records_page.page(rows, *records_words.PARTS))
    done = [abs(row["error"]) for row in rows if "error" in row]
    if done:
        print(f"{len(done)} of {len(rows)} ran, mean absolute error {sum(done) / len(done):.1%}", file=sys.stderr)
    return 0


def line(row: dict) -> str:
    if "failed" in row:
        return f"{row['id']:<46} {row['failed'][:140]}"
    return (
        f"{row['id']:<46} {row['measured_us']:>10.1f} µs measured {row['estimate_us']:>10.1f} µs estimated "
        f"{row['error']:>+7.1%}  {row['instructions']:>8} instructions {row['seconds']:>5.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
