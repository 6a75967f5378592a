"""The traces that a server shows, each opened once and kept while it is in use."""

from __future__ import annotations

import re
import shutil
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock, Timer

from sim.errors import InputError
from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.arrivals import Arrivals
from trnprof.view.places import Place, holds_several, only_trace, recent, remember

AFTERWARDS = 1.0
"""Seconds after which that is loaded which the first picture did without."""

KEPT = 8
"""Open traces; the one not asked for longest is closed."""

SUPPOSED = "@"
"""Stands between the name of a trace and the settings of a what-if of it: `attention@hbm_bw=2x,clock=1.2x`."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


SENT = 8
"""Files that were sent and are kept; the oldest is forgotten."""
LONGEST = 100
"""Characters of the name of a file that was sent."""
BY_PATH = "open it by its path: trnprof web FILE"


def _write(path: Path, parts: Iterable[bytes], most: int) -> None:
    size = 0
    with path.open("wb") as file:
        for part in parts:
            size += len(part)
            if size > most:
                raise InputError(f"{path.name}: larger than {words.size(most)}", remedy=BY_PATH)
            file.write(part)


class Library:
    """Traces by the name that addresses carry.

    code : show source files that they name; others than this machine's users must not see them
    """

    def __init__(self, paths: Sequence[str | Path], kept: int = KEPT, code: bool = True, memory: Path | None = None):
        """memory : the file that remembers what was opened last"""
        self.paths: dict[str, Path] = {}
        self._given: set[str] = set()
        """Names are never given twice: an address must not come to mean another trace."""
        self._sent: dict[str, weakref.finalize] = {}
        self.memory = memory
        self._followed: list[Arrivals] = []
        self.arrived: list[str] = []
        """Names in the order in which they came or were written anew."""
        self._kept = kept
        self._code = code
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        for path in map(Path, paths):
            self._serve(path)
        self.look()

    def _serve(self, path: Path) -> None:
        """A trace; or what is in a folder and what will be."""
        only: Path | None = path
        if holds_several(path):
            self._followed.append(Arrivals(path))
            only = only_trace(path)
        if only is not None:
            self.paths[self._name(path)] = only

    def look(self) -> None:
        """Serve what has been written into the folders that are followed; at most once a second."""
        for folder in self._followed:
            for path in sorted(folder.look()):
                self._arrive(path)

    def _arrive(self, path: Path) -> None:
        """Serve a trace under a name of its own, or anew under the one that it has."""
        with self._lock:
            name = next((name for name, served in self.paths.items() if served == path), "") or self._name(path)
            for opened in [opened for opened in self._open if opened.partition(SUPPOSED)[0] == name]:
                del self._open[opened]
            self.paths.setdefault(name, path)
            self.arrived.append(name)

    @property
    def followed(self) -> tuple[Path, ...]:
        """Folders that are looked at again and again."""
        return tuple(folder.folder for folder in self._followed)

    @property
    def waiting(self) -> int:
        """Profiles in them that are not whole yet."""
        return sum(folder.waiting for folder in self._followed)

    def _name(self, path: Path) -> str:
        stem = _UNSAFE.sub("-", path.stem or path.name).strip("-.") or "trace"
        name, n = stem, 1
        while name in self._given:
            n += 1
            name = f"{stem}-{n}"
        self._given.add(name)
        return name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.paths)

    @property
    def local(self) -> bool:
        """Whether only users of this machine ask, who may name its files."""
        return self._code

    def add(self, path: Path) -> str:
        """Serve another trace of this machine; its name. raises : InputError where there is none"""
        if not self._code:
            raise InputError("files of this machine are opened by its own users only", remedy="send the file")
        if not path.exists():
            raise InputError(f"{path}: no such trace")
        with self._lock:
            for each in (path.resolve(), path):
                known = next((name for name, served in self.paths.items() if served == each), None)
                if known is not None:
                    return known
            name = self._name(path)
            self.paths[name] = path
            return name

    def take(self, title: str, parts: Iterable[bytes], most: int) -> str:
        """Keep a file that was sent, on disk for as long as the server runs; the name by which it is served.

        raises : InputError for one of more than `most` bytes
        """
        folder = mkdtemp(prefix="trnprof-")
        remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / (_UNSAFE.sub("-", title)[-LONGEST:].strip("-.") or "trace")
        try:
            _write(path, parts, most)
        except BaseException:
            remove()
            raise
        with self._lock:
            name = self._name(path)
            self.paths[name] = path
            self._sent[name] = remove
            while len(self._sent) > SENT:
                self._forget(next(iter(self._sent)))
        return name

    def _forget(self, name: str) -> None:
        self._sent.pop(name)()
        self.paths.pop(name, None)
        self._open.pop(name, None)

    def recent(self) -> tuple[Place, ...]:
        """What was opened last on this machine."""
        return recent(self.memory) if self.memory is not None and self._code else ()

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
            session = Session.open(self.paths[base])
            if self.memory is not None and base not in self._sent:
                remember(self.memory, self.paths[base])
            return session
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
