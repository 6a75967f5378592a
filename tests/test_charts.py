"""Charts are whole in every format: parsed back, complete, safe with any name, the same bytes each time."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import re
import struct
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from sim.errors import InputError, UsageError
from tests.handmade import make, matmul, move, region, vector
from trnprof.report.charts import ENDINGS, write
from trnprof.report.dots import draw_dots, outside
from trnprof.report.fonts import encode, measure
from trnprof.report.frame import Plot, draw_roofs
from trnprof.report.layout import lay_out
from trnprof.report.scene import Circle, Group, Line, Text, box_of, shorten, wrap
from trnprof.roofline import Chart, chart
from trnprof.view.palette import THEME_COLOURS

HOSTILE = "</text><script>alert(1)</script> \x1b[31m\u202e\x00 & \"'`{}"


def example(names: tuple[str, ...] = ("load q", "Q·Kᵀ", "exp", "P·V"), simulated: bool = False, **meta) -> Chart:
    rows, regions = [], [region("kernel", 0, 1000 * len(names))]
    for k, name in enumerate(names):
        regions.append(region(name, 1000 * k, 1000 * k + 1000, parent=0))
        size = {"hbm_read_bytes": 40_000 * (k + 1), "region": k + 1}
        rows.append(vector(1000 * k, 900, 400, **size) if k % 4 == 2 else matmul(1000 * k, 800 - 20 * k, **size))
    return chart(make(rows, [move(0, 10, 64)], regions=regions, is_simulation=simulated, **meta))


@pytest.fixture(scope="module")
def made() -> Chart:
    return example()


def written(made: Chart, folder, ending: str, theme: str = "light") -> bytes:
    return write(made, folder / f"chart{ending}", theme).read_bytes()


def texts(svg: bytes) -> str:
    return " ".join("".join(node.itertext()) for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))


def pdf_words(data: bytes) -> str:
    """What the page shows, by its own operators."""
    content = zlib.decompress(re.search(rb"stream\n(.*)\nendstream", data, re.S).group(1))
    shown = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", content)
    return " ".join(re.sub(rb"\\(.)", rb"\1", text).decode("cp1252") for text in shown)


def test_svg_is_sound_xml_whose_text_is_text(made, tmp_path):
    data = written(made, tmp_path, ".svg")
    shown = texts(data)
    assert all(dot.name in shown for dot in made.dots)
    assert all(
        part in shown for part in ("TensorE fp8", "HBM 358", "DMA 368", "ridge", "Captured on hardware", "trnprof 0.")
    )
    assert b"href" not in data
    assert b"<script" not in data
    assert b"@import" not in data


def test_pdf_holds_the_same_words_as_the_svg(made, tmp_path):
    shown = pdf_words(written(made, tmp_path, ".pdf"))
    assert all(part in shown for part in ("load q", "Q·KT", "P·V", "TensorE bf16", "HBM 358", "ridge", "trnprof 0."))


def test_pdf_opens_and_its_cross_references_are_exact(made, tmp_path):
    import pypdfium2

    data = written(made, tmp_path, ".pdf")
    table = int(re.search(rb"startxref\n(\d+)", data).group(1))
    places = [int(place) for place in re.findall(rb"(\d{10}) 00000 n", data[table:])]
    assert all(data[place:].startswith(f"{number} 0 obj".encode()) for number, place in enumerate(places, start=1))
    document = pypdfium2.PdfDocument(data)
    page = document[0]
    assert page.get_size() == pytest.approx((840, lay_out(made).height * 0.75), abs=0.1)
    page.close()
    document.close()


def test_png_is_a_picture_of_the_theme(made, tmp_path):
    grounds = []
    for theme in THEME_COLOURS:
        data = written(made, tmp_path, ".png", theme)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        assert (width, height) == (2240, pytest.approx(2 * lay_out(made).height, abs=2))
        body = zlib.decompress(b"".join(chunk for kind, chunk in chunks(data) if kind == b"IDAT"))
        assert len(set(body)) > 50
        grounds.append("#" + body[1:4].hex())
    assert grounds == [THEME_COLOURS[theme]["bg"] for theme in THEME_COLOURS]


def chunks(data: bytes):
    place = 8
    while place < len(data):
        length = struct.unpack(">I", data[place : place + 4])[0]
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + body)
        yield kind, body
        place += 12 + length


class Page(HTMLParser):
    """Collects tags and visible words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data


def test_html_is_one_file_that_loads_and_runs_nothing(made, tmp_path):
    page = Page()
    text = written(made, tmp_path, ".html").decode()
    page.feed(text)
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.tags}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on") or name in ("src", "href")]
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert all(dot.name in page.words for dot in made.dots)
    assert all(ceiling.source in page.words for ceiling in made.ceilings)


def test_csv_and_json_hold_every_number(made, tmp_path):
    rows = list(csv.DictReader(io.StringIO(written(made, tmp_path, ".csv").decode())))
    record = json.loads(written(made, tmp_path, ".json"))
    dots = [row for row in rows if row["row"] == "dot"]
    assert [row["name"] for row in dots] == [dot.name for dot in made.dots] == [dot["name"] for dot in record["dots"]]
    assert [float(row["intensity"]) for row in dots] == [dot.intensity for dot in made.dots]
    assert [float(row["time_ns"]) for row in dots] == [dot.time_ps / 1000 for dot in made.dots]
    ceilings = [row for row in rows if row["row"] == "ceiling"]
    assert [float(row["attainable"]) for row in ceilings] == [c["value"] for c in record["ceilings"]]


@pytest.mark.parametrize("ending", ENDINGS)
def test_hostile_names_stay_text(ending, tmp_path):
    made = example(
        (HOSTILE, "=cmd|'/c calc'!A1", "\ud800 lone surrogate", "x" * 10_000), source=HOSTILE, kernel=HOSTILE
    )
    data = written(made, tmp_path, ending)
    if ending == ".svg":
        assert "<script>alert(1)</script>" in texts(data)
        assert b"<script" not in data
    elif ending == ".html":
        page = Page()
        page.feed(data.decode())
        assert "script" not in {tag for tag, _ in page.tags}
        assert "</text><script>alert(1)" in page.words
    elif ending == ".csv":
        assert "'=cmd" in data.decode()
    elif ending == ".json":
        assert json.loads(data)["dots"][0]["name"]
    elif ending == ".pdf":
        assert b"\x1b" not in pdf_words(data).encode()
    assert len(data) < 400_000


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_chart_gives_the_same_bytes(made, ending, tmp_path):
    assert written(made, tmp_path, ending) == written(example(), tmp_path, ending)


@pytest.mark.parametrize("name", ["chart.jpeg", "chart", "chart.svg.gz"])
def test_an_unknown_ending_lists_those_that_work(made, tmp_path, name):
    with pytest.raises(UsageError, match=r"\.html, \.svg, \.png, \.pdf, \.csv, \.json"):
        write(made, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_theme_is_a_usage_error(made, tmp_path):
    with pytest.raises(UsageError, match="dark, light, contrast"):
        write(made, tmp_path / "a.svg", "sepia")


def test_a_file_is_replaced_whole_or_not_at_all(made, tmp_path):
    target = tmp_path / "chart.svg"
    target.write_text("before")
    broken = dataclasses.replace(made, dots=(dataclasses.replace(made.dots[0], name=None),))
    with pytest.raises((TypeError, AttributeError, KeyError)):
        write(broken, target)
    assert target.read_text() == "before"
    write(made, target)
    assert ET.fromstring(target.read_bytes()).tag.endswith("svg")
    assert [path.name for path in tmp_path.iterdir()] == ["chart.svg"]


@pytest.mark.parametrize("place", ["missing/chart.svg", "folder.svg"])
def test_a_place_that_cannot_be_written_is_an_input_error(made, tmp_path, place):
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match=re.escape(place)):
        write(made, tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.svg"]


@pytest.mark.parametrize("count", [1, 4, 12, 40])
def test_names_never_overlap_and_every_dot_has_one_or_its_number(count):
    made = example(tuple(f"region {k}" for k in range(count)))
    plot = Plot(94, 100, 900, 600, made.x, made.y)
    _, taken = draw_roofs(made, plot)
    marks = draw_dots(made, plot, taken)
    names = [mark for mark in marks if isinstance(mark, Text)]
    titles = [mark for mark in names if mark.bold or mark.ink == "text"]
    assert len(titles) == len(made.dots)
    boxes = [box_of(mark) for mark in names if not mark.bold]
    assert not [1 for k, box in enumerate(boxes) for other in boxes[:k] if box.overlaps(other)]
    assert all(box.inside(plot.box) for box in boxes)


@pytest.mark.parametrize("device", ["trn1", "trn2", "trn3", "inf1"])
def test_roofs_are_named_apart_and_with_their_limits(device):
    trace = make([vector(0, 900, 400), matmul(0, 900)], [move(0, 900, 1 << 18)])
    for made in (chart(trace, device=device), chart(make([vector(0, 900, 400)], [move(0, 9, 999)]), device=device)):
        plot = Plot(94, 100, 900, 600, made.x, made.y)
        names = [mark for mark in draw_roofs(made, plot)[0] if isinstance(mark, Text) and mark.x > plot.right]
        assert all(low.y - high.y >= 14 for high, low in pairwise(names))
        shown = " ".join(mark.text for mark in names)
        assert all(c.name.removeprefix("TensorE ") in shown for c in made.ceilings if c.kind == "compute")


def test_a_dot_outside_the_frame_is_drawn_at_its_edge_and_says_so(made):
    far = dataclasses.replace(made.dots[0], intensity=1e9, name="far away")
    off = dataclasses.replace(made, dots=(far,))
    plot = Plot(94, 100, 900, 600, off.x, off.y)
    assert outside(far, plot)
    assert "outside the frame" in " ".join(m.text for m in draw_dots(off, plot, []) if isinstance(m, Text))


def test_bounds_are_told_without_colour(made):
    marks = {}
    for bound in ("compute", "memory_bandwidth", "memory_capacity", "network", "latency"):
        dot = dataclasses.replace(made.dots[0], bound=bound)
        one = dataclasses.replace(made, dots=(dot,))
        plot = Plot(94, 100, 900, 600, one.x, one.y)
        group = next(mark for mark in draw_dots(one, plot, []) if isinstance(mark, Group))
        slopes = {
            round((m.y1 - m.y0) / (m.x1 - m.x0), 2) if m.x1 != m.x0 else "up"
            for m in group.marks
            if isinstance(m, Line)
        }
        marks[bound] = (tuple(sorted(map(str, slopes))), sum(isinstance(m, Circle) for m in group.marks) > 3)
    assert len(set(marks.values())) == 5


def test_estimates_and_captures_never_look_alike(tmp_path):
    captured, estimated = (
        texts(written(example(), tmp_path, ".svg")),
        texts(written(example(simulated=True), tmp_path, ".svg")),
    )
    assert "~" not in captured
    assert re.search(r"~[\d.]+\u202fTFLOP/s", estimated)
    assert "Estimated by emulation" in estimated


def test_a_chart_without_dots_still_shows_the_roofs_and_says_why(tmp_path):
    shown = texts(written(chart(make([matmul(0)])), tmp_path, ".svg"))
    assert "Without a dot: kernel (no HBM byte, so no intensity)." in shown
    assert "TensorE bf16" in shown


def test_a_chart_of_an_unknown_device_has_axes_without_roofs(tmp_path):
    made = chart(make([matmul(0)], [move(0, 100, 1 << 16)], device="unknown"))
    for ending in ENDINGS:
        assert written(made, tmp_path, ending)


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("µs ± ×", b"\xb5s \xb1 \xd7"),
        ("Q·Kᵀ", b"Q\xb7KT"),
        ("a\u202fb\u2009c", b"a b c"),
        ("\u22125", b"\x965"),
        ("漢", b"?"),
    ],
)
def test_what_the_standard_fonts_lack_is_written_alike(text, encoded):
    assert encode(text) == encoded


def test_texts_are_measured_wrapped_and_shortened_to_fit():
    assert measure("iiii", 10) < measure("MMMM", 10)
    lines = wrap("one two three " + "w" * 60, 80, 11)
    assert "".join(lines).replace(" ", "") == "onetwothree" + "w" * 60
    assert all(measure(line, 11) <= 80 for line in lines)
    assert shorten("short", 100, 11) == "short"
    assert measure(shorten("a long name in the middle", 60, 11), 11) <= 60


def test_names_of_slopes_and_ridges_keep_clear_of_dots_and_of_each_other():
    made = chart(
        make([vector(0, 1000, 100, hbm_read_bytes=80_000)], [move(0, 900, 80_000)]), compare=("a100", "h100", "v100")
    )
    scene = lay_out(made)
    slanted = [text for text in texts_of(scene) if text.angle and text.angle < 89]
    assert {text.text.partition(" ")[0] for text in slanted} == {"DMA", "HBM", "NeuronLink", "A100", "H100", "V100"}
    ridges = [text for text in texts_of(scene) if text.text.endswith("FLOP/B") and text.size == 10]
    assert len(ridges) == 5
    boxes = [box_of(text) for text in ridges]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    dot = next(mark for mark in scene.marks if isinstance(mark, Group))
    circle = next(mark for mark in dot.marks if isinstance(mark, Circle))
    for text in slanted:
        for box in along(text):
            assert abs(box[0] - circle.x) > circle.r or abs(box[1] - circle.y) > circle.r


def texts_of(scene):
    return [mark for mark in scene.marks if isinstance(mark, Text)]


def along(text):
    """Points on a slanted text, its base line."""
    turn = math.radians(text.angle)
    return [(text.x + d * math.cos(turn), text.y - d * math.sin(turn)) for d in range(0, int(text.width), 4)]


@pytest.mark.parametrize(("columns", "way"), [(512, "below"), (4, "left")])
def test_a_dot_beyond_the_frame_is_pointed_to(columns, way):
    made = chart(make([matmul(0, 213_000_000, columns=columns)], [move(0, 9, 1 << 20)]))
    group = next(mark for mark in lay_out(made).marks if isinstance(mark, Group))
    tip = group.marks[-1].points[0]
    circle = next(mark for mark in group.marks if isinstance(mark, Circle))
    expected = (circle.x, circle.y + circle.r) if way == "below" else (circle.x - circle.r, circle.y)
    assert (tip[0] - expected[0], tip[1] - expected[1]) == pytest.approx(
        (0, tip[1] - expected[1]) if way == "below" else (tip[0] - expected[0], 0)
    )
    assert tip[1] > expected[1] if way == "below" else tip[0] < expected[0]
