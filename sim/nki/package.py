"""The top level of `nki`, current generation."""

from sim.nki.kernel import Kernel, jit, simulate
from sim.nki.tensor import NkiTensor

__version__ = "0.6.0"
__all__ = ["Kernel", "NkiTensor", "jit", "simulate"]
