"""Kernels that others published on PyPI run unmodified and agree with NumPy.

The packages declare torch, which their kernels do not use: their modules are loaded from the installed distribution
with a stub in its place. The runner of public kernels sets PYPI_SOURCES to a folder of unpacked sources.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import types
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.errors import InputError

MODULES = {
    "trnblas": "trnblas/nki/dispatch.py",
    "trnsparse": "trnsparse/nki/kernels.py",
    "trnrand": "trnrand/nki/dispatch.py",
    "trntensor": "trntensor/nki/_kernels.py",
    "trnfft": "trnfft/nki/dispatch.py",
    "trnfft.butterfly": "trnfft/nki/butterfly.py",
    "trnsolver": "trnsolver/nki/dispatch.py",
}
COMPARED: list[tuple[float, float]] = []
"""(largest error against the largest value, tolerance) of every comparison."""


class _Name(type):
    """A class whose attributes are such classes."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


class _Stub(types.ModuleType):
    """Any attribute of torch that a module mentions while it is imported."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


def _file(package: str, path: str) -> Path:
    """A file of an installed distribution, or of its unpacked source."""
    if folder := os.environ.get("PYPI_SOURCES"):
        return next(iter(sorted(Path(folder).glob(f"{package}-*/{path}"))))
    try:
        return Path(str(importlib.metadata.distribution(package).locate_file(path)))
    except importlib.metadata.PackageNotFoundError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{package} is not installed (pip install --no-deps {package})")


@cache
def module(package: str) -> types.ModuleType:
    file = _file(package.partition(".")[0], MODULES[package])
    stubbed = "torch" not in sys.modules
    if stubbed:
        sys.modules["torch"] = _Stub("torch")
    try:
        return sim.load(str(file))
    finally:
        if stubbed:
            del sys.modules["torch"]


def outputs(package: str, kernel: str, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    run = sim.run(getattr(module(package), kernel), *inputs, device="trn2")
    assert run.latency_ns > 0
    assert all(finding.kind == "undefined_accumulation" for finding in run.findings)
    return run.outputs


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got: np.ndarray, expected: np.ndarray, tolerance: float = 2e-6) -> None:
    """Largest error against the largest value."""
    assert got.shape == expected.shape
    error = float(np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max())
    COMPARED.append((error, tolerance))
    assert error <= tolerance


def equal(got: np.ndarray, expected: np.ndarray) -> None:
    COMPARED.append((float(np.count_nonzero(got != expected)), 0.0))
    np.testing.assert_array_equal(got, expected)


# -- matrix products -------------------------------------------------------------------------------

GEMMS = [f"_gemm_kernel_{m}_128_{n}" for m in (64, 128) for n in (128, 256, 512)]


@pytest.mark.parametrize("kernel", GEMMS)
def test_trnblas_gemm(kernel):
    a, b = normal(128, 256), normal(256, 512, seed=1)
    close(outputs("trnblas", kernel, a, b)[0], a @ b)


def test_trnblas_syrk():
    a = normal(256, 128)
    close(outputs("trnblas", "_syrk_kernel", a)[0], a @ a.T)


def test_trnsparse_dense_spmm():
    a, b = normal(128, 256), normal(256, 512, seed=1)
    close(outputs("trnsparse", "_spmm_dense_kernel", a, b)[0], a @ b)


def test_trnsparse_block_sparse_spmm():
    blocks, gathered = normal(2, 3, 128, 128), normal(2, 3, 128, 256, seed=1)
    expected = np.einsum("mkij,mkjn->min", blocks, gathered).reshape(256, 256)
    close(outputs("trnsparse", "_bsr_spmm_kernel", blocks, gathered)[0], expected)


def test_trnsparse_screened_spmm():
    a, b, q = normal(128, 128), normal(128, 256, seed=1), np.abs(normal(128, 1, seed=2))
    expected = (a * (q @ q.T > 0.5)) @ b
    close(outputs("trnsparse", "_screened_spmm_kernel", a, q, 0.5, b)[0], expected)


def test_trntensor_matmul():
    a, b = normal(128, 256), normal(256, 512, seed=1)
    close(outputs("trntensor", "matmul_kernel", a, b)[0], a @ b)


def test_trntensor_batched_matmul():
    a, b = normal(2, 128, 128), normal(2, 128, 256, seed=1)
    close(outputs("trntensor", "batched_matmul_kernel", a, b)[0], a @ b)


def test_trntensor_integral_transform():
    eri, occupied, virtual = normal(128, 128, 2), normal(128, 4, seed=1), normal(128, 16, seed=2)
    expected = np.einsum("mi,va,mvp->iap", occupied, virtual, eri, optimize=True)
    close(outputs("trntensor", "ao_to_mo_transform_kernel", eri, occupied, virtual)[0], expected)


# -- second-order perturbation energies ------------------------------------------------------------


def energies(occupied: int, virtual: int) -> tuple[np.ndarray, np.ndarray]:
    """Orbital energies: occupied below, virtual above zero."""
    return -1 - np.abs(normal(occupied, seed=7)), 1 + np.abs(normal(virtual, seed=8))


def pair_energies(t: np.ndarray, low_i: np.ndarray, low_j: np.ndarray, high: np.ndarray) -> np.ndarray:
    """sum over b of T (2 T - T^T) / (e_i + e_j - e_a - e_b), shape [i, j, a]."""
    gap = low_i[:, None, None, None] + low_j[None, :, None, None] - high[:, None] - high
    return (t * (2 * t - t.swapaxes(2, 3)) / gap).sum(axis=3)


def test_trnblas_mp2_energy():
    low, high = energies(3, 64)
    t = normal(2, 3, 64, 64)
    flat = np.ascontiguousarray(t.transpose(0, 2, 1, 3).reshape(2 * 64, 3 * 64))
    got = outputs("trnblas", "_mp2_energy_kernel", flat, low[None, :2], low[None], high[:, None], high[None])[0]
    expected = pair_energies(t, low[:2], low, high).transpose(2, 0, 1).reshape(64, 6)
    close(got, expected, 2e-5)


def test_trntensor_mp2_energy_is_refused():
    """It reshapes a column on chip to a row, which NkiTensor.reshape forbids: the partition dimension is preserved."""
    low, high = energies(2, 32)
    with pytest.raises(
        InputError, match=r"_kernels.py:\d+: NkiTensor.reshape: shape: \[1, 32\], dimension 0 .*\[32, 1\]"
    ):
        outputs("trntensor", "mp2_energy_kernel", normal(2, 32, 64), low[:, None], high[:, None])


def test_trnblas_fused_gemm_energy():
    b_i, b_j = normal(128, 128), normal(128, 128, seed=1)
    low, high = energies(2, 128)
    got = outputs("trnblas", "_fused_gemm_energy_kernel", b_i, b_j, low[:1].reshape(1, 1), high[:, None], high[None])[0]
    t = b_i @ b_j.T
    expected = (t * (2 * t - t.T) / (low[0] - high[:, None] - high)).sum(axis=1, keepdims=True)
    close(got, expected, 2e-5)


def test_trnblas_batched_pairs():
    b = normal(2, 128, 128)
    low, high = energies(2, 128)
    got = outputs("trnblas", "_batched_pair_kernel", b, low[None], high[:, None], high[None])[0]
    t = np.einsum("iap,jbp->ijab", b, b)
    close(got, pair_energies(t, low, low, high).transpose(2, 0, 1).reshape(128, 4), 2e-5)


def test_trnblas_pairs_of_one_orbital():
    b = normal(2, 128, 128)
    low, high = energies(2, 128)
    got = outputs("trnblas", "_j_batched_kernel", b[1], b, low[1:].reshape(1, 1), low[None], high[:, None], high[None])[
        0
    ]
    t = np.einsum("ap,jbp->jab", b[1], b)[None]
    close(got, pair_energies(t, low[1:], low, high)[0].T, 2e-5)


# -- block-sparse attention ------------------------------------------------------------------------


class Attention:
    """Two block rows that each attend to two blocks of 128 keys."""

    def __init__(self, head: int):
        self.q, self.k = normal(2, 128, head) / head**0.5, normal(2, 2, 128, head, seed=1)
        self.v, self.d_out = normal(2, 2, 128, head, seed=2), normal(2, 2, 128, head, seed=3)
        self.score = np.einsum("mqd,mkjd->mkqj", self.q, self.k)
        self.peak = self.score.max(axis=(1, 3))[..., None]
        self.total = np.exp(self.score - self.peak[:, None]).sum(axis=(1, 3))[..., None]
        self.share = np.exp(self.score - self.peak[:, None]) / self.total[:, None]
        self.delta = normal(2, 128, 1, seed=4)


@pytest.mark.parametrize("head", [64, 256])
def test_trnsparse_attention_statistics(head):
    case = Attention(head)
    peak, total = outputs("trnsparse", "_attn_stats_kernel", case.q, case.k)
    expected = case.score.max(axis=3, keepdims=True)
    close(peak, expected)
    close(total, np.exp(case.score - expected).sum(axis=3, keepdims=True), 5e-6)


@pytest.mark.parametrize("head", [64, 256])
def test_trnsparse_attention_output(head):
    case = Attention(head)
    got = outputs("trnsparse", "_attn_out_kernel", case.q, case.k, case.v, case.peak, case.total)[0]
    close(got, np.einsum("mkqj,mkjd->mqd", case.share, case.v).reshape(256, head), 5e-6)


@pytest.mark.parametrize("head", [64, 256])
def test_trnsparse_attention_gradient_of_queries(head):
    case = Attention(head)
    inputs = (case.q, case.k, case.v, case.d_out, case.delta, case.peak, case.total)
    got = outputs("trnsparse", "_attn_bwd_dq_kernel", *inputs)[0]
    d_share = np.einsum("mkqd,mkjd->mkqj", case.d_out, case.v)
    d_score = case.share * (d_share - case.delta[:, None])
    close(got, np.einsum("mkqj,mkjd->mqd", d_score, case.k).reshape(256, head), 1e-5)


@pytest.mark.parametrize("head", [64, 256])
def test_trnsparse_attention_gradient_of_keys_and_values(head):
    k, v = normal(2, 128, head) / head**0.5, normal(2, 128, head, seed=1)
    q, d_out = normal(2, 2, 128, head, seed=2), normal(2, 2, 128, head, seed=3)
    delta = normal(2, 2, 128, 1, seed=4)
    score = np.einsum("kmqd,kjd->kmqj", q, k)
    peak = score.max(axis=3, keepdims=True)
    total = np.exp(score - peak).sum(axis=3, keepdims=True)
    d_k, d_v = outputs("trnsparse", "_attn_bwd_dkdv_kernel", k, v, q, d_out, delta, peak, total)
    share = np.exp(score - peak) / total
    d_score = share * (np.einsum("kmqd,kjd->kmqj", d_out, v) - delta)
    close(d_k, np.einsum("kmqj,kmqd->kjd", d_score, q).reshape(256, head), 1e-5)
    close(d_v, np.einsum("kmqj,kmqd->kjd", share, d_out).reshape(256, head), 1e-5)


# -- random numbers: integers are exact ------------------------------------------------------------

WORD = 0xFFFFFFFF


def as_uint32(words: np.ndarray) -> np.ndarray:
    """int32 -> uint32 as `tensor_copy` is documented: through fp32, saturating."""
    return np.clip(words.astype(np.float32).astype(np.float64), 0, WORD).astype(np.uint32)


def as_int32(words: np.ndarray) -> np.ndarray:
    """uint32 -> int32 through fp32, saturating."""
    return np.clip(words.astype(np.float32).astype(np.float64), None, 2**31 - 1).astype(np.int32)


def philox_on_device(counter: np.ndarray, key: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Philox 4x32-10 (Salmon et al., SC'11) with the kernel's casts between signed and unsigned words.

    The casts pass through fp32 and lose bits beyond 2^24, which is why the package expects its own published vectors
    to fail (aws-neuron-sdk#1308).
    """
    c, k = [counter, *[np.zeros_like(counter)] * 3], list(key)
    for _ in range(10):
        product = [as_uint32(c[i]).astype(np.uint64) * m for i, m in ((0, 0xD2511F53), (2, 0xCD9E8D57))]
        high = [as_int32((p >> np.uint64(32)).astype(np.uint32)) for p in product]
        low = [as_int32(p.astype(np.uint32)) for p in product]
        c = [high[1] ^ c[1] ^ k[0], low[1], high[0] ^ c[3] ^ k[1], low[0]]
        k = [as_int32(as_uint32(word) + np.uint32(weyl)) for word, weyl in zip(k, (0x9E3779B9, 0xBB67AE85))]
    return np.concatenate(c, axis=1)


def threefry(counter: list[int], key: list[int]) -> list[int]:
    """Threefry 4x32-20 (Salmon et al., SC'11)."""
    turn = [(10, 26), (11, 21), (13, 27), (23, 5)]
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ 0x1BD11BDA]
    x = [(a + b) & WORD for a, b in zip(counter, keys)]

    def mix(a: int, b: int, bits: int) -> None:
        x[a] = (x[a] + x[b]) & WORD
        x[b] = (((x[b] << bits) | (x[b] >> (32 - bits))) & WORD) ^ x[a]

    for r in range(20):
        other = (1, 3) if r % 2 == 0 else (3, 1)
        mix(0, other[0], turn[r % 4][0])
        mix(2, other[1], turn[r % 4][1])
        if r % 4 == 3:
            step = r // 4 + 1
            x = [(x[i] + keys[(step + i) % 5] + (step if i == 3 else 0)) & WORD for i in range(4)]
    return x


def column(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64).astype(np.uint32).view(np.int32).reshape(-1, 1)


def test_trnrand_philox_loses_only_what_its_casts_are_documented_to_lose():
    counters, low, high = column([0, WORD, 0x243F6A88, *range(5, 130)]), column([9] * 128), column([0x12345678] * 128)
    got = outputs("trnrand", "philox4x32_kernel", counters, low, high)[0]
    equal(got, philox_on_device(counters, (low, high)))


def threefry_inputs() -> list[list[int]]:
    lanes = list(range(128))
    return [lanes, [3] * 128, [0] * 128, [0] * 128, [0x123456] * 128, [0xABCDE] * 128, [0] * 128, [0] * 128]


def threefry_uniforms() -> np.ndarray:
    words = [threefry(list(row[:4]), list(row[4:])) for row in zip(*threefry_inputs())]
    return (np.array(words, np.uint32) & 0xFFFFFF).astype(np.float32) / np.float32(1 << 24)


def test_trnrand_threefry_is_exact():
    got = outputs("trnrand", "threefry4x32_kernel", *[column(words) for words in threefry_inputs()])[0]
    equal(got, threefry_uniforms())


def box_muller(u1: np.ndarray, u2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    radius = np.sqrt(-2 * np.log(u1.astype(np.float64)))
    return radius * np.cos(2 * np.pi * u2), radius * np.sin(2 * np.pi * u2)


def test_trnrand_threefry_normals():
    got = outputs("trnrand", "threefry_normal_kernel", *[column(words) for words in threefry_inputs()])[0]
    u = np.maximum(threefry_uniforms(), np.float32(1e-7))
    expected = np.stack([*box_muller(u[:, 0], u[:, 1]), *box_muller(u[:, 2], u[:, 3])], axis=1)
    close(got, expected, 5e-6)


def test_trnrand_box_muller():
    pairs = np.random.default_rng(0).random((128, 2), np.float32)
    got = outputs("trnrand", "box_muller_kernel", pairs)[0]
    close(got, np.stack(box_muller(np.maximum(pairs[:, 0], 1e-10), pairs[:, 1]), axis=1), 5e-6)


def test_trnrand_sobol_is_exact():
    index = np.arange(128)
    got = outputs("trnrand", "sobol_gray_code_kernel", (index ^ (index >> 1)).astype(np.int32).reshape(-1, 1))[0]
    first = [int(f"{i:07b}"[::-1], 2) / 128 for i in range(128)]
    gray_order = np.array(first)[index ^ (index >> 1)]
    equal(got[:, 0], gray_order.astype(np.float32))
    assert all(np.unique(np.floor(got[:, d] * 128)).size == 128 for d in range(10))


def test_trnrand_halton():
    index = np.arange(1, 129)
    got = outputs("trnrand", "halton_kernel", index.astype(np.int32).reshape(-1, 1))[0]
    expected = np.stack([[radical_inverse(i, p) for i in index] for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)], axis=1)
    close(got, expected, 1e-6)


def radical_inverse(number: int, base: int) -> float:
    value, place = 0.0, 1.0 / base
    while number:
        value += (number % base) * place
        number, place = number // base, place / base
    return value


# -- Fourier transforms, of the legacy API ---------------------------------------------------------


def complex_normal(*shape: int, seed: int = 0) -> np.ndarray:
    return normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 100)


def halves(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(array.real, np.float32), np.ascontiguousarray(array.imag, np.float32)


def close_complex(got: tuple[np.ndarray, ...], expected: np.ndarray, tolerance: float = 2e-6) -> None:
    for part, wanted in zip(got, (expected.real, expected.imag), strict=True):
        close(part, wanted, tolerance)


def test_trnfft_complex_gemm():
    a, b = complex_normal(128, 256), complex_normal(256, 512, seed=1)
    close_complex(outputs("trnfft", "_complex_gemm_kernel", *halves(a), *halves(b)), a @ b)


def test_trnfft_complex_linear():
    x, w = complex_normal(128, 128), complex_normal(128, 128, seed=1)
    close_complex(outputs("trnfft", "_complex_linear_kernel", *halves(x), *halves(w)), x @ w.T)


def test_trnfft_complex_product():
    a, b = complex_normal(64, 1024), complex_normal(64, 1024, seed=1)
    close_complex(outputs("trnfft", "_complex_mul_kernel", *halves(a), *halves(b)), a * b)


def bit_reversed(x: np.ndarray) -> np.ndarray:
    bits = x.shape[-1].bit_length() - 1
    return x[..., [int(f"{i:0{bits}b}"[::-1], 2) for i in range(x.shape[-1])]]


@pytest.mark.parametrize("kernel", ["butterfly_stage_kernel", "butterfly_stage_kernel_kahan"])
def test_trnfft_butterfly(kernel):
    batch, n = 4, 32
    x = complex_normal(batch, n)
    y = bit_reversed(x)
    for stage in range(5):
        half = 1 << stage
        twiddles = np.broadcast_to(np.exp(-1j * np.pi * np.arange(half) / half), (batch * n // (2 * half), half))
        run = sim.run(getattr(module("trnfft.butterfly"), kernel), *halves(y), *halves(twiddles), n, stage)
        y = run.outputs[0] + 1j * run.outputs[1]
    close_complex(halves(y), np.fft.fft(x))


# -- eigenvalues, of the legacy API ----------------------------------------------------------------


def test_trnsolver_jacobi_rotation():
    n, p, q, c, s = 16, 3, 7, 0.8, 0.6
    d, v = normal(n, n), normal(n, n, seed=1)
    want_d, want_v = d.copy(), v.copy()
    for matrix in (want_d, want_d.T, want_v.T):
        matrix[[p, q]] = np.stack([c * matrix[p] - s * matrix[q], s * matrix[p] + c * matrix[q]])
    want_d[p, q] = want_d[q, p] = 0
    outputs("trnsolver", "jacobi_rotation_kernel", d, v, p, q, c, s, n)
    close(d, want_d)
    close(v, want_v)
