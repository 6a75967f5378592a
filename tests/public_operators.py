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
TUTORIALS = "nki-samples/src/nki_samples/tutorials"
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


def tutorial_scan(channels: int, times: int, dtype: str) -> Timing:
    """The fastest of nki-samples' three scans; channels come before times, and steps as they are."""

    def time(folder: Path) -> float:
        kernels = f"{folder / TUTORIALS}/fused_mamba/mamba_nki_kernels.py"
        shapes = ((1, channels, times), (1, channels, times), (channels, 16), (1, 16, times), (1, 16, times))
        inputs = [_spec(*shape, dtype=dtype) for shape in shapes]
        found = [sim.load(f"{kernels}::mamba_{version}") for version in ("v2", "v3")]
        return min(sim.run(kernel, *inputs, values=False).latency_ns for kernel in found)

    return time


def library_conv1d(channels: int, outputs: int, width: int, stride: int) -> Timing:
    """nki-library's, with three taps and weights [k, C, O]."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / LIBRARY}/experimental/conv/conv1d.py::conv1d")
        inputs = (_spec(1, channels, width), _spec(3, channels, outputs), _spec(outputs))
        return sim.run(kernel, *inputs, stride=stride, padding=(1, 1), values=False).latency_ns

    return time


def library_depthwise(channels: int, width: int, taps: int) -> Timing:
    """nki-library's on its two cores."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder / LIBRARY}/experimental/conv/depthwise_conv1d.py::depthwise_conv1d_implicit_gemm")
        inputs = (_spec(1, channels, 1, width), _spec(channels, 1, 1, taps))
        return sim.run(kernel, *inputs, feature_group_count=channels, lnc=2, values=False).latency_ns

    return time


def tutorial_avg_pool(channels: int, size: int) -> Timing:
    """nki-samples' mean of 2 x 2."""

    def time(folder: Path) -> float:
        kernels = f"{folder / TUTORIALS}/average_pool2d/average_pool2d_nki_kernels.py"
        kernel = sim.load(f"{kernels}::tensor_avgpool_kernel")
        return sim.run(kernel, _spec(channels, size, size), 2, values=False).latency_ns

    return time


def contributed_max_pool(size: int) -> Timing:
    """nki-samples' largest of 3 x 3 at every place of one image."""

    def time(folder: Path) -> float:
        kernel = sim.load(f"{folder}/nki-samples/contributed/maxpooling.py::max_pooling_2d_stride_1")
        return sim.run(kernel, _spec(size, size), 3, values=False).latency_ns

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
