"""Protobuf's wire format: enough to read and write traces.

Source: "Encoding", Protocol Buffers documentation. A message is a row of fields; a field is its number, its wire type
(0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes) and a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5

Fields = dict[int, list[Any]]
"""Values of a message by field number: int for wire types 0, 1 and 5, bytes for 2."""


class Damaged(ValueError):
    """The bytes are not a message; says at which one."""


def scan(data: bytes, at: int = 0, stop: int | None = None) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and value of each field between two bytes; a `bytes` value is its (start, stop) in the data.

    errors : Damaged where a field is cut off or its wire type unknown
    """
    end = len(data) if stop is None else stop
    while at < end:
        key, at = varint(data, at, end)
        kind, value = key & 7, 0
        if kind == VARINT:
            value, at = varint(data, at, end)
        elif kind == BYTES:
            length, at = varint(data, at, end)
            if at + length > end:
                raise Damaged(f"a field of {length} bytes is cut off at byte {end}")
            value, at = (at, at + length), at + length
        elif kind in (EIGHT, FOUR):
            size = 8 if kind == EIGHT else 4
            if at + size > end:
                raise Damaged(f"a field of {size} bytes is cut off at byte {end}")
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        else:
            raise Damaged(f"wire type {kind} before byte {at}")
        if key < 8:
            raise Damaged(f"field number 0 before byte {at}")
        yield key >> 3, kind, value


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A variable-length number and where what follows begins."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise Damaged(f"a number of more than ten bytes before byte {at}")
    raise Damaged(f"a number is cut off at byte {at}")


def message(data: bytes) -> Fields:
    """All fields of a message."""
    found: Fields = {}
    for number, kind, value in scan(data):
        found.setdefault(number, []).append(data[value[0] : value[1]] if kind == BYTES else value)
    return found


def signed(value: int) -> int:
    """A varint or eight bytes as int64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: int) -> float:
    """Eight bytes as float64."""
    return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])


def put_varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_int(number: int, value: int) -> bytes:
    return put_varint(number << 3 | VARINT) + put_varint(value)


def put_bytes(number: int, value: bytes) -> bytes:
    return put_varint(number << 3 | BYTES) + put_varint(len(value)) + value


def put_text(number: int, value: str) -> bytes:
    return put_bytes(number, value.encode("utf-8", "replace"))


def put_fixed(number: int, value: int) -> bytes:
    return put_varint(number << 3 | EIGHT) + value.to_bytes(8, "little")


def put_double(number: int, value: float) -> bytes:
    return put_varint(number << 3 | EIGHT) + struct.pack("<d", value)
