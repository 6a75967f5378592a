"""The widgets: columns of the canvas, of which only what changed is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

SPARED = 12
"""Unchanged cells that cost more to skip than to send."""


class Pane(Widget):
    """Columns of the canvas.

    Textual sends a line of a widget from its first column on, however little of it changed; panes keep that short.
    """

    DEFAULT_CSS = "Pane { height: 100%; }"

    left = 0
    """First column of the canvas that it shows."""

    def render_line(self, y: int) -> Strip:
        app: Any = self.app
        canvas, width = app.canvas, self.size.width
        if canvas is None or y >= canvas.height:
            return Strip.blank(width, app.inkwell.ground)
        runs = canvas.runs(y, app.ascii_only, self.left, self.left + width)
        return Strip([Segment(text, app.inkwell.style(code)) for text, code in runs], width)

    def touch(self, changed: np.ndarray) -> None:
        """Repaint what changed, bool [height, width of the canvas]."""
        mine = changed[:, self.left : self.left + self.size.width]
        regions = [part for y in np.flatnonzero(mine.any(axis=1)).tolist() for part in _stretches(mine[y], y)]
        if regions:
            self.refresh(*regions)


def _stretches(changed: np.ndarray, y: int) -> list[Region]:
    """What to send of a line: stretches of changed cells, joined where less than `SPARED` lies between."""
    columns = np.flatnonzero(changed)
    cuts = np.flatnonzero(np.diff(columns) > SPARED)
    first, last = columns[np.r_[0, cuts + 1]], columns[np.r_[cuts, columns.size - 1]]
    return [Region(int(a), y, int(b - a) + 1, 1) for a, b in zip(first, last, strict=True)]
