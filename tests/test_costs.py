"""Money and energy of a run, and the cheapest machine that can do it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import sim
import trnprof
from sim.errors import InputError, UsageError
from sim.retiming import elsewhere
from sim.spec import device
from sim.trace import Memory
from tests.handmade import make, matmul, move, vector
from trnprof.cli import main
from trnprof.costs import CAPTURED, EMULATED, OWN, SCALED, Rates, bound_ps, cost
from trnprof.machine import machine
from trnprof.regions import whole

ROOT = Path(__file__).resolve().parents[1]
US = 1000


def captured(**more):
    """A run of 100 µs that needs half of it at the bf16 roof."""
    rows = [matmul(2 * 213.3 * k, 213.3) for k in range(234)]
    return make(rows, [move(0, 900, 1 << 20)], window=(0, 100 * US), **more)


@cache
def emulated(name: str = "trn2"):
    kernel = sim.load(f"{ROOT}/traces/kernels/silu_multiply.py::silu_multiply")
    tensor = sim.TensorSpec((512, 2048), "bfloat16")
    return sim.run(kernel, tensor, tensor, values=False, device=name).trace


def test_a_run_costs_its_share_of_an_hour_and_draws_its_share_of_power():
    (found,) = cost(captured(), {OWN: Rates(3.6, 500)}, units=50)
    assert found.per_run == pytest.approx(3.6 * 100e-6 / 3600)
    assert found.joules_per_run == pytest.approx(500 * 100e-6)
    assert found.per_million == pytest.approx(found.per_run / 50 * 1e6)
    assert found.joules_per_unit == pytest.approx(0.05 / 50)
    assert found.units_per_second == pytest.approx(500_000)
    assert (found.basis, found.unit, found.feasible, found.cheapest) == (CAPTURED, "token", True, False)


def test_cores_that_are_paid_for_run_copies_side_by_side():
    one, many = (cost(captured(), {OWN: Rates(3.6, None)}, cores=n)[0] for n in (1, 8))
    assert (many.copies, many.per_run) == (8, pytest.approx(one.per_run / 8))
    assert many.joules_per_run is None


def test_an_instance_size_stands_for_its_device_and_its_cores():
    (found,) = cost(captured(), {"trn2.48xlarge": Rates(36.0)})
    assert (found.device, found.cores, found.copies, found.basis) == ("trn2", 128, 128, CAPTURED)
    assert found.per_run == pytest.approx(36.0 * 100e-6 / 3600 / 128)


def test_a_captured_profile_is_scaled_by_the_roofs_of_both_devices():
    trace = captured()
    found = {each.name: each for each in cost(trace, {OWN: Rates(1.0), "trn1": Rates(1.0)})}
    region = whole(trace)
    ratio = bound_ps(region, machine("trn1")) / bound_ps(region, machine(trace))
    assert ratio == pytest.approx(78.64 / 91.75, rel=1e-3)
    assert found["trn1"].time_ps == pytest.approx(100 * US * 1000 * ratio, rel=1e-6)
    assert found["trn1"].basis == SCALED
    assert "scaled by 0.857" in found["trn1"].reason


def test_an_emulated_trace_is_emulated_anew_on_another_device():
    found = {each.name: each for each in cost(emulated(), {"trn2": Rates(1.0), "trn1": Rates(1.0), "inf1": Rates(1)})}
    assert found["trn1"].basis == EMULATED
    assert found["trn1"].time_ps == round(1000 * sim_latency("trn1"))
    assert found["inf1"].basis == SCALED, "it has no timing model"


def sim_latency(name: str) -> float:
    low, high = emulated(name).meta.window
    return (high - low) / 1000


def test_elsewhere_is_what_a_run_there_gives():
    made, run = elsewhere(emulated(), device("trn1")), emulated("trn1")
    assert made.meta.device == "trn1"
    assert (made.instructions.start_ps == run.instructions.start_ps).all()


def test_the_cheapest_feasible_machine_comes_first_and_is_marked():
    rates = {"trn2.48xlarge": Rates(36.0), "trn1.2xlarge": Rates(1.34), "trn3": Rates(1000.0)}
    found = cost(captured(), rates)
    assert [each.cheapest for each in found] == [True, False, False]
    assert [each.per_run for each in found] == sorted(each.per_run for each in found)


def test_what_does_not_fit_is_not_chosen_and_says_why():
    tensors = [{"name": "w", "type": "WEIGHT", "memory": Memory.HBM, "bytes": 20 << 30}]
    found = cost(captured(tensors=tensors), {"trn3": Rates(10.0), "inf2": Rates(0.1)})
    assert {(each.name, each.feasible, each.cheapest) for each in found} == {
        ("inf2", False, False), ("trn3", False, False)
    }  # fmt: skip
    small = [{"name": "w", "type": "WEIGHT", "memory": Memory.HBM, "bytes": 17 << 30}]
    found = cost(captured(tensors=small), {"trn3": Rates(10.0), "inf2": Rates(0.1)})
    assert [(each.name, each.feasible, each.cheapest) for each in found] == [
        ("trn3", True, True), ("inf2", False, False)
    ]  # fmt: skip
    assert "tensors take 17 GiB, its cores can use 16 GiB of HBM" in found[1].reason.replace("\u202f", " ")
    assert (found[1].per_run, found[1].time_ps) == (None, None)


def test_a_device_without_the_dtype_or_the_cores_is_not_feasible():
    fp8 = make([matmul(0, dtype="float8_e4m3")], [move(0, 100, 1 << 16)])
    assert "TensorE has no float8" in cost(fp8, {"inf1": Rates(1.0)})[0].reason
    two = make([matmul(0, core=0), matmul(0, core=1)])
    assert "2 cores work together, it has 1" in cost(two, {OWN: Rates(1.0)}, cores=1)[0].reason


def test_an_unknown_device_has_a_price_and_no_rival():
    trace = make([vector(0, 1000, 900)], device="unknown")
    own, other = cost(trace, {OWN: Rates(1.0), "trn2": Rates(1.0)})
    assert own.per_run is not None
    assert (other.time_ps, other.feasible) == (None, False)


@pytest.mark.parametrize(
    ("rates", "error"), [({}, UsageError), ({OWN: Rates()}, UsageError), ({"trn9": Rates(1.0)}, InputError)]
)
def test_bad_questions_are_refused(rates, error):
    with pytest.raises(error):
        cost(captured(), rates)


def test_a_trace_without_time_has_no_cost():
    with pytest.raises(InputError, match="no kernel window"):
        cost(make([]), {OWN: Rates(1.0)})


def test_the_command_prints_a_table_and_json(capsys):
    sample = str(ROOT / "traces" / "attention")
    assert main(["cost", sample, "--price-per-hour", "1.5", "--watts", "100", "--tokens", "512"]) == 0
    out = capsys.readouterr().out
    assert "price of 1M tokens" in out and "~" in out
    assert main(["cost", sample, "--price-per-hour", "trn1=1", "--price-per-hour", "trn2=2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["device"] for each in found} == {"trn1", "trn2"}


@pytest.mark.parametrize(
    "options",
    [[], ["--price-per-hour", "x"], ["--price-per-hour", "-1"], ["--watts", "nan"],
     ["--price-per-hour", "1", "--tokens", "0"], ["--price-per-hour", "1", "--price-per-hour", "2"]],
)  # fmt: skip
def test_the_command_refuses_what_is_no_price(options, capsys):
    assert main(["cost", str(ROOT / "traces" / "attention"), *options]) == 2
    assert capsys.readouterr().err


def test_it_is_public():
    assert trnprof.cost is cost
