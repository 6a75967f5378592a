"""Files as streams of plain bytes: compressed ones unpacked as they are read, archives put into a folder of their own.

What unpacks without end is given up: a file of n bytes may become `EXPANSION` times n, a small one `SMALL` bytes, none
more than `LIMIT`. Members of an archive whose names lead out of it are refused.
"""

from __future__ import annotations

import atexit
import bz2
import gzip
import io
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sim.errors import InputError

HEAD_BYTES = 65_536
CHUNK = 1 << 20
LIMIT = 8 << 30
SMALL = 256 << 20
EXPANSION = 250
MEMBERS = 100_000
_XZ_MEMORY = 128 << 20
"""`xz -9` takes 65 MiB to unpack."""
_LAYERS = 3
"""Compression within compression: a .gz in a .tar.gz."""


def _zstd(file: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")


def _lz4(file: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "lz4")


class _Xz(io.RawIOBase):
    """Unpacks xz with a bound on the memory that its dictionary may take: a header can ask for 4 GiB."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._undo = self._anew()

    @staticmethod
    def _anew() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int = CHUNK) -> bytes:
        while True:
            if self._undo.eof:
                # Files may be several streams, one behind the other, padded with zeros.
                more = (self._undo.unused_data or self._file.read(CHUNK)).lstrip(b"\0")
                if not more:
                    return b""
                self._undo = self._anew()
            else:
                more = self._file.read(CHUNK) if self._undo.needs_input else b""
                if not more and self._undo.needs_input:
                    raise EOFError("it ends before its end")
            try:
                data = self._undo.decompress(more, size)
            except lzma.LZMAError as fault:
                raise ValueError(str(fault)) from None
            if data:
                return data


CODECS: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"\x28\xb5\x2f\xfd": ("zstd", _zstd),
    b"\x04\x22\x4d\x18": ("lz4", _lz4),
    b"BZh": ("bzip2", lambda file: bz2.BZ2File(file)),
    b"\xfd7zXZ\x00": ("xz", _Xz),
}
"""By their first bytes: what people call a compression, and what undoes it."""

ZIP = (b"PK\x03\x04", b"PK\x05\x06")
REFUSED = {b"7z\xbc\xaf": "a 7z archive", b"Rar!": "a rar archive"}


class Source:
    """A file's bytes after all unpacking, read once from front to back."""

    def __init__(self, file: Any, path: Path, codecs: tuple[str, ...] = (), limit: int = LIMIT) -> None:
        self.path = path
        self.codecs = codecs
        self._file = file
        self._limit = limit
        self._given = 0
        self.head = b""
        while len(self.head) < HEAD_BYTES:
            more = self._take(HEAD_BYTES - len(self.head))
            if not more:
                break
            self.head += more
        self._kept = self.head

    def read(self, size: int = CHUNK) -> bytes:
        """Up to `size` bytes, empty at the end; InputError where the compressed data is damaged or endless."""
        if self._kept:
            data, self._kept = self._kept[:size], self._kept[size:]
            return data
        return self._take(size)

    def rest(self) -> bytes:
        """All that has not been read; of a plain file without a second copy of it."""
        if not self.codecs and self._file.seekable():
            self._file.seek(-len(self._kept), os.SEEK_CUR)
            self._kept = b""
            return self._file.read()
        parts = []
        while data := self.read(CHUNK):
            parts.append(data)
        return b"".join(parts)

    def readinto(self, buffer: memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _take(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile, OSError, ValueError) as fault:
            if not self.codecs:
                raise
            reason = (str(fault).splitlines() or [type(fault).__name__])[0]
            raise InputError(f"{self.path}: the {self.codecs[-1]} data is damaged or cut off: {reason}") from None
        self._given += len(data)
        if self.codecs and self._given > self._limit:
            raise _endless(self.path, self._limit)
        return data


def _endless(path: Path, limit: int) -> InputError:
    return InputError(f"{path}: unpacks to more than {limit >> 20} MiB", remedy="unpack it first")


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """The bytes of a file, unpacked as often as it is packed."""
    with path.open("rb") as file:
        limit = allowed(path)
        source = Source(file, path)
        for _ in range(_LAYERS):
            found = next((codec for magic, codec in CODECS.items() if source.head.startswith(magic)), None)
            if found is None:
                break
            name, undo = found
            source = Source(undo(Stream(source)), path, (*source.codecs, name), limit)
        yield source


def allowed(path: Path) -> int:
    """Bytes that a file may unpack to."""
    return min(LIMIT, max(SMALL, EXPANSION * path.stat().st_size))


class Stream(io.RawIOBase):
    """A source as a file object for the next layer."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        return self._source.readinto(buffer)


def refuse(head: bytes, path: Path) -> None:
    """Raise InputError for archives that are not opened."""
    for magic, name in REFUSED.items():
        if head.startswith(magic):
            raise InputError(f"{path}: {name}", remedy="unpack it first")


def is_archive(head: bytes) -> bool:
    return head.startswith(ZIP) or head[257:262] == b"ustar"


def temporary() -> Path:
    """A folder that goes when the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="trnprof-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def unpacked(path: Path, source: Source) -> Path:
    """A temporary folder with the files of a zip or tar archive; it goes when the program ends.

    errors : InputError where a name leads out of the archive, or it unpacks to more than is allowed
    """
    folder = temporary()
    left = allowed(path)
    try:
        for number, (name, file) in enumerate(members(path, source)):
            if number >= MEMBERS:
                raise InputError(f"{path}: more than {MEMBERS} members", remedy="unpack it first")
            left -= _put(path, inside(name, path), file, folder, left)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError) as fault:
        raise InputError(f"{path}: the archive is damaged: {fault}") from None
    return folder


def inside(name: str, path: Path) -> PurePosixPath:
    """A member's place below the folder; InputError where its name leads elsewhere."""
    place = PurePosixPath(name.replace("\\", "/"))
    if place.is_absolute() or ".." in place.parts or "\0" in name or (place.parts and place.parts[0].endswith(":")):
        raise InputError(f"{path}: the archive names a path outside itself: {name[:80]!r}")
    return place


def members(path: Path, source: Source) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the regular files."""
    if source.head.startswith(ZIP):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.external_attr >> 28 in (0, 8):
                    with archive.open(member) as file:
                        yield member.filename, file
        return
    with tarfile.open(fileobj=io.BufferedReader(Stream(source), CHUNK), mode="r|") as archive:
        for entry in archive:
            if entry.isreg():
                yield entry.name, archive.extractfile(entry)


def listed(path: Path, source: Source) -> Iterator[tuple[str, int]]:
    """Names and bytes of the regular files of an archive, which are not unpacked."""
    try:
        if source.head.startswith(ZIP):
            with zipfile.ZipFile(path) as archive:
                yield from ((member.filename, member.file_size) for member in archive.infolist()[:MEMBERS])
            return
        with tarfile.open(fileobj=io.BufferedReader(Stream(source), CHUNK), mode="r|") as archive:
            yield from ((entry.name, entry.size) for entry in islice(archive, MEMBERS) if entry.isreg())
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as fault:
        raise InputError(f"{path}: the archive is damaged: {fault}") from None


def _put(path: Path, name: PurePosixPath, file: IO[bytes], folder: Path, left: int) -> int:
    """Write one member and return its bytes."""
    target = folder / name
    written = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            while data := file.read(CHUNK):
                written += len(data)
                if written > left:
                    raise InputError(
                        f"{path}: unpacks to more than {allowed(path) >> 20} MiB", remedy="unpack it first"
                    )
                out.write(data)
    except OSError as fault:
        raise InputError(f"{path}: {name}: cannot be unpacked: {fault.strerror or fault}") from None
    return written
