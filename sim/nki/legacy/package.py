"""The top level of `neuronxcc.nki`."""

from sim.nki.legacy.framework import FrameworkKernel
from sim.nki.legacy.kernel import LegacyKernel, baremetal, benchmark, jit, profile, simulate_kernel, trace
from sim.nki.legacy.tile import Tile

nki_jit, tensor = jit, Tile
__version__ = "0.1.0"
__all__ = [
    "FrameworkKernel",
    "LegacyKernel",
    "baremetal",
    "benchmark",
    "jit",
    "nki_jit",
    "profile",
    "simulate_kernel",
    "tensor",
    "trace",
]
