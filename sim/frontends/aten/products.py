"""Products and attention."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from sim.frontends.aten.elementwise import apply, together
from sim.frontends.builder import Builder, Number
from sim.frontends.ir import Value


def mm(b: Builder, specs: list, x: Value, y: Value, *_: Any) -> Value:
    return b.matmul(*together(b, x, y))


def _scaled(b: Builder, value: Value, factor: Number) -> Value:
    return value if factor == 1 else b.map("mul", value, float(factor))


def addmm(b: Builder, specs: list, bias: Value, x: Value, y: Value, beta: Number = 1, alpha: Number = 1) -> Value:
    """beta bias + alpha x y"""
    return apply(b, "add", _scaled(b, b.matmul(x, y), alpha), _scaled(b, bias, beta))


def linear(b: Builder, specs: list, x: Value, weight: Value, bias: Value | None = None) -> Value:
    out = b.dot(x, weight, ((x.rank - 1,), (1,)))
    return out if bias is None else b.map("add", out, bias)


def vector(b: Builder, specs: list, x: Value, y: Value) -> Value:
    """Of a vector with a vector, or a matrix with one."""
    return b.dot(x, y, ((x.rank - 1,), (0,)))


def attention(
    b: Builder,
    specs: list,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *_: Any,
    attn_mask: Value | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    **__: Any,
) -> Value:
    """softmax(q kᵀ scale + mask) v, in parts: rewriting finds the operator again where there is one."""
    out, _ = attend(b, q, k, v, attn_mask if mask is None else mask, causal, scale)
    return out


def attend(
    b: Builder, q: Value, k: Value, v: Value, mask: Value | None, causal: bool, scale: float | None
) -> tuple[Value, Value]:
    """Attention, and the logarithm of the sums of its powers [B, H, S]."""
    if q.rank == 4 and k.rank == 4 and q.shape[1] != k.shape[1]:
        k, v = (_repeated(b, one, q.shape[1] // one.shape[1]) for one in (k, v))
    scores = b.map("mul", b.matmul(q, b.swapped(k, -1, -2)), float(scale or 1 / sqrt(q.shape[-1])))
    if causal:
        seen = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
        scores = b.map("select", b.constant(seen, "bool"), scores, float("-inf"), dtype=scores.dtype)
    if mask is not None:
        if mask.dtype == "bool":
            scores = b.map("select", mask, scores, b.constant(float("-inf"), scores.dtype))
        else:
            scores = b.map("add", scores, b.cast(mask, scores.dtype))
    largest = b.reduce("max", scores, [-1], keep=True)
    powers = b.map("exp", b.map("sub", scores, largest))
    total = b.reduce("sum", powers, [-1], keep=True)
    lse = b.map("add", largest, b.map("log", total))
    return b.matmul(b.map("div", powers, total), v), b.reshape(lse, lse.shape[:-1])


def _repeated(b: Builder, x: Value, times: int) -> Value:
    """Heads shared by queries, once for each."""
    batch, heads, tokens, depth = x.shape
    wide = b.expand(b.reshape(x, (batch, heads, 1, tokens, depth)), (batch, heads, times, tokens, depth))
    return b.reshape(wide, (batch, heads * times, tokens, depth))


def flash(
    b: Builder,
    specs: list,
    q: Value,
    k: Value,
    v: Value,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    if attn_mask is None and _has_operator(q, k, causal):
        specs = [(q.shape[:3] + v.shape[3:], q.dtype), (q.shape[:3], "fp32")]
        factor = float(scale or 1 / sqrt(q.shape[3]))
        return b.add("attention", [q, k, v], *specs, causal=causal, scale=factor, lse=True)
    return attend(b, q, k, v, attn_mask, causal, scale)


def _has_operator(q: Value, k: Value, causal: bool) -> bool:
    """Whether the operator sees keys as PyTorch does: it counts queries from the end, PyTorch from the beginning."""
    return q.rank == 4 and (not causal or q.shape[2] == k.shape[2])


def flash_backward(
    b: Builder,
    specs: list,
    dout: Value,
    q: Value,
    k: Value,
    v: Value,
    out: Value,
    lse: Value,
    dropout: float,
    causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """By the operator where no mask is given, else in parts."""
    factor = float(scale or 1 / sqrt(q.shape[-1]))
    if attn_mask is None and _has_operator(q, k, causal):
        grads = [(one.shape, one.dtype) for one in (q, k, v)]
        given = [q, k, v, out, dout, b.cast(lse, "fp32")]
        return b.add("attention_backward", given, *grads, causal=causal, scale=factor)
    scores = b.map("mul", b.matmul(q, b.swapped(k, -1, -2)), factor)
    if attn_mask is not None:
        scores = b.map("add", scores, attn_mask)
    if causal:
        seen = b.constant(np.tri(q.shape[-2], k.shape[-2], dtype=bool), "bool")
        scores = b.map("select", seen, scores, b.constant(float("-inf"), scores.dtype))
    shares = b.map("exp", b.map("sub", scores, b.cast(b.reshape(lse, (*lse.shape, 1)), scores.dtype)))
    delta = b.reduce("sum", b.map("mul", dout, out), [-1], keep=True)
    slope = b.map("mul", shares, b.map("sub", b.matmul(dout, b.swapped(v, -1, -2)), delta))
    ds = b.map("mul", slope, factor)
    return b.matmul(ds, k), b.matmul(b.swapped(ds, -1, -2), q), b.matmul(b.swapped(shares, -1, -2), dout)


RULES: dict[str, Callable[..., Any]] = {
    "mm": mm, "bmm": mm, "matmul": mm, "addmm": addmm, "baddbmm": addmm, "linear": linear,
    "mv": vector, "dot": vector, "scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention_for_cpu": flash,
    "_scaled_dot_product_flash_attention_for_cpu_backward": flash_backward,
}  # fmt: skip
