"""Long questions beside the page: begun, looked at while they run, cancelled."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.errors import TrnprofError
from trnprof.view.interruptible import Cancelled, Interruptible

log = logging.getLogger("trnprof.web")

KEPT = 32
"""Jobs that are remembered, the oldest forgotten first."""
AT_ONCE = 4
"""Jobs that run at the same time; one more is refused."""


@dataclass(slots=True)
class Job:
    """Several runs of one question."""

    runs: Sequence[Callable[[], Any]]
    began: float = field(default_factory=time.monotonic)
    took: float | None = None
    found: list[Any] = field(default_factory=list)
    error: str = ""
    control: Interruptible = field(default_factory=Interruptible)

    @property
    def cancelled(self) -> bool:
        return self.control.cancelled

    @property
    def over(self) -> bool:
        return self.took is not None

    def state(self) -> dict[str, Any]:
        """How far it is, and what it has found so far."""
        return {
            "done": len(self.found),
            "total": len(self.runs),
            "seconds": round(self.took if self.took is not None else time.monotonic() - self.began, 1),
            "over": self.over,
            "cancelled": self.cancelled,
            "error": self.error,
            "found": list(self.found),
        }

    def work(self) -> None:
        """One run after another, until the last or until it is cancelled."""
        try:
            for run in self.runs:
                self.found.append(self.control.run(run))
        except Cancelled:
            log.info("a job was cancelled after %d of %d runs", len(self.found), len(self.runs))
        except (TrnprofError, OSError) as fault:
            self.error = str(fault)
        except Exception as fault:
            log.exception("a job failed")
            self.error = f"{type(fault).__name__}: {fault}"
        finally:
            self.took = time.monotonic() - self.began


class Jobs:
    """The jobs of one server."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self, runs: Sequence[Callable[[], Any]]) -> str | None:
        """Start a job and return its number, None when too many run."""
        job = Job(runs)
        with self._lock:
            if sum(not other.over for other in self._jobs.values()) >= AT_ONCE:
                return None
            number = str(next(self._numbers))
            self._jobs[number] = job
            while len(self._jobs) > KEPT:
                self._jobs.popitem(last=False)
        threading.Thread(target=job.work, daemon=True).start()
        return number

    def get(self, number: str) -> Job | None:
        with self._lock:
            return self._jobs.get(number)

    def cancel(self, number: str) -> Job | None:
        """Give up the run that is under way, and begin no further one."""
        job = self.get(number)
        if job is not None and not job.over:
            job.control.cancel()
        return job
