"""Write `trnprof/validation/published.json` from the calibration facts: `python tests/published.py FACTS.json`.

Only facts are kept: what was measured, where it is published, and how the public code is called. Counters get AWS's
names and units; whoever wants to compare with another measurement adds a record by hand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "trnprof" / "validation" / "published.json"
ROOMS = ("nkibench", "autotune", "doc-", "tkf", "npu", "nki-samples", "nccom")
"""Beginnings of the ids of records about kernels, instructions and collectives; others are about whole models."""

KEPT = ("id", "kernel", "source", "code", "device", "shapes", "dtype", "metric", "value", "unit", "trust")

NKIBENCH: dict[str, list] = {
    "silu": [[128, 32, 7168]],
    "rope_single_freq_apply": [[128, 262144], [64, 262144], [64, 262144]],
    "swiglu": [[8, 4, 128, 8, 128], [8, 128, 3072], [24, 128, 1024], [8, 128, 3072]],
    "matmul": [[32, 128, 40, 128], [40, 128, 12288]],
    "transpose_matmul": [[128, 16, 4096], [128, 16, 10944]],
    "matmul_add_rmsnorm": [[4096, 2048], [2048, 2048], 1e-5, [4096, 2048], [2048]],
    "add_rmsnorm_matmul": [[4096, 1024], [1024, 2048], 1e-5, [4096, 1024], [1024]],
    "bmm_softmax": [[16, 4096, 64], [16, 64, 4096]],
    "lora": [[8, 4, 128, 40, 128], [40, 128, 12288], [40, 128, 128], [128, 12288]],
    "gqa_full": [[32, 128, 16, 128], [1, 8, 4, 128, 8, 128], [1, 32, 128, 1024]],
    "mamba": [[256, 7168], [256, 7168], [256, 16], [16, 7168], [16, 7168]],
}
OPTIMISED = {"rope_single_freq_apply": "rope_optimized.py"}
"""Not mamba_optimized.py: it loads `a` for each of 14 parts of the sequence, 229,376 bytes, where the record leaves
16,384 beside 34 tiles of 3,670,016 and 64 rows of 28,672; and the record's SBUF bytes leave none for the ends of scans
that it copies."""
HAND = "kernel_library/matmul/lhsT_rhs/kernel_hand_90.92mfu.py"
AUTOTUNE = {
    "autotune-trn2-mm-lhsT_rhs-hand": (HAND, "matmul_lhsT_rhs_nkigym"),
    "autotune-trn2-mm-kernel_15-rotate": ("kernel_transforms.py", "kernel_15"),
    "autotune-trn2-mm-ladder-k14": ("kernel_transforms.py", "kernel_14"),
}

OURS = {
    "doc-trn2-mm-v2": ("traces/kernels/blocked_matmul.py", "tile_by_tile"),
    "doc-trn2-mm-v5": ("traces/kernels/blocked_matmul.py", "blocked"),
    "nkibench-trn1-silu-base": ("traces/kernels/legacy_silu.py", "silu"),
}
"""Records whose algorithm is described well enough for a kernel of our own to be the same work."""


MICRO, MILLI = 1e-6, 1e-3
COUNTERS = {
    "vector_active_ms": ("vector_engine_active_time", MILLI),
    "vector_active_us": ("vector_engine_active_time", MICRO),
    "tensor_active_ms": ("tensor_engine_active_time", MILLI),
    "dma_active_ms": ("dma_active_time", MILLI),
    "matmul_instr": ("matmul_instruction_count", 1),
}
"""What the facts call a counter -> AWS's name of it, and the factor to AWS's unit."""
AWS_COUNTERS = re.compile(
    r"(hbm_(read|write)|spill_(save|reload))_bytes|hardware_flops|matmul_instruction_count|\w+_engine_active_time\w*|"
    r"dma_active_time"
)

BOUNDS = {
    "doc-trn2-mm-v5": ["compute"],
    "autotune-trn2-mm-lhsT_rhs-hand": ["compute"],
    "nkibench-trn1-transpose_matmul-base": ["compute"],
    "doc-trn2-mm-v2": ["memory_bandwidth", "latency"],
    "nkibench-trn1-matmul-base": ["compute", "memory_bandwidth"],
    "nkibench-trn1-silu-base": ["compute"],
    "doc-mamba-v2-4096x512": ["compute"],
    "tkf-trn2-attn-fused-fp32-s512-profile": ["latency"],
    "tkf-trn2-attn-baseline-fp32-s1024-profile": ["memory_bandwidth", "latency"],
}
"""Classes that agree with what was measured of a record: engine shares, bytes against the roofs."""


def recipe(name: str) -> dict[str, Any] | None:
    """How the public code of a record is called, None where there is none that the emulator runs."""
    if found := re.fullmatch(r"nkibench-trn1-(\w+)-(base|accelopt-best)", name):
        return _nkibench(found[1], found[2])
    if found := re.fullmatch(r"tkf-trn2-attn-(\w+)-(fp32|bf16)-s(\d+)-(profile|p50)", name):
        compared = "total_ns" if found[4] == "profile" else "benchmark_ns"
        file = f"trainium-kernel-fusion/kernels/{found[1]}/attention.py"
        return _call(file, f"{found[1]}_attention", "trn2", [[128, int(found[3])]] * 3, compared, found[2])
    if found := re.fullmatch(r"tkf-trn2-mlp-fused_(pwl|taylor)-(fp32|bf16)-(\d+)x(\d+)x(\d+)", name):
        m, k, n = (int(found[i]) for i in (3, 4, 5))
        file = "trainium-kernel-fusion/kernels/fused/mlp.py"
        return _call(file, f"fused_mlp_{found[1]}", "trn2", [[k, m], [k, n], [1, n]], "benchmark_ns", found[2])
    if found := re.fullmatch(r"doc-mamba-(v\d)-(\d+)x(\d+)", name):
        c, s = int(found[2]), int(found[3])
        shapes = [[1, c, s], [1, c, s], [c, 16], [1, 16, s], [1, 16, s]]
        file = "nki-samples/src/nki_samples/tutorials/fused_mamba/mamba_nki_kernels.py"
        return _call(file, f"mamba_{found[1]}", "trn1", shapes, "total_ns") | {"generation": "legacy"}
    if name in AUTOTUNE:
        file, kernel = AUTOTUNE[name]
        stubs = {"stubs": ["nkigym", "nkigym.synthesis"]}
        return _call(f"nki-autotune/{file}", kernel, "trn2", [[2048, 2048]] * 2, "latency_ns", "bf16") | stubs
    return _documented(name)


def _nkibench(name: str, which: str) -> dict[str, Any] | None:
    file = f"AccelOpt/NKIBench/kernels/{name}_[A-Z]*.py"
    if which != "base":
        if name not in OPTIMISED:
            return None
        file = f"AccelOpt/samples/nki/{OPTIMISED[name]}"
    return _call(file, "kernel", "trn1", NKIBENCH[name], "total_ns")


def _documented(name: str) -> dict[str, Any] | None:
    versions = {"doc-trn2-mm-v2": 1, "doc-trn2-mm-v5": -1}
    if name not in versions:
        return None
    shapes = [[8192, 4096], [8192, 8192]]
    page = "aws-neuron-sdk/nki/guides/tutorials/kernel-optimization.rst"
    block = ["@nki.jit", "import nki.isa", "matrix_multiply_kernel"]
    found = _call(page, "matrix_multiply_kernel", "trn2", shapes, "total_ns")
    return found | {"block": {"containing": block, "number": versions[name]}}


def _call(file: str, kernel: str, device: str, arguments: list, compare: str, dtype: str = "fp32") -> dict[str, Any]:
    call = [{"dtype": dtype, "shape": a} if isinstance(a, list) else a for a in arguments]
    return {"file": file, "kernel": kernel, "device": device, "arguments": call, "compare": compare}


def families(name: str) -> list[str]:
    """Records of one family are variants of each other: which is faster should come out right."""
    if found := re.fullmatch(r"tkf-trn2-attn-(\w+)-(fp32|bf16)-s(\d+)-(profile|p50)", name):
        return [f"attention {found[2]} {found[3]} {found[4]}", f"attention {found[1]} {found[3]} {found[4]}"]
    if found := re.fullmatch(r"tkf-trn2-mlp-(\w+)-(fp32|bf16)-(\w+)", name):
        return [f"mlp {found[2]} {found[3]}", f"mlp {found[1]} {found[3]}"]
    if found := re.fullmatch(r"nkibench-trn1-(\w+)-(base|accelopt-best)", name):
        return [f"nkibench {found[1]}"]
    if found := re.fullmatch(r"doc-mamba-(v\d)-(\w+)", name):
        return [f"mamba {found[2]}"]
    for start, family in (("autotune-trn2-mm", "matmul 2048 bf16"), ("doc-trn2-mm", "documented matmul")):
        if name.startswith(start):
            return [family]
    return []


def kept(record: dict[str, Any]) -> dict[str, Any]:
    name = record["id"]
    made = {key: record[key] for key in KEPT if record.get(key) not in (None, "")}
    made["counters"] = counters(record.get("extra", {}))
    made["instructions"] = instructions(record)
    made |= {"run": recipe(name), "ours": ours(name), "families": families(name), "bound": BOUNDS.get(name)}
    return {key: value for key, value in made.items() if value not in (None, {}, [])}


def instructions(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Single instructions whose duration a record gives, as `trnprof/validation/instructions.json` has them."""
    name, value = record["id"], record["value"]
    wide = [["fp32", "SBUF", [8192], [1]]]
    if name == "doc-perfguide-tt-fp32-8192":
        shown = {"engine": "VECTOR", "opcode": "TENSOR_TENSOR", "function": "ADD", "sources": wide * 2, "results": wide}
        return [_measured("trn1", shown, value, "PERFimg")]
    if name == "doc-trn2-mlp-nki":
        return [_measured("trn2", _matmul("fp32", 512), record["extra"]["one_MATMUL_512cols_ns"], "DMAOVimg")]
    if name != "npu-inf2-matmul-Nsweep":
        return []
    found = re.search(r"MATMUL ([\d.]+) \+ ([\d.]+)\*N .*fp32->fp32 ([\d.]+) \+ ([\d.]+)\*N", value["dev_only_fit"])
    matmul, per_column, copy, per_element = map(float, found.groups())
    lines = []
    for n in (144, 256, 512):
        shown = {"engine": "SCALAR", "opcode": "ACTIVATE", "function": "COPY"}
        shown |= {"sources": [["fp32", "PSUM", [n], [1]]], "results": [["fp32", "SBUF", [n], [1]]]}
        lines.append(_measured("inf2", _matmul("fp16", n), matmul + per_column * n, "INF2P"))
        lines.append(_measured("inf2", shown, copy + per_element * n, "INF2P"))
    return lines


def _matmul(dtype: str, columns: int) -> dict[str, Any]:
    tiles = {"sources": [[dtype, "SBUF", [columns], [1]]], "results": [["fp32", "PSUM", [columns], [1]]]}
    return {"engine": "TENSOR", "opcode": "MATMUL", "columns": 128, **tiles}


def _measured(device: str, shown: dict[str, Any], value: float, source: str) -> dict[str, Any]:
    spread = {"count": 1, "median": value, "p10": value, "p90": value}
    shown |= {"partitions": 128}
    return {"device": device, "shown": shown, "clock": 1.0, "duration": spread, "source": source}


def ours(name: str) -> dict[str, Any] | None:
    """The same call of our own kernel."""
    if name not in OURS:
        return None
    file, kernel = OURS[name]
    call = {key: value for key, value in recipe(name).items() if key not in ("block", "stubs", "prelude")}
    return call | {"file": file, "kernel": kernel}


def counters(extra: dict[str, Any]) -> dict[str, float]:
    found = {key: value for key, value in extra.items() if AWS_COUNTERS.fullmatch(key)}
    found |= {aws: extra[key] * factor for key, (aws, factor) in COUNTERS.items() if key in extra}
    return found


def main() -> None:
    facts = json.loads(Path(sys.argv[1]).read_text())["records"]
    records = [kept(record) for record in facts if record["id"].startswith(ROOMS)]
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    TARGET.write_text(f"[\n{lines}\n]\n")
    print(f"{len(records)} records, {sum('run' in record for record in records)} with public code")


if __name__ == "__main__":
    main()
