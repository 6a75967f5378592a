"""Which tracks a screen shows, and how many lines each gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trnprof.tui.state import State
from trnprof.view.records import Track

SMALL, SIDE = 100, 160
"""Columns from which the panel is wide, and from which it stands at the right."""
LEAST, BARE = (40, 10), (60, 16)
"""Columns and lines below which only a sentence fits, and below which the panel goes."""
SIDE_WIDTH = 58
SPARE = 10
"""Worth of tracks that only take lines that nothing else wants."""
TOP = 4
"""Header, verdict, overview and ruler."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a screen of a given size divides."""

    width: int
    height: int
    gutter: int
    cells: int
    """Columns of the timeline."""
    tracks: int
    """Lines for the tracks."""
    panel: tuple[int, int, int, int] | None
    """x, y, width and height of the panel, None where there is none."""
    side: bool

    @property
    def too_small(self) -> bool:
        return self.width < LEAST[0] or self.height < LEAST[1]


def shape(width: int, height: int, panel: bool) -> Shape:
    """The division of a screen; `panel` is the user's wish."""
    small, side = width < SMALL, width >= SIDE and panel
    gutter = 14 if small else 18
    wished = panel and width >= BARE[0] and height >= BARE[1]
    cells = width - gutter - 1 - (SIDE_WIDTH + 2 if side else 0)
    if side:
        box = (width - SIDE_WIDTH - 1, 2, SIDE_WIDTH, height - 3)
        return Shape(width, height, gutter, cells, height - TOP - 1, box, True)
    lines = (6 if small else 8) if wished else 0
    box = (1, height - 1 - lines, width - 2, lines) if wished else None
    return Shape(width, height, gutter, cells, height - TOP - 1 - lines - (1 if wished else 0), box, False)


@dataclass(frozen=True, slots=True)
class Row:
    """A track on the screen."""

    track: Track
    lines: int = 1
    air: bool = False
    """A blank line stands above it."""


def visible(tracks: Sequence[Track], state: State) -> list[Track]:
    """The tracks that the user has not hidden or folded away, pinned ones first, in the user's order."""
    tracks = [t for t in tracks if t.kind != "path" or state.colour == "path"]
    folded = {t.group for t in tracks if t.group in state.folded}
    heads = {group: next(t.id for t in tracks if t.group == group) for group in folded}
    shown = [t for t in tracks if t.id not in state.hidden and (t.group not in folded or heads[t.group] == t.id)]
    rank = {name: k for k, name in enumerate(state.order)}
    if rank:
        shown.sort(key=lambda t: rank.get(t.id, len(rank)))
    return sorted(shown, key=lambda t: t.id not in state.pinned)


def plan(tracks: Sequence[Track], height: int, state: State) -> list[Row]:
    """The rows that fit, in screen order; what is worth most comes first, spare lines go to what has more."""
    wanted = {state.track, *state.pinned}
    ranked = sorted(_at_work(tracks, wanted), key=lambda t: (t.id not in wanted, worth(t)))
    lines: dict[str, int] = {}
    left = height
    for track in ranked:
        want = _least(track, left, chosen=track.id == state.track)
        if want <= left and (track.id in wanted or worth(track)[0] < SPARE):
            lines[track.id] = want
            left -= want
    rows = {row.track.id: row for row in _grow([Row(t, lines[t.id]) for t in tracks if t.id in lines], left)}
    left = height - sum(row.lines + row.air for row in rows.values())
    rows |= {t.id: Row(t) for t in [t for t in ranked if t.id not in rows][: max(left, 0)]}
    return [rows[t.id] for t in tracks if t.id in rows]


def _least(track: Track, left: int, chosen: bool) -> int:
    """Lines that a track must have: the regions two where it is not crowded, the selected track all its lanes."""
    if track.kind in ("regions", "instructions") and chosen:
        return max(1, min(track.lanes, left // 3))
    return min(2, track.lanes) if track.kind == "regions" and left > 8 else 1


def _at_work(tracks: Sequence[Track], wanted: set[str]) -> list[Track]:
    """Tracks of cores that did something, and those that the user wants to see."""
    cores = {t.core for t in tracks if t.kind == "instructions" and t.busy}
    return [t for t in tracks if not cores or t.core in cores or t.id in wanted]


def worth(track: Track) -> tuple[int, int]:
    """What a track is worth where lines are few; lower comes first, cores one after another."""
    idle = not track.busy and track.kind == "instructions"
    order = {
        "bound": 0,
        "path": 0,
        "regions": 1,
        "instructions": 2,
        "transfers": 3,
        "packets": 6,
        "counter": 7,
        "banks": 6,
    }
    rank = order.get(track.kind, 8)
    if _repeats(track):
        return SPARE, track.core
    if track.id.endswith("dma_bytes_per_s"):
        rank = 4
    elif track.id.endswith("_per_s"):
        rank = 8
    if track.engine == 4 or idle:
        rank = 5
    if track.kind == "transfers" and not track.words[:1].strip("0"):
        rank = 9
    return rank, track.core


def _repeats(track: Track) -> bool:
    """Whether it tells what the tracks above it tell, or what few ask for."""
    return track.quiet or track.id.rpartition(".")[2].startswith(("busy_", "transfers_in_flight"))


def _grow(rows: list[Row], left: int) -> list[Row]:
    """Hand out the spare lines: a third region, air between groups, tall rates, tall engines, rows of dots."""

    def add(k: int, lines: int) -> None:
        nonlocal left
        by = max(0, min(lines - rows[k].lines, left))
        rows[k] = replace(rows[k], lines=rows[k].lines + by)
        left -= by

    where = {kind: [k for k, r in enumerate(rows) if r.track.kind == kind] for kind in _kinds(rows)}
    rates = [k for k in where.get("counter", []) if rows[k].track.id.endswith("_bytes_per_s")][:1]
    busiest = [k for k in where.get("instructions", []) if rows[k].track.lanes == 1 and not rows[k].track.minor]
    busiest = sorted(busiest, key=lambda k: -(rows[k].track.busy or 0))
    dotted = [k for kind in ("packets", "banks") for k in where.get(kind, [])]
    for k in where.get("regions", []):
        add(k, min(3, rows[k].track.lanes))
    heads = [k for k in range(len(rows)) if k == 0 or rows[k].track.group != rows[k - 1].track.group]
    for k in [*heads[1:], *heads[:1]][: max(0, left)]:
        rows[k] = replace(rows[k], air=True)
        left -= 1
    for k in rates:
        add(k, 4 if left >= 6 else 2)
    for k in busiest[:3] if left >= 3 else ():
        add(k, 2)
    for k in dotted:
        if left >= -(-rows[k].track.lanes // 4) - rows[k].lines:
            add(k, -(-rows[k].track.lanes // 4))
    for k in [*where.get("regions", []), *where.get("instructions", [])]:
        if rows[k].track.lanes > 1:
            add(k, rows[k].track.lanes)
    for k in where.get("counter", []):
        add(k, 2 if k not in rates else 4)
    return rows


def _kinds(rows: list[Row]) -> set[str]:
    return {row.track.kind for row in rows}
