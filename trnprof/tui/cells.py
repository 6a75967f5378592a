"""From spans and series to characters: bars in eighths, braille areas and braille lanes.

Positions are in cells: a float 3.5 is the middle of the fourth cell. A character code of zero draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEFT = np.array([ord(c) for c in " ▏▎▍▌▋▊▉█"], np.uint32)
UP = np.array([ord(c) for c in " ▁▂▃▄▅▆▇█"], np.uint32)
FULL, SEAM, RIGHT_HALF, RIGHT_EDGE = (ord(c) for c in "█▉▐▕")
AREA_BITS = np.array([[0x40, 0x80], [0x04, 0x20], [0x02, 0x10], [0x01, 0x08]], np.uint32)
"""Braille dots from the bottom row up, left and right."""
LANE_BITS = AREA_BITS[::-1]
BRAILLE = 0x2800
FAINT = 0.05
"""Of a dot: what is less is no level but a trickle."""
EDGE = 0.06
"""A bar that ends this near to a cell's edge, in cells, fills the cell."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One line of a track, by cell."""

    chars: np.ndarray
    """uint32[width]"""
    span: np.ndarray
    """Index of the span that covers most of the cell, int64[width], -1 where there is none."""


def bars(start: np.ndarray, end: np.ndarray, busy: np.ndarray, count: np.ndarray, width: int) -> Bars:
    """Spans as bars: one edge in a cell is exact to an eighth, several spans in a cell show their busy share.

    start, end : float64[n], cells, `start` ascending, spans disjoint
    busy       : float64[n], 0-1, share of the span that is work; count : int64[n], instructions in it
    """
    cell, owner, part = spread(start, end, width)
    share = np.bincount(cell, part * busy[owner], width)
    held = np.bincount(cell, np.minimum(count[owner], 2), width)
    span = np.full(width, -1, np.int64)
    order = np.lexsort((part, cell))
    span[cell[order]] = owner[order]
    chars = np.zeros(width, np.uint32)
    filled = np.flatnonzero(span >= 0)
    chars[filled] = _bar_chars(filled, start[span[filled]], end[span[filled]], share[filled], held[filled] > 1)
    return Bars(chars, span)


def spread(start: np.ndarray, end: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every cell that every span touches: (cell, span, covered part of the cell 0-1), each of equal length."""
    seen = np.flatnonzero((end >= 0) & (start < width))
    low, high = np.clip(start[seen], 0, width), np.clip(end[seen], 0, width)
    first = np.minimum(low.astype(np.int64), width - 1)
    last = np.maximum(np.ceil(high).astype(np.int64) - 1, first)
    cells = last - first + 1
    owner = np.repeat(np.arange(seen.size), cells)
    cell = first[owner] + np.arange(owner.size) - np.repeat(np.cumsum(cells) - cells, cells)
    part = np.minimum(high[owner], cell + 1) - np.maximum(low[owner], cell)
    return cell, seen[owner], np.clip(part, 0, 1)


def _bar_chars(
    cell: np.ndarray, start: np.ndarray, end: np.ndarray, share: np.ndarray, several: np.ndarray
) -> np.ndarray:
    from_left, to_right = start <= cell + EDGE, end >= cell + 1 - EDGE
    level = np.clip(np.rint(np.minimum(share, 1) * 8), 1, 8).astype(np.int64)
    crowded = several & (share < 0.9)
    seam = several & (share >= 0.9) & ~(from_left & to_right)
    begins = np.where(level >= 3, RIGHT_HALF, RIGHT_EDGE)
    single = np.select(
        [from_left & to_right & (share >= 0.9), from_left & ~to_right, to_right & ~from_left],
        [FULL, LEFT[level], begins],
        UP[level],
    )
    return np.where(crowded, UP[level], np.where(seam, SEAM, single)).astype(np.uint32)


def gauge(share: float, width: int) -> tuple[str, str]:
    """A bar of `width` cells as its filled and its empty part."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full = "█" * (eighths // 8) + (chr(LEFT[eighths % 8]) if eighths % 8 else "")
    return full, "░" * (width - len(full))


def columns(share: np.ndarray) -> np.ndarray:
    """Upper eighths for shares of 0-1, uint32 of the same shape; nothing for nothing, an eighth for little."""
    level = np.clip(np.ceil(share * 8 - 0.5), np.where(share > 0, 1, 0), 8).astype(np.int64)
    return np.where(level > 0, UP[level], 0).astype(np.uint32)


def area(share: np.ndarray, rows: int) -> np.ndarray:
    """A filled curve in braille: share is float64[2 * width], 0-1; returns uint32[rows, width], top row first."""
    level = share * rows * 4
    dots = np.clip(np.rint(level), np.where(level > FAINT, 1, 0), rows * 4).astype(np.int64)
    height = np.arange(rows * 4)
    on = dots.reshape(-1, 2)[None, :, :] > height[:, None, None]
    bits = (on.reshape(rows, 4, -1, 2) * AREA_BITS[None, :, None, :]).sum(axis=(1, 3))
    return np.where(bits > 0, bits + BRAILLE, 0).astype(np.uint32)[::-1]


def lanes(lane: np.ndarray, start: np.ndarray, end: np.ndarray, width: int) -> np.ndarray:
    """Four dot rows in one line: lane is int[n], 0 at the top to 3; start and end are cells. Returns uint32[width]."""
    grid = np.zeros((4, width * 2), bool)
    half, owner, part = spread(start * 2, end * 2, width * 2)
    short = (end - start)[owner] * 2 < 1
    keep = (part > 0.3) | short
    grid[lane[owner[keep]], half[keep]] = True
    bits = (grid.reshape(4, width, 2) * LANE_BITS[:, None, :]).sum(axis=(0, 2))
    return np.where(bits > 0, bits + BRAILLE, 0).astype(np.uint32)
