"""A profile's own constants: fitted, written, and used as a device."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import sim
import trnprof
from sim import spec
from sim.errors import InputError
from sim.trace import Instructions, Meta, Strings, Trace
from trnprof import cli
from trnprof.calibrate import calibrate, dump

PROFILES = Path(__file__).parents[2] / "shared" / "profiles"
ALTERED = {
    "clock_tensor": 2.2,
    "pe.lat": 190,
    "pe.load_16": 120,
    "dve.issue_ovh": 90,
    "dve.lat_psum": 220,
    "act.lat_nonlinear": 350,
    "sem.wake": 70,
    "dma.notify_load": 500,
    "dma.bw_read": 18,
    "dma.issue_hw": 700,
}


def altered(**figures: float) -> spec.Device:
    base = spec.device("trn2")
    return base.with_figures({id: replace(base.figure(id), value=value) for id, value in figures.items()})


def attention(device: spec.Device | str) -> Trace:
    kernel = sim.load("traces/kernels/attention.py::attention")
    shapes = ((128, 1024), (128, 2048), (2048, 128))
    return sim.run(kernel, *(sim.TensorSpec(shape, "bf16") for shape in shapes), device=device, values=False).trace


@pytest.fixture(scope="module")
def found():
    return calibrate(attention(altered(**ALTERED)), "altered")


@pytest.mark.parametrize("id", ALTERED)
def test_altered_constants_are_recovered(found, id):
    assert found.figures[id].value == pytest.approx(ALTERED[id], rel=0.02)


@pytest.mark.parametrize("share", [0.9, 1.1])
@pytest.mark.parametrize("clock", ["clock_tensor", "clock_vector"])
def test_an_altered_clock_comes_back_whole_and_nothing_else_moves(clock, share):
    own = calibrate(attention(altered(**{clock: spec.device("trn2")[clock] * share})), "altered")
    assert own.figures[clock].value == pytest.approx(own.base[clock] * share, rel=0.005)
    moved = {id for id, figure in own.figures.items() if figure.value != pytest.approx(own.base[id], rel=0.06)}
    assert moved == {clock}


def test_figures_that_the_profile_does_not_tell_apart_say_so(found):
    """ScalarE works on one size here, so that its clock and its latency have one equation."""
    assert "do not tell it from act.lat_nonlinear" in found.figures["clock_scalar"].note
    assert "tell it from" not in found.figures["clock_vector"].note


def test_constants_that_were_not_altered_stay(found):
    untouched = set(found.figures) - set(ALTERED)
    assert len(untouched) >= 6
    for id in untouched - {"pe.issue_ovh_16", "pe.load_pipe"}:  # the latter rests on three measurements
        assert found.figures[id].value == pytest.approx(found.base[id], rel=0.02), id


def test_a_fit_says_what_it_gained_and_on_what(found):
    assert found.before > 0.1 > 0.01 > found.after
    file = json.loads(dump(found))
    assert file["extends"] == "trn2"
    assert file["fit"]["on"] == "altered"
    assert file["fit"]["measurements"] == found.measurements
    row = file["figures"]["dve.lat_psum"]
    low, high = row["spread"]
    assert low <= row["value"] <= high
    assert row["kind"] == "measured" and "measurements" in row["note"]


def test_figures_that_no_row_depends_on_are_left_out(found):
    assert "dve.rate_scan" not in found.figures
    assert "gp.start" not in found.figures


def test_a_device_file_is_a_device(found, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(dump(found))
    device = spec.device(str(file))
    assert device.name == "trn2"
    assert device.title.endswith("calibrated on altered")
    assert device["dve.lat_psum"] == found.figures["dve.lat_psum"].value
    assert device.figure("dve.lat_psum").spread == found.figures["dve.lat_psum"].spread
    slower, usual = attention(str(file)), attention("trn2")
    assert slower.meta.window != usual.meta.window
    assert any("calibrated on altered" in note for note in slower.meta.notes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not a device file"),
        ("[]", "not a device file"),
        ('{"extends": "trn2", "title": "x"}', "'figures' is missing"),
        ('{"extends": "trn9", "title": "x", "figures": {}}', "unknown device 'trn9'"),
        (
            '{"extends": "trn2", "title": "x", "figures": {"nonsense": {"value": 1}}}',
            "'nonsense' is missing, or no fig",
        ),
        (
            '{"extends": "trn2", "title": "x", "figures": {"pe.lat": {"value": -1, "kind": "guess", "source": "x"}}}',
            "pe.lat: value and spread must be numbers",
        ),
    ],
    ids=["json", "list", "figures", "base", "figure", "negative"],
)
def test_a_wrong_device_file_says_what_is_wrong(tmp_path, content, said):
    file = tmp_path / "mine.json"
    file.write_text(content)
    with pytest.raises(InputError, match=said):
        spec.device(str(file))


def test_a_missing_device_file_is_the_users_fault():
    with pytest.raises(InputError, match="No such file"):
        spec.device("/no/such/device.json")


def test_a_trace_that_tells_nothing_is_refused():
    empty = Trace(Meta(True, "trn2", "empty"), Strings(), Instructions(0))
    with pytest.raises(InputError, match="no instruction or packet"):
        calibrate(empty)


def test_the_command_writes_what_run_takes(tmp_path, capsys):
    trace, device = tmp_path / "trace", tmp_path / "device.json"
    argument = ["--arg", "x=bf16[128,512]", "--no-values"]
    assert cli.main(["run", *argument, "-o", str(trace), "traces/kernels/softmax.py::softmax"]) == 0
    assert cli.main(["calibrate", str(trace), "-o", str(device)]) == 0
    assert "act.lat_nonlinear" in capsys.readouterr().out
    assert cli.main(["run", *argument, "--device", str(device), "--json", "traces/kernels/softmax.py::softmax"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == "trn2"
    assert cli.main(["calibrate", str(trace), "-o", "device.txt"]) == 2


@pytest.mark.skipif(not PROFILES.is_dir(), reason="the captured profiles are not beside this checkout")
@pytest.mark.parametrize("name", ["fused_fp32_s512", "baseline_fp32_s1024"])
def test_a_captured_profile_is_fitted_within_two_percent(name):
    found = calibrate(trnprof.open(str(PROFILES / "trn2_attention" / f"{name}.json")))
    assert found.after < 0.01 and found.after < found.before
    assert found.figures["clock_tensor"].value == pytest.approx(2.4, rel=0.02)
    assert found.figures["act.table_load"].value == pytest.approx(1283, rel=0.001)
