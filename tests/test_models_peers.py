"""FLOPs, bytes and memory of models against LLM-Viewer and Calculon, after the differences that are stated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sim.models import Sharding, Workload, pipeline, read, training
from sim.models.backward import backward, kept_bytes
from sim.models.graph import Layer, Operation
from sim.models.training import MOMENTS
from tests.peer_counts import as_llm_viewer, calculon, llm_viewer

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "traces" / "models"
VIEWER = json.loads((ROOT / "tests" / "golden" / "llm_viewer.json").read_text())


@pytest.mark.parametrize("case", VIEWER)
def test_operations_bytes_and_cache_are_those_of_llm_viewer(case: str) -> None:
    name, phase, batch, seq = case.split()
    asked = Workload(phase, int(batch), seq=int(seq), context=int(seq))
    graph = read(MODELS / f"{name}.json").graph(asked, Sharding())
    assert as_llm_viewer(graph, int(seq)) == VIEWER[case]


@pytest.mark.parametrize("case", VIEWER)
def test_the_kept_numbers_are_what_llm_viewer_says_today(case: str) -> None:
    name, phase, batch, seq = case.split()
    assert llm_viewer(MODELS / f"{name}.json", phase, int(batch), int(seq)) == VIEWER[case]


CALCULON = json.loads((ROOT / "tests" / "golden" / "calculon.json").read_text())


def gpt(case: dict) -> dict:
    shape = case["shape"]
    return {
        "model_type": "gpt2", "n_embd": shape["hidden"], "n_layer": shape["num_blocks"], "n_head": shape["attn_heads"],
        "n_inner": shape["feedforward"], "vocab_size": 51200, "n_positions": shape["seq_size"],
    }  # fmt: skip


def asked(case: dict) -> tuple[Workload, Sharding]:
    return Workload("train", seq=case["shape"]["seq_size"], **case["workload"]), Sharding(**case["sharding"])


def block(case: dict) -> Layer:
    """One transformer block of a middle stage."""
    graph = read(gpt(case)).graph(*asked(case))
    found = next(layer for section in graph.sections for layer in section.layers if layer.name == "layers")
    return replace(found, repeat=1)


def products(operations: tuple[Operation, ...]) -> int:
    """Operations of products, attention over all pairs of tokens as Calculon has it."""
    total = 0
    for one in operations:
        if one.operator == "matmul":
            (m, k), (a, b) = (operand.shape for operand in one.inputs[:2])
            inner, rows = (m, k) if one.scalars.get("transpose_x") else (k, m)
            total += 2 * rows * inner * (a * b // inner)
        elif one.operator.startswith("attention"):
            batch, heads, tokens, width = one.inputs[0].shape
            total += (4 if one.operator == "attention" else 8) * batch * heads * tokens**2 * width
    return total


@pytest.mark.parametrize("case", CALCULON, ids=lambda case: case["case"])
def test_operations_of_a_block_are_those_of_calculon(case: dict) -> None:
    one = block(case)
    back = backward(one, "none").operations
    weights = tuple(each for each in back if each.name.endswith("weight gradient"))
    inputs = tuple(each for each in back if not each.name.endswith("weight gradient"))
    found = [products(operations) for operations in (one.operations, inputs, weights)]
    assert found == [case["says"][name] for name in ("fw", "agrad", "wgrad")]


@pytest.mark.parametrize("case", CALCULON, ids=lambda case: case["case"])
def test_weights_and_optimizer_of_a_block_are_those_of_calculon(case: dict) -> None:
    """Calculon leaves out biases, 0.02 %."""
    one = block(case)
    biases = sum(operation.inputs[2].nbytes for operation in one.operations if len(operation.inputs) == 3
                 and operation.operator == "matmul")  # fmt: skip
    assert one.weight_bytes - biases == case["says"]["block_weight_space"]
    assert one.weight_bytes // 2 * MOMENTS == pytest.approx(case["says"]["block_optimizer_space"], rel=1e-3)


@pytest.mark.parametrize("case", CALCULON, ids=lambda case: case["case"])
def test_kept_activations_are_those_of_calculon(case: dict) -> None:
    """Calculon keeps scores twice with a mask of one byte and two masks of dropout, and no sums of rows."""
    work, shards = asked(case)
    shape, says = case["shape"], case["says"]
    kept = kept_bytes(block(case), work.recompute, shards)
    if work.recompute == "full":
        assert kept == says["block_act_checkpoint_size"]
        return
    rows = work.microbatch * shape["seq_size"]
    scores = rows * shape["seq_size"] * shape["attn_heads"] // shards.tp
    masks = 2 * rows * shape["hidden"] // (shards.tp if shards.sp else 1)
    sums = 4 * rows * shape["attn_heads"] // shards.tp
    assert kept - sums + 5 * scores + masks == says["block_act_storage_space"]


@pytest.mark.parametrize("case", CALCULON, ids=lambda case: case["case"])
def test_as_many_blocks_are_under_way_as_in_calculon(case: dict) -> None:
    """Its working space beside them is less than one block's."""
    work, shards = asked(case)
    says, count = case["says"], training.microbatches(work, shards)
    held = pipeline.most_held(pipeline.order(0, shards.pp, shards.interleave, count))
    blocks = held * case["shape"]["num_blocks"] // (shards.pp * shards.interleave)
    if work.recompute == "none":
        assert says["act_space"] // says["block_act_storage_space"] == blocks


@pytest.mark.parametrize("case", CALCULON, ids=lambda case: case["case"])
def test_bytes_that_tensor_and_pipeline_parallelism_send_are_those_of_calculon(case: dict) -> None:
    work, shards = asked(case)
    graph = read(gpt(case)).graph(work, shards)
    forward = [one.scalars["size_bytes"] for one in block(case).operations if one.operator == "collective"]
    back = [
        one.scalars["size_bytes"] for one in backward(block(case), "none").operations if one.operator == "collective"
    ]
    sent = [one.scalars["size_bytes"] for section in graph.sections for layer in section.layers
            for one in layer.operations if one.scalars.get("kind") == "permute"]  # fmt: skip
    assert sum(forward) == case["says"]["baseblock_fw_tp_size"]
    assert sum(back) == case["says"]["baseblock_bw_tp_size"]
    assert set(sent or [0]) == {case["says"]["block_fw_pp_size"]}


@pytest.mark.parametrize("case", CALCULON, ids=lambda case: case["case"])
def test_the_kept_numbers_are_what_calculon_says_today(case: dict) -> None:
    assert calculon(case) == case["says"]
