"""The command, the page and the Parquet file of a sweep."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet
import pytest

from trnprof import cli
from trnprof.report import heat
from trnprof.report.front import ticks
from trnprof.report.sweeps import to_html
from trnprof.sweep.record import Axis, Outcome, Result, Specification, Swept
from trnprof.sweep.running import swept
from trnprof.sweep.table import to_table
from trnprof.view import sweeps as said

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def copy(x, bad=False):
    assert not bad, "not this one"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""

SPECIFICATION = """
kernel = "copy.py::copy"
[arguments]
x = "bf16[128,{columns}]"
bad = "{bad}"
[set]
bad = false
[grid]
columns = [64, 2048]
device = ["trn1", "trn2"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "copy.py").write_text(KERNEL)
    (tmp_path / "sweep.toml").write_text(SPECIFICATION)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def main(*more: str) -> int:
    return cli.main(["sweep", "sweep.toml", "--jobs", "1", "--keep", "kept", *more])


def test_the_command_writes_a_table_and_a_page_and_says_the_front(folder, capsys):
    assert main("-o", "out") == 0
    out, err = capsys.readouterr()
    assert "no other point is as good" in out
    assert "columns 64, device trn" in out
    assert out.endswith("out/results.parquet\nout/index.html\n")
    assert "4 of 4 points" in err
    table = pyarrow.parquet.read_table("out/results.parquet").to_pylist()
    assert [(row["columns"], row["parameter.device"], row["device"]) for row in table] == [
        (64, "trn1", "trn1"), (64, "trn2", "trn2"), (2048, "trn1", "trn1"), (2048, "trn2", "trn2")
    ]  # fmt: skip
    assert all(row["latency_ps"] > 0 and row["chip_hours_per_million"] > 0 and row["error"] == "" for row in table)
    assert any(row["best"] for row in table)


def test_json_is_one_document_with_every_point(folder, capsys):
    assert main("--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["points"], found["failed"], err) == (4, 0, "")
    assert found["files"] == ["sweep-sweep/results.parquet", "sweep-sweep/index.html"]
    assert {one["bound"] for one in found["results"]} <= {"latency", "memory_bandwidth"}
    main("--json")
    again = json.loads(capsys.readouterr().out)
    assert again["kept"] == 4
    main("--json", "--anew")
    assert json.loads(capsys.readouterr().out)["kept"] == 0


def test_a_grid_that_explodes_says_its_size_and_asks(folder, capsys):
    (folder / "sweep.toml").write_text(SPECIFICATION.replace("[64, 2048]", str(list(range(1, 601)))))
    assert main("--dry-run") == 0
    assert "600 columns x 2 device" in capsys.readouterr().out
    assert main() == 2
    assert re.search(r"1.200 points, more than 1.000 \(--yes runs them all\)", capsys.readouterr().err)
    axes = "".join(f"a{k} = {list(range(10_000))}\n" for k in range(3))
    (folder / "sweep.toml").write_text(SPECIFICATION.replace("columns = [64", axes + "columns = [64"))
    assert main("--yes") == 1
    assert "no parameter 'a0'" in capsys.readouterr().err


def test_no_number_of_points_is_run_that_no_memory_holds(folder, capsys):
    text = SPECIFICATION.replace("[64, 2048]", str(list(range(1, 9_001)))).replace("bad = false", "")
    more = 'y = "{dtype}[{rows}]"\n[set]\ndtype = "bf16"'
    text = text.replace("[set]", more).replace("[grid]", f"[grid]\nbad = [true, false]\nrows = {list(range(9_000))}")
    (folder / "sweep.toml").write_text(text)
    assert main("--yes") == 1
    assert "at most 1" in capsys.readouterr().err


def test_all_points_failing_is_exit_code_1_and_each_reason_is_told_once(folder, capsys):
    (folder / "sweep.toml").write_text(SPECIFICATION.replace("bad = false", "bad = true").replace('"trn1", ', ""))
    assert main("-o", "out") == 1
    out = capsys.readouterr().out
    assert out.count("not this one") == 1
    assert "  2 x " in out
    page = Path("out/index.html").read_text()
    assert "not this one" in page
    assert "failed" in page


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--address", "tcp://here:1"), 2, "--address needs a cluster"),
        (("-o", "copy.py"), 1, "copy.py: File exists"),
        (("--keep", "copy.py/kept"), 1, "--keep DIR"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(folder, capsys, arguments, code, words):
    assert main(*arguments) == code
    assert words in capsys.readouterr().err


def made(columns: int = 4, rows: int = 3, panels: int = 1, bounds: str = "LBNC") -> Swept:
    """A sweep whose bound goes from one to the next along the columns."""
    names = {"L": "latency", "B": "memory_bandwidth", "N": "network", "C": "compute", "X": None}
    axes = [
        Axis(("tp",), tuple((2**k,) for k in range(columns))),
        Axis(("batch",), tuple((k + 1,) for k in range(rows))),
    ]
    axes += [Axis(("device",), tuple((f"trn{k}",) for k in range(panels)))]
    asked = Specification("some<b>.toml", "model", {"model": "a/<i>.json"}, tuple(axes), {}, {})
    from trnprof.sweep.specification import points

    outcomes = []
    for point in points(asked):
        place = (2**20 - 1 & (point.parameters["tp"] - 1)).bit_length()
        bound = names[bounds[place * len(bounds) // columns]]
        time = 10**9 // point.parameters["tp"] * point.parameters["batch"]
        good = Outcome(
            time, 1e12 * point.parameters["batch"] / time, "token", "trn2", 1, 0.125, bound=bound, bound_share=0.5
        )
        outcomes.append(good if bound else Outcome(error="it <b>broke</b>", exit_code=1))
    return swept(asked, list(points(asked)), outcomes, set())


def test_the_page_is_one_file_that_loads_nothing_and_lets_nothing_in():
    page = to_html(made(bounds="LBNX"))
    assert "default-src 'none'" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|<link|src=|url\(", page)
    assert "<b>" not in page
    assert "&lt;b&gt;broke" in page
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(picture)


def test_every_cell_of_a_map_names_its_bound_and_the_turn_is_told():
    found = made()
    page = to_html(found)
    for word in ("latency 50", "bandwidth 50", "network 50", "compute 50"):
        assert page.count(word) >= 3
    turns = {(turn.axis, turn.before, turn.after, turn.bound_before, turn.bound_after) for turn in found.turns}
    assert turns == {
        ("tp", "1", "2", "latency", "memory_bandwidth"),
        ("tp", "2", "4", "memory_bandwidth", "network"),
        ("tp", "4", "8", "network", "compute"),
    }
    assert said.turn_words(found.turns[0], found).startswith("Latency to Memory bandwidth between tp 1 and 2 (batch 1")


def test_maps_have_the_longest_axes_of_numbers_and_the_specification_may_choose():
    found = made(columns=4, rows=3, panels=5)
    laid = said.maps(found)
    assert (laid.across.title, laid.up.title, len(laid.maps)) == ("tp", "batch", 5)
    assert laid.maps[2].title == "device trn2"
    assert laid.maps[2].cells[1][3].parameters == {"model": "a/<i>.json", "tp": 8, "batch": 2, "device": "trn2"}
    asked = replace(found.specification, across="device", up="tp")
    laid = said.maps(replace(found, specification=asked))
    assert (laid.across.title, laid.up.title, len(laid.maps)) == ("device", "tp", 3)


@pytest.mark.parametrize(("columns", "rows", "panels"), [(1, 1, 1), (2, 1, 1), (20, 30, 1), (16, 2, 40), (3, 3, 9)])
def test_a_map_of_any_size_stays_inside_the_picture(columns, rows, panels):
    found = made(columns, rows, panels)
    scene = heat.draw(found, said.maps(found), {})
    for mark in scene.marks:
        for each in getattr(mark, "marks", (mark,)):
            xs = (
                [x for x, _ in each.points]
                if hasattr(each, "points")
                else [getattr(each, "x", 0.0), getattr(each, "x1", 0.0)]
            )
            ys = (
                [y for _, y in each.points]
                if hasattr(each, "points")
                else [getattr(each, "y", 0.0), getattr(each, "y1", 0.0)]
            )
            assert max(xs) <= scene.width
            assert max(ys) <= scene.height
    drawn = sum(1 for mark in scene.marks if hasattr(mark, "marks"))
    assert drawn == min(panels, heat.MAPS) * columns * rows


def test_axes_have_between_two_and_seven_round_numbers():
    from trnprof.report.front import Range

    for decades in (0.08, 0.15, 0.3, 0.5, 1, 2, 3, 5, 9, 14):
        found = ticks(Range(3.1e6, 3.1e6 * 10**decades))
        assert 2 <= len(found) <= 7, decades
        assert found == sorted(found)


def test_columns_of_a_table_have_one_type_whatever_an_axis_holds():
    found = made(2, 1, 1, "LX")
    mixed = [replace(one, parameters={**one.parameters, "odd": value}) for one, value in zip(found.results, (1, "x"))]
    huge = [replace(one, parameters={**one.parameters, "tp": 2**70}) for one in mixed]
    table = to_table(replace(found, results=tuple(huge))).to_pydict()
    assert table["odd"] == ["1", "x"]
    assert table["tp"] == [str(2**70)] * 2
    assert table["latency_ps"][1] is None
    assert table["exit_code"] == [0, 1]


def test_the_price_is_the_cost_only_where_every_point_has_one():
    found = made(2, 1, 1, "LL")
    assert said.cost_title(found) == "chip-hours for 1M tokens"
    half = (replace(found.results[0], price_per_million=2.0), found.results[1])
    assert not replace(found, results=half).priced
    both = tuple(replace(one, price_per_million=2.0) for one in found.results)
    assert said.cost_title(replace(found, results=both)) == "price of 1M tokens"
    assert isinstance(both[0], Result)
