"""The selective scan against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal


def inputs(batch: int, times: int, channels: int, states: int, dtype: Any = np.float32) -> list[np.ndarray]:
    x, step = normal(batch, times, channels, dtype=dtype), normal(batch, times, channels, dtype=dtype, seed=1)
    decay = -np.exp(normal(channels, states))
    b, c = (normal(batch, times, states, dtype=dtype, seed=seed, scale=states**-0.5) for seed in (2, 3))
    return [x, step, decay, b, c, normal(channels, dtype=dtype)]


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(
    ("batch", "times", "channels", "states"), [(1, 300, 130, 16), (2, 37, 20, 3), (1, 5, 1, 1), (2, 1, 260, 16)]
)
def test_ssm_scan(batch: int, times: int, channels: int, states: int, dtype: type) -> None:
    check("ssm_scan", *inputs(batch, times, channels, states, dtype))


@pytest.mark.parametrize("times", [1, 3, 40])
def test_a_sequence_goes_on_from_a_state(times: int) -> None:
    given = inputs(2, 80, 140, 4)
    whole, last = sim.ops.operator("ssm_scan").reference(*given)
    first = [one[:, :times] if one.ndim == 3 else one for one in given]
    rest = [one[:, times:] if one.ndim == 3 else one for one in given]
    y, state = sim.ops.launch("ssm_scan", *first).outputs
    more, end = sim.ops.launch("ssm_scan", *rest, state).outputs
    assert np.allclose(np.concatenate([y, more], axis=1), whole, atol=1e-4)
    assert np.allclose(end, last, atol=1e-4)


def test_steps_as_they_are_and_nothing_past_the_states() -> None:
    x, step, decay, b, c, _ = inputs(1, 50, 6, 2)
    check("ssm_scan", x, np.abs(step), decay, b, c, softplus=False)


@pytest.mark.parametrize("times", [2, 30])
def test_two_cores_share_the_channels(times: int) -> None:
    check("ssm_scan", *inputs(1, times, 300, 8), lnc=2)


def test_the_scan_keeps_vector_engine_busy() -> None:
    """Two cycles an element of 512 times, 5120 channels and 16 states, at 0.96 GHz and 128 lanes."""
    x, states = TensorSpec((1, 512, 5120), "bfloat16"), TensorSpec((1, 512, 16), "bfloat16")
    decay, skip = TensorSpec((5120, 16), "float32"), TensorSpec((5120,), "bfloat16")
    run = sim.ops.launch("ssm_scan", x, x, decay, states, states, skip, values=False)
    assert run.latency_ns < 2 * 512 * 5120 * 16 / 128 / 0.96 / 0.85


def test_shapes_that_do_not_fit_are_refused() -> None:
    given = [TensorSpec(one.shape, "float32") for one in inputs(1, 8, 4, 2)]
    given[3] = TensorSpec((1, 8, 3), "float32")
    with pytest.raises(InputError, match=r"ssm_scan: b: shape \[1, 8, 3\], must be \[1, 8, 2\]"):
        sim.ops.launch("ssm_scan", *given, values=False)
