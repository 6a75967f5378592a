"""Peers' own numbers in peer mode: their formulas and units, so that they must come out exactly.

SCALE-Sim and LLMCompass charge a systolic array a full fill and drain for every fold; ours loads weights behind the
matmul before, so these are not our TensorE. ASTRA-sim's fabric is ours, with its units: GB of 2**30 bytes, whole ns.

Sources: scalesim-project/SCALE-Sim (MIT) as run for LLMCompass (BSD-3, systolic_array_model/look_up_table_*.csv) and
for 128 x 128; astra-sim/astra-network-analytical (MIT), input/*.yml and the numbers that its test/*.cpp expect.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from sim.topology import Dimension, Kind, Message, Topology, all_pairs, deliver
from trnprof.validation.score import Comparison

CHUNK = 1 << 20
"""Bytes of a message in ASTRA-sim's tests."""
GB = 2**30 / 1e9
"""Bytes a ns in what ASTRA-sim calls 1 GB/s."""

SCALESIM = "SCALE-Sim, weight stationary, 128 x 128"
WEIGHT_STATIONARY = {512: 14_303, 1024: 89_983, 2048: 622_079}
"""Size of a cubic matmul -> SCALE-Sim's cycles."""
OUTPUT_STATIONARY = {(16, 16, 4): 71, (8, 32, 64): 311, (128, 128, 1): 3_839, (1, 1, 1): 14}
"""m, n, k on an 8 x 8 array -> SCALE-Sim's cycles, from LLMCompass' tables."""

LOOK_UP = "LLMCompass/systolic_array_model/look_up_table_{0}_{0}.csv"
SQUARES = (8, 16, 32, 64, 128)


def output_stationary(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """SCALE-Sim's cycles of a matmul, a fold for each tile of the result."""
    return -(-m // rows) * -(-n // columns) * (k + rows + columns - 2) - 1


def weight_stationary(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """SCALE-Sim's cycles of a matmul, a fold for each tile of the weights."""
    return -(-k // rows) * -(-n // columns) * (2 * rows + columns + m - 2) - 1


def compare(folders: Sequence[Path] = ()) -> Iterator[Comparison]:
    """Every peer's golden beside ours; LLMCompass' tables where a folder has them."""
    for size, cycles in WEIGHT_STATIONARY.items():
        ours = weight_stationary(size, size, size, 128, 128)
        yield _row(f"{SCALESIM}: {size}³", cycles, ours, "cycles")
    for (m, n, k), cycles in OUTPUT_STATIONARY.items():
        ours = output_stationary(m, n, k, 8, 8)
        yield _row(f"SCALE-Sim, output stationary, 8 x 8: {m} x {k} x {n}", cycles, ours, "cycles")
    yield from _fabrics()
    for folder in folders:
        yield from _look_up(folder)


def _row(id: str, measured: float, estimate: float, unit: str) -> Comparison:
    return Comparison(id, "peer", "peer", float(measured), float(estimate), unit)


def _fabrics() -> Iterator[Comparison]:
    rings = Topology((Dimension(Kind.RING, 16, 50 * GB, 500),))
    full = Topology((Dimension(Kind.FULLY_CONNECTED, 16, 50 * GB, 500),))
    switch = Topology((Dimension(Kind.SWITCH, 16, 50 * GB, 500),))
    three = Topology(
        (
            Dimension(Kind.RING, 2, 200 * GB, 50),
            Dimension(Kind.FULLY_CONNECTED, 8, 100 * GB, 500),
            Dimension(Kind.SWITCH, 4, 50 * GB, 2000),
        )
    )
    alone = (
        ("ring, 1 to 4", rings, 1, 4, 21_031),
        ("fully connected, 1 to 4", full, 1, 4, 20_031),
        ("switch, 1 to 4", switch, 1, 4, 20_531),
        ("2 x 8 x 4, 0 to 1", three, 0, 1, 4_932),
        ("2 x 8 x 4, 37 to 41", three, 37, 41, 10_265),
        ("2 x 8 x 4, 26 to 42", three, 26, 42, 23_531),
    )
    for name, topology, source, target, golden in alone:
        ours = int(topology.alone(source, target, CHUNK))
        yield _row(f"ASTRA-sim, unaware of congestion: {name}", golden, ours, "ns")
    aware = (("ring", rings, 60_093), ("fully connected", full, 20_031), ("switch", switch, 40_062))
    for name, topology, golden in aware:
        ours = deliver(topology, [Message(1, 4, CHUNK)], whole=True)[0]
        yield _row(f"ASTRA-sim, aware of congestion: {name}, 1 to 4", golden, ours, "ns")
    gathered = max(deliver(rings, list(all_pairs(rings, CHUNK)), whole=True))
    yield _row("ASTRA-sim, aware of congestion: all-gather on a ring of 16", 704_116, gathered, "ns")


def _look_up(folder: Path) -> Iterator[Comparison]:
    """LLMCompass' tables were made by SCALE-Sim: m, n, k, rows, columns, dataflow, cycles, utilisation."""
    for size in SQUARES:
        file = folder / LOOK_UP.format(size)
        if not file.is_file():
            continue
        with file.open(encoding="utf-8", newline="") as lines:
            rows = {tuple(row) for row in csv.reader(lines) if len(row) == 8}
        wrong = [row for row in rows if not _agrees(row)]
        yield Comparison(
            f"LLMCompass' table of SCALE-Sim, output stationary, {size} x {size}",
            "peer",
            "peer",
            float(len(rows)),
            float(len(rows) - len(wrong)),
            "rows",
        )


def _agrees(row: tuple[str, ...]) -> bool:
    m, n, k, rows, columns, cycles = (int(row[place]) for place in (0, 1, 2, 3, 4, 6))
    return output_stationary(m, n, k, rows, columns) == cycles
