"""Operators against their NumPy references."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import sim.ops
from sim.ops.operator import specs

BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(BF16): 1e-2, np.dtype(FP8): 1e-2}
"""Of 1 + |value|, by the dtype of the inputs: sums are made in fp32, results rounded to 8 bits for bf16 and fp8."""


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0, scale: float = 1) -> np.ndarray:
    return (scale * np.random.default_rng((seed, *shape)).standard_normal(shape)).astype(dtype)


def errors(name: str, *inputs: Any, device: str = "trn2", lnc: int = 1, **scalars: Any) -> list[float]:
    """The largest error of each output, as a share of 1 + |value|; shapes, dtypes and findings are checked too."""
    found = sim.ops.operator(name)
    run = sim.ops.launch(name, *inputs, device=device, lnc=lnc, **scalars)
    expected = found.reference(*inputs, **scalars)
    expected = expected if isinstance(expected, tuple) else (expected,)
    promised = found.outputs(*specs(inputs), **scalars)
    assert run.findings == ()
    assert [(out.shape, out.dtype) for out in run.outputs] == [(s.shape, np.dtype(s.dtype)) for s in promised]
    assert [out.shape for out in run.outputs] == [value.shape for value in expected]
    return [float(np.max(np.abs(out.astype(float) - e) / (1 + np.abs(e)))) for out, e in zip(run.outputs, expected)]


def check(name: str, *inputs: Any, tolerance: float | None = None, **rest: Any) -> None:
    """Every output is as near its reference as the dtype of the first input allows."""
    allowed = TOLERANCE[inputs[0].dtype] if tolerance is None else tolerance
    found = errors(name, *inputs, **rest)
    assert max(found) < allowed, f"{name}: {found}, allowed {allowed}"
