"""A scene as a one-page PDF: vectors, and text in Helvetica, which every reader has.

Written here, because the drawing needs ten operators and a library would bring a browser or a C toolchain.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

from trnprof.report.fonts import encode, measure
from trnprof.report.scene import Circle, Curve, Group, Line, Mark, Polygon, Scene, Text
from trnprof.report.svg import arrow_head

POINTS_A_PIXEL = 0.75
ROUND = 0.5522847498
"""Distance of a Bézier curve's handles that makes a quarter circle of radius 1."""


def to_pdf(scene: Scene, colours: Callable[[str], str]) -> bytes:
    """The picture as a page of its own size; the same scene gives the same bytes."""
    painter = _Painter(colours, scene.height)
    painter.ground(scene.width)
    for mark in scene.marks:
        painter.mark(mark)
    content = zlib.compress(b"\n".join(painter.commands), 9)
    states = " ".join(f"/G{round(o * 1000)} << /ca {o:g} /CA {o:g} >>" for o in sorted(painter.opacities))
    resources = f"<< /Font << /F1 4 0 R /F2 5 0 R >> /ExtGState << {states} >> >>"
    width, height = scene.width * POINTS_A_PIXEL, scene.height * POINTS_A_PIXEL
    title = (b"\xfe\xff" + scene.label.encode("utf-16-be", "replace")).hex()
    return _assemble(
        [
            b"<< /Type /Catalog /Pages 2 0 R /ViewerPreferences << /DisplayDocTitle true >> >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:g} {height:g}] /Resources {resources} "
            f"/Contents 6 0 R >>".encode(),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
            f"<< /Length {len(content)} /Filter /FlateDecode >>\nstream\n".encode() + content + b"\nendstream",
            f"<< /Title <{title}> /Producer (trnprof) >>".encode(),
        ]
    )


class _Painter:
    """Turns marks into the operators of a page; y grows upwards there."""

    def __init__(self, colours: Callable[[str], str], height: float):
        self.colours = colours
        self.commands = [f"{POINTS_A_PIXEL:g} 0 0 {POINTS_A_PIXEL:g} 0 0 cm".encode()]
        self.opacities: set[float] = {1.0}
        self.height = height

    def ground(self, width: float) -> None:
        self.put(f"{self._colour('bg')} rg 0 0 {width:g} {self.height:g} re f")

    def mark(self, mark: Mark) -> None:
        match mark:
            case Group():
                for each in mark.marks:
                    self.mark(each)
            case Line():
                self._paint(f"{self._at(mark.x0, mark.y0)} m {self._at(mark.x1, mark.y1)} l", None, mark.ink,
                            mark.width, mark.dash, mark.opacity)  # fmt: skip
            case Polygon():
                first, *others = (self._at(x, y) for x, y in mark.points)
                path = " ".join([f"{first} m", *(f"{point} l" for point in others), "h"])
                self._paint(path, mark.fill, mark.stroke, mark.width, (), mark.opacity)
            case Circle():
                path = self._circle(mark.x, mark.y, mark.r)
                self._paint(path, mark.fill, mark.stroke, mark.width, mark.dash, mark.opacity)
            case Curve():
                self._curve(mark)
            case Text():
                self._text(mark)

    def put(self, command: str | bytes) -> None:
        self.commands.append(command if isinstance(command, bytes) else command.encode("ascii"))

    def _paint(
        self, path: str, fill: str | None, stroke: str | None, width: float, dash: tuple[float, ...], opacity: float
    ) -> None:
        self.opacities.add(opacity)
        operator = {(True, True): "B", (True, False): "f", (False, True): "S"}[bool(fill), bool(stroke)]
        inside = f"{self._colour(fill)} rg " if fill else ""
        around = ""
        if stroke:
            dashes = " ".join(f"{length:g}" for length in dash)
            around = f"{self._colour(stroke)} RG {width:g} w [{dashes}] 0 d "
        self.put(f"q /G{round(opacity * 1000)} gs {inside}{around}{path} {operator} Q")

    def _circle(self, x: float, y: float, r: float) -> str:
        k = ROUND * r
        return (
            f"{self._at(x + r, y)} m "
            f"{self._at(x + r, y + k)} {self._at(x + k, y + r)} {self._at(x, y + r)} c "
            f"{self._at(x - k, y + r)} {self._at(x - r, y + k)} {self._at(x - r, y)} c "
            f"{self._at(x - r, y - k)} {self._at(x - k, y - r)} {self._at(x, y - r)} c "
            f"{self._at(x + k, y - r)} {self._at(x + r, y - k)} {self._at(x + r, y)} c h"
        )

    def _curve(self, mark: Curve) -> None:
        # A quadratic curve's handle lies at two thirds of the way for a cubic one.
        a = mark.x0 + (mark.cx - mark.x0) * 2 / 3, mark.y0 + (mark.cy - mark.y0) * 2 / 3
        b = mark.x1 + (mark.cx - mark.x1) * 2 / 3, mark.y1 + (mark.cy - mark.y1) * 2 / 3
        path = f"{self._at(mark.x0, mark.y0)} m {self._at(*a)} {self._at(*b)} {self._at(mark.x1, mark.y1)} c"
        self._paint(path, None, mark.ink, mark.width, (), 1.0)
        self.mark(Polygon(arrow_head(mark), mark.ink))

    def _text(self, mark: Text) -> None:
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[mark.anchor] * measure(mark.text, mark.size, mark.bold)
        turn = math.radians(mark.angle)
        cos, sin = math.cos(turn), math.sin(turn)
        x, y = mark.x - shift * cos, self.height - mark.y - shift * sin
        shown = encode(mark.text).replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        place = (
            f"1 0 0 1 {x:.2f} {y:.2f}"
            if not mark.angle
            else f"{cos:.5f} {sin:.5f} {-sin:.5f} {cos:.5f} {x:.2f} {y:.2f}"
        )
        font = f"/F{2 if mark.bold else 1} {mark.size:g} Tf {place} Tm".encode()
        halo = f"{self._colour('bg')} RG 4 w 1 j 1 Tr".encode()
        if mark.halo:
            self.put(b"q BT " + halo + b" " + font + b" (" + shown + b") Tj ET Q")
        self.put(f"BT 0 Tr {self._colour(mark.ink)} rg ".encode() + font + b" (" + shown + b") Tj ET")

    def _at(self, x: float, y: float) -> str:
        return f"{x:.2f} {self.height - y:.2f}"

    def _colour(self, ink: str) -> str:
        code = self.colours(ink)
        return " ".join(f"{int(code[i : i + 2], 16) / 255:.4g}" for i in (1, 3, 5))


def _assemble(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = len(out)
    entries = "".join(f"{place:010d} 00000 n \n" for place in places)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{entries}".encode()
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n".encode()
    out += f"startxref\n{table}\n%%EOF\n".encode()
    return bytes(out)
