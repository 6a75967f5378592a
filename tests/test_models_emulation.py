"""Models as traces: each distinct operator once, the others laid out, and what is told of the whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import trnprof
from sim.errors import CapacityError, InputError, UnsupportedError
from sim.models import Sharding, Workload, read
from sim.models.cache import Cache
from sim.models.coarse import busy_until
from sim.models.emulation import Emulation, emulate, instances
from sim.models.exchanges import network
from sim.models.graph import COLLECTIVE, Graph, Layer, Operand, Operation, Section
from sim.trace import Engine, RegionKind, Trace, validate
from trnprof.bounds import classify
from trnprof.cli import main
from trnprof.models import search
from trnprof.summary import summarize

TINY = {
    "name": "tiny", "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Operators are kept in a folder of the test's own."""
    monkeypatch.setattr("trnprof.models.running.cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "operators"


def products(repeat: int = 3, passes: int = 1) -> Graph:
    """Two products a layer."""

    def product(name: str, rows: int, inner: int, columns: int) -> Operation:
        return Operation(name, "matmul", (Operand((rows, inner)), Operand((inner, columns), role="weight")))

    layer = Layer("layers", (product("up", 128, 256, 512), product("down", 128, 512, 256)), repeat)
    return Graph("toy", "prefill", (Section("model", (layer,), passes),))


def names(trace: Trace, kind: RegionKind) -> list[str]:
    rows = np.flatnonzero(trace.regions.kind == kind)
    return [trace.text(trace.regions, "name", int(row)) for row in rows]


def test_each_distinct_operator_is_run_once_and_every_call_is_placed() -> None:
    made = emulate(products())
    assert [(one.name, one.calls) for one in made.instances] == [("layers/up", 3), ("layers/down", 3)]
    assert made.duration_ps == sum(one.total_ps for one in made.instances)
    assert names(made.trace, RegionKind.LAYER) == ["layers 0", "layers 1", "layers 2"]
    assert names(made.trace, RegionKind.OPERATOR) == ["up", "down"] * 3
    assert names(made.trace, RegionKind.KERNEL) == ["matmul"] * 6
    validate(made.trace)


def test_regions_lie_within_their_parents_and_follow_each_other() -> None:
    table = emulate(products()).trace.regions
    inner = np.flatnonzero(table.parent >= 0)
    assert (table.start_ps[inner] >= table.start_ps[table.parent[inner]]).all()
    assert (table.end_ps[inner] <= table.end_ps[table.parent[inner]]).all()
    calls = table.kind == RegionKind.OPERATOR
    assert (table.start_ps[calls][1:] == table.end_ps[calls][:-1]).all()


def test_the_first_call_has_the_instructions_that_the_operator_has_alone() -> None:
    made = emulate(products())
    alone = made.instances[0].trace
    first = int(np.flatnonzero(made.trace.regions.kind == RegionKind.OPERATOR)[0])
    end = made.trace.regions.end_ps[first]
    mine, kept = made.trace.instructions, alone.instructions.start_ps >= alone.meta.window[0]
    rows = mine.start_ps < end
    assert (mine.start_ps[rows] == alone.instructions.start_ps[kept] - alone.meta.window[0]).all()
    assert made.trace.strings[int(mine.source[0])].endswith(
        ".py:" + alone.strings[int(alone.instructions.source[kept][0])].rpartition(":")[2]
    )


@pytest.mark.parametrize("passes", [1, 6], ids=["one pass", "many passes"])
def test_calls_in_slices_carry_the_sums_and_the_verdict_of_calls_in_full(passes: int) -> None:
    brief, full = (emulate(products(4, passes), full=whole).trace for whole in (False, True))
    assert len(brief.instructions) < len(full.instructions)
    validate(full)
    for name in ("flops", "adjusted_flops", "hbm_read_bytes", "hbm_write_bytes", "count"):
        assert brief.instructions.column(name).sum() == full.instructions.column(name).sum(), name
    for name in ("bytes", "read_bytes", "descriptors"):
        assert brief.transfers.column(name).sum() == full.transfers.column(name).sum(), name
    told, whole = (classify(trace)[0] for trace in (brief, full))
    assert told.bound == whole.bound
    assert told.time_ps == whole.time_ps
    for bound, score in whole.scores.items():
        assert told.scores[bound] == pytest.approx(score, abs=0.03), bound
    for metric in ("tensor_engine_active_time", "hardware_flops", "dma_active_time", "matmul_instruction_count"):
        assert summarize(brief)[metric] == pytest.approx(summarize(full)[metric], rel=0.02), metric


def test_many_passes_are_laid_out_as_a_whole_and_last_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.models.emulation.DETAILED", 10)
    brief, full = (emulate(products(2, 6), full=whole) for whole in (False, True))
    validate(brief.trace)
    assert brief.duration_ps == full.duration_ps
    assert len(names(brief.trace, RegionKind.OPERATOR)) == 4
    assert len(names(brief.trace, RegionKind.LAYER)) == 6 + 2
    told, whole = (classify(made.trace)[0] for made in (brief, full))
    assert told.bound == whole.bound
    assert told.scores["compute"] == pytest.approx(whole.scores["compute"], abs=0.05)


def sharded() -> Emulation:
    layer = products().sections[0].layers[0]
    scalars = {"kind": "all_reduce", "size_bytes": 1 << 22, "ranks": 8, "group": "tp"}
    layer = Layer("layers", (*layer.operations, Operation("sum", COLLECTIVE, (), scalars)), 4)
    graph = Graph("toy", "prefill", (Section("model", (layer,)),))
    return emulate(graph, lnc=1, exchanges=network(Sharding(tp=8), "trn2", 1))


def test_collectives_take_the_time_of_the_fabric_on_an_engine_of_their_own() -> None:
    made = sharded()
    found = next(one for one in made.instances if one.operation.operator == COLLECTIVE)
    rows = made.trace.instructions.engine == Engine.COLLECTIVE
    length = made.trace.instructions.end_ps[rows] - made.trace.instructions.start_ps[rows]
    assert (length == found.duration_ps).all()
    assert rows.sum() == 4
    verdict = classify(made.trace)[0]
    assert verdict.scores["network"] == pytest.approx(found.total_ps / made.duration_ps, abs=0.01)
    assert verdict.bound == "network"


def test_groups_lie_in_each_other_with_tensor_parallel_cores_side_by_side() -> None:
    made = network(Sharding(tp=4, cp=2, dp=2, pp=4), "trn2", 2)
    strides = {name: (made.group(name, 2).stride, made.group(name, 2).alone) for name in ("tp", "cp", "dp", "pp")}
    assert strides == {"tp": (1, False), "cp": (4, False), "dp": (8, False), "pp": (16, False)}
    assert made.fabric.ranks == 64


def test_a_slow_link_lengthens_the_exchanges_of_its_group() -> None:
    scalars = {"kind": "all_reduce", "size_bytes": 1 << 26, "ranks": 64, "group": "tp"}
    fair, slow = (network(Sharding(tp=64), "trn2", 2, rate)(scalars)[0] for rate in (1.0, 0.25))
    assert slow > 2 * fair
    with pytest.raises(InputError, match="slow_link=0: a share of the rate"):
        network(Sharding(tp=2), "trn2", 2, 0)


def test_the_fixed_cost_of_a_row_is_that_of_the_instructions_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.models.emulation.SLICES", 1)
    from trnprof.demand import demand
    from trnprof.machine import machine
    from trnprof.regions import whole
    from trnprof.work import Index

    norm = Operation("norm", "layernorm", (Operand((4096, 32)), Operand((32,)), Operand((32,))))
    graph = Graph("toy", "prefill", (Section("model", (Layer("layers", (norm,), 12),)),))
    ceilings = []
    for full in (False, True):
        trace = emulate(graph, full=full).trace
        ceilings.append(demand(Index(trace), machine(trace), whole(trace)).ceiling_ps[Engine.VECTOR])
    assert ceilings[0] == pytest.approx(ceilings[1], rel=0.1)


def test_what_is_idle_between_sections_is_not_charged_to_an_engine() -> None:
    from sim.models.emulation import laid_out

    graph = products()
    found = instances(graph, "trn2", 1)
    made = laid_out(graph, found, "trn2", 1, gaps={"model": 10**9})
    assert made.duration_ps == sum(one.total_ps for one in found) + 10**9
    assert classify(made.trace)[0].bound == "latency"


def test_an_operator_that_nobody_wrote_is_named() -> None:
    layer = Layer("layers", (Operation("odd", "quaternion_product", (Operand((8, 8)),)),))
    with pytest.raises(UnsupportedError, match="toy: there is no operator quaternion_product"):
        emulate(Graph("toy", "prefill", (Section("model", (layer,)),)))


def test_a_kept_operator_is_read_back_as_it_was(cache: Path) -> None:
    first, second = (instances(products(), "trn2", 1, folder=cache) for _ in range(2))
    assert len(list(cache.glob("*.npz"))) == 2
    for one, other in zip(first, second, strict=True):
        assert one.trace.meta == other.trace.meta
        for name, table in one.trace.tables():
            assert table.present() == getattr(other.trace, name).present()
            for column in table.present():
                assert (table.column(column) == getattr(other.trace, name).column(column)).all(), (name, column)


def test_a_damaged_entry_is_made_again(cache: Path) -> None:
    before = instances(products(), "trn2", 1, folder=cache)
    for path in cache.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    after = instances(products(), "trn2", 1, folder=cache)
    assert [one.duration_ps for one in before] == [one.duration_ps for one in after]


def test_what_was_used_longest_ago_goes_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instances(products(), "trn2", 1, folder=cache)
    size = max(path.stat().st_size for path in cache.glob("*.npz"))
    monkeypatch.setattr("sim.models.cache.MOST", size)
    instances(products(), "trn1", 1, folder=cache)
    assert sum(path.stat().st_size for path in cache.glob("*.npz")) <= size


def test_another_device_or_figure_is_another_entry(cache: Path) -> None:
    from sim import spec

    made: list[int] = []
    device = spec.device("trn2")
    for target in (device, device, device.replace(hbm_bw="2x"), spec.device("trn1")):
        Cache(cache).trace(("toy",), target, 1, lambda: made.append(1) or emulate(products(1)).trace)
    assert len(made) == 3


def test_busy_time_up_to_a_moment_counts_overlaps_once() -> None:
    start, end = np.array([0, 5, 20]), np.array([10, 12, 30])
    assert busy_until(start, end, np.array([0, 6, 15, 25, 40])).tolist() == [0, 6, 12, 17, 22]


def test_prefill_and_decode_of_a_small_llama_are_measured() -> None:
    first = trnprof.run_model(TINY, phase="prefill", seq=256)
    assert first.ttft_ps == first.latency_ps == sum(use.time_ps for use in first.operators)
    assert first.tokens_per_s == pytest.approx(256 / first.latency_ps * 1e12)
    assert 0 < first.mfu < 1
    assert first.held["weights"] == read(TINY).graph(Workload("prefill"), Sharding()).weight_bytes
    assert first.trace.meta.kernel == "tiny prefill"
    step = trnprof.run_model(TINY, phase="decode", batch=4, context=300)
    assert step.ttft_ps is None
    assert step.tpot_ps == step.latency_ps
    assert step.tokens_per_s == pytest.approx(4 / step.latency_ps * 1e12)
    assert step.held["KV cache"] == 4 * 3 * 2 * 3 * 128 * 2 * 64 * 2


def test_guesses_ahead_give_as_many_tokens_as_are_accepted() -> None:
    one, all_, some = (
        trnprof.run_model(TINY, phase="decode", context=200, **asked)
        for asked in ({}, {"draft": 3}, {"draft": 3, "acceptance": 0.5})
    )
    assert all_.latency_ps == some.latency_ps > one.latency_ps
    assert all_.tpot_ps == pytest.approx(all_.latency_ps / 4, abs=1)
    assert some.tokens_per_s == pytest.approx(1.875 / some.latency_ps * 1e12)
    with pytest.raises(InputError, match="acceptance=2: a share of 0 to 1"):
        trnprof.run_model(TINY, phase="decode", draft=3, acceptance=2)


FAMILIES = {
    "experts": (TINY | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}, "decode"),
    "windows": (TINY | {"model_type": "gpt_oss", "sliding_window": 128, "head_dim": 64, "num_local_experts": 8,
                        "num_experts_per_tok": 4, "layer_types": ["sliding_attention", *["full_attention"] * 2]},
                "prefill"),
    "qwen3": (TINY | {"model_type": "qwen3"}, "prefill"),
    "gpt2": ({"model_type": "gpt2", "n_embd": 128, "n_layer": 2, "n_head": 2, "vocab_size": 500}, "prefill"),
    "bert": ({"model_type": "bert", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 256, "vocab_size": 500}, "encode"),
    "vit": ({"model_type": "vit", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 256, "image_size": 64, "num_labels": 10}, "encode"),
    "whisper": ({"model_type": "whisper", "d_model": 128, "encoder_layers": 1, "encoder_attention_heads": 2,
                 "encoder_ffn_dim": 256, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 256,
                 "vocab_size": 500, "max_source_positions": 100}, "transcribe"),
    "dit": ({"_class_name": "DiTTransformer2DModel", "num_layers": 2, "num_attention_heads": 2,
             "attention_head_dim": 64, "patch_size": 2, "sample_size": 16, "in_channels": 4}, "denoise"),
    "unet": ({"_class_name": "UNet2DConditionModel", "block_out_channels": [64, 128], "layers_per_block": 1,
              "cross_attention_dim": 64, "attention_head_dim": 2, "sample_size": 16,
              "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"]}, "denoise"),
    "autoencoder": ({"_class_name": "AutoencoderKL", "block_out_channels": [64, 640], "layers_per_block": 1,
                     "sample_size": 32}, "decode"),
    "mamba": ({"model_type": "mamba", "hidden_size": 128, "num_hidden_layers": 2, "vocab_size": 500}, "decode"),
}  # fmt: skip
"""A small model of each family, and a phase of it."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_runs(family: str) -> None:
    description, phase = FAMILIES[family]
    run = trnprof.run_model(description, phase=phase, seq=8 if phase == "transcribe" else 128, context=128)
    assert run.latency_ps == sum(use.time_ps for use in run.operators)
    assert run.verdict.bound is not None
    assert run.flops > 0
    assert run.tokens_per_s is None or phase not in ("encode", "denoise")
    assert (run.samples_per_s is None) == (run.tpot_ps is not None)
    validate(run.trace)


def test_two_physical_cores_make_one_logical_core() -> None:
    one, two = (trnprof.run_model(TINY, phase="prefill", seq=2048, lnc=lnc) for lnc in (1, 2))
    assert two.room == 2 * one.room
    assert two.latency_ps < one.latency_ps
    assert set(two.trace.instructions.core.tolist()) == {0, 1}


def test_a_model_that_does_not_fit_says_by_how_much_and_what_would() -> None:
    large = Path(__file__).parent.parent / "traces" / "models" / "llama-3-70b.json"
    with pytest.raises(
        CapacityError, match=r"Llama-3-70B needs 132\sGiB.*more than its 12\sGiB.*it fits with tp=16 pp=1"
    ):
        trnprof.run_model(large, phase="decode")
    assert main(["model", str(large), "--phase", "decode"]) == 4


def test_a_model_that_must_not_fit_is_bound_by_capacity() -> None:
    run = trnprof.run_model(TINY | {"vocab_size": 1 << 24}, phase="decode", batch=1, must_fit=False)
    assert sum(run.held.values()) > run.room
    assert run.verdict.bound == "memory_capacity"


def test_the_fastest_sharding_that_fits_comes_first() -> None:
    found = search(TINY, 4, phase="prefill", seq=256)
    assert {one.sharding.ranks for one in found} == {4}
    assert [one.time_ps for one in found] == sorted(one.time_ps for one in found)
    assert found[0].fits


def test_a_search_for_what_nothing_divides_says_so() -> None:
    with pytest.raises(InputError, match="no way to spread the model over 7 cores divides it"):
        search(TINY, 7, phase="prefill", seq=256)


def test_the_command_prints_figures_and_keeps_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY))
    assert main(["model", str(path), "--phase", "decode", "--tp", "2", "-o", str(tmp_path / "trace")]) == 0
    text = capsys.readouterr().out
    for word in ("time per output token", "tokens/s", "HBM of a core", "layers/attention/qkv", "network", "tp 2"):
        assert word in text
    kept = trnprof.open(tmp_path / "trace")
    assert names(kept, RegionKind.MODEL) == ["tiny decode"]
    assert main(["model", str(path), "--phase", "decode", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tpot_ps"] > 0
    assert told["verdict"]["bound"] in ("compute", "memory_bandwidth", "latency")
    assert {use["operator"] for use in told["operators"]} >= {"matmul", "decode_attention", "gated_mlp"}


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        (["--tp", "3"], 1, "tp=3 does not divide attention heads 4"),
        (["--device", "trn1", "--lnc", "2"], 1, "lnc=2: a logical core of trn1 is one physical core"),
        (["--slow-chip", "0.5", "--phase", "train"], 1, "slow_chip=0.5: a factor of at least 1"),
        (["--slow-chip", "2"], 1, "slow_chip=2.0: a factor of at least 1, of a training step"),
        (["--slow-chip", "nan", "--phase", "train"], 1, "slow_chip=nan"),
        (["--tp", "2", "--fabric", "trn1"], 1, "fabric=trn1: it joins other chips than trn2"),
        (["--tp", "2", "--fabric", "moebius"], 1, "moebius"),
        (["--microbatch", "3", "--phase", "train", "--batch", "8"], 1, "microbatch=3 does not divide"),
        (["--device", "inf1"], 3, "no timing model"),
        (["--phase", "denoise"], 1, "tiny has no phase denoise (it has prefill, decode, train)"),
        (["--phase", "dream"], 2, "invalid choice"),
        (["--tp", "none"], 2, "tp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_asked_ends_with_its_exit_code(
    asked: list[str], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY))
    assert main(["model", str(path), *asked]) == code
    assert told in capsys.readouterr().err


def test_what_slices_do_not_count_is_not_drawn_as_nothing() -> None:
    sliced, full = (trnprof.run_model(TINY, phase="prefill", seq=256, full=full).trace for full in (False, True))
    names = [{trace.strings[code] for code in trace.counters.counter.tolist()} for trace in (sliced, full)]
    assert names[0] <= {"tensor_clock"}
    assert {"dma_bytes_per_s", "sbuf"} <= names[1]
