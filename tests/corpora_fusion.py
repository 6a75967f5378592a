"""trainium-kernel-fusion: attention, softmax and MLP kernels, before and after fusion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim.engines.functions import ACTIVATIONS
from tests.corpora import Case, Check, Launch, Outcome, imported, measure

FOLDER = "trainium-kernel-fusion/kernels"
SEQUENCE = 1024
NEAR = Check(rtol=1e-5, atol=1e-2)
"""The tolerance of the kernels' own checks."""


def _attention(generator: np.random.Generator) -> tuple[tuple, Callable[[], Any]]:
    q, k, v = (generator.uniform(-1, 1, (128, SEQUENCE)).astype(np.float32) for _ in range(3))

    def reference() -> np.ndarray:
        scores = q.T @ k
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True) @ v.T

    return (q, k, v), reference


def _softmax(generator: np.random.Generator) -> tuple[tuple, Callable[[], Any]]:
    x = generator.normal(size=(256, SEQUENCE)).astype(np.float32)

    def reference() -> np.ndarray:
        powers = np.exp(x - x.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    return (x,), reference


def gelu(x: np.ndarray) -> np.ndarray:
    return ACTIVATIONS["gelu"].apply(x.astype(np.float32))


def _mlp(generator: np.random.Generator, activated: bool) -> tuple[tuple, Callable[[], Any]]:
    m, k, n = 256, 512, 1024
    x, w = generator.normal(size=(k, m)).astype(np.float32), generator.normal(size=(k, n)).astype(np.float32)
    bias = generator.normal(size=(1, n)).astype(np.float32)
    return (x, w, bias), lambda: gelu(x.T @ w + bias) if activated else x.T @ w + bias


def _gelu(generator: np.random.Generator) -> tuple[tuple, Callable[[], Any]]:
    y = generator.normal(size=(256, 1024)).astype(np.float32)
    return (y,), lambda: gelu(y)


KERNELS: dict[tuple[str, str], Callable[[np.random.Generator], tuple[tuple, Callable[[], Any]]]] = {
    ("baseline/attention.py", "baseline_attention"): _attention,
    ("fused/attention.py", "fused_attention"): _attention,
    ("baseline/softmax.py", "softmax_kernel"): _softmax,
    ("baseline/mlp_gemm.py", "gemm_kernel"): partial(_mlp, activated=False),
    ("baseline/mlp_gemm.py", "gelu_kernel"): _gelu,
    ("fused/mlp.py", "fused_mlp_pwl"): partial(_mlp, activated=True),
    ("fused/mlp.py", "fused_mlp_taylor"): partial(_mlp, activated=True),
}


def cases(folder: Path) -> list[Case]:
    return [
        Case("kernel-fusion", f"{FOLDER}/{file}", name, partial(run, f"{FOLDER}/{file}", name, prepare))
        for (file, name), prepare in KERNELS.items()
        if (folder / FOLDER / file).exists()
    ]


def run(file: str, name: str, prepare: Callable[..., tuple], folder: Path) -> Outcome:
    inputs, reference = prepare(np.random.default_rng(0))
    with imported(folder / file, "trn2") as module:
        return measure(Launch(getattr(module, name), inputs, reference, NEAR), "trn2")
