"""The tabs that answer what to do about it, as lines: advice, the critical path, what lies in memory.

Entries can be stepped through with Tab; Enter leads to the timeline (`trnprof.tui.choices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from trnprof.tui import cells, ink
from trnprof.tui.canvas import clipped, width_of
from trnprof.tui.panels import STRONG, Line, wrapped
from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.findings import AdviceCard
from trnprof.view.memory import MemoryMap, Tile
from trnprof.view.paths import PathCard

Entry = list[Line]
MOST_LINES = 30
"""Source lines of the critical path."""
HINT = [("Tab", ink.ACCENT), (" next  ", ink.DIM), ("Enter", ink.ACCENT), (" shows it in the timeline", ink.DIM)]


def scrolled(head: list[Line], entries: Sequence[Entry], chosen: int, height: int) -> list[Line]:
    """The head and as many entries as fit, the chosen one among them."""
    room = max(1, height - len(head))
    first = 0
    while first < chosen and sum(len(entry) for entry in entries[first : chosen + 1]) > room:
        first += 1
    return [*head, *[line for entry in entries[first:] for line in entry]]


def _pointer(on: bool) -> tuple[str, int]:
    return ("▸ ", ink.ACCENT) if on else ("  ", ink.DIM)


def advice(found: Sequence[AdviceCard], chosen: int, height: int, width: int) -> list[Line]:
    """The pieces of advice, the chosen one with its symptom, remedy and evidence."""
    if not found:
        return [[("No rule has a complaint.", ink.MID)]]
    chosen = min(chosen, len(found) - 1)
    entries = [_advice(card, card.number - 1 == chosen, width) for card in found]
    head: list[Line] = [[(f"{words.plural(len(found), 'piece')} of advice; gains do not add up   ", ink.MID), *HINT]]
    return scrolled(head if height > 8 else [], entries, chosen, height)


def _advice(card: AdviceCard, on: bool, width: int) -> Entry:
    title = clipped(card.title, max(20, width - width_of(card.gain) - 8))
    head: Line = [_pointer(on), (f"{card.number} {title}  ", STRONG if on else ink.TEXT), (card.gain, ink.MARK)]
    if not on:
        return [head]
    where = f"{card.place}  " if card.place else ""
    shown = f"{words.plural(card.count, 'instruction')}: {', '.join(card.names[:6])}"
    lines = [head, *wrapped(card.symptom, width, "    "), *wrapped(f"Do: {card.fix}", width, "    ")]
    lines.append([("    ", ink.DIM), (f"{where}{shown}", ink.MID)])
    return lines + [line for text in (*card.evidence, card.how) for line in wrapped(text, width, "  · ")]


def path(found: PathCard, slack: str, chosen: int, height: int, width: int) -> list[Line]:
    """What the end hung on: causes, loops and lines."""
    if not found.causes:
        return [[("Nothing ran, so nothing held up the end.", ink.MID)]]
    head: list[Line] = [[(found.headline, STRONG)]]
    if width_of(found.headline) + width_of(slack) + 2 <= width:
        head[0].append((f"  {slack}", ink.MID))
    elif height > 8:
        head.append([(slack, ink.MID)])
    entries = [entry for _, entry in path_entries(found, chosen, width)]
    return scrolled(head, entries, min(chosen, len(entries) - 1), height)


def path_entries(found: PathCard, chosen: int, width: int) -> list[tuple[tuple[str, int], Entry]]:
    """What can be chosen: kind and place in the card, and its lines."""
    made: list[tuple[tuple[str, int], Entry]] = []
    for k, cause in enumerate(found.causes):
        full, empty = cells.gauge(cause.share, 16)
        line: Line = [
            _pointer(len(made) == chosen),
            (f"{cause.name:<15}", ink.TEXT),
            (full, ink.ACCENT),
            (empty, ink.DIM),
            (f"{cause.share_words:>6}", STRONG),
            (f"{cause.time_words:>11}  ", ink.TEXT),
            (cause.note, ink.DIM),
        ]
        made.append((("cause", k), [line]))
    for k, circuit in enumerate(found.circuits):
        line = [_pointer(len(made) == chosen), ("loop  ", ink.DIM), (f"{circuit.name}  ", ink.TEXT)]
        made.append((("circuit", k), [[*line, (circuit.headline, ink.MID)]]))
    for k, row in enumerate(found.lines[:MOST_LINES]):
        place = clipped(row.place, max(12, min(30, width - 40)))
        line = [_pointer(len(made) == chosen), ("line  ", ink.DIM), (f"{place:<24}", ink.TEXT)]
        text = f"{row.time_words:>11}{row.share_words:>6}  "
        made.append((("line", k), [[*line, (text, ink.TEXT), (row.mostly, ink.MID)]]))
    return made


def memory(session: Session, at_ps: int, height: int, width: int) -> list[Line]:
    """SBUF and PSUM at a moment: partitions down, bytes across; then the tiles."""
    found = session.memory(at_ps)
    if found.missing:
        return [[(found.missing, ink.MID)]]
    rows = 1 if height < 8 else 2 if height < 16 else 4
    lines: list[Line] = []
    for each in found.maps:
        lines.append([(f"{each.name} ", STRONG), (f"at {found.moment}  {each.used_words}  ", ink.TEXT),
                      (f"across: {each.shown_words}", ink.DIM)])  # fmt: skip
        lines += _map(each, rows, width)
    return lines + [_tile(each.name, tile) for each in found.maps for tile in each.tiles]


def _map(found: MemoryMap, rows: int, width: int) -> list[Line]:
    """Rows of the map; every second tile is a tint darker, and a name stands where it is whole."""
    colour = ink.ENGINE + (1 if found.name == "SBUF" else 0)
    lines = []
    tiles = sorted(found.tiles, key=lambda tile: tile.offset)
    for row in range(rows):
        low, high = (found.partitions * k // rows for k in (row, row + 1))
        chars, inks = np.full(width, "·"), np.full(width, ink.DIM)
        for k, tile in enumerate(tiles):
            if tile.partition < high and tile.partition + tile.partitions > low:
                _lay(chars, inks, tile, found.shown_bytes, colour | (ink.ALT if k % 2 else 0), named=row == 0)
        runs = [(code, list(group)) for code, group in groupby(range(width), key=lambda x: int(inks[x]))]
        lines.append([("".join(chars[group[0] : group[-1] + 1]), code) for code, group in runs])
    return lines


def _lay(chars: np.ndarray, inks: np.ndarray, tile: Tile, size: int, colour: int, named: bool) -> None:
    width = len(chars)
    first = min(width - 1, tile.offset * width // size)
    last = min(width, max(first + 1, -(-(tile.offset + tile.bytes) * width // size)))
    chars[first:last], inks[first:last] = "█", colour
    text = clipped(tile.name, 40)
    if named and width_of(text) == len(text) <= last - first - 2 and text:
        chars[first + 1 : first + 1 + len(text)] = list(text)
        inks[first : first + 1 + len(text)] = colour | ink.LABEL
        chars[first] = " "


def _tile(memory_: str, tile: Tile) -> Line:
    return [
        (f"  {memory_:<5}", ink.DIM),
        (f"{clipped(tile.name, 22):<23}{tile.size_words:>9}  ", ink.TEXT),
        (f"{tile.lives}  {tile.place}  {tile.source}", ink.MID),
    ]
