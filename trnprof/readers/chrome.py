"""Chrome's JSON trace format, as PyTorch (Kineto), JAX (XProf), VizTracer and browsers write it.

Source: "Trace Event Format" (Google). Times are µs. Slices (X, B/E), asynchronous slices (b/e/n, S/F), instants (i, I,
R), counters (C), flows (s, t, f) and names (M) have a place in the trace; other events are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import msgspec

from sim.trace import Meta, Trace
from trnprof.jit.chrome import CATEGORY, LENGTH, NAME, START
from trnprof.readers.chrome_events import EVENTS, Event, events, picoseconds
from trnprof.readers.chrome_plain import Plain
from trnprof.readers.legacy.rows import storable
from trnprof.readers.receipt import Receipt, total
from trnprof.readers.timeline import COUNTERS, FLOWS, SLICES, Timeline, track_name

LANE_OF = "lane_of"
"""A metadata event that says of which thread a thread continues the overlapping slices; other viewers ignore it."""

NOTHING = msgspec.Raw(b"")
NO_TIME = "have no time"
_KNOWN = frozenset("XBEbenSFTpiIRCstfM")

_AT_ONCE = frozenset("XiIRC")
"""Phases that need no other event; the others wait until all are known and sorted."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A slice that has begun."""

    row: int
    start: int
    event: Event


def read(read: Callable[[int], bytes], path: str) -> Trace:
    """The trace of a Chrome trace file.

    read : gives the next bytes of the file, at most so many, none at its end;  path : for messages
    """
    receipt = Receipt()
    reader = _Reader(Timeline(receipt))
    timed: list[tuple[int, Event]] = []
    texts: dict[str, str] = {}
    for event in events(read, path, receipt):
        if isinstance(event, Plain):
            receipt.show(EVENTS, len(event.rows))
            reader.plain(event)
            continue
        phase = event.ph if isinstance(event.ph, str) else ""
        if phase == "M":
            receipt.show(EVENTS, 1)
            reader.label(event)
        elif not phase:
            receipt.set_aside(EVENTS, "have no phase")
        elif phase not in _KNOWN:
            receipt.show(EVENTS, 1)
            receipt.leave(f"events of phase {phase[:8]!r}", 1)
        else:
            receipt.show(EVENTS, 1)
            time = picoseconds(event.ts)
            if time is None:
                reader.refuse(phase, NO_TIME)
            elif phase in _AT_ONCE:
                reader.take(time, event)
            else:
                timed.append((time, slimmed(event, texts)))
    timed.sort(key=lambda pair: pair[0])
    for time, event in timed:
        reader.take(time, event)
    reader.finish(timed)
    return reader.timeline.trace(Meta(False, "unknown", path, tool="Chrome trace"), EVENTS)


def slimmed(event: Event, texts: dict[str, str]) -> Event:
    """An event that waits, without its time and without a hold on the part of the file that it was decoded from.

    texts : one object for each text of all that wait
    """
    event.ts = event.dur = NOTHING
    event.args = event.args.copy() if event.args else NOTHING
    for field in ("ph", "name", "cat", "pid", "tid", "id"):
        value = getattr(event, field)
        if type(value) is str:
            setattr(event, field, texts.setdefault(value, value))
    return event


class _Reader:
    """Pairs beginnings with ends, and puts every event where it belongs."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.receipt = timeline.receipt
        self._process: dict[str, str] = {}
        self._thread: dict[tuple[str, str], str] = {}
        self._lanes: dict[tuple[str, str], str] = {}
        self._stacks: dict[Hashable, list[_Open]] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self._numbered: dict[int, int] = {}
        """Slices by their own number, which flows of ours name; times alone leave nested slices in doubt."""
        self._async: dict[str, tuple[str, str]] = {}
        self._actions: dict[str, Callable[[int, Event], None]] = {
            "X": self._whole,
            "B": lambda time, event: self._begin(time, event, self._place(event), self._place(event)),
            "E": lambda time, event: self._end(time, self._place(event)),
            "C": self._count,
            **dict.fromkeys("iIR", self._instant),
            **dict.fromkeys("bS", self._begin_async),
            **dict.fromkeys("eF", lambda time, event: self._end(time, _identity(event))),
            **dict.fromkeys("nTp", self._instant_async),
        }

    def refuse(self, phase: str, reason: str) -> None:
        table = COUNTERS if phase == "C" else FLOWS if phase in "stf" else SLICES
        self.receipt.read(table, 1)
        self.receipt.set_aside(table, reason)

    def plain(self, run: Plain) -> None:
        """Take many complete slices at once."""
        self.receipt.read(SLICES, len(run.rows))
        self.receipt.read_time(SLICES, total(run.rows[:, LENGTH]))
        code, start = self.timeline.strings.code, run.rows[:, START]
        codes = {
            "track": run.tracks(lambda pid, tid: code(self._place_of(pid, tid))),
            "name": run.texts(NAME, code),
            "category": run.texts(CATEGORY, lambda text: code(text or None)),
            "args": run.args(self.timeline.block, lambda raw: code(_args(msgspec.Raw(raw)))),
        }
        self.timeline.slices(codes, start, start + run.rows[:, LENGTH])

    def label(self, event: Event) -> None:
        """Take the name of a process or a thread."""
        args = _object(event.args)
        pid, tid = _key(event.pid), _key(event.tid)
        name = args.get("name")
        if event.name == "process_name" and isinstance(name, str):
            self._process[pid] = storable(name)
        elif event.name == "thread_name" and isinstance(name, str):
            self._thread[pid, tid] = storable(name)
        elif event.name == LANE_OF:
            self._lanes[pid, tid] = _key(args.get("tid"))

    def take(self, time: int, event: Event) -> None:
        action = self._actions.get(event.ph)
        if action is not None:
            action(time, event)

    def finish(self, timed: list[tuple[int, Event]]) -> None:
        """Give the tracks their names, then bind the flows."""
        for stack in self._stacks.values():
            for begun in stack:
                self.timeline.leave_open(begun.row)
        flows = [(time, event) for time, event in timed if event.ph in ("s", "t", "f")]
        finder = self.timeline.finder() if flows else None
        for time, event in flows:
            self._flow(time, event, finder)
        self.timeline.name_tracks(self._names())

    def _place(self, event: Event) -> str:
        """The track of an event's thread, by numbers until names are known."""
        return self._place_of(_key(event.pid), _key(event.tid))

    def _place_of(self, pid: str, tid: str) -> str:
        tid = self._lanes.get((pid, tid), tid)
        key = f"thread\0{pid}\0{tid}"
        self._places[key] = (pid, tid)
        return key

    def _slice(self, time: int, end: int | None, event: Event, track: str) -> int:
        self.receipt.read(SLICES, 1)
        if end is not None:
            self.receipt.read_time(SLICES, end - time)
        return self.timeline.slice(track, _text(event.name), time, time if end is None else end,
                                   _text(event.cat), _args(event.args))  # fmt: skip

    def _whole(self, time: int, event: Event) -> None:
        took = picoseconds(event.dur)
        if took is None or took < 0:
            self.refuse("X", "have no duration" if took is None else "end before they start")
        else:
            row = self._slice(time, time + took, event, self._place(event))
            if type(event.id) is int:
                self._numbered[event.id] = row

    def _instant(self, time: int, event: Event) -> None:
        self._slice(time, time, event, self._place(event))

    def _begin(self, time: int, event: Event, track: str, key: Hashable) -> None:
        row = self._slice(time, None, event, track)
        self._stacks.setdefault(key, []).append(_Open(row, time, event))

    def _end(self, time: int, key: Hashable) -> None:
        stack = self._stacks.get(key)
        if not stack:
            self.refuse("E", "end what never began")
            return
        begun = stack.pop()
        self.timeline.span(begun.row, begun.start, time)
        self.receipt.read_time(SLICES, time - begun.start)

    def _begin_async(self, time: int, event: Event) -> None:
        self._begin(time, event, self._async_place(event), _identity(event))

    def _instant_async(self, time: int, event: Event) -> None:
        self._slice(time, time, event, self._async_place(event))

    def _async_place(self, event: Event) -> str:
        """The track that an asynchronous slice shares with those of its name, or with the slice around it."""
        around = self._stacks.get(_identity(event))
        pid, name = _key(event.pid), _text((around[0].event if around else event).name)
        key = f"async\0{pid}\0{name}"
        self._async[key] = (pid, name)
        return key

    def _count(self, time: int, event: Event) -> None:
        pid, name = _key(event.pid), _text(event.name) + (f"[{_key(event.id)}]" if event.id is not None else "")
        series = _object(event.args)
        if not series:
            self.refuse("C", "have no value")
        for part, value in series.items():
            number = _number(value)
            self.receipt.read(COUNTERS, 1)
            if number is None:
                self.receipt.set_aside(COUNTERS, "have a value that is not a number")
                continue
            plain = part in ("value", name) and len(series) == 1
            counter = name if plain else f"{name} {storable(part)}"
            key = f"count\0{pid}\0{counter}"
            self._async[key] = (pid, counter)
            self.timeline.count(key, time, number)

    def _flow(self, time: int, event: Event, finder: Any) -> None:
        self.receipt.read(FLOWS, 1)
        track, last = self._place(event), event.ph == "f"
        follows = last and event.bp != "e"
        number = _object(event.args).get("slice") if self._numbered else None
        row = self._numbered.get(number) if type(number) is int else None
        if row is None and follows:
            row = finder.following(track, time)
        row = finder.enclosing(track, time) if row is None else row
        if row is None:
            self.receipt.set_aside(FLOWS, "lie in no slice")
        else:
            self.timeline.point(("flow", _text(event.cat), _text(event.name), _key(event.id)), row, time, last)

    def _names(self) -> dict[str, str]:
        """What people call each track; threads of one name are told apart by their number."""
        names: dict[str, str] = {}
        numbers: dict[str, str] = {}
        taken: set[str] = set()
        for key, (pid, tid) in self._places.items():
            name = track_name(self._process_name(pid), self._thread.get((pid, tid), f"thread {tid}"))
            numbers[key] = f"{name} ({pid}.{tid})"
            names[key] = numbers[key] if name in taken else name
            taken.add(names[key])
        return names | {key: track_name(self._process_name(pid), name) for key, (pid, name) in self._async.items()}

    def _process_name(self, pid: str) -> str:
        return self._process.get(pid, f"process {pid}")


def _identity(event: Event) -> Hashable:
    """What the beginning and the end of an asynchronous slice share."""
    local = event.id2.get("local") if isinstance(event.id2, dict) else None
    number = event.id2.get("global") if isinstance(event.id2, dict) and local is None else event.id
    return ("async", _text(event.cat), _key(number if local is None else local), _key(event.pid) if local else "")


def _key(value: Any) -> str:
    return storable(value) if isinstance(value, str) else str(value)[:200] if value is not None else "0"


def _text(value: Any) -> str:
    return storable(value) if isinstance(value, str) else "" if value is None else str(value)[:200]


def _args(raw: msgspec.Raw) -> str | None:
    """The arguments as JSON without spaces; those that are no object under the name `args`."""
    if bytes(raw) in (b"", b"{}", b"null"):
        return None
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return storable(bytes(raw).decode("utf-8", "replace"))
    return msgspec.json.encode(value if isinstance(value, dict) else {"args": value}).decode() if value else None


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw) if bytes(raw) else None
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None
