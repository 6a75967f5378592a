"""nki-library: its kernels by its own tests, references and tolerances (which need torch and scipy).

A case is one test function in its smallest size; the plugin `tests.library_cases` takes the place of their conftest.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.corpora import ROOT, Case, Outcome

LIBRARY = "nki-library"
TESTS = "test/integration/nkilib"
SECONDS = 800

ALL_EXPERT = (
    "_all_expert_moe_tkg_mx _all_expert_mx_static _layout_adapter_qmx_hbm _load_expert _compute_expert_mlp "
    "gate_up_projection_mx_shard_I load_gate_up_weight_scale_bias _clamp_tensor _matmul_mx_accumulate "
    "load_broadcast_down_weight_scale_bias down_projection_mx"
)
DYNAMIC = (
    "_all_expert_mx_dynamic _find_expert_routed_tokens _init_dynamic_block_indices_hbm "
    "_get_block_token_position_to_id _load_block_expert_affinities _compute_block"
)
HYBRID = "moe_cte blockwise_mm_baseline_shard_intermediate_hybrid"
HYBRID_MX = "blockwise_mm_shard_intermediate_mx_hybrid"
DROPPING = "blockwise_mm_shard_intermediate_dropping"
CASES = [
    ("cumsum", "core/cumsum/test_cumsum.py", "test_cumsum_fast"),
    ("RoPE", "core/embeddings/test_rope.py", "test_rope_fast"),
    ("rope_hf", "core/embeddings/test_rope_hf.py", "test_rope_hf_lnc"),
    ("cascaded_max", "core/max/test_cascaded_max.py", "test_cascaded_max_unit"),
    ("rotational_topk", "core/topk/test_topk.py", "test_topk_unit"),
    ("find_nonzero_indices", "core/subkernels/test_find_nonzero_indices.py", "test_find_nonzero_indices_fast"),
    ("indexed_flatten", "core/subkernels/test_indexed_flatten.py", "test_indexed_flatten_fast"),
    ("rmsnorm_quant_kernel", "core/rmsnorm/test_rmsnorm_quant.py", "test_rmsnorm_quant_lnc_unit"),
    ("attention_cte", "core/attention/test_attention_cte.py", "test_attention_cte_no_cp_unit"),
    ("attention_bwd", "core/attention/test_attention_bwd.py", "test_attention_bwd_fast"),
    ("qkv", "core/qkv/test_qkv_cte.py", "test_qkv_cte_accuracy_unit"),
    ("qkv (token generation)", "core/qkv/test_qkv_tkg.py", "test_"),
    ("output_projection_cte", "core/output_projection/test_output_proj_cte.py", "test_output_proj_cte_bf16_unit"),
    ("output_projection_tkg", "core/output_projection/test_output_proj_tkg.py", "test_output_proj_tkg_unit"),
    ("mlp", "core/mlp/test_mlp_tkg.py", "test_"),
    ("moe_tkg (no kernel of its own)", "core/moe/moe_tkg/test_moe_tkg.py", "test_moe_tkg_bfloat16"),
    (ALL_EXPERT, "core/moe/moe_tkg/test_moe_tkg.py", "test_moe_tkg_mx_io_dtype"),
    (DYNAMIC, "core/moe/moe_tkg/test_moe_tkg.py", "test_moe_tkg_dynamic"),
    ("moe_block_tkg", "core/moe_block/test_moe_block_tkg.py", "test_moe_block_kernel_unit"),
    (HYBRID, "core/moe/moe_cte/test_moe_cte_unified.py", "test_moe_cte_unified"),
    ("blockwise_mm_baseline_shard_intermediate", "core/moe/moe_cte/test_moe_cte.py", "SHARD_ON_INTERMEDIATE-"),
    (DROPPING, "core/moe/moe_cte/test_moe_cte.py", "DROPPING 2048-2048-2-1024-2-8192-dtype43"),
    ("bwmm_shard_on_block", "core/moe/moe_cte/test_moe_cte.py", "SHARD_ON_BLOCK"),
    ("blockwise_mm_shard_intermediate_mx", "core/moe/moe_cte/test_moe_bwmm_mx_cte.py", "shard_I_unit"),
    (HYBRID_MX, "core/moe/moe_cte/test_moe_bwmm_mx_cte.py", "shard_I_unit True-True-7.0"),
    ("bwmm_shard_on_block_mx", "core/moe/moe_cte/test_moe_bwmm_mx_cte.py", "mx_cte_unit"),
    ("find_nonzero_indices_with_count", "experimental/benchmark/test_find_nonzero_indices_with_count.py", "unit"),
    ("allgather_sb2sb", "experimental/collectives/test_sb2sb_allgather.py", "test_allgather_sb2sb["),
    ("allgather_sb2sb_tiled", "experimental/collectives/test_sb2sb_allgather.py", "test_allgather_sb2sb_tiled"),
    ("fine_grained_allgather", "experimental/collectives/test_fg_allgather.py", "test_"),
    ("allgather_compute_matmul", "experimental/collectives/test_fgcc.py", "test_"),
    ("topk_reduce", "experimental/subkernels/test_topk_reduce.py", "test_"),
    ("conv1d", "experimental/conv/test_conv1d.py", "test_conv1d_basic"),
    ("depthwise_conv1d_implicit_gemm", "experimental/conv/test_depthwise_conv1d.py", "test_depthwise_conv1d_fast"),
    ("dynamic_elementwise_add", "experimental/dynamic_shapes/test_dynamic_elementwise_add.py", "fast"),
    ("cross_entropy_forward", "experimental/loss/test_cross_entropy_forward.py", "test_switch_transformers_fast"),
    ("cross_entropy_backward", "experimental/loss/test_cross_entropy_backward.py", "test_switch_transformers_fast"),
    ("blockwise_mm_bwd", "experimental/moe/test_bwmm_bwd.py", "test_"),
    ("blockwise_mm_baseline_shard_hidden", "experimental/moe/test_bwmm_shard_on_H.py", "test_"),
    ("mxfp_load_performance_wrapper", "experimental/mxfp_subkernels/test_mxfp_load.py", "test_"),
    ("attention_block_tkg", "experimental/transformer/test_attention_block_tkg.py", "megakernel"),
    ("transformer_tkg", "experimental/transformer/test_transformer_tkg.py", "test_"),
    ("attention_tkg (no kernel of its own)", "core/attention/test_attention_tkg.py", "test_attn_tkg_fast"),
    ("gen_mask_tkg (no kernel of its own)", "core/attention/test_gen_mask_tkg.py", "test_flat_kv["),
    ("router_topk (no kernel of its own)", "core/router_topk/test_router_topk.py", "test_router_topk["),
    ("rmsnorm_tkg (no kernel of its own)", "core/subkernels/test_rmsnorm_tkg.py", "unit"),
    ("layernorm_tkg (no kernel of its own)", "core/subkernels/test_layernorm_tkg.py", "unit"),
    ("rmsnorm_mx_quantize_tkg (no kernel of its own)", "core/subkernels/test_rmsnorm_mx_quantize_tkg.py", "tkg["),
    ("mlp projections, mxfp4 (no kernel of their own)", "core/mlp/test_mlp_proj_mxfp4.py", "gate_up_proj_unit"),
]
"""(kernels that the test runs, its file, words that its name contains)."""
SMALLER = {
    DROPPING: (
        {"intermediate": 1024},
        "an eighth of the test's intermediate size: with more, the program order keeps more than 8 PSUM banks alive",
    )
}
"""Kernels -> parameters in place of the test's own, and why."""


NEEDS = ("torch", "scipy.special", "pytest")
NEEDED = dict.fromkeys(("mlp", "transformer_tkg"), "src/nkilib_src/nkilib/core/mlp/mlp.py")
"""Kernels -> a file that they cannot do without and that is no Python at the commit of the census."""


def cases(folder: Path) -> list[Case]:
    if not (folder / LIBRARY).is_dir():
        return []
    return [
        Case(LIBRARY, f"{LIBRARY}/{TESTS}/{file}", kernels, partial(run, f"{TESTS}/{file}", test, kernels), needs=NEEDS)
        for kernels, file, test in CASES
    ]


def run(file: str, test: str, kernels: str, folder: Path) -> Outcome:
    """Run the smallest case of a test in pytest, and read what the plugin wrote about it.

    The process is this case's own: its settings and its search path stay changed.
    """
    import pytest

    library = folder / LIBRARY
    if kernels in NEEDED and (fault := _syntax_error(library / NEEDED[kernels])):
        return Outcome(known=f"{Path(NEEDED[kernels]).name} is no Python: {fault}")
    sizes, why = SMALLER.get(kernels, ({}, ""))
    seen = _Faults()
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch) / "rows.jsonl"
        os.environ |= {"LIBRARY_ROWS": str(rows), "LIBRARY_CASES": "1", "LIBRARY_TEST": test}
        os.environ |= {"LIBRARY_SIZES": json.dumps(sizes), "LIBRARY_SECONDS": str(SECONDS)}
        os.environ["LIBRARY_FOLDER"] = str(folder)
        sys.path[:0] = map(str, (ROOT, ROOT / "tests", library, library / "src"))
        sys.dont_write_bytecode = True
        os.chdir(library)
        options = ["--noconftest", "-c", os.devnull, "--rootdir", str(library), "-p", "library_cases", "-q"]
        code = pytest.main([*options, "-p", "no:cacheprovider", "-W", "ignore", file], plugins=[seen])
        os.chdir("/")
        if not rows.exists():
            return Outcome(reason=seen.faults[-1] if seen.faults else f"pytest ended with {code}")
        outcome = _outcome([json.loads(line) for line in rows.read_text().splitlines()])
        return outcome if outcome.reason else replace(outcome, reason=why)


class _Faults:
    """Keeps what went wrong."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._keep(report)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._keep(report)

    def _keep(self, report: Any) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        self.faults.append(crash.message if crash else str(report.longrepr).strip().splitlines()[-1])


def _syntax_error(path: Path) -> str:
    """What is wrong with the text of a file, empty when it is Python."""
    try:
        ast.parse(path.read_text())
    except SyntaxError as error:
        return f"{error.msg} in line {error.lineno}"
    return ""


def _outcome(rows: list[dict]) -> Outcome:
    """Of all tests that were selected; those that want a refusal are left out when others ran."""
    rows = [row for row in rows if not row.get("refused")] or rows
    worst = next((row for row in rows if row.get("right") is not True), rows[-1])
    return Outcome(
        ran=all("latency_us" in row for row in rows),
        right=worst.get("right"),
        error=max((row["error"] for row in rows if "error" in row), default=None),
        tolerance="its own",
        shapes=worst.get("shapes", ""),
        kernels=tuple({place for row in rows for place in row.get("kernels", ())}),
        guesses=tuple({call for row in rows for call in row.get("guesses", ())}),
        finding_count=worst.get("finding_count"),
        instructions=worst.get("instructions"),
        latency_us=worst.get("latency_us"),
        seconds=sum(row["seconds"] for row in rows),
        verdict=worst.get("verdict") or "",
        findings=tuple(filter(None, [worst.get("first_finding", "")])),
        reason=worst.get("reason", ""),
    )
