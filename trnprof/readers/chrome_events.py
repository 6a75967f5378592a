"""The events of a Chrome trace file, one by one, whatever is damaged around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
LONGEST = 1 << 20
"""Bytes that one plain slice may take."""
STEP = 1 << 20
"""Bytes of a file that are read at once."""
FIRST = 4 << 20
"""Those that are read first, which tell whether it is large."""
_KEY_BYTES = 256
"""More than the name of the list of events, or what stands between two events, takes."""
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


class Window:
    """A part of a file that moves over it from front to back."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.data = b""
        self.passed = 0
        """Bytes of the file before it."""
        self.ended = False
        self.move(0, FIRST)

    def move(self, at: int, least: int = 0) -> None:
        """Begin at what was place `at` of it and read on, until it holds an event and so many bytes."""
        parts = [self.data[at:]]
        self.passed += min(at, len(self.data))
        size, least = len(parts[0]), max(LONGEST, least)
        while not self.ended and (size < least or len(parts) == 1):
            parts.append(self._read(STEP))
            size += len(parts[-1])
            self.ended = not parts[-1]
        self.data = b"".join(parts)

    def short(self, at: int) -> bool:
        """Whether what an event may take does not lie behind a place, though the file goes on."""
        return not self.ended and len(self.data) - at < LONGEST

    def find(self, pattern: re.Pattern[bytes], at: int) -> int | None:
        """The end of a pattern in the window, which moves for it; None where it does not come any more."""
        while True:
            found = pattern.search(self.data, at)
            if found or self.ended:
                return found.end() if found else None
            self.move(max(at, len(self.data) - _KEY_BYTES))
            at = 0


def events(read: Callable[[int], bytes], path: str, receipt: Receipt) -> Iterator[Event | Plain]:
    """The events in the file's order, plain slices of large files many at once; those that cannot be decoded are set
    aside one by one.

    read   : gives the next bytes of the file, at most so many, none at its end
    errors : InputError where hardly anything is whole
    """
    window, quick, match = Window(read), Quick(), _object().match
    start = _GAP.match(window.data).end()
    is_list = window.data[start : start + 1] == b"["
    at = start + 1 if is_list else window.find(_LIST, 0) or 0
    quick.look_at(window.data)
    run: list[tuple[int, int]] = []
    damage = 0
    while True:
        if window.short(at):
            yield from _decode(window.data, run, receipt)
            run = []
            window.move(at)
            quick.look_at(window.data)
            at = 0
        if plain := quick.take(at):
            yield from _decode(window.data, run, receipt)
            run = []
            receipt.read(EVENTS, len(plain.rows))
            yield plain
            at = plain.end
            continue
        at = _GAP.match(window.data, at).end()
        if window.data[at : at + 1] == b"]":
            break
        if window.short(at):
            continue
        whole = match(window.data, at, at + _WINDOW)
        if whole is not None:
            run.append(whole.span())
            at = whole.end()
            if len(run) == _RUN:
                yield from _decode(window.data, run, receipt)
                run = []
            continue
        if at >= len(window.data):
            receipt.remark("The file is cut off: the list of events has no end.")
            break
        yield from _decode(window.data, run, receipt)
        run = []
        damage += 1
        if damage > _DAMAGE:
            at += window.passed
            raise InputError(f"{path}: more than {_DAMAGE} places are not valid JSON, the last at byte {at}")
        receipt.read(EVENTS, 1)
        resume = window.find(_NEXT, at + 1)
        receipt.set_aside(EVENTS, "are cut off" if resume is None else "are not valid JSON")
        if resume is None:
            break
        quick.look_at(window.data)
        at = resume
    yield from _decode(window.data, run, receipt)


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
