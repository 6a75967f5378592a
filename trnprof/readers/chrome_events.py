"""The events of a Chrome trace file, one by one, whatever is damaged around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

import msgspec

from sim.errors import InputError
from trnprof.readers.chrome_plain import Plain, Quick
from trnprof.readers.receipt import Receipt

PS_PER_US = 1_000_000
EVENTS = "events"
_NESTING = 8
_WINDOW = 1 << 18
"""Bytes that one event may take."""
_RUN = 4096
"""Events decoded at once."""
_DAMAGE = 2000
"""Damaged places after which a file is given up."""

STRING = rb'"(?:[^"\\\n]++|\\.)*+"'


def _nested(depth: int) -> bytes:
    """A pattern of what lies in whole objects and lists, nested up to a depth."""
    inner = rb'[^"{}\[\]]++|' + STRING
    value = inner
    for _ in range(depth):
        value = inner + rb"|\{(?:" + value + rb")*+\}|\[(?:" + value + rb")*+\]"
    return value


NESTED_OBJECT = rb"\{(?:" + _nested(_NESTING) + rb")*+\}"
NESTED_LIST = rb"\[(?:" + _nested(_NESTING) + rb")*+\]"
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_GAP = re.compile(rb"[\s,]*+")
_NEXT = re.compile(rb",\s*(?=\{)")
_NUMBER = re.compile(rb'"?(-?\d{1,30})(?:\.(\d{1,6}))?"?')


@cache
def _object() -> re.Pattern[bytes]:
    """What matches an event; that takes a while to compile, and not all who load this read a Chrome trace."""
    return re.compile(NESTED_OBJECT)


class Event(msgspec.Struct, gc=False):
    """What an event may hold; values of any type, judged where they are used."""

    ph: Any = None
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    id: Any = None
    id2: Any = None
    bp: Any = None
    args: msgspec.Raw = msgspec.Raw(b"")
    e: Any = None


def is_chrome(data: bytes) -> bool:
    """Whether JSON is a Chrome trace: a list, or an object with a list of `traceEvents`."""
    return data[:4096].lstrip()[:1] == b"[" or _LIST.search(data) is not None


def events(data: bytes, path: str, receipt: Receipt) -> Iterator[Event | Plain]:
    """The events in the file's order, plain slices of large files many at once; those that cannot be decoded are set
    aside one by one.

    errors : InputError where hardly anything is whole
    """
    found = _LIST.search(data)
    at = found.end() if found else data.index(b"[") + 1
    run: list[tuple[int, int]] = []
    damage = 0
    quick, match = Quick(data), _object().match
    while True:
        if plain := quick.take(at):
            yield from _decode(data, run, receipt)
            run = []
            receipt.read(EVENTS, len(plain.rows))
            yield plain
            at = plain.end
            continue
        at = _GAP.match(data, at).end()
        if data[at : at + 1] == b"]":
            break
        whole = match(data, at, at + _WINDOW)
        if whole is not None:
            run.append(whole.span())
            at = whole.end()
            if len(run) == _RUN:
                yield from _decode(data, run, receipt)
                run = []
            continue
        if at >= len(data):
            receipt.remark("The file is cut off: the list of events has no end.")
            break
        damage += 1
        if damage > _DAMAGE:
            raise InputError(f"{path}: more than {_DAMAGE} places are not valid JSON, the last at byte {at}")
        receipt.read(EVENTS, 1)
        resume = _NEXT.search(data, at + 1)
        receipt.set_aside(EVENTS, "are cut off" if resume is None else "are not valid JSON")
        if resume is None:
            break
        at = resume.end()
    yield from _decode(data, run, receipt)


def _decode(data: bytes, run: list[tuple[int, int]], receipt: Receipt) -> Iterator[Event]:
    receipt.read(EVENTS, len(run))
    if not run:
        return
    try:
        whole = msgspec.json.decode(b"[%b]" % data[run[0][0] : run[-1][1]], type=list[Event])
    except (msgspec.DecodeError, RecursionError):
        for low, high in run:
            yield from _alone(data[low:high], receipt)
    else:
        yield from whole


def _alone(text: bytes, receipt: Receipt) -> Iterator[Event]:
    try:
        yield msgspec.json.decode(text, type=Event)
    except (msgspec.DecodeError, RecursionError):
        receipt.set_aside(EVENTS, "are not valid JSON")


def picoseconds(raw: msgspec.Raw) -> int | None:
    """A time in µs, number or text, as whole ps; None when it is neither or far beyond 64 bits."""
    text = bytes(raw)
    found = _NUMBER.fullmatch(text)
    if found:
        whole, part = found.groups()
        if part is None:
            return int(whole) * PS_PER_US
        ps = abs(int(whole)) * PS_PER_US + int(part.ljust(6, b"0"))
        return -ps if whole.startswith(b"-") else ps
    try:
        value = Decimal(text.strip(b'"').decode("ascii"))
        return round(value * PS_PER_US) if value.is_finite() and abs(value.adjusted()) < 30 else None
    except (InvalidOperation, ValueError):
        return None
