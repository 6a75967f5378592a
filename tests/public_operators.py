"""Public kernels at the shapes of our operators: emulated times to compare with.

FOLDER holds checkouts under their GitHub names, as for `tests/corpora.py`; nothing of them is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import sim
from sim.launch import TensorSpec
from tests.corpora import imported
from tests.corpora_accelopt import with_prelude

BF16 = "bfloat16"
MATMULS = "nki-samples/src/nki_samples/tutorials/matrix_multiplication/matrix_multiplication_nki_kernels.py"
LIBRARY = "nki-library/src/nkilib_src/nkilib"
BENCH = "AccelOpt/NKIBench"
Timing = Callable[[Path], float]
"""Folder -> nanoseconds."""


def _spec(*shape: int, dtype: str = BF16) -> TensorSpec:
    return TensorSpec(shape, dtype)


def tutorial_matmul(m: int, k: int, n: int) -> Timing:
    """nki-samples' fastest of five; x comes transposed."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / MATMULS}::nki_matmul_fully_optimized_")
        return sim.run(kernel, _spec(k, m), _spec(k, n), values=False).latency_ns

    return time


def library_attention(heads: int, queries: int, causal: bool) -> Timing:
    """Prefill of nki-library; keys come transposed."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / LIBRARY}/core/attention/attention_cte.py::attention_cte")
        inputs = (_spec(heads, queries, 128), _spec(1, 128, queries), _spec(1, queries, 128))
        return sim.run(kernel, *inputs, scale=128**-0.5, causal_mask=causal, values=False).latency_ns

    return time


def library_attention_backward(queries: int, causal: bool) -> Timing:
    """Backward pass of nki-library; all operands come transposed."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / LIBRARY}/core/attention/attention_bwd.py::attention_bwd")
        whole, sums = _spec(1, 1, 128, queries), _spec(1, 1, 128, queries // 128, dtype="float32")
        options = {"use_causal_mask": causal, "mixed_precision": True}
        return sim.run(kernel, *[whole] * 5, sums, values=False, **options).latency_ns

    return time


def library_cross_entropy(rows: int, words: int) -> Timing:
    """Forward pass of nki-library on its two cores."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / LIBRARY}/experimental/loss/cross_entropy.py::cross_entropy_forward")
        inputs = (_spec(rows, words), _spec(rows, dtype="int32"))
        return sim.run(kernel, *inputs, values=False, lnc=2, positions_per_batch=128, chunk_size=8192).latency_ns

    return time


def library_rope(queries: int) -> Timing:
    """nki-library's in the layout of Hugging Face, 32 heads of queries and 8 of keys."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / LIBRARY}/core/embeddings/rope_hf.py::rope_hf")
        q, k, angles = _spec(1, 32, queries, 128), _spec(1, 8, queries, 128), _spec(1, queries, 128)
        return sim.run(kernel, q, k, q, k, angles, angles, values=False).latency_ns

    return time


def bench(name: str) -> Timing:
    """A kernel of NKIBench, fp32 on one Trn1 core, as AccelOpt starts from it."""

    def time(folder: Path) -> float:
        (reference_path,) = (folder / BENCH / "reference").glob(f"{name}_*numpy*.py")
        path = folder / BENCH / "kernels" / f"{name}_0.py"
        with imported(reference_path, "trn1") as reference, with_prelude(path) as module:
            given = reference.transform_to_nki_inputs(reference.get_inputs())
            inputs = [TensorSpec(one.shape, one.dtype) for one in given]
            return sim.run(module.kernel, *inputs, device="trn1", values=False).latency_ns

    return time
