"""Dots lie where their sums put them, under roofs that the machine sets."""

from __future__ import annotations

import json
import math

import pytest

from sim.errors import InputError
from sim.trace import RegionKind
from tests.handmade import ins, make, matmul, move, region, vector
from trnprof.machine import family, machine, working_cores
from trnprof.roofline import axes, chart, point

TF = 1e12


@pytest.mark.parametrize(
    ("device", "roofs"),
    [
        ("trn1", {"tensor.bf16": 91.75, "tensor.fp32": 22.94}),
        ("trn2", {"tensor.bf16": 78.64, "tensor.fp32": 19.66, "tensor.fp8": 157.3, "tensor.sparse": 314.6}),
        (
            "trn3",
            {
                "tensor.bf16": 78.64,
                "tensor.fp32": 19.66,
                "tensor.fp8": 157.3,
                "tensor.mx": 314.6,
                "tensor.sparse": 314.6,
            },
        ),
        ("inf1", {"tensor.bf16": 16.0}),
    ],
)
def test_tensor_has_one_roof_for_each_rate_that_the_device_has(device, roofs):
    found = {c.id: c.value / TF for c in machine(device).ceilings if c.id.startswith("tensor.")}
    assert found == pytest.approx(roofs, rel=1e-3)


@pytest.mark.parametrize("device", ["trn1", "inf2", "trn2", "trn3", "inf1"])
def test_every_ceiling_tells_its_source_and_basis(device):
    made = machine(device)
    assert all(c.source and c.basis in ("documented", "measured", "derived", "guess") for c in made.ceilings)
    assert all(c.value > 0 and math.isfinite(c.value) for c in made.ceilings)
    assert {c.kind for c in made.ceilings} == {"compute", "memory", "network"}


def test_dma_and_hbm_are_roofs_of_their_own():
    made = machine("trn2")
    assert (made.get("hbm").value, made.get("dma").value) == pytest.approx((358.4e9, 368e9))
    assert made.bandwidth().id == "hbm"
    assert machine("trn1").bandwidth().id == "dma"


def test_roofs_grow_with_the_cores_at_work():
    assert machine("trn2", cores=2).get("hbm").value == 2 * machine("trn2").get("hbm").value
    trace = make([matmul(0, core=0), matmul(0, core=1), ins(0, 0, 5, core=2, control=True)])
    assert working_cores(trace) == 2
    assert machine(trace).get("tensor.bf16").value == 2 * machine("trn2").get("tensor.bf16").value


def test_what_the_profile_says_goes_before_the_table():
    said = {"tensor_engine_clock_freq": 1.2, "hbm_ddr_bandwidth": 600e9, "dma_ddr_bandwidth": 435e9}
    made = machine(make([matmul(0)], machine=said))
    assert made.get("tensor.bf16").value == pytest.approx(machine("trn2").get("tensor.bf16").value / 2)
    assert (made.get("hbm").value, made.get("hbm").basis) == (300e9, "captured")
    assert made.get("dma").value == made.wire == 435e9


def test_an_unknown_device_has_what_its_profile_says_and_nothing_else():
    said = {"tensor_engine_clock_freq": 2.4, "hbm_ddr_bandwidth": 716e9}
    made = machine(make([matmul(0)], device="trn9", machine=said))
    assert [c.id for c in made.ceilings] == ["tensor.bf16", "hbm"]
    assert machine(make([matmul(0)], device="unknown")).ceilings == ()


def test_a_point_is_a_ratio_of_sums():
    trace = make([matmul(0, 500), matmul(500, 500)], [move(0, 100, 1 << 17), move(100, 100, 1 << 17)])
    found = point(trace)
    flops = 2 * 2 * 128 * 128 * 512
    assert found.intensity == flops / (2 << 17)
    assert found.achieved == pytest.approx(flops / 1e-6)
    assert found.attainable == pytest.approx(min(78.64 * TF, found.intensity * 358.4e9), rel=1e-3)
    assert found.share == pytest.approx(found.achieved / found.attainable)
    assert not found.exceeds


def test_a_mixture_of_dtypes_has_the_roof_of_its_time_at_peak():
    made = machine("trn2")
    mixed = made.mixed((("fp32", 100), ("bf16", 100)))
    assert mixed.value == pytest.approx(
        200 / (100 / made.get("tensor.fp32").value + 100 / made.get("tensor.bf16").value)
    )
    assert made.mixed((("fp16", 5), ("bfloat16", 5))) == made.get("tensor.bf16")
    assert mixed.name == "TensorE fp32 + bf16"


def test_work_without_tensor_is_placed_by_the_elements_of_the_busiest_engine():
    found = point(make([vector(0, 1000, 900), ins(2, 0, 500, partitions=128, elements=50)], [move(0, 900, 1 << 16)]))
    assert (found.engine, found.unit, found.done) == ("VectorE", "elem/s", 128 * 900)
    assert found.roof == "VectorE"


def test_the_wider_mode_is_the_roof_of_what_exceeds_the_ordinary_one():
    found = point(make([vector(0, 1000, 3000)], [move(0, 900, 1 << 16)]))
    assert found.roof == "VectorE 4x mode"
    assert found.share < 1
    assert not found.exceeds


@pytest.mark.parametrize(
    ("rows", "transfers", "reason"),
    [
        ([matmul(0)], [], "no HBM byte, so no intensity"),
        ([vector(0, 10)], [move(0, 5, 64)], "no FLOP and no element operation is counted"),
        ([], [], "no time"),
    ],
)
def test_what_cannot_be_placed_is_absent_with_its_reason(rows, transfers, reason):
    found = point(make(rows, transfers))
    assert found.missing == reason
    assert found.intensity is None
    made = chart(make(rows, transfers))
    assert (len(made.dots), len(made.without)) == (0, 1)
    json.dumps(made.to_json(), allow_nan=False)


def test_a_dot_above_what_the_machine_can_do_is_marked():
    assert point(make([matmul(0, 20)], [move(0, 20, 100)])).exceeds
    assert point(make([matmul(0, 1000)], [move(0, 900, 1 << 20)])).exceeds


def test_one_core_alone_may_pass_its_share_of_the_stack():
    found = point(make([matmul(0, 1000, columns=8)], [move(0, 1000, 400_000)]))
    assert not found.exceeds
    assert found.share <= 1


def test_axes_depend_on_the_machine_alone():
    first = chart(make([matmul(0, 1000)], [move(0, 900, 1 << 16)]))
    second = chart(make([matmul(0, 50_000, dtype="fp32")], [move(0, 900, 1 << 10)]))
    said = {"hbm_ddr_bandwidth": 716.8e9, "dma_ddr_bandwidth": 435e9, "tensor_engine_clock_freq": 2.4}
    captured = chart(make([matmul(0, 1000)], [move(0, 900, 1 << 16)], machine=said))
    assert (first.x, first.y) == (second.x, second.y) == (captured.x, captured.y)
    assert (first.x, first.y) == axes(machine("trn2"), wide=False)


def test_the_frame_widens_for_engines_that_count_elements():
    made = chart(make([vector(0, 1000, 900)], [move(0, 900, 1 << 16)]))
    assert {"vector", "scalar", "gpsimd"} <= {c.id for c in made.ceilings}
    assert made.y.low < made.dots[0].achieved < made.y.high
    narrow = chart(make([matmul(0)], [move(0, 9, 64)]))
    assert not {"vector", "scalar"} & {c.id for c in narrow.ceilings}


def test_ridges_are_where_the_main_roofs_meet():
    made = chart(make([matmul(0, dtype="fp32")], [move(0, 9, 64)]))
    assert made.main == ("tensor.fp32", "hbm")
    assert [ridge.name for ridge in made.ridges[:2]] == ["TensorE fp32 / HBM", "TensorE fp32 / DMA"]
    assert made.ridges[0].intensity == pytest.approx(19.66e12 / 358.4e9, rel=1e-3)


def test_every_tensor_roof_has_its_ridge_with_the_memory_that_bounds():
    made = chart(make([matmul(0)], [move(0, 9, 64)]))
    found = {ridge.name: ridge.intensity for ridge in made.ridges[2:]}
    assert set(found) == {"TensorE fp32 / HBM", "TensorE fp8 / HBM", "TensorE 4:16 sparse / HBM"}
    assert found["TensorE 4:16 sparse / HBM"] == pytest.approx(4 * made.ridges[0].intensity)


def test_gpus_lend_their_roofs_to_compare_with():
    made = chart(make([matmul(0)], [move(0, 9, 64)]), compare=("a100", "H100", "V100"))
    assert {c.name: c.value for c in made.rivals} == {
        "A100 bf16": 312e12, "A100 HBM": 2039e9, "H100 bf16": 989.4e12, "H100 HBM": 3350e9, "V100 fp16": 125e12,
        "V100 HBM": 900e9,
    }  # fmt: skip
    assert made.y.high > 989.4e12
    assert "A100 SXM 80GB" in " ".join(made.caption)
    alone = chart(make([matmul(0)], [move(0, 9, 64)]))
    assert (alone.ceilings, alone.main, alone.dots) == (made.ceilings, made.main, made.dots)


def test_the_whole_has_whiskers_where_the_trace_keeps_error_bars():
    bars = {"latency_ns": {"value": 1000, "low": 800, "high": 1250}}
    whole, *others = chart(
        make([matmul(0, 500, region=0), matmul(500, 500, region=1)], [move(0, 9, 64)],
             regions=[region("a", 0, 500), region("b", 500, 1000)], is_simulation=True, error_bars=bars)
    ).dots  # fmt: skip
    assert (whole.low, whole.high) == pytest.approx((whole.achieved * 0.8, whole.achieved * 1.25))
    assert all(dot.low is None for dot in others)
    assert chart(make([matmul(0)], [move(0, 9, 64)])).dots[0].low is None


def test_an_unknown_gpu_names_those_that_are_known():
    with pytest.raises(InputError, match="unknown GPU 'b300'"):
        chart(make([matmul(0)]), compare=("b300",))


def test_a_baseline_is_joined_to_what_became_of_it():
    now = make([matmul(0, 1000)], [move(0, 900, 1 << 16)])
    was = make([matmul(0, 2000)], [move(0, 900, 1 << 18)], kernel="before")
    made = chart(now, baseline=was)
    assert [(dot.name, dot.baseline) for dot in made.dots] == [("kernel", False), ("before", True)]
    assert [(a.start, a.end, a.label) for a in made.arrows] == [(1, 0, "2.00× faster, 4.00× fewer bytes")]


def test_another_device_changes_the_roofs_and_not_the_work():
    trace = make([matmul(0, 1000)], [move(0, 900, 1 << 16)])
    made = chart(trace, device="trn1")
    assert made.device == "trn1"
    assert made.dots[0].done == chart(trace).dots[0].done
    assert "Trainium1" in " ".join(made.caption)


def test_a_lone_kernel_does_not_repeat_the_dot_of_the_whole():
    regions = [
        region("kernel", 0, 600, RegionKind.KERNEL),
        region("first", 0, 300, parent=0),
        region("second", 300, 600, parent=0),
    ]
    rows = [matmul(0, 250, region=1, hbm_read_bytes=64), matmul(300, 250, region=2, hbm_read_bytes=640)]
    made = chart(make(rows, regions=regions))
    assert [dot.name for dot in made.dots] == ["kernel", "first", "second"]
    assert [dot.name for dot in chart(make(rows, regions=regions), level="kernels").dots] == ["kernel"]


def test_the_caption_tells_device_dtype_data_and_tool():
    text = " ".join(chart(make([matmul(0)], [move(0, 9, 64)])).caption)
    assert all(
        part in text for part in ("Trainium2", "one core", "bf16", "Captured on hardware", "hand.json", "trnprof 0.")
    )
    assert "Estimated by emulation" in " ".join(chart(make([matmul(0)], is_simulation=True)).caption)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bfloat16", "bfloat16"),
        ("fp16", "bfloat16"),
        ("tf32", "bfloat16"),
        ("float8_e4m3", "float8"),
        ("fp32", "float32"),
        ("mxfp8", "mx"),
        ("uint8", "int8"),
        ("int32", None),
        (None, None),
        ("", None),
    ],
)
def test_dtypes_fall_into_the_rates_of_tensor(name, kind):
    assert family(name) == kind


@pytest.mark.parametrize(
    ("file", "intensity", "achieved", "share"),
    [
        ("fused_fp32_s512", 120, 5.80, 0.29),
        ("baseline_fp32_s512", 25.3, 3.09, 0.34),
        ("baseline_bf16_s512", 27.9, 3.43, 0.34),
        ("baseline_fp32_s1024", 28.3, 5.31, 0.52),
    ],
)
def test_real_profiles_lie_where_their_own_figures_put_them(profiles, file, intensity, achieved, share):
    import trnprof

    found = point(trnprof.open(profiles / "trn2_attention" / f"{file}.json"))
    assert found.intensity == pytest.approx(intensity, rel=5e-3)
    assert found.achieved / TF == pytest.approx(achieved, rel=5e-3)
    assert found.share == pytest.approx(share, abs=0.01)
