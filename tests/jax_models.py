"""Small JAX models: a decoder whose layers are scanned, a convolutional net, an audio encoder."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Weights = Any


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    return jnp.asarray(scale * np.random.default_rng((seed, *shape)).standard_normal(shape), jnp.float32)


def rms_norm(x: Array, weight: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * weight + bias


def attention(p: Weights, x: Array, causal: bool) -> Array:
    batch, tokens, width = x.shape
    q, k, v = ((x @ p[name]).reshape(batch, tokens, 4, width // 4) for name in "qkv")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // 4)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e30)
    out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    return out.reshape(batch, tokens, width) @ p["o"]


def block(p: Weights, x: Array) -> Array:
    x = x + attention(p, rms_norm(x, p["norm1"]), True)
    y = rms_norm(x, p["norm2"])
    return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]


def decoder(p: Weights, ids: Array) -> Array:
    x = p["words"][ids]
    x, _ = jax.lax.scan(lambda carried, layer: (block(layer, carried), None), x, p["layers"])
    return rms_norm(x, p["norm"]) @ p["words"].T


def conv_net(p: Weights, x: Array) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(jax.lax.conv_general_dilated(x, p["first"], (1, 1), "SAME", dimension_numbers=layout))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.lax.conv_general_dilated(x, p["second"], (2, 2), "SAME", dimension_numbers=layout, feature_group_count=4)
    return jax.nn.gelu(x).mean((1, 2)) @ p["head"]


def audio_encoder(p: Weights, x: Array) -> Array:
    layout = ("NWC", "WIO", "NWC")
    x = jax.nn.gelu(jax.lax.conv_general_dilated(x, p["first"], (1,), "SAME", dimension_numbers=layout))
    x = jax.nn.gelu(jax.lax.conv_general_dilated(x, p["second"], (2,), "SAME", dimension_numbers=layout))
    x = x + attention(p, layer_norm(x, p["norm1"], p["bias1"]), False)
    return x + jax.nn.gelu(layer_norm(x, p["norm2"], p["bias2"]) @ p["up"]) @ p["down"]


def layer(width: int, inner: int) -> Weights:
    made = {name: normal(width, width, seed=at, scale=0.2) for at, name in enumerate("qkvo")}
    made |= {name: normal(width, seed=7) + 1 for name in ("norm1", "norm2")}
    made |= {name: normal(width, inner, seed=at, scale=0.2) for at, name in enumerate(("gate", "up"))}
    return made | {"down": normal(inner, width, scale=0.2)}


def models() -> dict[str, tuple[Any, Weights, Array]]:
    """Functions with their weights and an input."""
    width = 32
    layers = jax.tree_util.tree_map(lambda one: jnp.stack([one, 0.9 * one]), layer(width, 48))
    text = {"words": normal(50, width), "layers": layers, "norm": normal(width) + 1}
    images = {"first": normal(3, 3, 3, 8), "second": normal(3, 3, 2, 16), "head": normal(16, 5)}
    sound = layer(width, 48) | {"first": normal(3, 8, width, scale=0.3), "second": normal(3, width, width, scale=0.1)}
    sound |= {name: normal(width, seed=3) for name in ("bias1", "bias2")}
    return {
        "decoder": (decoder, text, jnp.arange(16).reshape(2, 8) * 3),
        "conv net": (conv_net, images, normal(2, 16, 16, 3)),
        "audio encoder": (audio_encoder, sound, normal(2, 20, 8)),
    }
