"""Run published kernels whose latency was measured, and compare.

    python -m tests.records FOLDER [PATTERN] [--json] [--ablate] [-o docs/timing.md]

FOLDER holds checkouts of the public repositories that the records name. Nothing of them is kept here: a record says
where its kernel lies, and this file what it is called with. Estimates are compared like with like: a profile's
total_time with `total_ns`, a benchmark's p50 with `benchmark_ns`, a device time with the kernel window.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sim
import trnprof
from sim.compiler import Options
from sim.errors import TrnprofError
from tests import records_page, records_words

FACTS = Path(__file__).resolve().parents[2] / "shared" / "facts" / "measured_dev.json"
FP32, BF16 = "float32", "bfloat16"
NANOSECONDS = {"ms": 1e6, "us": 1e3, "ns": 1.0}

NKIBENCH: dict[str, list] = {
    "silu": [(128, 32, 7168)],
    "rope_single_freq_apply": [(128, 262144), (64, 262144), (64, 262144)],
    "swiglu": [(8, 4, 128, 8, 128), (8, 128, 3072), (24, 128, 1024), (8, 128, 3072)],
    "matmul": [(32, 128, 40, 128), (40, 128, 12288)],
    "transpose_matmul": [(128, 16, 4096), (128, 16, 10944)],
    "matmul_add_rmsnorm": [(4096, 2048), (2048, 2048), 1e-5, (4096, 2048), (2048,)],
    "add_rmsnorm_matmul": [(4096, 1024), (1024, 2048), 1e-5, (4096, 1024), (1024,)],
    "bmm_softmax": [(16, 4096, 64), (16, 64, 4096)],
    "lora": [(8, 4, 128, 40, 128), (40, 128, 12288), (40, 128, 128), (128, 12288)],
    "gqa_full": [(32, 128, 16, 128), (1, 8, 4, 128, 8, 128), (1, 32, 128, 1024)],
    "mamba": [(256, 7168), (256, 7168), (256, 16), (16, 7168), (16, 7168)],
}
"""Arguments of AccelOpt's kernels: shapes of fp32 tensors, and scalars."""


def tensors(arguments: list, dtype: str = FP32) -> list[Any]:
    return [sim.TensorSpec(item, dtype) if isinstance(item, tuple) else item for item in arguments]


def nkibench(folder: Path, name: str) -> sim.Run:
    file = next((folder / "AccelOpt/NKIBench/kernels").glob(f"{name}_[A-Z]*.py"))
    return run(sim.load(f"{file}::kernel", "trn1"), tensors(NKIBENCH[name]), "trn1")


def attention(folder: Path, variant: str, dtype: str, length: int) -> sim.Run:
    file = folder / f"trainium-kernel-fusion/kernels/{variant}/attention.py"
    return run(sim.load(f"{file}::{variant}_attention"), tensors([(128, length)] * 3, dtype), "trn2")


def mlp(folder: Path, variant: str, dtype: str, m: int, k: int, n: int) -> sim.Run:
    file = folder / "trainium-kernel-fusion/kernels/fused/mlp.py"
    kernel = sim.load(f"{file}::fused_mlp_{variant}")
    return run(kernel, tensors([(k, m), (k, n), (1, n)], dtype), "trn2")


def documented_matmul(folder: Path, version: int) -> sim.Run:
    """A code block of the kernel-optimization tutorial, written to a file of its own and run as it stands."""
    text = (folder / "aws-neuron-sdk/nki/guides/tutorials/kernel-optimization.rst").read_text()
    blocks = [textwrap.dedent(b) for b in re.findall(r"\.\. code-block:: python\n\n((?: {3,}.*\n|\s*\n)+)", text)]
    kernels = [b for b in blocks if "@nki.jit" in b and "import nki.isa" in b and "matrix_multiply_kernel" in b]
    file = folder / f"documented_matmul_{version}.py"
    file.write_text(kernels[version])
    return run(sim.load(f"{file}::matrix_multiply_kernel"), tensors([(8192, 4096), (8192, 8192)]), "trn2")


def autotune(folder: Path, where: str, name: str) -> sim.Run:
    for missing in ("nkigym", "nkigym.synthesis"):
        module = sys.modules.setdefault(missing, types.ModuleType(missing))
        module.__path__, module.simulate_fp32 = [], lambda *a, **k: None
    kernel = sim.load(f"{folder / 'nki-autotune' / where}::{name}")
    return run(kernel, tensors([(2048, 2048), (2048, 2048)], BF16), "trn2")


def mamba(folder: Path, version: str, channels: int, length: int) -> sim.Run:
    """The text is of the current API; its figures are older, from compilers with the optimising middle end."""
    file = folder / "aws-neuron-sdk/nki/examples/fused_mamba/mamba_nki_kernels.py"
    shapes = [(1, channels, length), (1, channels, length), (channels, 16), (1, 16, length), (1, 16, length)]
    legacy = Options.for_generation("legacy")
    return run(sim.load(f"{file}::mamba_{version}", "trn1"), tensors(shapes), "trn1", legacy)


def run(kernel: Callable, arguments: list, device: str, options: Options | None = None) -> sim.Run:
    return sim.run(kernel, *arguments, device=device, values=False, options=options)


def plan(record: dict, folder: Path) -> tuple[Callable[[], sim.Run], str] | None:
    """How to run a record and which of our three times compares with it, None when its code is not public."""
    name = record["id"]
    if found := re.fullmatch(r"nkibench-trn1-(\w+)-base", name):
        return (lambda: nkibench(folder, found[1])), "total_ns"
    if found := re.fullmatch(r"tkf-trn2-attn-(\w+)-(fp32|bf16)-s(\d+)-(profile|p50)", name):
        dtype = FP32 if found[2] == "fp32" else BF16
        which = "total_ns" if found[4] == "profile" else "benchmark_ns"
        return (lambda: attention(folder, found[1], dtype, int(found[3]))), which
    if found := re.fullmatch(r"tkf-trn2-mlp-fused_(pwl|taylor)-(fp32|bf16)-(\d+)x(\d+)x(\d+)", name):
        dtype, sizes = (FP32 if found[2] == "fp32" else BF16), [int(found[i]) for i in (3, 4, 5)]
        return (lambda: mlp(folder, found[1], dtype, *sizes)), "benchmark_ns"
    if found := re.fullmatch(r"doc-mamba-(v\d)-(\d+)x(\d+)", name):
        return (lambda: mamba(folder, found[1], int(found[2]), int(found[3]))), "total_ns"
    named = {
        "doc-trn2-mm-v2": (lambda: documented_matmul(folder, 1), "total_ns"),
        "doc-trn2-mm-v5": (lambda: documented_matmul(folder, -1), "total_ns"),
        "autotune-trn2-mm-lhsT_rhs-hand": (
            lambda: autotune(
                folder, "kernel_library/matmul/lhsT_rhs/kernel_hand_90.92mfu.py", "matmul_lhsT_rhs_nkigym"
            ),
            "latency_ns",
        ),
        "autotune-trn2-mm-kernel_15-rotate": (
            lambda: autotune(folder, "kernel_transforms.py", "kernel_15"),
            "latency_ns",
        ),
        "autotune-trn2-mm-ladder-k14": (lambda: autotune(folder, "kernel_transforms.py", "kernel_14"), "latency_ns"),
    }
    return named.get(name)


def counters(result: sim.Run, extra: dict) -> dict[str, tuple[float, float]]:
    """Name of Explorer's Summary -> ours and the record's, of those that the record has."""
    ours = trnprof.summarize(result.trace)
    return {name: (float(ours.get(name) or 0), float(extra[name])) for name in records_page.UNITS if name in extra}


def compare(record: dict, folder: Path, ablate: bool = False) -> dict | None:
    """One row of the table, None for a record that names no public kernel.

    ablate : also the errors with one pass or figure changed
    """
    found = plan(record, folder)
    if found is None:
        return None
    start, which = time.perf_counter(), found[1]
    row: dict[str, Any] = {"id": record["id"], "compared": which}
    row["measured_us"] = record["value"] * NANOSECONDS[record["unit"]] / 1e3
    try:
        result = found[0]()
    except TrnprofError as error:
        return row | {"failed": f"{type(error).__name__}: {error}"}
    row["estimate_us"] = getattr(result, which) / 1e3
    row["error"] = row["estimate_us"] / row["measured_us"] - 1
    row["counters"] = counters(result, record.get("extra", {}))
    row["instructions"] = len(result.program)
    row["seconds"] = time.perf_counter() - start
    if ablate:
        row["ablation"] = dict(records_page.ablated(result, which, row["measured_us"]))
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pattern", nargs="?", default=".")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ablate", action="store_true", help="also what each pass and group of figures explains")
    parser.add_argument("-o", "--output", type=Path, help="write the page there")
    parser.add_argument("--facts", type=Path, default=FACTS, help="the measurements")
    asked = parser.parse_args()
    records = json.loads(asked.facts.read_text())["records"]
    rows = []
    for record in records:
        if re.search(asked.pattern, record["id"]) and (row := compare(record, asked.folder, asked.ablate)) is not None:
            rows.append(row)
            if not asked.json:
                print(line(row), flush=True)
    if asked.json:
        print(json.dumps(rows, indent=1))
    if asked.ablate and not asked.json:
        print(records_page.table(rows))
    if asked.output:
        asked.output.write_text(records_page.page(rows, *records_words.PARTS))
    done = [abs(row["error"]) for row in rows if "error" in row]
    if done:
        print(f"{len(done)} of {len(rows)} ran, mean absolute error {sum(done) / len(done):.1%}", file=sys.stderr)
    return 0


def line(row: dict) -> str:
    if "failed" in row:
        return f"{row['id']:<46} {row['failed'][:140]}"
    return (
        f"{row['id']:<46} {row['measured_us']:>10.1f} µs measured {row['estimate_us']:>10.1f} µs estimated "
        f"{row['error']:>+7.1%}  {row['instructions']:>8} instructions {row['seconds']:>5.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
