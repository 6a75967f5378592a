"""Compressed files and archives open as what is in them; what unpacks without end or leads elsewhere is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import tracefile
from sim.errors import InputError
from tests import legacy, synthetic, timelines
from trnprof import readers
from trnprof.readers import plain_parts, unpack
from trnprof.readers.legacy import read as read_legacy
from trnprof.readers.legacy import stream

PROFILE = json.dumps(legacy.document()).encode()
WINDOW = (11_000_000, 17_060_000)


def by_arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as out:
            out.write(data)
        return sink.getvalue().to_pybytes()

    return compress


def zipped(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return out.getvalue()


def tarred(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


COMPRESSED = {
    "gzip": gzip.compress,
    "gzip of two parts": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "zstd": by_arrow("zstd"),
    "lz4": by_arrow("lz4"),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "xz of two parts": lambda data: lzma.compress(data[:100]) + bytes(8) + lzma.compress(data[100:]),
    "gzip twice": lambda data: gzip.compress(gzip.compress(data)),
    "zip": lambda data: zipped(("out/profile.json", data)),
    "tar": lambda data: tarred(("profile.json", data)),
    "tar.gz": lambda data: gzip.compress(tarred(("profile.json", data))),
    "gzip in zip": lambda data: zipped(("profile.json.gz", gzip.compress(data))),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_compressed_profile_opens_as_the_plain_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "profile"
    path.write_bytes(COMPRESSED[name](PROFILE))
    trace = readers.open(path)
    assert trace.meta.window == WINDOW
    assert trace.meta.source == str(path)
    assert all(table["balanced"] for table in trace.receipt["tables"].values())


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("data", [timelines.sdk(), timelines.dumped(timelines.kineto())], ids=["perfetto", "chrome"])
def test_a_compressed_timeline_opens_as_well(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(COMPRESSED[name](data))
    (tmp_path / "plain").write_bytes(data)
    assert len(readers.open(path).instructions) == len(readers.open(tmp_path / "plain").instructions)


@pytest.mark.parametrize("pack", [zipped, tarred], ids=["zip", "tar"])
def test_a_trace_directory_opens_out_of_an_archive(pack: Callable[..., bytes], tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    tracefile.write(synthetic.attention(), folder)
    path = tmp_path / "kept.archive"
    path.write_bytes(pack(*((f"run/{entry.name}", entry.read_bytes()) for entry in sorted(folder.iterdir()))))
    trace, plain = readers.open(path), readers.open(folder)
    assert trace.instructions.start_ps.tolist() == plain.instructions.start_ps.tolist()


@pytest.mark.parametrize("pack", [zipped, tarred], ids=["zip", "tar"])
@pytest.mark.parametrize("name", ["../escape.json", "/tmp/escape.json", "a/../../escape.json", "..\\escape.json"])
def test_an_archive_cannot_write_outside_itself(pack: Callable[..., bytes], name: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "evil"
    path.parent.mkdir()
    path.write_bytes(pack(("profile.json", PROFILE), (name, PROFILE)))
    with pytest.raises(InputError, match="names a path outside itself"):
        readers.open(path)
    assert not list(tmp_path.rglob("escape.json"))


def test_links_in_an_archive_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_bytes(PROFILE)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("profile.json")
            link.type, link.linkname = kind, str(tmp_path / "secret.json")
            archive.addfile(link)
    path = tmp_path / "links.tar"
    path.write_bytes(out.getvalue())
    with pytest.raises(InputError, match="an archive without files"):
        readers.open(path)


def test_an_archive_of_several_profiles_asks_which(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    path.write_bytes(zipped(("a.json", PROFILE), ("b.json", PROFILE)))
    with pytest.raises(InputError, match=r"without profile tables; it has a\.json, b\.json"):
        readers.open(path)


BOMBS = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": by_arrow("zstd"),
    "zip": lambda data: zipped(("profile.json", data)),
    "tar.gz": lambda data: gzip.compress(tarred(("profile.json", data))),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize(
    "data", [b"[" + b" " * (8 << 20), b'{"instruction": [' + b" " * (8 << 20)], ids=["list", "object"]
)
def test_a_file_that_unpacks_without_end_is_given_up(
    name: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[name](data))
    monkeypatch.setattr(unpack, "SMALL", 1 << 20)
    with pytest.raises(InputError, match="unpacks to more than"):
        readers.open(path)


def test_a_small_file_may_unpack_to_a_fixed_size_a_large_one_to_a_multiple(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x")
    assert unpack.allowed(path) == unpack.SMALL
    with path.open("wb") as file:
        file.truncate(2 << 20)
    assert unpack.allowed(path) == unpack.EXPANSION * (2 << 20)
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert unpack.allowed(path) == unpack.LIMIT


@pytest.mark.parametrize("name", [name for name in COMPRESSED if name not in ("lz4", "tar")])
def test_a_damaged_compression_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    whole = COMPRESSED[name](PROFILE)
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(InputError) as fault:
        readers.open(path)
    assert str(fault.value).startswith(f"{path}: ")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("name", "kind"), [
    ("zstd", "zstd of JSON"), ("gzip twice", "gzip of gzip of JSON"), ("zip", "a zip archive"),
    ("tar.gz", "gzip of a tar archive"),
])  # fmt: skip
def test_inspect_looks_behind_the_compression(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(COMPRESSED[name](PROFILE))
    found = plain_parts.inspect(path)
    assert found.kind == kind
    if "archive" in kind:
        assert [(part.name.rpartition("/")[2], part.bytes) for part in found.parts] == [("profile.json", len(PROFILE))]


def large(copies: int) -> bytes:
    """The hand-made profile with its rows repeated."""
    document = legacy.document()
    for table in ("instruction", "dma", "semaphore_update"):
        document[table] = document[table] * copies
    return json.dumps(document).encode()


def test_a_profile_is_read_in_less_memory_than_it_is_long(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(large(3000))
    readers.open(path)
    tracemalloc.start()
    try:
        trace = readers.open(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(trace.instructions) == 27_000
    assert path.stat().st_size > 25_000_000
    assert peak < path.stat().st_size + (8 << 20)


@given(st.integers(1, 400), st.randoms())
def test_pieces_of_any_size_give_the_same_trace(piece: int, chance: object) -> None:
    document = legacy.document()
    document["deep"] = [json.loads("[" * 12 + "1" + "]" * 12), 12.5e3, 'a\\"]}', None, {}]
    document["other"] = {"x": [1, {"y": "}"}]}
    data = io.BytesIO(json.dumps(document, indent=chance.choice((None, 1))).encode())
    found = list(stream.batches(lambda _: data.read(piece), "p"))
    rows: dict[str, list] = {}
    for batch in found:
        rows.setdefault(batch.table, []).extend(json.loads(batch.text))
        assert len(json.loads(batch.text)) == batch.rows
    assert rows == {**document, "other": [document["other"]]}


def test_events_behind_a_long_preamble_are_found(tmp_path: Path) -> None:
    document = {"deviceProperties": [{"name": "x" * 100}] * 2000, **timelines.kineto()}
    (tmp_path / "t").write_bytes(timelines.dumped(document))
    (tmp_path / "plain").write_bytes(timelines.dumped(timelines.kineto()))
    found = readers.open(tmp_path / "t")
    assert len(found.instructions) == len(readers.open(tmp_path / "plain").instructions)


@pytest.mark.parametrize(("text", "place"), [
    ('{"instruction": [{"id": 1},,]}', "not valid at byte 27"),
    ('{"instruction": [{"id": 1}] "dma": []}', "not valid at byte 28"),
    ('{"instruction": [{"id" 1}]}', "not valid at byte 23"),
    ('{"instruction":\n [{"id": 1}\n{"id": 2}]}', r"not valid at byte 28 \(line 3\)"),
    ('{"instruction": []} x', "not valid at byte 20"),
    ('{"instruction": [{"id": 1}', "cut off at byte 26"),
    ('{"instruction"', "cut off at byte 14"),
    ('{instruction: []}', "not valid at byte 1"),
])  # fmt: skip
def test_json_that_breaks_off_is_told_with_its_place(text: str, place: str) -> None:
    with pytest.raises(InputError, match=place):
        read_legacy(text.encode(), "p")


def test_an_xz_file_that_asks_for_gigabytes_to_be_unpacked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "greedy.xz"
    path.write_bytes(lzma.compress(PROFILE, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 256 << 20}]))
    with pytest.raises(InputError, match="xz data is damaged or cut off: Memory usage limit"):
        readers.open(path)
