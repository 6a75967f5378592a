"""The tables of a JSON object of lists, a piece at a time, so that a file may be larger than memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from sim.errors import InputError
from trnprof.readers.chrome_events import NESTED_LIST, NESTED_OBJECT, STRING

PIECE = 1 << 20
"""Bytes read at once, and about the text of one batch."""
LARGEST = 256 << 20
"""Bytes that one row may take."""

_SPACE = re.compile(rb"[ \t\n\r]*+")
_MORE = re.compile(rb"[ \t\n\r]*+,[ \t\n\r]*+(?=[^\s\]])")


@cache
def _values() -> re.Pattern[bytes]:
    """What matches a value; that takes a tenth of a second to compile, and not all who load this read JSON."""
    return re.compile(NESTED_OBJECT + b"|" + NESTED_LIST + b"|" + STRING + rb'|[^\s,:"{}\[\]]++')


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a table."""

    table: str
    text: bytes
    """A JSON list."""
    rows: int
    at: int
    """Byte of the file at which the text's rows begin."""
    line: int
    whole: bool = True
    """False for a table that is no list: `text` is then a list of that one value."""


def batches(read: Callable[[int], bytes], path: str) -> Iterator[Batch]:
    """The rows of every table in the file's order; InputError says at which byte JSON breaks off."""
    return _Scanner(read, path).batches()


def broken(path: str, message: str, at: int, line: int, cut_off: bool) -> InputError:
    """What is said of JSON that breaks off."""
    return InputError(
        f"{path}: the JSON is {'cut off' if cut_off else 'not valid'} at byte {at} (line {line}): {message}",
        remedy="write it again with neuron-explorer view --output-format json",
    )


class _Scanner:
    """A window that slides over the file."""

    def __init__(self, read: Callable[[int], bytes], path: str) -> None:
        self._read, self._path = read, path
        self._match = _values().match
        self._window = b""
        self._at = 0
        self._dropped = 0
        self._lines = 1
        self._ended = False

    def batches(self) -> Iterator[Batch]:
        if self._peek() != b"{":
            kind = "a Chrome trace or some other list" if self._peek() == b"[" else "no object"
            raise InputError(f"{self._path}: the JSON holds {kind}; a profile is an object of tables")
        self._at += 1
        if self._peek() == b"}":
            self._finish()
            return
        while True:
            table = self._key()
            yield from self._list(table) if self._peek() == b"[" else self._other(table)
            mark = self._peek()
            self._at += 1
            if mark == b"}":
                self._finish()
                return
            if mark != b",":
                self._at -= 1
                self._break_off("Expecting ',' delimiter")

    def _fill(self) -> bool:
        """Read on; False at the end of the file. What lies before the present place is dropped."""
        if self._ended:
            return False
        size = max(PIECE, len(self._window) - self._at)
        more = self._read(size)
        self._ended = not more
        self._lines += self._window.count(b"\n", 0, self._at)
        self._dropped += self._at
        self._window = self._window[self._at :] + more
        self._at = 0
        return bool(more)

    def _peek(self) -> bytes:
        """The next byte that is no space, empty at the end."""
        while True:
            self._at = _SPACE.match(self._window, self._at).end()
            if self._at < len(self._window) or not self._fill():
                return self._window[self._at : self._at + 1]

    def _key(self) -> str:
        if self._peek() != b'"':
            self._break_off("Expecting property name enclosed in double quotes")
        span = self._value()
        name = self._window[slice(*span)].decode("utf-8", "replace")
        self._at = span[1]
        if self._peek() != b":":
            self._break_off("Expecting ':' delimiter")
        self._at += 1
        try:
            return str(json.loads(name, strict=False))
        except ValueError:
            return name

    def _value(self) -> tuple[int, int]:
        """Where the value at the present place lies in the window."""
        self._peek()
        while True:
            found = self._match(self._window, self._at)
            # A number or a word that ends where the window ends may go on behind it.
            if found is not None and (found.end() < len(self._window) or self._ended):
                return found.span()
            if len(self._window) - self._at > LARGEST:
                self._break_off(f"a value of more than {LARGEST >> 20} MiB")
            if len(self._window) - self._at > PIECE:
                span = self._slowly(last=False)
                if span is not None:
                    return span
            if not self._fill():
                found = self._match(self._window, self._at)
                return found.span() if found is not None else self._slowly()

    def _slowly(self, last: bool = True) -> tuple[int, int] | None:
        """A value that is nested deeper than the pattern, or the place at which it breaks off.

        last : nothing follows the window; without it what breaks off is None
        """
        text = self._window[self._at :].decode("utf-8", "replace")
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except json.JSONDecodeError as fault:
            if not last:
                return None
            at = self._at + len(text[: fault.pos].encode())
            cut_off = fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated")
            raise broken(self._path, fault.msg, self._dropped + at, self._line(at), cut_off) from None
        except RecursionError:
            raise InputError(f"{self._path}: the JSON is nested too deeply to be a profile") from None
        return self._at, self._at + len(text[:end].encode())

    def _line(self, at: int) -> int:
        return self._lines + self._window.count(b"\n", 0, at)

    def _list(self, table: str) -> Iterator[Batch]:
        self._at += 1
        if self._peek() == b"]":
            self._at += 1
            return
        while True:
            first, rows = self._at, 0
            start = (self._dropped + first, self._line(first))
            text, rows, more = self._run()
            yield Batch(table, b"[" + text + b"]", rows, *start)
            if not more:
                return

    def _run(self) -> tuple[bytes, int, bool]:
        """The rows that lie in the window, at least one; whether more follow."""
        first, rows = self._at, 0
        end = first
        while True:
            found = self._match(self._window, self._at)
            if found is None or found.end() == len(self._window):
                if rows:
                    return self._window[first:end], rows, True
                span = self._value()
                first = self._at
            else:
                span = found.span()
            rows += 1
            self._at = end = span[1]
            more = _MORE.match(self._window, self._at)
            if more is not None:
                self._at = more.end()
                continue
            text = self._window[first:end]
            return text, rows, self._separator()

    def _separator(self) -> bool:
        """Pass what stands between two rows; whether another row follows."""
        mark = self._peek()
        if mark not in (b",", b"]") or not mark:
            self._break_off("Expecting ',' delimiter")
        self._at += 1
        if mark == b",":
            self._peek()
        return mark == b","

    def _other(self, table: str) -> Iterator[Batch]:
        low, high = self._value()
        yield Batch(table, b"[" + self._window[low:high] + b"]", 1, self._dropped + low, self._line(low), False)
        self._at = high

    def _finish(self) -> None:
        if self._peek():
            self._break_off("Extra data")

    def _break_off(self, message: str) -> NoReturn:
        cut_off = self._ended and self._at >= len(self._window)
        raise broken(self._path, message, self._dropped + self._at, self._line(self._at), cut_off)


def value_of(batch: Batch) -> Any:
    """The value of a table that is no list, None where it is none."""
    try:
        return json.loads(batch.text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None
