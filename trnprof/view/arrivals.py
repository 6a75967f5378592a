"""A folder that is looked at again and again while a view is open: its traces, and which are new."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from sim.errors import InputError
from trnprof.view.places import Place, below
from trnprof.watch import Watch

EVERY_S = 1.0
"""Between two looks, at least."""
SPARED = 20
"""Times as long as a look takes nothing is looked at: a large folder costs no more than a twentieth of a processor."""


class Arrivals:
    """The traces of a folder that are whole, as they come.

    clock : seconds
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self._watch, self._clock = Watch(folder, clock=clock), clock
        self._due = clock()
        self._whole: dict[Path, None] = {}
        self._lock = Lock()

    def look(self) -> list[Path]:
        """Traces that have become whole since the last look or were written anew; none before it is due again."""
        if not self._lock.acquire(blocking=False):
            return []
        try:
            began = self._clock()
            if began < self._due:
                return []
            try:
                found = self._watch.poll()
            except InputError:
                self._whole.clear()  # the folder is gone; it may come back
                found = []
            ended = self._clock()
            self._due = ended + max(EVERY_S, SPARED * (ended - began))
            self._whole.update(dict.fromkeys(found))
            for path in [path for path in self._whole if path in self._watch.waiting or not path.exists()]:
                del self._whole[path]
            return found
        finally:
            self._lock.release()

    @property
    def whole(self) -> tuple[Path, ...]:
        """All that can be opened now."""
        return tuple(self._whole)

    @property
    def waiting(self) -> int:
        """Profiles that are there and not whole yet."""
        return len(self._watch.waiting)

    @property
    def places(self) -> tuple[Place, ...]:
        return below(self.folder, self._whole)
