"""Two traces side by side, instruction on instruction, and against a committed baseline."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
import trnprof
from sim import TensorSpec, dtypes, retiming, tracefile
from sim.errors import InputError
from sim.trace import Instructions, Meta, Strings, Trace
from tests.naive import matching as naive
from tests.synthetic import attention as captured
from tests.traces import traces
from trnprof import baseline, cli
from trnprof.compare import compare
from trnprof.jit import matching as compiled
from trnprof.matching import OF_A_KIND, REORDERED, SAME, WEIGHTS, match

KERNELS = Path(__file__).resolve().parent.parent / "traces" / "kernels"

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

{above}
@nki.jit
def scale(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        {extra}
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
"""


MORE = 16
"""Instructions that the slower kernel has more, in each of its four rounds."""


def emulated(folder: Path, above: str = "", extra: str = "pass", columns: int = 1024) -> Trace:
    folder.mkdir(exist_ok=True)
    (folder / "scale.py").write_text(KERNEL.format(above=above, extra=extra))
    kernel = sim.load(str(folder / "scale.py::scale"))
    return sim.run(kernel, TensorSpec((512, columns), dtypes.float32), values=False).trace


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Trace:
    return emulated(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def slower(tmp_path_factory) -> Trace:
    """The same kernel with a line more, and all lines pushed down."""
    extra = f"[nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0) for _ in range({MORE})]"
    return emulated(tmp_path_factory.mktemp("slower"), "\n\n", extra)


@pytest.fixture(scope="module")
def attention() -> Trace:
    kernel = sim.load(str(KERNELS / "attention.py::attention"))
    shapes = ((128, 512), (128, 1024), (1024, 128))
    return sim.run(kernel, *[TensorSpec(shape, dtypes.bfloat16) for shape in shapes], values=False).trace


# -- compare ---------------------------------------------------------------------------------------


def test_a_trace_is_as_fast_as_itself(attention):
    found = compare(attention, attention)
    assert found.change == 0 and not found.warnings
    assert all(before == after for before, after in [*found.causes.values(), *found.engines.values()])
    assert all(part.change_ps == part.path_change_ps == 0 for part in (*found.regions, *found.lines))


def test_the_changes_of_the_causes_add_up_to_the_change_of_the_window(plain, slower):
    found = compare(plain, slower)
    before, after = found.time_ps
    assert after > before
    assert sum(now - was for was, now in found.causes.values()) == after - before
    assert sum(part.path_change_ps for part in found.lines) == after - before


def test_lines_that_an_edit_pushed_down_are_still_the_same_lines(plain, slower):
    lines = {part.name: part for part in compare(plain, slower).lines}
    new = [part for part in lines.values() if part.before is None]
    assert len(lines) == 4 and len(new) == 1
    numbers = [int(part.after.source.rpartition(":")[2]) - int(part.before.source.rpartition(":")[2])
               for part in lines.values() if part.before]  # fmt: skip
    assert sorted(numbers) == [2, 2, 2]
    assert new[0].after.instructions == 4 * MORE


def test_loops_are_aligned_by_where_they_stand_and_a_kernel_by_being_the_one(plain, slower):
    regions = {part.kind: part for part in compare(plain, slower).regions}
    assert regions.keys() == {"kernel", "loop"}
    assert all(part.before and part.after for part in regions.values())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"device": "trn1"}, "The device differs: trn2 before, trn1 after."),
        ({"lnc": 2}, r"The logical core size \(lnc\) differs: 1 before, 2 after."),
        ({"tool": "other 1"}, "The tool differs: trnprof before, other 1 after."),
        ({"kernel": "other"}, "The kernel differs: scale before, other after."),
        ({"is_simulation": False}, "The first is emulated, the second captured"),
        ({"what_if": {"clock_tensor": 9.0}}, "Figures of the device were set: clock_tensor."),
        ({"quarantined": 3}, "The second trace lacks 3 rows"),
    ],
)
def test_what_differs_in_the_circumstances_is_said(plain, changes, sentence):
    import re

    other = replace(plain, meta=replace(plain.meta, **changes))
    (warning,) = compare(plain, other).warnings
    assert re.match(sentence, warning)


def test_other_shapes_and_other_values_are_said(plain, tmp_path):
    wide = compare(plain, emulated(tmp_path, columns=2048))
    assert "The tensor x differs: fp32[512 1024] before, fp32[512 2048] after." in wide.warnings

    def with_digest(digest: str) -> Trace:
        outputs = ({**plain.meta.outputs[0], "sha256": digest},)
        return replace(plain, meta=replace(plain.meta, outputs=outputs))

    assert compare(with_digest("a"), with_digest("b")).warnings == ("The values of out differ.",)


def test_a_line_whose_number_is_no_number_stands_for_none(plain):
    strings = Strings()
    for text in plain.strings:
        strings.code(text.replace(".py:", ".py:¹"))
    odd = replace(plain, strings=strings)
    found = compare(odd, odd)
    assert found.change == 0
    assert any("¹" in part.name for part in found.lines)


@settings(max_examples=40)
@given(before=traces(), after=traces())
def test_whatever_the_tables_hold_two_traces_compare(before, after):
    found = compare(before, after)
    json.dumps(found.to_json(), allow_nan=False, default=lambda number: number.item())


def test_a_trace_without_rows_compares_with_nothing():
    nothing = Trace(Meta(False, "unknown", "nothing"), Strings(), Instructions(0))
    found = compare(nothing, nothing)
    assert found.change is None and found.matching.share_before is None and not found.lines


# -- matching --------------------------------------------------------------------------------------


def test_a_trace_matches_itself_row_by_row(attention):
    found = match(attention, attention)
    assert np.array_equal(found.before, found.after) and (found.bond == SAME).all()
    assert found.share_before == found.share_after == 1.0 and not found.drifts
    assert all(each.duration_error in (0, None) for each in found.classes)


def test_a_clock_twice_as_fast_is_found_as_half_the_duration(attention):
    fast = retiming.retime(attention, {"clock_tensor": "2x"}).trace
    found = match(attention, fast)
    assert found.share_before == found.share_after == 1.0
    classes = {(each.engine, each.opcode): each for each in found.classes}
    assert classes["TensorE", "MATMUL"].duration_error == pytest.approx(0.5, abs=0.05)
    assert classes["VectorE", "TENSOR_SCALAR"].duration_error == 0


def test_what_only_one_trace_has_stays_unmatched(plain, slower):
    found = match(plain, slower)
    assert found.share_before == 1.0 and found.share_after < 1.0
    extra = next(each for each in found.classes if each.opcode == "TENSOR_SCALAR")
    assert (extra.matched, extra.before, extra.after) == (0, 0, 4 * MORE)


def test_a_row_that_comes_late_is_where_the_traces_drift_apart():
    trace = captured()
    ins = trace.instructions
    late = {name: ins.column(name).copy() for name in ins.present()}
    late["start_ps"][5:] += 2_000_000
    late["end_ps"][5:] += 2_000_000
    found = match(trace, replace(trace, instructions=Instructions(len(ins), **late)))
    assert {(drift.row_before, drift.drift_ps) for drift in found.drifts} == {
        (5, 2_000_000), (6, 2_000_000), (7, 2_000_000), (8, 2_000_000)}  # fmt: skip


def sequence(names: list[str]) -> Trace:
    text = Strings()
    rows = Instructions(
        id=np.arange(len(names)),
        start_ps=np.arange(len(names)) * 100,
        end_ps=np.arange(len(names)) * 100 + 50,
        engine=np.ones(len(names), np.int8),
        opcode=text.codes([name[0] for name in names]),
        operands=text.codes([f"src=fp32@0x0[1][{name[1:]}]" for name in names]),
    )
    return Trace(Meta(True, "trn2", "made", window=(0, 1000)), text, rows)


def test_order_decides_which_of_equal_instructions_is_which():
    found = match(sequence(["a1", "b1", "a1", "c1"]), sequence(["b1", "a1", "c1"]))
    assert list(zip(found.before.tolist(), found.after.tolist())) == [(1, 0), (2, 1), (3, 2)]


def test_other_operands_are_of_a_kind_and_what_changed_places_is_matched_all_the_same():
    found = match(sequence(["a1", "b1", "c1"]), sequence(["c1", "a9", "b1"]))
    pairs = {(before, after): bond for before, after, bond in zip(*map(np.ndarray.tolist, (
        found.before, found.after, found.bond)))}  # fmt: skip
    assert pairs == {(0, 1): OF_A_KIND, (1, 2): SAME, (2, 0): REORDERED}


def test_a_real_profile_matches_itself(profiles: Path):
    trace = trnprof.open(profiles / "trn2_attention" / "fused_fp32_s512.json")
    found = match(trace, trace)
    assert found.share_before == 1.0 and (found.bond == SAME).all()


names = st.lists(st.integers(0, 3), max_size=8)


@given(one=names, other=names)
def test_compiled_and_plain_alignments_agree(one, other):
    first, then = np.array(one, np.int64), np.array(other, np.int64)
    tables = [np.zeros((len(one) + 1, len(other) + 1), np.uint8) for _ in range(2)]
    kinds = first // 2, then // 2
    worth = compiled.align(first, then, *kinds, WEIGHTS, tables[0])
    assert worth == naive.align(first, then, *kinds, WEIGHTS, tables[1])
    assert np.array_equal(*tables)


# -- the commands ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(plain, slower, tmp_path_factory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("kept")
    return str(tracefile.write(plain, folder / "plain")), str(tracefile.write(slower, folder / "slower"))


def test_compare_exits_with_1_on_a_regression_over_the_limit_alone(kept, capsys):
    plain, slower = kept
    assert cli.main(["compare", plain, slower, "--fail-over", "3%"]) == 1
    assert "longer than" in capsys.readouterr().err
    assert cli.main(["compare", plain, slower, "--fail-over", "900%"]) == 0
    assert cli.main(["compare", slower, plain, "--fail-over", "0"]) == 0
    assert cli.main(["compare", plain, plain, "--fail-over", "0%"]) == 0
    assert cli.main(["compare", plain, slower, "--fail-over", "x"]) == 2


def test_compare_prints_causes_engines_regions_lines_and_instructions(kept, capsys):
    assert cli.main(["compare", *kept, "--instructions"]) == 0
    text = capsys.readouterr().out
    for title in (
        "critical path",
        "engine working",
        "region",
        "source line",
        "instructions matched",
        "drifts apart at",
    ):
        assert title in text
    assert cli.main(["compare", *kept, "--json", "--fail-over", "3%"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] and found["change"] > 0.03 and found["instructions"]["share_before"] == 1.0


def test_a_captured_and_an_emulated_trace_are_laid_over_each_other_unasked(kept, tmp_path, capsys):
    tracefile.write(captured(), tmp_path / "captured")
    assert cli.main(["compare", str(tmp_path / "captured"), kept[0]]) == 0
    assert "instructions matched" in capsys.readouterr().out


# -- baselines -------------------------------------------------------------------------------------


def test_a_baseline_holds_latency_bound_and_bytes_of_each_kernel(plain, attention, tmp_path):
    path = baseline.save(tmp_path / "perf", [plain, attention, plain])
    data = json.loads(path.read_text())
    assert path.name == "perf.json" and list(data["kernels"]) == ["attention", "scale", "scale#2"]
    entry = data["kernels"]["scale"]
    assert entry["latency_ns"] == (plain.meta.window[1] - plain.meta.window[0]) / 1000
    assert entry["hbm_read_bytes"] == entry["hbm_write_bytes"] == 512 * 1024 * 4
    assert baseline.check(path, [plain, attention, plain]) == []


def test_every_change_over_the_tolerance_is_found_and_none_below(plain, slower, tmp_path):
    path = baseline.save(tmp_path / "perf", [plain])
    found = {change.field: change for change in baseline.check(path, [slower])}
    assert found["latency_ns"].change > 0.03 and found["instructions"].after == found["instructions"].before + 4 * MORE
    assert "hbm_read_bytes" not in found
    loose = {change.field for change in baseline.check(path, [slower], tolerance=9.0)}
    assert not loose & {"latency_ns", "instructions"}
    faster = baseline.save(tmp_path / "slow", [slower])
    assert any(change.field == "latency_ns" and change.change < 0 for change in baseline.check(faster, [plain]))


def test_a_kernel_that_only_one_side_has_and_another_device_are_changes(plain, attention, tmp_path):
    path = baseline.save(tmp_path / "perf", [plain])
    found = baseline.check(path, [attention])
    assert {(change.kernel, change.field) for change in found} == {("attention", "kernel"), ("scale", "kernel")}
    other = replace(plain, meta=replace(plain.meta, is_simulation=False))
    assert "is_simulation" in {change.field for change in baseline.check(path, [other])}


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not a baseline"), ("[]", "not a baseline"), ('{"format": 9}', "format 9, this version reads 1"),
     ('{"format": 1, "tolerance": 0.1, "kernels": {"a": {"x": 1}}}', "not a baseline")],
)  # fmt: skip
def test_a_file_that_is_no_baseline_is_named(text, message, plain, tmp_path):
    (tmp_path / "perf.json").write_text(text)
    with pytest.raises(InputError, match=rf"perf\.json: {message}"):
        baseline.check(tmp_path / "perf", [plain])


def test_the_command_saves_and_checks(kept, tmp_path, capsys):
    plain, slower = kept
    name = str(tmp_path / "perf")
    assert cli.main(["baseline", "check", name, plain]) == 1
    assert "no such baseline" in capsys.readouterr().err
    assert cli.main(["baseline", "save", name, plain]) == 0
    assert cli.main(["baseline", "check", name, plain]) == 0
    capsys.readouterr()
    assert cli.main(["baseline", "check", name, slower, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["changed"] and {change["field"] for change in found["changes"]} >= {"latency_ns", "instructions"}
    assert cli.main(["baseline", "check", name, slower]) == 1
    out, err = capsys.readouterr()
    assert re.search(r"latency_ns +~[\d.]+\sµs +~[\d.]+\sµs +\+", out), "emulated times are marked"
    assert err == "1 kernel changed; baseline save accepts it\n"
    folder = str(Path(plain).parent)
    assert cli.main(["baseline", "save", name, folder]) == 0
    assert list(json.loads(Path(f"{name}.json").read_text())["kernels"]) == ["scale", "scale#2"]
