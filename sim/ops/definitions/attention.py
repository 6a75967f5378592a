"""Attention."""

from __future__ import annotations

import numpy as np

from sim import dtypes
from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_dtype, check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator, itemsize, nbytes

Array = np.ndarray
LARGEST_HEAD, LARGEST_GRADIENT = 512, 256
LARGEST_GROUP = 128
"""Query heads that share a key head in a decode step: each takes a partition."""


def visible(queries: int, keys: int, causal: bool, window: int | None) -> Array:
    """bool [queries, keys]: query i stands at keys - queries + i"""
    distance = (keys - queries + np.arange(queries))[:, None] - np.arange(keys)[None, :]
    seen = distance >= 0 if causal else np.ones(distance.shape, bool)
    return seen & (distance < window) if window else seen


def grouped(kv: Array, heads: int) -> Array:
    """Keys or values [B, Hkv, T, D], each head repeated for the queries' heads that share it."""
    return np.repeat(wide(kv), heads // kv.shape[1], axis=1)


def probabilities(
    q: Array, k: Array, causal: bool = False, window: int | None = None, scale: float | None = None
) -> tuple[Array, Array]:
    """softmax [B, Hq, S, T], and the logarithm of its sums [B, Hq, S]"""
    scores = wide(q) @ np.swapaxes(grouped(k, q.shape[1]), -1, -2) * (scale or q.shape[3] ** -0.5)
    scores = np.where(visible(q.shape[2], k.shape[2], causal, window), scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / total, (largest + np.log(total))[..., 0]


def attention(
    q: Array,
    k: Array,
    v: Array,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    lse: bool = False,
) -> Array | tuple[Array, Array]:
    """q [B, Hq, S, D], k and v [B, Hkv, T, D]"""
    shares, sums = probabilities(q, k, causal, window, scale)
    out = shares @ grouped(v, q.shape[1])
    return (out, sums) if lse else out


def check_attention(name: str, q: TensorSpec, k: TensorSpec, v: TensorSpec, causal: bool, window: int | None) -> None:
    check_shape(name, "q", q, ("B", "Hq", "S", "D"))
    check_shape(name, "k", k, (q.shape[0], "Hkv", "T", q.shape[3]))
    check_shape(name, "v", v, (*k.shape[:3], "D"))
    if q.shape[1] % k.shape[1]:
        raise InputError(f"{name}: k: {k.shape[1]} heads, q has {q.shape[1]}, which must be a multiple")
    most = LARGEST_HEAD if name == "attention" else LARGEST_GRADIENT
    if max(q.shape[3], v.shape[3]) > most:
        raise InputError(f"{name}: q: heads of {q.shape[3]} values, at most {most} fit into PSUM")
    if causal and q.shape[2] > k.shape[2]:
        raise InputError(f"{name}: q: {q.shape[2]} positions and {k.shape[2]} keys: causal queries need as many keys")
    if window and not causal:
        raise InputError(f"{name}: window: {window}, only a causal query has one")


def _outputs(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    lse: bool = False,
) -> tuple[TensorSpec, ...]:
    check_attention("attention", q, k, v, causal, window)
    out = TensorSpec((*q.shape[:3], v.shape[3]), q.dtype)
    return (out, TensorSpec(tuple(q.shape[:3]), dtypes.float32)) if lse else (out,)


def seen_pairs(queries: int, keys: int, causal: bool, window: int | None) -> int:
    """Pairs of a query and a key that it sees."""
    if not causal:
        return queries * keys
    last = np.arange(keys - queries + 1, keys + 1, dtype=np.int64)
    return int(np.minimum(last, window or keys).sum())


def _flops(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, causal: bool = False, window: int | None = None, **scalars: object
) -> int:
    """Of the two products, over the pairs that are seen."""
    batch, heads, queries, depth = q.shape
    return 2 * batch * heads * seen_pairs(queries, k.shape[2], causal, window) * (depth + v.shape[3])


def attention_backward(
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    dout: Array,
    lse: Array,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> tuple[Array, Array, Array]:
    """dq [B, Hq, S, D], dk and dv [B, Hkv, T, D]"""
    heads, factor = q.shape[1], scale or q.shape[3] ** -0.5
    shares, _ = probabilities(q, k, causal, window, scale)
    delta = (wide(dout) * wide(out)).sum(axis=-1, keepdims=True)
    ds = factor * shares * (wide(dout) @ np.swapaxes(grouped(v, heads), -1, -2) - delta)
    dk, dv = np.swapaxes(ds, -1, -2) @ wide(q), np.swapaxes(shares, -1, -2) @ wide(dout)
    shape = (*k.shape[:2], heads // k.shape[1], *k.shape[2:])
    return ds @ grouped(k, heads), dk.reshape(shape).sum(axis=2), dv.reshape(shape).sum(axis=2)


def _backward_outputs(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    out: TensorSpec,
    dout: TensorSpec,
    lse: TensorSpec,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> tuple[TensorSpec, ...]:
    name = "attention_backward"
    check_attention(name, q, k, v, causal, window)
    check_shape(name, "v", v, tuple(k.shape))
    for argument, spec in (("out", out), ("dout", dout)):
        check_shape(name, argument, spec, tuple(q.shape))
    check_shape(name, "lse", lse, tuple(q.shape[:3]))
    return tuple(TensorSpec(tuple(spec.shape), spec.dtype) for spec in (q, k, v))


def _backward_flops(
    q: TensorSpec, k: TensorSpec, *rest: object, causal: bool = False, window: int | None = None, **scalars: object
) -> int:
    """Of the five products, over the pairs that are seen."""
    batch, heads, queries, depth = q.shape
    return 10 * batch * heads * seen_pairs(queries, k.shape[2], causal, window) * depth


def decode_attention(
    q: Array, k_cache: Array, v_cache: Array, block_table: Array, lengths: Array, scale: float | None = None
) -> Array:
    """q [B, Hq, D], caches [P, Hkv, page, D], block_table [B, n], lengths [B]"""
    out = np.zeros(q.shape)
    for b, (pages, count) in enumerate(zip(block_table, lengths)):
        keys, values = (
            np.moveaxis(cache[pages], 1, 0).reshape(cache.shape[1], -1, cache.shape[3])[None, :, :count]
            for cache in (k_cache, v_cache)
        )
        out[b] = attention(q[b : b + 1, :, None], keys, values, scale=scale)[0, :, 0]
    return out


def _decode_outputs(
    q: TensorSpec,
    k_cache: TensorSpec,
    v_cache: TensorSpec,
    block_table: TensorSpec,
    lengths: TensorSpec,
    scale: float | None = None,
) -> tuple[TensorSpec, ...]:
    name = "decode_attention"
    check_shape(name, "q", q, ("B", "Hq", "D"))
    check_shape(name, "k_cache", k_cache, ("P", "Hkv", "page", q.shape[2]))
    check_shape(name, "v_cache", v_cache, tuple(k_cache.shape))
    check_shape(name, "block_table", block_table, (q.shape[0], "n"))
    check_shape(name, "lengths", lengths, (q.shape[0],))
    if q.shape[1] % k_cache.shape[1]:
        raise InputError(f"{name}: k_cache: {k_cache.shape[1]} heads, q has {q.shape[1]}, which must be a multiple")
    if q.shape[1] // k_cache.shape[1] > LARGEST_GROUP:
        raise InputError(f"{name}: q: {q.shape[1]} heads for {k_cache.shape[1]} of k, at most {LARGEST_GROUP} for each")
    page = k_cache.shape[2]
    if page & (page - 1):
        raise InputError(f"{name}: k_cache: {page} tokens a page, must be a power of two")
    for argument, spec in (("block_table", block_table), ("lengths", lengths)):
        check_dtype(name, argument, spec, "int32")
    return (TensorSpec(tuple(q.shape), q.dtype),)


def _context(k_cache: TensorSpec, block_table: TensorSpec) -> int:
    """Tokens that the block tables name, over all sequences: what a kernel without values takes as their lengths."""
    return block_table.shape[0] * block_table.shape[1] * k_cache.shape[2]


def _decode_flops(
    q: TensorSpec, k_cache: TensorSpec, v: TensorSpec, table: TensorSpec, *rest: object, **_: object
) -> int:
    return 4 * _context(k_cache, table) * q.shape[1] * q.shape[2]


def _decode_reads(
    q: TensorSpec, k_cache: TensorSpec, v: TensorSpec, table: TensorSpec, lengths: TensorSpec, **_: object
) -> int:
    caches = 2 * _context(k_cache, table) * k_cache.shape[1] * q.shape[2] * itemsize(k_cache)
    return nbytes(q) + caches + nbytes(table) + nbytes(lengths)


OPERATORS = (
    Operator("attention", "attention.py", attention, _outputs, _flops),
    Operator("attention_backward", "attention_backward.py", attention_backward, _backward_outputs, _backward_flops),
    Operator(
        "decode_attention", "decode_attention.py", decode_attention, _decode_outputs, _decode_flops, _decode_reads
    ),
)
