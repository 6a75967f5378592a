"""Training steps: pipeline schedules, the backward pass, what is exchanged and what lies in memory."""

from __future__ import annotations

import pytest

import trnprof
from sim.errors import InputError, UnsupportedError
from sim.models import Sharding, Workload, pipeline, read, training
from sim.models.backward import backward, gradients, kept_bytes
from sim.models.exchanges import network
from sim.models.graph import Layer, Operand, Operation
from sim.models.pipeline import BACKWARD, FORWARD, Task

TINY = {
    "name": "tiny", "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
SHARDINGS = [(1, 1, 4), (2, 1, 4), (4, 1, 16), (4, 1, 2), (4, 2, 8), (4, 3, 16), (8, 2, 32)]
"""(stages, pieces, microbatches)"""


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators are kept in a folder of this file's own."""
    folder = tmp_path_factory.getbasetemp() / "training"
    monkeypatch.setattr("trnprof.models.running.cache_dir", lambda: folder)


@pytest.mark.parametrize(("stages", "pieces", "count"), SHARDINGS)
def test_every_stage_does_every_pass_once_and_forward_before_backward(stages: int, pieces: int, count: int) -> None:
    for stage in range(stages):
        tasks = pipeline.order(stage, stages, pieces, count)
        assert len(set(tasks)) == len(tasks) == 2 * pieces * count
        place = {task: at for at, task in enumerate(tasks)}
        assert all(
            place[Task(FORWARD, task.microbatch, task.piece)] < at
            for task, at in place.items()
            if task.direction == BACKWARD
        )


@pytest.mark.parametrize(("stages", "pieces", "count"), [case for case in SHARDINGS if case[2] >= case[0]])
def test_the_bubble_is_that_of_the_textbook(stages: int, pieces: int, count: int) -> None:
    """(stages - 1) passes of a piece forward and backward: the share (p - 1) / (v m) of Megatron-LM."""
    times = [[60] * pieces] * stages, [[120] * pieces] * stages
    went = pipeline.run(*times, count)
    assert went.end_ps == count * pieces * 180 + (stages - 1) * 180
    assert went.bubble_ps == (stages - 1) * 180


@pytest.mark.parametrize(("stages", "count"), [(4, 16), (4, 2), (1, 3)])
def test_a_stage_holds_as_many_microbatches_as_stages_follow(stages: int, count: int) -> None:
    held = [pipeline.most_held(pipeline.order(stage, stages, 1, count)) for stage in range(stages)]
    assert held == [min(count, stages - stage) for stage in range(stages)]


def test_a_slow_stage_sets_the_pace() -> None:
    went = pipeline.run([[10], [20], [10]], [[20], [40], [20]], 8)
    assert went.slowest == 1
    # It begins after the first stage, waits once for the first gradient, and the first stage ends after it.
    assert went.end_ps == 10 + 8 * 60 + 10 + 20
    assert pipeline.run([[10]] * 3, [[20]] * 3, 8, send_ps=5).end_ps > pipeline.run([[10]] * 3, [[20]] * 3, 8).end_ps


def test_interleaving_needs_groups_of_microbatches() -> None:
    with pytest.raises(InputError, match="interleave=2: 6 microbatches are no multiple of pp=4"):
        pipeline.run([[1, 1]] * 4, [[1, 1]] * 4, 6)


def forward(**asked: object) -> tuple[Layer, Sharding]:
    names = {name: asked.pop(name) for name in ("tp", "sp") if name in asked}
    shards = Sharding(**names)
    graph = read(TINY).graph(Workload("train", seq=64, **asked), shards)
    return next(layer for layer in graph.sections[0].layers if layer.name == "layers"), shards


def test_a_product_has_the_gradients_of_its_input_weight_and_bias() -> None:
    product = Operation(
        "p", "matmul", (Operand((8, 16)), Operand((16, 32), role="weight"), Operand((32,), role="weight"))
    )
    shapes = {one.name: (one.operator, tuple(each.shape for each in one.inputs)) for one in gradients(product)}
    assert shapes == {
        "p/input gradient": ("matmul", ((8, 32), (16, 32))),
        "p/weight gradient": ("matmul", ((8, 16), (8, 32))),
        "p/bias gradient": ("reduce", ((8, 32),)),
    }


def test_the_backward_pass_mirrors_what_is_exchanged() -> None:
    layer, _ = forward(tp=2, sp=True)
    there = [one.scalars["kind"] for one in layer.operations if one.operator == "collective"]
    back = [one.scalars["kind"] for one in backward(layer, "none").operations if one.operator == "collective"]
    other = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
    assert back == [other[kind] for kind in reversed(there)]


def test_weights_count_once_in_forward_and_backward() -> None:
    layer, _ = forward()
    assert layer.weight_bytes > 0
    assert backward(layer, "full").weight_bytes == 0


def test_what_is_computed_again_is_not_kept() -> None:
    layer, shards = forward()
    kept = [kept_bytes(layer, recompute, shards) for recompute in ("none", "selective", "full")]
    assert kept[0] > kept[1] > kept[2] == 4 * 64 * 256 * 2
    done = [len(backward(layer, recompute).operations) for recompute in ("none", "selective", "full")]
    assert done[0] < done[1] < done[2]


def test_an_operator_without_a_gradient_is_named() -> None:
    with pytest.raises(UnsupportedError, match="odd: ssm_scan has no backward pass"):
        list(gradients(Operation("odd", "ssm_scan", (Operand((1, 8, 8)),))))


def step(duration: int = 1000, exchange: int = 0, **shards: object) -> training.Step:
    """A step in which every operation takes as long."""
    work, sharding = Workload("train", batch=16, seq=64), Sharding(**shards)
    graph = read(TINY).graph(work, sharding)
    slow = shards.pop("slow", 1.0)
    return training.step(graph, work, sharding, lambda one: duration, lambda scalars: exchange, slow)


def test_a_step_is_its_microbatches_bubble_exchanges_and_optimizer() -> None:
    one = step(pp=2, dp=2, exchange=10**6)
    layers = one.graph.sections[0].layers
    work = sum(layer.repeat * sum(each.times for each in layer.operations) for layer in layers) * 1000
    assert one.microbatches == 8
    assert one.gaps["microbatch"] == one.bubble_ps
    exposed = sum(each.exposed_ps for each in one.exchanges)
    assert one.step_ps == 8 * work + one.bubble_ps + exposed + 1000


def test_gradients_hide_behind_the_backward_pass_of_the_layers_before() -> None:
    short, long = (step(dp=2, exchange=exchange).exchanges[0] for exchange in (10, 10**9))
    assert short.exposed_ps == 10
    assert short.total_ps == 6 * 10
    assert long.exposed_ps > 5 * 10**9


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_exchanges_take_memory_bandwidth_from_the_work_that_hides_them(zero: int) -> None:
    work, sharding = Workload("train", batch=16, seq=64), Sharding(dp=2, zero=zero)
    graph = read(TINY).graph(work, sharding)
    whole = training.Shares(lambda one: 1.0, lambda scalars: 0.5)
    free, short = (
        training.step(graph, work, sharding, lambda one: 1000, lambda scalars: 500, shares=shares)
        for shares in (training.ALONE, whole)
    )
    assert all(one.slowed_ps == 0 for one in free.exchanges)
    assert all(0 < one.slowed_ps <= one.total_ps / 2 for one in short.exchanges)
    slowed = sum(one.added_ps for one in short.exchanges) - sum(one.added_ps for one in free.exchanges)
    assert short.step_ps - free.step_ps == slowed > 0


@pytest.mark.parametrize(("zero", "kinds"), [
    (0, ["gradients all_reduce"]),
    (1, ["gradients reduce_scatter", "weights all_gather"]),
    (3, ["gradients reduce_scatter", "weights all_gather", "weights again all_gather"]),
])  # fmt: skip
def test_zero_decides_what_is_exchanged(zero: int, kinds: list[str]) -> None:
    assert [one.name for one in step(dp=2, zero=zero, exchange=10).exchanges] == kinds


def test_zero_spreads_optimizer_gradients_and_weights_over_data_parallel_cores() -> None:
    held = [step(dp=4, zero=zero).held for zero in range(4)]
    whole = held[0]
    assert whole["optimizer"] == 3 * whole["gradients"] == 6 * whole["weights"]
    for zero, kind in ((1, "optimizer"), (2, "gradients"), (3, "weights")):
        assert held[zero - 1][kind] == whole[kind]
        assert held[zero][kind] == whole[kind] // 4


def test_experts_are_exchanged_and_spread_among_the_cores_that_have_them_alike() -> None:
    sparse = TINY | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    work, asked = Workload("train", batch=16, seq=64), []
    held = []
    for ep in (1, 4):
        sharding = Sharding(dp=8, ep=ep, zero=1)
        graph = read(sparse).graph(work, sharding)
        asked.clear()
        one = training.step(graph, work, sharding, lambda one: 1000, lambda scalars: asked.append(scalars) or 10)
        held.append(one.held)
        experts = {scalars["ranks"] for scalars in asked}
        assert experts == ({8} if ep == 1 else {8, 2})
    weights = training.parameters(read(sparse).graph(work, Sharding(dp=8, ep=4)), 2)[0]
    assert held[1]["optimizer"] == 12 * (-(-weights.common // 8) + weights.expert // 2)
    assert held[1]["weights"] < held[0]["weights"]


def test_gradients_of_the_last_layer_are_exchanged_first() -> None:
    work, sharding = Workload("train", batch=16, seq=64), Sharding(dp=2, pp=2, interleave=2)
    graph = read(TINY).graph(work, sharding)
    asked: list[int] = []
    training.step(graph, work, sharding, lambda one: 1000, lambda scalars: asked.append(scalars["size_bytes"]) or 10)
    # The last stage, which has the head, works longest.
    own = [layer.weight_bytes for section in graph.sections if section.stage == 1 for layer in section.layers]
    assert asked == [2 * size for size in reversed(own) if size]


def test_a_slow_chip_holds_up_the_whole_step() -> None:
    work, sharding = Workload("train", batch=16, seq=64), Sharding(pp=2)
    graph = read(TINY).graph(work, sharding)
    fair, slow = (training.step(graph, work, sharding, lambda one: 1000, None, factor) for factor in (1.0, 1.5))
    assert slow.step_ps > 1.3 * fair.step_ps


def test_a_training_step_of_a_small_llama_is_measured() -> None:
    run = trnprof.run_model(TINY, phase="train", batch=8, seq=128, tp=2, pp=2, dp=2, zero=1, sp=True)
    assert run.training.microbatches == 4
    assert run.latency_ps == run.trace.meta.window[1]
    assert run.tokens_per_s == pytest.approx(8 * 128 / run.latency_ps * 1e12)
    names = {use.name for use in run.operators}
    assert {"optimizer/adamw", "layers/attention/qkv", "layers backward/attention/scores/gradient"} <= names
    assert 0 < run.mfu <= run.training.hfu
    assert set(run.held) == {"weights", "gradients", "optimizer", "activations", "workspace"}
    again = trnprof.run_model(
        TINY, phase="train", batch=8, seq=128, tp=2, pp=2, dp=2, zero=1, sp=True, recompute="full"
    )
    assert again.latency_ps > run.latency_ps
    assert again.training.hfu > again.mfu
    assert again.held["activations"] < run.held["activations"]


@pytest.mark.parametrize("slow", [1.0, 1.4])
def test_the_step_of_the_trace_is_the_step_that_was_worked_out(slow: float, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[training.Step] = []
    made = training.step
    monkeypatch.setattr(training, "step", lambda *args: kept.append(made(*args)) or kept[-1])
    run = trnprof.run_model(TINY, phase="train", batch=8, seq=128, pp=2, dp=2, slow_chip=slow)
    assert run.latency_ps == kept[0].step_ps


ENCODER = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}


@pytest.mark.parametrize(
    "description",
    [ENCODER | {"model_type": "bert", "vocab_size": 500}, ENCODER | {"model_type": "vit", "image_size": 64}],
    ids=["words", "images"],
)
def test_an_encoder_is_trained_from_its_loss_back_to_what_it_is_given(description: dict) -> None:
    run = trnprof.run_model(description, phase="train", seq=128, batch=4, microbatch=2)
    assert run.training.microbatches == 2
    assert run.verdict.bound is not None
    called = {use.name: use.calls for use in run.operators}
    assert called["head/head/loss"] == called["head backward/head/loss/gradient"] == 2
    assert "embedding backward/embedding/patches/input gradient" not in called
    once = trnprof.run_model(description, phase="encode", seq=128, batch=4)
    # Guesses of all words are more than the head that encodes one text; pixels have no gradient: 2 for the patches.
    assert 2.7 < run.flops / once.flops < 4


@pytest.mark.parametrize(
    ("description", "lacks"),
    [
        ({"model_type": "mamba", "hidden_size": 128, "num_hidden_layers": 2, "vocab_size": 500},
         "no gradient of depthwise_conv1d, ssm_scan"),
        ({"model_type": "whisper", "d_model": 128, "encoder_layers": 1, "encoder_attention_heads": 2,
          "encoder_ffn_dim": 256, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 256,
          "vocab_size": 500}, r"no gradient of conv1d \("),
        ({"_class_name": "AutoencoderKL", "block_out_channels": [64], "layers_per_block": 1, "sample_size": 32},
         "no gradient of conv2d, group_norm"),
    ],
    ids=["mamba", "whisper", "autoencoder"],
)  # fmt: skip
def test_what_cannot_be_trained_says_what_lacks(description: dict, lacks: str) -> None:
    with pytest.raises(UnsupportedError, match=f"cannot be trained: there is {lacks}"):
        trnprof.run_model(description, phase="train")


def test_the_exposed_part_of_an_exchange_sends_at_the_rate_of_the_whole() -> None:
    joined = network(Sharding(tp=2, dp=4), "trn2", 1)
    whole = {"kind": "reduce_scatter", "size_bytes": 1 << 28, "ranks": 4, "group": "dp"}
    took, sent, _ = joined(whole)
    part, bytes_of_part, _ = joined(whole | {"exposed_ps": took // 10})
    assert part == took // 10
    assert bytes_of_part / part == pytest.approx(sent / took)
