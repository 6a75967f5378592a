"""What can be read of a file without decoding it: kind, header, members of a NEFF, columns of a table."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sim.errors import InputError
from trnprof.readers import captures, csvfile, summaries, tables, unpack
from trnprof.readers.chrome_events import is_chrome
from trnprof.readers.perfetto import is_perfetto

HEAD_BYTES = 1 << 16
MEMBERS_LIMIT = 100_000
UNPACKED_LIMIT = 4 << 30
"""Bytes that the archive in a NEFF may unpack to."""
TEXT_LIMIT = 1 << 20
"""Bytes shown of a member."""


@dataclass(frozen=True, slots=True)
class Part:
    """A member of an archive, or a table of a directory."""

    name: str
    bytes: int
    about: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a file is."""

    path: str
    kind: str
    bytes: int
    facts: dict[str, str]
    parts: tuple[Part, ...] = ()
    command: str | None = None
    """What converts it to something that opens."""


def inspect(path: str | Path) -> Inspection:
    """Look at a file; InputError where it is missing or empty."""
    place = Path(path)
    try:
        if place.is_dir():
            return _directory(place)
        with place.open("rb") as file:
            head = file.read(HEAD_BYTES)
        size = place.stat().st_size
    except OSError as fault:
        raise InputError(f"{place}: cannot be read: {fault.strerror or fault}") from None
    if not head:
        raise InputError(f"{place}: an empty file")
    if captures.is_neff(head):
        return _neff(place, head, size)
    if captures.is_ntff(head):
        facts = captures.ntff_facts(head)
        return Inspection(
            str(place), "NTFF, a raw capture", size, facts, (), captures.command(str(place), place.parent)
        )
    if captures.is_dump(head):
        facts = captures.ntff_facts(captures.undump(head))
        return Inspection(str(place), "a hex dump, in text, of an NTFF", size, facts, (), captures.dump_command(place))
    return _packed(place, size)


def _packed(place: Path, size: int) -> Inspection:
    """What is behind the compression, and the members of an archive."""
    try:
        with unpack.opened(place) as source:
            packing = "".join(f"{codec} of " for codec in source.codecs)
            if not unpack.is_archive(source.head):
                return Inspection(str(place), packing + _kind(source.head), size, {})
            kind = "a zip archive" if source.head.startswith(unpack.ZIP) else "a tar archive"
            parts = [Part(name, length) for name, length in unpack.listed(place, source)]
            return Inspection(str(place), packing + kind, size, {}, tuple(parts))
    except InputError as fault:
        return Inspection(str(place), "compressed or an archive, damaged", size, {"damage": str(fault)})


def _kind(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "a Parquet table"
    if is_perfetto(head):
        return "a Perfetto trace"
    if head.lstrip()[:1] in (b"{", b"["):
        if is_chrome(head):
            return "a Chrome trace"
        if tables.is_json(head):
            return "a trace that trnprof wrote as JSON"
        return "a profile's summary as JSON" if summaries.is_json(head) else "JSON"
    names = csvfile.header(head)
    if names:
        return f"CSV with {len(names)} columns: {', '.join(names)[:200]}"
    return "a profile's summary as text" if summaries.is_text(head) else "not a format known here"


def _directory(place: Path) -> Inspection:
    from trnprof.readers.parquet import TABLE_FILE

    entries = sorted(entry for entry in place.iterdir() if entry.is_file())
    tables = [entry for entry in entries if TABLE_FILE.match(entry.name)]
    parts = tuple(Part(entry.name, entry.stat().st_size) for entry in entries)
    kind = "a directory of Parquet tables" if tables else "a directory"
    return Inspection(str(place), kind, sum(part.bytes for part in parts), {}, parts)


def _neff(place: Path, head: bytes, size: int) -> Inspection:
    facts = captures.neff_facts(head)
    parts = []
    try:
        for member in _members(place):
            parts.append(Part(member.name, member.size, "" if member.isreg() else "no regular file"))
    except (tarfile.TarError, zlib.error, EOFError, OSError) as fault:
        facts["archive"] = f"damaged after {len(parts)} members: {fault}"
    return Inspection(
        str(place), "NEFF, a compiled program", size, facts, tuple(parts), captures.neff_command(place)
    )  # fmt: skip


def _members(place: Path) -> Iterator[tarfile.TarInfo]:
    with place.open("rb") as file, _archive(file) as archive:
        for number, member in enumerate(archive):
            if number == MEMBERS_LIMIT:
                raise tarfile.TarError(f"more than {MEMBERS_LIMIT} members")
            yield member


def _archive(file: IO[bytes]) -> tarfile.TarFile:
    file.seek(captures.NEFF_HEADER)
    return tarfile.open(fileobj=io.BufferedReader(_Bounded(file)), mode="r|")


class _Bounded(io.RawIOBase):
    """The gzip stream from where a file stands, up to a limit."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpack = zlib.decompressobj(31)
        self._kept = b""
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        made = b""
        while not made and not self._unpack.eof:
            self._kept = self._unpack.unconsumed_tail or self._file.read(HEAD_BYTES)
            if not self._kept:
                break
            made = self._unpack.decompress(self._kept, len(buffer))
        self._given += len(made)
        if self._given > UNPACKED_LIMIT:
            raise OSError(f"unpacks to more than {UNPACKED_LIMIT >> 30} GiB")
        buffer[: len(made)] = made
        return len(made)


def member(path: str | Path, name: str) -> str:
    """The text of one member of a NEFF; bytes that are no text as a hex dump, cut at 1 MiB."""
    with Path(path).open("rb") as file:
        if not captures.is_neff(file.read(HEAD_BYTES)):
            raise InputError(f"{path}: not a NEFF; only these have members")
        try:
            with _archive(file) as archive:
                for found in archive:
                    if found.name.removeprefix("./") == name.removeprefix("./") and found.isreg():
                        return _text(archive.extractfile(found).read(TEXT_LIMIT))
        except (tarfile.TarError, zlib.error, EOFError, OSError) as fault:
            raise InputError(f"{path}: the archive is damaged: {fault}") from None
    raise InputError(f"{path}: no member {name}", remedy="without --member they are listed")


def _text(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and all(sign.isprintable() or sign in "\n\r\t" for sign in text[:4096]):
        return text
    lines = (data[at : at + 16] for at in range(0, min(len(data), 4096), 16))
    return "\n".join(f"{16 * n:08x}  {line.hex(' ')}" for n, line in enumerate(lines))
