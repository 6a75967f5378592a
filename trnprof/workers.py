"""The same function over many items, on this machine or over a Dask or Ray cluster."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sim.errors import TrnprofError, UnsupportedError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int, int | None], None]
"""Told after each result how many there are and, where it is known, of how many."""

ENGINES = ("local", "dask", "ray")
AHEAD = 2
"""Items in flight for each worker, so that none waits for the next."""
RETRIES = 2


class LostError(TrnprofError):
    """An item that loses every worker that takes it."""

    def __init__(self, item: int, tries: int, fault: BaseException):
        self.item = item
        """Its index."""
        what = f"item {item}: its worker was lost {tries} times ({type(fault).__name__})"
        super().__init__(what, remedy="it may need more memory than a worker has")


class Pool(Protocol):
    """Workers, and what it means that one was lost."""

    width: int
    """Items that may be in flight."""
    lost: tuple[type[BaseException], ...]
    """What asking for the result of a lost worker raises."""

    def submit(self, function: Callable[[Any], Any], item: Any) -> Any: ...

    def finished(self, tickets: list[Any]) -> list[Any]:
        """Those of the tickets that are done, at least one."""

    def result(self, ticket: Any) -> Any:
        """raises : what the function raised, or one of `lost`"""

    def renew(self) -> None:
        """Make the pool whole after a loss; tickets given before are void where it says so by raising `lost`."""


@dataclass(frozen=True, slots=True)
class _Task:
    index: int
    item: Any
    tries: int = 0


def map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    engine: str = "local",
    address: str | None = None,
    *,
    workers: int | None = None,
    retries: int = RETRIES,
    progress: Progress | None = None,
) -> Iterator[tuple[int, Result]]:
    """Index and result of each item, as they come; items are taken up no faster than they are worked on.

    function : importable by name, as are its items and results picklable
    engine   : local, processes of this machine; dask or ray, a cluster
    address  : of the cluster's scheduler (`tcp://host:8786`, `ray://host:10001`); without it one of this machine
    workers  : on this machine, its processors when None; with one and `local` the items are worked on here, in order
    retries  : how often an item is tried again whose worker was lost
    errors   : what the function raises, at once; LostError for an item that keeps losing its workers;
               UnsupportedError where the engine is not installed
    """
    if engine not in ENGINES:
        raise UsageError(f"engine {engine}: there are {', '.join(ENGINES)}")
    if engine == "local" and address is not None:
        raise UsageError(f"address {address}: the local engine has none", remedy="name --engine dask or ray")
    if workers is not None and workers < 1:
        raise UsageError(f"workers {workers}: at least one")
    total = len(items) if hasattr(items, "__len__") else None
    tell = progress or _silent
    if engine == "local" and (workers or processors()) == 1:
        return _here(function, items, total, tell)
    return _there(_OPENERS[engine](workers or processors(), address), function, items, (retries, total, tell))


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _silent(done: int, total: int | None) -> None:
    pass


def _here(function: Callable, items: Iterable, total: int | None, tell: Progress) -> Iterator[tuple[int, Any]]:
    for index, item in enumerate(items):
        answer = function(item)
        tell(index + 1, total)
        yield index, answer


def _there(
    opened: AbstractContextManager[Pool],
    function: Callable,
    items: Iterable,
    terms: tuple[int, int | None, Progress],
) -> Iterator[tuple[int, Any]]:
    """Keep a pool busy; what was in flight beside a lost worker goes alone, so that the item at fault shows itself."""
    retries, total, tell = terms
    fresh = (_Task(index, item) for index, item in enumerate(items))
    again: deque[_Task] = deque()
    flying: dict[Any, _Task] = {}
    done = 0
    with opened as pool:
        while True:
            width = 1 if again or any(task.tries for task in flying.values()) else pool.width
            while len(flying) < width and (task := again.popleft() if again else next(fresh, None)) is not None:
                flying[_submitted(pool, function, task.item)] = task
            if not flying:
                return
            for ticket in pool.finished(list(flying)):
                task = flying.pop(ticket)
                try:
                    answer = pool.result(ticket)
                except pool.lost as fault:
                    again.append(_again(task, retries, fault))
                    pool.renew()
                    continue
                done += 1
                tell(done, total)
                yield task.index, answer


def _submitted(pool: Pool, function: Callable, item: Any) -> Any:
    """A ticket; a pool that broke since it was last looked at is made whole first."""
    try:
        return pool.submit(function, item)
    except pool.lost:
        pool.renew()
        return pool.submit(function, item)


def _again(task: _Task, retries: int, fault: BaseException) -> _Task:
    if task.tries >= retries:
        raise LostError(task.index, task.tries + 1, fault) from fault
    return _Task(task.index, task.item, task.tries + 1)


class _Processes:
    """Processes of this machine, joblib's: a script that starts them needs no guard around its main part."""

    def __init__(self, workers: int, address: None):
        from concurrent.futures.process import BrokenProcessPool

        self.width = AHEAD * workers
        self.lost = (BrokenProcessPool,)
        self._workers = workers

    def __enter__(self) -> _Processes:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What is still in flight when the caller has had enough is nobody's any more.
        self._pool.shutdown(wait=True, kill_workers=kind is not None)

    def submit(self, function: Callable, item: Any) -> Any:
        return self._pool.submit(function, item)

    def finished(self, tickets: list[Any]) -> list[Any]:
        from concurrent.futures import FIRST_COMPLETED, wait

        return list(wait(tickets, return_when=FIRST_COMPLETED).done)

    def result(self, ticket: Any) -> Any:
        return ticket.result()

    def _begin(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        self._pool = ProcessPoolExecutor(self._workers)

    def renew(self) -> None:
        """Every ticket of a pool that broke raises, and asks for this: the first of them gets a new one."""
        try:
            self._pool.submit(int)
        except self.lost:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._begin()


class _Dask:
    """A Dask cluster, of this machine without an address."""

    def __init__(self, workers: int, address: str | None):
        try:
            from distributed import KilledWorker
        except ImportError:
            raise UnsupportedError("engine dask needs Dask", remedy="pip install 'trnprof[dask]'") from None
        self.lost = (KilledWorker,)
        self._workers = workers
        self._address = address

    def __enter__(self) -> _Dask:
        from distributed import Client, LocalCluster

        self._cluster = None
        if self._address is None:
            self._cluster = LocalCluster(
                n_workers=self._workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
            )
        self._client = Client(self._cluster or self._address)
        self.width = AHEAD * max(1, sum(self._client.nthreads().values()))
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def submit(self, function: Callable, item: Any) -> Any:
        return self._client.submit(function, item, pure=False)

    def finished(self, tickets: list[Any]) -> list[Any]:
        from distributed import wait

        return list(wait(tickets, return_when="FIRST_COMPLETED").done)

    def result(self, ticket: Any) -> Any:
        answer = ticket.result()
        ticket.release()
        return answer

    def renew(self) -> None:
        """The scheduler starts new workers itself."""


def _call(function: Callable, item: Any) -> Any:
    return function(item)


class _Ray:
    """A Ray cluster, of this machine without an address."""

    def __init__(self, workers: int, address: str | None):
        try:
            from ray import exceptions
        except ImportError:
            raise UnsupportedError("engine ray needs Ray", remedy="pip install 'trnprof[ray]'") from None
        self.lost = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError)
        self._workers = workers
        self._address = address

    def __enter__(self) -> _Ray:
        import ray

        self._begun = not ray.is_initialized()
        if self._begun:
            own = {} if self._address else {"num_cpus": self._workers, "include_dashboard": False}
            ray.init(address=self._address, log_to_driver=False, logging_level="error", **own)
            # It writes of lost workers to stdout, which is for results alone, and has no public switch for that.
            ray._private.worker._worker_logs_enabled = False
        # Its own retries would hide which item it is that loses workers.
        self._call = ray.remote(max_retries=0)(_call)
        self.width = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        if self._begun:
            ray.shutdown()

    def submit(self, function: Callable, item: Any) -> Any:
        return self._call.remote(function, item)

    def finished(self, tickets: list[Any]) -> list[Any]:
        import ray

        return ray.wait(tickets, num_returns=1)[0]

    def result(self, ticket: Any) -> Any:
        import ray
        from ray.exceptions import RayTaskError

        try:
            return ray.get(ticket)
        except RayTaskError as fault:
            raise (fault.cause if isinstance(fault.cause, BaseException) else fault) from None

    def renew(self) -> None:
        """Ray starts new workers itself."""


_OPENERS: dict[str, Callable[[int, str | None], AbstractContextManager[Pool]]] = {
    "local": _Processes,
    "dask": _Dask,
    "ray": _Ray,
}
