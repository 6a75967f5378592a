"""The same question to many traces, one a rank, by processes of this machine or a cluster on a shared file system.

Each worker opens the traces that it is given, through the cache of its machine, and sends back its answer alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sim.errors import InputError
from sim.trace import ENGINE_NAMES, Trace
from trnprof import workers
from trnprof.ranking import KEYS, Rank, default_key, rank
from trnprof.readers import open as read
from trnprof.readers.folders import trace_folders

if TYPE_CHECKING:
    import pyarrow as pa

    from trnprof.view.records import Hits

Answer = TypeVar("Answer")

ANSWER = "answer"
"""What the rows of all traces together are called in SQL."""
TEXTS = ("track", "opcode", "name", "function", "operands", "source")


@dataclass(frozen=True, slots=True)
class Where:
    """Who does the work, as `trnprof.workers.map` takes it."""

    engine: str = "local"
    address: str | None = None
    workers: int | None = None
    progress: workers.Progress | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found in one trace."""

    trace: str
    count: int
    records: tuple[Mapping[str, Any], ...]


def traces(path: str | Path) -> tuple[Path, ...]:
    """The traces at a path, in the order of their names; the path itself where it is one."""
    place = Path(path)
    return tuple(trace_folders(place)) or (place,) if place.is_dir() else (place,)


def separate(path: str | Path) -> tuple[Path, ...]:
    """The traces of a folder that has several which do not open as one; none elsewhere."""
    from trnprof.readers.ranks import ranks_of

    place = Path(path)
    found = trace_folders(place) if place.is_dir() else []
    return tuple(found) if len(found) > 1 and ranks_of(place, found) is None else ()


def each(function: Callable[[Trace], Answer], paths: Sequence[Path], where: Where) -> list[Answer]:
    """The answer of each trace, in the order of the paths."""
    asked = workers.map(
        partial(_ask, function), [str(path.resolve()) for path in paths], where.engine, where.address,
        workers=where.workers, progress=where.progress,
    )  # fmt: skip
    return [answer for _, answer in sorted(asked, key=lambda pair: pair[0])]


def _ask(function: Callable[[Trace], Answer], path: str) -> Answer:
    return function(read(path))


def query(paths: Sequence[Path], text: str, then: str | None = None, where: Where = Where()) -> pa.Table:
    """The rows of one SELECT from every trace, `trace` first.

    then   : a SELECT over all of them, which are called `answer`
    raises : as `trnprof.query`
    """
    import pyarrow as pa

    from trnprof import sql

    parts = each(partial(sql.query, text=text), paths, where)
    named = [
        part.add_column(0, "trace", pa.array([name] * len(part), pa.string()))
        for name, part in zip(names(paths), parts, strict=True)
    ]
    whole = pa.concat_tables(named, promote_options="permissive")
    return whole if then is None else sql.select({ANSWER: whole}, then)


def names(paths: Sequence[Path]) -> list[str]:
    """The traces by what tells them apart."""
    common = 0
    while all(len(path.parts) > common + 1 for path in paths) and len({path.parts[common] for path in paths}) == 1:
        common += 1
    return [str(Path(*path.parts[common:])) for path in paths]


def top(paths: Sequence[Path], by: str | None, limit: int, where: Where = Where()) -> tuple[str, list[Rank]]:
    """What takes the most time in all traces together; counts and times are sums, the longest is of all.

    share : busy time of the sum of the windows
    """
    if by is not None and by not in KEYS:
        raise InputError(f"no column {by} to rank by", remedy=f"there are {', '.join(KEYS)}")
    answers = each(partial(_ranks, by=by), paths, where)
    keys = {key for key, _, _ in answers}
    if len(keys) > 1:
        raise InputError("some traces are general timelines and some are not", remedy="say what to group --by")
    window = sum(span for _, span, _ in answers)
    total: dict[str | None, Rank] = {}
    for group in (group for _, _, groups in answers for group in groups):
        known = total.get(group.value)
        total[group.value] = group if known is None else _joined(known, group)
    found = [replace(group, share=group.busy_ps / window if window > 0 else None) for group in total.values()]
    return keys.pop(), sorted(found, key=lambda group: (-group.total_ps, group.value or ""))[:limit]


def _ranks(trace: Trace, by: str | None) -> tuple[str, int, list[Rank]]:
    low, high = trace.meta.window
    key = by or default_key(trace)
    return key, high - low, rank(trace, key, None)


def _joined(one: Rank, other: Rank) -> Rank:
    return replace(
        one,
        count=one.count + other.count,
        total_ps=one.total_ps + other.total_ps,
        busy_ps=one.busy_ps + other.busy_ps,
        longest_ps=max(one.longest_ps, other.longest_ps),
    )


def summaries(paths: Sequence[Path], where: Where = Where()) -> dict[str, dict[str, Any]]:
    """AWS's Summary fields of each trace, by its name."""
    from trnprof.summary import summarize

    return dict(zip(names(paths), each(summarize, paths, where), strict=True))


def sums(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, int | float]:
    """Those fields of summaries that add up: counts, bytes, FLOPs and active times, where every trace has them."""
    first = next(iter(rows.values()), {})
    return {name: sum(row[name] for row in rows.values()) for name in first if _adds_up(name, rows)}


def _adds_up(name: str, rows: Mapping[str, Mapping[str, Any]]) -> bool:
    whole = name.endswith(("_bytes", "_count", "_time", "flops", "_size")) and "average" not in name
    return whole and all(type(row.get(name)) in (int, float) for row in rows.values())


def search(paths: Sequence[Path], pattern: str, limit: int, where: Where = Where()) -> list[Found]:
    """What a regular expression finds in each trace; at most `limit` records of each."""
    found = each(partial(_search, pattern=pattern, limit=limit), paths, where)
    return [Found(name, count, tuple(records)) for name, (count, records) in zip(names(paths), found, strict=True)]


def _search(trace: Trace, pattern: str, limit: int) -> tuple[int, list[dict[str, Any]]]:
    hits = look(trace, pattern)
    return hits.count, [record(trace, row) for row in hits.rows[:limit].tolist()]


def look(trace: Trace, pattern: str) -> Hits:
    """What a regular expression finds in a trace; InputError for what is none."""
    from trnprof.view.search import search as found_by

    hits = found_by(trace, pattern)
    if hits.error:
        raise InputError(f"{pattern}: not a regular expression: {hits.error}")
    return hits


def record(trace: Trace, row: int) -> dict[str, Any]:
    """An instruction as JSON has it."""
    table = trace.instructions
    start, end = int(table.start_ps[row]), int(table.end_ps[row])
    return {
        "id": int(table.id[row]),
        "start_ns": start / 1000,
        "duration_ns": (end - start) / 1000,
        "engine": ENGINE_NAMES[int(table.engine[row])],
        **{name: trace.text(table, name, row) for name in TEXTS},
    }
