"""Damaged files of every format: told in one line or read in part, never a traceback, a hang or a lie.

Every case is made from its format's name and a number, which a failure prints.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import signal
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim import tracefile
from sim.errors import TrnprofError
from sim.trace import validate
from tests import legacy, synthetic, timelines
from trnprof import readers
from trnprof.export import export
from trnprof.readers import unpack

SECONDS = 20
"""That no damaged file of some kilobytes may take."""
TIMES, FLOOR = 4, 6 << 20
"""Memory that a damaged file may take: so many times what it unpacks to, and so many bytes whatever its size."""
MEASURED = 10
"""Of so many cases the memory of one is measured; it makes Python several times slower."""


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


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("profile.json", data)
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("profile.json")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def profile() -> bytes:
    return json.dumps(legacy.document()).encode()


def summary() -> bytes:
    return json.dumps({"n_0": {"total_time": 3.2e-5, "hbm_read_bytes": 4, "instance_type": "trn2.48xlarge"}}).encode()


def lines() -> bytes:
    return b"name,start_us,duration_us,track\n" + b"".join(b"op%d,%d.5,1.25,%d\n" % (n, n, n % 3) for n in range(200))


def exported(to: str, name: str = "made") -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        export(synthetic.attention(), to, folder / name)
        return (folder / name).read_bytes()

    return make


FILES: dict[str, tuple[Callable[[Path], bytes], int]] = {
    "kineto": (lambda _: timelines.dumped(timelines.kineto()), 2000),
    "chrome list": (lambda _: timelines.dumped(timelines.paired()), 2000),
    "chrome gzip": (lambda _: gzip.compress(timelines.dumped(timelines.kineto())), 800),
    "perfetto sdk": (lambda _: timelines.sdk(), 2500),
    "perfetto compressed": (
        lambda _: timelines.packet(compressed=zlib.compress(timelines.sdk())) + timelines.sdk(), 1000),
    "legacy": (lambda _: profile(), 1200),
    "legacy zstd": (lambda _: zstd(profile()), 300),
    "legacy zip": (lambda _: zipped(profile()), 300),
    "legacy tar": (lambda _: tarred(profile()), 300),
    "summary": (lambda _: summary(), 400),
    "csv": (lambda _: lines(), 400),
    "our csv": (exported("csv", "made.csv"), 300),
    "our json": (exported("json"), 300),
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


@contextmanager
def in_memory(most: int | None, case: str) -> Iterator[None]:
    """Fail when Python and NumPy take more than so many bytes at once; None measures nothing."""
    if most is None:
        yield
        return
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= most, f"{case}: {peak} bytes at once, {most} are allowed"


def check(path: Path, case: str, most: int | None = None) -> bool:
    """Open a damaged file; whether it opened."""
    try:
        with in_time(case), in_memory(most, case):
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
    # What a reader loads the first time is not the file's.
    path.write_bytes(whole)
    readers.open(path)
    with unpack.opened(path) as source:
        size = len(source.rest())
    for seed in range(cases):
        kind = kinds[seed % len(kinds)]
        data = kind(whole, random.Random(f"{name} {seed}"))
        path.write_bytes(data)
        most = TIMES * max(len(data), size) + FLOOR if seed % MEASURED == 0 else None
        opened += check(path, f"{name}, {kind.__name__}, seed {seed}", most)
    assert opened, "no damaged file opened: the mutations are too coarse to test anything"


def folders(root: Path) -> dict[str, Path]:
    """Directories of tables: ours, and Explorer's without what we add."""
    ours, plain = root / "ours", root / "plain"
    tracefile.write(synthetic.attention(), ours)
    tracefile.write(synthetic.attention(), plain)
    for path in plain.iterdir():
        if path.name.startswith(("trnprof", "Trnprof")):
            path.unlink()
    export(synthetic.attention(), "csv", root / "csv")
    return {"ours": ours, "plain": plain, "csv": root / "csv", "system": system(root / "system")}


def system(folder: Path) -> Path:
    """A system profile."""
    folder.mkdir()
    events = [
        {"id": n, "name": f"nrt_{n % 5}", "start_ts": 10 * n, "end_ts": 10 * n + 7, "duration_ns": 7,
         "trace_event_source": "neuron_rt", "process_id": n % 2, "thread_id": n % 3, "flow_id": [str(n // 2)],
         "extra_attributes_json": json.dumps({"n": n})}
        for n in range(100)
    ]  # fmt: skip
    samples = [{"timestamp": n, "util_percent": n / 2, "cpu_id": "0"} for n in range(50)]
    for name, rows in (("SystemProfileEvents", events), ("CpuUsage", samples)):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("name", ["ours", "plain", "csv", "system"])
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
