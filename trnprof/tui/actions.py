"""What each key does to the state of the screen; names are those of the key table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trnprof.tui import layout
from trnprof.tui import state as moves
from trnprof.tui.screen import Scene
from trnprof.tui.state import NONE, PAN, PAN_FAR, ZOOM, State
from trnprof.view import Session, Track
from trnprof.view import format as words
from trnprof.view.colours import COLOURS
from trnprof.view.keys import TABS

SELECTABLE = ("instructions", "transfers")

Action = Callable[[Scene, int], State]
"""Of a scene and the cells of the timeline."""


def start(session: Session, colour: str) -> State:
    """The first view of a trace: fitted to its activity, the first instruction of the work selected."""
    t0, t1 = session.home
    folded = tuple(dict.fromkeys(track.group for track in session.tracks() if track.quiet))
    state = State(t0, t1, (t0 + t1) // 2, colour=colour, folded=folded)
    row = session.first_in(*session.home)
    return select(session, state, row) if row != NONE else state


def select(session: Session, state: State, row: int, kind: str = "instructions") -> State:
    """Select an instruction or a transfer and bring it into view."""
    card = session.card(row) if kind == "instructions" else session.transfer_card(row)
    shown = moves.reveal(state, card.t0_ps, card.t1_ps, session.extent)
    return replace(
        shown,
        row=row if kind == "instructions" else NONE,
        other_row=NONE,
        transfer=row if kind == "transfers" else NONE,
        since=card.t0_ps,
        gap=False,
        track=card.track or state.track,
        cursor=min(max(card.t0_ps, shown.t0), shown.t1),
        note="",
    )


def at(session: Session, state: State, track: Track, time: int) -> State:
    """Select what a track does at a moment: the instruction that runs, the idle time, else what is nearest."""
    state = replace(state, track=track.id, cursor=time, row=NONE, transfer=NONE, gap=False)
    if track.kind not in SELECTABLE:
        return state
    if session.gap(track.id, time) is not None:
        return replace(state, gap=True)
    row = session.nearest(track.id, time)
    if row == NONE:
        return state
    card = session.card(row) if track.kind == "instructions" else session.transfer_card(row)
    chosen = replace(state, since=card.t0_ps, **{"row" if track.kind == "instructions" else "transfer": row})
    inside = card.t0_ps <= time < card.t1_ps
    return chosen if inside else replace(chosen, cursor=min(max(card.t0_ps, state.t0), state.t1))


def span(session: Session, state: State) -> tuple[int, int] | None:
    """The time that the selection covers: an area before an instruction, a transfer or idle time."""
    if state.area is not None:
        return state.area
    if state.gap:
        found = session.gap(state.track, state.cursor)
        return (found.t0_ps, found.t1_ps) if found else None
    if state.row != NONE:
        card = session.card(state.row)
        return card.t0_ps, card.t1_ps
    if state.transfer != NONE:
        moved = session.transfer_card(state.transfer)
        return moved.t0_ps, moved.t1_ps
    return None


def act(action: str, scene: Scene, cells: int) -> State:
    """The state after an action; one that is not of this table leaves it as it is."""
    found = ACTIONS.get(action)
    return found(replace(scene, state=replace(scene.state, note="")), cells) if found else scene.state


def _zoom(factor: float) -> Action:
    return lambda scene, cells: moves.zoom(scene.state, factor, scene.session.extent)


def _pan(share: float) -> Action:
    return lambda scene, cells: moves.pan(scene.state, share, cells, scene.session.extent)


def _track(by: int) -> Action:
    def move(scene: Scene, cells: int) -> State:
        shown = layout.visible(scene.session.tracks(), scene.state)
        if not shown:
            return scene.state
        ids = [track.id for track in shown]
        here = ids.index(scene.state.track) if scene.state.track in ids else -by
        return at(scene.session, scene.state, shown[min(max(here + by, 0), len(shown) - 1)], scene.state.cursor)

    return move


def _step(by: int) -> Action:
    def step(scene: Scene, cells: int) -> State:
        session, state = scene.session, scene.state
        kind = "transfers" if state.transfer != NONE else "instructions"
        row = state.transfer if kind == "transfers" else state.row
        if row == NONE:
            return _enter(session, state, by)
        after = session.step(row, by, kind)
        if after == NONE:
            return replace(state, note=f"the {'last' if by > 0 else 'first'} on this track")
        return select(session, state, after, kind)

    return step


def _enter(session: Session, state: State, by: int) -> State:
    """From idle time, or from nothing, to the instruction beside the cursor."""
    found = session.gap(state.track, state.cursor) if state.gap else None
    if found and found.then:
        row = found.then.row if by > 0 else session.step(found.then.row, -1)
        return select(session, state, row) if row != NONE else state
    track = next((t for t in session.tracks() if t.id == state.track and t.kind in SELECTABLE), None)
    if track is not None:
        row = session.nearest(track.id, state.cursor)
        return select(session, state, row, track.kind) if row != NONE else state
    row = session.first_in(state.t0, state.t1)
    return select(session, state, row) if row != NONE else replace(state, note="no instruction in view")


def _follow(by: int) -> Action:
    def follow(scene: Scene, cells: int) -> State:
        session, state = scene.session, scene.state
        row = NONE
        if state.gap:
            found = session.gap(state.track, state.cursor)
            link = (found.waited_for if by < 0 else found.then) if found else None
            row = link.row if link else NONE
        elif state.transfer != NONE:
            trigger = session.transfer_card(state.transfer).trigger
            row = trigger.row if trigger and by < 0 else NONE
        elif state.row != NONE:
            row = session.follow(state.row, by)
        if row == NONE:
            return replace(
                state, note="nothing known that waited for it" if by > 0 else "nothing known that it waited for"
            )
        return select(session, state, row)

    return follow


def _fit(scene: Scene, cells: int) -> State:
    found = span(scene.session, scene.state)
    if found is None:
        return replace(scene.state, note="nothing selected to fit")
    return moves.fit(scene.state, *found, scene.session.extent)


def _home(scene: Scene, cells: int) -> State:
    session, state = scene.session, scene.state
    at_home = (state.t0, state.t1) == session.home
    t0, t1 = session.extent if at_home else session.home
    return moves.show(state, t0, t1, session.extent)


def _area(scene: Scene, cells: int) -> State:
    """Edges lie on the selected instruction where there is one, else at the cursor."""
    session, state = scene.session, scene.state
    here = span(session, replace(state, area=None)) or (state.cursor, state.cursor)
    if state.area_from is None:
        return replace(state, area=None, area_from=here[0], note="area begins here; v again ends it")
    t0, t1 = min(state.area_from, here[0]), max(state.area_from, here[1])
    if t1 <= t0:
        return replace(state, area_from=None, note="an area needs two moments")
    return replace(state, area=(t0, t1), area_from=None, tab=0)


def _mark(scene: Scene, cells: int) -> State:
    marks = tuple(sorted({*scene.state.marks, scene.state.cursor}))
    return replace(scene.state, marks=marks, note=f"mark at {words.moment(scene.state.cursor)}")


def _clear(scene: Scene, cells: int) -> State:
    """One step at a time, from what was opened last."""
    state = scene.state
    if state.overlay:
        return replace(state, overlay="", entry="")
    if state.screen != "timeline":
        return replace(state, screen="timeline")
    if state.area_from is not None:
        return replace(state, area_from=None)
    if state.area is not None:
        return replace(state, area=None)
    if state.only:
        return replace(state, only=())
    if state.hit != NONE:
        return replace(state, hit=NONE)
    return replace(state, row=NONE, transfer=NONE, gap=False)


def _hit(by: int) -> Action:
    def go(scene: Scene, cells: int) -> State:
        hits, state = scene.hits, scene.state
        if hits is None or not hits.count:
            return replace(state, note=hits.words if hits else "no search yet: / opens one")
        if state.hit == NONE:
            beyond = int(np.searchsorted(hits.rows, state.row, "right" if by > 0 else "left"))
            k = beyond if by > 0 else beyond - 1
        else:
            k = state.hit + by
        k %= hits.count
        found = select(scene.session, state, int(hits.rows[k]))
        return replace(found, hit=k, note=f"{words.count(k + 1)} of {words.count(hits.count)} for {hits.pattern}")

    return go


def _fold(scene: Scene, cells: int) -> State:
    state = scene.state
    group = next((t.group for t in scene.session.tracks() if t.id == state.track), "")
    if not group:
        return replace(state, note="no track selected: ↑ ↓ select one")
    folded = tuple(g for g in state.folded if g != group) if group in state.folded else (*state.folded, group)
    return replace(state, folded=folded)


def _pin(scene: Scene, cells: int) -> State:
    state = scene.state
    if not state.track:
        return replace(state, note="no track selected: ↑ ↓ select one")
    off = state.track in state.pinned
    pinned = tuple(i for i in state.pinned if i != state.track) if off else (*state.pinned, state.track)
    return replace(state, pinned=pinned, note="unpinned" if off else "pinned to the top")


def _hide(scene: Scene, cells: int) -> State:
    state = scene.state
    if not state.track:
        return replace(
            state, hidden=(), note="all tracks shown" if state.hidden else "no track selected: ↑ ↓ select one"
        )
    name = next((t.name for t in scene.session.tracks() if t.id == state.track), "")
    hidden = (*state.hidden, state.track)
    return replace(state, hidden=hidden, track="", note=f"{name} hidden; x again shows all")


def _move(by: int) -> Action:
    def move(scene: Scene, cells: int) -> State:
        state = scene.state
        ids = [track.id for track in layout.visible(scene.session.tracks(), state)]
        if state.track not in ids:
            return replace(state, note="no track selected: ↑ ↓ select one")
        here = ids.index(state.track)
        there = min(max(here + by, 0), len(ids) - 1)
        ids.insert(there, ids.pop(here))
        return replace(state, order=tuple(ids))

    return move


def _set(**changes: object) -> Action:
    return lambda scene, cells: replace(scene.state, **changes)


def _listing(scene: Scene, cells: int) -> State:
    """The table of what is in view, at the selected row where it is among them."""
    session, state = scene.session, scene.state
    return replace(state, screen="listing", item=session.place(state.t0, state.t1, max(state.since, state.t0)))


def _only(scene: Scene, cells: int) -> State:
    """The next colour of the legend alone, after the last all of them."""
    state = scene.state
    rows = scene.session.legend(state.colour)
    at = next((k for k, row in enumerate(rows) if row.colour in state.only), -1) + 1
    if at >= len(rows):
        return replace(state, only=(), note="all colours")
    return replace(state, only=(rows[at].colour,), note=f"only {rows[at].name}; C goes on")


ACTIONS: dict[str, Action] = {
    "zoom_in": _zoom(ZOOM),
    "zoom_out": _zoom(1 / ZOOM),
    "pan_left": _pan(-PAN),
    "pan_right": _pan(PAN),
    "page_left": _pan(-PAN_FAR),
    "page_right": _pan(PAN_FAR),
    "track_up": _track(-1),
    "track_down": _track(1),
    "fit": _fit,
    "home": _home,
    "next": _step(1),
    "previous": _step(-1),
    "follow": _follow(1),
    "follow_back": _follow(-1),
    "area": _area,
    "mark": _mark,
    "clear_marks": _set(marks=(), note="marks cleared"),
    "clear": _clear,
    "search": _set(overlay="search", entry=""),
    "goto": _set(overlay="goto", entry=""),
    "find_track": _set(overlay="track", entry=""),
    "next_hit": _hit(1),
    "previous_hit": _hit(-1),
    "fold": _fold,
    "pin": _pin,
    "hide": _hide,
    "move_down": _move(1),
    "move_up": _move(-1),
    "colour": lambda scene, cells: replace(scene.state, colour=moves.next_colour(scene.state.colour), only=()),
    **{f"colour_{way}": _set(colour=way, only=()) for way in COLOURS},
    "only": _only,
    "everything": _set(only=(), note="all colours"),
    "commands": _set(overlay="commands", entry="", choice=0),
    "panel": lambda scene, cells: replace(scene.state, panel=not scene.state.panel),
    "listing": _listing,
    "roofline": _set(screen="roofline", dot=0),
    "what_if": _set(overlay="what_if", entry=""),
    "compare": _set(overlay="compare", entry=""),
    "help": _set(overlay="help", entry=""),
    **{f"tab_{k + 1}": _set(tab=k, panel=True, item=0, jump=0) for k in range(len(TABS))},
}
