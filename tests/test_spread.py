"""Error bars: what is drawn, that nothing depends on chance, and what is said of a verdict that flips."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import sim
import trnprof
from sim import spread, tracefile
from sim.compiler import Options
from sim.errors import InputError, UnsupportedError
from sim.figures import COUNTED_UNITS
from sim.interval import Doubt, Interval, Parts
from trnprof.spread import Bars, with_error_bars

KERNELS = "traces/kernels"


@pytest.fixture(scope="module")
def run() -> sim.Run:
    kernel = sim.load(f"{KERNELS}/matmul.py::matmul")
    return sim.run(kernel, sim.TensorSpec((256, 128), "bfloat16"), sim.TensorSpec((256, 512), "bfloat16"), values=False)


@pytest.fixture(scope="module")
def legacy() -> sim.Run:
    return sim.run(
        sim.load(f"{KERNELS}/legacy_silu.py::silu"), sim.TensorSpec((128, 1, 1024), "bfloat16"), values=False
    )


def certain(run: sim.Run, spans: float) -> sim.Run:
    """The launch on a device whose spreads are scaled."""
    recorded = run.trace.recorded()
    figures = {
        id: dataclasses.replace(
            figure,
            spread=figure.spread and tuple(figure.value + spans * (end - figure.value) for end in figure.spread),
        )
        for id, figure in recorded.program.device.figures.items()
    }
    device = dataclasses.replace(recorded.program.device, figures=figures)
    program = dataclasses.replace(recorded.program, device=device)
    trace = dataclasses.replace(run.trace, recorded=lambda: dataclasses.replace(recorded, program=program))
    return dataclasses.replace(run, trace=trace)


def test_the_same_seed_gives_the_same_bars_and_another_one_others(run):
    one = sim.error_bars(run, samples=4)
    assert one == sim.error_bars(run.trace, samples=4)
    assert one.latency_ns != sim.error_bars(run, samples=4, seed=1).latency_ns


def test_the_interval_holds_the_estimate_and_lies_within_the_full_range(run):
    bars = sim.error_bars(run, samples=6)
    for bar in (bars.latency_ns, bars.total_ns, bars.benchmark_ns):
        assert bar.least <= bar.low <= bar.value <= bar.high <= bar.most
        assert bar.least < bar.most
    assert bars.latency_ns.value == run.latency_ns
    assert bars.total_ns.value == run.total_ns
    assert bars.benchmark_ns.value == run.benchmark_ns


def test_without_spreads_every_sample_is_the_estimate_to_the_picosecond(run):
    drawn = []
    bars = sim.error_bars(
        certain(run, 0.0), samples=3, each=lambda scenario: drawn.append(spread.times(scenario.trace))
    )
    assert {latency for latency, _, _ in drawn} == {run.latency_ns}
    assert bars.latency_ns.parts.figures == (0, 0)
    off = 1 + bars.doubt.unexplained
    assert (bars.latency_ns.low, bars.latency_ns.high) == pytest.approx((run.latency_ns / off, run.latency_ns * off))


def test_what_the_model_does_not_explain_is_that_of_the_api_generation(run, legacy):
    for each, generation in ((run, "current"), (legacy, "legacy")):
        found = sim.error_bars(each, samples=1)
        assert found.doubt.unexplained == each.program.device[f"model.spread_{generation}"] > 0
        assert found.latency_ns.parts.model[1] == pytest.approx(found.doubt.unexplained)


def test_wider_spreads_give_wider_bars(run):
    narrow, wide = (sim.error_bars(certain(run, share), samples=8).latency_ns for share in (0.25, 1.0))
    assert narrow.most - narrow.least < wide.most - wide.least


def test_drawn_are_the_figures_that_time_depends_on_and_that_have_a_spread(run):
    figures = spread.uncertain(run.trace)
    device = run.program.device
    assert {"dma.dispatch_load", "pe.lat", "sem.wake"} <= figures.keys()
    assert not {id for id in figures if device.figure(id).unit in COUNTED_UNITS}
    assert "cc.base" not in figures  # no collective here
    assert all(figure.spread is not None for figure in figures.values())


def test_a_figure_is_drawn_within_its_spread_most_often_near_its_value(run):
    figure = next(iter(spread.uncertain(run.trace).values()))
    low, high = figure.spread
    shares = (np.arange(3000) + 0.5) / 3000
    drawn = np.array([spread.within(figure, share) for share in shares])
    assert low <= drawn.min() and drawn.max() <= high
    assert (np.diff(drawn) > 0).all()
    mean = (low + figure.value + high) / 3
    assert abs(drawn.mean() - mean) < 0.001 * (high - low)


def test_figures_of_one_thing_are_drawn_together(run):
    figures = spread.uncertain(run.trace)
    drawn = [spread.draw(figures, np.random.default_rng(seed)) for seed in range(40)]

    def rank(id: str) -> np.ndarray:
        return np.argsort([each[id] for each in drawn])

    assert (rank("dma.bw_read") == rank("dma.bw_write")).all()
    assert not (rank("dma.bw_read") == rank("sem.wake")).all()


def test_each_unknowable_decision_is_taken_the_other_way_once(run, legacy):
    assert sim.error_bars(run, samples=1).decisions == {}
    bars = sim.error_bars(legacy, samples=1)
    assert set(bars.decisions) == set(Options.for_generation("legacy").alternatives())
    assert {"hoist=off", "distribute=off", "buffers=4", "room=16"} <= set(bars.decisions)
    assert all(bars.latency_ns.least <= time <= bars.latency_ns.most for time in bars.decisions.values())


def test_alternatives_differ_from_the_options_in_one_decision_each():
    options = Options.for_generation("legacy")
    for name, other in options.alternatives().items():
        changed = {f.name for f in dataclasses.fields(Options) if getattr(options, f.name) != getattr(other, f.name)}
        assert changed == {name.partition("=")[0].replace("window", "windows")}


def test_dependences_found_once_serve_every_sample(run, monkeypatch):
    calls = []
    find = spread.dependences.find
    monkeypatch.setattr(spread.dependences, "find", lambda *given: calls.append(1) or find(*given))
    sim.error_bars(run, samples=5)
    assert len(calls) <= 3  # once for the samples, once for the figures that are read


@pytest.mark.parametrize("which", ["run", "legacy"])
def test_what_passes_did_once_serves_every_sample_that_they_do_not_depend_on(which, request, monkeypatch):
    """Legacy passes describe instructions of their own, whose costs are each machine's."""
    launch, calls = request.getfixturevalue(which), []
    rewrite, usual = spread.compiler.rewrite, sim.error_bars(launch, samples=5)
    monkeypatch.setattr(spread.compiler, "rewrite", lambda *given: calls.append(1) or rewrite(*given))
    assert sim.error_bars(launch, samples=5).latency_ns == usual.latency_ns
    assert len(calls) == (2 if which == "run" else 7 + len(usual.decisions))  # once is for the figures that are read
    monkeypatch.setattr(spread, "_keeps_forms", lambda *given: False)
    assert sim.error_bars(launch, samples=5) == usual


def test_a_trace_without_its_program_has_no_bars(run):
    with pytest.raises(UnsupportedError, match="timed anew"):
        sim.error_bars(dataclasses.replace(run.trace, recorded=None))
    with pytest.raises(InputError, match="samples=0"):
        sim.error_bars(run, samples=0)


def test_bars_are_kept_with_the_trace(run, tmp_path):
    trace = with_error_bars(run.trace, samples=3)
    tracefile.write(trace, tmp_path / "t")
    kept = tracefile.read(tmp_path / "t").meta.error_bars
    bars = dataclasses.asdict(trnprof.error_bars(run, samples=3).times.latency_ns)
    assert kept["latency_ns"] == json.loads(json.dumps(bars))
    assert kept["samples"] == 3
    assert kept["verdict"]["sentence"]


def bars(others: dict[str, int], low: float = 0.05) -> Bars:
    verdict = type("Verdict", (), {"bound": "compute"})()
    return Bars(None, verdict, Interval(0.1, low, 0.2, -0.2, 0.3), others, 32)


def test_a_verdict_that_flips_says_so():
    assert not bars({}).flips
    assert "Compute-bound in each of 32" in bars({}).sentence
    flipped = bars({"latency": 6, "network": 2}, -0.05)
    assert flipped.flips and flipped.held == 0.75
    assert flipped.sentence == (
        "The verdict flips within the error bars: its lead may be -5 to 20 points; latency-bound in 6 and "
        "network-bound in 2 of 32 runs."
    )
    rarely = bars({"latency": 2})
    assert not rarely.flips and rarely.sentence == "Compute-bound in 94% of 32 runs; latency-bound in 2."


def test_a_lead_within_what_the_model_does_not_explain_flips_though_no_run_does():
    assert "its lead may be -2 to 20 points." in bars({}, -0.02).sentence


def test_error_bars_say_what_they_are_made_of(run):
    found = trnprof.error_bars(run, samples=3)
    assert found.made.startswith("Error bars hold 80\u202f% of what it may be") and "model" in found.made
    assert "compiler" not in found.made  # the current API leaves no decision open
    assert isinstance(found.times.latency_ns.parts, Parts)
    assert found.to_json()["sentence"] == found.made
    assert isinstance(found.times.doubt, Doubt)


def test_the_margin_is_the_lead_of_the_bound_of_the_estimate(run):
    found = trnprof.error_bars(run, samples=4)
    assert found.margin.value == pytest.approx(found.verdict.margin)
    assert found.margin.least <= found.margin.value <= found.margin.most
    assert found.scenarios == 4


def test_figures_that_a_device_lacks_are_not_drawn():
    """NeuronCore-v2 has no cold clock, which costs ask for all the same."""
    kernel = sim.load("traces/kernels/legacy_silu.py::silu", "trn1")
    run = sim.run(kernel, sim.TensorSpec((128, 2, 1024), "float32"), device="trn1", values=False)
    bars = sim.error_bars(run, 3)
    assert "pe.clock_cold" not in bars.figures
    assert bars.latency_ns.least < bars.latency_ns.value < bars.latency_ns.most
