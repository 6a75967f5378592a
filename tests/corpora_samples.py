"""nki-samples: the tutorials' and the community's kernels of the legacy API, with references of our own words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpora import Case, Check, Launch, Outcome, imported, measure

TUTORIALS, CONTRIBUTED = "nki-samples/src/nki_samples/tutorials", "nki-samples/contributed"
TORCH = ("torch", "torch.nn", "torch.nn.functional", "torch_xla", "torch_xla.core", "torch_xla.core.xla_model")
"""Imported at the top of files whose kernels do without."""


@dataclass(frozen=True)
class Sample:
    """inputs : (generator) -> arrays and numbers; reference : (*inputs) -> what the kernel must return"""

    file: str
    kernel: str
    inputs: Callable[[np.random.Generator], tuple]
    reference: Callable[..., Any]
    check: Check
    stubs: tuple[str, ...] = ()
    scalars: dict[str, Any] = field(default_factory=dict)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """q, k, v [d, sequence] -> [sequence, d]"""
    q, k, v = (side.astype(np.float32) for side in (q, k, v))
    scores = q.T @ k
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True) @ v.T


def _qkv(generator: np.random.Generator, sequence: int) -> tuple:
    return tuple(generator.uniform(-1, 1, (128, sequence)).astype(np.float32) for _ in range(3))


def mamba(delta: np.ndarray, u: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The selective scan; delta, u [batch, channel, time], a [channel, state], b, c [batch, state, time]"""
    decay = np.exp(delta[:, :, None] * a[None, :, :, None])
    drive = (delta * u)[:, :, None] * b[:, None]
    state, out = np.zeros(decay.shape[:3], np.float32), np.empty_like(delta)
    for step in range(delta.shape[-1]):
        state = decay[..., step] * state + drive[..., step]
        out[..., step] = (state * c[:, None, :, step]).sum(-1)
    return out


def _mamba_inputs(generator: np.random.Generator) -> tuple:
    batch, channels, states, time = 1, 256, 16, 512
    wide, narrow = (batch, channels, time), (batch, states, time)
    shapes = (wide, wide, (channels, states), narrow, narrow)
    return tuple(
        generator.uniform(0, 1, shape).astype(np.float32) * (-1 if i == 2 else 1) for i, shape in enumerate(shapes)
    )


def _added(generator: np.random.Generator, rows: int, columns: int) -> tuple:
    return tuple(generator.uniform(0, 1, (rows, columns)).astype(np.float16) for _ in range(2))


def pooled(x: np.ndarray, size: int) -> np.ndarray:
    c, h, w = x.shape
    return x.reshape(c, h // size, size, w // size, size).mean((2, 4), dtype=np.float32)


def transposed(x: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return x.reshape(len(x), *shape).transpose(0, 2, 1).reshape(len(x), -1)


def max_pooled(x: np.ndarray, size: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size)).max((2, 3))


def doubled(x: np.ndarray) -> np.ndarray:
    """Linear interpolation to twice the size along all but the first two dimensions, as torch does without corners."""
    for axis in range(2, x.ndim):
        size = x.shape[axis]
        place = (np.arange(2 * size) + 0.5) / 2 - 0.5
        low = np.clip(np.floor(place).astype(int), 0, size - 1)
        high = np.minimum(low + 1, size - 1)
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        part = np.clip(place - low, 0, 1).reshape(shape).astype(np.float32)
        x = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    return x


ATTENTION = f"{TUTORIALS}/attention_fwd_performance/attention_kernels.py"
ADDITION = f"{TUTORIALS}/tensor_addition"
EXACT, HALF = Check(rtol=0, atol=0), Check(rtol=1e-2, atol=1e-4)
SAMPLES = [
    *(
        Sample(ATTENTION, f"attn_fwd_{v}", partial(_qkv, sequence=128), attention, Check(rtol=1e-5, atol=1e-2))
        for v in ("v1", "v2")
    ),
    *(
        Sample(ATTENTION, f"attn_fwd_{v}", partial(_qkv, sequence=4096), attention, Check(rtol=1e-5, atol=1e-2))
        for v in ("v3", "v4", "v5", "v6", "v7", "v8", "v8a", "v9", "v10", "v11")
    ),
    Sample(
        f"{TUTORIALS}/average_pool2d/average_pool2d_nki_kernels.py",
        "tensor_avgpool_kernel",
        lambda generator: (np.arange(72, dtype=np.float16).reshape(2, 6, 6), 2),
        pooled,
        EXACT,
    ),
    Sample(
        f"{TUTORIALS}/transpose2d/transpose2d_nki_kernels.py",
        "tensor_transpose2D_kernel_",
        lambda generator: (np.arange(60, dtype=np.int8).reshape(5, 12), (3, 4)),
        transposed,
        EXACT,
    ),
    Sample(
        f"{ADDITION}/tensor_addition_nki_kernels.py",
        "nki_tensor_add",
        partial(_added, rows=256, columns=1024),
        np.add,
        HALF,
    ),
    Sample(
        f"{ADDITION}/spmd_tensor_addition_nki_kernels.py",
        "nki_tensor_add",
        partial(_added, rows=256, columns=1024),
        np.add,
        HALF,
    ),
    Sample(
        f"{ADDITION}/spmd_multiple_nc_tensor_addition_nki_kernels.py",
        "nki_tensor_add_nc2",
        partial(_added, rows=512, columns=2048),
        np.add,
        HALF,
    ),
    *(
        Sample(f"{TUTORIALS}/fused_mamba/mamba_nki_kernels.py", f"mamba_{v}", _mamba_inputs, mamba, Check(l2=2e-5))
        for v in ("v1", "v2", "v3")
    ),
    Sample(
        f"{CONTRIBUTED}/matmul.py",
        "matmul",
        lambda generator: tuple(generator.uniform(0, 1, (1024, n)).astype(np.float16) for n in (4096, 2048)),
        lambda a, b: a.astype(np.float32).T @ b.astype(np.float32),
        HALF,
    ),
    Sample(
        f"{CONTRIBUTED}/maxpooling.py",
        "max_pooling_2d_stride_1",
        lambda generator: (generator.uniform(0, 1, (448, 448)).astype(np.float32), 3),
        max_pooled,
        Check(rtol=1.3e-6, atol=1e-5),
        TORCH,
    ),
    Sample(
        f"{CONTRIBUTED}/interpolate_bilinear_fwd.py",
        "interpolate_bilinear_2x_fwd",
        lambda generator: (generator.uniform(0, 1, (2, 64, 128, 128)).astype(np.float32),),
        doubled,
        HALF,
        TORCH,
    ),
    Sample(
        f"{CONTRIBUTED}/interpolate_trilinear_fwd.py",
        "interpolate_trilinear_2x_fwd",
        lambda generator: (generator.uniform(0, 1, (1, 128, 16, 16, 16)).astype(np.float32),),
        doubled,
        HALF,
        TORCH,
    ),
]


def cases(folder: Path) -> list[Case]:
    found = [Case("nki-samples", s.file, s.kernel, partial(run, s)) for s in SAMPLES if (folder / s.file).exists()]
    pipelined = f"{CONTRIBUTED}/pipelined_attention.py"
    if (folder / pipelined).exists():
        found.append(Case("nki-samples", pipelined, "flash_fwd", partial(run_at_import, pipelined)))
    return found


def run(sample: Sample, folder: Path) -> Outcome:
    """A function that launches kernels itself is called; a kernel is run."""
    from sim.nki.kernel import Kernel

    inputs = sample.inputs(np.random.default_rng(0))
    with imported(folder / sample.file, "trn2", sample.stubs) as module:
        kernel = getattr(module, sample.kernel)
        launch = Launch(kernel, inputs, lambda: sample.reference(*inputs), sample.check, sample.scalars)
        if isinstance(kernel, Kernel) or sample.kernel == "matmul":
            return measure(launch, "trn2")
        return called(launch)


def called(launch: Launch) -> Outcome:
    """A host function that launches kernels."""
    import time

    from sim.nki import shim
    from tests.corpora import compared, shapes_of, timed

    started = time.perf_counter()
    result = launch.kernel(*launch.inputs)
    seconds = time.perf_counter() - started
    known = timed(shim.setting.get().launches[-1])
    return Outcome(
        ran=True,
        seconds=seconds,
        shapes=shapes_of(launch.inputs),
        tolerance=str(launch.check),
        **known,
        **compared(launch, result),
    )


def run_at_import(file: str, folder: Path) -> Outcome:
    """A script that launches its kernel, and compares with its reference, when it is imported."""
    from sim.nki import shim
    from tests.corpora import timed

    with imported(folder / file, "trn2"):
        launches = shim.setting.get().launches
        return Outcome(ran=True, right=True, tolerance="its own", shapes=str(ml_dtypes.bfloat16), **timed(launches[-1]))
