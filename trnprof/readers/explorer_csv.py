"""Neuron Explorer's tables as CSV files, one a table: made into Parquet, then read as that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sim.errors import InputError
from sim.trace import Trace
from trnprof.readers import explorer, system, unpack


def tables(folder: Path) -> dict[str, Path]:
    """The tables of a folder that Explorer exported as CSV; empty when it has none that is shown."""
    found = {
        entry.stem: entry for entry in sorted(folder.glob("*.csv")) if entry.stem.isalpha() and entry.stem[0].isupper()
    }
    return found if found.keys() & {"Instruction", "DmaPacket", system.EVENTS} else {}


def read(files: dict[str, Path], path: str) -> Trace:
    """The trace of Explorer's tables as CSV files, by table."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    folder = unpack.temporary()
    for table, file in files.items():
        try:
            with unpack.opened(file) as source:
                found = csv.read_csv(unpack.Stream(source), parse_options=csv.ParseOptions(newlines_in_values=True))
        except pa.ArrowException as fault:
            raise InputError(f"{file}: damaged: {str(fault).splitlines()[0]}") from None
        pq.write_table(found, folder / f"{table}.parquet")
    trace = explorer.read(folder)
    return replace(trace, meta=replace(trace.meta, source=path))
