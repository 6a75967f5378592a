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
from trnprof.readers.wire import BYTES, Damaged, scan

NTFF_HEADER = 128
NEFF_HEADER = 1024
GZIP = b"\x1f\x8b"

_NAME, _UUID, _INSTANCE = 1, 2, 9
_DUMP_LINE = re.compile(rb"^0{8}: ((?:[0-9a-f]{2,4} ){2,8})")
_PRINTABLE = re.compile(rb"[\x20-\x7e]{4,}")


def refuse_capture(head: bytes, path: Path) -> None:
    """Raise InputError with the conversion command when the file is a capture or a compiled program."""
    if is_dump(head):
        raise InputError(
            f"{path}: a hex dump, in text, of a capture: {_listed(undump(head))}", remedy=dump_command(path)
        )
    if is_ntff(head):
        raise InputError(
            f"{path}: a raw capture, which only AWS's tools decode: {_listed(head)}",
            remedy=f"convert it: {command(str(path), path.with_suffix(''))}",
        )
    if is_neff(head):
        names = _names(head)
        raise InputError(
            f"{path}: a compiled program (NEFF{f' {names[-1]}' if names else ''}), not a profile",
            remedy=f"capture and convert it: {neff_command(path)}",
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


def is_dump(head: bytes) -> bool:
    """Whether a file is what xxd prints of a capture."""
    return _DUMP_LINE.match(head) is not None and is_ntff(undump(head))


def dump_command(path: Path) -> str:
    return f"xxd -r {path} > capture.ntff makes it a file again; then {command('capture.ntff', path.parent)}"


def is_neff(head: bytes) -> bool:
    return head[NEFF_HEADER : NEFF_HEADER + 2] == GZIP and int.from_bytes(head[8:16], "little") == NEFF_HEADER


def undump(head: bytes) -> bytes:
    """The bytes of an xxd dump as far as its text goes."""
    words = re.findall(rb"^[0-9a-f]{8}: ((?:[0-9a-f]+ )+)", head, re.MULTILINE)
    digits = b"".join(words).replace(b" ", b"")
    return bytes.fromhex(digits[: len(digits) // 2 * 2].decode())


def ntff_facts(head: bytes) -> dict[str, str]:
    """Version, program and instance as the header names them."""
    found: dict[int, Any] = {}
    for number, value in _protobuf(head[NTFF_HEADER:]):
        found.setdefault(number, value)
    facts = {"NTFF version": str(head[0])}
    if isinstance(found.get(_NAME), bytes):
        facts["NEFF"] = repr(found[_NAME].decode("utf-8", "replace"))
    if isinstance(found.get(_UUID), bytes) and len(found[_UUID]) >= 16:
        facts["NEFF UUID"] = found[_UUID][:16].hex()
    if isinstance(found.get(_INSTANCE), bytes):
        facts["captured on"] = found[_INSTANCE].decode("utf-8", "replace")
    return facts


def neff_facts(head: bytes) -> dict[str, str]:
    """Texts in the header of a compiled program."""
    names = _names(head)
    return {"names in the header": ", ".join(names)} if names else {}


def _names(head: bytes) -> list[str]:
    return [text.decode() for text in _PRINTABLE.findall(head[:NEFF_HEADER])]


def neff_command(path: Path) -> str:
    """What captures and converts a run of a compiled program."""
    return (
        f"neuron-explorer capture -n {path} -s profile.ntff && "
        f"neuron-explorer view -n {path} -s profile.ntff --output-format parquet --output-file DIR"
    )


def _listed(head: bytes) -> str:
    return ", ".join(f"{name} {value}" for name, value in ntff_facts(head).items())


def _protobuf(block: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Top-level fields of a protobuf message until it ends, is cut or makes no sense."""
    try:
        for number, kind, value in scan(block):
            yield number, block[value[0] : value[1]] if kind == BYTES else value
    except Damaged:
        return
