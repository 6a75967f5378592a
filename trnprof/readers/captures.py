"""Raw captures and compiled programs: recognised by content and answered with the command that converts them.

NTFF: 128-byte header (byte 0 the version, bytes 1–7 the length of a protobuf block at 128), then opaque records.
NEFF: 1024-byte header, then a gzip'd tar. Both layouts are read off real files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sim.errors import InputError

NTFF_HEADER = 128
NEFF_HEADER = 1024
GZIP = b"\x1f\x8b"

_NAME, _UUID, _INSTANCE = 1, 2, 9
_DUMP_LINE = re.compile(rb"^0{8}: ((?:[0-9a-f]{2,4} ){2,8})")
_PRINTABLE = re.compile(rb"[\x20-\x7e]{4,}")


def refuse_capture(head: bytes, path: Path) -> None:
    """Raise InputError with the conversion command when the file is a capture or a compiled program."""
    dump = _DUMP_LINE.match(head)
    if dump and is_ntff(undump(head)):
        raise InputError(
            f"{path}: a hex dump, in text, of a capture: {_ntff_facts(undump(head))}",
            remedy=f"xxd -r {path} > capture.ntff makes it a file again; then {command('capture.ntff', path.parent)}",
        )
    if is_ntff(head):
        raise InputError(
            f"{path}: a raw capture, which only AWS's tools decode: {_ntff_facts(head)}",
            remedy=f"convert it: {command(str(path), path.with_suffix(''))}",
        )
    if is_neff(head):
        names = [text.decode() for text in _PRINTABLE.findall(head[:NEFF_HEADER])]
        raise InputError(
            f"{path}: a compiled program (NEFF{f' {names[-1]}' if names else ''}), not a profile",
            remedy=f"capture and convert it: neuron-explorer capture -n {path} -s profile.ntff && "
            f"neuron-explorer view -n {path} -s profile.ntff --output-format parquet --output-file DIR",
        )


def command(ntff: str, folder: Path) -> str:
    """What converts a capture; the older tool writes the JSON that opens here as well."""
    return (
        f"neuron-explorer view -n FILE.neff -s {ntff} --output-format parquet --output-file {folder}"
        f"; with older tools: neuron-profile view -n FILE.neff -s {ntff} --output-format json"
    )


def is_ntff(head: bytes) -> bool:
    if len(head) <= NTFF_HEADER or not 1 <= head[0] <= 32:
        return False
    length = int.from_bytes(head[1:8], "little")
    return 0 < length < 1 << 40 and head[NTFF_HEADER] == _NAME << 3 | 2


def is_neff(head: bytes) -> bool:
    return head[NEFF_HEADER : NEFF_HEADER + 2] == GZIP and int.from_bytes(head[8:16], "little") == NEFF_HEADER


def undump(head: bytes) -> bytes:
    """The bytes of an xxd dump as far as its text goes."""
    words = re.findall(rb"^[0-9a-f]{8}: ((?:[0-9a-f]+ )+)", head, re.MULTILINE)
    digits = b"".join(words).replace(b" ", b"")
    return bytes.fromhex(digits[: len(digits) // 2 * 2].decode())


def _ntff_facts(head: bytes) -> str:
    """Version, program and instance as the header names them."""
    found: dict[int, Any] = {}
    for number, value in _protobuf(head[NTFF_HEADER:]):
        found.setdefault(number, value)
    facts = [f"NTFF version {head[0]}"]
    if isinstance(found.get(_NAME), bytes):
        facts.append(f"NEFF {found[_NAME].decode('utf-8', 'replace')!r}")
    if isinstance(found.get(_UUID), bytes) and len(found[_UUID]) >= 16:
        facts.append(f"NEFF UUID {found[_UUID][:16].hex()}")
    if isinstance(found.get(_INSTANCE), bytes):
        facts.append(f"captured on {found[_INSTANCE].decode('utf-8', 'replace')}")
    return ", ".join(facts)


def _protobuf(block: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Top-level fields of a protobuf message until it ends, is cut or makes no sense."""
    at = 0
    while at < len(block):
        key, at = _varint(block, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(block, at)
            yield key >> 3, value
        elif kind == 2:
            length, at = _varint(block, at)
            if at + length > len(block):
                return
            yield key >> 3, block[at : at + length]
            at += length
        else:
            return


def _varint(block: bytes, at: int) -> tuple[int, int]:
    """A variable-length number and where the next field begins."""
    value = shift = 0
    while at < len(block) and shift < 64:
        value |= (block[at] & 127) << shift
        at += 1
        if block[at - 1] < 128:
            break
        shift += 7
    return value, at
