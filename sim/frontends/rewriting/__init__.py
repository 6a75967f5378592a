"""Joins what belongs together, as a compiler would before it chooses kernels."""

from sim.frontends.rewriting.attention import find_attention, share_heads
from sim.frontends.rewriting.joining import join_elementwise, join_products
from sim.frontends.rewriting.recognition import find_activations, find_norms
from sim.frontends.rewriting.simplification import simplify

__all__ = [
    "find_activations",
    "find_attention",
    "find_norms",
    "join_elementwise",
    "join_products",
    "share_heads",
    "simplify",
]
