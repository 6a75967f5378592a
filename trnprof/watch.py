"""New profiles in a folder as they are written: each is told once it is whole, never before.

A profile is a file or a directory with tables anywhere below the folder. It is whole when its bytes have not changed
between two looks that lie `settle_s` apart and its format has come to its end: JSON to its last bracket, Parquet to its
footer, gzip, xz and zip to their checksums, Perfetto to the end of a packet. What has not changed for a minute is not
written to any more and is told as it is.
"""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sim.errors import InputError
from trnprof.readers import unpack
from trnprof.readers.folders import is_table
from trnprof.readers.legacy import stream
from trnprof.readers.perfetto import is_perfetto
from trnprof.readers.wire import Damaged, scan

SETTLE_S = 1.0
TRUSTED_S = 60.0
ENDINGS = (
    ".json",
    ".csv",
    ".pftrace",
    ".perfetto-trace",
    ".trace",
    ".zip",
    ".tar",
    ".tgz",
    ".gz",
    ".xz",
    ".zst",
    ".lz4",
    ".bz2",
)
"""Names of files that may be profiles; others are not looked into."""
_DEPTH = 8
_MOST_FOLDERS = 5_000
"""Folders that are looked into: a watch of a whole home ends."""

Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, number, size and time of change of each file."""


@dataclass(slots=True)
class _Seen:
    stamp: Stamp
    since: float
    told: bool = False
    trusted: bool = False
    reason: str = ""


class Watch:
    """Looks at a folder when it is asked to.

    settle_s : seconds that a profile must not have changed for
    """

    def __init__(
        self, folder: str | Path, settle_s: float = SETTLE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = Path(folder)
        self._settle_s, self._clock = settle_s, clock
        self._seen: dict[Path, _Seen] = {}

    def poll(self) -> list[Path]:
        """Profiles that have become whole since the last look, or were written anew; the oldest first.

        errors : InputError when the folder is not there
        """
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: no such folder")
        now, found = self._clock(), []
        present = dict(_candidates(self.folder, [_MOST_FOLDERS]))
        for path in self._seen.keys() - present.keys():
            del self._seen[path]
        for path, stamp in present.items():
            seen = self._seen.get(path)
            if seen is None or seen.stamp != stamp:
                age = _age(stamp)
                self._seen[path] = seen = _Seen(stamp, now - min(age, TRUSTED_S), trusted=age >= TRUSTED_S)
            if not seen.told and not seen.reason and now - seen.since >= self._settle_s:
                seen.reason = "" if seen.trusted else incomplete(path)
                # Written to while it was looked at: look again later.
                if not seen.reason and _stamp(path) == stamp:
                    seen.told = True
                    found.append(path)
        return sorted(found, key=lambda path: (max(entry[3] for entry in self._seen[path].stamp), path))

    @property
    def waiting(self) -> dict[Path, str]:
        """Profiles that are there and not whole, and why."""
        return {path: seen.reason or "being written" for path, seen in self._seen.items() if not seen.told}


def _candidates(folder: Path, left: list[int], depth: int = 0) -> Iterator[tuple[Path, Stamp]]:
    """What may be a profile, here and below; hidden entries and links are passed by.

    left : folders that may still be looked into, counted down
    """
    left[0] -= 1
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    entries = [entry for entry in entries if not entry.name.startswith(".") and not entry.is_symlink()]
    if any(is_table(entry.name) for entry in entries):
        stamp = _stamp(folder)
        if stamp:
            yield folder, stamp
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir() and depth < _DEPTH and left[0] > 0:
            yield from _candidates(path, left, depth + 1)
        elif entry.is_file() and entry.name.lower().endswith(ENDINGS):
            stamp = _stamp(path)
            if stamp:
                yield path, stamp


def _stamp(path: Path) -> Stamp:
    """Empty when it has gone meanwhile."""
    try:
        files = [path] if path.is_file() else sorted(entry for entry in path.iterdir() if entry.is_file())
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, found.st_ino, found.st_size, found.st_mtime_ns) for name, found in stats)


def _age(stamp: Stamp) -> float:
    """Seconds since the last change of any file."""
    return max(0.0, time.time() - max(changed for *_, changed in stamp) / 1e9)


def incomplete(path: Path) -> str:
    """Why a profile is not whole yet; empty when it is."""
    try:
        return _folder(path) if path.is_dir() else _file(path)
    except InputError as fault:
        return str(fault)
    except OSError as fault:
        return f"{path}: {fault.strerror or fault}"


def _folder(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        try:
            pq.read_metadata(path)
        except (pa.ArrowException, OSError):
            return f"{path}: its footer is not there"
    return ""


def _file(path: Path) -> str:
    """Read a file to its end, a piece at a time."""
    with unpack.opened(path) as source:
        if not source.head:
            return f"{path}: empty"
        if source.head.startswith(unpack.ZIP):
            return "" if zipfile.is_zipfile(path) else f"{path}: its directory is not there"
        if unpack.is_archive(source.head):
            return "" if _last(source).endswith(bytes(1024)) else f"{path}: its end is not there"
        start = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if start == b"{":
            _exhaust(source.read, path)
        elif start == b"[":
            _exhaust(_within_object(source), path)
        elif is_perfetto(source.head):
            return _packets(source.rest(), path)
        elif not _last(source).endswith(b"\n"):
            return f"{path}: its last line has no end"
    return ""


def _packets(data: bytes, path: Path) -> str:
    try:
        for _ in scan(data):
            pass
    except Damaged as fault:
        return f"{path}: {fault}"
    return ""


def _exhaust(read: Callable[[int], bytes], path: Path) -> None:
    for _ in stream.batches(read, str(path)):
        pass


def _within_object(source: unpack.Source) -> Callable[[int], bytes]:
    """A list as the only table of an object, which is what the scanner reads."""
    pieces = _pieces(source)
    return lambda _: next(pieces, b"")


def _pieces(source: unpack.Source) -> Iterator[bytes]:
    yield b'{"":'
    while data := source.read():
        yield data
    yield b"}"


def _last(source: unpack.Source) -> bytes:
    """The last bytes of a file."""
    last = b""
    while data := source.read():
        last = (last + data)[-1024:]
    return last
