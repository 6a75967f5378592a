"""Descriptions of models, their graphs, and how these are spread."""

from __future__ import annotations

import contextlib
import json
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InputError, TrnprofError, UnsupportedError
from sim.models import Sharding, Workload, read
from sim.models.config import LARGEST
from sim.models.feed_forward import FeedForward, routed
from sim.models.graph import Graph
from trnprof.models.setting import setting

SAMPLES = Path(__file__).parents[1] / "traces" / "models"

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "traces" / "models"
LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip

PUBLISHED = {
    "bert-base": 109.5e6,
    "dit-xl-2": 675e6,
    "gpt-oss-20b": 20.91e9,
    "gpt3-175b": 174.6e9,
    "llama-2-7b": 6.738e9,
    "llama-3-70b": 70.55e9,
    "llama-3-8b": 8.030e9,
    "llama-3.1-405b": 405.85e9,
    "llama-3.2-1b": 1.236e9,
    "mamba-2.8b": 2.768e9,
    "mistral-7b": 7.242e9,
    "mixtral-8x7b": 46.70e9,
    "qwen2-7b": 7.616e9,
    "qwen3-8b": 8.191e9,
    "sd-1.5-unet": 859.5e6,
    "vit-base": 86.57e6,
    "whisper-small": 241.7e6,
}
"""Parameters as their makers state them."""


def operations(graph: Graph) -> dict[str, tuple]:
    """Shapes of every operation's inputs by its name."""
    return {operation.name: tuple(one.shape for one in operation.inputs) for operation, _ in graph.operations()}


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_add_up_to_the_published_parameters(name: str) -> None:
    model = read(MODELS / f"{name}.json")
    graph = model.graph(Workload(model.phases[0], seq=64), Sharding())
    assert graph.weight_bytes / 2 == pytest.approx(PUBLISHED[name], rel=5e-3)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")) + sorted(MODELS.glob("*.toml")), ids=lambda p: p.name)
def test_every_description_shipped_has_a_graph_for_each_of_its_phases(path: Path) -> None:
    model = read(path)
    for phase in model.phases:
        graph = model.graph(Workload(phase, seq=64, context=64), Sharding())
        assert sum(count for _, count in graph.operations()) > 10


def test_heads_columns_and_vocabulary_are_spread_over_tensor_parallel_cores() -> None:
    whole, half = (operations(read(LLAMA).graph(Workload("prefill", seq=64), Sharding(tp=tp))) for tp in (1, 2))
    assert whole["attention/qkv"] == ((64, 256), (256, 512))
    assert half["attention/qkv"] == ((64, 256), (256, 256))
    assert half["attention/output"] == ((64, 128), (128, 256))
    assert half["mlp/gated_mlp"][1] == (256, 256)
    assert half["attention/all_reduce"] == ()


def test_cores_that_outnumber_key_value_heads_keep_copies() -> None:
    shapes = operations(read(LLAMA).graph(Workload("decode", context=100), Sharding(tp=4)))
    assert shapes["attention/scores"][:2] == ((1, 1, 64), (1, 1, 128, 64))


def test_sequence_parallelism_spreads_norms_over_tokens_and_gathers_before_products() -> None:
    shapes = operations(read(LLAMA).graph(Workload("prefill", seq=64), Sharding(tp=2, sp=True)))
    assert shapes["attention/norm"][0] == (32, 256)
    assert {"attention/all_gather", "attention/reduce_scatter"} <= shapes.keys()
    assert "attention/all_reduce" not in shapes


def test_context_parallelism_pairs_an_early_with_a_late_piece_of_a_causal_sequence() -> None:
    graph = read(LLAMA).graph(Workload("prefill", seq=64), Sharding(cp=2))
    shapes = operations(graph)
    assert shapes["attention/scores_early"][:2] == ((1, 4, 16, 64), (1, 2, 16, 64))
    assert shapes["attention/scores_late"][:2] == ((1, 4, 16, 64), (1, 2, 64, 64))


def test_pipeline_stages_hold_their_layers_and_send_to_the_next() -> None:
    graph = read(LLAMA).graph(Workload("prefill", seq=64), Sharding(pp=2))
    assert [section.stage for section in graph.sections] == [0, 1]
    layers = [sum(layer.repeat for layer in section.layers if layer.name == "layers") for section in graph.sections]
    assert layers == [2, 2]
    assert graph.weight_bytes < read(LLAMA).graph(Workload("prefill", seq=64), Sharding()).weight_bytes


def test_a_guess_ahead_decodes_several_tokens_over_the_cache() -> None:
    shapes = operations(read(LLAMA).graph(Workload("decode", context=100, draft=3), Sharding()))
    assert shapes["attention/scores"][:2] == ((1, 4, 4, 64), (1, 2, 104, 64))


def test_a_sliding_window_bounds_the_cache() -> None:
    model = read(LLAMA | {"model_type": "mistral", "sliding_window": 128})
    assert operations(model.graph(Workload("decode", context=1000), Sharding()))["attention/scores"][1][0] == 1
    assert model.cache_bytes(Workload("decode", context=1000), Sharding()) == 4 * 2 * 128 * 2 * 64 * 2


def test_layers_alternate_where_their_types_do() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    model = read(LLAMA | {"model_type": "gpt_oss", "sliding_window": 16, "layer_types": kinds})
    assert [block.attention.window for block in model.blocks] == [16, None, 16, None]


@pytest.mark.parametrize(("tokens", "active", "each"), [(1, 2, 1), (4096, 8, 1024)], ids=["one token", "a prompt"])
def test_tokens_spread_evenly_over_the_experts_that_they_reach(tokens: int, active: int, each: int) -> None:
    part = FeedForward(512, experts=8, experts_per_token=2)
    assert routed(part, tokens, Sharding()) == (active, each)


@pytest.mark.parametrize(
    ("batch", "operator", "times"),
    [(1, "expert_mlp", 1), (3, "gated_mlp", 5), (64, "expert_mlp", 1), (256, "gated_mlp", 8)],
    ids=["every choice", "experts that no token reaches", "every expert", "many tokens"],
)
def test_experts_share_a_kernel_where_it_reads_none_in_vain(batch: int, operator: str, times: int) -> None:
    sparse = read(LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2})
    graph = sparse.graph(Workload("decode", batch=batch), Sharding())
    layer = next(one for one in graph.sections[0].layers if one.name == "layers")
    named = {one.name: one for one in layer.operations}
    experts = named[f"mlp/experts/{operator}"]
    assert (experts.operator, experts.times) == (operator, times)
    assert ("mlp/weighted_sum" in named) == (operator == "gated_mlp")
    assert experts.expert_bytes == 8 * 3 * 2 * LLAMA["hidden_size"] * LLAMA["intermediate_size"]
    spread = sparse.graph(Workload("decode", batch=2), Sharding(tp=2, ep=2))
    assert "expert_mlp" not in {one.operator for one, _ in spread.operations()}


def test_experts_lie_in_memory_whether_or_not_a_token_reaches_them() -> None:
    sparse = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    one, many = (read(sparse).graph(Workload("decode", batch=batch), Sharding()) for batch in (1, 64))
    assert one.weight_bytes == many.weight_bytes
    spread = read(sparse).graph(Workload("decode", batch=8), Sharding(dp=4, ep=4))
    assert spread.weight_bytes < one.weight_bytes / 2
    assert "mlp/dispatch" in operations(spread)


def test_a_toml_takes_from_its_base_what_it_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "base.json").write_text(json.dumps(LLAMA))
    (tmp_path / "own.toml").write_text('include = "base.json"\nname = "short"\nnum_hidden_layers = 2\n')
    model = read(tmp_path / "own.toml")
    assert (model.name, len(model.blocks), model.hidden) == ("short", 2, 256)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_size": None}, "field `hidden_size`: is missing"),
        ({"hidden_size": "256"}, "field `hidden_size`: '256' is no whole number"),
        ({"hidden_size": True}, "field `hidden_size`: True is no whole number"),
        ({"num_hidden_layers": 0}, "field `num_hidden_layers`: 0 lies outside 1"),
        ({"num_hidden_layers": 10**30}, "field `num_hidden_layers`: a number of more than 20 digits lies outside"),
        ({"num_key_value_heads": 3}, "field `num_key_value_heads`: 3 does not divide 4 attention heads"),
        ({"hidden_act": "mish"}, "field `hidden_act`: 'mish' is none of"),
        ({"hidden_size": 250}, "field `hidden_size`: 250 is no multiple of 4 heads"),
        ({"layer_types": ["full_attention"]}, "field `layer_types`: has 1 entries for 4 layers"),
        ({"layer_types": [1, 2, 3, 4]}, "field `layer_types[0]`: 1 is no text"),
        ({"tie_word_embeddings": "yes"}, "field `tie_word_embeddings`: 'yes' is neither true nor false"),
        ({"num_local_experts": 8}, "field `num_experts_per_tok`: is missing"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_faulty_field_is_named_with_its_file(change: dict, told: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | change))
    with pytest.raises(InputError) as error:
        read(path)
    assert told in str(error.value)
    assert str(path) in str(error.value)


def test_an_unknown_family_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnsupportedError, match=r"`model_type`: 'rwkv' is not a known family.*llama"):
        read({"model_type": "rwkv"})
    with pytest.raises(InputError, match="`model_type`: is missing"):
        read({})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2]", "not a table of fields"),
        ("{", "no JSON"),
        ('{"hidden_size": NaN}', "NaN is no number"),
        ("[" * 100_000, "too deep"),
        ('{"include": 7}', "field `include`: 7 is no path"),
        ('{"include": "nowhere.json"}', "no such file"),
        ("\ud800", "UTF-8"),
    ],
    ids=["a list", "half", "not a number", "deep", "no path", "nowhere", "no text"],
)
def test_a_file_that_is_no_description_is_told_so(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=told):
        read(path)


def test_files_that_include_each_other_are_told_in_their_circle(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('include = "b.toml"')
    (tmp_path / "b.toml").write_text('include = "a.toml"')
    with pytest.raises(InputError, match=r"a circle: a\.toml includes b\.toml includes a\.toml"):
        read(tmp_path / "a.toml")
    (tmp_path / "self.json").write_text('{"include": "self.json"}')
    with pytest.raises(InputError, match=r"a circle: self\.json includes self\.json"):
        read(tmp_path / "self.json")


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match=rf"1073741824 bytes are no description.*{LARGEST}"):
        read(path)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"tp": 3}, r"tp=3 does not divide attention heads 4 \(tp may be 1, 2, 4\)"),
        ({"pp": 3}, r"pp=3 does not divide layers 4 \(pp may be 1, 2, 4\)"),
        ({"dp": 2}, "dp=2 does not divide the batch 1"),
        ({"cp": 3}, "cp=3 does not divide the tokens of a sequence 64"),
        ({"sp": True}, "sp: sequence parallelism spreads over the cores of tp, which is 1"),
        ({"ep": 3}, "ep=3 divides neither dp=1 nor tp=1"),
        ({"interleave": 2}, "interleave=2: there is no pipeline"),
        ({"zero": 4}, "zero: 4 is none of"),
        ({"tp": 0}, "tp=0: a whole number"),
        ({"tp": 2.0}, r"tp=2\.0: a whole number"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_parallelism_that_does_not_divide_is_named_with_what_would(asked: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read(LLAMA).graph(Workload("prefill", seq=64), Sharding(**asked))


def test_families_without_a_parallelism_say_which_they_have() -> None:
    model = read(MODELS / "sd-1.5-unet.json")
    with pytest.raises(InputError, match="tp=2: it is spread by dp alone"):
        model.graph(Workload("denoise"), Sharding(tp=2))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**25), st.floats(), st.text(string.printable, max_size=8),
    st.lists(st.integers(0, 9), max_size=3), st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2),
)  # fmt: skip
FAMILIES = [json.loads(path.read_text()) for path in sorted(MODELS.glob("*.json"))]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_of_any_field_gives_a_graph_or_an_error_of_ours(data: st.DataObject) -> None:
    description = dict(data.draw(st.sampled_from(FAMILIES)))
    for _ in range(data.draw(st.integers(1, 3))):
        description[data.draw(st.sampled_from(sorted(description)))] = data.draw(VALUES)
    with contextlib.suppress(TrnprofError):
        model = read(description)
        assert model.graph(Workload(model.phases[0], seq=64), Sharding()).weight_bytes > 0


def test_a_learned_table_of_positions_limits_the_tokens() -> None:
    whisper, bert, gpt2 = "whisper-small.json", "bert-base.json", "gpt3-175b.json"
    assert setting(SAMPLES / whisper, "transcribe").workload.seq == 448
    assert setting(SAMPLES / bert, "encode").workload.seq == 512
    assert setting(SAMPLES / gpt2, "decode").workload.context == 2047
    for name, phase, asked in (
        (whisper, "transcribe", {"seq": 449}),
        (bert, "encode", {"seq": 513}),
        (gpt2, "decode", {"context": 2048}),
    ):
        with pytest.raises(InputError, match=r"=(449|513|2048): .* has (448|512|2048) positions"):
            setting(SAMPLES / name, phase, **asked)


@pytest.mark.parametrize(
    ("name", "phase"),
    [("llama-3-8b", "prefill"), ("bert-base", "encode"), ("whisper-small", "transcribe"), ("dit-xl-2", "denoise")],
)
def test_without_a_phase_a_model_does_the_first_that_it_has(name: str, phase: str) -> None:
    assert setting(SAMPLES / f"{name}.json").workload.phase == phase
