"""A review is whole, offline, safe with any name, and says what the views say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

import trnprof
from sim.errors import UsageError
from tests.handmade import make, matmul, move, region, vector
from trnprof.cli import main
from trnprof.report.review import Grid, Picture, Points, review
from trnprof.report.reviews import write
from trnprof.report.scene import Polygon
from trnprof.report.timeline import GUTTER, RIGHT, WIDTH, draw_timeline
from trnprof.view import Session
from trnprof.view.format import NARROW, THIN

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "traces" / "attention"
HOSTILE = "</h1><script>alert(1)</script> | \x1b[31m\u202e`*_[]("
SECTIONS = ["Verdict", "Roofline", "Timeline", "Where the time goes", "Critical path", "Advice", "Assumptions"]


@cache
def sample() -> Session:
    return Session.open(SAMPLE)


class Page(HTMLParser):
    """Tags with their attributes, and the words between them."""

    void = {"meta", "br", "hr", "img", "link"}

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} closed out of turn"

    def handle_data(self, data):
        self.words.append(data)


def page(session: Session, folder: Path, **options) -> tuple[str, Page]:
    text = write(session, folder / "review.html", **options).read_text()
    return text, Page(text)


def test_a_page_is_well_formed_self_contained_and_has_every_section(tmp_path):
    text, made = page(sample(), tmp_path)
    assert not made.open
    names = [tag for tag, _ in made.tags]
    assert not {"script", "link", "img", "iframe", "object"} & set(names)
    assert not re.search(r"https?://", re.sub(r"xmlns=\S+", "", text))
    assert "url(" not in text and "@import" not in text
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == SECTIONS
    assert names.count("svg") == 2


def test_a_page_says_what_the_session_says(tmp_path):
    _, made = page(sample(), tmp_path)
    said = " ".join(made.words)
    assert sample().verdict.title in said
    assert all(line.sentence in said for line in sample().verdict.evidence)
    assert all(card.title in said and card.fix in said and card.gain in said for card in sample().advice())
    assert all(row.name in said and row.time_words in said for row in sample().critical().causes)
    assert all(dot.name in said for dot in sample().roofline().dots)
    assert all(figure.name in said and figure.source in said for figure in sample().assumptions())


@pytest.mark.parametrize(("theme", "grounds"), [(None, 2), ("dark", 1), ("light", 1)])
def test_a_page_follows_its_reader_unless_a_theme_is_asked_for(tmp_path, theme, grounds):
    text, _ = page(sample(), tmp_path, theme=theme)
    assert text.count("--bg: #") == grounds


def test_print_is_light_whatever_the_reader_has(tmp_path):
    text, _ = page(sample(), tmp_path)
    assert "@media screen and (prefers-color-scheme: dark)" in text
    assert "size: A4" in text


def test_no_line_of_prose_ends_within_a_number(tmp_path):
    many = Session(make([matmul(400 * k, 200) for k in range(2000)], [move(0, 100, 1024)]))
    text, _ = page(many, tmp_path)
    prose = " ".join(re.findall(r"<(?:p|li)[^>]*>(.*?)</(?:p|li)>", text))
    assert re.search(rf"\d{NARROW}\d", prose) and not re.search(rf"\d{THIN}\d", prose)


def test_markdown_has_the_same_sections_and_its_pictures_beside_it(tmp_path):
    text = write(sample(), tmp_path / "my review.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS
    named = re.findall(r"!\[.*\]\((.*)\)", text)
    assert named == ["my%20review-roofline.svg", "my%20review-timeline.svg"]
    for name in named:
        assert ET.parse(tmp_path / name.replace("%20", " ")).getroot().tag.endswith("svg")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert len(tables) >= 6
    assert all(len({row.count("|") for row in table.splitlines()}) == 1 for table in tables)


def hostile() -> Session:
    rows = [matmul(213 * k, region=0, source=f"{HOSTILE}.py:{k}") for k in range(9)]
    regions = [region(HOSTILE, 0, 2000)]
    return Session(make(rows, [move(0, 900, 1 << 17, variable=HOSTILE)], regions=regions, kernel=HOSTILE))


def test_no_name_becomes_markup(tmp_path):
    text, made = page(hostile(), tmp_path)
    assert not [tag for tag, _ in made.tags if tag == "script"]
    assert "\x1b" not in text and "\u202e" not in text
    markdown = write(hostile(), tmp_path / "review.md").read_text()
    assert "<script" not in markdown.replace("\\<script", "")
    assert all(len({row.count("|") - row.count("\\|") for row in table.splitlines()}) == 1
               for table in re.findall(r"(?:^\|.*\n)+", markdown, re.M))  # fmt: skip


@pytest.mark.parametrize(
    "trace", [make([]), make([matmul(0)]), make([], [move(0, 100, 1 << 16)]), make([vector(0, 0)], device="unknown")]
)
def test_a_poor_trace_is_reviewed_as_far_as_it_goes(tmp_path, trace):
    text, made = page(Session(trace), tmp_path)
    assert not made.open
    assert "<h2>Verdict</h2>" in text and "<h2>Assumptions</h2>" in text
    assert all(sentence.split(":")[0] in " ".join(made.words) for sentence in Session(trace).meta.missing)
    assert write(Session(trace), tmp_path / "review.md").read_text()


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    texts = [write(Session.open(SAMPLE), tmp_path / f"{k}.html").read_bytes() for k in range(2)]
    assert texts[0] == texts[1]


def test_the_timeline_draws_every_busy_engine_inside_its_frame():
    scene = draw_timeline(sample())
    bars = [mark for mark in scene.marks if isinstance(mark, Polygon)]
    assert {"tensor", "vector", "scalar", "sync", "dma"} <= {bar.fill for bar in bars}
    for bar in bars:
        left, right = min(x for x, _ in bar.points), max(x for x, _ in bar.points)
        assert GUTTER <= left < right <= WIDTH - RIGHT
        assert max(y for _, y in bar.points) < scene.height
    assert len(bars) < 2000


def test_the_drawn_time_of_an_engine_is_its_busy_time():
    rows = [vector(1000 * k, 500, 400) for k in range(10)]
    scene = draw_timeline(Session(make(rows)))
    bars = [mark for mark in scene.marks if isinstance(mark, Polygon) and mark.fill == "vector"]
    drawn = sum(max(x for x, _ in bar.points) - min(x for x, _ in bar.points) for bar in bars)
    t0, t1 = Session(make(rows)).home
    assert drawn / (WIDTH - RIGHT - GUTTER) == pytest.approx(5_000_000 / (t1 - t0), rel=0.03)


def test_sections_hold_what_they_are_called_after():
    blocks = {section.title: section.blocks for section in review(sample()).sections}
    assert [type(block) for block in blocks["Roofline"]] == [Picture, Grid]
    assert any(isinstance(block, Points) for block in blocks["Verdict"])
    kinds = [row[1] for block in blocks["Where the time goes"] if isinstance(block, Grid) for row in block.rows]
    assert "line" not in kinds


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"one of \.html, \.md"):
        write(sample(), tmp_path / "review.docx")


def test_the_command_names_the_file_that_it_wrote(tmp_path, capsys):
    assert main(["report", str(SAMPLE), "-o", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "r.html")
    assert main(["report", str(SAMPLE)]) == 2
    capsys.readouterr()


def test_captured_profiles_are_reviewed(tmp_path):
    folder = ROOT.parent / "shared" / "profiles"
    if not folder.exists():
        pytest.skip("captured profiles are not part of the project")
    for path in sorted(folder.glob("*/*.json")):
        text, made = page(trnprof.Session.open(path), tmp_path)
        assert not made.open
        assert "captured on hardware" in text and "~" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S)
