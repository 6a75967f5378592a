"""Each bound is named for the kernel that an expert would give it, with numbers that say why."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
import sim.ops
from sim.trace import Engine, Memory, RegionKind, Wait
from tests.handmade import ins, make, matmul, move, packets_of, region, trigger, vector
from trnprof import words
from trnprof.bounds import TIE, Verdict, classify
from trnprof.demand import LOSSES
from trnprof.regions import selection

KIB = 1024
HBM = 358.0
"""Bytes per ns that a core of trn2 gets from HBM."""


def verdict(*args, **kwargs) -> Verdict:
    return classify(make(*args, **kwargs))[0]


def sentences(found: Verdict) -> str:
    return " / ".join(evidence.sentence for evidence in found.evidence).replace(words.NARROW, " ")


def loads(count: int, every: float, length: float, size: int, **more) -> tuple[list, list]:
    """Transfers with their packets, one after the other."""
    transfers = [move(k * every, length, size, **more) for k in range(count)]
    pieces = [piece for k in range(count) for piece in packets_of(k * every, length, size, transfer=k)]
    return transfers, pieces


def test_a_matmul_that_keeps_tensor_busy_is_compute_bound():
    transfers, pieces = loads(10, 2130, 400, 128 * KIB)
    found = verdict([matmul(213 * k) for k in range(100)], transfers, pieces)
    assert (found.bound, found.engine) == ("compute", "TensorE")
    assert found.share == pytest.approx(1.0, abs=0.01)
    assert "TensorE works 21.3 of 21.3 µs" in sentences(found)
    assert "of its bf16 roof of 78.6 TFLOP/s" in sentences(found)


def test_streaming_at_the_roof_is_bandwidth_bound_though_an_engine_is_half_busy():
    size = 512 * KIB
    every = size / HBM
    transfers, pieces = loads(20, every, every * 0.98, size)
    found = verdict([vector(k * every, every / 2, 700) for k in range(20)], transfers, pieces, window=(0, 20 * every))
    assert (found.bound, found.engine, found.runner_up) == ("memory_bandwidth", None, "compute")
    assert "HBM moves 10 MiB at 35" in sentences(found)


def test_many_operations_on_each_byte_make_the_engine_the_bound():
    transfers, pieces = loads(10, 10_000, 1500, 512 * KIB)
    rows = [vector(k * 1000, 1000, 960) for k in range(100)]
    found = verdict(rows, transfers, pieces)
    assert (found.bound, found.engine) == ("compute", "VectorE")
    assert found.share > 0.9


def test_short_instructions_back_to_back_are_latency_not_compute():
    found = verdict([vector(k * 160, 160, 4) for k in range(50)])
    assert (found.bound, found.cause) == ("latency", "fixed")
    assert "fixed cost of short instructions" in sentences(found)


@pytest.mark.parametrize("engine", [Engine.SYNC, Engine.SCALAR, Engine.GPSIMD])
def test_dma_triggers_that_set_the_pace_are_latency_not_bandwidth(engine):
    rows = [trigger(k * 600, engine=engine) for k in range(100)]
    transfers = [move(k * 600 + 600, 60, 16 * KIB, k, descriptors=128) for k in range(100)]
    found = verdict(rows, transfers, window=(0, 60_600))
    assert (found.bound, found.cause) == ("latency", "issue")
    name = words.ENGINE_WORDS[engine]
    assert f"{name} spends 59.0 of 60.6 µs on triggering 100 DMAs, 590 ns each" in sentences(found)


def test_loading_activation_tables_is_not_work():
    rows = [ins(Engine.SCALAR, k * 1300, 1283, "ACT_TABLE_LOAD") for k in range(10)]
    found = verdict(rows, window=(0, 13_000))
    assert (found.bound, found.cause) == ("latency", "table")
    assert found.scores["compute"] == 0


def test_triggers_bound_a_kernel_even_beside_a_busy_engine():
    rows = [*(trigger(k * 600) for k in range(100)), *(matmul(k * 600, 330) for k in range(100))]
    found = verdict(rows, window=(0, 60_000))
    assert (found.bound, found.cause, found.runner_up) == ("latency", "issue", "compute")
    assert sum(found.shares.values()) == pytest.approx(1)


def test_load_and_compute_that_never_overlap_are_latency():
    size = 1024 * KIB
    takes = size / HBM
    rows, transfers = [], []
    for k in range(5):
        transfers.append(move(k * 2.2 * takes, takes, size))
        rows.append(vector(k * 2.2 * takes + 1.05 * takes, 0.95 * takes, round(takes * 0.9)))
    found = verdict(rows, transfers, window=(0, 11 * takes))
    assert (found.bound, found.cause) == ("latency", "dependency")
    assert found.scores["compute"] == pytest.approx(0.45, abs=0.03)
    assert found.scores["memory_bandwidth"] == pytest.approx(0.45, abs=0.03)


def test_waiting_for_dmas_that_move_little_is_dma_latency():
    rows = [trigger(0, 60), matmul(2500), trigger(3000, 60)]
    transfers = [move(2000, 90, 32 * KIB, 0, done_ps=2_400_000), move(4400, 90, 32 * KIB, 2, done_ps=4_800_000)]
    found = verdict(rows, transfers, window=(0, 5000))
    assert (found.bound, found.cause) == ("latency", "dma_latency")
    assert "with a DMA under way that moves no byte" in sentences(found)


def test_small_descriptors_count_as_dma_engines_at_work():
    """A matmul is DMA-bound though its bytes alone would take less than TensorE."""
    rows = [matmul(k * 1000, 560) for k in range(50)]
    transfers = [move(k * 1000, 900, 160 * KIB, descriptors=2560) for k in range(50)]
    found = verdict(rows, transfers, window=(0, 50_000))
    assert found.scores["memory_bandwidth"] > 160 * KIB / HBM / 1000 + 0.2
    assert (found.bound, found.runner_up) == ("memory_bandwidth", "compute")
    assert "64 B a descriptor" in sentences(found)


def test_one_busy_dma_engine_is_not_a_full_memory_path():
    pieces = packets_of(0, 10_000, 200 * KIB, engines=1, transfer=0)
    found = verdict([vector(0, 1000, 960)], [move(0, 10_000, 200 * KIB)], pieces, window=(0, 10_000))
    assert found.bound == "latency"
    assert found.scores["memory_bandwidth"] == pytest.approx(1 / 16)


def spilling(share: float) -> Verdict:
    size = 1024 * KIB
    every = size / HBM
    spilled = round(size * share)
    rows = [trigger(k * every, 50, hbm_read_bytes=size, spill_reload_bytes=spilled) for k in range(20)]
    rows += [matmul(k * every, every * 0.5) for k in range(20)]
    return verdict(rows, [move(k * every + 50, every * 0.95, size, 2 * k) for k in range(20)], window=(0, 20 * every))


def test_spills_that_rule_the_traffic_make_memory_too_small():
    found = spilling(0.6)
    assert found.bound == "memory_capacity"
    assert "HBM traffic are spills and reloads for lack of SBUF; without them memory would need" in sentences(found)


def test_a_few_spills_leave_it_bandwidth_bound():
    found = spilling(0.1)
    assert found.bound == "memory_bandwidth"
    assert found.scores["memory_capacity"] == pytest.approx(0.1 * found.scores["memory_bandwidth"], rel=0.01)


def waiting_for_psum(banks: int) -> Verdict:
    rows = [matmul(k * 1000, 250, wait=Wait.BUFFER, wait_ps=750_000) for k in range(1, 20)]
    held = [
        {"tensor": f"acc{bank}", "memory": Memory.PSUM, "start_ps": 0, "end_ps": 20_000_000, "partition": 0,
         "partitions": 128, "offset": bank * 2048, "bytes": 2048}
        for bank in range(banks)
    ]  # fmt: skip
    return verdict(rows, allocations=held, window=(250, 20_000))


def test_waits_for_a_full_psum_are_capacity():
    found = waiting_for_psum(8)
    assert found.bound == "memory_capacity"
    assert "go by waiting for memory to be free" in sentences(found)
    assert "PSUM peaks at 100 % (16 KiB of 16 KiB a partition)" in sentences(found)


def test_waits_for_the_only_buffer_in_an_empty_memory_are_latency():
    assert waiting_for_psum(1).bound == "latency"


def test_collectives_that_nothing_hides_are_network():
    rows = [ins(Engine.COLLECTIVE, 0, 30_000, "ALL_REDUCE"), matmul(30_000, 2_000)]
    found = verdict(rows, window=(0, 35_000))
    assert (found.bound, found.runner_up) == ("network", "latency")
    assert "Collectives take 30.0 of 35.0 µs" in sentences(found)


def test_collectives_behind_compute_are_not_the_bound():
    rows = [ins(Engine.COLLECTIVE, 0, 30_000, "ALL_REDUCE"), matmul(0, 34_000)]
    found = verdict(rows)
    assert found.bound == "compute"
    assert found.shares["network"] == 0
    assert "of it behind other work" in sentences(found)


def test_exposed_collectives_take_their_share_beside_compute():
    rows = [matmul(0, 6_000), ins(Engine.COLLECTIVE, 6_000, 3_000, "ALL_REDUCE"), matmul(9_000, 1_000)]
    found = verdict(rows)
    assert found.bound == "compute"
    assert found.scores["latency"] == 0
    assert found.shares == pytest.approx(
        {"compute": 0.7, "network": 0.3, "memory_bandwidth": 0, "memory_capacity": 0, "latency": 0}
    )


def test_what_collectives_alternate_with_is_not_latency():
    rows = [matmul(0, 4_000), ins(Engine.COLLECTIVE, 4_000, 5_000, "ALL_REDUCE")]
    found = verdict(rows, window=(0, 10_000))
    assert (found.bound, found.runner_up) == ("network", "compute")
    assert found.scores["latency"] == pytest.approx(0.1)
    assert (found.shares["network"], found.shares["compute"]) == pytest.approx((0.5, 0.4))


def test_without_dma_rows_bandwidth_is_not_judged():
    found = verdict([matmul(213 * k) for k in range(10)])
    assert found.bound == "compute"
    told = next(evidence for evidence in found.evidence if evidence.bound == "memory_bandwidth")
    assert (told.reached, told.share) == (None, None)
    assert "no DMA" in told.sentence


def test_a_single_instruction_gets_a_verdict():
    assert verdict([matmul(0)]).bound == "compute"
    assert verdict([vector(0, 160, 1)]).bound == "latency"


def test_an_unknown_device_is_judged_by_activity():
    rows = [matmul(0, 1000)]
    found = verdict(rows, [move(0, 9000, 64 * KIB)], window=(0, 10_000), device="unknown")
    assert found.bound == "memory_bandwidth"
    assert "the device is unknown" in sentences(found)
    assert all("inf" not in evidence.sentence for evidence in found.evidence)


@pytest.mark.parametrize("rows", [[], [ins(Engine.SYNC, 5, 0, "NOP")], [ins(Engine.TENSOR, 0, 50, control=True)]])
def test_a_trace_without_work_has_no_verdict(rows):
    found = verdict(rows)
    assert (found.bound, found.share, found.margin, found.runner_up) == (None, None, None, None)
    assert set(found.scores.values()) | set(found.shares.values()) == {0}
    assert "there is no verdict" in sentences(found)
    assert len(classify(make(rows))) == 1
    assert json.loads(json.dumps(found.to_json()))["bound"] is None


def test_the_timeline_of_another_tool_has_no_verdict():
    found = verdict([ins(Engine.OTHER, 0, 500, "kernel"), ins(Engine.OTHER, 500, 500, "kernel")], device="unknown")
    assert found.bound is None and set(found.scores.values()) == {0}
    assert "No engine of a NeuronCore works here, so there is no verdict" in sentences(found)


def test_a_selection_in_which_nothing_works_has_no_verdict():
    trace = make([matmul(0), matmul(5000)])
    idle, busy = classify(trace, [selection(trace, 1_000_000, 2_000_000), selection(trace, 0, 2_000_000)])
    assert idle.bound is None
    assert busy.bound == "latency"


def loaded(name: str, times: int, size: int = 256 * KIB, **more) -> list[dict]:
    return [move(k * 2000, 800, size, variable=name, **more) for k in range(times)]


def input_of(name: str, size: int, kind: str = "IN") -> dict:
    return {"name": name, "type": kind, "memory": Memory.HBM, "bytes": size}


def test_intensity_is_told_beside_what_it_would_be_without_reloads_and_intermediates():
    back = {"source_memory": Memory.SBUF, "dest_memory": Memory.HBM}
    transfers = [*loaded("a", 4), *loaded("kept", 1), *loaded("kept", 1, **back), *loaded("out", 1, **back)]
    size = 256 * KIB
    tensors = [input_of("a", size), input_of("kept", size, "INTERNAL"), input_of("out", size, "OUT")]
    found = verdict([matmul(k * 2000) for k in range(5)], transfers, tensors=tensors)
    told = next(evidence for evidence in found.evidence if evidence.ceiling == "intensity")
    flops = 5 * 2 * 128 * 128 * 512
    assert told.reached == pytest.approx(flops / (7 * size))
    assert told.limit == pytest.approx(flops / (2 * size))
    assert told.share == pytest.approx(2 / 7)
    assert "1.75 MiB move where 512 KiB would do without reloads and intermediate" in sentences(found)


def test_a_kernel_that_moves_nothing_twice_hears_so():
    found = verdict([matmul(0)], loaded("a", 1), tensors=[input_of("a", 256 * KIB)])
    assert "Nothing moves twice: 64" in sentences(found)


def test_tensors_beyond_hbm_make_the_work_infeasible():
    found = verdict([matmul(213 * k) for k in range(10)], tensors=[input_of("w", 13 << 30, "WEIGHT")])
    assert (found.bound, found.runner_up, found.share) == ("memory_capacity", "compute", 1.0)
    assert "13 GiB of the 12 GiB of HBM that one core can use: infeasible without sharding" in sentences(found)
    assert verdict([matmul(0)], tensors=[input_of("w", 11 << 30)]).scores["memory_capacity"] == 0


def test_waits_for_the_only_buffer_are_told_though_there_is_room():
    found = waiting_for_psum(1)
    assert found.scores["memory_capacity"] == 0
    assert "waiting for a buffer that is still in use, though there is room for another" in sentences(found)


def test_collectives_that_a_transfer_carries_are_network_and_told_against_the_links():
    size = 1024 * KIB
    rows = [matmul(0, 7_000), ins(Engine.SYNC, 2_000, 100, "COLLECTIVE"), matmul(29_000, 1_000)]
    sent = [move(8_000, 20_000, size, 1, source_memory=Memory.HBM, dest_memory=Memory.HBM)]
    found = verdict(rows, sent, packets_of(8_000, 20_000, size, transfer=0), window=(0, 30_000))
    assert (found.bound, found.runner_up) == ("network", "compute")
    assert found.scores["memory_bandwidth"] < 0.2, "its bytes pass through HBM too"
    assert "They send 1 MiB at 40.3 GB/s while they run, 25 % of the 160 GB/s" in sentences(found)


def test_estimates_are_marked():
    assert "TensorE works ~2.13 of 2.13 µs" in sentences(
        verdict([matmul(213 * k) for k in range(10)], is_simulation=True)
    )


def test_a_cold_clock_and_transposes_are_told():
    rows = [matmul(k * 426, 426) for k in range(10)]
    rows += [ins(Engine.TENSOR, 4260 + k * 60, 60, "MATMUL", kind="TRANSPOSE", dtype="bf16") for k in range(10)]
    clock = [{"counter": "tensor_clock", "time_ps": 2_130_000, "value": 1.0}]
    text = sentences(verdict(rows, counters=clock))
    assert "600 ns of it on transposes" in text
    assert "2.13 µs at a lowered clock, 1.06 µs longer for it" in text


def test_work_that_a_lowered_clock_stretches_is_latency_for_that_part():
    rows = [matmul(k * 426, 426) for k in range(10)]
    clock = [{"counter": "tensor_clock", "time_ps": 4_260_000, "value": 1.0}]
    warm, cold = verdict(rows), verdict(rows, counters=clock)
    assert (warm.bound, warm.scores["compute"]) == ("compute", 1.0)
    assert cold.scores["compute"] == pytest.approx(0.5)
    assert cold.scores["latency"] == pytest.approx(0.5)


def test_the_fixed_cost_of_instructions_that_last_longer_is_part_of_their_work():
    long, short = ([vector(k * took, took, n) for k in range(20)] for n, took in ((512, 640), (32, 100)))
    assert verdict(long).scores["compute"] == 1.0
    assert verdict(short).scores["compute"] == pytest.approx(0.33, abs=0.01)


@pytest.mark.parametrize(("triggers", "bound"), [(0.97, "compute"), (1.0, "latency")])
def test_level_scores_are_decided_for_the_roof_and_have_no_margin(triggers, bound):
    rows = [*(trigger(k * 600, 600 * triggers) for k in range(100)), *(matmul(k * 600, 570) for k in range(100))]
    found = verdict(rows, window=(0, 60_000))
    assert found.scores["latency"] > found.scores["compute"]
    assert found.bound == bound
    assert (found.margin == 0) is (bound == "compute")
    assert found.evidence[0].bound == bound


def test_the_busiest_of_two_cores_decides():
    rows = [matmul(k * 213, core=0) for k in range(100)] + [matmul(k * 213, core=1) for k in range(10)]
    assert verdict(rows).share == pytest.approx(1, abs=0.01)


def test_regions_and_lines_are_judged_by_their_own_time():
    rows = [matmul(213 * k, region=1, source="k.py:7") for k in range(50)]
    rows += [vector(11_000 + 160 * k, 160, 2, region=2, source="k.py:9") for k in range(50)]
    regions = [region("kernel", 0, 19_000, RegionKind.KERNEL), region("matmuls", 0, 10_650, parent=0),
               region("tail", 11_000, 19_000, parent=0)]  # fmt: skip
    found = classify(make(rows, regions=regions))
    assert [(each.region, each.kind, each.bound) for each in found] == [
        ("kernel", "whole", "compute"),
        ("kernel", "kernel", "compute"),
        ("matmuls", "loop", "compute"),
        ("tail", "loop", "latency"),
        ("k.py:7", "line", "compute"),
        ("k.py:9", "line", "latency"),
    ]


spans = st.tuples(st.integers(0, 5000), st.integers(0, 2000))


@given(
    st.lists(st.tuples(st.sampled_from([Engine.TENSOR, Engine.VECTOR, Engine.SYNC, Engine.COLLECTIVE]), spans)),
    st.lists(st.tuples(spans, st.integers(0, 10**6), st.integers(0, 300))),
    st.sampled_from(["trn1", "trn2", "trn3", "inf1", "unknown"]),
)
def test_every_verdict_is_sound(rows, transfers, device):
    instructions = [ins(e, a, b, "DMA_X" if e == Engine.SYNC else "OP", partitions=8, elements=b) for e, (a, b) in rows]
    moved = [move(a, b, size, descriptors=d) for (a, b), size, d in transfers]
    found = classify(make(instructions, moved, device=device))[0]
    if found.bound is None:
        assert not (rows or transfers) or found.time_ps == 0
        assert found.runner_up is found.share is found.margin is None
    else:
        assert found.scores[found.bound] >= max(found.scores.values()) - TIE
        assert found.margin >= 0
    assert found.cause is None or found.cause in LOSSES
    assert all(0 <= score <= 1 for score in found.scores.values())
    assert sum(found.shares.values()) == pytest.approx(1 if found.bound else 0)
    numbers = [n for e in found.evidence for n in (e.reached, e.limit, e.share) if n is not None]
    assert all(math.isfinite(n) for n in numbers)
    json.dumps(dataclasses.asdict(found), allow_nan=False)


@pytest.mark.parametrize(
    ("file", "bound", "engine"),
    [
        ("trn2_attention/fused_fp32_s512.json", "latency", None),
        ("trn2_attention/baseline_fp32_s512.json", "latency", None),
        ("trn2_attention/baseline_bf16_s512.json", "latency", None),
        ("trn2_attention/baseline_fp32_s1024.json", "memory_bandwidth", None),
        ("inf2_matmul/profile_128x128x384.json", "latency", None),
        ("inf2_matmul/profile_128x128x512.json", "latency", None),
        ("inf2_matmul/profile_128x128x1024.json", "latency", None),
        ("inf2_matmul/profile_bucketed_128x128x2048.json", "latency", None),
    ],
)
def test_real_profiles_get_the_verdict_that_their_numbers_support(profiles, file, bound, engine):
    import trnprof

    found = classify(trnprof.open(profiles / file))[0]
    assert (found.bound, found.engine) == (bound, engine)


def test_banks_that_a_kernel_fills_in_turns_are_never_fuller_than_full():
    """Keys that end within a block: one bank of the next scores is written before the other is free."""
    trace = sim.ops.launch("attention", *[sim.TensorSpec((1, 2, 1500, 64), "bf16")] * 3, values=False).trace
    (peak,) = [one.reached for one in classify(trace)[0].evidence if one.ceiling == "PSUM"]
    assert peak == 1.0
