"""What-ifs: names, values, what takes over, and captured profiles from their rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
import trnprof
from sim import TensorSpec, dtypes, spec, tracefile
from sim.errors import InputError, UnsupportedError
from sim.trace import Trace, validate
from tests.naive import coarse as naive
from tests.synthetic import attention as captured
from trnprof import cli, coarse
from trnprof.critical import critical_path
from trnprof.jit import coarse as compiled
from trnprof.machine import machine
from trnprof.whatif import MOST, SETTINGS, changes, grid, what_if, what_ifs

KERNELS = Path(__file__).resolve().parent.parent / "traces" / "kernels"
TRN2 = spec.device("trn2")


@pytest.fixture(scope="module")
def silu() -> Trace:
    kernel = sim.load(str(KERNELS / "silu_multiply.py::silu_multiply"))
    return sim.run(kernel, *[TensorSpec((512, 2048), dtypes.bfloat16)] * 2, values=False).trace


@pytest.fixture(scope="module")
def kept(silu, tmp_path_factory) -> str:
    return str(tracefile.write(silu, tmp_path_factory.mktemp("kept") / "silu"))


# -- settings --------------------------------------------------------------------------------------


def test_every_setting_stands_for_figures_that_a_device_has_or_for_a_word():
    known = {id for device in spec.devices() for id in device.figures}
    for name, setting in SETTINGS.items():
        assert bool(setting.figures) != bool(setting.word), name
        assert set(setting.figures) <= known, name
        assert bool(setting.word) == bool(setting.free or setting.without), name


def test_settings_are_figures_and_what_is_ignored():
    figures, ideal = changes(TRN2, {"hbm_bw": "2x", "act.table_load": 0, "matmul": "free", "buffers": "unlimited"})
    assert figures == {"hbm_bw": "2x", "act.table_load": 0}
    assert ideal.free == {"tensor"} and ideal.without == {"buffers"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hbm_bv": "2x"}, "no setting 'hbm_bv' .nearest: hbm_bw"),
        ({"matmul": "2x"}, "matmul cannot be '2x' .matmul=free"),
        ({"memory_bw": 500}, "stands for figures in GB/s, B/ns"),
        ({"hbm_bw": "0x"}, "hbm_bw cannot be '0x'"),
        ({"hbm_bw": "fast"}, "hbm_bw cannot be 'fast'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(silu, settings, message):
    with pytest.raises(InputError, match=message):
        what_if(silu, settings)


def test_a_setting_of_another_device_is_refused():
    with pytest.raises(InputError, match="table_load: inf1 has no such figure"):
        changes(spec.device("inf1"), {"table_load": "2x"})


def test_a_trace_that_names_no_device_is_refused_for_that(silu):
    nameless = replace(silu, meta=replace(silu.meta, device="unknown", is_simulation=False), recorded=None)
    with pytest.raises(InputError, match="does not name its device"):
        what_if(nameless, {"hbm_bw": "2x"})


def test_a_grid_is_every_combination():
    assert grid({"a": [1, 2], "b": ["x"]}) == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]
    with pytest.raises(InputError, match=f"at most {MOST}"):
        grid({str(k): [1, 2, 3] for k in range(6)})


# -- emulated --------------------------------------------------------------------------------------


def test_with_nothing_changed_the_time_is_the_same_to_the_picosecond(silu):
    found = what_if(silu, {"hbm_bw": "1x", "tensor_clock": TRN2["clock_tensor"]})
    assert found.time_ps == found.before_ps == silu.meta.window[1] - silu.meta.window[0]
    assert found.ratio == 1 and found.idle == () and not found.coarse and found.notes == ()


def test_of_a_kernel_that_memory_bounds_more_bandwidth_makes_something_else_the_bound(silu):
    slow, fast = what_ifs(silu, [{"memory_bw": "1x"}, {"memory_bw": "8x"}])
    assert slow.verdict.bound == "memory_bandwidth" and fast.verdict.bound != "memory_bandwidth"
    assert fast.time_ps < 0.7 * slow.time_ps
    roof = machine(fast.trace).get("hbm")
    assert roof.value == pytest.approx(8 * machine(silu).get("hbm").value) and roof.basis == "what-if"


def test_with_more_dma_engines_hbm_is_the_limit_and_memory_still_the_bound(silu):
    found = what_if(silu, {"dma_queues": "2x"})
    roof = machine(found.trace).get("hbm")
    moved = sum(found.trace.transfers.bytes.tolist())
    assert found.verdict.bound == "memory_bandwidth"
    assert found.verdict.scores["memory_bandwidth"] == pytest.approx(
        moved / roof.value * 1e12 / found.time_ps, rel=0.01
    )


@pytest.mark.parametrize(("name", "why"), [("dma_bw", "HBM gives no more"), ("tensor_clock", "")])
def test_more_of_one_bandwidth_that_gains_nothing_says_what_the_limit_is(silu, name, why):
    found = what_if(silu, {name: "2x"})
    assert found.time_ps == found.before_ps
    assert found.notes == ((f"{name} alone gains nothing here, for {why}: memory_bw moves both.",) if why else ())


def test_a_setting_on_which_nothing_depends_is_said_to_be_idle(silu):
    found = what_if(silu, {"link_bw": "2x", "memory_bw": "2x", "tensor_clock": "2x"})
    assert "link_bw" in found.idle and "memory_bw" not in found.idle


def test_a_trace_of_another_version_is_compared_with_its_time_of_today(silu):
    first, last = silu.meta.window
    other = replace(silu, meta=replace(silu.meta, window=(first, last + 5)))
    assert what_if(other, {"hbm_bw": "1x"}).before_ps == last - first
    assert "has changed" in what_if(other, {"hbm_bw": "1x"}).notes[0]


def reduced(x):
    from sim.nki import collectives as ncc
    from sim.nki import language as nl
    from sim.nki.isa import dma_copy

    source, out = (nl.ndarray(x.shape, x.dtype, nl.shared_hbm) for _ in range(2))
    dma_copy(source, x)
    ncc.all_reduce([source], [out], ncc.ReplicaGroup([list(range(16))]), nl.add)
    return out


@pytest.mark.parametrize("lnc", [1, 2])
def test_links_shorten_what_the_critical_path_spends_on_collectives(lnc):
    from sim.nki.kernel import jit

    trace = sim.run(jit(reduced), TensorSpec((128, 1 << 17), dtypes.float32), ranks=4, lnc=lnc, values=False).trace
    before = critical_path(trace)
    assert before.share("collective") > 0.3 and before.causes["unknown"] == 0
    for setting in ({"link_bw": "4x"}, {"link_latency": "0.5x"}):
        found = what_if(trace, setting)
        saved = before.causes["collective"] - critical_path(found.trace).causes["collective"]
        assert found.idle == () and found.before_ps - found.time_ps == saved > 0


# -- captured --------------------------------------------------------------------------------------


def again(trace: Trace, figures: dict, free: tuple[str, ...] = ()) -> Trace:
    made = coarse.retime(trace, TRN2, TRN2.replace(figures), frozenset(free))
    validate(made)
    return made


def test_unchanged_a_captured_profile_keeps_every_time():
    trace = captured()
    made = again(trace, {})
    for table, names in (("instructions", ("start_ps", "end_ps", "wait_for")), ("transfers", ("start_ps", "done_ps")),
                         ("packets", ("start_ps", "end_ps")), ("regions", ("start_ps", "end_ps"))):  # fmt: skip
        for name in names:
            assert np.array_equal(getattr(made, table).column(name), getattr(trace, table).column(name)), name
    assert made.meta.window == trace.meta.window and made.meta.is_simulation


def test_unchanged_real_profiles_keep_every_time(profiles: Path):
    for file in sorted(profiles.glob("*/*.json")):
        trace = trnprof.open(file)
        device = spec.device(trace.meta.device)
        made = coarse.retime(trace, device, device, frozenset())
        assert made.meta.window == trace.meta.window, file
        assert np.array_equal(made.instructions.start_ps, trace.instructions.start_ps), file
        assert np.array_equal(made.transfers.end_ps, trace.transfers.end_ps), file


def test_a_faster_engine_shortens_its_own_instructions_and_pulls_their_waiters_in():
    # 14 to 19 µs and 21.2 to 21.8 µs on TensorE, all on the way to the store that ends the window.
    made = again(captured(), {"clock_tensor": "2x"})
    took = made.instructions.end_ps - made.instructions.start_ps
    was = captured().instructions.end_ps - captured().instructions.start_ps
    tensor = captured().instructions.engine == 0
    assert took[tensor].tolist() == (was[tensor] // 2).tolist()
    assert took[~tensor].tolist() == was[~tensor].tolist()
    saved = captured().meta.window[1] - made.meta.window[1]
    assert 2_000_000 < saved < 3_000_000


def test_faster_memory_shortens_transfers_as_far_as_the_lower_roof_allows():
    only = again(captured(), {"hbm_bw": "2x"})
    both = again(captured(), {"hbm_bw": "2x", "dma_engine_peak": "2x"})
    length = [t.transfers.end_ps - t.transfers.start_ps for t in (captured(), only, both)]
    assert (length[2] * 2 == length[0]).all()
    limit = TRN2["hbm_nc"] / TRN2["dma_core_peak"]
    assert np.allclose(length[1] / length[0], limit, rtol=1e-3)
    assert both.packets.end_ps.max() <= both.transfers.end_ps.max()


def test_a_captured_profile_says_that_it_is_coarse_and_what_it_cannot_answer():
    found = what_if(captured(), {"matmul": "free"})
    assert found.coarse and found.time_ps < found.before_ps and found.trace.meta.is_simulation
    assert "measured times, scaled" in found.notes[0]
    for settings in ({"sbuf": "2x"}, {"buffers": "unlimited"}, {"dependencies": "none"}):
        with pytest.raises(UnsupportedError, match=f"{next(iter(settings))}: a captured profile does not say"):
            what_if(captured(), settings)


def test_scaling_measured_times_comes_near_to_emulating_anew():
    kernel = sim.load(str(KERNELS / "attention.py::attention"))
    shapes = ((128, 512), (128, 1024), (1024, 128))
    trace = sim.run(kernel, *[TensorSpec(shape, dtypes.bfloat16) for shape in shapes], values=False).trace
    shown = replace(trace, recorded=None, meta=replace(trace.meta, is_simulation=False))
    asked = [{"tensor_clock": "2x"}, {"vector_clock": "2x"}, {"memory_bw": "0.5x"}, {"issue_cost": "0.5x"},
             {"matmul": "free"}, {"dma_latency": "0.5x"}]  # fmt: skip
    exact, scaled = (np.array([found.ratio for found in what_ifs(each, asked)]) for each in (trace, shown))
    error = np.abs(scaled / exact - 1)
    assert error.mean() < 0.05 and error.max() < 0.1


def test_roofs_of_a_captured_profile_move_with_the_setting():
    found = what_if(captured(), {"hbm_bw": "2x", "tensor_clock": "2x"})
    for id in ("hbm", "tensor.bf16"):
        assert machine(found.trace).get(id).value == pytest.approx(2 * machine(captured()).get(id).value)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(-9, 50)), max_size=20))
def test_compiled_and_plain_starts_agree(found):
    first, then, least = (np.array([item[k] for item in found], np.int64) for k in range(3))
    one, other = np.arange(7), np.arange(7)
    assert bool(compiled.push_apart(first, then, least, one)) == naive.push_apart(first, then, least, other)
    assert one.tolist() == other.tolist()


# -- the command -----------------------------------------------------------------------------------


def test_the_command_writes_the_trace_of_what_would_be(kept, tmp_path, capsys):
    made = tmp_path / "fast"
    assert cli.main(["what-if", kept, "--set", "memory_bw=2x", "-o", str(made), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    trace = trnprof.open(made)
    assert found["time_ps"] == trace.meta.window[1] - trace.meta.window[0] < found["before_ps"]
    assert found["settings"] == {"memory_bw": "2x"} and found["bound_before"] == "memory_bandwidth"
    assert trace.meta.what_if["hbm_bw"] == 2 * TRN2["hbm_bw"]


def test_the_command_prints_one_what_if_with_reasons_and_a_grid_as_a_table(kept, capsys):
    assert cli.main(["what-if", kept, "--set", "memory_bw=8x"]) == 0
    one = capsys.readouterr().out
    assert "memory_bw=8x: ~" in one and "DMA bandwidth" in one and "critical path" in one
    assert cli.main(["what-if", kept, "--set", "memory_bw=1x,2x", "--set", "matmul=free"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[1].split()[:2] == ["memory_bw", "matmul"]


def test_the_command_lists_its_settings_with_the_values_of_a_trace(kept, capsys):
    assert cli.main(["what-if", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == SETTINGS.keys()
    assert cli.main(["what-if", kept, "--list"]) == 0
    assert "2900 GB/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--set", "hbm_bw"], 2), (["--set", "hbm_bw=2x", "--set", "hbm_bw=3x"], 2), ([], 2), (["--set", "x=1"], 1),
     (["--set", "hbm_bw=1x,2x", "-o", "there"], 2)],
)  # fmt: skip
def test_the_command_refuses_what_it_cannot_read(kept, arguments, code, capsys):
    assert cli.main(["what-if", kept, *arguments]) == code
    assert capsys.readouterr().out == ""
