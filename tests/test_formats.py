"""Every format opens with a receipt that balances, strictly, and shows what a sound file holds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv as arrow_csv

from sim import tracefile
from sim.explorer.columns import schema
from sim.trace import Trace, validate
from tests import legacy, synthetic, timelines
from tests.test_mutations import lines, profile, summary, system, zipped, zstd
from trnprof import readers
from trnprof.export import export
from trnprof.readers.legacy import read as read_legacy
from trnprof.summary import summarize


def written(data: bytes, name: str = "file") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def explorer(folder: Path) -> Path:
    """Explorer's own tables, the instructions split over two files."""
    trace = read_legacy(profile(), "small.json")
    tracefile.write(trace, folder / "ours", summarize(trace))
    made = folder / "profiles" / "global" / "small@latest"
    made.mkdir(parents=True)
    for path in (folder / "ours").iterdir():
        if path.stem in schema() and path.suffix == ".parquet":
            table = pq.read_table(path).select([field.name for field in schema()[path.stem][1]])
            parts = [table.slice(0, 4), table.slice(4)] if path.stem == "Instruction" else [table]
            for number, part in enumerate(parts):
                ending = f"_{number}" if len(parts) > 1 else ""
                pq.write_table(part, made / f"{path.stem}{ending}.parquet")
    return folder / "profiles"


def explorer_csv(folder: Path) -> Path:
    made = folder / "csv"
    made.mkdir()
    for path in explorer(folder).rglob("*.parquet"):
        if "_" not in path.stem:
            arrow_csv.write_csv(pq.read_table(path), made / f"{path.stem}.csv")
    arrow_csv.write_csv(pq.read_table(folder / "ours" / "Instruction.parquet"), made / "Instruction.csv")
    return made


def exported(to: str, name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        export(read_legacy(profile(), "small.json"), to, folder / name)
        return folder / name

    return make


def emulated(folder: Path) -> Path:
    return tracefile.write(synthetic.attention(), folder / "trace")


FORMATS: dict[str, tuple[Callable[[Path], Path], int]] = {
    "trace directory": (emulated, 10),
    "Explorer Parquet": (explorer, 9),
    "Explorer CSV": (explorer_csv, 9),
    "Explorer system profile": (lambda folder: system(folder / "system"), 100),
    "legacy JSON": (written(profile()), 9),
    "legacy JSON, gzip": (written(gzip.compress(profile())), 9),
    "legacy JSON, zstd": (written(zstd(profile())), 9),
    "legacy JSON in zip": (written(zipped(profile())), 9),
    "summary JSON": (written(summary()), 0),
    "summary text": (written(b"total_time 1e-5\nhbm_read_bytes 2\nhbm_write_bytes 3\n"), 0),
    "Perfetto": (written(timelines.sdk()), 3),
    "Chrome, Kineto": (written(timelines.dumped(timelines.kineto())), 4),
    "Chrome, B and E": (written(timelines.dumped(timelines.paired())), 5),
    "CSV": (written(lines()), 200),
    "CSV of ours": (exported("csv", "folder"), 9),
    "CSV of ours, instructions": (exported("csv", "one.csv"), 9),
    "JSON of ours": (exported("json", "one.json"), 9),
    "Chrome of ours": (exported("chrome", "one.json"), 0),
    "Perfetto of ours": (exported("perfetto", "one.pftrace"), 0),
}
"""Format -> what makes a sound file, and how many instructions or slices it has; 0 where others count them."""


def balanced(trace: Trace) -> bool:
    tables = trace.receipt.get("tables", {})
    return all(
        table["balanced"] and table["rows"] == table["shown"] + table["quarantined"] for table in tables.values()
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_sound_file_opens_strictly_with_a_receipt_that_balances(name: str, tmp_path: Path) -> None:
    make, rows = FORMATS[name]
    trace = readers.open(make(tmp_path), strict=True)
    validate(trace)
    assert balanced(trace)
    assert trace.receipt or trace.meta.is_simulation or name == "trace directory"
    assert len(trace.instructions) == rows or not rows
    assert json.loads(json.dumps(trace.receipt)) == trace.receipt


def test_every_real_profile_opens_with_a_receipt_that_balances(profiles: Path) -> None:
    found = sorted(profiles.rglob("*.json"))
    assert found
    for path in found:
        assert balanced(readers.open(path, strict=True)), path


def test_the_hand_made_profile_is_the_one_that_is_counted() -> None:
    assert len(legacy.document()["instruction"]) == 9
