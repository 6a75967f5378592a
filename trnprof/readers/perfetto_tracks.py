"""The tracks of a Perfetto trace: what they are called and what their counters count in."""

from __future__ import annotations

from dataclasses import dataclass

from trnprof.readers import perfetto_fields as pb
from trnprof.readers.perfetto_sequences import first, text
from trnprof.readers.timeline import track_name
from trnprof.readers.wire import Fields, message, signed

_DEPTH = 32


@dataclass(frozen=True, slots=True)
class _Track:
    name: str
    parent: int
    process: bool = False
    thread: tuple[int, int] | None = None
    scale: float = 1.0
    adds: bool = False


class Tracks:
    """Descriptors by uuid; a later one overrides."""

    def __init__(self) -> None:
        self._by_uuid: dict[int, _Track] = {}
        self._process_names: dict[int, str] = {}

    def add(self, fields: Fields) -> None:
        name = text(fields, pb.Track.NAME) or text(fields, pb.Track.STATIC_NAME)
        parent, uuid = first(fields, pb.Track.PARENT, 0), first(fields, pb.Track.UUID, 0)
        process, thread = (first(fields, number, b"") for number in (pb.Track.PROCESS, pb.Track.THREAD))
        counter = message(first(fields, pb.Track.COUNTER, b""))
        if thread:
            who = message(thread)
            pid, tid = (signed(first(who, number, 0)) for number in (pb.Thread.PID, pb.Thread.TID))
            name = text(who, pb.Thread.NAME) or name or f"thread {tid}"
            self._by_uuid[uuid] = _Track(name, parent, thread=(pid, tid))
        elif pb.Track.PROCESS in fields:
            who = message(process)
            pid = signed(first(who, pb.Process.PID, 0))
            name = text(who, pb.Process.NAME) or name or f"process {pid}"
            self._process_names[pid] = name
            self._by_uuid[uuid] = _Track(name, parent, process=True)
        else:
            scale = float(first(counter, pb.Counter.MULTIPLIER, 0) or 1)
            adds = bool(first(counter, pb.Counter.INCREMENTAL, 0))
            unnamed = pb.Track.NAME not in fields and pb.Track.STATIC_NAME not in fields
            self._by_uuid[uuid] = _Track(f"track {uuid}" if unnamed else name, parent, scale=scale, adds=adds)

    def counter(self, uuid: int) -> tuple[float, bool]:
        """What values are multiplied by, and whether they are differences."""
        track = self._by_uuid.get(uuid)
        return (track.scale, track.adds) if track else (1.0, False)

    def names(self) -> dict[int, str]:
        """Every track's full name; threads of one name are told apart by their number, others share a track."""
        names: dict[int, str] = {}
        taken: dict[str, tuple[int, int]] = {}
        for uuid, track in self._by_uuid.items():
            name = self._path(uuid)
            if track.thread is not None and taken.setdefault(name, track.thread) != track.thread:
                name = f"{name} ({track.thread[0]}.{track.thread[1]})"
            names[uuid] = name
        return names

    def _path(self, uuid: int, depth: int = 0) -> str:
        track = self._by_uuid[uuid]
        if track.thread is not None:
            return track_name(self._process_names.get(track.thread[0], f"process {track.thread[0]}"), track.name)
        if track.parent not in self._by_uuid or track.parent == uuid or depth > _DEPTH:
            return track.name
        return track_name(self._path(track.parent, depth + 1), track.name)
