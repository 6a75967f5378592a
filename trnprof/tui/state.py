"""What the user looks at: a window of time, a cursor, a selection; and how keys change it.

Everything here is a pure function of a state; questions about the trace are answered elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trnprof.view.colours import COLOURS

NONE = -1
NARROWEST_PS = 5_000
"""One cycle is many cells wide at 5 ns in view; nothing lies below it."""
WIDEST = 1.1
"""Times the length of the trace: never lost in the void."""
ZOOM = 0.7
PAN, PAN_FAR = 0.15, 0.6
"""Share of the window that one key moves."""

Screen = Literal["timeline", "roofline", "compare", "what_if", "listing"]
Overlay = Literal["", "help", "commands", "search", "goto", "track", "what_if", "compare"]


@dataclass(frozen=True, slots=True)
class State:
    """The whole state of the screen but the trace; enough to paint it again."""

    t0: int
    t1: int
    """The window of time in view, ps."""
    cursor: int
    """Where zooming holds still and where a change of track looks, ps."""
    track: str = ""
    """Identity of the selected track, empty when there is none."""
    row: int = NONE
    """Row of the selected instruction."""
    transfer: int = NONE
    """Row of the selected transfer."""
    since: int = 0
    """When the selected instruction or transfer starts, ps."""
    gap: bool = False
    """The idle time at the cursor is selected."""
    colour: str = "engine"
    only: tuple[int, ...] = ()
    """Colours of the legend that alone are drawn as work; all when none is named."""
    screen: Screen = "timeline"
    overlay: Overlay = ""
    tab: int = 0
    panel: bool = True
    pinned: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Ids of tracks."""
    folded: tuple[str, ...] = ()
    """Groups of which only the first track is shown."""
    order: tuple[str, ...] = ()
    """Ids of tracks in the user's order; empty for the order of the trace."""
    area: tuple[int, int] | None = None
    """Selected span of time, ps."""
    area_from: int | None = None
    """Where an area that is being drawn began, ps."""
    marks: tuple[int, ...] = ()
    item: int = 0
    """The entry under the cursor, of a tab or page that has some."""
    jump: int = 0
    """Which of the entry's instructions Enter shows next."""
    dot: int = 0
    """The dot of the roofline under the cursor."""
    entry: str = ""
    """What has been typed into the open line: a pattern or a place."""
    other_row: int = NONE
    """Of a comparison: the instruction of the other trace that was chosen there and has no match here."""
    choice: int = 0
    """The row under the cursor of a list that is being typed into."""
    hit: int = NONE
    """Which hit of the search is current."""
    note: str = ""
    """The answer to the last key, until the next one."""

    @property
    def span(self) -> int:
        return self.t1 - self.t0


def show(state: State, t0: float, t1: float, extent: tuple[int, int]) -> State:
    """The state with another window, held between the narrowest and the widest, near the trace."""
    length = max(extent[1] - extent[0], 1)
    widest = max(length * WIDEST, NARROWEST_PS)
    span = min(max(t1 - t0, NARROWEST_PS), widest)
    middle = (t0 + t1) / 2
    t0 = min(max(middle - span / 2, extent[0] - span * 0.5), extent[1] - span * 0.5)
    window = round(t0), round(t0) + round(span)
    return replace(state, t0=window[0], t1=window[1], cursor=min(max(state.cursor, window[0]), window[1]))


def zoom(state: State, factor: float, extent: tuple[int, int], at: int | None = None) -> State:
    """Show `factor` times the span; the time `at` (else the cursor) stays in its place on screen."""
    fixed = state.cursor if at is None else at
    fixed = min(max(fixed, state.t0), state.t1)
    limit = max(extent[1] - extent[0], 1) * WIDEST
    span = min(max(state.span * factor, NARROWEST_PS), max(limit, NARROWEST_PS))
    t0 = fixed - (fixed - state.t0) * span / max(state.span, 1)
    return show(state, t0, t0 + span, extent)


def pan(state: State, share: float, cells: int, extent: tuple[int, int]) -> State:
    """Move the window by a share of its span, by whole cells, so that what stays in sight only shifts."""
    cell = state.span / max(cells, 1)
    by = round(max(abs(share) * cells, 1)) * cell * (1 if share > 0 else -1)
    moved = show(state, state.t0 + by, state.t1 + by, extent)
    return replace(moved, cursor=min(max(state.cursor + round(by), moved.t0), moved.t1))


def reveal(state: State, start: int, end: int, extent: tuple[int, int]) -> State:
    """Move the window so that a span lies in it, at the same scale where it fits and is wide enough to be seen."""
    if start >= state.t0 and end <= state.t1:
        return state
    span = max(state.span, round((end - start) * 1.25))
    t0 = (start + end) / 2 - span / 2
    return show(state, t0, t0 + span, extent)


def fit(state: State, start: int, end: int, extent: tuple[int, int], margin: float = 0.05) -> State:
    """Show a span with a little air at both ends."""
    air = max((end - start) * margin, NARROWEST_PS * 0.1)
    return show(state, start - air, end + air, extent)


def next_colour(colour: str) -> str:
    return COLOURS[(COLOURS.index(colour) + 1) % len(COLOURS)]
