"""What a timeline in the browser begins with."""

from __future__ import annotations

from typing import Any

from trnprof.view import Session
from trnprof.view.colours import COLOURS, HUED
from trnprof.view.keys import commands_of, keys_of
from trnprof.view.palette import THEMES


def start_of(name: str, session: Session) -> dict[str, Any]:
    """All that the browser must know before the first frame."""
    meta = session.meta
    return {
        "name": name,
        "title": meta.title,
        "caption": session.caption,
        "estimated": meta.estimated,
        "tracks": [track.to_json() for track in session.tracks()],
        "home": list(session.home),
        "window": list(session.window),
        "extent": list(session.extent),
        "keys": {key: row.action for row in keys_of("web") for key in row.keys},
        "commands": [[row.action, row.group, row.words, list(row.shown)] for row in commands_of("web")],
        "colours": list(COLOURS),
        "hued": list(HUED),
        "themes": list(THEMES),
    }
