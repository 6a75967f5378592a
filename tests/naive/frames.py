"""Slow twins of trnprof/jit/frames.py: a lane is a list of Row, every question a loop over all of them."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

LONE_BUCKETS, CELL_BUCKETS = 2, 4


class Row(NamedTuple):
    start: int
    end: int
    work: bool = True
    waste: bool = False


class Mark(NamedTuple):
    start: int
    end: int
    body: int
    row: int
    count: int
    busy: int
    longest: int
    work: bool
    waste: bool


def body_end(lane: list[Row], i: int) -> int:
    row = lane[i]
    for later in lane[i + 1 :]:
        if later.start < row.end and later.end >= row.end and (later.work or not row.work):
            return later.start
    return row.end


def union(spans: list[tuple[int, int]], low: int, high: int) -> int:
    """Length of the union inside [low, high)."""
    total, reach = 0, low
    for start, end in sorted(spans):
        total += max(0, min(end, high) - max(start, reach))
        reach = max(reach, min(end, high))
    return total


def rank(row: Row) -> tuple[bool, int]:
    return row.work, row.end - row.start


def longest_of(lane: list[Row], members: list[int]) -> int:
    """The first of those that rank highest."""
    return max(members, key=lambda i: (rank(lane[i]), -i))


def spans_of(lane: list[Row], work: bool) -> list[tuple[int, int]]:
    return [(row.start, row.end) for row in lane if row.work == work]


def gain(before: list[Row], rows: list[Row], work: bool) -> int:
    """What the rows add to the union of their class."""
    far = 1 << 40
    whole = union(spans_of(before + rows, work), -far, far)
    return whole - union(spans_of(before, work), -far, far)


def waste_gain(lane: list[Row], first: int, last: int) -> int:
    return sum(gain(lane[:i], [lane[i]], True) for i in range(first, last) if lane[i].waste)


def build(lane: list[Row], size: int) -> list[dict[str, int]]:
    """What each `size` rows come to, by the name of the field."""
    blocks = []
    for i in range(0, len(lane), size):
        rows, before = lane[i : i + size], lane[:i]
        ends = [max((r.end for r in lane[:k]), default=None) for k in range(i, i + len(rows))]
        longest = longest_of(lane, list(range(i, i + len(rows))))
        blocks.append(
            {
                "BUSY_WORK": gain(before, rows, True),
                "BUSY_OTHER": gain(before, rows, False),
                "COUNT_WORK": sum(r.work for r in rows),
                "LONGEST": longest,
                "BUSY_WASTE": waste_gain(lane, i, i + len(rows)),
                "MAX_GAP": max([r.start - e for r, e in zip(rows, ends, strict=True) if e is not None] + [0]),
            }
        )
    return blocks


def coarsen(lane: list[Row], size: int) -> list[dict[str, int]]:
    """A coarse block is a block of more rows."""
    return build(lane, size)


def measure_bodies(lane: list[Row], size: int) -> list[int]:
    bodies = [body_end(lane, i) - row.start for i, row in enumerate(lane)]
    return [max(bodies[i : i + size]) for i in range(0, len(lane), size)]


def first_reaching(lane: list[Row], t0: int) -> int:
    return next((i for i, row in enumerate(lane) if row.end > t0), len(lane))


def reaches(lane: list[Row], i: int) -> tuple[int | None, int | None]:
    """Latest end of work and of the rest before row i, None without one."""
    return tuple(max((r.end for r in lane[:i] if r.work == work), default=None) for work in (True, False))


def reach_on(reach: dict[bool, int], row: Row) -> int:
    """Let the row extend the union of its class; returns by how much."""
    fresh = max(0, row.end - max(row.start, reach[row.work]))
    reach[row.work] = max(reach[row.work], row.end)
    return fresh


def whole_block(lane: list[Row], i: int, size: int, t0: int, t1: int, bucket: int) -> bool:
    rows = lane[i : i + size]
    cells = {row.start // (CELL_BUCKETS * bucket) for row in rows}
    short = all(body_end(lane, k) - lane[k].start < LONE_BUCKETS * bucket for k in range(i, i + len(rows)))
    return len(rows) == size and short and len(cells) == 1 and all(t0 < row.start < t1 for row in rows)


def lone_mark(lane: list[Row], i: int) -> Mark:
    row = lane[i]
    span = row.end - row.start
    return Mark(row.start, row.end, body_end(lane, i), i, 1, span, i, row.work, row.waste)


def open_cell(lane: list[Row], members: list[int], i: int, t0: int, bucket: int) -> bool:
    """Whether row i begins another cluster than `members`."""
    cell = CELL_BUCKETS * bucket
    return not members or max(lane[members[0]].start, t0) // cell != max(lane[i].start, t0) // cell


def gather(members: list[int], first: int, size: int) -> list[int]:
    return members + list(range(first, first + size))


def gather_row(members: list[int], i: int) -> list[int]:
    return [*members, i]


def close_cell(lane: list[Row], members: list[int], t0: int, bucket: int) -> list[Mark]:
    """The cluster of consecutive rows `members` as a mark."""
    if not members:
        return []
    if len(members) == 1:
        return [lone_mark(lane, members[0])]
    cell = CELL_BUCKETS * bucket
    low = lane[members[0]].start
    limit = (max(low, t0) // cell + 1) * cell
    work = any(lane[i].work for i in members)
    known = [row for row in lane[: members[-1] + 1] if row.work == work]
    busy = union([(row.start, row.end) for row in known], low, limit)
    longest = longest_of(lane, members)
    whole = max(0, (reaches(lane, members[0])[0] or low) - low) + gain(
        lane[: members[0]], [lane[i] for i in members], True
    )
    waste = work and 2 * waste_gain(lane, members[0], members[-1] + 1) > whole
    end = min(max(lane[i].end for i in members), limit)
    return [Mark(low, end, end, -1, len(members), busy, longest, work, waste)]


def scan(lane: list[Row], t0: int, t1: int, bucket: int) -> list[Mark]:
    """Expects t0 to be a multiple of a cell."""
    marks: list[Mark] = []
    members: list[int] = []
    lone = None
    for i, row in enumerate(lane):
        body = body_end(lane, i)
        if row.end <= t0 or body <= t0 or row.start >= t1:
            continue
        at = max(row.start, t0) // bucket
        if body - row.start >= LONE_BUCKETS * bucket and at != lone:
            lone = at
            marks += [*close_cell(lane, members, t0, bucket), lone_mark(lane, i)]
            members = []
            continue
        if open_cell(lane, members, i, t0, bucket):
            marks += close_cell(lane, members, t0, bucket)
            members = []
        members = gather_row(members, i)
    return marks + close_cell(lane, members, t0, bucket)


def gaps(lane: list[Row], t0: int, t1: int, shortest: int, origin: int) -> list[tuple[int, int, int]]:
    out = []
    for i, row in enumerate(lane):
        reach = max([r.end for r in lane[:i]] + [origin])
        if row.start - reach >= shortest and row.start > t0 and reach < t1:
            out.append((reach, row.start, i))
    return out


def spread(low: float, high: float, width: float, columns: int) -> list[float]:
    return [max(0.0, min(high, (c + 1) * width) - max(low, c * width)) for c in range(columns)]


def coverage(lane: list[Row], t0: int, t1: int, columns: int) -> list[float]:
    width = (t1 - t0) / columns
    edges = [t0 + c * width for c in range(columns + 1)]
    return [union(spans_of(lane, True), a, b) for a, b in pairwise(edges)]


def lanes(spans: list[tuple[int, int]], floor: list[int], limit: int) -> list[int]:
    out: list[int] = []
    for i, (start, _) in enumerate(spans):
        taken = {lane for lane, (_, end) in zip(out, spans, strict=False) if end > start}
        lowest = min(floor[i], limit - 1)
        out.append(next((k for k in range(lowest, limit - 1) if k not in taken), limit - 1))
    return out


def charge(classes: list[list[tuple[int, int]]], t0: int, t1: int) -> list[tuple[int, int, int]]:
    """Moment by moment."""
    out: list[tuple[int, int, int]] = []
    for now in range(t0, t1):
        active = next((k for k, spans in enumerate(classes) if any(a <= now < b for a, b in spans)), len(classes))
        if out and out[-1][2] == active:
            out[-1] = (out[-1][0], now + 1, active)
        else:
            out.append((now, now + 1, active))
    return out
