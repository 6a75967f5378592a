"""What-ifs of a line of settings: how far they are, what they found, and their page."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from trnprof.tui import ink
from trnprof.tui.canvas import Canvas, clipped
from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.interruptible import Interruptible
from trnprof.view.paths import WhatIfCard

STRONG = ink.TEXT | ink.BOLD


@dataclass(frozen=True, slots=True)
class Wish:
    """A line of settings and the answers so far."""

    text: str
    asked: tuple[dict[str, Any], ...] = ()
    found: tuple[WhatIfCard, ...] = ()
    error: str = ""
    began: float = field(default_factory=time.monotonic)
    over: bool = False
    control: Interruptible = field(default_factory=Interruptible)

    def with_(self, card: WhatIfCard) -> Wish:
        return replace(self, found=(*self.found, card))

    @property
    def progress(self) -> str:
        if self.error:
            return self.error
        if self.over and len(self.found) < len(self.asked):
            return f"cancelled after {len(self.found)} of {len(self.asked)}"
        said = f"{len(self.found)} of {len(self.asked)} run"
        return said if self.over else f"{said}, {time.monotonic() - self.began:.1f} s so far"


def page(canvas: Canvas, session: Session, wish: Wish, chosen: int) -> None:
    """The answers as a table, what can be done with them below."""
    meta, width = session.meta, canvas.width
    x = canvas.put(1, 1, "What if ", STRONG)
    canvas.put(x, 1, f"{wish.text}   now {meta.window.words}", ink.MID)
    canvas.put(1, 2, clipped(wish.progress, width - 2), ink.BAD if wish.error else ink.DIM)
    name = max(24, width - 46)
    if wish.found:
        canvas.put(1, 4, f"{'settings':<{name}}{'time':>11}{'change':>10}  bound", ink.DIM)
    room = max(1, canvas.height - 9)
    first = max(0, min(chosen, len(wish.found) - 1) - room + 1)
    for line, k in enumerate(range(first, min(first + room, len(wish.found))), 5):
        card = wish.found[k]
        on = k == chosen
        canvas.put(0, line, "▸" if on else " ", ink.ACCENT)
        x = canvas.put(1, line, f"{clipped(card.settings, name - 1):<{name}}", STRONG if on else ink.TEXT)
        x = canvas.put(x, line, f"{card.time_words:>11}", ink.MARK)
        good = ink.GOOD if card.time_ps < card.before_ps else ink.BAD if card.time_ps > card.before_ps else ink.DIM
        x = canvas.put(x, line, f"{card.change:>10}", good)
        canvas.put(x + 2, line, card.bound, ink.TEXT)
    if wish.found:
        notes = wish.found[min(chosen, len(wish.found) - 1)].notes
        for line, note in enumerate(notes[:2], canvas.height - 3):
            canvas.put(1, line, clipped(note, width - 2), ink.MID)
    keys = (("Tab", "next"), ("Enter", "compare"), ("i", "another"), ("Esc", "back, or cancel"))
    x = 1
    for key, what in keys:
        x = canvas.put(x, canvas.height - 1, key, ink.ACCENT)
        x = canvas.put(x + 1, canvas.height - 1, what, ink.DIM) + 2


def matching(session: Session, text: str) -> list[tuple[str, str]]:
    """Settings whose name begins with the word that is being typed: name and meaning."""
    last = text.rpartition(" ")[2].partition("=")[0]
    now = [(row.name, f"{row.meaning}, {row.value or f'only {row.name}={row.word}'}") for row in session.settings()]
    return [(name, words.plain(said, 200)) for name, said in now if name.startswith(last)]
