"""What opens over the picture: the table of keys, the search, and the line to type a place into."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from trnprof.tui import ink, wishes
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.tui.screen import Scene
from trnprof.view import Track
from trnprof.view import format as words
from trnprof.view.keys import Key, commands_of, grouped
from trnprof.view.keys import matching as matching_commands

STRONG = ink.TEXT | ink.BOLD
KEY = 9
"""Cells for the caps of a key."""


def box(canvas: Canvas, x: int, y: int, width: int, height: int, title: str) -> None:
    canvas.fill(x, y, width, height, " ", ink.TEXT)
    top = f"┌─ {clipped(title, width - 6)} "
    canvas.put(x, y, top + "─" * (width - 1 - width_of(top)) + "┐", ink.MID)
    for line in range(y + 1, y + height - 1):
        canvas.put(x, line, "│", ink.MID)
        canvas.put(x + width - 1, line, "│", ink.MID)
    canvas.put(x, y + height - 1, "└" + "─" * (width - 2) + "┘", ink.MID)


Entry = tuple[str, str]
"""Caps and words; a head has no caps."""


def key_lines(view: str = "terminal") -> list[Entry]:
    """The key table as lines, keys that belong together on one."""
    lines: list[Entry] = []
    for group, keys in grouped(view):
        lines += [("", "")] if lines else []
        lines.append(("", group))
        lines += _joined(keys)
    return lines


def _joined(keys: Sequence[Key]) -> list[Entry]:
    """Panel tabs become one line; a pair that differs in one word shares its line."""
    tabs = [key for key in keys if key.action.startswith("tab_")]
    lines: list[Entry] = []
    k = 0
    while k < len(keys):
        key = keys[k]
        both = _shared(key.words, keys[k + 1].words) if k + 1 < len(keys) else ""
        if key in tabs:
            if key is tabs[0]:
                lines.append((f"1…{len(tabs)}", "panel: " + ", ".join(tab.words for tab in tabs)))
            k += 1
        elif both:
            lines.append((" ".join((key.shown[0], keys[k + 1].shown[0])), both))
            k += 2
        else:
            lines.append((" ".join(key.shown), key.words))
            k += 1
    return lines


def _shared(first: str, second: str) -> str:
    """`zoom in` and `zoom out` as `zoom in, out`; empty for phrases that differ in more than one word."""
    a, b = first.split(" "), second.split(" ")
    differ = [k for k, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]]
    if len(a) != len(b) or len(a) < 2 or len(differ) != 1 or ";" in first:
        return ""
    k = differ[0]
    return " ".join([*a[:k], f"{a[k]}, {b[k]}", *a[k + 1 :]])


def help_screen(canvas: Canvas, first: int = 0) -> int:
    """The keys in as many columns as fit; returns how many lines did not."""
    columns = 3 if canvas.width >= 110 else 2 if canvas.width >= 70 else 1
    width = min(canvas.width - 2, 40 * columns)
    step = (width - 4) // columns
    lines = _wrapped(key_lines(), step - KEY - 1)
    room = min(canvas.height - 2, -(-len(lines) // columns) + 2)
    shown = _flow(lines[first:], columns, room)
    tall = max((len(column) for column in shown), default=0)
    x, y = (canvas.width - width) // 2, max(0, (canvas.height - tall - 2) // 2)
    left = max(0, len(lines) - first - sum(len(column) for column in shown) - columns)
    box(canvas, x, y, width, tall + 2, "Keys, the same in the browser")
    if left > 0:
        canvas.put(x + 2, y + tall + 1, f" {words.plural(left, 'more line')}: ↓ ", ink.ACCENT)
    for k, column in enumerate(shown):
        at = x + 2 + k * step
        for line, (caps, what) in enumerate(column, y + 1):
            canvas.put(at, line, caps, ink.ACCENT)
            start = max(at + KEY, at + width_of(caps) + 1) if caps else at
            canvas.put(start, line, what, ink.MID if caps or what.startswith(" ") else STRONG)
    return left


def _wrapped(lines: list[Entry], width: int) -> list[Entry]:
    """No word is cut: what is too long goes on below, indented to the words."""
    found: list[Entry] = []
    for caps, what in lines:
        parts = textwrap.wrap(what, max(12, min(width, width + KEY - 1 - width_of(caps)))) or [""]
        found.append((caps, parts[0]))
        found += [("", " " * KEY + part) for part in parts[1:]]
    return found


def _flow(lines: list[Entry], columns: int, room: int) -> list[list[Entry]]:
    """Lines cut into columns: no column begins with a blank line or ends with a head."""
    found: list[list[Entry]] = []
    k = 0
    for _ in range(columns):
        while k < len(lines) and lines[k] == ("", ""):
            k += 1
        end = min(k + room, len(lines))
        while end < len(lines) and end > k and (_heads(lines[end - 1]) or lines[end][1].startswith(" ")):
            end -= 1
        found.append(lines[k:end])
        k = end
    return found


def _heads(entry: Entry) -> bool:
    """A head or a blank line, which must not stand last."""
    return not entry[0] and not entry[1].startswith(" ")


def search(canvas: Canvas, scene: Scene) -> None:
    """The pattern, how much it finds, and the hits around the current one."""
    state, hits = scene.state, scene.hits
    width = min(canvas.width - 4, 96)
    rows = max(1, min(9 if canvas.height >= 30 else 5, canvas.height - 8))
    x, y = (canvas.width - width) // 2, max(0, canvas.height - rows - 5)
    fault = f": {hits.error}" if hits is not None and hits.error else ""
    box(canvas, x, y, width, rows + 3, f"Search{fault}")
    _typed(canvas, x + 2, y + 1, "/", state.entry, width - 30)
    if hits is None or not hits.pattern:
        canvas.put(
            x + 4,
            y + 2,
            "name, opcode, operands, source, function or region; a regular expression",
            ink.DIM,
            end=x + width - 1,
        )
        return
    place = f"{words.count(state.hit + 1)} of {words.count(hits.count)}   n N" if state.hit >= 0 else hits.words
    canvas.put_right(x + width - 2, y + 1, place, ink.MID)
    first = min(max(0, max(state.hit, 0) - rows // 2), max(0, hits.count - rows))
    for line, k in enumerate(range(first, min(first + rows, hits.count)), y + 2):
        _hit(canvas, scene, int(hits.rows[k]), (x + 2, line, width - 4), k == state.hit)


def _hit(canvas: Canvas, scene: Scene, row: int, place: tuple[int, int, int], current: bool) -> None:
    x, y, width = place
    card = scene.session.card(row)
    facts = {fact.name: fact for fact in card.facts}
    where = facts["Region"].words if "Region" in facts else ""
    text = (
        f" {facts['Start'].words:>12}  {facts['Engine'].words:<8} {clipped(card.title, 22):<22} "
        f"{clipped(card.id, 14):<14} {facts['Duration'].words:>9}  {clipped(where, 14):<14} {card.raw}"
    )
    canvas.put(x, y, text[:400].ljust(width), (ink.ACCENT | ink.REVERSE) if current else ink.TEXT, end=x + width)


def _typed(canvas: Canvas, x: int, y: int, lead: str, text: str, room: int) -> None:
    """What is being typed, its end in sight, with a cursor."""
    x = canvas.put(x, y, lead, ink.ACCENT) + 1
    shown = text if width_of(text) <= room else "…" + text[-(room - 1) :]
    x = canvas.put(x, y, shown, STRONG)
    canvas.put(x, y, "▏", ink.ACCENT)


def goto(canvas: Canvas, scene: Scene) -> None:
    width = min(canvas.width - 4, 62)
    x, y = (canvas.width - width) // 2, max(0, canvas.height - 6)
    box(canvas, x, y, width, 4, "Go to")
    _typed(canvas, x + 2, y + 1, "g", scene.state.entry, width - 8)
    hint = scene.state.note or "26.059 µs, an id or name, attention.py:19"
    canvas.put(x + 4, y + 2, hint, ink.MARK if scene.state.note else ink.DIM, end=x + width - 1)


def what_if(canvas: Canvas, scene: Scene) -> None:
    """The settings that are being typed, and those that the last word may become."""
    found = wishes.matching(scene.session, scene.state.entry)
    rows = max(1, min(8, canvas.height - 7))
    width = min(canvas.width - 4, 96)
    x, y = (canvas.width - width) // 2, max(0, canvas.height - rows - 5)
    box(canvas, x, y, width, rows + 4, "What if")
    _typed(canvas, x + 2, y + 1, "i", scene.state.entry, width - 8)
    hint = scene.state.note or "hbm_bw=2x tensor_clock=1.2x; several values with commas; Enter runs"
    canvas.put(x + 4, y + 2, hint, ink.MARK if scene.state.note else ink.DIM, end=x + width - 1)
    for line, (name, meaning) in enumerate(found[:rows], y + 3):
        canvas.put(x + 2, line, f"{name:<16}", ink.ACCENT)
        canvas.put(x + 19, line, meaning, ink.MID, end=x + width - 1)


def compare(canvas: Canvas, scene: Scene) -> None:
    """The path of the trace to compare with."""
    width = min(canvas.width - 4, 72)
    x, y = (canvas.width - width) // 2, max(0, canvas.height - 6)
    box(canvas, x, y, width, 4, "Compare with")
    _typed(canvas, x + 2, y + 1, "=", scene.state.entry, width - 8)
    hint = scene.state.note or "path of another trace; i compares with a changed machine"
    canvas.put(x + 4, y + 2, hint, ink.MARK if scene.state.note else ink.DIM, end=x + width - 1)


def commands(canvas: Canvas, scene: Scene) -> None:
    """Every command that holds the words that are typed, with its keys; Enter runs the one under the cursor."""
    found, state = matching_commands("terminal", scene.state.entry), scene.state
    rows = max(1, min(14, canvas.height - 7))
    width = min(canvas.width - 4, 72)
    x, y = (canvas.width - width) // 2, max(0, (canvas.height - rows - 3) // 2)
    box(canvas, x, y, width, rows + 3, "Commands")
    _typed(canvas, x + 2, y + 1, ":", state.entry, width - 24)
    canvas.put_right(x + width - 2, y + 1, f"{len(found)} of {len(commands_of('terminal'))}", ink.MID)
    chosen = min(state.choice, max(len(found) - 1, 0))
    first = min(max(0, chosen - rows // 2), max(0, len(found) - rows))
    for line, k in enumerate(range(first, min(first + rows, len(found))), y + 2):
        key = found[k]
        code = (ink.ACCENT | ink.REVERSE) if k == chosen else ink.TEXT
        text = f" {key.group:<8}{clipped(key.words, width - 24)}"
        canvas.put(x + 2, line, text + " " * (width - 4 - width_of(text)), code, end=x + width - 2)
        canvas.put_right(x + width - 3, line, " ".join(key.shown), code if k == chosen else ink.ACCENT)
    if not found:
        canvas.put(x + 4, y + 2, "no command says that", ink.MID)


def find_track(canvas: Canvas, scene: Scene) -> None:
    """The tracks whose name holds what is typed; the first is where Enter goes."""
    found = matching(scene.session.tracks(), scene.state.entry)
    rows = max(1, min(8, canvas.height - 6))
    width = min(canvas.width - 4, 50)
    x, y = (canvas.width - width) // 2, max(0, canvas.height - rows - 4)
    box(canvas, x, y, width, rows + 3, "Find a track")
    _typed(canvas, x + 2, y + 1, "t", scene.state.entry, width - 20)
    canvas.put_right(x + width - 2, y + 1, f"{len(found)} of {len(scene.session.tracks())}", ink.MID)
    for line, track in enumerate(found[:rows], y + 2):
        first = line == y + 2
        text = f" {clipped(track.name, 26):<27}{clipped(track.group_name, 18)}"
        canvas.put(
            x + 2, line, text.ljust(width - 4), (ink.ACCENT | ink.REVERSE) if first else ink.TEXT, end=x + width - 2
        )


def matching(tracks: Sequence[Track], text: str) -> list[Track]:
    return [track for track in tracks if text.lower() in f"{track.name} {track.group_name}".lower()]
