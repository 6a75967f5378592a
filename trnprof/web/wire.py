"""Frames as bytes: a JSON head, then the columns, each as the typed array that the browser reads it into.

Layout: uint32 length of the head (little endian), the head padded with spaces to a multiple of 8, the columns at the
offsets that the head names, counted from its end. Times are float64 ps (exact below 2^53 ps, 2.5 hours); lengths
float32.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from trnprof.view.colours import inks
from trnprof.view.records import Frame, Overview

_JS_TYPES = {
    "float64": "Float64Array",
    "float32": "Float32Array",
    "int32": "Int32Array",
    "int16": "Int16Array",
    "int8": "Int8Array",
    "uint8": "Uint8Array",
}

FULL_BUSY = 255
"""Busy shares travel as 0-255."""


def pack_frame(frame: Frame) -> bytes:
    """A frame; `end` and `body` are lengths from `start`."""
    columns = {
        "start": frame.start_ps.astype(np.float64),
        "length": (frame.end_ps - frame.start_ps).astype(np.float32),
        "body": (frame.body_ps - frame.start_ps).astype(np.float32),
        "row": frame.row.astype(np.int32),
        "longest": frame.longest.astype(np.int32),
        "count": frame.count,
        "label": frame.label,
        "track": frame.track,
        "lane": frame.lane,
        "busy": np.rint(frame.busy * FULL_BUSY).astype(np.uint8),
        "colourOf": frame.colour,
        "flags": frame.flags,
        "gapStart": frame.gap_start_ps.astype(np.float64),
        "gapEnd": frame.gap_end_ps.astype(np.float64),
        "gapRow": frame.gap_row.astype(np.int32),
        "gapLabel": frame.gap_label,
        "gapTrack": frame.gap_track,
        "gapColour": frame.gap_colour,
        "levelTrack": frame.counter_tracks,
        "values": frame.values.ravel(),
    }
    head = {
        "t0": frame.t0_ps,
        "t1": frame.t1_ps,
        "bucket": frame.bucket_ps,
        "tracks": frame.tracks,
        "colour": frame.colour_by,
        "inks": inks(frame.colour_by),
        "labels": frame.labels,
        "levels": len(frame.values),
    }
    return pack(head, columns)


def pack_overview(overview: Overview) -> bytes:
    head = {"t0": overview.t0_ps, "t1": overview.t1_ps, "names": overview.names, "colours": overview.colours}
    return pack(head, {"busy": np.rint(overview.busy.ravel() * FULL_BUSY).astype(np.uint8)})


def pack(head: dict[str, Any], columns: dict[str, np.ndarray]) -> bytes:
    """The head and the columns as one body."""
    at, places, parts = 0, [], []
    # Widest first, so that every array starts at a multiple of its item's size.
    for name, column in sorted(columns.items(), key=lambda item: -item[1].dtype.itemsize):
        data = np.ascontiguousarray(column).tobytes()
        places.append([name, _JS_TYPES[column.dtype.name], at, column.size])
        parts.append(data)
        at += len(data)
    text = json.dumps({**head, "columns": places}, ensure_ascii=True).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])
