"""Our graphs counted as two public tools count, so that both can be compared to the last byte.

What LLM-Viewer (hahnyuan/LLM-Viewer 472f71f) does otherwise than we: attention is not causal and goes through HBM;
queries, keys and values are three products, gate, up and down too; a prefill's head is for one token, one operation
for each weight, and reads one token's numbers whatever the batch; the embedding and the last norm count nothing; an
activation is as wide as the hidden size; a prefill's attention reads queries as wide as its keys.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from sim.models.graph import Graph, Operation

FOLDER = "TRNPROF_PEERS"
"""Environment variable: a folder with checkouts `LLM-Viewer` and `calculon`."""
ELEMENT = 2


def checkout(name: str) -> Path:
    """A peer's checkout; skips the test where there is none."""
    folder = os.environ.get(FOLDER)
    if not folder or not (Path(folder) / name).is_dir():
        pytest.skip(f"no checkout of {name}: {FOLDER} names a folder with one")
    return Path(folder) / name


def as_llm_viewer(graph: Graph, context: int) -> dict[str, int]:
    """Sums of a Llama graph on one core, decode or prefill of `context` tokens, in LLM-Viewer's names."""
    sums: Counter[str] = Counter()
    hidden = next(one.inputs[0].shape[1] for one, _ in graph.operations() if one.operator == "rmsnorm")
    for section in graph.sections:
        for layer in section.layers:
            for operation in layer.operations:
                for name, value in _counted(graph.phase, layer.name, operation, context, hidden).items():
                    sums[name] += layer.repeat * value
    sums["memory_access"] = ELEMENT * sum(sums[name] for name in ("weight", "load", "store", "load_kv", "store_kv"))
    return {
        "OPs": sums["OPs"],
        "memory_access": sums["memory_access"],
        "load_weight": ELEMENT * sums["weight"],
        "load_kv_cache": ELEMENT * sums["load_kv"],
        "store_kv_cache": ELEMENT * sums["store_kv"],
    }


def _counted(phase: str, layer: str, operation: Operation, context: int, hidden: int) -> dict[str, int]:
    name = operation.name
    if name == "attention/qkv":
        return _projections(operation)
    if name == "attention/scores":
        return _attention(phase, operation, context)
    if layer == "head":
        return _head(operation) if name == "head/logits" else {}
    if operation.operator == "matmul":
        (rows, inner), (_, columns) = (one.shape for one in operation.inputs)
        return _product(rows, inner, columns)
    if operation.operator == "gated_mlp":
        (rows, _), (_, inner) = (one.shape for one in operation.inputs[:2])
        parts = Counter(_product(rows, hidden, inner))
        parts.update(_product(rows, hidden, inner))
        parts.update(_product(rows, inner, hidden))
        parts.update(_activation(rows, hidden))
        return dict(parts)
    if operation.scalars.get("kind") == "silu_multiply":
        return _activation(operation.inputs[0].shape[0], hidden)
    if operation.operator in ("rmsnorm", "elementwise"):
        rows, width = operation.inputs[0].shape
        each = 7 if operation.operator == "rmsnorm" else 1
        return {"OPs": each * rows * width, "load": rows * width, "store": rows * width}
    return {}


def _product(rows: int, inner: int, columns: int) -> dict[str, int]:
    return {"OPs": 2 * rows * inner * columns, "weight": inner * columns, "load": rows * inner, "store": rows * columns}


def _activation(rows: int, hidden: int) -> dict[str, int]:
    return {"OPs": 2 * rows * hidden, "load": 2 * rows * hidden, "store": rows * hidden}


def _projections(operation: Operation) -> dict[str, int]:
    """Queries as wide as the hidden size; what is left are keys and values."""
    (rows, hidden), (_, columns) = (one.shape for one in operation.inputs)
    counted = _product(rows, hidden, columns)
    return counted | {"load": 3 * rows * hidden, "store": rows * hidden, "store_kv": rows * (columns - hidden)}


def _head(operation: Operation) -> dict[str, int]:
    (rows, hidden), (_, columns) = (one.shape for one in operation.inputs)
    return {"OPs": rows * hidden * columns, "weight": hidden * columns, "load": hidden, "store": columns}


def _attention(phase: str, operation: Operation, context: int) -> dict[str, int]:
    batch, heads, width = operation.inputs[0].shape[0], operation.inputs[0].shape[1], operation.inputs[0].shape[-1]
    kv_heads = operation.inputs[1].shape[1]
    tokens = context if phase == "prefill" else 1
    scores = batch * heads * tokens * context
    flow = batch * tokens * width
    return {
        "OPs": 4 * scores * width + 5 * scores,
        "load": flow * (kv_heads if phase == "prefill" else heads) + 2 * scores,
        "store": flow * heads + 2 * scores,
        "load_kv": 2 * batch * context * width * kv_heads,
    }


def llm_viewer(description: Path, phase: str, batch: int, seq: int) -> dict[str, int]:
    """What LLM-Viewer itself says."""
    folder = str(checkout("LLM-Viewer"))
    library = ModuleType("transformers")
    for name in ("AutoTokenizer", "AutoConfig", "AutoModelForCausalLM"):
        setattr(library, name, object)
    sys.path.insert(0, folder)
    sys.modules["transformers"] = library
    try:
        analyzer = importlib.import_module("model_analyzer").ModelAnalyzer
        one = analyzer.__new__(analyzer)
        one.model_id, one.hardware = description.stem, "nvidia_A100_80G"
        one.model_params = SimpleNamespace(**json.loads(description.read_text()))
        one.config = importlib.import_module("configs.Llama")
        found = one.analyze(seq, batch)["total_results"][phase]
    finally:
        _forget(folder)
        sys.modules.pop("transformers", None)
    return {
        name: int(found[name]) for name in ("OPs", "memory_access", "load_weight", "load_kv_cache", "store_kv_cache")
    }


def _forget(folder: str) -> None:
    """A checkout's modules, whose names are anybody's."""
    sys.path.remove(folder)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]


PRODUCTS = ("Query", "Key", "Value", "Key_Query", "Attn", "MLP", "Mlp1", "Mlp2")
"""Ends of the names of Calculon's layers that are products."""


def calculon(case: dict) -> dict[str, int]:
    """What Calculon itself says of one block and one processor (calculon-ai/calculon caa4b11)."""
    import logging

    folder = checkout("calculon")
    sys.path.insert(0, str(folder))
    try:
        package = importlib.import_module("calculon")
        llm = importlib.import_module("calculon.llm")

        def read(path: Path) -> dict:
            return package.io.read_json_file(str(path))

        execution = read(folder / f"validation/seqsel/fig7/{case['case']}.json")
        model = llm.Llm(
            llm.Llm.Application(read(folder / f"models/{case['model']}.json")), logging.getLogger("calculon")
        )
        system = package.System(read(folder / "systems/a100_80e.json"))
        model.compile(system, llm.Llm.Execution.from_json(execution))
        model.run(system)
        stats = model.get_stats_json(True)
    finally:
        _forget(str(folder))
    return {name: int(stats[name]) for name in FIELDS} | {
        name: int(sum(layer[f"{name}_flops"] for layer in stats["layers"] if layer["name"].endswith(PRODUCTS)))
        for name in ("fw", "agrad", "wgrad")
    }


FIELDS = ("block_weight_space", "block_optimizer_space", "block_act_storage_space", "block_act_checkpoint_size",
          "baseblock_fw_tp_size", "baseblock_bw_tp_size", "block_fw_pp_size", "act_space")  # fmt: skip
