"""Damaged files of every format: told in one line or read in part, never a traceback, a hang or a lie.

Every case is made from its format's name and a number, which a failure prints.
"""

from __future__ import annotations

import gzip
import json
import random
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sim import tracefile
from sim.errors import TrnprofError
from sim.trace import validate
from tests import legacy, synthetic, timelines
from trnprof import readers
from trnprof.export import export

SECONDS = 20
"""That no damaged file of some kilobytes may take."""


def truncated(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def flipped(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def reordered(data: bytes, chance: random.Random) -> bytes:
    a, b, c = sorted(chance.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def duplicated(data: bytes, chance: random.Random) -> bytes:
    a, b = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:b] + data[a:b] + data[b:]


def overwritten(data: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(data)), chance.randrange(1, 9)
    return data[:at] + chance.randbytes(length) + data[at + length :]


BYTES = (truncated, flipped, reordered, duplicated, overwritten)

VALUES = (None, True, -1, 0, 1e400, 2**63, -(2**70), 1.5e308, "", "x", "NaN", [], [1], {}, {"a": [{}]}, "\ud800")


def type_swapped(data: bytes, chance: random.Random) -> bytes:
    """One value of a JSON document replaced by one of another type."""
    document = json.loads(data)
    holder: Any = document
    while True:
        key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
        if not (isinstance(holder[key], dict | list) and holder[key]) or chance.random() < 0.05:
            break
        holder = holder[key]
    holder[key] = chance.choice(VALUES)
    return json.dumps(document).encode()


def exported(to: str) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        export(synthetic.attention(), to, folder / "made")
        return (folder / "made").read_bytes()

    return make


FILES: dict[str, tuple[Callable[[Path], bytes], int]] = {
    "kineto": (lambda _: timelines.dumped(timelines.kineto()), 2000),
    "chrome list": (lambda _: timelines.dumped(timelines.paired()), 2000),
    "chrome gzip": (lambda _: gzip.compress(timelines.dumped(timelines.kineto())), 800),
    "perfetto sdk": (lambda _: timelines.sdk(), 2500),
    "perfetto compressed": (
        lambda _: timelines.packet(compressed=zlib.compress(timelines.sdk())) + timelines.sdk(), 1000),
    "legacy": (lambda _: json.dumps(legacy.document()).encode(), 1200),
    "our perfetto": (exported("perfetto"), 150),
    "our chrome": (exported("chrome"), 150),
}  # fmt: skip
"""Format -> what makes a sound file, and how many damaged ones are tried."""


@contextmanager
def in_time(case: str) -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError(f"{case}: takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(path: Path, case: str) -> bool:
    """Open a damaged file; whether it opened."""
    try:
        with in_time(case):
            trace = readers.open(path)
            validate(trace)
    except TrnprofError as fault:
        told = str(fault)
    except Exception as fault:
        raise AssertionError(f"{case}: {type(fault).__name__}: {fault}") from fault
    else:
        told = ""
    assert "\n" not in told, case
    if told:
        return False
    unbalanced = {name: table for name, table in trace.receipt.get("tables", {}).items() if not table["balanced"]}
    assert not unbalanced, case
    return True


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_in_part_or_told_in_one_line(name: str, tmp_path: Path) -> None:
    make, cases = FILES[name]
    whole = make(tmp_path)
    path = tmp_path / "damaged"
    kinds = (*BYTES, type_swapped) if whole[:1] in b"{[" else BYTES
    opened = 0
    for seed in range(cases):
        kind = kinds[seed % len(kinds)]
        path.write_bytes(kind(whole, random.Random(f"{name} {seed}")))
        opened += check(path, f"{name}, {kind.__name__}, seed {seed}")
    assert opened, "no damaged file opened: the mutations are too coarse to test anything"


def folders(root: Path) -> dict[str, Path]:
    """Directories of tables: ours, and Explorer's without what we add."""
    ours, plain = root / "ours", root / "plain"
    tracefile.write(synthetic.attention(), ours)
    tracefile.write(synthetic.attention(), plain)
    for path in plain.iterdir():
        if path.name.startswith(("trnprof", "Trnprof")):
            path.unlink()
    return {"ours": ours, "plain": plain}


@pytest.mark.parametrize("name", ["ours", "plain"])
def test_a_directory_with_a_damaged_table_is_read_or_told_in_one_line(name: str, tmp_path: Path) -> None:
    folder = folders(tmp_path)[name]
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for seed in range(150):
        chance = random.Random(f"{name} {seed}")
        path, kind = chance.choice(files), BYTES[seed % len(BYTES)]
        whole = path.read_bytes()
        path.write_bytes(kind(whole, chance))
        case = f"{name}, {path.name}, {kind.__name__}, seed {seed}"
        try:
            check(folder, case)
        finally:
            path.write_bytes(whole)
