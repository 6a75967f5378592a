"""The device tables carry what the facts say, and say where each number is from."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from sim import figures, spec
from sim.errors import InputError
from sim.trace import Engine

FACTS = Path(__file__).parents[2] / "shared" / "facts" / "hardware.json"
NAMES_IN_FACTS = {
    "inf1": "inferentia1",
    "trn1": "trainium1",
    "inf2": "inferentia2",
    "trn2": "trainium2",
    "trn3": "trainium3",
}
CORRECTED = {
    "act.issue_ovh": (46, 45, 45),
    "act.lat_copy": (157, 158, 158),
    "act.lat_nonlinear": (157, 280, 280),
    "act.table_load": (368, 1283, 1283),
    "dma.bw_read": (18, 26.8, 33),
    "dma.bw_write": (18, 26.8, 33),
    "dma.desc_ovh": (3, 4, 4),
    "dma.dispatch_load": (1900, 765, 765),
    "dma.dispatch_store": (1900, 650, 650),
    "dma.issue_hw": (None, 590, 590),
    "dma.issue_static": (60, 100, 100),
    "dma.notify_load": (640, 400, 400),
    "dma.notify_store": (640, 400, 400),
    "dve.issue_ovh": (63, 60, 60),
    "dve.lat_psum": (170, 156.3, 125),
    "dve.lat_sbuf": (170, 150, 120),
    "dve.rate_recip": (0.5, 0.1667, 0.1667),
    "pe.issue_ovh": (184, 7, 7),
    "pe.lat": (149, 163, 163),
    "sem.wake": (30, 35, 35),
}
"""Timing parameters that later evidence replaced: trn1, trn2, trn3; None where the generation lacks it."""

ADDED = {
    "pe.issue_ovh_16": (17, 7, 7),
    "pe.passes_fp32": (2, 2, 2),
    "pe.cycles_per_column_fp32": (2, 2, 2),
    "pe.transpose_passes_fp32": (2, 1, 1),
    "pe.clock_window": (None, 3413.3, 3413.3),
    "pe.clock_up": (None, 0.75, 0.75),
    "pe.clock_down": (None, 0.35, 0.35),
    "pe.clock_cold": (None, 0.5, 0.5),
    "pe.load_16": (83, 97, 97),
    "pe.load_32": (166, 191, 191),
    "dve.lat_tensor_scalar": (170, 155, 124),
    "dve.operand_tensor": (0, 60, 48),
    "act.operand_sbuf": (0, 46, 46),
    "sem.same": (5, 5, 5),
    "dma.issue_sw": (350, 582, 582),
    "dma.stagger_load": (0, 685, 685),
    "dma.stagger_store": (0, 190, 190),
    "dma.sw_wake": (1183, 1183, 1183),
    "dma.issue_hw_scratch": (None, 540, 540),
    "kernel.total_extra": (15, 15.3, 15.3),
    "kernel.benchmark_extra": (15, 8.2, 8.2),
    "sbuf.usable_partition_bytes": (196608, 229376, 262144),
    "sbuf.usable_partition_bytes_legacy": (196608, 212992, 245760),
}
"""Timing parameters that the mechanisms found later need."""

EMULATED = ("trn1", "inf2", "trn2", "trn3")


@pytest.fixture(scope="module")
def facts():
    if not FACTS.exists():
        pytest.skip(f"{FACTS.name} is not beside this checkout")
    return json.loads(FACTS.read_text())


@pytest.mark.parametrize("name", spec.NAMES)
def test_every_hardware_figure_is_carried_with_its_value(facts, name):
    device = spec.device(name)
    for given in facts["devices"][NAMES_IN_FACTS[name]]["figures"]:
        figure = device.figure(given["id"])
        assert (figure.value, figure.unit, figure.name) == (given["value"], given["unit"], given["name"])
        third_party = given.get("third_party_measurement") and given["kind"] == "documented"
        assert figure.kind == ("measured" if third_party else given["kind"]), given["id"]


@pytest.mark.parametrize("name", EMULATED)
def test_every_timing_parameter_is_carried_unless_corrected(facts, name):
    device = spec.device(name)
    column = "trainium1" if name == "inf2" else NAMES_IN_FACTS[name]
    for given in facts["timing_model_parameters"]:
        if given["id"] not in CORRECTED:
            assert device.get(given["id"]) == given[column], given["id"]


def test_a_corrected_parameter_keeps_the_other_value_in_its_note(facts):
    device = spec.device("trn1")
    for id, older in (("dve.lat_sbuf", "130"), ("dma.issue_static", "345"), ("act.table_load", "1283")):
        assert older in device.figure(id).note


def test_gpus_and_instances_are_those_of_the_facts(facts):
    assert [gpu.name for gpu in spec.gpus()] == [gpu["name"] for gpu in facts["gpus"]]
    for gpu, given in zip(spec.gpus(), facts["gpus"], strict=True):
        assert gpu.bf16_flops == given["bf16_tflops_dense"] * 1e12
        assert gpu.hbm_bytes_per_s == given["hbm_gbps"] * 1e9
    for instance, given in zip(spec.instances(), facts["instances"], strict=True):
        assert NAMES_IN_FACTS[instance.device] == given["device"]
        assert (instance.name, instance.chips, instance.neuroncores) == (
            given["name"],
            given["chips"],
            given["neuroncores"],
        )
        assert instance.hbm_bytes == given["device_memory_gib"] << 30


@pytest.mark.parametrize("name", spec.NAMES)
def test_every_figure_says_kind_source_and_a_spread_around_it(name):
    for figure in spec.device(name).figures.values():
        assert figure.kind in figures.KINDS[:-1]
        assert len(figure.source) > 5
        assert figure.name
        assert figure.unit
        if figure.spread is not None:
            low, high = figure.spread
            assert 0 <= low <= figure.value <= high, figure


def test_every_gpu_and_instance_says_kind_and_source():
    for record in (*spec.gpus(), *spec.instances()):
        assert record.kind in ("documented", "guess")
        assert len(record.source) > 5


@pytest.mark.parametrize("name", EMULATED)
def test_an_emulated_device_has_every_cost_that_trn2_has(name):
    """What the generation lacks in hardware: descriptor engines, transpose and clock windows, sparse and fast FP8."""
    lacking = {id for id in spec.device("trn2").figures if "." in id} - set(spec.device(name).figures)
    on_v2 = {"dma.issue_hw", "dma.issue_hw_scratch", "dma.issue_sw_base", "dma.issue_sw_desc", "pe.lat_cold"}
    on_v2 |= {"pe.clock_window", "pe.clock_up", "pe.clock_down", "pe.clock_cold", "pe.clock_phase"}
    on_v2 |= {"pe.rate_sparse", "pe.rate_sparse_fp8"}
    assert lacking == {"trn1": on_v2, "inf2": on_v2, "trn2": set(), "trn3": {"pe.rate_sparse_fp8"}}[name]


@pytest.mark.parametrize("id", [*CORRECTED, *ADDED])
def test_the_fit_wins_over_the_older_estimate(id):
    values = tuple(spec.device(name).get(id) for name in ("trn1", "trn2", "trn3"))
    assert values == (CORRECTED | ADDED)[id]


def test_unmeasured_generations_are_flagged():
    flags = {device.name: (device.validated, device.emulated) for device in spec.devices()}
    assert flags == {
        "inf1": (False, False),
        "trn1": (True, True),
        "inf2": (True, True),
        "trn2": (True, True),
        "trn3": (False, True),
    }
    clockless = {id for id in spec.device("trn3").figures if id.startswith(("dve.lat", "act.lat", "pe.lat", "dma.d"))}
    assert {spec.device("trn3").figure(id).kind for id in clockless} == {"guess"}


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("trn2", "trn2"),
        (" Trainium2 ", "trn2"),
        ("inferentia2", "inf2"),
        ("gen2", "trn1"),
        ("gen3", "trn2"),
        ("gen4", "trn3"),
        ("NeuronCore-v1", "inf1"),
        ("NeuronCore-v2", "trn1"),
        ("NeuronCore-v3", "trn2"),
        ("trn2.48xlarge", "trn2"),
        ("trn2u.48xlarge", "trn2"),
        ("trn1.32xlarge (NeuronCore-v2)", "trn1"),
        ("inf2.8xlarge", "inf2"),
        ("Trn3 Gen2 UltraServer", "trn3"),
        ("cayman", "trn2"),
        ("trn2.99xlarge", "trn2"),
        ("Trainium2 (NeuronCore-v3)", "trn2"),
    ],
)
def test_a_device_answers_to_its_aliases(alias, name):
    assert spec.device(alias).name == name


@pytest.mark.parametrize("name", ["", "trn4", "unknown", "h100", "(trn2)", ".trn2", None, 2])
def test_an_unknown_device_is_an_error_that_lists_the_names(name):
    with pytest.raises(InputError, match="inf1, trn1, inf2, trn2, trn3"):
        spec.device(name)


def test_an_absent_figure_names_device_and_figure():
    with pytest.raises(InputError, match=r"trn1 has no figure 'dma\.issue_hw' \(nearest: .*dma\.issue_sw"):
        spec.device("trn1")["dma.issue_hw"]
    assert spec.device("trn1").get("dma.issue_hw") is None
    assert "dma.issue_hw" not in spec.device("trn1")


def test_the_bf16_peak_and_ridge_are_the_profilers():
    trn1, trn2 = spec.device("trn1"), spec.device("trn2")
    assert spec.peak_flops(trn1, "bfloat16") == pytest.approx(91.75e12, rel=1e-4)
    assert spec.peak_flops(trn2, "bfloat16") == pytest.approx(78.64e12, rel=1e-4)
    ridges = [spec.peak_flops(d, "bfloat16") / spec.hbm_bandwidth(d, stack=True) for d in (trn1, trn2)]
    assert ridges == pytest.approx([223.78146341463415, 109.83687150837989], rel=1e-12)


@pytest.mark.parametrize("name", EMULATED)
def test_peaks_agree_with_the_documented_ones(name):
    device = spec.device(name)
    documented = {
        "tf_bf16": spec.peak_flops(device, "float16"),
        "tf_fp8": spec.peak_flops(device, "float8_e5m2"),
        "tf_fp32": spec.peak_flops(device, "float32"),
    }
    if device.generation >= 3:
        documented["tf_sparse"] = spec.peak_flops(device, "bfloat16", sparse=True)
    if device.generation >= 4:
        documented["tf_mx"] = spec.peak_flops(device, "mxfp8")
    for id, peak in documented.items():
        assert peak == pytest.approx(device[id] * 1e12, rel=0.02), id


def test_short_names_and_packed_types_have_the_peak_of_their_arithmetic():
    trn3 = spec.device("trn3")
    for short, full in (("bf16", "bfloat16"), ("fp32", "float32"), ("tf32", "tfloat32"), ("fp8", "float8_e4m3fn")):
        assert spec.peak_flops(trn3, short) == spec.peak_flops(trn3, full)
    assert spec.peak_flops(trn3, "float8_e4m3fn_x4") == spec.peak_flops(trn3, "MXFP4")


def test_inferentia1_has_its_documented_peak_and_a_quarter_of_its_memory():
    inf1 = spec.device("inf1")
    assert spec.peak_flops(inf1, "bfloat16") == 16e12
    assert spec.hbm_bandwidth(inf1) == pytest.approx(inf1["roof_bw_nc"] * 1e9, rel=0.01)
    assert spec.peak_dtypes(inf1) == ("bfloat16", "float16", "int8")


@pytest.mark.parametrize(
    ("name", "dtype", "sparse"),
    [
        ("trn2", "mxfp8", False),
        ("trn1", "bfloat16", True),
        ("trn3", "float8_e4m3", True),
        ("trn2", "float32", True),
        ("inf1", "float32", False),
        ("trn2", "int32", False),
        ("trn2", "", False),
    ],
)
def test_a_dtype_without_a_peak_names_those_that_have_one(name, dtype, sparse):
    with pytest.raises(InputError, match=rf"{name}: TensorE has no peak for .*it has .*bfloat16"):
        spec.peak_flops(spec.device(name), dtype, sparse)


@pytest.mark.parametrize(
    ("name", "engine", "narrow", "wide"),
    [
        ("trn1", "vector", 143.36e9, 143.36e9),
        ("trn2", Engine.VECTOR, 491.52e9, 245.76e9),
        ("trn2", Engine.SCALAR, 153.6e9, 153.6e9),
        ("trn3", "Scalar", 307.2e9, 153.6e9),
        ("trn2", Engine.GPSIMD, 307.2e9, 153.6e9),
    ],
)
def test_element_rates_are_width_times_clock(name, engine, narrow, wide):
    device = spec.device(name)
    rates = spec.element_rate(device, engine, True), spec.element_rate(device, engine, False)
    assert rates == pytest.approx((narrow, wide))


def test_an_engine_without_a_data_path_has_no_element_rate():
    with pytest.raises(InputError, match="sync has no element rate"):
        spec.element_rate(spec.device("trn2"), Engine.SYNC, False)


@pytest.mark.parametrize("name", EMULATED)
def test_the_dma_roof_is_the_guides(name):
    device = spec.device(name)
    assert spec.dma_bandwidth(device) == device["dma_core_peak"] * 1e9
    lower = min(spec.dma_bandwidth(device), spec.hbm_bandwidth(device))
    assert lower == pytest.approx(device["roof_bw_nc"] * 1e9)


def test_two_cores_share_a_stack_on_trn2():
    trn2 = spec.device("trn2")
    assert spec.hbm_bandwidth(trn2) * 2 == pytest.approx(spec.hbm_bandwidth(trn2, stack=True), rel=2e-3)
    assert spec.link_bandwidth(trn2) == 1280e9


def test_a_what_if_changes_a_copy_and_says_so():
    trn2 = spec.device("trn2")
    faster = trn2.replace({"dma.issue_hw": 0, "pe.lat": "0.5x"}, hbm_bw="2x")
    assert (faster["dma.issue_hw"], faster["pe.lat"], faster["hbm_bw"]) == (0, 81.5, 5800)
    assert (trn2["dma.issue_hw"], trn2["pe.lat"], trn2["hbm_bw"]) == (590, 163, 2900)
    changed = faster.figure("hbm_bw")
    assert (changed.kind, changed.source, changed.note) == (
        "what-if",
        "what-if: set to 2x",
        "was 2900 GB/s (documented)",
    )


def test_what_depends_on_a_changed_figure_moves_with_it():
    trn2 = spec.device("trn2")
    faster = trn2.replace(hbm_bw="2x", clock_vector="2x")
    assert spec.hbm_bandwidth(faster) == 2 * spec.hbm_bandwidth(trn2)
    assert spec.hbm_bandwidth(faster, stack=True) == 2 * spec.hbm_bandwidth(trn2, stack=True)
    assert faster["hbm.stack_bw"] == 2 * trn2["hbm.stack_bw"]
    assert faster["dve.lat_sbuf"] == trn2["dve.lat_sbuf"] / 2
    assert faster["roof_bw_nc"] == trn2["dma_core_peak"]
    assert faster["act.lat_copy"] == trn2["act.lat_copy"]
    assert faster.figure("dve.lat_sbuf").source == "what-if: moves with clock_vector"
    engines = trn2.replace(dma_engine_peak="2x", dma_engines_nc=32)
    assert engines["dma_core_peak"] == 4 * trn2["dma_core_peak"]
    assert engines["dma.bw_read"] == 2 * trn2["dma.bw_read"]


def test_a_figure_that_is_set_itself_does_not_move_along():
    device = spec.device("trn2").replace({"clock_vector": "2x", "dve.lat_sbuf": 150})
    assert device["dve.lat_sbuf"] == 150
    assert device.figure("dve.lat_sbuf").kind == "measured" or device.figure("dve.lat_sbuf").kind == "derived"


def test_counts_stay_whole_in_a_what_if():
    device = spec.device("trn2").replace(sbuf_partition_bytes="2x", pe_rows=256.0)
    for id in ("sbuf_partition_bytes", "sbuf_bytes", "sbuf.usable_partition_bytes", "pe_rows"):
        assert isinstance(device[id], int), id
    assert device["sbuf_bytes"] == 2 * spec.device("trn2")["sbuf_bytes"]
    assert spec.peak_flops(device, "bf16") == 2 * spec.peak_flops(spec.device("trn2"), "bf16")


def test_no_change_is_no_what_if():
    for device in spec.devices():
        assert device.replace().figures == device.figures
        assert device.replace(clock_tensor="1x").figures == device.figures


@pytest.mark.parametrize("value", ["fast", "x", "-2x", -1, "nan", float("inf"), "1e308x", 0, "0x", True, None, ""])
def test_an_impossible_what_if_is_an_error(value):
    with pytest.raises(InputError, match=r"trn2: hbm_bw cannot be .*a number in GB/s"):
        spec.device("trn2").replace(hbm_bw=value)


def test_a_what_if_of_an_unknown_figure_names_the_nearest():
    with pytest.raises(InputError, match=r"trn2 has no figure 'hbm_bandwith' .*nearest: "):
        spec.device("trn2").replace(hbm_bandwith="2x")


@pytest.mark.parametrize("name", spec.NAMES)
def test_a_device_prints_as_its_name(name):
    assert repr(spec.device(name)) == f"<Device {name}>"


@pytest.mark.parametrize("name", spec.NAMES)
def test_rows_hold_each_figure_once_with_groups_together(name):
    device = spec.device(name)
    printed = spec.rows(device)
    assert sorted(figure.id for _, figure in printed) == sorted(device.figures)
    groups = [group for group, _ in printed]
    assert len([1 for before, after in zip(["", *groups], groups, strict=False) if before != after]) == len(set(groups))
    assert groups[0] == "chip"


def test_a_device_survives_the_way_to_another_process():
    device = spec.device("trn2").replace(hbm_bw="2x")
    again = pickle.loads(pickle.dumps(device))
    assert again.figures == device.figures
    assert again.name == "trn2"


def test_importing_the_tables_loads_no_numpy_and_reads_no_file():
    probe = (
        "import sys, sim.spec, sim.figures; print('numpy' in sys.modules, sim.figures.catalogue.cache_info().misses)"
    )
    assert subprocess.check_output([sys.executable, "-c", probe], text=True).split() == ["False", "0"]
