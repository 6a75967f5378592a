"""A scene as PNG: the PDF of `trnprof.report.pdf`, rasterised by PDFium, so that both look the same.

pypdfium2 was chosen because it is one wheel without system libraries and carries the standard fonts; SVG rasterisers
need fonts or Cairo from the system, which a bare machine lacks.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from sim.errors import UnsupportedError
from trnprof.report.pdf import POINTS_A_PIXEL, to_pdf
from trnprof.report.scene import Scene

SHARPNESS = 2
"""Pixels of the picture for each pixel of the scene, across and down."""


def to_png(scene: Scene, colours: Callable[[str], str]) -> bytes:
    """The picture as an RGB image.

    raises : UnsupportedError without pypdfium2
    """
    try:
        import pypdfium2
    except ImportError:
        raise UnsupportedError("png needs pypdfium2, which is not installed", remedy="pip install pypdfium2") from None
    document = pypdfium2.PdfDocument(to_pdf(scene, colours))
    try:
        page = document[0]
        bitmap = page.render(scale=SHARPNESS / POINTS_A_PIXEL, rev_byteorder=True)
        rows = _rows(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride, bitmap.n_channels)
        bitmap.close()
        page.close()
    finally:
        document.close()
    return _encode(rows, len(rows[0]) // 3, len(rows))


def _rows(data: bytes, width: int, height: int, stride: int, channels: int) -> list[bytes]:
    """RGB rows of a bitmap."""
    rows = [data[y * stride : y * stride + width * channels] for y in range(height)]
    if channels == 3:
        return rows
    return [bytes(byte for k, byte in enumerate(row) if k % channels < 3) for row in rows]


def _encode(rows: list[bytes], width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    density = struct.pack(">IIB", *2 * (round(96 * SHARPNESS / 0.0254),), 1)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", head), chunk(b"pHYs", density), chunk(b"IDAT", body), chunk(b"IEND", b"")]
    )
