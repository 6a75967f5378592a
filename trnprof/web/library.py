"""The traces that a server shows, each opened once and kept while it is in use."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock, Timer

from sim.errors import InputError
from trnprof.view import Session

AFTERWARDS = 1.0
"""Seconds after which that is loaded which the first picture did without."""

KEPT = 8
"""Open traces; the one not asked for longest is closed."""

SUPPOSED = "@"
"""Stands between the name of a trace and the settings of a what-if of it: `attention@hbm_bw=2x,clock=1.2x`."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class Library:
    """Traces by the name that addresses carry.

    code : show source files that they name; others than this machine's users must not see them
    """

    def __init__(self, paths: Sequence[str | Path], kept: int = KEPT, code: bool = True):
        self.paths: dict[str, Path] = {}
        for path in map(Path, paths):
            self.paths[self._name(path)] = path
        self._kept = kept
        self._code = code
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()
        self._locks = {name: Lock() for name in self.paths}

    def _name(self, path: Path) -> str:
        stem = _UNSAFE.sub("-", path.stem or path.name).strip("-.") or "trace"
        name, n = stem, 1
        while name in self.paths:
            n += 1
            name = f"{stem}-{n}"
        return name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.paths)

    def session(self, name: str) -> Session:
        """The trace of that name; raises InputError for a name that is not served or a file that cannot be read."""
        base, _, settings = name.partition(SUPPOSED)
        if base not in self.paths:
            raise InputError(
                f"{name}: no trace of that name is open", remedy=f"open are {', '.join(self.paths) or 'none'}"
            )
        with self._locks[base]:
            found = self._get(name)
            if found is None:
                found = self._opened(base, settings)
                self._keep(name, found)
                later = Timer(AFTERWARDS, found.prepare)
                later.daemon = True
                later.start()
            return found

    def _opened(self, base: str, settings: str) -> Session:
        """The trace, or what a what-if makes of it."""
        if not settings:
            return Session.open(self.paths[base])
        session = self._get(base)
        if session is None:
            session = Session.open(self.paths[base])
            self._keep(base, session)
        wished = session.suppositions(settings.replace(",", " "))
        return session.supposed(wished[0])

    def _get(self, name: str) -> Session | None:
        with self._lock:
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)

    def _keep(self, name: str, session: Session) -> None:
        session.reads_code = self._code
        with self._lock:
            self._open[name] = session
            while len(self._open) > self._kept:
                self._open.popitem(last=False)
