"""Estimates against measurements: what is compared, how it is scored, and that no error grows unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sim
from sim import spec
from trnprof import cli
from trnprof.validation import Report, golden, instructions, kernels, published, transfers, validate
from trnprof.validation.score import Comparison, Skipped, agreement, total

PROFILES = Path(__file__).parents[2] / "shared" / "profiles"


def row(id: str, measured: float, estimate: float, **more) -> Comparison:
    return Comparison(id, "kernel", "total_ns", measured, estimate, "ns", **more)


# -- scores ----------------------------------------------------------------------------------------


def test_a_total_weighs_each_comparison_with_its_measurements():
    found = total("x", [row("a", 100, 108, count=3), row("b", 100, 80)])
    assert (found.mape, found.bias) == (pytest.approx(0.11), pytest.approx(0.01))
    assert (found.worst, found.worst_error, found.within_10) == ("b", pytest.approx(-0.2), 0.75)
    assert found.covered is None


def test_nothing_to_divide_by_gives_no_error_and_no_total():
    assert row("a", 0, 5).error is None
    assert total("x", [row("a", 0, 5)]) is None


def test_shares_differ_in_points():
    assert Comparison("a", "share", "x", 0.5, 0.45, "share").error == pytest.approx(-0.05)


def test_a_measurement_inside_the_interval_is_covered():
    rows = [row("a", 100, 90, low=80, high=105), row("b", 100, 90, low=80, high=95), row("c", 100, 90)]
    assert [each.covered for each in rows] == [True, False, None]
    assert total("x", rows).covered == 0.5


def test_pairs_of_a_family_that_differ_clearly_tell_which_is_faster():
    rows = [
        row("fast", 100, 120, families=("f",)),
        row("slow", 200, 110, families=("f",)),
        row("as fast", 103, 300, families=("f",)),
        row("other", 500, 1, families=("g",)),
    ]
    found = agreement(rows)
    assert (found.pairs, found.agreed) == (2, 0)
    assert found.disagreed == ("as fast against slow", "fast against slow")


# -- published measurements ------------------------------------------------------------------------


def test_every_record_says_what_where_and_how_much():
    for record in published.records():
        assert record.source and record.metric and record.unit, record.id
        assert record.trust in ("high", "medium", "low"), record.id
        if record.run is not None:
            assert record.value_ns > 0, record.id
            assert spec.device(record.run.device).emulated
            assert record.run.compare in ("total_ns", "benchmark_ns", "latency_ns")


def test_code_that_is_not_there_is_named(tmp_path):
    record = next(r for r in published.records() if r.id == "nkibench-trn1-silu-base")
    first, *ours = kernels.Bench([tmp_path]).compare(record)
    assert first == Skipped("nkibench-trn1-silu-base", "AccelOpt is in none of the folders given")
    assert ours[0].level == "our kernel"
    assert abs(ours[0].error) < 0.02


def test_an_interval_is_computed_where_it_is_asked_for():
    record = next(r for r in published.records() if r.id == "nkibench-trn1-silu-base")
    ours = next(row for row in kernels.Bench([], samples=4).compare(record) if isinstance(row, Comparison))
    assert ours.low < ours.high
    assert ours.covered is (ours.low <= record.value_ns <= ours.high)


def test_a_long_kernel_is_timed_on_fewer_machines(monkeypatch):
    monkeypatch.setattr(kernels, "SHORT", 100)
    record = next(r for r in published.records() if r.id == "nkibench-trn1-silu-base")
    bench = kernels.Bench([], samples=6)
    bench.compare(record)
    (result,) = bench._known.values()
    assert len(result.bars.drawn) == kernels.FEWEST
    assert set(result.bars.others) == set(sim.Options.for_generation("legacy").alternatives())


def test_a_record_runs_the_file_that_its_pattern_finds(tmp_path):
    folder = tmp_path / "AccelOpt" / "NKIBench" / "kernels"
    folder.mkdir(parents=True)
    source = (Path(kernels.data_dir("traces")) / "kernels" / "legacy_silu.py").read_text()
    (folder / "silu_M4096.py").write_text(source.replace("def silu(", "def kernel("))
    record = next(r for r in published.records() if r.id == "nkibench-trn1-silu-base")
    rows = kernels.Bench([tmp_path]).compare(record)
    assert rows[0].level == "kernel"
    assert {each.quantity for each in rows if each.level == "bytes"} == {"hbm_read_bytes", "hbm_write_bytes"}
    assert all(each.error == 0 for each in rows if each.level == "bytes")


def test_a_block_of_a_page_is_run_as_it_stands(tmp_path):
    page = "text\n\n.. code-block:: python\n\n   import nki\n\n   KERNEL = 1\n\nmore\n"
    (tmp_path / "page.rst").write_text(page)
    call = published.Call("page.rst", "k", "trn2", (), "total_ns", block=(("KERNEL",), 0))
    made = kernels._source(call, tmp_path / "page.rst", tmp_path)
    assert made.read_text().strip() == "import nki\n\nKERNEL = 1"


# -- captured instructions -------------------------------------------------------------------------


def test_the_kept_table_survives_writing_and_reading(tmp_path):
    instructions.write(instructions.kinds(), tmp_path / "table.json")
    again = tuple(map(instructions.from_json, json.loads((tmp_path / "table.json").read_text())))
    assert again == instructions.kinds()


@pytest.mark.parametrize("level", ["instruction", "interval"])
def test_compute_instructions_are_met_within_five_percent(level):
    rows = [each for each in instructions.reference() if each.level == level]
    assert total(level, rows).mape < 0.02
    for device in ("trn2", "inf2"):
        found = total(level, [each for each in rows if each.device == device])
        assert found.mape < 0.05, device


@pytest.mark.skipif(not PROFILES.is_dir(), reason="the captured profiles are not beside this checkout")
def test_the_kept_table_is_what_the_profiles_say():
    import trnprof

    sources = {"trn2_attention": "TKF", "inf2_matmul": "INF2P"}
    traces = [(trnprof.open(str(file)), sources[file.parent.name]) for file in sorted(PROFILES.glob("*/*.json"))]
    assert tuple(instructions.collect(traces)) == instructions.kinds()


@pytest.mark.skipif(not PROFILES.is_dir(), reason="the captured profiles are not beside this checkout")
def test_undisturbed_packets_are_met_within_five_percent():
    import trnprof

    rows = [row for file in sorted(PROFILES.glob("*/*.json")) for row in transfers.compare(trnprof.open(str(file)))]
    assert total("floor", [row for row in rows if row.level == "packet floor"]).mape < 0.05
    assert {row.level for row in rows} == {"packet floor", "packet", "wake"}


# -- no error grows ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report() -> Report:
    return validate()


def test_no_error_has_grown_since_it_was_accepted(report):
    """When this fails on purpose, `trnprof validate --accept` keeps the new errors; the diff shows them."""
    assert golden.worse(report) == []


def test_peers_are_met_exactly(report):
    peers = report.of("peer")
    assert len(peers) >= 17
    assert all(each.error == 0 for each in peers)


def test_growth_loss_and_novelty_are_told(tmp_path):
    kept = tmp_path / "golden.json"
    golden.accept(Report((row("a", 100, 101), row("b", 100, 100), row("c", 100, 90)), ()), kept)
    assert golden.worse(Report((row("a", 100, 101.4), row("b", 100, 100), row("c", 100, 91)), ()), kept) == []
    found = golden.worse(Report((row("a", 100, 103), row("b", 100, 100), row("d", 100, 100)), ()), kept)
    assert found == [
        "kernel: a: total_ns: +3.00%, was +1.00%",
        "kernel: c: total_ns: no longer compared",
        "kernel: d: total_ns: new, +0.00%",
    ]


def test_a_slower_law_is_noticed(monkeypatch, report):
    """The golden file guards the laws: a figure that moves by 5 % shows."""
    device = spec.device("trn2").replace({"act.lat_nonlinear": "1.2x"})
    changed = [each for kind in instructions.kinds() for each in instructions.replayed(kind, device)
               if kind.device == "trn2"]  # fmt: skip
    assert any("ACTIVATE EXP" in sentence for sentence in golden.worse(Report(tuple(changed), ())) if "was" in sentence)


# -- the command -----------------------------------------------------------------------------------


def test_the_command_prints_tables_and_writes_both_files(tmp_path, capsys):
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    assert cli.main(["validate", "--only", "silu-base", "-o", str(page)]) == 0
    said = capsys.readouterr()
    assert "our kernels" in said.out.replace("own", "our") and "not compared (1)" in said.out
    assert "nkibench-trn1-silu-base" in said.err
    classes = said.out.partition("bound class\n")[2].splitlines()[1].split("  ")
    assert [word.strip() for word in classes if word][-2:] == ["compute", "compute"]
    assert cli.main(["validate", "--only", "silu-base", "--json", "-o", str(data)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(data.read_text())
    text = page.read_text()
    assert (
        "<svg" in text
        and "<script" not in text
        and "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [(["-o", "x.csv"], 2), (["--accept", "--only", "x"], 2), (["/no/such/folder"], 1),
     (["--only", "no-such-record"], 1), (["--only", "("], 1)],
    ids=["ending", "accept a part", "no folder", "no record", "no expression"],
)  # fmt: skip
def test_what_is_wrong_with_a_command_line_is_said(words, code, capsys):
    assert cli.main(["validate", *words]) == code
    assert capsys.readouterr().err.startswith("trnprof: ")


def test_options_of_an_older_compiler_are_public():
    assert sim.Options.for_generation("legacy").hoist
